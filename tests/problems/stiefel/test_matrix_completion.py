"""Low-rank matrix completion: the formulas, one column at a time, and what generated and loaded data are."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

import decentorth as do
import topologies as tp
from decentorth import DRFGT, solve
from decentorth.problems import MatrixCompletion, MatrixCompletionSettings
from decentorth.problems.stiefel.matrix_completion import least_squares
from decentorth.protocols import Array, KnownOptimum, Smooth
from decentorth.stopping import Error
from tests.support.building import built
from tests.support.problems import relative, stack

D, R = 12, 3
COLUMNS = (7, 7, 1, 30, 7, 2, 2, 9)
"""Columns of each agent."""
N = len(COLUMNS)
ridges = pytest.mark.parametrize("ridge", [0.0, 0.3])


def observed(columns: tuple[int, ...] = COLUMNS, seed: int = 0, share: float = 0.6) -> list[Array]:
    """Gaussian ``(D, T_i)`` with NaN for what is missing; each column keeps more than R entries."""
    rng = np.random.default_rng(seed)
    data = []
    for count in columns:
        a = rng.standard_normal((D, count))
        a[rng.permuted(np.tile(np.arange(D)[:, None], count), axis=0) >= rng.integers(R + 2, round(D * share) + 2, count)] = np.nan
        data.append(a)
    return data


def gaussian(n: int = N, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((n, D, R))


def coefficients(column: Array, x: Array, ridge: float) -> tuple[Array, Array, Array]:
    """The observed rows of x, the observed entries, and the best v: least squares on the rows and on sqrt(ridge) I."""
    seen = ~np.isnan(column)
    rows, entries = x[seen], column[seen]
    r = x.shape[1]
    v = np.linalg.lstsq(np.vstack([rows, np.sqrt(ridge) * np.eye(r)]), np.append(entries, np.zeros(r)), rcond=None)[0]
    return rows, entries, v


def naive_value(a: Array, x: Array, ridge: float) -> float:
    total = 0.0
    for column in a.T:
        rows, entries, v = coefficients(column, x, ridge)
        total += 0.5 * float(np.sum((rows @ v - entries) ** 2) + ridge * np.sum(v**2))
    return total


def naive_gradient(a: Array, x: Array, ridge: float) -> Array:
    gradient = np.zeros_like(x)
    for column in a.T:
        rows, entries, v = coefficients(column, x, ridge)
        gradient[~np.isnan(column)] += np.outer(rows @ v - entries, v)
    return gradient


@ridges
@pytest.mark.parametrize("size", [0.3, 1.0, 2.0])
def test_values_and_gradients_are_the_formulas(ridge: float, size: float) -> None:
    """On the manifold (orthonormal x of any size times it) and anywhere else."""
    data = observed()
    problem = MatrixCompletion(data, R, ridge=ridge)
    for x in (gaussian(), size * np.linalg.qr(gaussian(seed=1))[0]):
        value, gradient = problem.value(x), problem.gradient(x)
        np.testing.assert_allclose(value, [naive_value(a, p, ridge) for a, p in zip(data, x, strict=True)], rtol=1e-11)
        for found, a, p in zip(gradient, data, x, strict=True):
            expected = naive_gradient(a, p, ridge)
            np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())
        assert gradient.flags.c_contiguous
        assert not np.shares_memory(gradient, problem.gradient(x))


def test_without_ridge_only_the_range_of_x_counts() -> None:
    """f(x R) = f(x) for invertible R, so x^T G(x) = 0 and no multiplier: with ridge neither holds."""
    x, turn = gaussian(), np.random.default_rng(5).standard_normal((R, R))
    plain, ridged = MatrixCompletion(observed(), R), MatrixCompletion(observed(), R, ridge=0.3)
    np.testing.assert_allclose(plain.value(x @ turn), plain.value(x), rtol=1e-9)
    for problem, same in ((plain, True), (ridged, False)):
        gradient = problem.gradient(x)
        products = np.abs(x.swapaxes(-1, -2) @ gradient).max((-2, -1)) / np.abs(gradient).max((-2, -1))
        assert (products < 1e-11).all() == same
        assert (products > 1e-2).all() != same


def test_least_squares_are_those_of_numpy_for_many_sizes() -> None:
    rng = np.random.default_rng(0)
    for n, d, t, r in ((1, 1, 1, 1), (3, 5, 4, 1), (2, 40, 30, 10), (1, 60, 7, 25)):
        mask = np.ones((n, d, t))
        mask[:, : d // 4] = 0.0
        a, x = mask * rng.standard_normal((n, d, t)), rng.standard_normal((n, d, r))
        expected = [np.linalg.lstsq(p[d // 4 :], b[d // 4 :], rcond=None)[0] for p, b in zip(x, a, strict=True)]
        np.testing.assert_allclose(least_squares(mask, a, x, 0.0), expected, rtol=1e-8, atol=1e-10)


def test_large_agents_in_parts_have_the_bits_of_the_whole() -> None:
    """Where matrix products take other paths than for small ones."""
    problem = built(MatrixCompletionSettings(dimension=150, columns=80, rank=12, oversampling=2.5).problem(5, 0))
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


def test_generated_data_is_explained_by_its_true_column_space() -> None:
    """f, its gradient and the error vanish there, and the completed matrix is the true one: of rank r, unlike what was observed."""
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
    full = built(MatrixCompletionSettings(dimension=40, columns=25, rank=3, oversampling=40 * 150 / (3 * 187)).problem(6, 2))
    np.testing.assert_allclose(np.hstack(full.completed(x)), completed, atol=1e-9)


@pytest.mark.parametrize("oversampling", [1.2, 3.0, 5.5])
def test_generated_data_has_the_published_number_of_observed_entries(oversampling: float) -> None:
    """nu r (d + T - r), the same number in each column or one more; every row is drawn from; each agent sees another pattern."""
    d, columns, r, n = 40, 11, 3, 7
    problem = built(MatrixCompletionSettings(dimension=d, columns=columns, rank=r, oversampling=oversampling).problem(n, 0))
    masks = np.concatenate([mask for _, (mask, _) in problem._columns])
    assert masks.sum() == round(oversampling * r * (d + n * columns - r))
    counts = masks.sum(axis=1)
    assert counts.max() - counts.min() <= 1
    assert masks.any(axis=(0, 2)).all()
    assert len({mask.tobytes() for mask in masks}) == n


def test_noise_has_its_size_and_the_answer_is_then_unknown() -> None:
    """Only the noise differs between the two; a ridge moves the answer as well."""
    settings: dict[str, Any] = {"dimension": 60, "columns": 50, "rank": 2, "oversampling": 5.0}
    clean, noisy = (built(MatrixCompletionSettings(**settings, noise=noise).problem(4, 0)) for noise in (0.0, 0.25))
    pairs = [(a, b, mask) for (_, (mask, a)), (_, (_, b)) in zip(clean._columns, noisy._columns, strict=True)]
    differences = np.concatenate([(b - a)[mask > 0] for a, b, mask in pairs])
    assert np.std(differences) == pytest.approx(0.25, rel=0.05)
    for problem in (noisy, built(MatrixCompletionSettings(**settings, ridge=0.1).problem(4, 0))):
        assert not problem.error_name
        with pytest.raises(ValueError, match="the true column space is known for generated data without noise and ridge"):
            problem.error(problem.start(0))


def test_the_start_is_not_the_answer() -> None:
    """Both are drawn from the seed, from different streams."""
    problem = built(MatrixCompletionSettings(dimension=50, rank=2).problem(2, 0))
    assert problem.error(problem.start(0)) > 1.0


def test_curvature_near_the_answer() -> None:
    """No constant holds for all x, so none is claimed; at an exact answer the curvature is at most ||V_i||_2^2."""
    problem = built(MatrixCompletionSettings(dimension=20, columns=15, rank=2).problem(3, 1))
    assert not isinstance(problem, Smooth)
    x = stack(problem.optimum, 3)
    bound = np.array([np.linalg.norm(a, 2) ** 2 for a in problem.completed(x)])
    step = 1e-6
    columns = [
        (problem.gradient(x + step * u) - problem.gradient(x - step * u)).reshape(3, -1) / (2 * step)
        for u in np.eye(40).reshape(40, 20, 2)
    ]
    steepest = np.abs(np.linalg.eigvalsh(np.stack(columns, axis=-1))).max(-1)
    assert (steepest < bound).all()
    assert (steepest > 0.1 * bound).all()


@pytest.mark.parametrize("seed", [0, 1])
def test_drfgt_completes_the_matrix_with_nothing_tuned(seed: int) -> None:
    problem = MatrixCompletionSettings(dimension=40, columns=30, rank=3, oversampling=4.0).problem(6, seed)
    W = tp.metropolis_weights(tp.ring(6))
    result = solve(problem, DRFGT(), W, iterations=3000, record_every=50, stopping=Error(1e-8), seed=seed)
    assert result.converged, result.message
    found, true = (np.hstack(result.problem.completed(x)) for x in (result.x, stack(result.problem.optimum, 6)))
    assert relative(found, true) < 1e-6


def saved(kind: str, folder: Path, a: Array) -> str:
    """The columns of a as rows of a file, whose stored entries are the observed ones."""
    path, rows = folder / f"a.{kind}", a.T
    seen = np.nonzero(~np.isnan(rows))
    sparse = scipy.sparse.coo_array((rows[seen], seen), shape=rows.shape)
    if kind == "npy":
        np.save(path, rows)
    elif kind == "csv":
        path.write_text("".join(",".join(repr(float(v)) for v in row) + "\n" for row in rows))
    elif kind == "npz":
        scipy.sparse.save_npz(path, sparse.tocsr())
    else:
        scipy.io.mmwrite(path, sparse, precision=17)
    return str(path)


@pytest.mark.parametrize("kind", ["npy", "csv", "npz", "mtx"])
def test_files_of_partly_observed_matrices(kind: str, tmp_path: Path) -> None:
    """A stored zero is an observed zero; the files' rows are the columns of A, evenly divided."""
    a = observed((20,))[0]
    a[np.flatnonzero(~np.isnan(a[:, 3]))[0], 3] = 0.0
    settings = MatrixCompletionSettings(data=saved(kind, tmp_path, a), rank=R, shuffle=False)
    problem = built(settings.problem(3, 0))
    x = gaussian(3)
    assert problem.n_samples.tolist() == [7, 7, 6]
    assert problem.gradient(x).tobytes() == MatrixCompletion(np.split(a, [7, 14], axis=1), R).gradient(x).tobytes()
    assert not problem.error_name
    shuffled = built(MatrixCompletionSettings(data=settings.data, rank=R).problem(3, 0))
    point = stack(x[0], 3)
    assert shuffled.value(point).sum() == pytest.approx(problem.value(point).sum(), rel=1e-12)
    assert not np.allclose(shuffled.value(point), problem.value(point))


