"""Canonical correlation analysis: objectives and products of samples divided over agents, the
answer, generated and loaded data."""

from __future__ import annotations

import math
import re
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse.linalg  # before memory is traced

from decentorth import RGD, GeneralizedLanding, solve
from decentorth.data import digits
from decentorth.problems import CCA, CCASettings, canonical_correlations
from decentorth.protocols import (
    Array,
    KnownOptimum,
    LocalProducts,
    SampledMatrices,
    SampledProducts,
)
from decentorth.sets import SampleCovariance
from tests.support.building import built
from tests.support.problems import stack

N1, N2, P = 6, 5, 2
COUNTS = (40, 40, 1, 2, 90, 40, 7)
"""Samples of each agent: those with 1 and 2 keep them, the others keep covariances."""
N = len(COUNTS)

Views = tuple[list[Array], list[Array]]


def views(counts: tuple[int, ...] = COUNTS, seed: int = 0, n1: int = N1, n2: int = N2) -> Views:
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
    c11, c22 = (
        v.T @ v / len(v) + ridge * (v * v).sum() / v.size * np.eye(v.shape[1]) for v in (a, b)
    )
    return [c11, a.T @ b / len(a), c22]


def test_products_and_constants_are_the_formulas() -> None:
    ridge, x = 0.3, points()
    cca, (first, second) = problem(ridge), views()
    total = sum(COUNTS)
    r1, r2 = (
        ridge * sum((v * v).sum() for v in view) / (total * view[0].shape[1])
        for view in (first, second)
    )
    np.testing.assert_allclose(cca.ridges, (r1, r2), rtol=1e-13)
    product, diagonal = cca.local_product(x), cca.local_diagonal()
    for i, (a, b, point) in enumerate(zip(first, second, x, strict=True)):
        s, u, v = N / total, point[:N1], point[N1:]
        c1, c2 = s * a.T @ a + r1 * np.eye(N1), s * b.T @ b + r2 * np.eye(N2)
        np.testing.assert_allclose(product[i], np.concatenate((c1 @ u, c2 @ v)), atol=1e-12 * total)
        np.testing.assert_allclose(
            diagonal[i], np.concatenate((np.diag(c1), np.diag(c2))), rtol=1e-12
        )
        assert cca.lipschitz[i] == pytest.approx(s * np.linalg.norm(a.T @ b, 2), rel=1e-12)
    assert product.flags.c_contiguous
    assert {name: part.shape for name, part in cca.unpack(x).items()} == {
        "x": (N, N1, P),
        "y": (N, N2, P),
    }
    for need in (SampledProducts, SampledMatrices, LocalProducts, KnownOptimum):
        assert isinstance(cca, need)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_means_over_unequal_agents_are_the_covariances_of_all_samples(ridge: float) -> None:
    """However the samples are divided; products with them are those of the constraint, and pooling
    is the mean."""
    cca, x = problem(ridge), stack(points(1)[0], N)
    c11, c12, c22 = covariances(*views(), ridge)
    whole = cca.pooled()
    for one in (cca, whole):
        np.testing.assert_allclose(one.constraint.parts[0].operator.stack[0], c11, rtol=1e-12)
        np.testing.assert_allclose(one.constraint.parts[1].operator.stack[0], c22, rtol=1e-12)
    u, v = x[0, :N1], x[0, N1:]
    for one, at in ((cca, x), (whole, x[:1])):
        np.testing.assert_allclose(
            one.gradient(at).mean(0), -np.concatenate((c12 @ v, c12.T @ u)), atol=1e-11
        )
        np.testing.assert_allclose(
            one.local_product(at).mean(0), cca.constraint.product(x[:1])[0], atol=1e-11
        )
    np.testing.assert_allclose(whole.optimum.correlations, cca.optimum.correlations, rtol=1e-12)


def test_the_answer_is_that_of_the_generalized_eigenvalue_problem() -> None:
    cca = problem(0.1)
    c11, c12, c22 = covariances(*views(), 0.1)
    zeros = np.zeros_like(c12)
    pencil = scipy.linalg.eigh(
        np.block([[np.zeros_like(c11), c12], [c12.T, np.zeros_like(c22)]]),
        np.block([[c11, zeros], [zeros.T, c22]]),
        eigvals_only=True,
    )
    values, x, y = cca.optimum
    np.testing.assert_allclose(values, pencil[: -min(N1, N2) - 1 : -1], rtol=1e-10)
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
    """Rotations within X and within Y change nothing; it is of second order in the subspaces'
    distance."""
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
    assert np.polyfit(np.log(sizes), np.log([cca.error(one) for one in near]), 1)[
        0
    ] == pytest.approx(2, abs=0.05)
    assert np.polyfit(np.log(sizes), np.log([cca.subspace_error(one) for one in near]), 1)[
        0
    ] == pytest.approx(1, abs=0.05)


