"""DRSGD, DPRGD, DGD, EXTRA, DRGTA, DPRGT, DESTINY, Euclidean gradient tracking and DeEPCA: what
each of them claims."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import topologies as tp
from decentorth import (
    DESTINY,
    DGD,
    DPRGD,
    DPRGT,
    DRFGT,
    DRGTA,
    DRSGD,
    REXTRA,
    RFEXTRA,
    DeEPCA,
    GradientTracking,
    RMTracking,
    solve,
)
from decentorth.algorithms.common.automatic_steps import Order, tracking_limit
from decentorth.algorithms.common.mixing import effective
from decentorth.algorithms.common.shared_step import agreed
from decentorth.api import set_up
from decentorth.api.capabilities import check_capabilities
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import PCA, FunctionProblem, Procrustes, ProcrustesSettings
from decentorth.protocols import Array, Spectrum
from decentorth.sets import Euclidean, Stiefel
from tests.reference import naive, rivals
from tests.support.problems import CASES, GRAPHS, pca, point, procrustes, relative, samples, stack
from tests.support.sets import Box

N = 5
PENALTY = 7.0
ORDERS: tuple[Order, ...] = ("combine-then-adapt", "adapt-then-combine")
VARIANTS: tuple[rivals.Variant, ...] = ("direct", "dissolved")
DIFFERENT = samples((40, 25, 3, 30, 8), 8, 5, ratio=0.75)
UNLIKE = PCA(DIFFERENT, 2, weights="agents")
DESCENTS: dict[str, Callable[..., Any]] = {
    "drsgd": DRSGD,
    "dprgd": DPRGD,
    "dgd": partial(DGD, penalty=5.0),
}
descents = pytest.mark.parametrize("name", DESCENTS)


def unlike(n: int, d: int, seed: int) -> list[Array]:
    """Samples of agents that each prefer directions of their own, beside the common ones."""
    rng = np.random.default_rng(seed)
    turns = [np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(n)]
    return [
        rng.standard_normal((30, d)) * 0.8 ** np.arange(d) @ (turn + np.eye(d)) for turn in turns
    ]


def eigenspace(data: list[Array], r: int) -> tuple[Array, Array]:
    """Eigenvalues of the mean covariance, largest first, and the projection onto the top r
    eigenvectors."""
    values, vectors = np.linalg.eigh(np.mean([a.T @ a / len(a) for a in data], axis=0))
    return values[::-1], vectors[:, -r:] @ vectors[:, -r:].T


def farthest(x: Array, top: Array) -> float:
    spaces = [naive.polar(one) for one in x]
    return max(naive.norm(one @ one.T - top) for one in spaces)


def test_least_squares_without_a_constraint() -> None:
    """DGD stops at (I - W) x + a (H x - K) = 0, agents and entries together; tracking at the pooled
    normal equations."""
    data, rng = samples((30, 40, 25, 33, 28), 4, 0, ratio=0.9), np.random.default_rng(1)
    targets = [rng.standard_normal((2, len(a))) for a in data]
    problem, W = Procrustes(data, targets), GRAPHS["star"](N)
    H, K = [2 * a.T @ a for a in data], [2 * a.T @ b.T for a, b in zip(data, targets, strict=True)]
    step = 0.3 / max(np.linalg.eigvalsh(h)[-1] for h in H)
    big: Array = np.kron(np.eye(N) - W.toarray(), np.eye(4)) + step * scipy.linalg.block_diag(*H)
    expected: Any = np.linalg.solve(big, step * np.concatenate(K)).reshape(N, 4, 2)
    stopped = solve(problem, DGD(step_size=float(step)), W, iterations=3000, rows=2)
    np.testing.assert_allclose(stopped.x, expected, atol=1e-12)
    pooled: Any = np.linalg.solve(naive.mean(H), naive.mean(K))
    assert np.abs(expected - pooled).max() > 1e-2
    tracked = solve(problem, GradientTracking(), GRAPHS["erdos-renyi"](N), iterations=600, rows=2)
    np.testing.assert_allclose(tracked.x, stack(pooled, N), atol=1e-12)
    assert tracked.row.values["feasibility"] > 0.1


def descend(name: str, step_size: Any, iterations: int) -> float:
    """How far the farthest of agents that differ ends from the answer."""
    method, W = DESCENTS[name](step_size=step_size), GRAPHS["ring"](N)
    return farthest(
        solve(UNLIKE, method, W, x0=point(UNLIKE, 3), iterations=iterations, rows=2).x,
        eigenspace(DIFFERENT, 2)[1],
    )


@pytest.mark.slow
@descents
def test_the_error_of_a_constant_step_is_proportional_to_it(name: str) -> None:
    steps = np.array([0.08, 0.04, 0.02]) / UNLIKE.lipschitz.max()
    errors = [descend(name, float(step), round(40 / step)) for step in steps]
    slopes = np.diff(np.log(errors)) / np.diff(np.log(steps))
    np.testing.assert_allclose(slopes, 1, atol=0.08)
    assert abs(slopes[1] - 1) < abs(slopes[0] - 1) + 0.01


@pytest.mark.slow
@descents
def test_the_error_of_diminishing_steps_is_proportional_to_the_last(name: str) -> None:
    initial = 0.5 / float(UNLIKE.lipschitz.max())
    step = f"diminishing:initial={initial}"
    assert descend(name, step, 8000) / descend(name, step, 2000) == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize("method", [DRSGD, DPRGD])
@pytest.mark.parametrize(("rounds", "chebyshev"), [(1, False), (3, False), (3, True)])
def test_agents_agree_at_the_rate_of_the_mixing(method: Any, rounds: int, chebyshev: bool) -> None:
    """Without objectives, close together on the manifold: what is left of their differences after
    an iteration is the largest eigenvalue of W^t; at most Chebyshev's bound of P_t(W)."""
    nothing = FunctionProblem(
        lambda agent, x: 0.0, lambda agent, x: np.zeros_like(x), Stiefel(7, 3), 8
    )
    network, streams = Network(tp.uniform_weights(tp.ring(8), 0.5)), CounterStreams(0, slice(0, 8))
    algorithm = method(step_size=1.0, rounds=rounds, chebyshev=chebyshev)
    noise = 1e-3 * np.random.default_rng(1).standard_normal((8, 7, 3))
    state = algorithm.init(
        nothing, network, streams, np.array([naive.polar(point(nothing) + e) for e in noise])
    )
    spread = []
    for _ in range(40 // rounds):
        state = algorithm.step(nothing, network, streams, state)
        spread.append(np.linalg.norm(state.x - state.x.mean(axis=0)))
    rate = (spread[-1] / spread[-6]) ** 0.2
    bound, plain = (effective(network.spectrum, rounds, how).lambda_2 for how in (chebyshev, False))
    assert rate <= bound * (1 + 1e-3)
    assert bound < plain if chebyshev else rate == pytest.approx(bound, rel=1e-3)


@pytest.mark.slow
def test_the_stability_limit_of_extra() -> None:
    """Agents of one curvature h and minimisers of their own, in Euclidean space: stable up to a h =
    (5 + 3 w)/4, w the smallest eigenvalue of W, and then exact."""
    n, h = 8, 3.0
    c = np.random.default_rng(0).standard_normal((n, 3, 2))
    problem = FunctionProblem(
        lambda i, x: h / 2 * naive.norm(x - c[i]) ** 2,
        lambda i, x: h * (x - c[i]),
        Euclidean(3, 2),
        n,
    )
    for self_weight in (0.05, 0.4, 0.8):
        W = tp.uniform_weights(tp.ring(n), self_weight)
        limit = (5 + 3 * np.linalg.eigvalsh(W.toarray())[0]) / 4 / h
        x = solve(problem, RFEXTRA(step_size=0.97 * limit), W, iterations=4000, rows=2).x
        np.testing.assert_allclose(x, stack(c.mean(axis=0), n), atol=1e-12)
        assert (
            np.abs(
                solve(problem, RFEXTRA(step_size=1.03 * limit), W, iterations=4000, rows=2).x
            ).max()
            > 1e6
        )


@pytest.mark.slow
@pytest.mark.parametrize("method", [REXTRA, RFEXTRA])
@pytest.mark.parametrize("name", CASES)
def test_corrections_sum_to_zero_and_come_to_cancel_the_gradients(method: Any, name: str) -> None:
    """u_i = a grad f_i(x) on the manifold in the end, which itself is not zero. The corrections of
    REXTRA may also have a part normal to the manifold, which its projection takes away. Their sum
    is a sum of rounding errors."""
    problem, iterations = CASES[name]().problem, 2000 if name == "pca" else 5500
    result = solve(
        problem,
        method(),
        GRAPHS["erdos-renyi"](N),
        x0=point(problem),
        iterations=iterations,
        rows=2,
    )
    u, x, a = result.state.dual, result.x, result.state.step_size[:, None, None]
    assert naive.norm(u.sum(axis=0)) < iterations * np.finfo(float).eps * np.linalg.norm(x)
    gradient = problem.gradient(x)
    field = (
        problem.constraint.tangent(x, gradient)
        if method is REXTRA
        else problem.constraint.relative_gradient(x, gradient)
    )
    left = u - a * field
    if method is REXTRA:
        left = problem.constraint.tangent(x, left)
    assert np.abs(left).max() < 1e-6 * np.abs(u).max()
    assert np.abs(u).max() > 1e-3
    assert result.row.values["gradient_norm"] < 1e-6
    assert result.row.values["consensus_error"] < 1e-6


@pytest.mark.parametrize("method", [REXTRA, RFEXTRA])
def test_extra_wants_one_step_and_says_why(method: Any) -> None:
    for step_size in ("diminishing", "bb"):
        message = (
            "step_size must be a positive number, 'auto' or 'growing' for this method, got "
            f"'{step_size}': each agent's"
        )
        with pytest.raises(ValueError, match=re.escape(message)):
            method(step_size=step_size)


@pytest.mark.slow
def test_rfextra_needs_at_most_055_of_the_bytes_of_drfgt() -> None:
    """On the published setting, to gradient norms a hundred times apart, with the published step
    and penalty; at equal gradient norm its agents are about ten times closer together."""
    problem, W = ProcrustesSettings().problem(10, 0), tp.uniform_weights(tp.ring(10), 0.8)
    drfgt, rfextra = (
        solve(
            problem, method(step_size=1e-2, penalty=10.0), W, iterations=3000, record_every=20
        ).history
        for method in (partial(DRFGT, order="combine-then-adapt"), RFEXTRA)
    )
    for level in (3.0, 1.0, 0.3, 0.1, 0.03):
        spent = [
            h["bytes"][np.flatnonzero(h["gradient_norm"] <= level)[0]] for h in (drfgt, rfextra)
        ]
        assert spent[1] <= 0.55 * spent[0]
    apart = [h["consensus_error"][-1] / h["gradient_norm"][-1] for h in (drfgt, rfextra)]
    assert 7 < apart[0] / apart[1] < 14
    assert rfextra["feasibility"][-1] < 1e-3


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CASES)
def test_agreed_steps_are_the_formula_and_the_same_everywhere(name: str, graph: str) -> None:
    """Up to the accuracy of a tenth with which each agent knows the mean gradient."""
    case, W = CASES[name](), GRAPHS[graph](N)
    x0, network = point(case.problem), Network(W)
    eigenvalues = np.linalg.eigvalsh(W.toarray())
    G = np.array([g(x0) for g in case.gradients])
    L = np.maximum(case.lipschitz, np.linalg.norm(G, 2, axis=(1, 2)))
    eta = np.linalg.norm(G - G.mean(axis=0), axis=(1, 2)) / np.linalg.norm(G, axis=(1, 2))
    holds = np.minimum(1.5 * (1 - W.toarray().diagonal()), 0.8 * math.sqrt(1 - eigenvalues[-2]))
    unlike_agents = 1 / np.mean((np.sqrt(eta) * L / holds) ** 8) ** 0.125
    for largest in (1e-3, 0.4, 1e3):
        alike = largest / (np.mean(L**4) ** 0.25 + 2.5)
        step, spent = agreed(
            case.problem,
            network,
            CounterStreams(0, slice(0, N)),
            stack(x0, N),
            largest,
            1.5,
            added=2.5,
        )
        assert np.ptp(step) <= 1e-13 * step[0]
        assert spent == 1
        expected = min(alike, unlike_agents)
        np.testing.assert_allclose(step, expected, rtol=1e-12 if largest == 1e-3 else 0.05)
    assert alike > unlike_agents


