"""Spectra against closed forms, dense and sparse, and against each other where there is no closed
form."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from scipy import sparse

import topologies as tp
from tests.support import closed_forms as known
from topologies import MixingSpectrum


def expect(W: sparse.csr_array, closed_form: np.ndarray) -> None:
    """All eigenvalues and the summary of them, to 1e-12."""
    np.testing.assert_allclose(tp.eigenvalues(W), closed_form, rtol=0, atol=1e-12)
    found = tp.spectrum(W)
    assert found.n == len(closed_form)
    assert found.lambda_2 == pytest.approx(closed_form[1], abs=1e-12)
    assert found.lambda_min == pytest.approx(closed_form[-1], abs=1e-12)
    assert found.sigma == pytest.approx(np.abs(closed_form[1:]).max(), abs=1e-12)
    assert found.gap == pytest.approx(1 - np.abs(closed_form[1:]).max(), abs=1e-12)


@pytest.mark.parametrize(
    ("W", "scale", "laplacian"),
    [
        *(
            (tp.uniform_weights(tp.ring(n), w), (1 - w) / 2, known.ring(n))
            for n in (3, 101)
            for w in (0.0, 1 / 3, 0.8)
        ),
        *((tp.metropolis_weights(tp.path(n)), 1 / 3, known.path(n)) for n in (3, 50)),
        *((tp.max_degree_weights(tp.path(n)), 1 / 2, known.path(n)) for n in (3, 50)),
        (tp.weights_from_name(tp.path(50), "lazy-max-degree"), 1 / 4, known.path(50)),
        *(
            (tp.uniform_weights(tp.torus(*s), 0.4), 0.3 / len(s), known.torus(*s))
            for s in ((3, 3), (3, 4, 5))
        ),
        *(
            (tp.max_degree_weights(tp.grid(*s)), 1 / most, known.grid(*s))
            for s, most in (((4, 7), 4), ((3, 4, 5), 6))
        ),
        *((tp.metropolis_weights(tp.complete(n)), 1 / n, known.complete(n)) for n in (2, 60)),
        *(
            (tp.uniform_weights(tp.complete(n), 0.7), 0.3 / (n - 1), known.complete(n))
            for n in (2, 60)
        ),
        *((tp.metropolis_weights(tp.star(n)), 1 / n, known.star(n)) for n in (3, 60)),
    ],
)
def test_weights_are_a_laplacian_in_closed_form(
    W: sparse.csr_array, scale: float, laplacian: np.ndarray
) -> None:
    expect(W, 1 - scale * laplacian)


def test_negative_second_eigenvalue_and_one_agent_by_convention() -> None:
    found = tp.spectrum([[0.2, 0.8], [0.8, 0.2]])
    assert found.lambda_2 == found.lambda_min == pytest.approx(-0.6, abs=1e-15)
    assert found.sigma == pytest.approx(0.6, abs=1e-15)
    found = tp.spectrum([[1.0]])
    assert found == MixingSpectrum(n=1, lambda_2=0.0, lambda_min=0.0, sigma=0.0, gap=1.0)
    assert found.rounds_for(1e-9) == 0


@pytest.mark.slow_cases("torus:231x239", "grid:20x30x25")
@pytest.mark.parametrize(
    ("name", "rule", "scale", "laplacian"),
    [
        pytest.param(name, rule, scale, laplacian, id=name)
        for name, rule, scale, laplacian in (
            ("ring:1501", "uniform", 0.4, known.ring(1501)),
            ("ring:10000", "lazy-uniform", 0.2, known.ring(10_000)),
            ("path:4001", "metropolis", 1 / 3, known.path(4001)),
            # W = I - L / 4 has an eigenvalue that is almost 0
            ("path:4096", "best-constant", 1 / 2, known.path(4096)),
            ("star:1501", "metropolis", 1 / 1501, known.star(1501)),
            ("torus:41x43", "uniform", 0.2, known.torus(41, 43)),
            ("torus:5x1001", "uniform", 0.2, known.torus(5, 1001)),
            ("torus:13x14x15", "uniform", 0.4 / 3, known.torus(13, 14, 15)),
            (
                "grid:40x50",
                "best-constant",
                2 / known.grid(40, 50)[[1, -1]].sum(),
                known.grid(40, 50),
            ),
            # by multigrid; not bipartite
            ("torus:231x239", "metropolis", 1 / 5, known.torus(231, 239)),
            ("grid:20x30x25", "max-degree", 1 / 6, known.grid(20, 30, 25)),  # by multigrid
        )
    ],
)
def test_large_graphs_in_closed_form(
    name: str, rule: str, scale: float, laplacian: np.ndarray
) -> None:
    """W = I - scale L."""
    found = tp.spectrum(tp.weights_from_name(tp.adjacency_from_name(name), rule, self_weight=0.2))
    assert found.gap == pytest.approx(scale * laplacian[1], rel=1e-8)
    assert found.lambda_min == pytest.approx(1 - scale * laplacian[-1], abs=1e-12)
    assert found.sigma == max(found.lambda_2, -found.lambda_min)
    assert found.gap == pytest.approx(1 - found.sigma, rel=1e-8)


@pytest.mark.slow
def test_large_complete_graphs() -> None:
    n = 1501
    assert tp.spectrum(sparse.csr_array(np.full((n, n), 1 / n))).sigma == pytest.approx(
        0, abs=1e-12
    )
    no_own_weight = (np.ones((n, n)) - np.eye(n)) / (n - 1)
    assert tp.spectrum(no_own_weight).lambda_2 == pytest.approx(-1 / (n - 1), abs=1e-12)


TWO_EXPANDERS = nx.disjoint_union(
    nx.random_regular_graph(4, 800, seed=1), nx.random_regular_graph(4, 800, seed=2)
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "graph",
    [
        tp.numbered(nx.barabasi_albert_graph(1600, 2, seed=0)),
        tp.numbered(nx.lollipop_graph(40, 1500)),
        tp.numbered(nx.compose(nx.balanced_tree(2, 8), nx.path_graph(range(510, 1610)))),
        tp.numbered(nx.compose(TWO_EXPANDERS, nx.Graph([(0, 1000)]))),
    ],
    ids=["scale free", "lollipop", "tree with a tail", "two expanders and a bridge"],
)
def test_sparse_agrees_with_dense(graph: nx.Graph[int]) -> None:
    """A tree with a tail has wide breadth-first levels and yet a tiny gap: Lanczos alone does not
    reach it, factors do."""
    W = tp.metropolis_weights(graph)
    values = np.linalg.eigvalsh(W.toarray())
    found = tp.spectrum(W)
    assert found.lambda_2 == pytest.approx(values[-2], abs=1e-12)
    assert found.lambda_min == pytest.approx(values[0], abs=1e-12)


@pytest.mark.parametrize("n_pairs", [5, 1000])
def test_matching_never_averages_but_has_a_spectrum(n_pairs: int) -> None:
    W = sparse.kron(sparse.eye_array(n_pairs), np.array([[0.1, 0.9], [0.9, 0.1]]))
    found = tp.spectrum(W)
    assert found.lambda_2 == pytest.approx(1, abs=1e-15)
    assert found.lambda_min == pytest.approx(-0.8, abs=1e-12)
    assert found.gap == pytest.approx(0, abs=1e-15)


def test_large_negative_weights() -> None:
    n = 1501
    laplacian = nx.laplacian_matrix(tp.ring(n)).astype(float)
    too_negative = sparse.eye_array(n) + 0.1 * laplacian
    with pytest.raises(ValueError, match="eigenvalue above 1"):
        tp.spectrum(too_negative)
    found = tp.spectrum(sparse.eye_array(n) - 0.6 * laplacian)
    assert found.lambda_min == pytest.approx(1 - 1.2 * (1 + np.cos(np.pi / n)), abs=1e-12)
    assert found.sigma == -found.lambda_min


@pytest.mark.parametrize("name", ["metropolis", "lazy-max-degree"])
def test_rounds_for_is_the_least_number_that_is_enough(name: str) -> None:
    W = tp.weights_from_name(tp.grid(4, 5), name)
    found = tp.spectrum(W)
    rounds = found.rounds_for(1e-6)
    disagreement = W.toarray() - 1 / found.n
    assert np.linalg.norm(np.linalg.matrix_power(disagreement, rounds), 2) <= 1e-6
    assert np.linalg.norm(np.linalg.matrix_power(disagreement, rounds - 1), 2) > 1e-6


def test_rounds_for_exact_powers_and_limits() -> None:
    tenth = MixingSpectrum(n=2, lambda_2=0.1, lambda_min=0.0, sigma=0.1, gap=0.9)
    assert [tenth.rounds_for(10.0**-k) for k in range(12)] == list(range(12))
    at_once = MixingSpectrum(n=3, lambda_2=0.0, lambda_min=0.0, sigma=0.0, gap=1.0)
    assert at_once.rounds_for(1e-300) == 1
    slow = MixingSpectrum(n=9, lambda_2=1 - 1e-14, lambda_min=0.0, sigma=1 - 1e-14, gap=1e-14)
    assert slow.rounds_for(np.exp(-1)) == pytest.approx(1e14, rel=1e-10)
    with pytest.raises(ValueError, match="never reduces the consensus error: sigma = 1"):
        MixingSpectrum(n=2, lambda_2=1.0, lambda_min=0.0, sigma=1.0, gap=0.0).rounds_for(0.5)
    with pytest.raises(ValueError, match=r"reduction must be in \(0, 1\].*got 10"):
        tenth.rounds_for(10)
