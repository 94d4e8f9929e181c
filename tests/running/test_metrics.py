"""What is measured, against loops over agents, and the search for the first agent that runs away."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

from decentorth.network.collective import AgentCollective
from decentorth.numerics.ordered_sums import norms
from decentorth.problems import PCA, FunctionProblem, Procrustes, subspace_distance
from decentorth.protocols import Array
from decentorth.running.metrics import StandardMetrics, first_runaway
from decentorth.sets import Euclidean, JOrthogonal
from tests.reference import naive
from tests.support.building import collective
from tests.support.problems import CASES, UNEVEN, Case, pca, point, samples
from tests.support.threads import on_ranks

N = len(UNEVEN)


class Tracking(NamedTuple):
    x: Array
    tracker: Array
    field: Array
    penalty: Array


class Plain(NamedTuple):
    """A state of a method that neither tracks nor lands."""

    x: Array


def measured(problem: Any, state: Any) -> dict[str, float]:
    metric = StandardMetrics(problem, state)
    with np.errstate(over="ignore"):
        values = metric(problem, state, collective(problem.n_agents))
    return dict(zip(metric.columns, values, strict=True))


def spread(problem: Any, size: float) -> Array:
    rng = np.random.default_rng(3)
    return point(problem) + size * rng.standard_normal((problem.n_agents, *problem.shape))


@pytest.mark.parametrize(("blocks", "size"), [(1 << 19, 1e-6), (1, 0.5)])
@pytest.mark.parametrize("name", CASES)
def test_metrics_are_the_formulas(name: str, size: float, blocks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trackers, fields and penalties of arbitrary values, so that none can be mistaken for another."""
    monkeypatch.setattr("decentorth.problems.base.BLOCK_BYTES", blocks)
    case: Case = CASES[name](rows=UNEVEN)
    x = spread(case.problem, size)
    rng = np.random.default_rng(4)
    state = Tracking(x, rng.standard_normal(x.shape), rng.standard_normal(x.shape), rng.uniform(1, 20, N))
    found = measured(case.problem, state)
    expected = naive.metrics(case.values, case.gradients, x, state.tracker, state.field, state.penalty)
    assert found.keys() == expected.keys()
    for metric, value in expected.items():
        absolute = 1e-15 * N if metric == "distance_to_manifold" else 0.0
        assert found[metric] == pytest.approx(value, rel=1e-12, abs=absolute), metric
    fewer = measured(case.problem, Plain(x))  # of a method that does not track
    assert fewer.keys() == naive.metrics(case.values, case.gradients, x).keys()
    assert fewer == {name: found[name] for name in fewer}


def test_all_vanish_at_a_common_critical_point() -> None:
    """But the sum of the local gradients, which heterogeneous agents do not agree on."""
    case = pca(rows=UNEVEN)
    case.problem.prepare(collective(N))
    apart = spread(case.problem, 0.1)
    error = subspace_distance(naive.polar(naive.mean(apart)), case.problem.optimum)
    assert measured(case.problem, Plain(apart))["error"] == pytest.approx(error, rel=1e-12)
    x = np.repeat(case.problem.optimum[None], N, axis=0)
    found = measured(case.problem, Tracking(x, x, x, np.ones(N)))
    assert found.pop("local_gradient_sum") > 0.1
    assert found.pop("objective") < -0.1
    assert max(found.values()) < 1e-13


def test_a_set_without_tangents_is_refused() -> None:
    problem: Any = FunctionProblem(lambda agent, x: 0.0, lambda agent, x: x, SimpleNamespace(shape=(12, 3)), N)
    with pytest.raises(TypeError, match=r"need a constraint set with Riemannian; namespace\(shape=\(12, 3\)\) has none"):
        measured(problem, Plain(np.zeros((N, 12, 3))))


