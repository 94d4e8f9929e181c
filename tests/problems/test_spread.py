"""One agent whose samples are in blocks: the mean of the blocks, its samples, and every
single-agent method on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from decentorth import (
    CSDM,
    GSJOBCD,
    JADMM,
    JJOBCD,
    LBFGS,
    PCAL,
    PLAM,
    POGO,
    RGD,
    RSM,
    RSSM,
    SPEL,
    UMCM,
    VRJJOBCD,
    BlockKrylov,
    ConjugateGradients,
    Direct,
    GeneralizedLanding,
    HyperbolicJacobi,
    Landing,
    protocols,
    registry,
    solve,
)
from decentorth.api import set_up
from decentorth.families.j_orthogonal.problems.hspp import squared_distances
from decentorth.problems import (
    CCA,
    HEVP,
    HSPP,
    HEVPSettings,
    HSPPSettings,
    OrthogonalDictionaryLearning,
    RobustSubspaceRecovery,
    SparsePCA,
    Spread,
)
from decentorth.protocols import Array
from tests.mpi.spread import ellipsoid, log_cosh_blocks
from tests.support.building import built, prepared
from tests.support.generalized import gevp
from tests.support.j_orthogonal import signs
from tests.support.problems import UNEVEN, pca, procrustes, samples


def spread(problem: Any) -> Any:
    return set_up(Spread(problem), RGD(step_size=1.0)).problem


# what blocks can do


def hevp_blocks(n_blocks: int, form: Any = "well-posed", n: int = 6) -> HEVP:
    D = samples((20,), n, 3, ratio=0.9)[0]
    cuts = np.arange(n_blocks + 1) ** 2 * 20 // n_blocks**2
    return HEVP([D[a:b] for a, b in pairwise(cuts.tolist())], signs(n), form)


def hspp_blocks(n_blocks: int) -> HSPP:
    D = np.random.default_rng(0).standard_normal((17, 6))
    return HSPP(D, np.sqrt(squared_distances(D)), signs(6), smoothing=0.5, n_blocks=n_blocks)


def views() -> CCA:
    rows = [m + 6 for m in UNEVEN[:4]]
    first, second = samples(rows, 5, 1), samples(rows, 4, 2)
    return CCA(
        [a + np.pad(b, ((0, 0), (0, 1))) for a, b in zip(first, second, strict=True)], second, 2
    )


def subspaces(n_blocks: int) -> RobustSubspaceRecovery:
    return RobustSubspaceRecovery(samples((30,), 7, 4)[0].reshape(n_blocks, -1, 7), 3)


def dictionaries(n_blocks: int) -> OrthogonalDictionaryLearning:
    return OrthogonalDictionaryLearning(
        n_blocks / 30 * samples((30,), 6, 5)[0].reshape(n_blocks, -1, 6)
    )


def sparse(n_blocks: int) -> SparsePCA:
    return SparsePCA(samples((30,), 9, 6)[0].reshape(n_blocks, -1, 9), 6, 0.1)


MADE: dict[str, Callable[[], Any]] = {
    "pca": lambda: pca(UNEVEN).problem,
    "procrustes": lambda: procrustes().problem,
    "gevp": lambda: gevp(8, 3),
    "cca": views,
    "rsr": lambda: subspaces(5),
    "odl": lambda: dictionaries(5),
    "sparse-pca": lambda: sparse(5),
    "hevp": lambda: hevp_blocks(4),
    "hspp": lambda: hspp_blocks(4),
    "functions": log_cosh_blocks,
}


@pytest.mark.parametrize("make", MADE.values(), ids=MADE)
def test_whatever_all_blocks_can_do_their_mean_can_do(make: Callable[[], Any]) -> None:
    """Every contract of `protocols` that a problem may have; and it is the mean, or the bound that
    the mean is."""
    blocks = make()
    mean: Any = set_up(Spread(blocks), RGD(step_size=1.0)).problem
    contracts = {c for c in vars(protocols).values() if getattr(c, "_is_runtime_protocol", False)}
    contracts.remove(protocols.Whitening)  # only a problem in one place has a factor of its B
    contracts.remove(protocols.RowForm)  # rows are each agent's own
    contracts.remove(protocols.Composite)  # a term beside the samples is not spread
    contracts -= {protocols.Moments, protocols.Solvable}  # of a problem whose blocks are added up
    own, its, always = (
        {c for c in contracts if isinstance(one, c)} for one in (blocks, mean, spread(ellipsoid()))
    )
    assert own | always == its
    n, rng = blocks.n_agents, np.random.default_rng(7)
    x, v = rng.standard_normal((2, 1, *blocks.shape))
    each, along = np.repeat(x, n, axis=0), np.repeat(v, n, axis=0)

    def same(found: Array, expected: Array) -> None:
        np.testing.assert_allclose(
            found, expected.mean(0)[None], rtol=1e-10, atol=1e-11 * np.abs(expected).max()
        )

    same(mean.value(x), blocks.value(each))
    same(mean.gradient(x), blocks.gradient(each))
    if hasattr(mean, "gradient_on"):
        assert mean.n_samples.tolist() == [sum(blocks.n_samples)]
        singles = [mean.gradient_on(x, np.array([[k]])) for k in range(mean.n_samples[0])]
        for batches in (singles, [mean.gradient_on(x, np.arange(mean.n_samples[0])[None])]):
            np.testing.assert_allclose(
                np.mean(batches, axis=0), mean.gradient(x), rtol=1e-10, atol=1e-10
            )
    for name in ("hessian", "trace_form", "local_diagonal"):
        if hasattr(blocks, name):
            same(getattr(mean, name)(), getattr(blocks, name)())
    for name in ("product", "local_product"):
        if hasattr(blocks, name):
            same(getattr(mean, name)(x), getattr(blocks, name)(each))
    for name in ("weak_convexity", "lipschitz_value"):
        if hasattr(blocks, name):
            same(getattr(mean, name), getattr(blocks, name))
    if hasattr(blocks, "hessian_product"):
        same(mean.hessian_product(x, v), blocks.hessian_product(each, along))
    if hasattr(blocks, "partial_gradient"):
        columns, cache = np.array([2, 0]), mean.cache(x)
        assert cache.shape == (1, 0)
        same(
            mean.partial_gradient(x, columns, cache),
            blocks.partial_gradient(each, columns, blocks.cache(each)),
        )
        same(mean.partial_gradient(x, columns, cache), blocks.gradient(each)[:, :, columns])
    if hasattr(blocks, "flops"):
        spent = (
            sum(blocks.flops(2))
            if not isinstance(blocks, RobustSubspaceRecovery)
            else sum(blocks.flops(blocks.shape[1]))
        )
        assert mean.flops(2).tolist() == [spent]
        assert mean.subgradient_settings(4) == prepared(make()).subgradient_settings(4)
    if hasattr(blocks, "lipschitz"):
        constants, known = blocks.lipschitz, hasattr(blocks, "hessian")
        expected = np.linalg.norm(blocks.hessian().mean(0), 2) if known else constants.mean()
        assert mean.lipschitz[0] == pytest.approx(expected, rel=1e-11)


def test_batches_of_a_constraint_are_unbiased() -> None:
    """Single samples through all blocks, numbered in their order, and all of them at once."""
    blocks = views()
    mean: Any = spread(blocks)
    x, number = np.random.default_rng(0).standard_normal((1, 9, 2)), int(mean.n_samples[0])
    assert number == sum(UNEVEN[:4]) + 24
    each = np.repeat(x, 4, axis=0)
    for batches in (
        [[k] for k in range(number)],
        [list(range(number))],
        [list(range(0, number, 2)), list(range(1, number, 2))],
    ):
        weights = np.array([len(batch) / number for batch in batches])[:, None, None]
        numbers = [np.array([batch]) for batch in batches]
        product = sum(
            w * mean.product_on(x, batch)[0] for w, batch in zip(weights, numbers, strict=True)
        )
        np.testing.assert_allclose(
            product, blocks.local_product(each).mean(0), rtol=1e-10, atol=1e-10
        )
        matrix = sum(
            w * mean.matrices_on(batch)[0] for w, batch in zip(weights, numbers, strict=True)
        )
        np.testing.assert_allclose(matrix[:5, :5] @ x[0, :5], product[:5], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(matrix[5:, :4] @ x[0, 5:], product[5:], rtol=1e-10, atol=1e-10)


# every single-agent method


def on_columns(make: Callable[[], Any]) -> tuple[Any, Any]:
    case = make()
    return case.problem, case.problem.pooled()


PAIRS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "pca": lambda: on_columns(partial(pca, UNEVEN)),
    "procrustes": lambda: on_columns(partial(procrustes, UNEVEN)),
    "cca": lambda: (views(), views().pooled()),
    "rsr": lambda: (subspaces(5), subspaces(1)),
    "odl": lambda: (dictionaries(5), dictionaries(1)),
    "sparse-pca": lambda: (sparse(5), sparse(1)),
    "hevp": lambda: (hevp_blocks(4), hevp_blocks(1)),
    "hspp": lambda: (hspp_blocks(4), hspp_blocks(1)),
}
"""A problem in blocks, and the same of one agent who has all samples."""
BATCH: dict[str, Any] = {"step_size": 1e-3, "batch_size": 7}
STEPS = "diminishing:initial=0.03"
FEW: dict[str, Any] = {"blocks": 3, "step_size": STEPS}
PENALISED = [
    Landing(),
    Landing(safe=True),
    Landing(**BATCH),
    PLAM(),
    PCAL(),
    PCAL(penalty=5.0, **BATCH),
]
FEASIBLE = [RGD(step_size="bb"), RGD(**BATCH), ConjugateGradients(), LBFGS(), SPEL(), POGO()]
SUBGRADIENT = [RSM(step_size=STEPS), RSSM(**FEW)]
COVARIANCES = [
    GeneralizedLanding(penalty=1.0, covariance=kind, **BATCH)
    for kind in ("exact", "sampled", "rolling")
]
GENERALIZED = [
    GeneralizedLanding(),
    GeneralizedLanding(direction="psi-br"),
    RGD(),
    RGD(metric="euclidean"),
    PLAM(),
    PCAL(),
]
PAIRWISE = [
    GSJOBCD(),
    GSJOBCD(varsigma="pair", pairs=9),
    JJOBCD(),
    JJOBCD(varsigma="backtracking"),
    VRJJOBCD(),
]
HYPERBOLIC = [HyperbolicJacobi(), CSDM(), JADMM(), UMCM(), UMCM(optimizer="adagrad"), RGD()]
METHODS: dict[str, list[Any]] = {
    "pca": [*PENALISED, *FEASIBLE, BlockKrylov()],
    "procrustes": [Landing(), Landing(**BATCH), RGD(), PLAM(), PCAL(), *SUBGRADIENT],
    "cca": [*GENERALIZED, *COVARIANCES, RGD(covariance="rolling", **BATCH)],
    "rsr": [RSM(), RSSM(blocks=3), RSSM(reorthogonalize=4, **FEW)],
    "odl": SUBGRADIENT,
    "sparse-pca": SUBGRADIENT,
    "hevp": [*PAIRWISE, *HYPERBOLIC],
    "hspp": [
        GSJOBCD(pairs=3),
        JJOBCD(),
        VRJJOBCD(varsigma=300.0, batch_size=20),
        CSDM(),
        JADMM(),
        RGD(step_size="bb"),
    ],
}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        pytest.param(name, method, id=f"{name}-{number}-{type(method).__name__}")
        for name, methods in METHODS.items()
        for number, method in enumerate(methods)
    ],
)
def test_spread_is_as_pooled(name: str, method: Any) -> None:
    """To rounding, batches included: samples are numbered through the blocks. With automatic steps:
    constants are the same."""
    blocks, whole = PAIRS[name]()
    x0 = blocks.constraint.random(np.random.default_rng(3), 0.3) if name[0] == "h" else None
    one, other = (
        solve(problem, method, x0=x0, iterations=12, rows=2) for problem in (Spread(blocks), whole)
    )
    # f(x v) = f(x), and CSDM may turn x so
    found, expected = (x @ x.T if name[0] == "h" else x for x in (one.x[0], other.x[0]))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert np.abs(other.x[0] - (other.problem.start(0) if x0 is None else x0)).max() > 1e-4
    # of a term beside the samples
    assert one.row.values.keys() == other.row.values.keys() - {"stationarity"}
    for metric in ("objective", "error", "relative_gap"):
        if metric in one.row.values:
            assert one.row.values[metric] == pytest.approx(
                other.row.values[metric], rel=1e-8, abs=1e-10
            )
    assert one.row.gradients == other.row.gradients


def test_every_single_agent_method_is_among_them() -> None:
    every = {registry.algorithms.get(name) for name in registry.algorithms.names()}
    single = {
        kind
        for kind in every
        if kind.network == "single-agent" and kind.__module__.startswith("decentorth.")
    }
    single.remove(Direct)  # from moments, at every agent
    assert single == {type(method) for methods in METHODS.values() for method in methods}


def test_what_blocks_cannot_do_is_refused_by_their_name() -> None:
    with pytest.raises(
        TypeError, match="UMCM needs HessianProducts of its problem; SpreadProblem has none"
    ):
        solve(Spread(hspp_blocks(3)), UMCM(), iterations=1)
    with pytest.raises(
        TypeError, match="HyperbolicJacobi needs TraceForm of its problem; SpreadProblem has none"
    ):
        solve(Spread(hspp_blocks(3)), HyperbolicJacobi(), iterations=1)


# hevp and hspp in blocks


@pytest.mark.parametrize("blocks", [1, 7])
def test_rows_of_hevp_in_blocks(blocks: int) -> None:
    settings = HEVPSettings(dimension=10, samples=13, condition=1e12, ridge=1e-13)
    whole, parts = built(settings.problem(1, 0)), built(settings.in_blocks(blocks, 0))
    assert parts.n_agents == blocks
    assert parts.n_samples.sum() == whole.n_samples[0] == 23
    assert set(parts.n_samples.tolist()) <= {23 // blocks, 23 // blocks + 1}
    np.testing.assert_allclose(parts.trace_form().mean(0), whole.trace_form()[0], atol=1e-15)
    assert parts.optimum == pytest.approx(whole.optimum, rel=1e-12)
    x = np.eye(10) + 0.1 * np.random.default_rng(0).standard_normal((10, 10))
    assert parts.error(x) == pytest.approx(
        float(whole.value(x[None])[0]) / whole.optimum - 1.0, rel=1e-12
    )


@pytest.mark.parametrize(("points", "blocks"), [(2, 1), (9, 4), (24, 12), (25, 12)])
def test_pairs_of_hspp_in_blocks(points: int, blocks: int) -> None:
    problem = built(HSPPSettings(points=points, dimension=4).in_blocks(blocks, 0))
    assert problem.n_samples.sum() == points * (points - 1) // 2
    assert problem.n_samples.max() - problem.n_samples.min() < 2 * points
    assert problem.n_samples.min() >= 1
    found = [
        problem.pairs(np.arange(number), block)
        for block, number in enumerate(problem.n_samples.tolist())
    ]
    pairs = [pair for i, j in found for pair in zip(i.tolist(), j.tolist(), strict=True)]
    assert pairs == [(i, j) for i in range(points) for j in range(i + 1, points)]


def test_each_block_of_hspp_is_at_its_own_point() -> None:
    blocks, rng = hspp_blocks(4), np.random.default_rng(5)
    points = [blocks.constraint.random(rng, 0.3) for _ in range(2)]
    x = np.stack([points[0], points[0], points[1], points[0]])
    for block in range(4):
        alone = blocks.restrict(slice(block, block + 1))
        assert blocks.value(x)[block] == alone.value(x[block : block + 1])[0]
        np.testing.assert_array_equal(
            blocks.gradient(x)[block], alone.gradient(x[block : block + 1])[0]
        )