def test_singular_covariances_have_the_correlations_of_the_column_spaces() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((40, 2)), rng.standard_normal((40, 3))
    wide = np.column_stack((a, a[:, 0] - a[:, 1]))
    full, found = (canonical_correlations(x.T @ x, x.T @ b, b.T @ b) for x in (a, wide))
    np.testing.assert_allclose(found.correlations, full.correlations, atol=1e-14)
    np.testing.assert_allclose(np.abs((wide @ found.x).T @ (a @ full.x)), np.eye(2), atol=1e-13)


def test_nearly_dependent_columns_are_named_with_the_cure(tmp_path: Path) -> None:
    first, second = views((30, 60))
    first = [
        np.column_stack((a, a[:, 0] - a[:, 4] + 1e-9 * np.cos(np.arange(len(a))))) for a in first
    ]
    table = np.column_stack((np.concatenate(first), np.concatenate(second)))
    np.savetxt(
        tmp_path / "t.csv",
        table,
        fmt="%.17g",
        delimiter=",",
        header="a,b,c,d,e,f,g,p,q,r,s,t",
        comments="",
    )
    settings = CCASettings(
        data=str(tmp_path / "t.csv"),
        columns=("g", "a", "b", "e"),
        columns_y=("p", "q"),
        rank=2,
        ridge=0.0,
    )
    with pytest.raises(
        ValueError,
        match=r"3 columns of the first view nearly depend .* \(g, a, e\): give ridge=1e-2, or drop",
    ):
        built(settings.problem(3, 0))


@pytest.mark.slow
def test_many_columns_are_never_formed() -> None:
    """One agent, 2 x 2500 columns: a covariance would take 50 MB, what the methods take beside the
    data is 3 MB."""
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((60, 2500)), rng.standard_normal((60, 2500))
    tracemalloc.start()
    cca = CCA([first], [second], P, ridge=0.1)
    assert all(isinstance(part.operator, SampleCovariance) for part in cca.constraint.parts)
    assert cca.error_name == ""
    assert cca.optimal_value is None
    method: Any
    for method in (
        GeneralizedLanding(batch_size=20, covariance="sampled"),
        GeneralizedLanding(),
        RGD(metric="euclidean"),
    ):
        result = solve(cca, method, iterations=3)
        assert result.row.values["objective"] < result.history["objective"][0] - 0.5
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4e6
    x = points(1, rows=5000)
    scatter = (
        np.concatenate((first.T @ (second @ x[0, 2500:]), second.T @ (first @ x[0, :2500]))) / 60
    )
    np.testing.assert_allclose(cca.gradient(x)[0], -scatter, atol=1e-9)
    squares = np.linalg.eigvals(first @ first.T @ second @ second.T).real
    assert cca.lipschitz[0] == pytest.approx(math.sqrt(squares.max()) / 60, rel=1e-10)
    with pytest.raises(ValueError, match="views with 2500 and 2500 columns are not formed"):
        cca.correlations(x[0])


def test_lipschitz_constants_of_agents_that_keep_their_samples() -> None:
    """From triangular factors, and beyond 200 samples by Lanczos, a bound that is at most 1e-4
    larger."""
    for m, above in ((3, 1e-12), (250, 2e-4)):
        rng = np.random.default_rng(m)
        a, b = rng.standard_normal((m, 700)), rng.standard_normal((m, 600))
        cca, norm = CCA([a], [b], 1, ridge=0.1), np.linalg.norm(a.T @ b, 2) / m
        assert norm * (1 - 1e-12) <= cca.lipschitz[0] <= norm * (1 + above)


def halves() -> tuple[Array, Array]:
    images = digits()[0].reshape(-1, 8, 8)
    return images[:, :, :4].reshape(len(images), -1), images[:, :, 4:].reshape(len(images), -1)


@pytest.mark.parametrize("scale", ["columns", "view", "none"])
def test_digits_are_centred_halves_without_constant_pixels(scale: Any) -> None:
    """However the images are divided; the correlations do not depend on the scale."""
    settings = CCASettings(ridge=0.0, scale=scale)
    cca, kept = (
        built(settings.problem(1, 0)),
        [v[:, v.var(0) > 1e-3 * v.var(0).mean()] for v in halves()],
    )
    assert [v.shape[1] for v in kept] == [26, 30]
    assert cca.shape == (56, 5)
    spread = {
        "columns": [v.std(0) for v in kept],
        "view": [math.sqrt(v.var(0).mean()) for v in halves()],
        "none": [1.0, 1.0],
    }
    a, b = ((v - v.mean(0)) / s for v, s in zip(kept, spread[scale], strict=True))
    np.testing.assert_allclose(
        cca.constraint.parts[0].operator.stack[0], a.T @ a / len(a), atol=1e-12 * (a * a).sum()
    )
    a, b = (np.linalg.qr(v - v.mean(0))[0] for v in kept)
    np.testing.assert_allclose(cca.optimum.correlations, np.linalg.svd(a.T @ b)[1], rtol=1e-8)
    divided = built(replace(settings, partition="by-label").problem(10, 0))
    assert divided.n_samples.sum() == 1797
    np.testing.assert_allclose(divided.optimum.correlations, cca.optimum.correlations, rtol=1e-10)


