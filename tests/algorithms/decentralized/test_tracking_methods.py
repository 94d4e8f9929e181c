"""DRGTA, DPRGT, DESTINY and Euclidean gradient tracking: what each of them claims."""

from __future__ import annotations

from functools import cache, partial
from itertools import islice
from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth import DESTINY, DPRGT, DRFGT, DRGTA, GradientTracking, solve
from decentorth.algorithms.common.automatic_steps import Order, tracking_limit
from decentorth.algorithms.common.mixing import effective
from decentorth.api import set_up
from decentorth.api.capabilities import check_capabilities
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import PCA, FunctionProblem, Procrustes
from decentorth.protocols import Array, Spectrum
from decentorth.sets import Euclidean, Stiefel
from tests.reference import naive, rivals
from tests.support.problems import CASES, GRAPHS, UNEVEN, point, procrustes, relative, samples, stack
from tests.support.sets import Box

N = 5
ORDERS: tuple[Order, ...] = ("combine-then-adapt", "adapt-then-combine")
VARIANTS: tuple[rivals.Variant, ...] = ("direct", "dissolved")
PENALTY = 7.0
MANIFOLD: dict[str, Any] = {
    "drgta": DRGTA,
    "drgta-qr": partial(DRGTA, retraction="qr"),
    "drgta-cholesky-qr": partial(DRGTA, retraction="cholesky-qr", consensus_step=0.5),
    "dprgt": DPRGT,
}
LANDING: dict[str, Any] = {
    "destiny": DESTINY,
    "destiny-dissolved": partial(DESTINY, variant="dissolved"),
    "gradient-tracking": GradientTracking,
    "gradient-tracking-penalty": partial(GradientTracking, penalty=PENALTY),
}


# The synthetic PCA of the DRGTA paper.


@cache
def synthetic() -> PCA:
    """16 agents with 1000 samples each, whose pooled singular values are s_1 0.8^(j/2)."""
    data = np.random.default_rng(0).standard_normal((16000, 10))
    left, values, right = np.linalg.svd(data, full_matrices=False)
    data = left * (values[0] * 0.8 ** (np.arange(10) / 2)) @ right
    return PCA(data.reshape(16, 1000, 10), 5)


def iterations_to(distances: tuple[float, ...], algorithm: Any) -> list[int]:
    """Iterations until the subspace distance of the mean is below each of them, on a ring with Metropolis weights."""
    run: Any = set_up(synthetic(), algorithm, tp.metropolis_weights(tp.ring(16)), comm="serial")
    found: list[int] = []
    for state in islice(run.states(), 5000):
        if state.k % 10 == 0:
            hat = naive.polar(state.x.mean(axis=0))
            while len(found) < len(distances) and run.problem.error(hat) < distances[len(found)]:
                found.append(state.k)
        if len(found) == len(distances):
            break
    return found


@pytest.mark.slow
def test_the_published_pca() -> None:
    """At the rate of gradient descent, 1 - b (c_5 - c_6); the landing direction is half as long off x; twice the step, half the
    iterations, until consensus is slower. About 1800 and 1100 iterations to 1e-8 at the steps 0.1 and 0.2."""
    pooled = -synthetic().hessian().mean(0)
    values = np.linalg.eigvalsh(pooled)[::-1]
    rate = -np.log(1 - 0.1 * (values[4] - values[5]))
    found = {method.__name__: iterations_to((1e-4, 1e-8), method(step_size=0.1)) for method in (DRGTA, DPRGT)}
    found["DRFGT"] = iterations_to((1e-4, 1e-8), DRFGT(step_size=0.2))
    for halfway, last in found.values():
        assert last - halfway == pytest.approx(np.log(1e4) / rate, rel=0.02)
    assert abs(found["DRGTA"][1] - found["DPRGT"][1]) <= 10
    assert found["DRFGT"][1] == pytest.approx(found["DRGTA"][1], rel=0.02)
    assert found["DRGTA"][1] == pytest.approx(1800, rel=0.1)
    (twice,) = iterations_to((1e-8,), DRGTA(step_size=0.2))
    assert twice == pytest.approx(1100, rel=0.1)


# One agent.


# No constraint.


@pytest.mark.slow
def test_without_a_constraint_they_are_all_gradient_tracking() -> None:
    """On Euclidean space tangents are gradients, retractions additions, and there is nothing to penalise."""
    data, rng = samples(UNEVEN[:N], 6, 3), np.random.default_rng(4)
    K = [a.T @ rng.standard_normal((len(a), 2)) for a in data]
    problem = FunctionProblem(
        lambda i, x: naive.norm(data[i] @ x) ** 2 / 2 - float(np.sum(K[i] * x)),
        lambda i, x: data[i].T @ (data[i] @ x) - K[i],
        Euclidean(6, 2),
        N,
    )
    W, x0 = GRAPHS["path"](N), rng.standard_normal((6, 2))
    methods: list[Any] = [method(step_size=2e-3) for method in (DRGTA, DPRGT, DESTINY, DRFGT)]
    results = {type(algorithm).__name__: solve(problem, algorithm, W, x0=x0, iterations=200).x for algorithm in methods}
    expected = solve(problem, GradientTracking(step_size=2e-3), W, x0=x0, iterations=200).x
    for name, x in results.items():
        assert relative(x, expected) < 1e-12, name


