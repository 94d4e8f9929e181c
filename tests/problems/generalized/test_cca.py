"""Canonical correlation analysis: objectives and products of samples divided over agents, the answer, generated and loaded data."""

from __future__ import annotations

import math
import struct
import tracemalloc
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg  # before memory is traced

from decentorth import RGD, GeneralizedLanding, solve
from decentorth.data import digits
from decentorth.problems import CCA, CCASettings, canonical_correlations
from decentorth.protocols import Array, Direction, KnownOptimum, LocalProducts, SampledMatrices, SampledProducts, Smooth
from decentorth.sets import SampleCovariance
from decentorth.stopping import Consensus, GradientNorm
from tests.support.building import built
from tests.support.marks import first_is_quick
from tests.support.problems import stack

N1, N2, P = 6, 5, 2
COUNTS = (40, 40, 1, 2, 90, 40, 7)
"""Samples of each agent: those with 1 and 2 keep them, the others keep covariances."""
N = len(COUNTS)

Views = tuple[list[Array], list[Array]]


def views(counts: tuple[int, ...] = COUNTS, seed: int = 0, n1: int = N1, n2: int = N2) -> Views:
    """Gaussian views with four common factors; each agent has its own scale."""
    rng = np.random.default_rng(seed)
    to_first, to_second = rng.standard_normal((4, n1)), rng.standard_normal((4, n2))
    first, second = [], []
    for i, m in enumerate(counts):
        common = rng.standard_normal((m, 4)) * np.array([2.0, 1.5, 0.5, 0.2]) * (1 + i)
        first.append(common @ to_first + rng.standard_normal((m, n1)))
        second.append(common @ to_second + rng.standard_normal((m, n2)))
    return first, second


def problem(ridge: float = 0.0, **given: Any) -> CCA:
    return CCA(*views(), P, ridge=ridge, **given)


def points(n: int = N, seed: int = 0, rows: int = N1 + N2, p: int = P) -> Array:
    return np.random.default_rng(seed).standard_normal((n, rows, p))


def covariances(first: list[Array], second: list[Array], ridge: float = 0.0) -> list[Array]:
    """C11 + r1 I, C12, C22 + r2 I of all samples."""
    a, b = np.concatenate(first), np.concatenate(second)
    c11, c22 = (v.T @ v / len(v) + ridge * (v * v).sum() / v.size * np.eye(v.shape[1]) for v in (a, b))
    return [c11, a.T @ b / len(a), c22]


def test_values_gradients_and_products_are_the_formulas() -> None:
    ridge, x = 0.3, points()
    cca, (first, second) = problem(ridge), views()
    total = sum(COUNTS)
    r1, r2 = (ridge * sum((v * v).sum() for v in view) / (total * view[0].shape[1]) for view in (first, second))
    np.testing.assert_allclose(cca.ridges, (r1, r2), rtol=1e-13)
    value, gradient, product, diagonal = cca.value(x), cca.gradient(x), cca.local_product(x), cca.local_diagonal()
    for i, (a, b, point) in enumerate(zip(first, second, x, strict=True)):
        s, u, v = N / total, point[:N1], point[N1:]
        assert value[i] == pytest.approx(-s * np.trace(u.T @ a.T @ b @ v), rel=1e-11)
        np.testing.assert_allclose(gradient[i], -s * np.concatenate((a.T @ (b @ v), b.T @ (a @ u))), atol=1e-12 * total)
        c1, c2 = s * a.T @ a + r1 * np.eye(N1), s * b.T @ b + r2 * np.eye(N2)
        np.testing.assert_allclose(product[i], np.concatenate((c1 @ u, c2 @ v)), atol=1e-12 * total)
        np.testing.assert_allclose(diagonal[i], np.concatenate((np.diag(c1), np.diag(c2))), rtol=1e-12)
        assert cca.lipschitz[i] == pytest.approx(s * np.linalg.norm(a.T @ b, 2), rel=1e-12)
    for made in (gradient, product):
        assert made.flags.c_contiguous
    assert {name: part.shape for name, part in cca.unpack(x).items()} == {"x": (N, N1, P), "y": (N, N2, P)}
    for need in (Smooth, SampledProducts, SampledMatrices, LocalProducts, KnownOptimum):
        assert isinstance(cca, need)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_means_over_unequal_agents_are_the_covariances_of_all_samples(ridge: float) -> None:
    """However the samples are divided; products with them are those of the constraint, and pooling is the mean."""
    cca, x = problem(ridge), stack(points(1)[0], N)
    c11, c12, c22 = covariances(*views(), ridge)
    whole = cca.pooled()
    for one in (cca, whole):
        np.testing.assert_allclose(one.constraint.parts[0].operator.stack[0], c11, rtol=1e-12)
        np.testing.assert_allclose(one.constraint.parts[1].operator.stack[0], c22, rtol=1e-12)
    u, v = x[0, :N1], x[0, N1:]
    np.testing.assert_allclose(cca.gradient(x).mean(0), -np.concatenate((c12 @ v, c12.T @ u)), atol=1e-11)
    np.testing.assert_allclose(cca.local_product(x).mean(0), cca.constraint.product(x[:1])[0], atol=1e-11)
    np.testing.assert_allclose(whole.gradient(x[:1]), cca.gradient(x).mean(0)[None], atol=1e-11)
    np.testing.assert_allclose(whole.local_product(x[:1]), cca.constraint.product(x[:1]), atol=1e-11)
    np.testing.assert_allclose(cca.local_diagonal().mean(0), np.concatenate((np.diag(c11), np.diag(c22))), rtol=1e-12)
    assert cca.value(x).mean() == pytest.approx(-np.trace(u.T @ c12 @ v), rel=1e-11)
    np.testing.assert_allclose(whole.optimum.correlations, cca.optimum.correlations, rtol=1e-12)


