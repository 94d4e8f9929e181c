"""Safe steps: the region is never left, labels agree soon, and what is left is a run with a good
fixed step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest

import topologies as tp
from decentorth import DRFGT, Safe, solve
from decentorth.algorithms.decentralized.safe import LAST
from decentorth.algorithms.decentralized.wrappers import WrappedState
from decentorth.api import Run, set_up
from decentorth.problems import FunctionProblem, ProcrustesSettings
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from tests.reference import naive
from tests.support.building import built
from tests.support.problems import GRAPHS, Case, pca, point

Order = Literal["combine-then-adapt", "adapt-then-combine"]
ORDERS: tuple[Order, ...] = ("combine-then-adapt", "adapt-then-combine")
EPS = 0.5


def penalty_share(W: Array, order: Order) -> float:
    """The product of step and automatic penalty: 0.1, at most a quarter of the limit of gradient
    tracking on W."""
    w = float(np.linalg.eigvalsh(W)[0])
    slow = (1 + w) ** 2 / 2 if order == "combine-then-adapt" else (1 + w) ** 2 / (2 * w * w)
    return min(0.1, slow / 4) if order == "combine-then-adapt" or w < 0 else 0.1


def reference(
    case: Case, W: Array, x0: Array, step: float, share: float, order: Order, iterations: int
) -> Iterator[Any]:
    """Points, trackers and labels after each iteration; the penalty is ``share / step`` with the
    halved step."""
    n = len(W)

    def field(i: int, x: Array, h: int) -> Array:
        return naive.landing_field(x, case.gradients[i](x), share / (step / 2**h))

    def outside(x: Array) -> bool:
        return not naive.infeasibility(x) <= EPS

    first = [field(i, x0, 0) for i in range(n)]
    h = [0] * n
    for i in range(n):
        while outside(x0 - step / 2 ** h[i] * first[i]):
            h[i] += 1
    x, y, f = [x0] * n, list(first), list(first)

    def combine(points: list[Array], i: int) -> Array:
        equals = [j for j in range(n) if j != i and h[i] == h[j]]
        return (1 - sum(W[i, j] for j in equals)) * points[i] + sum(
            W[i, j] * points[j] for j in equals
        )

    for _ in range(iterations):
        alpha = [step / 2 ** h[i] for i in range(n)]
        if order == "combine-then-adapt":
            x = [combine(x, i) - alpha[i] * y[i] for i in range(n)]
            new = [field(i, x[i], h[i]) for i in range(n)]
            y = [combine(y, i) + new[i] - f[i] for i in range(n)]
        else:
            moved = [x[i] - alpha[i] * y[i] for i in range(n)]
            x = [combine(moved, i) for i in range(n)]
            new = [field(i, x[i], h[i]) for i in range(n)]
            corrected = [y[i] + new[i] - f[i] for i in range(n)]
            y = [combine(corrected, i) for i in range(n)]
        f = new
        judged = [
            max([h[i] + outside(x[i]), *(h[j] for j in range(n) if W[i, j] > 0)]) for i in range(n)
        ]
        for i in range(n):
            if judged[i] > h[i]:
                x[i], y[i], f[i] = x0, first[i], first[i]
        h = judged
        yield np.array(x), np.array(y), list(h)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_every_iteration_is_that_of_the_rules(graph: str, order: Order) -> None:
    """Restarts by an agent's own point and by hearsay, at the start and later."""
    case, W = pca(), GRAPHS[graph](5)
    share = penalty_share(W.toarray(), order)
    run = set_up(
        case.problem, DRFGT(step_size=30.0, safe=True, order=order), W, comm="serial", seed=7
    )
    states = run.states()
    seen = {tuple(next(states).progress.label)}
    for x, tracker, label in reference(case, W.toarray(), run.x0[0], 30.0, share, order, 60):
        state = next(states)
        assert state.progress.label.tolist() == label
        np.testing.assert_allclose(state.x, x, rtol=0, atol=1e-11)
        np.testing.assert_allclose(state.tracker, tracker, rtol=0, atol=1e-11)
        seen.add(tuple(label))
    assert len(seen) > (2 if order == "combine-then-adapt" else 1)
    assert any(len(set(labels)) > 1 for labels in seen)


class Watched(NamedTuple):
    """A run whose every state was looked at."""

    outermost: float  # the largest ||x_i^T x_i - I||_F of any agent in any iteration
    changes: list[int]  # iterations in which a label rose
    restarts: int  # the most that any agent made
    # the largest ||mean(y) - mean(Lambda)||_F while all labels agree, relative to mean_i
    # ||Lambda_i(x_0)||
    gap: float
    gradient: list[float]  # the gradient norm of f at the projected mean, every 20th iteration
    state: WrappedState


