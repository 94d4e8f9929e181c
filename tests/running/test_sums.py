"""Methods of one agent on several agents, who add exactly along a tree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.protocols import Array
from tests.reference import naive

N = 6
ROUNDS, MESSAGES = 6, 2 * (N - 1)
"""A sum on a ring of six: to the agent in the middle and back, two messages an edge of the tree."""


def samples() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((m, 7)) * np.arange(1.0, 8.0) for m in (3, 9, 20, 8, 5, 12)]


def pca() -> do.problems.PCA:
    return do.problems.PCA(samples(), 2)


def drawn(name: str, **settings: Any) -> Any:
    return getattr(do.problems, f"{name}Settings")(**settings).problem(N, 0)


def start() -> Array:
    return np.linalg.qr(np.random.default_rng(1).standard_normal((7, 2)))[0]


def mean_gradient(x: Array) -> Array:
    """The gradient of -||A x||^2 / (2 m) with the m samples of all agents, from each agent's."""
    count = sum(len(A) for A in samples())
    return sum((-A.T @ (A @ x) for A in samples()), start=np.zeros(x.shape)) / count


def test_rgd_takes_the_steps_of_the_mean_objective() -> None:
    x, a = start(), 1e-2
    result = do.solve(pca(), do.RGD(step_size=a), "ring", x0=x, iterations=15)
    for _ in range(15):
        x = naive.polar(x - a * naive.tangent_projection(x, mean_gradient(x)))
    assert np.abs(result.x - x).max() < 1e-12


def test_landing_takes_the_steps_of_the_mean_objective() -> None:
    x, a, penalty = start(), 1e-2, 2.0
    method = do.Landing(step_size=a, penalty=penalty)
    result = do.solve(pca(), method, "ring", x0=x, iterations=15)
    for _ in range(15):
        field = naive.canonical_gradient(x, mean_gradient(x))
        x = x - a * (field + penalty * x @ (x.T @ x - np.eye(2)))
    assert np.abs(result.x - x).max() < 1e-12


@pytest.mark.parametrize("method", ["lbfgs", "conjugate_gradients"])
@pytest.mark.parametrize(
    "problem",
    [pca, lambda: drawn("GEVP"), lambda: drawn("CCA", rank=2), lambda: drawn("ICA")],
    ids=["pca", "gevp", "cca", "ica"],
)
def test_line_searches_end_where_one_agent_with_all_terms_ends(
    method: str, problem: Callable[[], Any]
) -> None:
    stopping = do.stopping.GradientNorm(1e-9, relative=True)
    given: dict[str, Any] = {"iterations": 400, "stopping": stopping, "record_every": 1}
    result = do.solve(problem(), method, "ring", **given)
    alone = do.solve(do.problems.Spread(problem()), method, **given)
    assert result.converged
    assert alone.converged
    values = [one.row.values["objective"] for one in (result, alone)]
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("landing", pca),
        ("generalized_landing", lambda: drawn("GEVP")),
        ("rgd", lambda: drawn("CCA", rank=2)),
        ("conjugate_gradients", lambda: drawn("MatrixCompletion")),
        ("lbfgs", lambda: drawn("MAXVAR")),
        ("pcal", lambda: drawn("LDA")),
        ("plam", pca),
        ("pogo", lambda: drawn("Procrustes")),
        ("spel", pca),
        ("rsm", lambda: drawn("RSR")),
        ("rssm", lambda: drawn("ODL")),
    ],
)
def test_agents_agree_and_every_message_is_counted(method: str, problem: Callable[[], Any]) -> None:
    result = do.solve(problem(), method, "ring", iterations=10, rows=4)
    assert (result.x == result.x[:1]).all()
    assert len(result.x) == result.n_agents == N
    sums, rest = divmod(result.row.rounds, ROUNDS)
    assert rest == 0
    assert result.row.messages == sums * MESSAGES
    sent = result.sent()
    assert sum(row.bytes for row in sent) == result.row.bytes
    assert all("sums" in row.quantity for row in sent)


def test_a_row_of_lbfgs_takes_no_sum_of_its_own() -> None:
    """Value and gradient at the start in one sum, the product there, and one in an iteration."""
    for rows in (2, 11):
        result = do.solve(pca(), "lbfgs", "ring", iterations=10, rows=rows)
        assert result.row.rounds == (2 + 10) * ROUNDS
        assert result.row.bytes == 8 * MESSAGES * ((14 + 1) + 14 + 10 * 14)
    x = result.x[0]
    gradient = naive.tangent_projection(x, mean_gradient(x))
    assert result.row.values["objective"] == pytest.approx(
        0.5 * np.sum(x * mean_gradient(x)), rel=1e-13
    )
    assert result.row.values["gradient_norm"] == pytest.approx(naive.norm(gradient), rel=1e-9)