@pytest.mark.parametrize("n", [1, 3])
def test_without_a_projection_or_a_landing_field(n: int) -> None:
    """On J-orthogonal matrices the mean stands for its projection, and Riemannian gradients for the landing field."""
    rng = np.random.default_rng(5)
    constraint = JOrthogonal(2, 2)
    j = np.diag(constraint.signs)
    forms, tracker = rng.standard_normal((2, n, 4, 4))
    x = constraint.random(rng) + 1e-3 * rng.standard_normal((n, 4, 4))

    def value(agent: int, point: Array) -> float:
        return float((point * (forms[agent] @ point)).sum())

    def gradient(agent: int, point: Array) -> Array:
        both: Array = (forms[agent] + forms[agent].T) @ point
        return both

    def riemannian(point: Array, g: Array) -> float:
        w = g @ point.T @ j
        return naive.norm(0.5 * (w - w.T) @ j @ point)

    mean = naive.mean(x)
    expected = {
        "objective": sum(value(i, mean) for i in range(n)) / n,
        "gradient_norm": riemannian(mean, naive.mean(np.stack([gradient(i, mean) for i in range(n)]))),
        "local_gradient_sum": sum(riemannian(x[i], gradient(i, x[i])) for i in range(n)),
        "consensus_error": sum(naive.norm(x[i] - mean) for i in range(n)),
        "consensus_rms": np.sqrt(sum(naive.norm(x[i] - mean) ** 2 for i in range(n)) / n),
        "feasibility": max(np.abs(x[i].T @ j @ x[i] - j).sum() / 16 for i in range(n)),
        "tracking_error": naive.norm(naive.mean(tracker) - mean),
    }
    found = measured(FunctionProblem(value, gradient, constraint, n), Tracking(x, tracker, x, np.ones(n)))
    assert found == pytest.approx(expected, rel=1e-11, abs=1e-18)


@pytest.mark.parametrize("spoil", [np.nan, -np.inf, 1e51])
def test_the_first_runaway_is_found_on_every_rank(spoil: float) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((N, 4, 2))
    bounds = np.array([0, 4, 7, 10])

    def found() -> list[int | None]:
        def on_rank(communicator: Any) -> int | None:
            first, end = int(bounds[communicator.rank]), int(bounds[communicator.rank + 1])
            return first_runaway(x[first:end], first, N, AgentCollective(communicator, bounds))

        return [first_runaway(x, 0, N, collective(N)), *on_ranks(3, on_rank)]

    x[2, 1, 1] = 1e49
    assert found() == [None] * 4
    for agent in (9, 5, 6, 3):
        x[agent, 3, 0] = spoil
        assert found() == [min(agent, 5)] * 4 if agent != 9 else [9] * 4


@pytest.mark.parametrize("power", [-1020, -600, -465, -200, 465, 600, 1020])
def test_norms_scale_by_powers_of_two_without_rounding(power: int) -> None:
    """Where squares underflow or overflow too; agents that share a stack may differ in size, be zero, infinite or NaN."""
    x = np.random.default_rng(0).standard_normal((6, 4, 2))
    assert np.linalg.norm(x[0]) == pytest.approx(norms(x)[0], rel=1e-15)
    mixed = np.ldexp(x, power)
    mixed[1], mixed[2, 0, 0], mixed[3, 1, 1], mixed[4] = 0.0, np.inf, np.nan, x[4]
    with np.errstate(over="ignore"):
        found = norms(mixed)
    expected = np.array([np.ldexp(norms(x)[0], power), 0.0, np.inf, np.nan, norms(x)[4], np.ldexp(norms(x)[5], power)])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("power", [-1000, -600, 600, 1000])
def test_distances_are_measured_whatever_their_size(power: int) -> None:
    x = np.random.default_rng(2).standard_normal((N, 4, 2))
    problem = FunctionProblem(lambda agent, p: 0.0, lambda agent, p: p, Euclidean(4, 2), N)
    usual, found = (measured(problem, Plain(np.ldexp(x, exponent))) for exponent in (0, power))
    for name in ("gradient_norm", "local_gradient_sum", "consensus_error", "consensus_rms"):
        assert found[name] == np.ldexp(usual[name], power), name


@pytest.mark.parametrize("size", [1e-140, 1e-81, 1e78, 1e140])
def test_gradients_are_measured_whatever_the_size_of_the_data(size: float) -> None:
    """Data times s: gradients times s^2, to the bit where s is a power of two."""
    power = 2.0 ** round(np.log2(size))
    data = samples(UNEVEN, 12, 0)
    targets = [np.random.default_rng(1).standard_normal((3, len(a))) for a in data]
    x = spread(PCA(data, 3), 0.1)
    for s in (power, size):
        for plain, scaled in (
            (PCA(data, 3), PCA([s * a for a in data], 3)),
            (Procrustes(data, targets), Procrustes([s * a for a in data], [s * b for b in targets])),
        ):
            usual, found = measured(plain, Plain(x)), measured(scaled, Plain(x))
            for name in ("gradient_norm", "local_gradient_sum", "objective"):
                exactly = s * s * usual[name]
                assert found[name] == (exactly if s == power else pytest.approx(exactly, rel=1e-12)), name
