"""Methods for constraints that are themselves distributed: each agent knows its own B_i of x^T
((1/n) sum_i B_i) x = I."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth import CDADT, GeneralizedDRFGT, solve
from decentorth.algorithms.decentralized.double_tracking import (
    DoubleTracking,
    DoubleTrackingState,
    heavy_ball_limit,
)
from decentorth.algorithms.decentralized.preconditioning import (
    Preconditioner,
    preconditioner,
    probe,
)
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import CCASettings
from decentorth.protocols import Array, Spectrum
from decentorth.stopping import Feasibility, GradientNorm
from tests.reference import double_tracking as reference
from tests.reference import naive
from tests.reference.generalized import norm
from tests.support.distributed import OwnMatrices, own_pencils, own_views
from tests.support.networks import Recording
from tests.support.problems import GRAPHS, relative, stack

METHODS: dict[reference.Method, DoubleTracking] = {
    "dissolving": CDADT(),
    "psi-br": GeneralizedDRFGT(),
}
PROBLEMS: dict[str, Callable[[], OwnMatrices]] = {"pencils": own_pencils, "views": own_views}
both = pytest.mark.parametrize(
    "method", [CDADT(), GeneralizedDRFGT()], ids=lambda method: type(method).__name__
)
STREAMS = CounterStreams(3, slice(0, 5))
every_problem = pytest.mark.parametrize("name", PROBLEMS)


def gaussian(shape: tuple[int, ...], seed: int = 1) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def begun(method: DoubleTracking, problem: OwnMatrices, W: Any, x0: Array) -> DoubleTrackingState:
    return method.init(problem, Network(W), STREAMS, stack(x0, problem.n_agents))


def dense(problem: OwnMatrices, state: DoubleTrackingState) -> list[Array]:
    d = problem.shape[0]
    identity = np.broadcast_to(np.eye(d), (problem.n_agents, d, d))
    return list(Preconditioner(state.weights, state.basis).apply(problem.constraint.rows, identity))


@pytest.mark.parametrize("momentum", [0.0, 0.7])
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("kind", METHODS)
@every_problem
def test_iterations_are_their_formulas(
    name: str, kind: reference.Method, graph: str, momentum: float
) -> None:
    """Steps, penalties and preconditioners differ from agent to agent, which shows whose is
    taken."""
    problem, W = PROBLEMS[name](), GRAPHS[graph](5)
    unequal = np.linspace(0.5, 1.0, problem.n_agents)
    method, network = replace(METHODS[kind], momentum=momentum), Network(W)
    state = begun(method, problem, W, gaussian(problem.shape))
    state = state._replace(
        step_size=0.5 * state.step_size * unequal,
        penalty=state.penalty * unequal[::-1],
        weights=state.weights * unequal[::-1, None],
        basis=state.basis * np.sqrt(unequal[::-1, None, None]),
    )
    x, g, d = reference.iterate(
        kind,
        problem.naive_gradients(),
        list(problem.B),
        W.toarray(),
        problem.constraint.rows,
        dense(problem, state),
        (state.x.copy(), state.tracker.copy(), state.product_tracker.copy()),
        state.step_size.tolist(),
        state.penalty.tolist(),
        momentum,
        30,
    )
    start = state.x.copy()
    for _ in range(30):
        state = method.step(problem, network, STREAMS, state)
    assert relative(state.x, x) < 1e-11
    assert relative(state.tracker, g) < 1e-11
    assert relative(state.product_tracker, d) < 1e-11
    assert relative(state.x, start) > 1e-2


def test_the_dissolving_field_is_the_gradient_of_the_penalty_function() -> None:
    """Central differences of h at agreement: g the gradient of f at A(x), d = B x; at a point far
    from the set."""
    rng = np.random.default_rng(0)
    A, B = (matrix @ matrix.T / 6 for matrix in rng.standard_normal((2, 6, 6)))
    x, beta = 0.5 * rng.standard_normal((6, 2)), 1.3
    found = reference.field("dissolving", beta, x, -A @ reference.dissolve(x, B @ x), B @ x)
    for v in rng.standard_normal((12, 6, 2)):
        h = [
            reference.penalty_function(
                lambda y: -float(np.trace(y.T @ A @ y)) / 2, B, beta, x + t * 1e-3 * v
            )
            for t in (1, -1, 2, -2)
        ]
        assert (8 * (h[0] - h[1]) - (h[2] - h[3])) / (12 * 1e-3) == pytest.approx(
            float((found * v).sum()), abs=1e-8
        )


@pytest.mark.parametrize("kind", METHODS)
@every_problem
def test_means_of_the_trackers_are_the_means(name: str, kind: reference.Method) -> None:
    """That of the products; the contract has that of the gradients."""
    problem, W = PROBLEMS[name](), GRAPHS["ring"](5)
    method, network = METHODS[kind], Network(W)
    state = begun(method, problem, W, gaussian(problem.shape))
    for _ in range(300):
        state = method.step(problem, network, STREAMS, state)
    products = problem.B @ state.x
    assert norm(naive.mean(state.product_tracker) - naive.mean(products)) < 1e-12 * np.mean(
        [norm(one) for one in products]
    )
    np.testing.assert_allclose(state.product, products, atol=1e-12)


@both
@every_problem
def test_any_matrix_of_full_rank_becomes_a_feasible_start(
    name: str, method: DoubleTracking
) -> None:
    """Far from the set, scaled by 1e3 and 1e-3: the polar factor in the metric of B, which no agent
    knows."""
    problem = PROBLEMS[name]()
    x0 = gaussian(problem.shape)
    expected = problem.constraint.project(x0[None])[0]
    for scale in (1e3, 1e-3):
        state = begun(method, problem, GRAPHS["path"](5), scale * x0)
        assert problem.constraint.feasibility(state.x).max() < 1e-7
        assert relative(state.x, stack(expected, 5)) < 1e-7


INVERSES: dict[Any, Callable[[Array, Array], Any]] = {
    "none": lambda block, omega: np.eye(len(block)),
    "diagonal": lambda block, omega: np.diag(1 / np.diag(block)),
    "sketch": reference.nystrom,
    "covariance": lambda block, omega: np.linalg.inv(block),
}


@pytest.mark.parametrize("kind", INVERSES)
@every_problem
def test_agents_agree_on_the_preconditioner_of_the_mean(name: str, kind: Any) -> None:
    """Each agent's P is, to 1e-6, what the formula makes of the mean of the B_i; covariance gives
    the inverse."""
    problem = PROBLEMS[name]()
    B, expected = naive.mean(problem.B), np.zeros((problem.shape[0],) * 2)
    omega = probe(kind, None, problem.constraint.rows, problem.shape[1], STREAMS)
    for part in problem.constraint.rows:
        expected[part, part] = INVERSES[kind](B[part, part], omega[part])
    for agent in dense(
        problem,
        begun(CDADT(preconditioner=kind), problem, GRAPHS["star"](5), gaussian(problem.shape)),
    ):
        for part in problem.constraint.rows:
            block = expected[part, part]
            np.testing.assert_allclose(
                agent[part, part], block, rtol=0, atol=1e-6 * np.abs(block).max()
            )
        np.testing.assert_array_equal(agent[expected == 0.0], 0.0)


@pytest.mark.parametrize(("columns", "expected"), [(4, 4), (6, 6), (None, 10), (13, 13), (40, 20)])
def test_a_sketch_takes_the_largest_eigenvalues_away(columns: int | None, expected: int) -> None:
    """P is positive definite, the condition of P B falls with the columns, and Omega is
    orthonormal; with all P = B^{-1}."""
    rng = np.random.default_rng(4)
    turn = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    B = (turn * np.concatenate((np.geomspace(1e3, 10.0, 6), np.linspace(1.0, 0.5, 14)))) @ turn.T
    parts = (slice(0, 20),)
    omega = probe("sketch", columns, parts, 2, CounterStreams(3, slice(0, 1)))
    assert min(omega.shape[1], 20) == expected
    np.testing.assert_allclose(omega[:, :20].T @ omega[:, :20], np.eye(expected), atol=1e-12)
    made = preconditioner("sketch", parts, np.diag(B)[None], omega, (B @ omega)[None])
    P = made.apply(parts, np.eye(20)[None])[0]
    np.testing.assert_allclose(P, P.T, atol=1e-12 * np.abs(P).max())
    assert np.linalg.eigvalsh(P)[0] > 0
    values = np.sort(np.linalg.eigvals(P @ B).real)
    limit = {4: 700.0, 6: 150.0, 10: 40.0, 13: 12.0, 20: 1.0 + 1e-9}[expected]
    assert values[-1] / values[0] < limit


def test_without_columns_nobody_learns_more_than_a_sketch_of_B() -> None:
    """The widest array that an agent ever sends beside its points has p + s + 1 columns; with the
    covariance it has all."""
    problem = own_views(orders=(12, 10))
    for kind, widest in (("sketch", 2 + 5 + 1), ("diagonal", 2 + 1), ("covariance", 2 + 12 + 1)):
        method = CDADT(preconditioner=kind)  # type: ignore[arg-type]  # one of the choices
        network = Recording(Network(GRAPHS["ring"](5)))
        state = method.init(problem, network, STREAMS, stack(gaussian(problem.shape), 5))
        for _ in range(3):
            state = method.step(problem, network, STREAMS, state)
        widths = [
            array[0].size / problem.shape[0]
            for exchange in network.exchanges
            for array in exchange.given
        ]
        assert max(widths) == max(widest, 2 * 2)


VARIANTS = [
    *[
        kind(preconditioner=name)
        for kind in (CDADT, GeneralizedDRFGT)
        for name in ("sketch", "diagonal", "covariance", "none")
    ],
    CDADT(momentum=0.0),
    GeneralizedDRFGT(momentum=0.0),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "graph"),
    list(zip(VARIANTS, [*GRAPHS, *GRAPHS], strict=True)),
    ids=lambda one: (
        one
        if isinstance(one, str)
        else f"{type(one).__name__}-{one.preconditioner}-{one.momentum:g}"
    ),
)
def test_automatic_steps_find_the_leading_eigenvectors(method: DoubleTracking, graph: str) -> None:
    """From any matrix, on any graph, to rounding; what is measured needs no answer but says the
    same."""
    problem = own_pencils()
    done = GradientNorm(1e-10) & Feasibility(1e-10)
    result = solve(
        problem,
        method,
        GRAPHS[graph](5),
        x0=gaussian(problem.shape),
        iterations=12000,
        record_every=200,
        stopping=done,
    )
    assert result.status == "converged"
    B, answer = naive.mean(problem.B), problem.optimum()
    for x in result.x:
        assert norm(x @ x.T @ B - answer @ answer.T @ B) < 1e-8


def test_given_numbers_are_taken_and_nothing_is_measured_for_them() -> None:
    problem, network = own_pencils(), Network(GRAPHS["ring"](5))
    state = CDADT(step_size=0.01, penalty=3.0).init(
        problem, network, STREAMS, stack(gaussian(problem.shape), 5)
    )
    np.testing.assert_array_equal(state.step_size, 0.01)
    np.testing.assert_array_equal(state.penalty, 3.0)
    assert state.gradients == 2
    automatic = Network(GRAPHS["ring"](5))
    assert (
        CDADT().init(problem, automatic, STREAMS, stack(gaussian(problem.shape), 5)).gradients > 2
    )
    assert automatic.rounds > network.rounds


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "iterations"),
    [(CDADT(), 2400), (GeneralizedDRFGT(preconditioner="covariance"), 1400)],
    ids=["CDADT", "psi-br"],
)
def test_correlations_of_the_digits_by_label(method: DoubleTracking, iterations: int) -> None:
    """All five pooled canonical correlations to 1e-6, by automatic steps, on a ring of ten agents
    who see one digit each."""
    problem = CCASettings(partition="by-label").problem(10, 0)
    result = solve(
        problem,
        method,
        tp.metropolis_weights(tp.ring(10)),
        x0=gaussian((56, 5)),
        iterations=iterations,
        rows=2,
    )
    xhat = result.problem.constraint.project(result.x.mean(axis=0)[None])[0]
    np.testing.assert_allclose(
        result.problem.correlations(xhat), result.problem.optimum.correlations[:5], atol=1e-6
    )
    assert result.row.values["error"] < 1e-6
    assert result.row.values["feasibility"] < 2e-3


@pytest.mark.parametrize("momentum", [0.0, 0.5, 0.9])
def test_the_heavy_ball_limit_is_where_the_iteration_becomes_unstable(momentum: float) -> None:
    """(1)-(3) of alike agents in an eigenvector of W and one of the curvature: (x, previous x, g)
    is multiplied by this matrix."""

    def radius(w: float, step: float) -> float:
        moved = [w + momentum, -momentum, -w * step]
        matrix = np.array([moved, [1.0, 0.0, 0.0], [moved[0] - 1.0, moved[1], w + moved[2]]])
        return float(np.abs(np.linalg.eigvals(matrix)).max())

    for w in (0.9, 0.0, -0.1, -0.3, -0.6, -0.95):
        limit = (1.0 - momentum) * heavy_ball_limit(Spectrum(0.9, w), momentum)
        modes = (1.0, 0.9, w)
        assert max(radius(mode, 0.99 * limit) for mode in modes) < 1.0 + 1e-9
        assert max(radius(mode, 1.01 * limit) for mode in modes) > 1.0 + 1e-4