def test_batches_are_drawn_from_the_samples_of_all_agents() -> None:
    """A batch of as many samples as there are gives each agent its expected share."""
    method = do.RGD(step_size=1e-2, batch_size=5)
    one, other = (do.solve(pca(), method, "ring", iterations=20, seed=3) for _ in range(2))
    assert one.iterates_sha256 == other.iterates_sha256
    run = do.api.set_up(pca(), method, "ring")
    x, count = start()[None], sum(len(A) for A in samples())
    every = np.arange(count)[None]
    seen: Any = run.seen
    assert np.abs(seen.gradient_on(x, every)[0] - mean_gradient(x[0])).max() < 1e-12


@pytest.mark.parametrize(
    ("method", "problem"),
    [
        ("lbfgs", pca),
        ("landing", lambda: drawn("ICA")),
        ("conjugate_gradients", lambda: drawn("GEVP")),
        ("rgd:batch_size=4,step_size=0.01", pca),
        ("rsm", lambda: drawn("RSR")),
        ("rssm", lambda: drawn("ODL")),
    ],
)
def test_a_resumed_run_has_the_bits_and_the_counts_of_a_whole_one(
    method: str, problem: Callable[[], Any], tmp_path: Path
) -> None:
    given: dict[str, Any] = {"record_every": 5}
    whole = do.solve(problem(), method, "ring", iterations=25, **given)
    kept = do.Checkpoints(tmp_path, every=4)
    do.solve(problem(), method, "ring", iterations=12, checkpoints=kept, **given)
    at = tmp_path / f"{8:09d}"
    resumed = do.solve(problem(), method, "ring", iterations=25, resume=at, **given)
    assert resumed.iterates_sha256 == whole.iterates_sha256
    for name in (*whole.history, "rounds"):
        if name != "seconds":
            assert np.array_equal(resumed.history[name], whole.history[name], equal_nan=True), name


def test_agents_stop_by_the_common_gradient_without_a_message() -> None:
    rule = do.stopping.LocalMaximum(1e-6, every=5)
    result = do.solve(pca(), "lbfgs", "ring", iterations=200, stopping=rule)
    assert result.converged
    assert result.agreement is not None
    assert result.agreement.tally.messages == 0
    assert naive.norm(naive.tangent_projection(result.x[0], mean_gradient(result.x[0]))) < 1e-6


@pytest.mark.parametrize("method", ["lbfgs", "conjugate_gradients"])
def test_line_searches_end_where_no_step_is_left(method: str) -> None:
    """A function whose gradient points uphill has no step at all: 20 trials, and the end."""
    problem = do.problems.FunctionProblem(
        lambda i, x: -float(x[0, 0]),
        lambda i, x: np.eye(3)[:, :1].copy(),
        do.sets.Stiefel(3, 1),
        3,
    )
    result = do.solve(problem, method, "ring", iterations=50, check=False)
    assert (result.status, result.converged, result.row.iteration) == ("no_step", False, 1)
    assert "no step along the negative gradient" in result.message


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"W": tp.directed_weights(tp.directed_ring(N))},
            "LBFGS on several agents adds exactly along a tree, with messages both ways, and this "
            "graph is directed: take push_pull",
        ),
        (
            {"W": "link_failures:p=0.2@ring"},
            "and this network changes over time: take drfgt, or a graph that stays",
        ),
        ({"W": "ring", "channel": "loss:p=0.1"}, "this network loses or changes messages"),
        ({"W": "ring", "device": "cpu"}, "leave device out, or take one agent"),
        ({"W": "ring", "on_rank_loss": "shrink"}, "leave on_rank_loss out"),
    ],
)
def test_what_cannot_sum_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        do.solve(pca(), "lbfgs", iterations=1, **given)


def test_any_connected_graph_has_a_tree() -> None:
    points = [
        do.solve(pca(), "lbfgs", graph, iterations=30, seed=0).x[0]
        for graph in (nx.star_graph(N - 1), nx.complete_graph(N), nx.path_graph(N))
    ]
    for x in points[1:]:
        assert np.abs(x @ x.T - points[0] @ points[0].T).max() < 1e-6
