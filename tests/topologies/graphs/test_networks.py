"""Real networks: the published sizes; files in every format give the graph that was written, and
errors name the file."""

from __future__ import annotations

import io
import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from scipy.io import mmwrite

import topologies
from tests.topologies.graphs.test_families import edges
from topologies.graphs.real import READERS

GRAPH = topologies.karate_club()


@pytest.mark.parametrize(
    ("graph", "n", "m"),
    [
        (topologies.karate_club(), 34, 78),
        (topologies.florentine_families(), 15, 20),
        (topologies.les_miserables(), 77, 254),
        (topologies.davis_women(), 32, 89),
    ],
)
def test_social_networks_have_the_published_sizes(graph: nx.Graph[int], n: int, m: int) -> None:
    topologies.check_graph(graph)
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (n, m)


def test_labels_of_the_social_networks_are_kept() -> None:
    families = topologies.florentine_families()
    assert [families.degree[i] for i in families if families.nodes[i]["label"] == "Medici"] == [6]


def write(graph: nx.Graph[int], path: Path) -> Path:
    """The bare graph in the format of the path's suffix."""
    bare: nx.Graph[int] = nx.Graph(graph.edges)
    matrix = topologies.adjacency(graph).toarray()
    if path.suffix == ".graphml":
        nx.write_graphml(bare, path)
    elif path.suffix == ".gml":
        nx.write_gml(bare, path)
    elif path.suffix == ".npy":
        np.save(path, matrix)
    elif path.suffix == ".npz":
        sparse.save_npz(path, sparse.csr_array(matrix))
    elif path.suffix == ".mtx":
        mmwrite(path, sparse.coo_array(matrix))
    else:
        nx.write_edgelist(bare, path, delimiter="," if path.suffix == ".csv" else " ", data=False)
    return path


@pytest.mark.parametrize("suffix", READERS)
def test_every_format_gives_back_the_graph(suffix: str, tmp_path: Path) -> None:
    path = write(GRAPH, tmp_path / f"My, Graph=1{suffix}")
    assert edges(topologies.graph_from_file(path)) == edges(GRAPH)
    assert edges(topologies.graph_from_name(f"file:{path}", 34)) == edges(GRAPH)
    np.testing.assert_array_equal(
        topologies.adjacency_from_name(f"file:{path}").toarray(),
        topologies.adjacency(GRAPH).toarray(),
    )


def test_loops_and_parallel_edges_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("# two columns\n10 2 0.5\n2 10\n2 2\n\n2 9  # last\n")
    graph = topologies.graph_from_file(path)
    assert edges(graph) == {(0, 1), (0, 2)}
    assert [graph.nodes[i]["label"] for i in graph] == [2, 9, 10]


def test_labels_number_the_agents_whatever_the_file_and_its_order(tmp_path: Path) -> None:
    """Also in GML, whose nodes have numbers besides, and with a label that is a number among
    names."""
    friends = [("Tom", "Ann"), ("Ann", "7"), ("7", "Bob"), ("Bob", "Tom"), ("Bob", "Zoe")]
    found = []
    for turn, suffix in enumerate((".gml", ".graphml", ".csv", ".txt")):
        graph = nx.Graph([*friends[turn:], *friends[:turn]])
        path = tmp_path / f"friends{suffix}"
        if suffix in (".gml", ".graphml"):
            getattr(nx, f"write_{suffix[1:]}")(graph, path)
        else:
            nx.write_edgelist(graph, path, delimiter="," if suffix == ".csv" else " ", data=False)
        read = topologies.graph_from_file(path)
        found.append(([read.nodes[i]["label"] for i in read], edges(read)))
    assert (
        found == [(["7", "Ann", "Bob", "Tom", "Zoe"], {(0, 1), (0, 2), (1, 3), (2, 3), (2, 4)})] * 4
    )
    named = nx.Graph([("n0", "n1"), ("n1", "n2")])
    nx.set_node_attributes(named, {"n0": "Zoe", "n1": "Ann", "n2": "Tom"}, "label")
    nx.write_graphml(named, tmp_path / "named.graphml")
    read = topologies.graph_from_file(tmp_path / "named.graphml")
    assert [read.nodes[i]["label"] for i in read] == ["Ann", "Tom", "Zoe"]
    assert edges(read) == {(0, 1), (0, 2)}


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        ("from,to,km\nBerlin,Hamburg,289\nHamburg,Bremen,126\n", ["Berlin", "Bremen", "Hamburg"]),
        ("Stadt,Berlin,km\nBerlin,Hamburg,289\n", ["Berlin", "Hamburg"]),
        ("left,right\n1,2\n2,3\n", [1, 2, 3]),
        ("hub,1\n1,2\n2,hub\n", ["1", "2", "hub"]),
        ("from,to\n", ["from", "to"]),
        ('"Frankfurt, Main","Köln"\n"Köln",Bonn\n', ["Bonn", "Frankfurt, Main", "Köln"]),
    ],
)
def test_a_header_is_a_header(content: str, labels: list[object], tmp_path: Path) -> None:
    """An edge list's first line with names of columns is no edge, and any other is one; commas may
    be quoted."""
    (tmp_path / "a.csv").write_text(content, encoding="utf-8")
    graph = topologies.graph_from_file(tmp_path / "a.csv")
    assert [graph.nodes[i]["label"] for i in graph] == labels