def test_agreed_steps_for_several_rounds_and_for_one_agent() -> None:
    """A polynomial of W has P_ii <= 1/n + (1 - 1/n) lambda_2; and a single agent is alike."""
    case, W = CASES["pca"](), GRAPHS["ring"](N)
    x0, network, streams = point(case.problem), Network(W), CounterStreams(0, slice(0, N))
    G = np.array([g(x0) for g in case.gradients])
    eta = np.linalg.norm(G - G.mean(axis=0), axis=(1, 2)) / np.linalg.norm(G, axis=(1, 2))
    for rounds, chebyshev in ((4, False), (1, True), (4, True)):
        step, _ = agreed(
            case.problem, network, streams, stack(x0, N), 1e3, 1.5, mixing=(rounds, chebyshev)
        )
        second = effective(network.spectrum, rounds, chebyshev).lambda_2
        hold = min(1.5 * (1 - 1 / N) * (1 - second), 0.8 * math.sqrt(1 - second))
        np.testing.assert_allclose(
            step, hold / np.mean((np.sqrt(eta) * case.lipschitz) ** 8) ** 0.125, rtol=0.05
        )
        polynomial = (rivals.chebyshev if chebyshev else rivals.power)(W.toarray(), rounds)
        assert polynomial.diagonal().max() <= 1 / N + (1 - 1 / N) * second + 1e-12
    alone = CASES["procrustes"](rows=(30,))
    x0 = point(alone.problem)
    steepness = max(alone.lipschitz[0], float(np.linalg.norm(alone.gradients[0](x0), 2)))
    step, _ = agreed(
        alone.problem, Network(np.ones((1, 1))), CounterStreams(0, slice(0, 1)), x0[None], 0.7, 1.5
    )
    np.testing.assert_allclose(step, 0.7 / steepness, rtol=1e-12)