def watch(run: Run, iterations: int) -> Watched:
    problem = run.problem
    outermost, gap, changes, gradient = 0.0, 0.0, [], []
    restarts = np.zeros(problem.n_agents, dtype=int)
    label = None
    for k, state in zip(range(iterations + 1), run.states(), strict=False):
        outermost = max(outermost, float(problem.constraint.feasibility(state.x).max()))
        if label is not None and (state.progress.label != label).any():
            assert (state.progress.label >= label).all()
            again = state.progress.label > label
            np.testing.assert_array_equal(state.x[again], run.x0[again])
            changes.append(k)
            restarts += again
        label = state.progress.label.copy()
        if len(set(label)) == 1:
            mean = np.linalg.norm(np.mean(state.tracker - state.field, axis=0))
            gap = max(
                gap, float(mean / np.mean(np.linalg.norm(state.progress.start_field, axis=(1, 2))))
            )
        if k % 20 == 0:
            hat = problem.constraint.project(state.x.mean(0)[None])
            g = problem.gradient(np.repeat(hat, len(state.x), axis=0)).mean(0)
            gradient.append(naive.norm(naive.tangent_projection(hat[0], g)))
    return Watched(outermost, changes, int(restarts.max()), gap, gradient, state)


def test_a_method_that_is_wrapped_by_hand_runs_as_with_the_setting() -> None:
    """The method inside has its automatic order chosen, and other settings are another run."""
    case, W = pca(), GRAPHS["ring"](5)
    wrapped, asked = (
        solve(case.problem, method, W, comm="serial", iterations=60)
        for method in (Safe(DRFGT(step_size=30.0)), DRFGT(step_size=30.0, safe=True))
    )
    assert wrapped.iterates_sha256 == asked.iterates_sha256
    assert wrapped.state.progress.label.tolist() == asked.state.progress.label.tolist()
    one, other = (
        set_up(case.problem, Safe(DRFGT(step_size=step)), W, comm="serial").identity.facts
        for step in (30.0, 31.0)
    )
    assert one["algorithm"] != other["algorithm"]


def published() -> Any:
    return built(ProcrustesSettings().problem(10, 0))


NETWORKS: dict[str, Any] = {
    "ring": lambda: tp.uniform_weights(tp.ring(10), 0.8),
    "star": lambda: tp.metropolis_weights(tp.star(10)),
    "erdos-renyi": lambda: tp.metropolis_weights(tp.erdos_renyi(10, 0.4, seed=3)),
}


def check_as_good(found: Watched, run: Any) -> None:
    """From the last restart on, the gradient norm falls as in a run that has the settled step and
    penalty from the beginning."""
    state, left = found.state, 20 * (len(found.gradient) - 1) - max(found.changes, default=0)
    settled = replace(
        run.algorithm,
        step_size=float(state.step_size[0]),
        penalty=float(state.penalty[0]),
        safe=False,
    )
    fixed = solve(
        run.problem, settled, run.network.W, x0=run.x0[0], comm="serial", iterations=left, rows=2
    )
    assert fixed.row.values["gradient_norm"] < 0.2 * found.gradient[0]
    assert found.gradient[-1] < 1.05 * fixed.row.values["gradient_norm"]


def check_settled(found: Watched, run: Any, step: float) -> None:
    """All agents agree on a step that is the given one halved, and have kept inside and tracked the
    mean field."""
    state, share = found.state, penalty_share(run.network.W.toarray(), run.algorithm.order)
    assert found.outermost <= EPS
    assert len(set(state.progress.label)) == 1
    np.testing.assert_array_equal(state.step_size, step * 0.5**state.progress.label)
    np.testing.assert_allclose(state.penalty, share / step * 2.0**state.progress.label, rtol=1e-12)
    assert found.gap < 1e-13


@pytest.mark.slow
@pytest.mark.parametrize(
    ("network", "times", "order"),
    [("ring", 1.0, ORDERS[0]), ("star", 10.0, ORDERS[1]), ("erdos-renyi", 1e8, ORDERS[0])],
)
def test_the_published_experiment_at_any_step(network: str, times: float, order: Order) -> None:
    """Nobody ever outside, two restarts at the most, and a gradient norm like that of a run with
    the settled step alone."""
    run = set_up(
        published(),
        DRFGT(step_size=1e-2 * times, safe=True, eps=EPS, order=order),
        NETWORKS[network](),
        comm="serial",
    )
    found = watch(run, 700)
    check_settled(found, run, 1e-2 * times)
    check_as_good(found, run)
    assert found.restarts <= 2
    assert 2e-3 < found.state.step_size[0] <= 1e-2


@pytest.mark.slow
def test_a_given_penalty_stays() -> None:
    """Steps 1e8 times too large beside the published penalty: halved until their product is
    small."""
    run = set_up(
        published(),
        DRFGT(step_size=1e6, penalty=10.0, safe=True),
        NETWORKS["ring"](),
        comm="serial",
    )
    found = watch(run, 600)
    assert found.outermost <= EPS
    assert found.restarts <= 3
    assert found.state.penalty.tolist() == [10.0] * 10
    assert set(found.state.step_size) == {1e6 * 0.5 ** found.state.progress.label[0]}
    check_as_good(found, run)
    assert found.gap < 1e-13


