"""Real networks: the published sizes; files in every format give the graph that was written, and errors name the file."""

from __future__ import annotations

import os
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from scipy.io import mmwrite

import topologies
from topologies.graphs.real import READERS

GRAPH = topologies.karate_club()


def edges(graph: nx.Graph[int]) -> set[tuple[int, int]]:
    assert list(graph) == list(range(graph.number_of_nodes()))
    return {(min(edge), max(edge)) for edge in graph.edges}


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
    assert topologies.spectrum(topologies.metropolis_weights(graph)).sigma < 1


def test_labels_of_the_social_networks_are_kept() -> None:
    families = topologies.florentine_families()
    names = nx.get_node_attributes(families, "label")
    medici = next(i for i, name in names.items() if name == "Medici")
    assert families.degree[medici] == max(d for _, d in families.degree) == 6


def write(graph: nx.Graph[int], path: Path) -> Path:
    """The bare graph in the format of the path's suffix."""
    bare: nx.Graph[int] = nx.Graph()
    bare.add_nodes_from(graph)
    bare.add_edges_from(graph.edges)
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
        delimiter = "," if path.suffix == ".csv" else " "
        nx.write_edgelist(bare, path, delimiter=delimiter, data=False)
    return path


@pytest.mark.parametrize("suffix", READERS)
def test_every_format_gives_back_the_graph(suffix: str, tmp_path: Path) -> None:
    path = write(GRAPH, tmp_path / f"My, Graph=1{suffix}")
    assert edges(topologies.graph_from_file(path)) == edges(GRAPH)
    assert edges(topologies.graph_from_name(f"file:{path}", 34)) == edges(GRAPH)
    np.testing.assert_array_equal(topologies.adjacency_from_name(f"file:{path}").toarray(), topologies.adjacency(GRAPH).toarray())


def test_loops_and_parallel_edges_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "graph.txt"
    path.write_text("# two columns\n10 2 0.5\n2 10\n2 2\n\n2 9  # last\n")
    graph = topologies.graph_from_file(path)
    assert edges(graph) == {(0, 1), (0, 2)}
    assert [graph.nodes[i]["label"] for i in graph] == [2, 9, 10]


def test_labels_number_the_agents_whatever_the_file_and_its_order(tmp_path: Path) -> None:
    """Also in GML, whose nodes have numbers besides, and with a label that is a number among names."""
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
    assert found == [(["7", "Ann", "Bob", "Tom", "Zoe"], {(0, 1), (0, 2), (1, 3), (2, 3), (2, 4)})] * 4
    named = nx.Graph([("n0", "n1"), ("n1", "n2")])
    nx.set_node_attributes(named, {"n0": "Zoe", "n1": "Ann", "n2": "Tom"}, "label")
    nx.write_graphml(named, tmp_path / "named.graphml")
    read = topologies.graph_from_file(tmp_path / "named.graphml")
    assert [read.nodes[i]["label"] for i in read] == ["Ann", "Tom", "Zoe"]
    assert edges(read) == {(0, 1), (0, 2)}


@pytest.mark.parametrize(
    ("name", "content", "labels"),
    [
        ("a.csv", "from,to,km\nBerlin,Hamburg,289\nHamburg,Bremen,126\n", ["Berlin", "Bremen", "Hamburg"]),
        ("a.csv", "Stadt,Berlin,km\nBerlin,Hamburg,289\n", ["Berlin", "Hamburg"]),
        ("a.csv", "left,right\n1,2\n2,3\n", [1, 2, 3]),
        ("a.csv", "hub,1\n1,2\n2,hub\n", ["1", "2", "hub"]),
        ("a.csv", "from,to\n", ["from", "to"]),
        ("a.csv", '"Frankfurt, Main","Köln"\n"Köln",Bonn\n', ["Bonn", "Frankfurt, Main", "Köln"]),
    ],
)
def test_a_header_is_a_header(name: str, content: str, labels: list[object], tmp_path: Path) -> None:
    """An edge list's first line with names of columns is no edge, and any other is one; commas may be quoted."""
    (tmp_path / name).write_text(content, encoding="utf-8")
    graph = topologies.graph_from_file(tmp_path / name)
    assert [graph.nodes[i]["label"] for i in graph] == labels


