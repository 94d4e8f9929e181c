"""Procrustes and PCA: constants, parts, blocks, pooling, what is kept of the data, refusals, and
the published data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest

from decentorth import DPRGD, solve
from decentorth.network.collective import AgentCollective
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import PCA, Procrustes, ProcrustesSettings
from decentorth.protocols import Array, Eigenproblem, Smooth
from tests.reference import naive
from tests.support.building import collective
from tests.support.problems import CASES, GRAPHS, UNEVEN, pca, samples, stack
from tests.support.threads import on_ranks

N, D, R = len(UNEVEN), 12, 3
names = pytest.mark.parametrize("name", CASES)


def gaussian(n: int, seed: int = 0, shape: tuple[int, int] = (D, R)) -> Array:
    return np.random.default_rng(seed).standard_normal((n, *shape))


def data() -> tuple[list[Array], list[Array]]:
    return samples(UNEVEN, D, 0), [
        np.random.default_rng(i).standard_normal((R, m)) for i, m in enumerate(UNEVEN)
    ]


def whole(name: str) -> Any:
    a, b = data()
    return PCA(a, R, weights="agents") if name == "pca" else Procrustes(a, b)


@names
def test_lipschitz_constants_are_the_largest_eigenvalues(name: str) -> None:
    case = CASES[name](rows=UNEVEN)
    assert isinstance(case.problem, Smooth)
    np.testing.assert_allclose(case.problem.lipschitz, case.lipschitz, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 4, 100])
@names
def test_blocks_cover_all_agents_once(
    name: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decentorth.problems.base.BLOCK_BYTES", size * 8 * D * R)
    problem = CASES[name](rows=UNEVEN).problem.restrict(slice(1, N))
    x = gaussian(N)[1:]
    whole = problem.gradient(x)
    covered: list[int] = []
    for block, part in problem.blocks():
        assert part.gradient(x[block]).tobytes() == whole[block].tobytes()
        assert part.agents == slice(1 + block.start, 1 + block.stop)
        assert block.stop - block.start <= size
        covered += range(block.start, block.stop)
    assert covered == list(range(N - 1))


@names
def test_pooled_is_the_mean_of_the_agents(name: str) -> None:
    case = CASES[name](rows=UNEVEN)
    pooled = case.problem.pooled()
    for seed in range(3):
        x = gaussian(1, seed)
        everywhere = stack(x[0], N)
        np.testing.assert_allclose(
            pooled.value(x), case.problem.value(everywhere).mean(), rtol=1e-12
        )
        expected = case.problem.gradient(everywhere).mean(axis=0)
        np.testing.assert_allclose(
            pooled.gradient(x)[0], expected, atol=1e-13 * np.abs(expected).max()
        )
    assert (pooled.n_agents, pooled.n_local, pooled.shape) == (1, 1, (D, R))
    hessian = case.problem.hessian().mean(axis=0)
    np.testing.assert_allclose(
        pooled.lipschitz, np.abs(np.linalg.eigvalsh(hessian)).max(), rtol=1e-12
    )
    np.testing.assert_allclose(
        hessian @ x[0], (pooled.gradient(2 * x) - pooled.gradient(x))[0], rtol=1e-9, atol=1e-11
    )
    with pytest.raises(
        ValueError, match=r"pooled\(\) needs all 10 agents, but only 4 are in this process"
    ):
        case.problem.restrict(slice(0, 4)).pooled()


def test_a_loader_that_fails_for_one_agent_fails_on_every_rank() -> None:
    def loader(agent: int) -> Array:
        return np.full((3, 4), np.nan) if agent == 5 else np.ones((3, 4))

    deferred = PCA.from_loader(loader, 6, 2)
    bounds = np.array([0, 2, 4, 6])

    def on_rank(communicator: Any) -> str:
        own = slice(2 * communicator.rank, 2 * communicator.rank + 2)
        with pytest.raises(ValueError, match="A of agent 5 must be finite") as caught:
            deferred.build(own, AgentCollective(communicator, bounds))
        return str(caught.value)

    said = on_ranks(3, on_rank)
    assert said[0] == said[1] == f"on rank 2: {said[2]}"


@names
def test_a_stack_and_a_list_are_the_same_problem(name: str) -> None:
    data, targets = gaussian(4, 1, (5, D)), gaussian(4, 2, (R, 5))
    x = gaussian(4)

    def build(kind: Callable[[Array], Any]) -> Any:
        return PCA(kind(data), R) if name == "pca" else Procrustes(kind(data), kind(targets))

    assert build(lambda a: a).gradient(x).tobytes() == build(list).gradient(x).tobytes()
    fortran = build(lambda a: [np.asfortranarray(one) for one in a])
    assert fortran.gradient(x).tobytes() == build(list).gradient(x).tobytes()
    single = build(lambda a: [one.astype(np.float32) for one in a])
    np.testing.assert_allclose(single.gradient(x), build(list).gradient(x), rtol=1e-4, atol=1e-5)
    assert single.gradient(x).dtype == np.float64


@names
def test_starting_points_are_feasible_and_follow_the_seed(name: str) -> None:
    problem = CASES[name](rows=UNEVEN).problem
    start = problem.start(3)
    assert naive.infeasibility(start) < 1e-14
    assert start.tobytes() == problem.restrict(slice(4, 5)).start(3).tobytes()
    assert np.abs(start - problem.start(4)).max() > 0.1
    assert np.shares_memory(problem.unpack(start[None])["x"], start)


@pytest.mark.slow_cases("pca-shape0", "procrustes-shape0")
@pytest.mark.parametrize("shape", [(784, 10), (5, 1), (1, 1)])
@names
def test_other_shapes_in_parts_have_the_bits_of_the_whole(
    name: str, shape: tuple[int, int]
) -> None:
    d, r = shape
    rows = (2 * d, 3, max(d // 3, 1), 2 * d, 3, max(d // 3, 1), 1)
    problem, x = CASES[name](rows=rows, d=d, r=r).problem, gaussian(len(rows), shape=shape)
    batch = np.random.default_rng(1).integers(0, np.array(rows)[:, None], (len(rows), 5))

    def everything(problem: Any, own: slice) -> list[Array]:
        drawn = [
            problem.gradient_on(x[own], np.ascontiguousarray(b[own])) for b in (batch, batch[:, :1])
        ]
        return [problem.value(x[own]), problem.gradient(x[own]), problem.lipschitz, *drawn]

    all_agents = everything(problem, slice(0, len(rows)))
    for own in (slice(0, 1), slice(1, 5), slice(2, 3), slice(3, 7)):
        for found, expected in zip(everything(problem.restrict(own), own), all_agents, strict=True):
            assert found.tobytes() == expected[own].tobytes()


@names
def test_the_rows_of_gram_agents_are_referred_to_not_copied(name: str) -> None:
    a, b = data()
    problem: Any = PCA(a, R) if name == "pca" else Procrustes(a, b)
    tables = [
        (i, *table)
        for at, form in problem._parts
        for i, table in zip(np.arange(N)[at], form.tables(), strict=True)
    ]
    referred = [(i, targets) for i, rows, targets, _ in tables if np.shares_memory(rows, a[i])]
    assert {i for i, _ in referred} == {i for i, m in enumerate(UNEVEN) if 2 * m > D}
    assert all(
        targets is None if name == "pca" else np.shares_memory(targets, b[i])
        for i, targets in referred
    )


@names
def test_rows_that_an_agent_does_not_have_are_refused(name: str) -> None:
    problem = whole(name)
    for agent in range(N):
        batch = np.zeros((N, 2), dtype=np.int64)
        batch[agent, 1] = UNEVEN[agent]
        with pytest.raises(IndexError):
            problem.gradient_on(gaussian(N), batch)


@names
def test_batches_of_the_pooled_problem(name: str) -> None:
    """One agent with all rows in their order; equally likely rows give the mean of the agents'
    objectives."""
    case, x = CASES[name](rows=UNEVEN), gaussian(1)
    pooled, total = case.problem.pooled(), sum(UNEVEN)
    assert pooled.n_samples.tolist() == [total]
    exact = pooled.gradient(x)[0]
    single = np.array([pooled.gradient_on(x, np.array([[row]]))[0] for row in range(total)])
    np.testing.assert_allclose(single.mean(axis=0), exact, atol=1e-13 * np.abs(exact).max())
    starts = np.cumsum((0, *UNEVEN))
    for agent, own in enumerate(np.split(single, starts[1:-1])):
        expected = (
            total
            / (N * UNEVEN[agent])
            * case.problem.restrict(slice(agent, agent + 1)).gradient_on(x, np.array([[0]]))[0]
        )
        np.testing.assert_allclose(own[0], expected, atol=1e-13 * np.abs(expected).max())
    batch = np.array([[0, 40, 40, 117, 3]])
    np.testing.assert_allclose(
        pooled.gradient_on(x, batch)[0], single[batch[0]].mean(axis=0), rtol=1e-11, atol=1e-12
    )
    np.testing.assert_allclose(
        pooled.pooled().gradient_on(x, batch), pooled.gradient_on(x, batch), rtol=1e-13
    )
    with pytest.raises(IndexError):
        pooled.gradient_on(x, np.array([[total]]))


def test_products_are_minus_the_gradients_of_pca() -> None:
    problem, x = whole("pca"), gaussian(N)
    np.testing.assert_array_equal(problem.product(x), -problem.gradient(x))
    assert not np.shares_memory(problem.product(x), problem.product(x))
    assert isinstance(problem, Eigenproblem)
    assert not isinstance(whole("procrustes"), Eigenproblem)


def published(n_agents: int = 10, seed: int = 0, **settings: Any) -> Procrustes:
    made: Any = (
        ProcrustesSettings(**settings)
        .problem(n_agents, seed)
        .build(slice(0, n_agents), collective(n_agents))
    )
    return cast(Procrustes, made)


def pooled_gram(problem: Procrustes) -> Array:
    gram: Array = problem.hessian().sum(axis=0) / 2
    return gram


def test_published_data_has_the_published_spectrum() -> None:
    """d = 50, r = 20, ten agents with ten rows: eigenvalues that decay by 0.9 from the Gaussian
    data's own largest one."""
    problem = published()
    assert (problem.n_agents, problem.shape) == (10, (50, 20))
    gram = pooled_gram(problem)
    naive.check_decay(gram, 0.9)
    gaussians = [
        np.random.default_rng(np.random.SeedSequence(0, spawn_key=(agent, 0))).standard_normal(
            (10, 50)
        )
        for agent in range(10)
    ]
    own = np.linalg.eigvalsh(sum((a.T @ a for a in gaussians), start=np.zeros((50, 50))))[-1]
    assert np.linalg.eigvalsh(gram)[-1] == pytest.approx(own, rel=1e-11)
    assert (
        np.abs(
            np.linalg.eigvalsh(gram)[-1] - np.linalg.eigvalsh(pooled_gram(published(seed=1)))[-1]
        )
        > 1e-3
    )


def test_settings_of_the_published_data() -> None:
    gram = pooled_gram(
        published(n_agents=4, dimension=8, rank=2, rows=3, decay=0.5, largest_eigenvalue=7.0)
    )
    np.testing.assert_allclose(np.linalg.eigvalsh(gram)[::-1], 7.0 * 0.5 ** np.arange(8), rtol=1e-9)


def test_iterations_draw_their_own_batches() -> None:
    """Iteration k goes by batch k of the agent's own stream, whatever was drawn before."""
    problem, seed = pca().problem, 9
    n = problem.n_agents
    x0 = stack(problem.start(0), n)
    run = solve(
        problem,
        DPRGD(step_size=1e-3, batch_size=2),
        GRAPHS["complete"](n),
        x0=x0[0],
        iterations=1,
        seed=seed,
    )
    batch = CounterStreams(seed, slice(0, n)).integers("batch", 0, 2, problem.n_samples)
    g = problem.gradient_on(x0, batch)
    expected = [
        naive.polar(x - 1e-3 * naive.tangent_projection(x, gi)) for x, gi in zip(x0, g, strict=True)
    ]
    np.testing.assert_allclose(run.x, expected, atol=1e-14)
