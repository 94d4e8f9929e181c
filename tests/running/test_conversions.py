"""Networks, methods and tolerances in the forms in which people give them, and methods that fit a
problem."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest

import decentorth as do
import topologies as tp
from decentorth import registry
from decentorth.api import conversions
from decentorth.api.capabilities import check_capabilities, fitting
from decentorth.network import Network
from decentorth.stopping import GradientNorm
from tests.support.building import built
from tests.support.j_orthogonal import hevp

DATA = np.random.default_rng(0).standard_normal((6, 20, 8))
PROBLEM = do.problems.PCA(DATA, 2)
EDGES = "Berlin-Paris Paris-Rome Rome-Oslo Oslo-Bern Bern-Wien Wien-Berlin Wien-Rome"
CITIES: Any = nx.Graph()
CITIES.add_edges_from(edge.split("-") for edge in EDGES.split())


def test_names_and_classes_are_what_they_stand_for() -> None:
    W = tp.metropolis_weights(tp.ring(6))
    expected = do.solve(PROBLEM, do.DRFGT(), W, iterations=20).iterates_sha256
    for method in ("drfgt", "DRFGT:penalty=auto", do.DRFGT):
        assert do.solve(PROBLEM, method, "ring", iterations=20).iterates_sha256 == expected
    found, _ = conversions.network("one_peer_exponential", 16, 0)
    assert isinstance(found, tp.OnePeerExponential)
    assert conversions.method("drfgt:penalty=3") == do.DRFGT(penalty=3.0)


def test_edge_attributes_that_are_not_read_are_named_once(tmp_path: Path) -> None:
    file = tmp_path / "net.graphml"
    graph = nx.cycle_graph(6)
    nx.set_edge_attributes(graph, 2.5, "length")  # type: ignore[call-overload]
    nx.write_graphml(graph, file)
    with pytest.warns(UserWarning, match="length of the edges of file:.* is not read") as told:
        do.solve(PROBLEM, "drfgt", f"file:{file}", iterations=1)
    assert len(told) == 1
    do.solve(PROBLEM, "direct", f"file:{file}")  # adds along a tree, without weights
    W = tp.conductance_weights(tp.graph_from_file(file), "length")
    do.solve(PROBLEM, "drfgt", W, iterations=1)


def test_a_graph_gets_metropolis_weights_and_its_nodes_stay_labels() -> None:
    W, labels = conversions.network(CITIES, 6, 0)
    assert labels == tuple(sorted(CITIES))
    assert conversions.network(nx.cycle_graph(6), 6, 0)[1] is None
    for i, one in enumerate(labels):
        for j, other in enumerate(labels):
            weight = 1 / (1 + max(CITIES.degree[one], CITIES.degree[other]))
            assert i == j or W[i, j] == (weight if CITIES.has_edge(one, other) else 0.0)
    result = do.solve(PROBLEM, "drfgt", CITIES, iterations=2)
    assert result.labels == labels
    figure = result.draw()
    assert figure is not None
    assert {text.get_text() for text in figure.axes[0].texts} == set(labels)
    axes = tp.draw_graph(CITIES)
    places = tp.agent_positions(tp.numbered(CITIES))
    assert [text.get_text() for text in axes.texts] == list(labels)
    np.testing.assert_array_equal([text.get_position() for text in axes.texts], places)


class OtherGraph:
    """A graph of another library, as igraph's."""

    def to_networkx(self) -> Any:
        return CITIES


SITES = {
    name: DATA[i] for i, name in enumerate(("Rome", "Bern", "Oslo", "Wien", "Paris", "Berlin"))
}
"""Sites in an order of their own."""


def named_frame() -> Any:
    """Metropolis weights between the cities as a frame, whose rows have another order than its
    columns."""
    W, labels = conversions.network(CITIES, 6, 0)
    assert labels is not None
    frame = pd.DataFrame(W.toarray(), labels, labels)
    return frame.loc[[*labels[::-1]], [*labels[2:], *labels[:2]]]