def test_the_answer_is_that_of_scipy_and_of_the_generalized_eigenvalue_problem() -> None:
    cca = problem(0.1)
    c11, c12, c22 = covariances(*views(), 0.1)
    roots = [scipy.linalg.sqrtm(c) for c in (c11, c22)]
    values = np.linalg.svd(np.linalg.solve(roots[0], c12) @ np.linalg.inv(roots[1]), compute_uv=False)
    np.testing.assert_allclose(cca.optimum.correlations, values, rtol=1e-10)
    zeros = np.zeros_like(c12)
    pencil = scipy.linalg.eigh(
        np.block([[np.zeros_like(c11), c12], [c12.T, np.zeros_like(c22)]]),
        np.block([[c11, zeros], [zeros.T, c22]]),
        eigvals_only=True,
    )
    np.testing.assert_allclose(cca.optimum.correlations, pencil[: -min(N1, N2) - 1 : -1], rtol=1e-10)
    _, x, y = cca.optimum
    np.testing.assert_allclose(x.T @ c11 @ x, np.eye(N2), atol=1e-12)
    np.testing.assert_allclose(y.T @ c22 @ y, np.eye(N2), atol=1e-12)
    np.testing.assert_allclose(x.T @ c12 @ y, np.diag(values), atol=1e-12)
    best = np.concatenate((x[:, :P], y[:, :P]))
    assert cca.constraint.feasibility(best[None])[0] < 1e-12
    assert cca.error(best) == pytest.approx(0.0, abs=1e-14)
    assert cca.subspace_error(best) < 1e-7
    assert cca.value(stack(best, N)).mean() == pytest.approx(-values[:P].sum(), rel=1e-12)
    assert cca.optimal_value == pytest.approx(-values[:P].sum(), rel=1e-12)


def test_the_error_is_a_difference_of_correlations_in_column_spaces() -> None:
    """Rotations within X and within Y change nothing; it is of second order in the subspaces' distance."""
    cca = problem(0.05)
    _, x, y = cca.optimum
    rng = np.random.default_rng(0)
    q, r = (np.linalg.qr(rng.standard_normal((P, P)))[0] for _ in range(2))
    best = np.concatenate((x[:, :P] @ q, y[:, :P] @ r))
    assert cca.error(best) == pytest.approx(0.0, abs=1e-14)
    assert cca.subspace_error(best) < 1e-7
    others = np.concatenate((x[:, 1 : P + 1], y[:, 1 : P + 1]))
    correlations = cca.optimum.correlations
    assert cca.error(others) == pytest.approx(correlations[0] - correlations[P], rel=1e-10)
    assert cca.subspace_error(others) == pytest.approx(2.0, rel=1e-10)
    direction = cca.constraint.tangent(best[None], points(1, seed=3))
    sizes = np.logspace(-4, -2, 7)
    near = [cca.constraint.project(best[None] + t * direction)[0] for t in sizes]
    assert np.polyfit(np.log(sizes), np.log([cca.error(one) for one in near]), 1)[0] == pytest.approx(2, abs=0.05)
    assert np.polyfit(np.log(sizes), np.log([cca.subspace_error(one) for one in near]), 1)[0] == pytest.approx(1, abs=0.05)