def test_gradient_tracking_solves_least_squares() -> None:
    """Its answer is that of the pooled normal equations, which is not feasible."""
    data, rng = samples((30, 40, 25, 33, 28), 4, 0, ratio=0.9), np.random.default_rng(1)
    targets = [rng.standard_normal((2, len(a))) for a in data]
    result = solve(Procrustes(data, targets), GradientTracking(), GRAPHS["erdos-renyi"](N), iterations=600, rows=2)
    products = naive.mean([a.T @ b.T for a, b in zip(data, targets, strict=True)])
    expected = np.linalg.inv(naive.mean([a.T @ a for a in data])) @ products
    np.testing.assert_allclose(result.x, stack(expected, N), atol=1e-12)
    assert result.row.values["feasibility"] > 0.1


@pytest.mark.slow
def test_a_soft_constraint_on_pca() -> None:
    """The penalised problem is solved by v sqrt(1 + c / lambda) for the top eigenvectors v; without a penalty points run away."""
    data = samples((40, 25, 3, 30, 8), 8, 5, ratio=0.75)
    problem = PCA(data, 2, weights="agents")
    values, vectors = np.linalg.eigh(naive.mean([a.T @ a / len(a) for a in data]))
    result = solve(problem, GradientTracking(penalty=PENALTY), GRAPHS["ring"](N), iterations=5000, rows=2)
    for x in result.x:
        np.testing.assert_allclose(np.linalg.svd(x, compute_uv=False) ** 2, 1 + values[:-3:-1] / PENALTY, rtol=1e-10)
        hat = naive.polar(x)
        np.testing.assert_allclose(hat @ hat.T, vectors[:, -2:] @ vectors[:, -2:].T, atol=1e-8)
    assert result.row.values["error"] < 1e-8
    assert solve(problem, GradientTracking(step_size=0.5), GRAPHS["ring"](N), iterations=2000, rows=2).status == "diverged"


# DESTINY's penalty.


@pytest.mark.parametrize("variant", VARIANTS)
def test_how_fast_destinys_field_grows_off_the_manifold(variant: rivals.Variant) -> None:
    """At x with G = x diag(m), the direction x E, E symmetric, meets 2 beta - 3 (m_j + m_k)/2 in the entry jk.

    So beta must be above 1.5 max(m). Central differences; what the objective's Hessian adds is tangent.
    """
    rng = np.random.default_rng(2)
    x, m, beta = Stiefel(7, 3).random(rng), np.array([-2.0, 0.5, 3.0]), 4.0
    root = rng.standard_normal((7, 7))
    constant = x @ np.diag(m) - root @ root.T @ x

    def field(y: Array) -> Array:
        at = y @ (3 * np.eye(3) - y.T @ y) / 2 if variant == "dissolved" else y
        return Stiefel(7, 3).dissolved(y[None], (root @ root.T @ at + constant)[None], np.array([beta]))[0]

    assert naive.norm(field(x)) < 1e-13
    E = naive.sym(rng.standard_normal((3, 3)))
    difference = (field(x + 1e-5 * x @ E) - field(x - 1e-5 * x @ E)) / 2e-5
    normal = naive.sym(x.T @ difference)
    np.testing.assert_allclose(normal, (2 * beta - 1.5 * (m[:, None] + m)) * E, rtol=1e-8, atol=1e-8)


# Automatic steps.


def agreed(case: Any, x0: Array) -> tuple[float, float]:
    """L and the largest multiplier, by fourth-power means."""
    norms = [np.linalg.norm(g(x0), 2) for g in case.gradients]
    return tuple(float(np.mean(np.array(v) ** 4) ** 0.25) for v in (case.lipschitz, norms))  # type: ignore[return-value]


def started(case: Any, algorithm: Any, W: Any, x0: Array) -> Any:
    n = case.problem.n_agents
    return algorithm.init(case.problem, Network(W), CounterStreams(0, slice(0, n)), stack(x0, n))


@pytest.mark.parametrize("settings", [{}, {"rounds": 3}, {"rounds": 2, "chebyshev": True}, {"consensus_step": 0.25}], ids=str)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CASES)
def test_automatic_steps_on_the_manifold(name: str, graph: str, settings: dict[str, Any]) -> None:
    """c / max(L, G) with c = min(0.5 u, sqrt(gap)), and at most 2 gap / G; the averages are within 5 % of the fourth powers."""
    case, W = CASES[name](), GRAPHS[graph](N)
    x0 = point(case.problem)
    eigenvalues = np.linalg.eigvalsh(W.toarray())
    spectrum = effective(Spectrum(eigenvalues[-2], eigenvalues[0]), settings.get("rounds", 1), settings.get("chebyshev", False))
    gap = settings.get("consensus_step", 1.0) * (1 - spectrum.lambda_2)
    c = min(0.5 * tracking_limit(spectrum, "combine-then-adapt"), np.sqrt(gap))
    L, G = agreed(case, x0)
    np.testing.assert_allclose(started(case, DRGTA(**settings), W, x0).step_size, min(c / max(L, G), 2 * gap / G), rtol=0.0125)
    if "consensus_step" not in settings:
        assert (started(case, DPRGT(**settings), W, x0).step_size == started(case, DRGTA(**settings), W, x0).step_size).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CASES)