def test_a_set_without_multipliers_has_no_curvature_of_its_own() -> None:
    n = 4
    c = 1e6 * np.random.default_rng(0).standard_normal((n, 3, 2))
    problem = FunctionProblem(
        lambda i, x: naive.norm(x - c[i]) ** 2 / 2, lambda i, x: x - c[i], Euclidean(3, 2), n
    )
    step, _ = agreed(
        problem,
        Network(GRAPHS["ring"](n)),
        CounterStreams(0, slice(0, n)),
        stack(np.zeros((3, 2)), n),
        1e-3,
        1.0,
    )
    np.testing.assert_allclose(step, 1e-3, rtol=1e-4)


def test_time_varying_networks_are_told_what_to_give() -> None:
    network = tp.OnePeerExponential(8)
    problem = pca(rows=(9,) * 8).problem
    for method in (DRSGD(), REXTRA(), DeEPCA()):
        with pytest.raises(
            ValueError,
            match="lacks the eigenvalues for automatic steps or rounds: give step_size and penalty",
        ):
            set_up(problem, method, network)
    top = eigenspace(samples((9,) * 8, 12, 0), 3)[1]
    result = solve(problem, DeEPCA(rounds=3, chebyshev=False), network, iterations=300, rows=2)
    assert farthest(result.x, top) < 1e-10