def correlated(tmp_path: Path, **given: Any) -> CCASettings:
    """A table of two views, in which a column of each is a millionth of the others, and one is
    constant."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((60, 6))
    table[:, 4] += 2.0 * table[:, 1]
    table = table * (1.0, 1e-6, 0.0, 1.0, 1e-6, 1.0) + 1.0
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,ward,p,q,r", comments="")
    chosen: Any = {"columns": ("a", "b", "ward"), "columns_y": ("p", "q", "r"), "rank": 2}
    return CCASettings(data=str(tmp_path / "t.csv"), ridge=0.0, **chosen | given)


def test_columns_of_a_table_stay_however_small_their_units(tmp_path: Path) -> None:
    settings = correlated(tmp_path)
    table = np.loadtxt(tmp_path / "t.csv", delimiter=",", skiprows=1)
    a, b = (np.linalg.qr(v - v.mean(0))[0] for v in (table[:, :2], table[:, 3:]))
    cca = built(settings.problem(3, 0))
    answer = np.linalg.svd(a.T @ b)[1]
    np.testing.assert_allclose(cca.optimum.correlations, answer, rtol=1e-8)
    assert cca.columns == (("a", "b"), ("p", "q", "r"))
    result = solve(settings.problem(3, 0), W="ring")
    assert re.search(r"left out +ward: constant\b", repr(result))


def test_a_rank_above_the_columns_that_stay_names_those_that_were_left_out(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError,
        match=r"rank must be at most 1, the number of columns of the smaller view, got 2; "
        r"left out: ward: constant; b, q: they vary little beside the others "
        r"\(drop_constant=0 keeps them\)",
    ):
        built(correlated(tmp_path, drop_constant=1e-3).problem(3, 0))


@pytest.mark.parametrize(("direction", "condition"), [("psi-b", 1.0), ("natural", 10.0)])
def test_automatic_steps_reach_the_answer(direction: Any, condition: float) -> None:
    """Also where the covariances are the identity: rotations of the views against each other have
    the largest curvature there."""
    settings = CCASettings(
        data="synthetic",
        samples=3000,
        dimension=8,
        dimension_y=8,
        condition=condition,
        rank=3,
        ridge=0.0,
    )
    method = GeneralizedLanding(direction=direction)
    result = solve(
        built(settings.problem(1, 0)),
        method,
        iterations=500 if condition == 1.0 else 1000,
        rows=2,
        seed=1,
    )
    assert result.row.values["error"] < 1e-8
    assert result.row.values["feasibility"] < 1e-4


def test_images_of_idx_files_and_views_of_two_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (80, 6, 5)).astype(">u1")
    path = tmp_path / "images.idx"
    path.write_bytes(b"\0\0\x08\x03" + struct.pack(">3I", *images.shape) + images.tobytes())
    for name, half in (("x.npy", images[:, :, :2]), ("y.npy", images[:, :, 2:])):
        np.save(tmp_path / name, half.reshape(80, -1))
    whole = built(CCASettings(data=str(path), width=5, rank=2).problem(3, 7))
    halved = built(
        CCASettings(data=str(tmp_path / "x.npy"), data_y=str(tmp_path / "y.npy"), rank=2).problem(
            3, 7
        )
    )
    assert whole.shape == (12 + 18, 2)
    x = points(3, rows=30)
    assert whole.gradient(x).tobytes() == halved.gradient(x).tobytes()
    with pytest.raises(ValueError, match="images of 30 pixels are not square: give their width"):
        built(CCASettings(data=str(path)).problem(1, 0))


@pytest.mark.parametrize("heterogeneity", [0.0, 0.7])
def test_generated_views_have_the_correlations_asked_for(heterogeneity: float) -> None:
    """To within a few standard errors of a sample canonical correlation, (1 - c^2) / sqrt(N), and a
    bias of the order n / N."""
    settings = CCASettings(
        data="synthetic", samples=4000, dimension=7, dimension_y=5, rank=3, ridge=0.0, correlation=0.9, decay=0.7, condition=50.0,
        scale="none", center=False, heterogeneity=heterogeneity,
    )  # fmt: skip
    cca = built(settings.problem(5, 0))
    wanted = 0.9 * 0.7 ** np.arange(5)
    assert cca.shape == (12, 3)
    np.testing.assert_allclose(
        cca.optimum.correlations,
        wanted,
        atol=5 / math.sqrt(20_000 / math.exp(4 * heterogeneity**2)),
    )
    if not heterogeneity:
        for part in cca.constraint.parts:
            assert np.linalg.cond(part.operator.stack[0]) == pytest.approx(50.0, rel=0.1)


def test_a_constant_view_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((9, 3)))
    np.save(tmp_path / "y.npy", np.random.default_rng(0).standard_normal((9, 3)))
    with pytest.raises(
        ValueError, match="the first view is constant: all samples have the same entries"
    ):
        built(
            CCASettings(
                data=str(tmp_path / "x.npy"), data_y=str(tmp_path / "y.npy"), rank=1
            ).problem(1, 0)
        )


def test_the_error_of_a_point_that_is_not_finite_is_not_a_number() -> None:
    assert math.isnan(problem().error(np.full((N1 + N2, P), np.nan)))
