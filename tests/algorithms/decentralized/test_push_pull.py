"""Push-pull on directed graphs: the formulas, the goal that tracking with one matrix misses,
automatic steps, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth import registry
from decentorth.algorithms.common.mixing import average, push_sum
from decentorth.commands.run.command import main
from decentorth.network import Network
from decentorth.numerics.ordered_sums import plain
from decentorth.stopping import LocalMaximum
from tests.algorithms.decentralized.test_field import gradient
from tests.reference import naive
from tests.support.building import built, prepared
from tests.support.problems import point, procrustes, relative

CHORDS = tp.directed_ring(10, chords=3, seed=1)
WEIGHTS = tp.directed_weights(CHORDS)


def unlike(agents: int = 10) -> Any:
    settings = do.problems.PCASettings(
        data="synthetic", dimension=6, rank=2, gap=0.3, heterogeneity=0.6
    )
    return prepared(built(settings.problem(agents, 0)))


@pytest.mark.parametrize(
    "weights",
    [tp.directed_weights(tp.directed_ring(5, chords=2, seed=1)), tp.metropolis_weights(tp.star(5))],
    ids=["A, B", "W"],
)
def test_it_is_the_formulas_agent_by_agent(weights: Any) -> None:
    case = procrustes()
    A, B = (weights.A, weights.B) if isinstance(weights, tp.DirectedWeights) else (weights, weights)
    x0 = point(case.problem)
    x, y = naive.push_pull(case.gradients, A.toarray(), B.toarray(), x0, 2e-3, 5.0, 50)
    result = do.solve(
        case.problem, do.PushPull(step_size=2e-3, penalty=5.0), weights, x0=x0, iterations=50
    )
    assert relative(result.x, x) < 1e-12
    assert relative(result.state.tracker, y) < 1e-12
    assert relative(result.x, np.array([x0] * 5)) > 1e-2


@pytest.mark.slow
def test_it_is_exact_where_tracking_with_row_stochastic_weights_stalls() -> None:
    problem = unlike()
    result = do.solve(problem, do.PushPull(), WEIGHTS, iterations=2000, rows=2)
    assert gradient(problem, result.x) < 1e-13
    assert np.abs(result.x - result.x[0]).max() < 1e-13
    np.testing.assert_allclose(result.state.tracker.sum(0), result.state.field.sum(0), atol=1e-14)
    pulled_twice = plain(WEIGHTS.A)._replace(push=WEIGHTS.A.data)
    fixed = do.PushPull(
        step_size=float(result.state.base[0]), penalty=float(result.state.penalty[0])
    )
    stalled = [do.solve(problem, fixed, pulled_twice, iterations=k, rows=2).x for k in (1500, 2000)]
    assert all(3e-3 < gradient(problem, x) < 0.3 for x in stalled)
    assert relative(stalled[1], stalled[0]) < 1e-12


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("directed_ring", do.PushPull()),
        ("directed_ring:chords=3", do.PushPull()),
        ("directed_ring:chords=3", do.DRGTA()),
        ("directed_exponential", do.PushPull()),
        ("directed_exponential", do.DRGTA(rounds=2)),
        ("random_k_out:k=2", do.PushPull()),
    ],
)
def test_automatic_steps_converge_on_every_family(name: str, method: Any) -> None:
    result = do.solve(unlike(5), method, name, iterations=4000, stopping=1e-7, record_every=100)
    assert result.converged, result.message


def test_push_sum_finds_the_mean_where_neither_matrix_has_it() -> None:
    values = np.random.default_rng(3).standard_normal((10, 4)) + 5.0
    network = Network(WEIGHTS)
    (found,) = push_sum(network, 300, values)
    np.testing.assert_allclose(found, np.tile(values.mean(0), (10, 1)), rtol=1e-13)
    (pulled,) = network.mix(values, rounds=300)
    assert relative(pulled[0], values.mean(0)) > 1e-3
    np.testing.assert_allclose(
        average(network, values, 1e-4), np.tile(values.mean(0), (10, 1)), rtol=1e-3
    )
    both = network.mix(values, push=(values,))
    assert relative(both[0], WEIGHTS.A.toarray() @ values) < 1e-15
    assert relative(both[1], WEIGHTS.B.toarray() @ values) < 1e-15


def test_agents_agree_on_the_end_along_directed_paths() -> None:
    assert tp.flooding_rounds(WEIGHTS) == nx.diameter(CHORDS)
    result = do.solve(unlike(), do.PushPull(), CHORDS, iterations=3000, stopping=LocalMaximum(1e-6))
    assert result.converged
    assert gradient(unlike(), result.x) < 1e-6


UNDIRECTED = [
    name
    for name in registry.algorithms.names()
    if name not in ("auto", "push_pull", "drgta", "asynchronous_drfgt", "lobpcg", "tracked_landing")
    and registry.algorithms.get(name).network != "single-agent"
]


@pytest.mark.parametrize("name", UNDIRECTED)
def test_other_methods_are_refused_with_the_name_of_push_pull(name: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"needs doubly stochastic weights, and this graph is directed: take push_pull",
    ):
        do.solve(procrustes().problem, name, "directed_ring:5")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"algorithm": do.DRGTA(step_size="growing")}, "growing steps are for undirected graphs"),
        (
            {"algorithm": do.DRGTA(chebyshev=True)},
            "chebyshev needs the eigenvalues of a symmetric W",
        ),
        (
            {"channel": "loss:p=0.1"},
            "a channel is for undirected graphs.* or take asynchronous_drfgt",
        ),
        (
            {"W": tp.directed_ring(1600), "problem": 1600},
            "give step_size, and penalty where there is one, as numbers",
        ),
    ],
)
def test_what_directed_graphs_lack_is_refused(settings: dict[str, Any], message: str) -> None:
    given = {"problem": 5, "algorithm": do.PushPull(), "W": "directed_ring:5", **settings}
    problem = do.problems.PCA(np.ones((given.pop("problem"), 3, 2)), 1)
    with pytest.raises(ValueError, match=message):
        do.solve(problem, given.pop("algorithm"), given.pop("W"), **given)


def test_the_command_refuses_with_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cut.txt").write_text("a b\nb c\n")
    for flags, message in (
        (
            "--algorithm drfgt --topology directed_ring:chords=3",
            "needs doubly stochastic weights, and this graph is directed",
        ),
        (
            "--algorithm push_pull --topology directed_ring --weights metropolis",
            "--weights is for undirected graphs",
        ),
        (
            "--algorithm push_pull --topology digraph:cut.txt",
            "there is no path from agent b to agent a",
        ),
    ):
        assert main(f"--problem pca {flags}".split()) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