@pytest.mark.slow
def test_deepca_converges_at_the_rate_of_the_power_method() -> None:
    """Linearly, by the quotient of eigenvalues r + 1 and r of the mean, though the agents differ,
    with rounds enough; more slowly with the automatic ones, but in fewer rounds in all; with a
    momentum by less, as the recurrence of an eigenvalue says."""
    data = unlike(N, 10, 3)
    values, top = eigenspace(data, 3)
    problem = PCA(data, 3)

    def rate(rounds: Any, momentum: float = 0.0) -> float:
        states = set_up(
            problem, DeEPCA(rounds=rounds, momentum=momentum), GRAPHS["star"](N), x0=point(problem)
        ).states()
        errors = np.array([farthest(next(states).x, top) for _ in range(140)])
        fitted = np.flatnonzero((errors < 1e-6) & (errors > 1e-10))
        assert len(fitted) > 12
        return float(np.exp(np.polyfit(fitted, np.log(errors[fitted]), 1)[0]))

    enough: Any = 5 * DeEPCA().for_network(Network(GRAPHS["star"](N))).rounds
    ratio = values[3] / values[2]
    assert rate(enough) == pytest.approx(ratio, rel=0.02)
    momentum = 0.9 * ratio
    roots = [0.5 * (value + np.sqrt(value**2 - momentum**2)) for value in (ratio, 1.0)]
    assert rate(enough, momentum) == pytest.approx(roots[0] / roots[1], rel=0.02)
    assert rate("auto") ** 5 < ratio < rate("auto") < 1