def short() -> list[Array]:
    data = observed((7, 7, 7))
    data[1][:, 4] = data[1][:, 6] = np.nan
    data[1][:2, 4] = 1.0
    return data


BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "too few entries": (
        lambda: MatrixCompletion(short(), R, first_agent=4, n_agents=9),
        "each column must have at least rank = 3 observed entries: column 4 of agent 5 has 2 (2 such columns of that agent)",
    ),
    "r > d": (lambda: MatrixCompletion([np.ones((5, 9))], 6), "got d = 5 and r = 6"),
    "ridge": (lambda: MatrixCompletion(observed(), R, ridge=-1.0), "ridge must be finite and not negative, got -1.0"),
    "too many entries": (
        lambda: MatrixCompletionSettings(dimension=20, columns=10, oversampling=9).problem(2, 0),
        "oversampling 9 asks for 1575 observed entries, but the 20 x 20 matrix has only 400: it can be at most 2.29 here",
    ),
    "too few for the rank": (
        lambda: MatrixCompletionSettings(dimension=20, columns=10, oversampling=0.5).problem(2, 0),
        "oversampling 0.5 asks for 88 observed entries, fewer than rank = 5 in each",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_where_and_what(name: str) -> None:
    build, words = BAD[name]
    with pytest.raises(ValueError, match=re.escape(words)):
        build()


def test_a_ridge_admits_columns_with_few_entries() -> None:
    """Even one with none, whose best v is zero."""
    x = gaussian(3)
    problem = MatrixCompletion(short(), R, ridge=0.2)
    for found, a, p in zip(problem.gradient(x), short(), x, strict=True):
        np.testing.assert_allclose(found, naive_gradient(a, p, 0.2), atol=1e-11)
    np.testing.assert_array_equal(problem.completed(x)[1][:, 6], 0.0)


def test_held_out_entries_are_judged_and_play_no_part() -> None:
    """A division of the entries; the error written agent by agent; at the true column space it vanishes."""
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
    with pytest.raises(ValueError, match=r"held_out 0\.001 leaves agent 0 without a held-out entry"):
        built(replace(settings, held_out=0.001).problem(4, 1))


@pytest.mark.slow
def test_the_history_has_the_held_out_error_and_it_falls() -> None:
    """The column is the root mean squared error over all agents at the mean point, also of one agent in blocks."""
    settings = MatrixCompletionSettings(dimension=30, columns=20, rank=2, oversampling=5.0, held_out=0.1)
    problem = built(settings.problem(4, 0))
    result = do.solve(problem, do.DRGTA(), tp.metropolis_weights(tp.ring(4)), iterations=900)
    column = result.history["held_out_rmse"]
    hat = problem.constraint.project(result.x.mean(0)[None])[0]
    total = problem.held_out_errors(stack(hat, 4)).sum(0)
    assert column[-1] == pytest.approx(np.sqrt(total[0] / total[1]), rel=1e-9)
    assert column[-1] < 0.01 * column[0]
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 2)))[0]
    spread = do.solve(do.problems.Spread(settings.problem(4, 0)), do.RGD(), x0=start, iterations=0)
    alone = do.solve(problem, do.DRGTA(), tp.metropolis_weights(tp.ring(4)), x0=start, iterations=0)
    assert spread.history["held_out_rmse"][0] == pytest.approx(alone.history["held_out_rmse"][0], rel=1e-12)