def test_singular_covariances_have_the_correlations_of_the_column_spaces() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 2)), rng.standard_normal((40, 3))
    wide = np.column_stack((a, a[:, 0] - a[:, 1]))
    full, found = (canonical_correlations(x.T @ x, x.T @ b, b.T @ b) for x in (a, wide))
    np.testing.assert_allclose(found.correlations, full.correlations, atol=1e-14)
    np.testing.assert_allclose(np.abs((wide @ found.x).T @ (a @ full.x)), np.eye(2), atol=1e-13)


def dependent() -> Views:
    """Views of seven agents whose first has a column that is the sum of two others, and one of zeros."""
    first, second = views()
    return [np.column_stack((a, a[:, 0] + a[:, 1], 0.0 * a[:, 0])) for a in first], second


def test_dependent_columns_without_a_ridge_have_the_answer_of_independent_ones() -> None:
    """Over agents, with directions for all columns; one agent with all samples has the same objective."""
    first, second = dependent()
    found, plain = CCA(first, second, P), problem()
    np.testing.assert_allclose(found.optimum.correlations, plain.optimum.correlations, atol=1e-12)
    result = solve(found, "generalized_drfgt", "complete", iterations=3000, stopping=GradientNorm(1e-8) & Consensus(1e-8))
    assert result.converged
    directions = result.unpacked()
    assert [part.shape for part in directions.values()] == [(N, N1 + 2, P), (N, N2, P)]
    scores = [np.concatenate(v) @ w[0] for v, w in zip((first, second), directions.values(), strict=True)]
    np.testing.assert_allclose(np.linalg.svd(scores[0].T @ scores[1] / sum(COUNTS))[1], plain.optimum.correlations[:P], atol=1e-10)
    x = found.constraint.project(points(1, rows=N1 + N2))
    np.testing.assert_allclose(found.pooled().value(x), found.value(np.repeat(x, N, axis=0)).mean(), rtol=1e-12)
    with pytest.raises(ValueError, match="the smaller view has rank 5, so there are no 6 canonical correlations: ask for 5"):
        CCA(first, second, 6)


def test_nearly_dependent_columns_are_named_with_the_cure(tmp_path: Path) -> None:
    """By number, or by the names of a table's columns."""
    first, second = views((30, 60))
    first = [np.column_stack((a, a[:, 0] - a[:, 4] + 1e-9 * np.cos(np.arange(len(a))))) for a in first]
    message = r"3 columns of {} nearly depend on each other \({}\): give ridge=1e-2, or drop one of them"
    with pytest.raises(ValueError, match=message.format("A", "0, 4, 6")):
        CCA(first, second, P)
    table = np.column_stack((np.concatenate(first), np.concatenate(second)))
    np.savetxt(tmp_path / "t.csv", table, fmt="%.17g", delimiter=",", header="a,b,c,d,e,f,g,p,q,r,s,t", comments="")
    settings = CCASettings(data=str(tmp_path / "t.csv"), columns=("g", "a", "b", "e"), columns_y=("p", "q"), rank=2, ridge=0.0)
    with pytest.raises(ValueError, match=message.format("the first view", "g, a, e")):
        built(settings.problem(3, 0))