MARKET = b"%%MatrixMarket matrix coordinate real general\n"
DIRECTED = (
    b'<graphml><graph edgedefault="directed"><node id="a"/><node id="b"/><edge source="a" '
    b'target="b"/></graph></graphml>'
)


def npy(*rows: list[object]) -> bytes:
    file = io.BytesIO()
    np.save(file, np.array(rows), allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("graph.pickle", b"", r"must end in one of \.graphml.*got '\.pickle'"),
        (
            "graph.txt",
            b"1 2\n3\n",
            r"graph\.txt: cannot be read as \.txt: line 2 must name two agents, got '3'",
        ),
        (
            "graph.txt",
            b"1 2\n3 4\n",
            r"graph\.txt: the graph must be connected, but it has 2 components",
        ),
        (
            "graph.txt",
            b"\xff\xfe",
            r"graph\.txt: cannot be read as \.txt: it is not in UTF-8; save it as UTF-8",
        ),
        ("graph.gml", b"graph [ node [", r"graph\.gml: cannot be read as \.gml"),
        ("graph.graphml", b"<graphml", r"graph\.graphml: cannot be read as \.graphml"),
        (
            "graph.graphml",
            DIRECTED,
            "must be undirected, but there is an edge from 'a' to 'b' and none back",
        ),
        (
            "graph.gml",
            b"graph " + b"[ a " * 100_000,
            r"graph\.gml: cannot be read as \.gml: maximum recursion depth",
        ),
        (
            "graph.mtx",
            MARKET + b"10000000 10000000 1\n1 1 1\n",
            "must connect its 10000000 agents, but stores only 1 entries",
        ),
        (
            "graph.csv",
            b",from,to\n0,Berlin,Hamburg\n1,Berlin,Bremen\n",
            "line 1 must name two agents, got ', from, to'",
        ),
        (
            "graph.csv",
            b"from,to\nBerlin,Hamburg\nMadrid,Sevilla\n",
            "2 with agent Berlin, 2 with agent Madrid; join .*for example Berlin - Madrid",
        ),
        (
            "graph.npy",
            npy([1, 1, 1], [1, 1, 1]),
            r"must be square, one row and one column for each agent, but has shape \(2, 3\)",
        ),
        ("graph.npy", npy([0, np.nan], [1, 0]), "must be finite"),
        ("graph.npy", npy([0, 1], [0, 0]), "an edge from 0 to 1 and none back"),
        (
            "graph.npy",
            npy([0, 1], [1, None]),
            "holds Python objects, and nothing is unpickled here",
        ),
    ],
)
def test_files_that_cannot_be_used_are_refused(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        topologies.graph_from_file(tmp_path / name)


def test_conductances_of_an_edge_that_is_named_twice(tmp_path: Path) -> None:
    """Equal values count once; different ones, also of the two directions, are no conductance."""
    edges = tmp_path / "lines.csv"
    edges.write_text("from,to,km\na,b,2\nb,a,2\nb,c,3\n")
    W = topologies.conductance_weights(topologies.graph_from_file(edges), "km").toarray()
    np.testing.assert_allclose(W[0, 1], 2 / (5 + 3), rtol=1e-15)
    edges.write_text("from,to,km\na,b,2\nb,a,4\nb,c,3\n")
    np.save(tmp_path / "one_way.npy", np.array([[0.0, 2, 1], [4, 0, 1], [1, 1, 0]]))
    for path, name, words in (
        (edges, "km", "the edge a - b has several values of km, 2 and 4: give it one"),
        (
            tmp_path / "one_way.npy",
            "weight",
            "the edge 0 - 1 has several values of weight, 2.0 and",
        ),
    ):
        graph = topologies.graph_from_file(path)
        with pytest.raises(ValueError, match=words):
            topologies.conductance_weights(graph, name)


def test_pipes_and_devices_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "graph.gml")
    (tmp_path / "graph.txt").symlink_to("/dev/zero")
    for name in ("graph.gml", "graph.txt"):
        with pytest.raises(ValueError, match=f"{name} is not a regular file"):
            topologies.graph_from_file(tmp_path / name)


def test_adjacency_matrices_stand_for_graphs() -> None:
    matrix = nx.to_scipy_sparse_array(GRAPH, format="csr")
    for given in (matrix, 5.0 * matrix.toarray()):
        np.testing.assert_array_equal(
            topologies.adjacency(given).toarray(), (matrix.toarray() != 0).astype(float)
        )
    with pytest.raises(ValueError, match=r"there is an edge 0 - 1 and none 1 - 0; use A \+ A\.T"):
        topologies.check_graph(sparse.csr_array([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
    with pytest.raises(ValueError, match=r"no self-loops.*agent 0 has one"):
        topologies.check_graph(sparse.csr_array([[1, 1], [1, 0]]))
    with pytest.raises(ValueError, match=r"must be square.*\(2, 3\)"):
        topologies.check_graph(sparse.csr_array(np.ones((2, 3))))
