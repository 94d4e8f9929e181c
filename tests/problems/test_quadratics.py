"""Procrustes and PCA: values, gradients and constants in both forms, alone, in parts and pooled."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from decentorth.network.collective import AgentCollective
from decentorth.problems import PCA, FunctionProblem, Procrustes, ProcrustesSettings
from decentorth.protocols import Array, Smooth
from decentorth.sets import Stiefel
from tests.reference import naive
from tests.support.building import collective
from tests.support.problems import CASES, UNEVEN, Case, pca, stack
from tests.support.threads import on_ranks

N, D, R = len(UNEVEN), 12, 3
FORMS = {"rows": (1, 4, 6), "gram": (7, 12, 40), "both": UNEVEN}
"""Samples of each agent: at most d/2 = 6 are kept as rows, more as a Gram matrix."""
names = pytest.mark.parametrize("name", CASES)


def gaussian(n: int, seed: int = 0, shape: tuple[int, int] = (D, R)) -> Array:
    return np.random.default_rng(seed).standard_normal((n, *shape))


def cases(name: str, form: str) -> Case:
    return CASES[name](rows=FORMS[form])


@pytest.mark.parametrize("form", FORMS)
@names
def test_values_and_gradients_are_the_formulas(name: str, form: str) -> None:
    case = cases(name, form)
    x = gaussian(len(case.values))
    np.testing.assert_allclose(case.problem.value(x), [f(p) for f, p in zip(case.values, x, strict=True)], rtol=1e-12)
    gradient = case.problem.gradient(x)
    for found, g, p in zip(gradient, case.gradients, x, strict=True):
        np.testing.assert_allclose(found, g(p), atol=1e-13 * np.abs(g(p)).max())
    assert gradient.flags.c_contiguous
    assert gradient.flags.writeable
    assert not np.shares_memory(gradient, case.problem.gradient(x))


@pytest.mark.parametrize("form", FORMS)
@names
def test_lipschitz_constants_are_the_largest_eigenvalues(name: str, form: str) -> None:
    """And no pair of points is steeper, while the worst direction is as steep."""
    case = cases(name, form)
    n = len(case.values)
    assert isinstance(cases(name, form).problem, Smooth)
    np.testing.assert_allclose(case.problem.lipschitz, case.lipschitz, rtol=1e-12)
    x, y = gaussian(n, 1), gaussian(n, 2)
    rise = np.linalg.norm(case.problem.gradient(x) - case.problem.gradient(y), axis=(-2, -1))
    np.testing.assert_array_less(rise, case.problem.lipschitz * np.linalg.norm(x - y, axis=(-2, -1)) * (1 + 1e-12))
    zero = case.problem.gradient(np.zeros_like(x))
    steepest = [
        np.linalg.svd(np.stack([g(e) for e in basis()])[:, :, 0] - z[:, 0])[1][0] for g, z in zip(case.gradients, zero, strict=True)
    ]
    np.testing.assert_allclose(case.problem.lipschitz, steepest, rtol=1e-11)


def basis() -> Array:
    """``(d, d, r)``: unit vectors in the first column."""
    unit = np.zeros((D, D, R))
    unit[:, :, 0] = np.eye(D)
    return unit


def test_agents_that_are_not_here_are_refused() -> None:
    part = pca(rows=UNEVEN).problem.restrict(slice(2, 6))
    for asked in (slice(1, 4), slice(4, 7), slice(3, 3)):
        with pytest.raises(ValueError, match=f"agents {asked.start} to {asked.stop - 1} were asked for, .* only 2 to 5"):
            part.restrict(asked)


@pytest.mark.parametrize("size", [1, 3, 4, 10, 100])
@names
def test_blocks_cover_all_agents_once(name: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
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
        np.testing.assert_allclose(pooled.value(x), case.problem.value(everywhere).mean(), rtol=1e-12)
        expected = case.problem.gradient(everywhere).mean(axis=0)
        np.testing.assert_allclose(pooled.gradient(x)[0], expected, atol=1e-13 * np.abs(expected).max())
    assert (pooled.n_agents, pooled.n_local, pooled.shape) == (1, 1, (D, R))
    hessian = np.stack([np.mean([g(e) - g(0 * e) for g in case.gradients], axis=0)[:, 0] for e in basis()])
    np.testing.assert_allclose(pooled.lipschitz, np.abs(np.linalg.eigvalsh(hessian)).max(), rtol=1e-12)
    with pytest.raises(ValueError, match=r"pooled\(\) needs all 10 agents, but only 4 are in this process"):
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
    assert start.shape == (D, R)
    assert naive.infeasibility(start) < 1e-14
    assert start.tobytes() == problem.restrict(slice(4, 5)).start(3).tobytes()
    assert np.abs(start - problem.start(4)).max() > 0.1
    variables = problem.unpack(start[None])
    assert list(variables) == ["x"]
    assert variables["x"].base is start or np.shares_memory(variables["x"], start)


def test_what_a_users_function_returns_is_checked_and_copied() -> None:
    wrong = FunctionProblem(lambda agent, x: 0.0, lambda agent, x: x.T if agent == 2 else x, Stiefel(4, 2), 3)
    with pytest.raises(ValueError, match=r"gradient of agent 2 must have shape \(4, 2\), got \(2, 4\)"):
        wrong.gradient(gaussian(3, shape=(4, 2)))
    stacked = FunctionProblem(lambda agents, x: x, lambda agents, x: x[0], Stiefel(4, 2), 3, stacked=True)
    with pytest.raises(ValueError, match=r"gradient must have shape \(3, 4, 2\), got \(4, 2\)"):
        stacked.gradient(gaussian(3, shape=(4, 2)))
    with pytest.raises(ValueError, match=r"value must have shape \(3,\), got \(3, 4, 2\)"):
        stacked.value(gaussian(3, shape=(4, 2)))
    with pytest.raises(TypeError, match="gradient must be a function, got float"):
        FunctionProblem(lambda agent, x: 0.0, 1.0, Stiefel(4, 2), 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="n_agents must be at least 1, got 0"):
        FunctionProblem(lambda agent, x: 0.0, lambda agent, x: x, Stiefel(4, 2), 0)
    with pytest.raises(TypeError, match=r"n_agents must be a whole number, got 3\.0"):
        FunctionProblem(lambda agent, x: 0.0, lambda agent, x: x, Stiefel(4, 2), 3.0)  # type: ignore[arg-type]
    for no_set in ((4, 2), Stiefel):
        with pytest.raises(TypeError, match=r"constraint must be a set such as do\.sets\.Stiefel\(8, 2\), got "):
            FunctionProblem(lambda agent, x: 0.0, lambda agent, x: x, no_set, 3)  # type: ignore[type-var]
    kept = np.zeros((4, 2))
    own = FunctionProblem(lambda agent, x: 0.0, lambda agent, x: kept, Stiefel(4, 2), 1)
    own.gradient(gaussian(1, shape=(4, 2)))[...] = 7.0
    assert not kept.any()


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (None, TypeError, "value of agent 0 must be of real numbers, got None: does the function end with `return`?"),
        ("1.0", TypeError, "value of agent 0 must be of real numbers, got '1.0': return one array of numbers"),
        (np.ones((1, 1)), ValueError, "value of agent 0 must be one number, got an array of shape (1, 1)"),
    ],
    ids=["None", "text", "a matrix"],
)
def test_an_objective_that_is_not_one_number_is_refused(answer: Any, kind: type[Exception], words: str) -> None:
    problem = FunctionProblem(lambda agent, x: answer, lambda agent, x: x, Stiefel(4, 2), 3)
    with pytest.raises(kind, match=f"^{re.escape(words)}$"):
        problem.value(gaussian(3, shape=(4, 2)))


@pytest.mark.parametrize(("stacked", "whose"), [(False, " of agent 1"), (True, "")])
def test_complex_answers_of_a_users_function_are_refused(stacked: bool, whose: str) -> None:
    """Their imaginary parts would be lost."""
    problem = FunctionProblem(
        lambda agents, x: x.sum((-2, -1)) * (1j if np.any(agents == 1) else 1.0),
        lambda agents, x: x * (1j if np.any(agents == 1) else 1.0),
        Stiefel(4, 2),
        3,
        stacked=stacked,
    )
    for name, function in (("value", problem.value), ("gradient", problem.gradient)):
        with pytest.raises(TypeError, match=rf"^{name}{whose} must be of real numbers, got dtype complex128"):
            function(gaussian(3, shape=(4, 2)))


@pytest.mark.parametrize(("stacked", "whose"), [(False, " of agent 2"), (True, "")])
def test_a_users_function_cannot_change_the_agents_points(stacked: bool, whose: str) -> None:
    def value(agents: Any, x: Array) -> Any:
        if np.any(agents == 2):
            x -= 1.0
        return x.sum((-2, -1))

    def gradient(agents: Any, x: Array) -> Array:
        if np.any(agents == 2):
            np.multiply(x, 2.0, out=x)
        return x

    def gradient_on(agents: Any, x: Array, batch: Array) -> Array:
        if np.any(agents == 2):
            x.sort()
        return x

    problem = FunctionProblem(value, gradient, Stiefel(4, 2), 3, stacked=stacked, gradient_on=gradient_on, n_samples=5)
    x = gaussian(3, shape=(4, 2))
    before = x.copy()
    batch = np.zeros((3, 1), dtype=np.int64)
    calls: dict[str, Callable[[], Array]] = {
        "value": lambda: problem.value(x),
        "gradient": lambda: problem.gradient(x),
        "gradient_on": lambda: problem.gradient_on(x, batch),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=rf"^{name}{whose} must not write into x, .* let it work on x\.copy\(\)$"):
            call()
    assert x.tobytes() == before.tobytes()
    assert x.flags.writeable


def ones(*shape: int) -> Array:
    return np.ones(shape)


def spoiled(value: float) -> Array:
    a = ones(3, 4)
    a[1, 2] = a[2, 0] = value
    return a


BAD: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "nan": (
        lambda: PCA([ones(3, 4), spoiled(np.nan)], 2),
        ValueError,
        "A of agent 1 must be finite; entry [1, 2] is nan (2 such entries)",
    ),
    "squares that are infinite": (
        lambda: PCA([ones(3, 4), 1e160 * ones(3, 4)], 2),
        ValueError,
        "A of agent 1 must be at most 1e+150 in size, as squares are computed: divide all; entry [0, 0] is 1e+160",
    ),
    "infinite target, later agents": (
        lambda: Procrustes([ones(3, 4)] * 2, [ones(2, 3), np.array([[1, 1, 1], [1, -np.inf, 1]])], n_agents=9, first_agent=6),
        ValueError,
        "B of agent 7 must be finite; entry [1, 1] is -inf (1 such entries)",
    ),
    "complex": (
        lambda: PCA(cast(Any, [ones(3, 4) * 1j]), 2),
        TypeError,
        "A of agent 0 must hold real numbers, got dtype complex128",
    ),
    "masked": (lambda: PCA([ones(3, 4), np.ma.masked_equal(ones(3, 4), 1.0)], 2), TypeError, "A of agent 1 has masked entries"),
    "other columns": (
        lambda: PCA(cast(Any, [pd.DataFrame(ones(3, 2), columns=list(names)) for names in ("ab", "ba")]), 1),
        ValueError,
        "A of agent 1 has other columns than that of agent 0 (another order, or some twice): give frame",
    ),
    "one matrix": (
        lambda: PCA(ones(3, 4), 2),
        ValueError,
        "A must be a list with one matrix for each agent, or a stack of them, got one matrix of shape "
        "(3, 4): np.array_split(np.asarray(A), n) gives each of n agents its rows",
    ),
    "a name": (
        lambda: PCA(cast(Any, "a.npy"), 2),
        TypeError,
        "A must be a list with one matrix for each agent, or a stack of them, got 'a.npy'",
    ),
    "rank 2.0": (lambda: PCA([ones(3, 4)], cast(Any, 2.0)), TypeError, "rank r must be a whole number, got 2.0"),
    "no agents": (lambda: PCA([], 2), ValueError, "A must hold at least one agent's matrix, got none"),
    "differing d": (
        lambda: PCA([ones(3, 4), ones(3, 4), ones(3, 5)], 2),
        ValueError,
        "all agents must share the dimension d: A of agent 0 has 4 columns, that of agent 2 has 5",
    ),
    "r > d": (lambda: PCA([ones(9, 4)], 5), ValueError, "1 <= r <= d orthonormal columns, got d = 4 and r = 5"),
    "numbers of agents": (
        lambda: Procrustes([ones(3, 4)] * 2, [ones(2, 3)]),
        ValueError,
        "A and B must have one matrix per agent each, got 2 and 1",
    ),
    "transposed target": (
        lambda: Procrustes([ones(3, 4)] * 2, [ones(2, 3), ones(3, 2)]),
        ValueError,
        "B of agent 1 must have shape (r, m_i) = (2, 3) to go with A of shape (3, 4), got (3, 2)",
    ),
    "rows": (
        lambda: ProcrustesSettings(rows=3, dimension=40).problem(10, 0),
        ValueError,
        "10 agents with 3 rows each have 30 in all, fewer than dimension 40",
    ),
    "data alone": (lambda: ProcrustesSettings(data="a.npy"), ValueError, "data and targets go together"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_with_where_and_what(name: str) -> None:
    build, kind, words = BAD[name]
    with pytest.raises(kind, match=re.escape(words)):
        build()


def published(n_agents: int = 10, seed: int = 0, **settings: Any) -> Procrustes:
    problem: Procrustes = ProcrustesSettings(**settings).problem(n_agents, seed).build(slice(0, n_agents), collective(n_agents))
    return problem


def pooled_gram(problem: Procrustes) -> Array:
    """sum_i A_i^T A_i from gradients: G(e) - G(0) = 2 A^T A e."""
    d, r = problem.shape
    gram = np.empty((d, d))
    zero = problem.gradient(np.zeros((problem.n_agents, d, r)))
    for j in range(d):
        e = np.zeros((d, r))
        e[j, 0] = 1.0
        gram[:, j] = (problem.gradient(stack(e, problem.n_agents)) - zero).sum(axis=0)[:, 0] / 2
    return gram


def test_published_data_has_the_published_spectrum() -> None:
    """d = 50, r = 20, ten agents with ten rows: eigenvalues that decay by 0.9 from the Gaussian data's own largest one."""
    problem = published()
    assert (problem.n_agents, problem.shape) == (10, (50, 20))
    gram = pooled_gram(problem)
    naive.check_decay(gram, 0.9)
    gaussians = [
        np.random.default_rng(np.random.SeedSequence(0, spawn_key=(agent, 0))).standard_normal((10, 50)) for agent in range(10)
    ]
    own = np.linalg.eigvalsh(sum((a.T @ a for a in gaussians), start=np.zeros((50, 50))))[-1]
    assert np.linalg.eigvalsh(gram)[-1] == pytest.approx(own, rel=1e-11)
    assert np.abs(np.linalg.eigvalsh(gram)[-1] - np.linalg.eigvalsh(pooled_gram(published(seed=1)))[-1]) > 1e-3


