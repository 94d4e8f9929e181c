"""Real networks as communication graphs: the social networks that networkx ships, and graphs from
files.

Attributes of edges are kept for `conductance_weights`; other weights do not read them. Nothing is
unpickled.
"""

from __future__ import annotations

import csv
import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from topologies.graphs.graph_families import Labelled, numbered
from topologies.line.later import nx
from topologies.line.matrix_files import read_square, regular_size
from topologies.line.words import is_number
from topologies.weights.weight_checks import check_graph

_SHOWN = 200
"""The maximum number of a file's characters that a message quotes."""


def karate_club() -> nx.Graph[int]:
    """Zachary's karate club (1977): 34 members, 78 friendships outside the club."""
    return numbered(nx.karate_club_graph())


def florentine_families() -> nx.Graph[int]:
    """Marriages between 15 Florentine families of the Renaissance (Padgett; Breiger and Pattison,
    1986): 20 edges."""
    return numbered(nx.florentine_families_graph())


def les_miserables() -> nx.Graph[int]:
    """Characters who appear together in Victor Hugo's novel (Knuth, 1993): 77 agents, 254 edges."""
    return numbered(nx.les_miserables_graph())


def davis_women() -> nx.Graph[int]:
    """Davis, Gardner and Gardner's Southern women (1941): 18 women and the 14 events they attended,
    bipartite, 89 edges."""
    return numbered(nx.davis_southern_women_graph())


def graph_from_file(path: str | os.PathLike[str], largest_component: bool = False) -> nx.Graph[int]:
    """The graph in a file, by its suffix: .graphml, .gml, an edge list in text, or an adjacency
    matrix in .npy, .npz or .mtx.

    Agents are numbered in the sorted order of the file's labels (as integers if all are integers),
    which stay in the node attribute ``label``; the order of nodes and edges in the file does not
    count. In .graphml and .gml the labels are the node attribute ``label``, or the ids where not
    all nodes have different ones. Self-loops are dropped and parallel edges merged; every non-zero
    of an adjacency matrix is an edge. Attributes of edges are kept, see `conductance_weights`; the
    entries of a matrix with others than 0 and 1 are the attribute ``weight``. A first line of an
    edge list that names its columns, such as ``from,to,km``, is no edge. With ``largest_component`` only
    the largest connected part is kept, of several as large that with the first label.

    Raises ValueError if the suffix is unknown, the file cannot be read, an edge has one direction
    only, or the graph is disconnected; OSError if the file cannot be opened.
    """
    path = Path(path)
    named = integer_labels(_undirected(path, read_graph(path)))
    if largest_component and len(named):
        labels = nx.get_node_attributes(numbered(named), "label")
        first = {label: agent for agent, label in labels.items()}
        parts = sorted(
            nx.connected_components(named), key=lambda part: min(map(first.__getitem__, part))
        )
        named = named.subgraph(max(parts, key=len)).copy()
    graph = numbered(named)
    graph.remove_edges_from(list(nx.selfloop_edges(graph)))
    try:
        check_graph(graph)
    except ValueError as error:
        apart = ""
        if len(graph) and not nx.is_connected(graph):
            apart = f"; or take file:{path},largest_component=true"
        raise ValueError(f"{path}: {error}{apart}") from error
    return graph


def read_graph(path: Path, directed: bool = False) -> Labelled:
    """Read the graph in a file, with the file's labels.

    An edge list does not say whether edges have directions; they have if ``directed``.
    """
    suffix = path.suffix.lower()
    if suffix not in READERS:
        known = ", ".join(READERS)
        raise ValueError(
            f"{path}: a graph file must end in one of {known}, got {suffix or 'no suffix'!r}"
        )
    regular_size(path)
    try:
        found: Labelled = READERS[suffix](path, directed)
        return found
    except OSError:
        raise
    except Exception as error:  # networkx's readers have many ways to fail on a damaged file
        why = " ".join(str(error).split()).removeprefix(f"{path} ")[:_SHOWN] or type(error).__name__
        if isinstance(error, UnicodeDecodeError):
            why = "it is not in UTF-8; save it as UTF-8"
        raise ValueError(f"{path}: cannot be read as {suffix}: {why}") from error


def _undirected(path: Path, graph: Labelled) -> Labelled:
    if graph.is_directed():
        for u, v in graph.edges():
            if not graph.has_edge(v, u):
                raise ValueError(
                    f"{path}: the graph must be undirected, but there is an edge from {u!r} to "
                    f"{v!r} and none back; add edges back, declare the graph undirected, or write "
                    f"digraph:{path}"
                )
    return _merged(graph)


