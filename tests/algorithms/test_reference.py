"""DRFGT and landing against loops written from the formulas; automatic steps, averages and rounds
of mixing against theirs."""

from __future__ import annotations

import importlib.util
import math
from functools import partial
from typing import Any, Literal, get_args

import numpy as np
import pytest

import topologies as tp
from decentorth import DRFGT, DRGTA, Landing, solve
from decentorth.algorithms.common.automatic_steps import (
    Order,
    resolve,
    tracking_aim,
    tracking_limit,
)
from decentorth.algorithms.common.curvature import lipschitz
from decentorth.algorithms.common.mixing import average, effective, mix
from decentorth.commands.new.algorithm import Template
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import FunctionProblem
from decentorth.protocols import Array, Spectrum
from tests.reference import naive, rivals
from tests.support.marks import first_is_quick
from tests.support.problems import CASES, GRAPHS, UNEVEN, Case, point, procrustes, relative, stack

ORDERS: tuple[Order, ...] = get_args(Order)
Kernel = Literal["numpy", "numba"]
NUMBA: list[Kernel] = ["numba"] if importlib.util.find_spec("numba") else []
KERNELS: list[Any] = first_is_quick(["numpy", *NUMBA])
N = 5


def streams(n: int, seed: int = 0) -> CounterStreams:
    return CounterStreams(seed, slice(0, n))


def constants(case: Case, W: Any, x0: Array, order: Order) -> tuple[float, float]:
    eigenvalues = np.linalg.eigvalsh(W.toarray())
    gradients = [g(x0) for g in case.gradients]
    return naive.auto_constants(
        case.lipschitz, x0, gradients, eigenvalues[-2], eigenvalues[0], order
    )


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CASES)
def test_drfgt_is_algorithm_1_with_steps_and_penalties_of_each_agent(
    name: str, order: Order, kernel: Kernel
) -> None:
    """What ``auto`` leaves in the state differs from agent to agent in its last digits; here it
    differs in its first."""
    case, W = CASES[name](), GRAPHS["erdos-renyi"](N)
    x0 = point(case.problem)
    alpha, lam = constants(case, W, x0, order)
    alphas, lams = alpha * np.linspace(0.3, 0.6, N), lam * np.linspace(1.0, 2.0, N)
    method, network = DRFGT(step_size=alpha, penalty=lam, order=order, kernel=kernel), Network(W)
    state = method.init(case.problem, network, streams(N), stack(x0, N))
    field = np.array(
        [naive.landing_field(x0, g(x0), p) for g, p in zip(case.gradients, lams, strict=True)]
    )
    state = state._replace(
        step_size=alphas, base=alphas, penalty=lams, tracker=field.copy(), field=field
    )
    for _ in range(50):
        state = method.step(case.problem, network, streams(N), state)
    expected = rivals.drfgt(
        rivals.full(case.gradients), W.toarray(), x0, alphas, 50, order=order, penalty=lams
    )
    assert relative(state.x, expected.x[-1]) < 1e-12
    assert relative(state.tracker, expected.tracker[-1]) < 1e-12


@pytest.mark.parametrize("rows", [4, 30])
@pytest.mark.parametrize("name", CASES)
def test_landing_is_its_iteration(name: str, rows: int) -> None:
    case = CASES[name](rows=(rows,))
    x0 = point(case.problem)
    gradients = [gradient(x0) for gradient in case.gradients]
    eta, lam = naive.auto_constants(case.lipschitz, x0, gradients, 0.0, 0.0, "adapt-then-combine")
    result = solve(case.problem, Landing(step_size=eta, penalty=lam), x0=x0, iterations=50)
    field = rivals.canonical_landing_field(rivals.full(case.gradients), lam)
    assert relative(result.x, rivals.descent(field, np.ones((1, 1)), x0, eta, 50).x[-1]) < 1e-12
    assert relative(result.x[0], x0) > 1e-2


def test_landing_with_safe_steps() -> None:
    """A fixed step far too large; the safe policy takes the formula's step in each iteration and
    stays within eps.

    Steps at the edge of stability double rounding errors in each iteration or so, hence only a
    dozen.
    """
    case = CASES["procrustes"](rows=(30,))
    x0, lam, eps = point(case.problem), 4.0, 0.5
    x, shortened = x0, 0
    for _ in range(12):
        field = naive.landing_field(x, case.gradients[0](x), lam)
        eta = naive.landing_safe_step(x, field, lam, eps)
        shortened += eta < 0.1
        x = x - min(0.1, eta) * field
        assert naive.infeasibility(x) <= eps
    assert shortened > 6
    result = solve(
        case.problem, Landing(step_size=0.1, penalty=lam, safe=True, eps=eps), x0=x0, iterations=12
    )
    assert relative(result.x[0], x) < 1e-12
    assert result.history["feasibility"].max() <= eps