@pytest.mark.parametrize("rounds", ["auto", 1, 3])
def test_the_mean_of_what_deepca_tracks_is_the_mean_product(rounds: Any) -> None:
    """Of the points before, whether it converges or not."""
    problem = pca().problem
    states = islice(set_up(problem, DeEPCA(rounds=rounds), GRAPHS["path"](N)).states(), 59, 61)
    before, state = next(states).x.copy(), next(states)
    np.testing.assert_array_equal(state.field, problem.product(before))
    gap = naive.norm(naive.mean(state.tracker) - naive.mean(state.field))
    assert gap < 1e-13 * np.linalg.norm(state.field, axis=(1, 2)).mean()
    assert max(naive.infeasibility(x) for x in state.x) < 1e-14


@pytest.mark.parametrize("chebyshev", [True, False])
@pytest.mark.parametrize("graph", GRAPHS)
def test_automatic_rounds_are_the_fewest_that_leave_a_twentieth(
    graph: str, chebyshev: bool
) -> None:
    W, mixing = GRAPHS[graph](9), rivals.chebyshev if chebyshev else rivals.power
    rounds: Any = DeEPCA(chebyshev=chebyshev).for_network(Network(W)).rounds
    left = [np.linalg.norm(mixing(W.toarray(), t) - 1 / 9, 2) for t in (rounds, rounds - 1)]
    assert left[0] <= 0.05 < left[1]
    assert DeEPCA(rounds=2).for_network(Network(W)) == DeEPCA(rounds=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [DRGTA, DPRGT, *(partial(one, order="combine-then-adapt") for one in (DESTINY, DRFGT))],
)
def test_without_a_constraint_they_are_all_gradient_tracking(method: Any) -> None:
    """On Euclidean space tangents are gradients, retractions additions, and there is nothing to
    penalise."""
    H, c = np.random.default_rng(4).standard_normal((2, N, 6, 6))
    problem = FunctionProblem(
        lambda i, x: naive.norm(H[i] @ x - c[i, :, :2]) ** 2 / 2,
        lambda i, x: H[i].T @ (H[i] @ x - c[i, :, :2]),
        Euclidean(6, 2),
        N,
    )
    W, x0 = GRAPHS["path"](N), c[0, :, 4:].copy()
    found, expected = (
        solve(problem, one(step_size=2e-3), W, x0=x0, iterations=200).x
        for one in (method, partial(GradientTracking, order="combine-then-adapt"))
    )
    assert relative(found, expected) < 1e-12
    assert relative(found, stack(x0, N)) > 0.1


