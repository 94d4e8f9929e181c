"""Gradients of mini-batches: unbiased in each form, for any number of samples, the same bits whoever shares a process."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from decentorth import DGD, DPRGD, DRFGT, DRSGD, Landing, solve
from decentorth.api.capabilities import check_capabilities
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import PCA, FunctionProblem, Procrustes
from decentorth.protocols import Array, Eigenproblem, Index, Sampled, Smooth
from decentorth.sets import Stiefel
from tests.reference import naive
from tests.support.problems import CASES, GRAPHS, UNEVEN, pca, samples, stack

N, D, R = len(UNEVEN), 12, 3
names = pytest.mark.parametrize("name", CASES)


def gaussian(n: int, seed: int = 0, shape: tuple[int, int] = (D, R)) -> Array:
    return np.random.default_rng(seed).standard_normal((n, *shape))


def data(rows: tuple[int, ...] = UNEVEN) -> tuple[list[Array], list[Array]]:
    return samples(rows, D, 0), [np.random.default_rng(i).standard_normal((R, m)) for i, m in enumerate(rows)]


def whole(name: str) -> Any:
    a, b = data()
    return PCA(a, R, weights="agents") if name == "pca" else Procrustes(a, b)


def of_rows(name: str, agent: int, rows: Index, x: Array) -> Array:
    """The formula: m/b times the gradient of the sum over some rows."""
    a, b = (part[agent] for part in data())
    if name == "pca":
        return naive.pca_gradient(a[rows], x)
    return len(a) / len(rows) * naive.procrustes_gradient(a[rows], b[:, rows], x)


def batches(size: int, seed: int = 0) -> Index:
    """``(N, size)``: row numbers of each agent, with repeats."""
    return np.random.default_rng(seed).integers(0, np.array(UNEVEN)[:, None], (N, size))


@pytest.mark.parametrize("size", [1, 2, 7])
@names
def test_gradients_of_batches_are_the_formula(name: str, size: int) -> None:
    problem, x, batch = whole(name), gaussian(N), batches(size)
    found = problem.gradient_on(x, batch)
    for i in range(N):
        expected = of_rows(name, i, batch[i], x[i])
        np.testing.assert_allclose(found[i], expected, atol=1e-13 * np.abs(expected).max())
    assert found.flags.c_contiguous
    assert found.flags.writeable


@pytest.mark.slow_cases("pca-shape1", "procrustes-shape1")
@pytest.mark.parametrize("shape", [(90, 15), (784, 10), (5, 1), (1, 1)])
@names
def test_other_shapes_in_parts_have_the_bits_of_the_whole(name: str, shape: tuple[int, int]) -> None:
    """Where matrix products take other paths."""
    d, r = shape
    rows = (2 * d, 3, max(d // 3, 1), 2 * d, 3, max(d // 3, 1), 1)
    problem, x = CASES[name](rows=rows, d=d, r=r).problem, gaussian(len(rows), shape=shape)
    value, gradient, lipschitz = problem.value(x), problem.gradient(x), problem.lipschitz
    for own in (slice(0, 1), slice(1, 5), slice(2, 3), slice(3, 7)):
        part = problem.restrict(own)
        assert part.value(x[own]).tobytes() == value[own].tobytes()
        assert part.gradient(x[own]).tobytes() == gradient[own].tobytes()
        assert part.lipschitz.tobytes() == lipschitz[own].tobytes()
    batch = np.random.default_rng(1).integers(0, np.array(rows)[:, None], (len(rows), 5))
    for b in (batch, batch[:, :1].copy()):
        found = problem.gradient_on(x, b)
        for own in (slice(0, 1), slice(1, 5), slice(2, 3), slice(3, 7)):
            assert problem.restrict(own).gradient_on(x[own], b[own]).tobytes() == found[own].tobytes()


@names
def test_the_rows_of_gram_agents_are_referred_to_not_copied(name: str) -> None:
    a, b = data()
    problem: Any = PCA(a, R) if name == "pca" else Procrustes(a, b)
    tables = [(i, *table) for members, form in problem._parts for i, table in zip(members, form.tables(), strict=True)]
    referred = [(i, targets) for i, rows, targets, _ in tables if np.shares_memory(rows, a[i])]
    assert {i for i, _ in referred} == {i for i, m in enumerate(UNEVEN) if 2 * m > D}
    assert all(targets is None if name == "pca" else np.shares_memory(targets, b[i]) for i, targets in referred)


@pytest.mark.parametrize("agent", range(N))
@names
def test_rows_that_an_agent_does_not_have_are_refused(name: str, agent: int) -> None:
    """Rather than read from the next agent's."""
    problem, batch = whole(name), batches(2)
    batch[agent, 1] = UNEVEN[agent]
    with pytest.raises(IndexError):
        problem.gradient_on(gaussian(N), batch)