@pytest.mark.parametrize("name", CASES)
def test_template_is_its_formula(name: str) -> None:
    """x_i <- sum_j W_ij x_j - alpha Lambda_i(x_i), agent by agent."""
    case, W = CASES[name](), GRAPHS["erdos-renyi"](N)
    x0, alpha, lam = point(case.problem), 1e-3, 30.0
    field = rivals.canonical_landing_field(rivals.full(case.gradients), lam)
    result = solve(case.problem, Template(step_size=alpha, penalty=lam), W, x0=x0, iterations=30)
    assert relative(result.x, rivals.descent(field, W.toarray(), x0, alpha, 30).x[-1]) < 1e-12
    assert relative(result.x, stack(x0, N)) > 1e-3


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", CASES)
def test_automatic_constants(name: str, graph: str, order: Order) -> None:
    """Each agent's step is the formula's up to its error in the averaged Lhat^4, at most 5 % of the
    mean."""
    case, W = CASES[name](), GRAPHS[graph](N)
    x0 = point(case.problem)
    alpha, lam = constants(case, W, x0, order)
    local = [
        max(L, float(np.linalg.norm(g(x0), ord=2)))
        for L, g in zip(case.lipschitz, case.gradients, strict=True)
    ]
    step, penalty, spent = resolve(
        DRFGT(),
        case.problem,
        Network(W),
        streams(N),
        stack(x0, N),
        partial(tracking_aim, Network(W), order, "auto"),
    )
    fourth = np.array(local) ** 4
    bound = float(0.05 / np.sqrt(N) * np.std(fourth) / np.mean(fourth) + 1e-12)
    assert bound <= 0.05
    np.testing.assert_allclose((alpha / step) ** 4, 1, rtol=bound)
    np.testing.assert_allclose(step * penalty, alpha * lam, rtol=1e-12)
    assert spent == 1


def test_what_given_numbers_mean() -> None:
    case, network = procrustes(), Network(GRAPHS["ring"](N))
    x0 = stack(point(case.problem), N)

    def resolved(**given: Any) -> list[Array]:
        method = DRFGT(**given)
        aim = partial(tracking_aim, network, "combine-then-adapt", method.step_size)
        return list(resolve(method, case.problem, network, streams(N), x0, aim)[:2])

    np.testing.assert_allclose(resolved(step_size=0.02), [[0.02] * N, [5.0] * N], rtol=1e-15)
    np.testing.assert_array_equal(resolved(step_size=0.02, penalty=3.0), [[0.02] * N, [3.0] * N])
    assert network.rounds == 0
    np.testing.assert_array_equal(resolved(penalty=3.0), [resolved()[0], [3.0] * N])


LARGER: dict[str, Any] = {
    **{f"{name} of 5": build(5) for name, build in GRAPHS.items()},
    "pair": tp.uniform_weights(tp.ring(2), 0.7),
    "ring of 30": tp.uniform_weights(tp.ring(30), 0.8),
    "path of 20": tp.metropolis_weights(tp.path(20)),
    "star of 40": tp.metropolis_weights(tp.star(40)),
    "complete of 25": tp.uniform_weights(tp.complete(25), 0.3),
    "nearly bipartite": tp.uniform_weights(tp.ring(8), 0.01),
    "all others negative": tp.uniform_weights(tp.complete(5), 0.1),
    "all others positive": tp.uniform_weights(tp.ring(9), 0.8),
    "one agent": np.ones((1, 1)),
}


@pytest.mark.parametrize("accuracy", [1e-1, 1e-2, 1e-8])
@pytest.mark.parametrize("graph", [*LARGER][:-1])
def test_average_is_as_accurate_as_promised_in_as_few_rounds(graph: str, accuracy: float) -> None:
    """No agent's error exceeds ``accuracy`` standard deviations; the degree is the least with
    T_t(z(1)) >= sqrt(n)/accuracy."""
    network = Network(LARGER[graph])
    n = network.n_agents
    rng = np.random.default_rng(5)
    eigenvalues, vectors = np.linalg.eigh(LARGER[graph].toarray())
    spike = np.zeros(n)
    spike[0] = 1e6
    for values in (
        rng.standard_normal(n),
        1e6 + rng.standard_normal(n),
        spike,
        vectors[:, -2],
        vectors[:, 0],
    ):
        before = network.rounds
        found = average(network, values, accuracy)
        rounds = network.rounds - before
        rounding = 1e-12 * np.abs(values).max()
        np.testing.assert_array_less(
            np.abs(found - values.mean()), accuracy * values.std() + rounding
        )
        low, high = eigenvalues[0], eigenvalues[-2]
        if high - low < 1e-12:
            assert rounds == 1
        else:
            at_one = (2 - high - low) / (high - low)
            assert rounds == max(
                1, math.ceil(math.acosh(math.sqrt(n) / accuracy) / math.acosh(at_one))
            )


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("graph", [*LARGER][:-1])
def test_tracking_limit_is_that_of_all_eigenvalues(graph: str, order: Order) -> None:
    eigenvalues = np.linalg.eigvalsh(LARGER[graph].toarray())[:-1]
    expected = min(naive.tracking_limit(w, w, order) for w in eigenvalues)
    found = tracking_limit(Spectrum(float(eigenvalues[-1]), float(eigenvalues[0])), order)
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_estimated_lipschitz_constants(name: str) -> None:
    """From gradients alone: at most the true constants (but for rounding in the differences), and
    within 10 % of them."""
    case, n = CASES[name](rows=UNEVEN), len(UNEVEN)
    problem = FunctionProblem(
        lambda i, x: case.values[i](x),
        lambda i, x: case.gradients[i](x),
        case.problem.constraint,
        n,
    )
    x0 = stack(point(problem), n)
    found, spent = lipschitz(problem, streams(n), x0, problem.gradient(x0))
    assert spent == 12
    np.testing.assert_array_less(found, np.array(case.lipschitz) * (1 + 1e-6))
    np.testing.assert_array_less(np.array(case.lipschitz) * 0.9, found)
    known, nothing = lipschitz(case.problem, streams(n), x0, problem.gradient(x0))
    np.testing.assert_allclose(known, case.lipschitz, rtol=1e-12)
    assert nothing == 0