@pytest.mark.slow
def test_a_soft_constraint_on_pca() -> None:
    """The penalised problem is solved by v sqrt(1 + c / lambda) for the top eigenvectors v; without
    a penalty points run away."""
    values, top = eigenspace(DIFFERENT, 2)
    result = solve(
        UNLIKE, GradientTracking(penalty=PENALTY), GRAPHS["ring"](N), iterations=5000, rows=2
    )
    for x in result.x:
        np.testing.assert_allclose(
            np.linalg.svd(x, compute_uv=False) ** 2, 1 + values[:2] / PENALTY, rtol=1e-10
        )
    assert farthest(result.x, top) < 1e-8
    assert result.row.values["error"] < 1e-8
    assert (
        solve(
            UNLIKE, GradientTracking(step_size=0.5), GRAPHS["ring"](N), iterations=2000, rows=2
        ).status
        == "diverged"
    )


def means(case: Any, x0: Array) -> tuple[float, float]:
    """L and the largest multiplier, by fourth-power means."""
    norms = [np.linalg.norm(g(x0), 2) for g in case.gradients]
    return tuple(float(np.mean(np.array(v) ** 4) ** 0.25) for v in (case.lipschitz, norms))  # type: ignore[return-value]


def started(case: Any, algorithm: Any, W: Any, x0: Array) -> Any:
    n = case.problem.n_agents
    return algorithm.init(case.problem, Network(W), CounterStreams(0, slice(0, n)), stack(x0, n))


@pytest.mark.parametrize(
    "settings",
    [{}, {"rounds": 3}, {"rounds": 2, "chebyshev": True}, {"consensus_step": 0.25}],
    ids=str,
)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CASES)
def test_automatic_steps_on_the_manifold(name: str, graph: str, settings: dict[str, Any]) -> None:
    """c / max(L, G) with c = min(0.5 u, sqrt(gap)), and at most 2 gap / G, up to 5 % of the fourth
    powers; less with momentum."""
    case, W = CASES[name](), GRAPHS[graph](N)
    x0 = point(case.problem)
    eigenvalues = np.linalg.eigvalsh(W.toarray())
    spectrum = effective(
        Spectrum(eigenvalues[-2], eigenvalues[0]),
        settings.get("rounds", 1),
        settings.get("chebyshev", False),
    )
    gap = settings.get("consensus_step", 1.0) * (1 - spectrum.lambda_2)
    c = min(0.5 * tracking_limit(spectrum, "combine-then-adapt"), np.sqrt(gap))
    L, G = means(case, x0)
    step = started(case, DRGTA(**settings), W, x0).step_size
    np.testing.assert_allclose(step, min(c / max(L, G), 2 * gap / G), rtol=0.0125)
    if "consensus_step" not in settings:
        assert (started(case, DPRGT(**settings), W, x0).step_size == step).all()
        assert (
            started(case, RMTracking(momentum=0.75, **settings), W, x0).step_size == 0.25 * step
        ).all()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CASES)
def test_automatic_steps_and_penalty_of_destiny(name: str, graph: str, order: Order) -> None:
    """With M = max(L, G): beta = 2 M, and steps below u / (2 beta + 3 M), which is where it loses
    its stability."""
    case, W = CASES[name](), GRAPHS[graph](N)
    x0 = point(case.problem)
    eigenvalues = np.linalg.eigvalsh(W.toarray())
    gap, u = 1 - eigenvalues[-2], tracking_limit(Spectrum(eigenvalues[-2], eigenvalues[0]), order)
    L, G = means(case, x0)
    M = max(L, G)
    state = started(case, DESTINY(order=order), W, x0)
    np.testing.assert_allclose(state.penalty, 2 * M, rtol=0.0125)
    np.testing.assert_allclose(
        state.step_size, min(0.8 * u / (7 * M), np.sqrt(gap) / M, 2 * gap / G), rtol=0.0125
    )
    np.testing.assert_array_equal(started(case, DESTINY(step_size=0.02), W, x0).penalty, [5.0] * N)
    np.testing.assert_array_equal(
        started(case, DESTINY(step_size=0.02, penalty=1.0), W, x0).penalty, [1.0] * N
    )