def test_settings_of_the_published_data() -> None:
    gram = pooled_gram(published(n_agents=4, dimension=8, rank=2, rows=3, decay=0.5, largest_eigenvalue=7.0))
    np.testing.assert_allclose(np.linalg.eigvalsh(gram)[::-1], 7.0 * 0.5 ** np.arange(8), rtol=1e-9)


def test_messages_about_frames_name_labels_and_the_cure() -> None:
    """Columns and rows have their labels, and what to type is in the message."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.arange(12.0).reshape(4, 3), columns=["a", "b", "c"], index=["p", "q", "r", "s"])
    hole = frame.copy()
    hole.loc["r", "b"] = np.nan
    cases = [
        ([frame, frame.assign(name="x", kind="y")], "text or other values in name, kind: leave them out, as frame.drop"),
        ([frame, hole], "A of agent 1 must be finite; column b in row r is nan (1 such entries): frame.dropna() leaves out"),
        ([frame, frame.rename(columns={"c": "z"})], "(only agent 1 has z; only agent 0 has c)"),
        ({"north": frame, "south": frame}, "got a mapping of north, south: give list(values.values())"),
        ((part for part in [frame]), "or a stack of them, got <generator"),
    ]
    for given, words in cases:
        with pytest.raises((ValueError, TypeError), match=re.escape(words)):
            PCA(given, 1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="PCA after n_agents: missing a required argument: 'rank'"):
        PCA.from_loader(lambda agent: frame, 3)