@pytest.mark.slow
def test_many_columns_are_never_formed() -> None:
    """One agent, 2 x 2500 columns: a covariance would take 50 MB, what the methods take beside the data is 3 MB."""
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((60, 2500)), rng.standard_normal((60, 2500))
    tracemalloc.start()
    cca = CCA([first], [second], P, ridge=0.1)
    assert all(isinstance(part.operator, SampleCovariance) for part in cca.constraint.parts)
    assert cca.error_name == ""
    assert cca.optimal_value is None
    method: Any
    for method in (GeneralizedLanding(batch_size=20, covariance="sampled"), GeneralizedLanding(), RGD(metric="euclidean")):
        result = solve(cca, method, iterations=3)
        assert result.row.values["objective"] < result.history["objective"][0] - 0.5
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6
    x = points(1, rows=5000)
    scatter = np.concatenate((first.T @ (second @ x[0, 2500:]), second.T @ (first @ x[0, :2500]))) / 60
    np.testing.assert_allclose(cca.gradient(x)[0], -scatter, atol=1e-9)
    squares = np.linalg.eigvals(first @ first.T @ second @ second.T).real
    assert cca.lipschitz[0] == pytest.approx(math.sqrt(squares.max()) / 60, rel=1e-10)
    with pytest.raises(ValueError, match="views with 2500 and 2500 columns are not formed"):
        cca.correlations(x[0])


def test_lipschitz_constants_of_agents_that_keep_their_samples() -> None:
    """From triangular factors, and beyond 200 samples by Lanczos, a bound that is at most 1e-4 larger."""
    for m, above in ((3, 1e-12), (250, 2e-4)):
        rng = np.random.default_rng(m)
        a, b = rng.standard_normal((m, 700)), rng.standard_normal((m, 600))
        cca, norm = CCA([a], [b], 1, ridge=0.1), np.linalg.norm(a.T @ b, 2) / m
        assert norm * (1 - 1e-12) <= cca.lipschitz[0] <= norm * (1 + above)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"B": views()[1][:3]}, "A and B must hold a matrix for each agent, got 7 and 3"),
        ({"B": [b[:1] for b in views()[1]]}, "those of agent 0 have 40 and 1 rows"),
        ({"ridge": -0.1}, "ridge must be finite and not negative, got -0.1"),
        ({"n_agents": 9}, "7 of 9 agents are given, and the covariances of all are needed: .* CCA.from_loader"),
        ({"rank": 6}, "St_B\\(p, n\\) needs 1 <= p <= n .* n = 5 and p = 6"),
        ({"A": [np.zeros_like(a) for a in views()[0]]}, "all columns of A are 0: give samples that differ"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], message: str) -> None:
    first, second = views()
    given = {"A": first, "B": second, "rank": P, **change}
    with pytest.raises(ValueError, match=message):
        CCA(given.pop("A"), given.pop("B"), given.pop("rank"), **given)


def halves() -> tuple[Array, Array]:
    """The digits' left and right halves."""
    images = digits()[0].reshape(-1, 8, 8)
    return images[:, :, :4].reshape(len(images), -1), images[:, :, 4:].reshape(len(images), -1)