@pytest.mark.parametrize("penalty", [0.0, PENALTY])
@pytest.mark.parametrize("order", ORDERS)
def test_automatic_steps_of_gradient_tracking(order: Order, penalty: float) -> None:
    case, W = procrustes(), GRAPHS["erdos-renyi"](N)
    x0 = point(case.problem)
    eigenvalues = np.linalg.eigvalsh(W.toarray())
    share = (0.5 if order == "combine-then-adapt" else 0.35) * tracking_limit(
        Spectrum(eigenvalues[-2], eigenvalues[0]), order
    )
    L, G = means(case, x0)
    fast, slow = (L + 3 * G + 2 * penalty, max(L, G)) if penalty else (L, L)
    state = started(case, GradientTracking(order=order, penalty=penalty), W, x0)
    np.testing.assert_allclose(
        state.step_size, min(share / fast, np.sqrt(1 - eigenvalues[-2]) / slow), rtol=0.0125
    )


APART = [
    (REXTRA, "slow", 10),
    (RFEXTRA, "star", 10),
    (REXTRA, "bipartite", 10),
    (DRGTA, "star", 30),
    (DPRGT, "slow", 30),
    (DESTINY, "star", 30),
]


@pytest.mark.slow
@pytest.mark.parametrize(("method", "graph", "rows"), APART)
def test_automatic_steps_bring_agents_together_whose_gradients_differ(
    method: Any, graph: str, rows: int
) -> None:
    """Procrustes with large independent targets, and networks on which steps of c / L leave the
    agents apart."""
    slow, bipartite = (tp.uniform_weights(tp.ring(10), own) for own in (0.8, 0.02))
    W = {"slow": slow, "star": tp.metropolis_weights(tp.star(10)), "bipartite": bipartite}[graph]
    rng = np.random.default_rng(0)
    problem = Procrustes(
        rng.standard_normal((10, rows, 20)) / np.sqrt(rows),
        100 * rng.standard_normal((10, 5, rows)),
    )
    history = solve(problem, method(step_size="constant"), W, iterations=3000, rows=2).history
    assert history["gradient_norm"][-1] < 1e-6 * history["gradient_norm"][0]
    assert history["consensus_error"][-1] < 1e-4
    assert history["feasibility"][-1] < 1e-7


KEPT: dict[str, Any] = {
    "drgta": DRGTA,
    "dprgt": DPRGT,
    "drsgd": DRSGD,
    "dprgd": DPRGD,
    "rextra": REXTRA,
}
LOST: dict[str, Any] = {
    "destiny": DESTINY,
    "destiny-dissolved": partial(DESTINY, variant="dissolved"),
    "tracking": GradientTracking,
    "tracking-penalty": partial(GradientTracking, penalty=PENALTY),
    "dgd": DGD,
    "rfextra": RFEXTRA,
}


@pytest.mark.parametrize("name", [*KEPT, *LOST])
def test_a_step_far_too_large_is_a_status(name: str) -> None:
    """Points that are brought back stay feasible, the others diverge: a status, with advice."""
    result = solve(
        procrustes().problem, (KEPT | LOST)[name](step_size=1e8), GRAPHS["star"](N), iterations=300
    )
    if name in KEPT:
        assert result.status == "iterations"
        assert result.row.values["feasibility"] < 1e-12
    else:
        assert result.status == "diverged"
        assert "the step size 1e+08 is too large" in result.message


def test_a_soft_constraint_needs_a_set_with_a_penalty() -> None:
    problem = FunctionProblem(lambda i, x: 0.0, lambda i, x: x, Box(), 2)
    check_capabilities(problem, GradientTracking())
    with pytest.raises(
        TypeError, match="GradientTracking needs Penalised of its problem; Box has none"
    ):
        check_capabilities(problem, GradientTracking(penalty=1.0))
    with pytest.raises(TypeError, match="DESTINY needs Dissolvable of its problem; Box has none"):
        check_capabilities(problem, DESTINY())
    with pytest.raises(
        TypeError,
        match=r"DeEPCA needs Eigenproblem of its problem; Procrustes has none\. Eigenproblem: A "
        r"problem",
    ):
        check_capabilities(procrustes().problem, DeEPCA())
