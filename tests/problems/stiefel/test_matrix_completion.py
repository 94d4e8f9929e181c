"""Low-rank matrix completion: its least squares, answer and curvature, and what generated and
loaded data are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import topologies as tp
from decentorth import DRFGT, DRGTA, RGD, ConjugateGradients, solve
from decentorth.problems import MatrixCompletion, MatrixCompletionSettings, Spread
from decentorth.protocols import Array, KnownOptimum
from decentorth.stopping import Error
from tests.support.building import built
from tests.support.problems import relative, stack

D, R = 12, 3
COLUMNS = (7, 7, 1, 30, 7, 2, 2, 9)
N = len(COLUMNS)


def observed(columns: tuple[int, ...] = COLUMNS, seed: int = 0, share: float = 0.6) -> list[Array]:
    """Gaussian ``(D, T_i)`` with NaN for what is missing; each column keeps more than R entries."""
    rng = np.random.default_rng(seed)
    data = []
    for count in columns:
        a = rng.standard_normal((D, count))
        a[
            rng.permuted(np.tile(np.arange(D)[:, None], count), axis=0)
            >= rng.integers(R + 2, round(D * share) + 2, count)
        ] = np.nan
        data.append(a)
    return data


def gaussian(n: int = N, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, D, R))


def test_large_agents_in_parts_have_the_bits_of_the_whole() -> None:
    problem = built(
        MatrixCompletionSettings(dimension=150, columns=80, rank=12, oversampling=2.5).problem(5, 0)
    )
    x = np.random.default_rng(0).standard_normal((5, 150, 12))
    gradient = problem.gradient(x)
    for own in (slice(0, 1), slice(1, 4), slice(3, 5)):
        assert problem.restrict(own).gradient(x[own]).tobytes() == gradient[own].tobytes()


def test_an_agent_with_singular_least_squares_disturbs_nobody() -> None:
    """Neither an exception nor a warning, but NaN where x has dependent columns."""
    problem, x = MatrixCompletion(observed((7,) * 4), R), gaussian(4)
    gradient = problem.gradient(x)
    x[2] = 0.0
    spoilt = problem.gradient(x)
    assert not np.isfinite(spoilt[2]).any()
    assert spoilt[[0, 1, 3]].tobytes() == gradient[[0, 1, 3]].tobytes()


def test_without_ridge_an_infimum_need_not_be_attained() -> None:
    """x = (1, e u) / |.| leaves the same residual of a column without entry 0 for every e > 0, so
    its gradient grows as 1 / e; at e = 0 the least squares are singular. A ridge bounds it."""
    a = np.array([[1.0, np.nan], [np.nan, 1.0], [np.nan, 2.0]])
    free = MatrixCompletion([a], 1)
    small = np.array([1e-1, 1e-2, 1e-3, 1e-4])
    points = [np.array([[[1.0], [e], [0.0]]]) / np.hypot(1.0, e) for e in small]
    np.testing.assert_allclose([free.value(x)[0] for x in points], 2.0)
    lengths = np.array([np.linalg.norm(free.gradient(x)) for x in points])
    np.testing.assert_allclose(lengths * small, 2.0, rtol=0.02)
    bent = MatrixCompletion([a], 1, ridge=0.01)
    most = np.linalg.norm(a[1:, 1]) ** 2 / (2.0 * np.sqrt(0.01))
    assert max(np.linalg.norm(bent.gradient(x)) for x in points) < most


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_conjugate_gradients_by_sums_complete_a_matrix_with_ridge(seed: int) -> None:
    """Without ridge both descents end at singular least squares, with errors of 1.1."""
    settings = MatrixCompletionSettings(dimension=40, rank=3, columns=40, ridge=0.01)
    problem = settings.problem(50, seed=seed)
    W = tp.metropolis_weights(tp.grid(5, 10))
    result = solve(problem, ConjugateGradients(), W, iterations=300, seed=seed, rows=2)
    norm = result.history["gradient_norm"]
    assert norm[-1] < 1e-11 * norm[0]
    truth = built(replace(settings, ridge=0.0).problem(50, seed)).optimum
    assert np.linalg.norm(result.x[0] - truth @ (truth.T @ result.x[0])) < 0.05


def test_generated_data_is_explained_by_its_true_column_space() -> None:
    """f, its gradient and the error vanish there, and the completed matrix is the true one: of rank
    r, unlike what was observed."""
    problem = built(MatrixCompletionSettings(dimension=40, columns=25, rank=3).problem(6, 2))
    assert (isinstance(problem, KnownOptimum), problem.error_name) == (True, "subspace_distance")
    basis = problem.optimum
    x = stack(basis, 6)
    assert problem.value(x).max() < 1e-25
    assert np.abs(problem.gradient(x)).max() < 1e-10
    assert problem.error(basis) < 1e-13
    turned = basis @ np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    assert problem.error(turned) < 1e-13
    away = np.linalg.qr(basis + 0.1 * np.random.default_rng(1).standard_normal(basis.shape))[0]
    assert problem.error(away) > 0.1
    assert problem.value(stack(away, 6)).min() > 1e-3
    completed = np.hstack(problem.completed(x))
    assert np.linalg.svd(completed, compute_uv=False)[3] < 1e-10
    full = built(
        MatrixCompletionSettings(
            dimension=40, columns=25, rank=3, oversampling=40 * 150 / (3 * 187)
        ).problem(6, 2)
    )
    np.testing.assert_allclose(np.hstack(full.completed(x)), completed, atol=1e-9)


@pytest.mark.parametrize("oversampling", [1.2, 5.5])
def test_generated_data_has_the_published_number_of_observed_entries(oversampling: float) -> None:
    """nu r (d + T - r), the same number in each column or one more; every row is drawn from; each
    agent sees another pattern."""
    d, columns, r, n = 40, 11, 3, 7
    problem = built(
        MatrixCompletionSettings(
            dimension=d, columns=columns, rank=r, oversampling=oversampling
        ).problem(n, 0)
    )
    masks = np.concatenate([mask for _, (mask, _) in problem._columns])
    assert masks.sum() == round(oversampling * r * (d + n * columns - r))
    counts = masks.sum(axis=1)
    assert counts.max() - counts.min() <= 1
    assert masks.any(axis=(0, 2)).all()
    assert len({mask.tobytes() for mask in masks}) == n


def test_noise_has_its_size_and_the_answer_is_then_unknown() -> None:
    settings: dict[str, Any] = {"dimension": 60, "columns": 50, "rank": 2, "oversampling": 5.0}
    clean, noisy = (
        built(MatrixCompletionSettings(**settings, noise=noise).problem(4, 0))
        for noise in (0.0, 0.25)
    )
    pairs = [
        (a, b, mask)
        for (_, (mask, a)), (_, (_, b)) in zip(clean._columns, noisy._columns, strict=True)
    ]
    differences = np.concatenate([(b - a)[mask > 0] for a, b, mask in pairs])
    assert np.std(differences) == pytest.approx(0.25, rel=0.05)
    for problem in (noisy, built(MatrixCompletionSettings(**settings, ridge=0.1).problem(4, 0))):
        assert not problem.error_name
        with pytest.raises(
            ValueError,
            match="the true column space is known for generated data without noise and ridge",
        ):
            problem.error(problem.start(0))


def test_drfgt_completes_the_matrix_with_nothing_tuned() -> None:
    problem = MatrixCompletionSettings(dimension=40, columns=30, rank=3, oversampling=4.0).problem(
        6, 0
    )
    result = solve(problem, DRFGT(), "ring", iterations=3000, record_every=50, stopping=Error(1e-8))
    assert result.history["error"][0] > 1.0
    assert result.converged, result.message
    found, true = (
        np.hstack(result.problem.completed(x)) for x in (result.x, stack(result.problem.optimum, 6))
    )
    assert relative(found, true) < 1e-6


def saved(kind: str, folder: Path, a: Array) -> str:
    """The columns of a as rows of a file, whose stored entries are the observed ones."""
    path, rows = folder / f"a.{kind}", a.T
    seen = np.nonzero(~np.isnan(rows))
    if kind == "npy":
        np.save(path, rows)
    else:
        scipy.io.mmwrite(
            path, scipy.sparse.coo_array((rows[seen], seen), shape=rows.shape), precision=17
        )
    return str(path)


@pytest.mark.parametrize("kind", ["npy", "mtx"])
def test_files_of_partly_observed_matrices(kind: str, tmp_path: Path) -> None:
    """A stored zero is an observed zero; the files' rows are the columns of A, evenly divided."""
    a = observed((20,))[0]
    a[np.flatnonzero(~np.isnan(a[:, 3]))[0], 3] = 0.0
    settings = MatrixCompletionSettings(data=saved(kind, tmp_path, a), rank=R, shuffle=False)
    problem = built(settings.problem(3, 0))
    x = gaussian(3)
    assert problem.n_samples.tolist() == [7, 7, 6]
    assert (
        problem.gradient(x).tobytes()
        == MatrixCompletion(np.split(a, [7, 14], axis=1), R).gradient(x).tobytes()
    )
    assert not problem.error_name
    shuffled = built(MatrixCompletionSettings(data=settings.data, rank=R).problem(3, 0))
    point = stack(x[0], 3)
    assert shuffled.value(point).sum() == pytest.approx(problem.value(point).sum(), rel=1e-12)
    assert not np.allclose(shuffled.value(point), problem.value(point))