every_graph = pytest.mark.parametrize("graph", LARGER)
rounds_of = pytest.mark.parametrize("rounds", [1, 2, 3, 9])
both = pytest.mark.parametrize("chebyshev", [True, False])


def dense(graph: str) -> Array:
    W = LARGER[graph]
    return np.asarray(W if isinstance(W, np.ndarray) else W.toarray())


def polynomial(graph: str, rounds: int, chebyshev: bool) -> Array:
    return (rivals.chebyshev if chebyshev else rivals.power)(dense(graph), rounds)


def points(n: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(n)
    return rng.standard_normal((n, 4, 2)), 1e3 + rng.standard_normal((n, 3))


@both
@rounds_of
@every_graph
def test_mix_is_the_polynomial_of_w(graph: str, rounds: int, chebyshev: bool) -> None:
    """For every array given, in as many exchanges as rounds; what was given is left alone."""
    network = Network(LARGER[graph])
    given = points(network.n_agents)
    before = [x.copy() for x in given]
    found = mix(network, rounds, chebyshev, *given)
    assert network.rounds == (1 if chebyshev and averages_at_once(graph) else rounds)
    matrix = polynomial(graph, rounds, chebyshev)
    for x, mixed, copy in zip(given, found, before, strict=True):
        np.testing.assert_array_equal(x, copy)
        assert mixed.flags.c_contiguous
        assert not np.shares_memory(mixed, x)
        expected = (matrix @ x.reshape(len(x), -1)).reshape(x.shape)
        np.testing.assert_allclose(mixed, expected, atol=1e-13 * np.abs(x).max())


def averages_at_once(graph: str) -> bool:
    """Whether all eigenvalues but the simple 1 are equal, so that one round gives the mean."""
    eigenvalues = np.linalg.eigvalsh(dense(graph))
    return bool(len(eigenvalues) == 1 or eigenvalues[-2] - eigenvalues[0] < 1e-12)


@both
@rounds_of
@every_graph
def test_effective_bounds_the_spectrum(graph: str, rounds: int, chebyshev: bool) -> None:
    """Of what `mix` multiplies by, found by mixing the unit vectors; equal to Chebyshev's bound on
    one side at least."""
    network = Network(LARGER[graph])
    n = network.n_agents
    (matrix,) = mix(network, rounds, chebyshev, np.eye(n))
    # orthonormal, sums zero
    differences = np.linalg.qr(np.hstack([np.ones((n, 1)), np.eye(n)[:, 1:]]))[0][:, 1:]
    others = np.linalg.eigvalsh(differences.T @ matrix @ differences)
    bound = effective(network.spectrum, rounds, chebyshev)
    assert np.all((bound.lambda_min - 1e-13 <= others) & (others <= bound.lambda_2 + 1e-13))
    if chebyshev and n > 1:
        assert np.abs(others).max() == pytest.approx(bound.lambda_2, rel=1e-10, abs=1e-13)
    if rounds == 1 and not chebyshev:
        assert bound == network.spectrum


@pytest.mark.parametrize("graph", ["erdos-renyi of 5", "ring of 5", "all others positive"])
def test_any_number_of_rounds_gives_the_mean(graph: str) -> None:
    """T_1000(z(1)) is beyond the largest float."""
    network = Network(LARGER[graph])
    (x, _) = points(network.n_agents)
    (mixed,) = mix(network, 1000, True, x)
    assert effective(network.spectrum, 1000, True).lambda_2 < 1e-100
    np.testing.assert_allclose(mixed, np.broadcast_to(x.mean(axis=0), x.shape), atol=1e-13)


def test_fewer_rounds_than_one_are_refused() -> None:
    with pytest.raises(ValueError, match="rounds must be at least 1, got 0"):
        DRGTA(rounds=0)