@pytest.mark.slow
def test_digits_are_centred_halves_without_constant_pixels() -> None:
    """The same covariances however the images are divided, and the same correlations whatever the scale."""
    found = []
    for scale in ("columns", "view", "none"):
        settings = CCASettings(ridge=0.0, scale=scale)
        cca = built(settings.problem(1, 0))
        kept = [v[:, v.var(0) > 1e-3 * v.var(0).mean()] for v in halves()]
        assert [v.shape[1] for v in kept] == [26, 30]
        assert cca.shape == (56, 5)
        centred = [v - v.mean(0) for v in kept]
        spread = {"columns": [v.std(0) for v in kept], "view": [math.sqrt(v.var(0).mean()) for v in halves()], "none": [1.0, 1.0]}
        a, b = (v / s for v, s in zip(centred, spread[scale], strict=True))
        np.testing.assert_allclose(cca.constraint.parts[0].operator.stack[0], a.T @ a / len(a), atol=1e-12 * (a * a).sum())
        for partition in ("even", "by-label", "dirichlet"):
            divided = built(CCASettings(ridge=0.0, scale=scale, partition=partition).problem(10, 0))
            assert divided.n_samples.sum() == 1797
            np.testing.assert_allclose(divided.optimum.correlations, cca.optimum.correlations, rtol=1e-10)
        found.append(canonical_correlations(a.T @ a, a.T @ b, b.T @ b).correlations)
        np.testing.assert_allclose(cca.optimum.correlations, found[-1], rtol=1e-8)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-8)
    np.testing.assert_allclose(found[0], found[2], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize("direction", first_is_quick(get_args(Direction)))
@pytest.mark.parametrize("condition", [pytest.param(1.0, marks=pytest.mark.slow), 10.0])
def test_automatic_steps_reach_the_answer(direction: Direction, condition: float) -> None:
    """Also where the covariances are the identity: rotations of the views against each other have the largest curvature there."""
    settings = CCASettings(data="synthetic", samples=3000, dimension=8, dimension_y=8, condition=condition, rank=3, ridge=0.0)
    iterations = 500 if condition == 1.0 else 2000 if direction == "psi-b" else 1000
    result = solve(built(settings.problem(1, 0)), GeneralizedLanding(direction=direction), iterations=iterations, rows=2, seed=1)
    assert result.row.values["error"] < 1e-8
    assert result.row.values["gradient_norm"] < 1e-3
    assert result.row.values["feasibility"] < 1e-4


def test_images_of_idx_files_and_views_of_two_files(tmp_path: Path) -> None:
    """6 x 5 images, whose middle column is in the right half; the same halves as two files."""
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (80, 6, 5)).astype(">u1")
    path = tmp_path / "images.idx"
    path.write_bytes(b"\0\0\x08\x03" + struct.pack(">3I", *images.shape) + images.tobytes())
    for name, half in (("x.npy", images[:, :, :2]), ("y.npy", images[:, :, 2:])):
        np.save(tmp_path / name, half.reshape(80, -1))
    whole = built(CCASettings(data=str(path), width=5, rank=2).problem(3, 7))
    halved = built(CCASettings(data=str(tmp_path / "x.npy"), data_y=str(tmp_path / "y.npy"), rank=2).problem(3, 7))
    assert whole.shape == (12 + 18, 2)
    x = points(3, rows=30)
    assert whole.gradient(x).tobytes() == halved.gradient(x).tobytes()
    with pytest.raises(ValueError, match="images of 30 pixels are not square: give their width"):
        built(CCASettings(data=str(path)).problem(1, 0))
    with pytest.raises(ValueError, match="images of 30 pixels are not made of rows of 7 pixels"):
        built(CCASettings(data=str(path), width=7).problem(1, 0))
    np.save(tmp_path / "y.npy", images[:50, :, 2:].reshape(50, -1))
    with pytest.raises(ValueError, match=r"x\.npy has 80 rows and .*y\.npy 50"):
        built(CCASettings(data=str(tmp_path / "x.npy"), data_y=str(tmp_path / "y.npy")).problem(1, 0))


@pytest.mark.parametrize("heterogeneity", [0.0, 0.7])
def test_generated_views_have_the_correlations_asked_for(heterogeneity: float) -> None:
    """To within a few standard errors of a sample canonical correlation, (1 - c^2) / sqrt(N), and a bias of the order n / N."""
    settings = CCASettings(
        data="synthetic", samples=4000, dimension=7, dimension_y=5, rank=3, ridge=0.0, correlation=0.9, decay=0.7, condition=50.0,
        scale="none", center=False, heterogeneity=heterogeneity,
    )  # fmt: skip
    cca = built(settings.problem(5, 0))
    wanted = 0.9 * 0.7 ** np.arange(5)
    assert cca.shape == (12, 3)
    np.testing.assert_allclose(cca.optimum.correlations, wanted, atol=5 / math.sqrt(20_000 / math.exp(4 * heterogeneity**2)))
    if not heterogeneity:
        for part in cca.constraint.parts:
            assert np.linalg.cond(part.operator.stack[0]) == pytest.approx(50.0, rel=0.1)


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"width": 8, "data_y": "y.npy"}, "data_y goes with a file in data"),
    ({"data": "synthetic", "dimension": 4}, "rank must be at most 4, the smaller dimension, got 5"),
    ({"data": "synthetic", "correlation": 1.5}, r"correlation must be above 0 and at most 1, got 1.5"),
]


@pytest.mark.parametrize(("change", "message"), SETTINGS)
def test_settings_that_cannot_be_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CCASettings(**change)


def test_a_constant_view_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((9, 3)))
    np.save(tmp_path / "y.npy", np.random.default_rng(0).standard_normal((9, 3)))
    with pytest.raises(ValueError, match="the first view is constant: all samples"):
        built(CCASettings(data=str(tmp_path / "x.npy"), data_y=str(tmp_path / "y.npy"), rank=1).problem(1, 0))


def test_the_error_of_a_point_that_is_not_finite_is_not_a_number() -> None:
    assert math.isnan(problem().error(np.full((N1 + N2, P), np.nan)))