@names
def test_batches_of_the_pooled_problem(name: str) -> None:
    """One agent with all rows; each row keeps its weight, so that equally likely rows give the mean of the agents' objectives."""
    problem, x = whole(name), gaussian(1)
    pooled = problem.pooled()
    total = sum(UNEVEN)
    assert pooled.n_samples.tolist() == [total]
    exact = pooled.gradient(x)[0]
    single = np.array([pooled.gradient_on(x, np.array([[row]]))[0] for row in range(total)])
    np.testing.assert_allclose(single.mean(axis=0), exact, atol=1e-13 * np.abs(exact).max())
    starts = np.cumsum((0, *UNEVEN))
    for agent, row in ((0, 0), (1, 29), (5, 0), (9, 11)):
        expected = total / (N * UNEVEN[agent]) * of_rows(name, agent, np.array([row]), x[0])
        np.testing.assert_allclose(single[starts[agent] + row], expected, atol=1e-13 * np.abs(expected).max())
    batch = np.array([[0, 40, 40, 117, 3]])
    np.testing.assert_allclose(pooled.gradient_on(x, batch)[0], single[batch[0]].mean(axis=0), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(pooled.pooled().gradient_on(x, batch), pooled.gradient_on(x, batch), rtol=1e-13)
    with pytest.raises(IndexError):
        pooled.gradient_on(x, np.array([[total]]))


def test_products_are_minus_the_gradients_of_pca() -> None:
    a, _ = data()
    problem, x = PCA(a, R, weights="agents"), gaussian(N)
    assert isinstance(problem, Eigenproblem)
    assert not isinstance(whole("procrustes"), Eigenproblem)
    np.testing.assert_allclose(problem.product(x), [m.T @ (m @ p) / len(m) for m, p in zip(a, x, strict=True)], atol=1e-13)
    assert not np.shares_memory(problem.product(x), problem.product(x))


# A user's own functions.


def own(stacked: bool, **more: Any) -> FunctionProblem[Stiefel]:
    """PCA through a user's three functions."""
    a, _ = data()

    def value(agent: int, x: Array) -> float:
        return naive.pca_value(a[agent], x)

    def one(agent: int, x: Array) -> Array:
        return naive.pca_gradient(a[agent], x)

    def on(agent: int, x: Array, batch: Index) -> Array:
        return naive.pca_gradient(a[agent][batch], x)

    def over(function: Callable[..., Any]) -> Callable[..., Array]:
        return lambda agents, *rest: np.array([function(int(i), *part) for i, *part in zip(agents, *rest, strict=True)])

    given: dict[str, Any] = {"gradient_on": over(on) if stacked else on, "n_samples": UNEVEN, **more}
    if stacked:
        return FunctionProblem(over(value), over(one), Stiefel(D, R), N, stacked=True, **given)
    return FunctionProblem(value, one, Stiefel(D, R), N, **given)


@pytest.mark.parametrize("stacked", [False, True])
def test_a_users_own_samples(stacked: bool) -> None:
    problem, x, batch = own(stacked), gaussian(N), batches(3)
    assert isinstance(problem, Sampled)
    expected = whole("pca").gradient_on(x, batch)
    np.testing.assert_allclose(problem.gradient_on(x, batch), expected, atol=1e-13 * np.abs(expected).max())
    part = problem.restrict(slice(2, 6)).restrict(slice(3, 5))
    np.testing.assert_array_equal(part.n_samples, UNEVEN[3:5])
    assert part.gradient_on(x[3:5], batch[3:5]).tobytes() == problem.gradient_on(x, batch)[3:5].tobytes()
    for name in ("value", "gradient"):
        found = getattr(problem, name)(x)
        np.testing.assert_allclose(found, getattr(whole("pca"), name)(x), rtol=1e-12, atol=1e-13)
        assert getattr(part, name)(x[3:5]).tobytes() == found[3:5].tobytes()
    assert not isinstance(problem, Smooth)
    method = DRSGD(step_size=0.1, batch_size=2)
    mine, theirs = (solve(p, method, GRAPHS["ring"](N), x0=problem.start(1), iterations=20) for p in (problem, whole("pca")))
    np.testing.assert_allclose(mine.x, theirs.x, atol=1e-12)


def test_one_number_of_samples_is_everybodys() -> None:
    assert own(False, n_samples=7).n_samples.tolist() == [7] * N
    plain = own(False, gradient_on=None, n_samples=None)
    assert not any(isinstance(problem, Sampled) for problem in (plain, plain.restrict(slice(0, 2))))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"n_samples": None}, ValueError, "gradient_on and n_samples go together: give both"),
        ({"n_samples": [3, 4]}, ValueError, "n_samples must be one number or one for each of the 10 agents, got shape (2,)"),
        ({"n_samples": [1] * 9 + [0]}, ValueError, "n_samples must be at least 1, got 0 for agent 9"),
    ],
)
def test_samples_that_cannot_be_are_refused(given: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        own(False, **given)


def test_what_gradient_on_returns_is_checked() -> None:
    for stacked, message in ((False, "gradient_on of agent 0 must have shape (12, 3)"), (True, "gradient_on must have shape (10,")):
        problem = own(stacked, gradient_on=lambda agent, x, batch: x[..., :2])
        with pytest.raises(ValueError, match=re.escape(message)):
            problem.gradient_on(gaussian(N), batches(1))
    with pytest.raises(TypeError, match="need gradient_on"):
        own(False, gradient_on=None, n_samples=None).gradient_on(gaussian(N), batches(1))


@pytest.mark.parametrize("method", [DRFGT, DRSGD, DPRGD, partial(DGD, penalty=1.0), Landing])
def test_batches_of_a_problem_without_samples_are_refused_before_work(method: Callable[..., Any]) -> None:
    """And only batches: with all samples the methods ask for none."""
    calls: list[int] = []

    def gradient(agent: int, x: Array) -> Array:
        calls.append(agent)
        return x

    n = 1 if method is Landing else 5
    problem = FunctionProblem(lambda agent, x: 0.0, gradient, Stiefel(4, 2), n)
    name = type(method()).__name__
    message = f"{name} needs Sampled of its problem; FunctionProblem has none. Sampled: A problem whose f_i is a mean over samples"
    with pytest.raises(TypeError, match=re.escape(message)):
        solve(problem, method(step_size=0.1, batch_size=2), GRAPHS["ring"](n) if n > 1 else None)
    assert calls == []
    check_capabilities(problem, method(step_size=0.1))
    check_capabilities(pca(rows=(5,) * n).problem, method(step_size=0.1, batch_size=2))


def test_iterations_draw_their_own_batches() -> None:
    """Iteration k goes by batch k of the agent's own stream, whatever was drawn before."""
    problem, seed = pca().problem, 9
    n = problem.n_agents
    x0 = stack(problem.start(0), n)
    run = solve(problem, DPRGD(step_size=1e-3, batch_size=2), GRAPHS["complete"](n), x0=x0[0], iterations=1, seed=seed)
    batch = CounterStreams(seed, slice(0, n)).integers("batch", 0, 2, problem.n_samples)
    g = problem.gradient_on(x0, batch)
    expected = [naive.polar(x - 1e-3 * naive.tangent_projection(x, gi)) for x, gi in zip(x0, g, strict=True)]
    np.testing.assert_allclose(run.x, expected, atol=1e-14)