def _merged(graph: Labelled) -> nx.Graph[Any]:
    """Return the graph with one edge between two nodes; attributes that differ become the text of
    both values, which is no number."""
    result: nx.Graph[Any] = nx.Graph()
    result.add_nodes_from(graph.nodes(data=True))
    for u, v, attributes in graph.edges(data=True):
        if not result.has_edge(u, v):
            result.add_edge(u, v, **attributes)
            continue
        known = result.edges[u, v]
        for name, value in attributes.items():
            if known.setdefault(name, value) != value:
                known[name] = f"{known[name]} and {value}"
    return result


def integer_labels(graph: Labelled) -> Labelled:
    """Replace labels by integers if all labels are the decimal text of different integers.

    Integers sort by value. Other labels are returned unchanged.
    """
    try:
        integers = {label: int(str(label)) for label in graph}
    except ValueError:
        return graph
    if len(set(integers.values())) < len(integers):
        return graph
    return nx.relabel_nodes(graph, integers)


def edge_attributes(graph: Labelled) -> list[str]:
    """Return the names of the edges' attributes, such as weights."""
    every = (data for _, _, data in graph.edges(data=True))
    return sorted(set(map(str, chain.from_iterable(every))) - {"id", "key"})


def _markup(path: Path, directed: bool) -> Labelled:
    """The graph of a .gml or .graphml file by its labels, or by the nodes' ids where these do not
    all have different labels."""
    graph: Labelled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # attributes of unknown type, which nothing here uses
        is_gml = path.suffix.lower() == ".gml"
        graph = nx.read_gml(path, label="id") if is_gml else nx.read_graphml(path)
    labels = {node: str(label) for node, label in graph.nodes(data="label") if label is not None}
    if len(set(labels.values())) < len(graph):
        labels = {node: str(node) for node in graph}
    return nx.relabel_nodes(graph, labels)


def _edge_list(path: Path, directed: bool) -> Labelled:
    graph: Labelled = nx.DiGraph() if directed else nx.MultiGraph()
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = (line if '"' in line else line.partition("#")[0] for line in file)
        cells: Iterable[list[str]] = map(str.split, lines)
        if path.suffix.lower() == ".csv":
            cells = csv.reader(lines, skipinitialspace=True, strict=True)
        rows = [list(map(str.strip, row)) for row in cells]
    for number, row in enumerate(rows, 1):
        if any(row) and (len(row) < 2 or not all(row[:2])):
            raise ValueError(f"line {number} must name two agents, got {', '.join(row)[:_SHOWN]!r}")
    table = list(filter(any, rows))
    header = table.pop(0) if _has_header(table) else []
    for row in table:
        names = (header[k] if k < len(header) else f"column {k + 1}" for k in range(2, len(row)))
        graph.add_edges_from([(row[0], row[1], dict(zip(names, row[2:], strict=True)))])
    return graph


_HEADERS = (
    *(("from", "to"), ("source", "target"), ("src", "dst"), ("tail", "head"), ("start", "end")),
    *(("origin", "destination"), ("sender", "receiver"), ("node1", "node2"), ("node_1", "node_2")),
)
"""Usual names of the two columns of an edge list."""


def _has_header(table: Sequence[Sequence[str]]) -> bool:
    """True if the first line of an edge list has names of columns: usual ones, or text above
    columns of numbers."""
    if len(table) < 2:
        return False
    first, *rest = table
    numbers = [all(map(is_number, column)) for column in zip(*rest, strict=False)]
    above = {
        k
        for k, (name, below) in enumerate(zip(first, numbers, strict=False))
        if below and not is_number(name)
    }
    usual = (first[0].lower(), first[1].lower()) in _HEADERS
    return usual or {0, 1} <= above or max(above, default=0) > 1


def _adjacency_matrix(path: Path, directed: bool) -> Labelled:
    matrix = read_square(path)
    edges = sparse.coo_array(matrix)
    if not np.isfinite(edges.data).all():
        raise ValueError("an adjacency matrix must be finite")
    stored = edges.data != 0
    rows, columns, values = (array[stored] for array in (edges.row, edges.col, edges.data))
    weights: list[dict[str, float]] = [{}] * len(rows)
    if np.any(values != 1):
        weights = [{"weight": value} for value in values.tolist()]
    graph: nx.DiGraph[Any] = nx.DiGraph()
    graph.add_nodes_from(range(matrix.shape[0]))
    graph.add_edges_from(zip(rows.tolist(), columns.tolist(), weights, strict=True))
    return graph


READERS: dict[str, Callable[[Path, bool], Any]] = {
    **dict.fromkeys((".graphml", ".gml"), _markup),
    **dict.fromkeys((".edgelist", ".edges", ".txt", ".csv"), _edge_list),
    **dict.fromkeys((".npy", ".npz", ".mtx"), _adjacency_matrix),
}
"""The readers of files, by their suffixes."""
