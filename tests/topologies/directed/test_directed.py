"""Directed graphs, their weights and spectra: closed forms, invariants, and networkx as the second
opinion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies as tp
from topologies.spectra.tracking_rate import conserved_complement, push_pull_pencil

GRAPHS = (
    "directed_ring:1",
    "directed_ring:2",
    "directed_ring:10,chords=3",
    "directed_exponential:12",
    "random_k_out:15,k=3",
)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_name_gives_a_strongly_connected_graph_and_primitive_weights(name: str) -> None:
    graph = tp.digraph_from_name(name)
    assert list(graph) == list(range(len(graph)))
    assert nx.is_strongly_connected(graph)
    assert nx.utils.graphs_equal(graph, tp.digraph_from_name(name))
    weights = tp.directed_weights(graph)
    np.testing.assert_allclose(weights.A.sum(axis=1), 1, rtol=1e-15)
    np.testing.assert_allclose(weights.B.sum(axis=0), 1, rtol=1e-15)
    np.testing.assert_array_equal(weights.A.indices, weights.B.indices)
    for i, j in zip(*np.nonzero(weights.A.toarray()), strict=True):
        assert i == j or graph.has_edge(int(j), int(i))
        assert weights.A[i, j] == 1 / (1 + graph.in_degree(int(i)))
        assert weights.B[i, j] == 1 / (1 + graph.out_degree(int(j)))


def test_the_families_have_their_edges() -> None:
    assert set(tp.directed_ring(5).edges) == {(i, (i + 1) % 5) for i in range(5)}
    chords = set(tp.directed_ring(9, chords=7, seed=3).edges) - set(tp.directed_ring(9).edges)
    assert len(chords) == 7
    assert nx.utils.graphs_equal(tp.directed_ring(4, chords=8), nx.complete_graph(4, nx.DiGraph))
    assert set(tp.directed_exponential(6).edges) == {
        (i, (i + s) % 6) for i in range(6) for s in (1, 2, 4)
    }
    assert {degree for _, degree in tp.random_k_out(12, k=3, seed=1).out_degree} == {3}


@pytest.mark.parametrize("name", GRAPHS[2:])
def test_perron_vectors_and_spectra_are_those_of_dense_eigenvalues(name: str) -> None:
    weights = tp.directed_weights(tp.digraph_from_name(name))
    for M, dense in ((weights.A, weights.A.toarray().T), (weights.B, weights.B.toarray())):
        found, vector = tp.directed_spectrum(M), tp.perron_vector(M)
        np.testing.assert_allclose(dense @ vector, vector, atol=1e-15)
        assert vector.min() > 0
        assert vector.sum() == pytest.approx(1, abs=1e-15)
        assert found.sigma == pytest.approx(np.sort(np.abs(np.linalg.eigvals(dense)))[-2])
        root = np.sqrt(vector)
        singular = np.linalg.svd(dense / root[:, None] * root, compute_uv=False)
        assert found.contraction == pytest.approx(singular[1])
    assert tp.directed_spectrum(tp.row_stochastic(tp.directed_ring(10))).sigma == pytest.approx(
        np.cos(np.pi / 10)
    )


@pytest.mark.parametrize(
    ("name", "seed", "factor"),
    [
        ("directed_ring:10", 0, 1.001),
        ("directed_exponential:10", 0, 1.001),
        ("directed_ring:10,chords=3", 1, 2.0),
        ("directed_ring:12,chords=6", 2, 2.0),
        ("random_k_out:12,k=2", 1, 2.0),
    ],
)
def test_the_limit_of_push_pull_is_near_that_of_the_whole_iteration(
    name: str, seed: int, factor: float
) -> None:
    """Agents of curvature 1, whose iteration matrix has a spectral radius below 1 up to the limit;
    exact where A and B commute."""
    weights = tp.directed_weights(tp.digraph_from_name(name, seed=seed))
    found = tp.push_pull_spectrum(weights)
    curvatures = np.ones((weights.shape[0], 1, 1))
    base, slope = push_pull_pencil(weights.A.toarray(), weights.B.toarray(), curvatures)
    basis = conserved_complement(curvatures)

    def stable(step: float) -> bool:
        return bool(
            np.abs(np.linalg.eigvals(basis.T @ (base - step / found.gain * slope) @ basis)).max()
            < 1 - 1e-12
        )

    assert stable(0.999 * found.limit / factor)
    assert found.limit > 1.999 or not stable(factor * 1.001 * found.limit)


CUT = tp.numbered(nx.DiGraph([(0, 1), (1, 2), (2, 0), (3, 0)]))
A = sparse.csr_array([[0.5, 0.0, 0.5], [0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: tp.row_stochastic(CUT),
            "no path from agent 0 to agent 3 (2 strongly connected parts",
        ),
        (
            lambda: tp.check_row_stochastic(A * 1.1),
            "A must sum to 1, but row 0 sums to 1.1 (3 are off); divide it by 1.1",
        ),
        (
            lambda: tp.check_row_stochastic(A.T),
            "row 0 sums to 0.75 (2 are off); its columns do, so it may be the other matrix",
        ),
        (
            lambda: tp.check_row_stochastic(A.toarray() + np.diag([-1, 1], 1)),
            "A must not have negative entries, but A[0, 1] = -1",
        ),
        (
            lambda: tp.check_row_stochastic(np.roll(np.eye(3), 1, axis=1)),
            "some agent must give itself weight",
        ),
        (lambda: tp.check_row_stochastic(np.eye(2)), "the graph of A must be strongly connected"),
        (
            lambda: tp.DirectedWeights(A, tp.column_stochastic(tp.directed_ring(2))),
            "A is for 3 agents, and B for 2",
        ),
        (
            lambda: tp.DirectedWeights(A, A.T.tocsr()),
            "B[0, 1] is not zero and A[0, 1] is: give A a weight there",
        ),
        (lambda: tp.graph_from_name("directed_ring:5"), "'directed_ring:5' is a directed graph"),
        (lambda: tp.weights_from_name(tp.directed_ring(5)), "topologies.directed_weights(graph)"),
        (
            lambda: tp.digraph_from_name("ring:5"),
            "'ring:5' is no directed graph: take directed_exponential",
        ),
    ],
)
def test_each_fault_is_named_with_its_repair(call: Callable[[], object], message: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert message in str(caught.value)


def test_files_keep_directions(tmp_path: Path) -> None:
    graph = tp.directed_ring(6, chords=4, seed=2)
    lines = tmp_path / "edges.txt"
    lines.write_text(
        "# who -> hears\n" + "".join(f"a{tail} a{head}\n" for tail, head in graph.edges)
    )
    matrix = tmp_path / "adjacency.npz"
    sparse.save_npz(matrix, tp.check_digraph(graph))
    markup = tmp_path / "graph.graphml"
    nx.write_graphml(graph, markup)
    for path in (lines, matrix, markup):
        found = tp.digraph_from_name(f"digraph:{path}")
        assert set(found.edges) == set(graph.edges)
        np.testing.assert_array_equal(
            tp.row_stochastic(found).toarray(), tp.row_stochastic(graph).toarray()
        )
    with pytest.raises(ValueError, match=r"none back; .* or write digraph:"):
        tp.graph_from_file(markup)
    lines.write_text("a b\nb c\n")
    with pytest.raises(ValueError, match=r"edges\.txt: .*no path from agent b to agent a"):
        tp.digraph_from_file(lines)