def written(folder: Path, ending: str) -> str:
    path = folder / f"cities{ending}"
    if ending == ".csv":
        path.write_text("from,to\n" + "\n".join(EDGES.replace("-", ",").split()), encoding="utf-8")
    elif ending == ".gml":
        nx.write_gml(CITIES, path)
    else:
        nx.write_graphml(CITIES, path)
    return str(path)


@pytest.mark.parametrize(
    "kind", ["graph", "numbered", "frame", ".csv", ".gml", ".graphml", "link_failures"]
)
def test_sites_and_nodes_of_equal_names_are_the_same_agents(kind: str, tmp_path: Path) -> None:
    network: Any = {"graph": CITIES, "numbered": tp.numbered(CITIES), "frame": named_frame()}
    if kind in network:
        W = network[kind]
    elif kind == "link_failures":
        W = f"link_failures:p=0.2@file:{written(tmp_path, '.csv')}"
    else:
        W = f"file:{written(tmp_path, kind)}"
    problem = do.problems.PCA.from_sites(SITES, 2)
    result = do.solve(problem, do.DRFGT(step_size=0.01, penalty=1.0), W, iterations=8)
    edges = {frozenset(edge) for edge in CITIES.edges}
    assert {frozenset(one) for one in exchanged(result)} <= edges
    assert result.sites == tuple(SITES)
    if kind != "link_failures":
        sorted_sites = {name: SITES[name] for name in sorted(SITES)}
        by_position = do.problems.PCA.from_sites(sorted_sites, 2)
        other = do.solve(by_position, do.DRFGT(step_size=0.01, penalty=1.0), CITIES, iterations=8)
        for name in SITES:
            here: Any = result.x
            there: Any = other.x
            np.testing.assert_allclose(here[name], there[name], atol=1e-12)


def exchanged(result: do.Result) -> set[tuple[str, str]]:
    """The sites between which points and trackers go; sums for rows and set-up go along the chain
    of the sites where edges have a direction or change."""
    sums = ("sums of columns", "rows of the history")
    return {(row.site, row.to) for row in result.sent() if row.quantity not in sums}


def test_directed_edges_go_between_sites_of_their_names() -> None:
    edges = [("Zug", "Bern"), ("Bern", "Thun"), ("Thun", "Zug"), ("Zug", "Thun")]
    sites = {name: DATA[i] for i, name in enumerate(("Zug", "Thun", "Bern"))}
    problem = do.problems.PCA.from_sites(sites, 2)
    result = do.solve(problem, "push_pull", nx.DiGraph(edges), iterations=3)
    assert exchanged(result) == {*edges}


def test_points_are_found_by_the_names_of_a_graph() -> None:
    result = do.solve(PROBLEM, "drfgt", CITIES, iterations=2)
    points: Any = result.x
    np.testing.assert_array_equal(points["Bern"], result.x[sorted(CITIES).index("Bern")])


def test_numbers_are_no_names_unless_sites_are_called_so() -> None:
    ring = nx.relabel_nodes(nx.cycle_graph(6), {k: 10 * (k + 1) for k in range(6)})
    given = conversions.network(ring, 6, 0, tuple(SITES))[0]
    assert (given != conversions.network(nx.cycle_graph(6), 6, 0)[0]).nnz == 0
    names = ("60", "10", "20", "30", "40", "50")
    W, labels = conversions.network(ring, 6, 0, names)
    assert labels == names
    assert np.flatnonzero(W.toarray()[0]).tolist() == [0, 1, 5]