def test_automatic_steps_and_penalty_of_destiny(name: str, graph: str, order: Order) -> None:
    """With M = max(L, G): beta = 2 M, and steps below u / (2 beta + 3 M), which is where it loses its stability."""
    case, W = CASES[name](), GRAPHS[graph](N)
    x0 = point(case.problem)
    eigenvalues = np.linalg.eigvalsh(W.toarray())
    gap, u = 1 - eigenvalues[-2], tracking_limit(Spectrum(eigenvalues[-2], eigenvalues[0]), order)
    L, G = agreed(case, x0)
    M = max(L, G)
    state = started(case, DESTINY(order=order), W, x0)
    np.testing.assert_allclose(state.penalty, 2 * M, rtol=0.0125)
    np.testing.assert_allclose(state.step_size, min(0.8 * u / (7 * M), np.sqrt(gap) / M, 2 * gap / G), rtol=0.0125)
    np.testing.assert_array_equal(started(case, DESTINY(step_size=0.02), W, x0).penalty, [5.0] * N)
    np.testing.assert_array_equal(started(case, DESTINY(step_size=0.02, penalty=1.0), W, x0).penalty, [1.0] * N)


@pytest.mark.parametrize("penalty", [0.0, PENALTY])
@pytest.mark.parametrize("order", ORDERS)
def test_automatic_steps_of_gradient_tracking(order: Order, penalty: float) -> None:
    case, W = procrustes(), GRAPHS["erdos-renyi"](N)
    x0 = point(case.problem)
    eigenvalues = np.linalg.eigvalsh(W.toarray())
    share = (0.5 if order == "combine-then-adapt" else 0.35) * tracking_limit(Spectrum(eigenvalues[-2], eigenvalues[0]), order)
    L, G = agreed(case, x0)
    fast, slow = (L + 3 * G + 2 * penalty, max(L, G)) if penalty else (L, L)
    state = started(case, GradientTracking(order=order, penalty=penalty), W, x0)
    np.testing.assert_allclose(state.step_size, min(share / fast, np.sqrt(1 - eigenvalues[-2]) / slow), rtol=0.0125)


WIDE = {
    "ring": tp.uniform_weights(tp.ring(10), 0.8),
    "metropolis": tp.metropolis_weights(tp.ring(10)),
    "star": tp.metropolis_weights(tp.star(10)),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "graph", "scale"),
    [(method, graph, 100.0 ** ((i + j) % 2)) for i, method in enumerate([DRGTA, DPRGT, DESTINY]) for j, graph in enumerate(WIDE)],
)
def test_automatic_steps_bring_agents_together_whose_gradients_differ(method: Any, scale: float, graph: str) -> None:
    """Independent targets of size ``scale``: with c / L, or twice these steps on the star, agents part and stay apart."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((10, 30, 20)) / np.sqrt(30)
    problem = Procrustes(A, scale * rng.standard_normal((10, 5, 30)))
    history = solve(problem, method(step_size="constant"), WIDE[graph], iterations=3000, rows=2).history
    assert history["gradient_norm"][-1] < 1e-6 * history["gradient_norm"][0]
    assert history["consensus_error"][-1] < 1e-4


# Mini-batches, limits.


@pytest.mark.parametrize("name", [*MANIFOLD, *LANDING])
def test_a_step_far_too_large_is_a_status(name: str) -> None:
    """Points that are brought back stay feasible, the others diverge: a status, with advice."""
    algorithm = (MANIFOLD | LANDING)[name](step_size=1e8)
    result = solve(procrustes().problem, algorithm, GRAPHS["star"](N), iterations=300)
    if name in MANIFOLD:
        assert result.status == "iterations"
        assert result.row.values["feasibility"] < 1e-12
    else:
        assert result.status == "diverged"
        assert "the step size 1e+08 is too large" in result.message


def test_a_soft_constraint_needs_a_set_with_a_penalty() -> None:
    problem = FunctionProblem(lambda i, x: 0.0, lambda i, x: x, Box(), 2)
    check_capabilities(problem, GradientTracking())
    with pytest.raises(TypeError, match="GradientTracking needs Penalised of its problem; Box has none"):
        check_capabilities(problem, GradientTracking(penalty=1.0))
    with pytest.raises(TypeError, match="DESTINY needs Dissolvable of its problem; Box has none"):
        check_capabilities(problem, DESTINY())