def test_an_index_column_is_no_agent(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",from,to\n0,Berlin,Hamburg\n1,Berlin,Bremen\n")
    with pytest.raises(ValueError, match="line 1 must name two agents, got ', from, to'"):
        topologies.graph_from_file(tmp_path / "a.csv")


def test_components_are_named_by_labels(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("from,to\nBerlin,Hamburg\nMadrid,Sevilla\n")
    with pytest.raises(ValueError, match=r"2 with agent Berlin, 2 with agent Madrid; join .*for example Berlin - Madrid"):
        topologies.graph_from_file(tmp_path / "a.csv")


MARKET = b"%%MatrixMarket matrix coordinate real general\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("graph.pickle", b"", r"must end in one of \.graphml.*got '\.pickle'"),
        ("graph.txt", b"1 2\n3\n", r"graph\.txt: cannot be read as \.txt: line 2 must name two agents, got '3'"),
        ("graph.txt", b"1 2\n3 4\n", r"graph\.txt: the graph must be connected, but it has 2 components"),
        ("graph.txt", b"\xff\xfe", r"graph\.txt: cannot be read as \.txt: it is not in UTF-8; save it as UTF-8"),
        ("graph.gml", b"graph [ node [", r"graph\.gml: cannot be read as \.gml"),
        ("graph.graphml", b"<graphml", r"graph\.graphml: cannot be read as \.graphml"),
        (
            "graph.graphml",
            b'<graphml><graph edgedefault="directed"><node id="a"/><node id="b"/><edge source="a" target="b"/></graph></graphml>',
            "must be undirected, but there is an edge from 'a' to 'b' and none back",
        ),
        ("graph.gml", b"graph " + b"[ a " * 100_000, r"graph\.gml: cannot be read as \.gml: maximum recursion depth"),
        ("graph.mtx", MARKET + b"10000000 10000000 1\n1 1 1\n", "must connect its 10000000 agents, but stores only 1 entries"),
    ],
)
def test_files_that_cannot_be_used_are_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        topologies.graph_from_file(path)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), r"must be square, one row and one column for each agent, but has shape \(2, 3\)"),
        (np.array([[0, np.nan], [1, 0]]), "must be finite"),
        (np.array([[0, 1], [0, 0]]), "an edge from 0 to 1 and none back"),
    ],
)
def test_matrices_that_are_no_adjacency_are_refused(matrix: np.ndarray, message: str, tmp_path: Path) -> None:
    np.save(tmp_path / "graph.npy", matrix)
    with pytest.raises(ValueError, match=message):
        topologies.graph_from_file(tmp_path / "graph.npy")


def test_pickled_arrays_are_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "graph.npy", np.array([[0, 1], [1, None]], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"holds Python objects, and nothing is unpickled here"):
        topologies.graph_from_file(tmp_path / "graph.npy")


def test_pipes_and_devices_are_no_files(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "graph.gml")
    (tmp_path / "graph.txt").symlink_to("/dev/zero")
    for name in ("graph.gml", "graph.txt"):
        with pytest.raises(ValueError, match=f"{name} is not a regular file"):
            topologies.graph_from_file(tmp_path / name)


def test_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        topologies.graph_from_file(tmp_path / "nothing.gml")


def test_adjacency_matrices_stand_for_graphs() -> None:
    matrix = nx.to_scipy_sparse_array(GRAPH, format="csr")
    np.testing.assert_array_equal(topologies.adjacency(matrix).toarray(), (matrix.toarray() != 0).astype(float))
    np.testing.assert_array_equal(topologies.adjacency(5.0 * matrix.toarray()).toarray(), (matrix.toarray() != 0).astype(float))
    with pytest.raises(ValueError, match=r"there is an edge 0 - 1 and none 1 - 0; use A \+ A\.T"):
        topologies.check_graph(sparse.csr_array([[0, 1, 1], [0, 0, 0], [1, 0, 0]]))
    with pytest.raises(ValueError, match=r"no self-loops.*agent 0 has one"):
        topologies.check_graph(sparse.csr_array([[1, 1], [1, 0]]))
    with pytest.raises(ValueError, match=r"must be square.*\(2, 3\)"):
        topologies.check_graph(sparse.csr_array(np.ones((2, 3))))