@pytest.mark.parametrize(
    ("sites", "words"),
    [
        (
            ("Rome", "Bern", "Oslo", "Vien", "Paris", "Berlin"),
            "no node is called 'Vien'; did you mean 'Wien'? give both the same names",
        ),
        (("Rome", "Bern", "Oslo", "Paris", "Berlin"), "no agent is called 'Wien'"),
    ],
)
def test_a_name_without_a_partner_is_refused(sites: tuple[str, ...], words: str) -> None:
    problem = do.problems.PCA.from_sites(dict(zip(sites, DATA, strict=False)), 2)
    with pytest.raises(ValueError, match=re.escape(words)):
        do.solve(problem, "drfgt", CITIES, iterations=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((PROBLEM, "drfgt"), "so W is needed: a name such as 'ring'"),
        ((PROBLEM, "drfgt", "torus:3x3"), "'torus:3x3' has 9 agents, but the problem has 6"),
        (
            (PROBLEM, "drgta", tp.RandomMatching(6, 0)),
            "give step_size and penalty as numbers, and rounds without chebyshev",
        ),
        ((PROBLEM, "drfgt", lambda k: np.eye(6)), "topologies.PeriodicSequence([W0, W1])"),
        ((PROBLEM, "drfgt", [CITIES, CITIES]), "topologies.PeriodicSequence([W0, W1])"),
        ((PROBLEM, "drfgt", OtherGraph()), "got one of tests: give graph.to_networkx()"),
        ((PROBLEM, "drfgt", CITIES.to_directed()), "this graph is directed: take push_pull"),
        (("pca", "drfgt", "ring"), "the problem must be an object such as do.problems."),
        ((PROBLEM, 3, "ring"), "a name such as 'drfgt' or 'drfgt:penalty=10', got 3"),
        ((PROBLEM, "drfgt:stepsize=1", "ring"), "'stepsize'; did you mean 'step_size'?"),
    ],
)
def test_what_cannot_be_used_is_refused_with_what_to_type(arguments: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        do.solve(*arguments)


@pytest.mark.parametrize("channel", [["loss:p=0.1"], ("loss:p=0.1",), 3, {"p": 0.1}])
def test_what_is_no_channel_is_refused_with_what_to_type(channel: Any) -> None:
    with pytest.raises(TypeError, match=r"^channel must be a fault such as 'loss:p=0\.1', or"):
        do.solve(PROBLEM, "drfgt", "ring", channel=channel)


def test_misspelt_names_are_refused_with_what_to_type() -> None:
    with pytest.raises(
        TypeError, match=r"solve has no parameter 'iteration'; did you mean 'iterations'\?"
    ):
        do.solve(PROBLEM, "drfgt", "ring", iteration=3)  # type: ignore[call-arg]
    with pytest.raises(AttributeError, match=r"no attribute 'DRGFT'; did you mean 'DRFGT'\?"):
        do.DRGFT  # noqa: B018


@pytest.mark.parametrize("method", ["drgta", "drsgd", "rgd", "lbfgs"])
def test_a_start_off_the_set_is_refused_where_a_method_moves_along_it(method: str) -> None:
    problem, W = (PROBLEM.pooled(), None) if method in ("rgd", "lbfgs") else (PROBLEM, "ring")
    x0 = PROBLEM.start(0)
    words = (
        "with feasibility 0; that of x0 is 1.77: give problem.constraint.project(x0[None])[0], "
        "or leave x0 out"
    )
    with pytest.raises(ValueError, match=re.escape(words)):
        do.solve(problem, method, W, x0=1.5 * x0)
    for near in (1.002 * x0, PROBLEM.constraint.project(1.5 * x0[None])[0]):
        assert (
            do.solve(problem, method, W, x0=near, iterations=30).row.values["feasibility"] < 1e-12
        )
    assert (
        do.solve(PROBLEM, "drfgt", "ring", x0=1.5 * x0, iterations=500).row.values["feasibility"]
        < 1e-3
    )


@pytest.mark.parametrize(
    ("method", "case"),
    [
        ("landing", "zero"),
        ("drfgt", "equal columns"),
        ("rfextra", "zero"),
        ("push_pull", "equal columns"),
    ],
)
def test_a_start_whose_rank_a_landing_method_would_keep_is_refused(method: str, case: str) -> None:
    """skew(G x^T) x + penalty x (x^T x - I) maps a vector that x maps to zero to zero, so no step
    makes x injective."""
    x0 = np.zeros((8, 2)) if case == "zero" else np.repeat(PROBLEM.start(0)[:, :1], 2, axis=1)
    v = np.array([1.0, -1.0])
    field = PROBLEM.constraint.landing(x0[None], DATA[:1, :8, :2], np.ones(1))[0]
    assert np.abs(field @ v).max() < 1e-13
    problem, W = (PROBLEM.pooled(), None) if method == "landing" else (PROBLEM, "ring")
    with pytest.raises(
        ValueError, match=r"never brings x0 to St\(8, 2\): its columns are linearly dependent"
    ):
        do.solve(problem, method, W, x0=x0)
    assert (
        do.solve(problem, method, W, x0=0.9 * PROBLEM.start(0), iterations=300).row.values[
            "feasibility"
        ]
        < 0.1
    )


def test_safe_steps_from_a_start_that_they_would_not_leave_are_refused() -> None:
    """Those of a single agent are zero from ||x^T x - I|| = 1 on; from nearer they come to the
    set."""
    alone, x0 = PROBLEM.pooled(), PROBLEM.start(0)
    with pytest.raises(
        ValueError,
        match=r"safe steps of Landing do not leave x0, whose feasibility is 4\.24: give problem\.",
    ):
        do.solve(alone, "landing:safe=true", x0=2.0 * x0)
    near = do.solve(alone, "landing:safe=true", x0=1.2 * x0, iterations=400)
    assert near.history["feasibility"][0] > 0.5 > 1e-3 > near.row.values["feasibility"]
    with pytest.raises(ValueError, match=r"must start there: \|\|x0\^T x0 - I\|\|_F is 4\.24"):
        do.solve(PROBLEM, "drfgt:safe=true", "ring", x0=2.0 * x0)


CONSENSUS, FEASIBILITY = do.stopping.Consensus(1e-3), do.stopping.Feasibility(1e-3)
MET: list[Any] = [
    CONSENSUS,
    FEASIBILITY,
    CONSENSUS & FEASIBILITY,
    CONSENSUS | do.stopping.Time(60),
    CONSENSUS & (GradientNorm(1e-3) | FEASIBILITY),
    do.stopping.LocalMaximum(1e-3, ("disagreement", "feasibility")),
]


@pytest.mark.parametrize("rule", MET, ids=repr)
def test_tolerances_that_every_start_meets_are_refused(rule: Any) -> None:
    """All agents start at one point of the set; a start off the set has to come to it first."""
    with pytest.raises(
        ValueError, match=r"is met before the first iteration: also give a gradient tolerance"
    ):
        do.solve(PROBLEM, "drfgt", "ring", stopping=rule)
    for one in (rule & GradientNorm(1e-9), rule & (lambda row, collective: None)):
        assert do.solve(PROBLEM, "drfgt", "ring", stopping=one, iterations=3).status == "iterations"


def test_tolerances_of_the_gradient_and_of_a_start_off_the_set_end_a_run() -> None:
    by_number, by_rule = (
        do.solve(PROBLEM, "drfgt", "ring", stopping=rule, record_every=5)
        for rule in (1e-2, GradientNorm(1e-2))
    )
    assert by_number.converged
    assert by_number.message == by_rule.message
    off = do.solve(PROBLEM, "drfgt", "ring", x0=1.2 * PROBLEM.start(0), stopping=FEASIBILITY)
    assert (off.converged, off.row.iteration > 0) == (True, True)


@pytest.mark.parametrize("method", ["gs_jobcd", "hyperbolic_jacobi", "j_jobcd", "csdm", "rgd"])
def test_a_start_that_is_not_j_orthogonal_is_refused_without_a_penalty(method: str) -> None:
    problem = hevp(6)
    x0 = 1.5 * problem.start(0)
    with pytest.raises(ValueError, match=r"that of x0 is 0\.208: leave x0 out$"):
        do.solve(problem, method, x0=x0)
    assert do.solve(problem, "umcm", x0=x0, iterations=200).row.values["feasibility"] < 1e-5


def test_a_relative_tolerance_is_a_share_of_the_first_gradient_norm(tmp_path: Any) -> None:
    more: Any = {
        "stopping": GradientNorm(0.05, relative=True) & do.stopping.Consensus(1.0),
        "record_every": 5,
    }
    result = do.solve(PROBLEM, "drfgt", "ring", **more)
    norms = result.history["gradient_norm"]
    assert result.converged
    assert norms[-1] <= 0.05 * norms[0] < norms[-2]
    do.solve(
        PROBLEM,
        "drfgt",
        "ring",
        iterations=15,
        record_every=5,
        checkpoints=do.Checkpoints(tmp_path, 5),
    )
    resumed = do.solve(PROBLEM, "drfgt", "ring", resume=tmp_path, **more)
    assert (resumed.row.iteration, resumed.message) == (result.row.iteration, result.message)


SMALL: dict[str, dict[str, Any]] = {
    "pca": {"data": "synthetic", "rank": 2},
    "gevp": {"dimension": 12, "rank": 2},
    "rsr": {"dimension": 9, "rank": 3, "inliers": 60, "outliers": 40},
}


@pytest.mark.parametrize(
    ("problem", "agents", "algorithm", "first"),
    [
        ("pca", 1, "generalized_landing", ["block_krylov", "direct", "rgd", "landing"]),
        ("gevp", 4, "destiny", ["drfgt", "dprgt", "drgta"]),
        ("gevp", 1, "deepca", ["direct", "conjugate_gradients", "generalized_landing"]),
        ("rsr", 1, "gs_jobcd", ["rsm", "rssm", "drsm"]),
    ],
)
def test_methods_that_fit_come_in_order_and_pass_the_checks(
    problem: str, agents: int, algorithm: str, first: list[str]
) -> None:
    own = built(registry.problems.get(problem)(**SMALL[problem]).problem(agents, 0))
    known = registry.algorithms.defaults()
    names = fitting(
        own, Network(tp.weights_from_name(tp.complete(agents))), known[algorithm], known
    )
    assert names[: len(first)] == first
    for name in names:
        check_capabilities(own, known[name])
    assert not {"dgd", "gradient_tracking"} & {*names}  # they have no constraint


def test_on_a_directed_graph_only_its_methods_fit() -> None:
    own = built(registry.problems.get("pca")(**SMALL["pca"]).problem(6, 0))
    known = registry.algorithms.defaults()
    W = tp.directed_weights(tp.digraph_from_name("directed_ring", 6))
    assert {*fitting(own, Network(W), known["cdadt"], known)} == {
        "push_pull",
        "drgta",
        "asynchronous_drfgt",
    }


def test_a_refusal_keeps_its_reason_and_names_methods() -> None:
    with pytest.raises(
        TypeError,
        match=r"DRFGT needs Landing of its problem; JOrthogonal has none\. .*: hyperbolic_jacobi, ",
    ):
        do.solve(hevp(6), "drfgt", iterations=1)
    problem = registry.problems.get("gevp")(**SMALL["gevp"]).problem(4, 0)
    with pytest.raises(
        TypeError,
        match=r"POGO needs .* Algorithms that fit with their default settings: generalized_landing, ",
    ):
        do.solve(problem, "pogo", "ring", iterations=1)
    with pytest.raises(
        TypeError,
        match=r"DRFGT needs Sampled .* Algorithms that fit with their default settings: drfgt, ",
    ):
        do.solve(problem, "drfgt:batch_size=2", "ring", iterations=1)