def test_held_out_entries_are_judged_and_play_no_part() -> None:
    """A division of the entries; the error written agent by agent; at the true column space it
    vanishes."""
    settings = MatrixCompletionSettings(dimension=40, columns=25, rank=3, oversampling=5.0)
    whole = built(settings.problem(4, 1))
    problem = built(replace(settings, held_out=0.2).problem(4, 1))
    assert problem.holds_out
    assert not whole.holds_out
    kept, out, every = (
        [stacked for _, stacks in runs for stacked in zip(*stacks, strict=True)]
        for runs in (problem._columns, problem._held, whole._columns)
    )
    for (mask, a), (chosen, values), (both, entries) in zip(kept, out, every, strict=True):
        assert np.array_equal(mask + chosen, both)
        assert np.array_equal(a + values, entries)
        assert np.array_equal(chosen.sum(0), np.rint(0.2 * both.sum(0)))
    rng = np.random.default_rng(0)
    x = np.linalg.qr(rng.standard_normal((4, 40, 3)))[0]
    errors = problem.held_out_errors(x)
    for i, ((mask, a), (chosen, values)) in enumerate(zip(kept, out, strict=True)):
        total = 0.0
        for j in range(25):
            rows = mask[:, j] > 0
            v = np.linalg.lstsq(x[i][rows], a[rows, j], rcond=None)[0]
            total += (chosen[:, j] * (x[i] @ v - values[:, j]) ** 2).sum()
        np.testing.assert_allclose(errors[i], [total, chosen.sum()], rtol=1e-10)
    assert problem.held_out_errors(stack(problem.optimum, 4))[:, 0].max() < 1e-24
    assert problem.restrict(slice(1, 3)).held_out_errors(x[1:3]).tobytes() == errors[1:3].tobytes()
    with pytest.raises(
        ValueError, match=r"held_out 0\.001 leaves agent 0 without a held-out entry"
    ):
        built(replace(settings, held_out=0.001).problem(4, 1))


@pytest.mark.slow
def test_the_history_has_the_held_out_error_and_it_falls() -> None:
    """The root mean squared error over all agents at the mean point, also of one agent in
    blocks."""
    settings = MatrixCompletionSettings(
        dimension=30, columns=20, rank=2, oversampling=5.0, held_out=0.1
    )
    problem = built(settings.problem(4, 0))
    result = solve(problem, DRGTA(), "ring", iterations=900)
    column = result.history["held_out_rmse"]
    hat = problem.constraint.project(result.x.mean(0)[None])[0]
    total = problem.held_out_errors(stack(hat, 4)).sum(0)
    assert column[-1] == pytest.approx(np.sqrt(total[0] / total[1]), rel=1e-9)
    assert column[-1] < 0.01 * column[0]
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 2)))[0]
    spread = solve(Spread(settings.problem(4, 0)), RGD(), x0=start, iterations=0)
    alone = solve(problem, DRGTA(), "ring", x0=start, iterations=0)
    assert spread.history["held_out_rmse"][0] == pytest.approx(
        alone.history["held_out_rmse"][0], rel=1e-12
    )