@pytest.mark.slow
def test_mini_batches() -> None:
    """f_i(x) = -<mean_s C_is, x>, estimated; whoever starts over, starts with the first
    estimate."""
    C = np.random.default_rng(2).standard_normal((5, 20, 8, 3)) + 3.0 * np.eye(8, 3)
    problem = FunctionProblem(
        lambda i, x: -float((C[i].mean(0) * x).sum()),
        lambda i, x: -C[i].mean(0),
        Stiefel(8, 3),
        5,
        gradient_on=lambda i, x, batch: -C[i][batch].mean(0),
        n_samples=20,
    )
    run = set_up(
        problem, DRFGT(step_size=100.0, safe=True, batch_size=4), GRAPHS["ring"](5), comm="serial"
    )
    found = watch(run, 800)
    check_settled(found, run, 100.0)
    assert found.changes
    assert found.state.gradients == 801
    optimum = naive.polar(C.mean((0, 1)))
    start, end = (naive.norm(naive.polar(x.mean(0)) - optimum) for x in (run.x0, found.state.x))
    assert end < 0.2 * start


@pytest.mark.slow
def test_steps_that_are_safe_are_left_alone() -> None:
    """The same bits as without safe, and 8 bytes more over each edge."""
    case, W = pca(), GRAPHS["erdos-renyi"](5)
    for order, exchanges in zip(ORDERS, (1, 2), strict=True):
        method = DRFGT(step_size="constant", order=order)
        plain, safe = (
            solve(case.problem, replace(method, safe=s), W, comm="serial", iterations=300)
            for s in (False, True)
        )
        assert safe.iterates_sha256 == plain.iterates_sha256
        for name in (*plain.state._fields[:4], "gradients"):
            np.testing.assert_array_equal(getattr(safe.state, name), getattr(plain.state, name))
        assert safe.network.messages == plain.network.messages
        assert safe.network.bytes - plain.network.bytes == 300 * exchanges * 8 * (W.nnz - 5)


@pytest.mark.slow
def test_a_start_outside_is_refused() -> None:
    case = pca()
    message = (
        r"within eps = 0\.5 of the manifold.*\|\|x0\^T x0 - I\|\|_F is 1\.73; project x0 first"
    )
    for start in (np.sqrt(2.0) * point(case.problem), 1e-3 * point(case.problem)):
        with pytest.raises(ValueError, match=message):
            solve(
                case.problem,
                DRFGT(safe=True),
                GRAPHS["ring"](5),
                x0=start,
                comm="serial",
                iterations=1,
            )
    near = solve(
        case.problem,
        DRFGT(step_size=1e3, safe=True),
        GRAPHS["ring"](5),
        x0=1.1 * point(case.problem),
        iterations=2000,
    )
    assert near.row.values["feasibility"] < 1e-6
    for eps in (0.0, 0.75, -1.0):
        with pytest.raises(ValueError, match=r"eps must be above 0 and below 0.75"):
            DRFGT(safe=True, eps=eps)


def test_a_gradient_that_is_no_number_ends_the_run() -> None:
    """No halving helps: the run has diverged, rather than starting over for ever."""
    C = np.full((5, 2), np.nan)
    problem = FunctionProblem(lambda i, x: 0.0, lambda i, x: C if i == 2 else -x, Stiefel(5, 2), 5)
    result = solve(
        problem,
        DRFGT(step_size=0.1, penalty=1.0, safe=True),
        GRAPHS["ring"](5),
        comm="serial",
        iterations=50,
    )
    assert result.status == "diverged"
    assert "agent 2" in result.message
    assert result.state.progress.label[2] > LAST


def test_halving_saves_a_gradient_that_ends_inside_the_region() -> None:
    """Where there is no gradient, the iteration after it is no number, and what is no number is
    outside."""
    start = np.linalg.qr(np.random.default_rng(0).standard_normal((6, 2)))[0]
    C = start + 0.3 * np.random.default_rng(1).standard_normal((6, 2))

    def gradient(i: int, x: Array) -> Array:
        return -C if np.linalg.norm(x - start) < 0.9 else np.full_like(C, np.nan)

    problem = FunctionProblem(lambda i, x: -float((C * x).sum()), gradient, Stiefel(6, 2), 5)
    algorithm = DRFGT(step_size=100.0, safe=True, order="adapt-then-combine")
    result = solve(
        problem, algorithm, GRAPHS["complete"](5), x0=start, comm="serial", iterations=600
    )
    np.testing.assert_allclose(result.x, np.repeat(naive.polar(C)[None], 5, axis=0), atol=1e-6)
