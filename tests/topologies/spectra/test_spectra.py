"""Spectra against closed forms, dense and sparse, and against each other where there is no closed form."""

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
        *((tp.uniform_weights(tp.ring(n), w), (1 - w) / 2, known.ring(n)) for n in (3, 5, 25, 101) for w in (0.0, 1 / 3, 0.8)),
        *((tp.metropolis_weights(tp.path(n)), 1 / 3, known.path(n)) for n in (3, 8, 50)),
        *((tp.max_degree_weights(tp.path(n)), 1 / 2, known.path(n)) for n in (3, 8, 50)),
        *((tp.weights_from_name(tp.path(n), "lazy-max-degree"), 1 / 4, known.path(n)) for n in (3, 8, 50)),
        *((tp.uniform_weights(tp.torus(*s), 0.4), 0.3 / len(s), known.torus(*s)) for s in ((3, 3), (4, 7), (3, 4, 5))),
        *((tp.max_degree_weights(tp.grid(*s)), 1 / most, known.grid(*s)) for s, most in (((3, 3), 4), ((4, 7), 4), ((3, 4, 5), 6))),
        *((tp.metropolis_weights(tp.complete(n)), 1 / n, known.complete(n)) for n in (2, 3, 10, 60)),
        *((tp.uniform_weights(tp.complete(n), 0.7), 0.3 / (n - 1), known.complete(n)) for n in (2, 3, 10, 60)),
        *((tp.metropolis_weights(tp.star(n)), 1 / n, known.star(n)) for n in (3, 10, 60)),
    ],
)
def test_weights_are_a_laplacian_in_closed_form(W: sparse.csr_array, scale: float, laplacian: np.ndarray) -> None:
    """W = I - scale L."""
    expect(W, 1 - scale * laplacian)


def test_negative_second_eigenvalue() -> None:
    found = tp.spectrum([[0.2, 0.8], [0.8, 0.2]])
    assert found.lambda_2 == found.lambda_min == pytest.approx(-0.6, abs=1e-15)
    assert found.sigma == pytest.approx(0.6, abs=1e-15)


def test_one_agent_by_convention() -> None:
    found = tp.spectrum([[1.0]])
    assert found == MixingSpectrum(n=1, lambda_2=0.0, lambda_min=0.0, sigma=0.0, gap=1.0)
    assert found.rounds_for(1e-9) == 0


def two_sines(x: float) -> float:
    """1 - cos(x) without cancellation."""
    return float(2 * np.sin(x / 2) ** 2)


@pytest.mark.slow_cases("10000-0.8")
@pytest.mark.parametrize("self_weight", [0.2, 0.8])
@pytest.mark.parametrize("n", [1501, 10_000])
def test_large_ring(n: int, self_weight: float) -> None:
    found = tp.spectrum(tp.uniform_weights(tp.ring(n), self_weight))
    lambda_min = self_weight + (1 - self_weight) * np.cos(2 * np.pi * (n // 2) / n)
    assert found.lambda_min == pytest.approx(lambda_min, abs=1e-12)
    assert found.gap == pytest.approx((1 - self_weight) * two_sines(2 * np.pi / n), rel=1e-8)
    assert found.sigma == found.lambda_2 == 1 - found.gap


def test_large_path() -> None:
    n = 4001
    found = tp.spectrum(tp.metropolis_weights(tp.path(n)))
    assert found.gap == pytest.approx(2 / 3 * two_sines(np.pi / n), rel=1e-8)
    assert found.lambda_min == pytest.approx((1 - 2 * np.cos(np.pi / n)) / 3, abs=1e-12)


def test_best_constant_weights_of_a_long_path() -> None:
    """Their Laplacian, divided by the bound of its eigenvalues, leaves W = I - L / 4 with an eigenvalue that is almost 0."""
    n = 4_096
    least = 2 * two_sines(np.pi / n)  # and the largest eigenvalue of L is 4 - least
    found = tp.spectrum(tp.best_constant_weights(tp.path(n)))
    assert found.gap == pytest.approx(least / 2, rel=1e-8)
    assert found.lambda_min == pytest.approx(-found.lambda_2, abs=1e-12)


@pytest.mark.slow_cases("sides0")
@pytest.mark.parametrize("sides", [(100, 100), (41, 43), (5, 1001), (13, 14, 15)])
def test_large_torus(sides: tuple[int, ...]) -> None:
    found = tp.spectrum(tp.uniform_weights(tp.torus(*sides), 0.2))
    assert found.gap == pytest.approx(0.8 / len(sides) * two_sines(2 * np.pi / max(sides)), rel=1e-8)
    lowest = np.mean([np.cos(2 * np.pi * (side // 2) / side) for side in sides])
    assert found.lambda_min == pytest.approx(0.2 + 0.8 * lowest, abs=1e-12)


@pytest.mark.slow
def test_large_star_and_complete() -> None:
    n = 1501
    star = tp.spectrum(tp.metropolis_weights(tp.star(n)))
    assert star.gap == pytest.approx(1 / n, rel=1e-8)
    assert star.lambda_min == pytest.approx(0, abs=1e-12)
    complete = tp.spectrum(sparse.csr_array(np.full((n, n), 1 / n)))
    assert complete.sigma == pytest.approx(0, abs=1e-12)
    no_own_weight = (np.ones((n, n)) - np.eye(n)) / (n - 1)
    assert tp.spectrum(no_own_weight).lambda_2 == pytest.approx(-1 / (n - 1), abs=1e-12)


def tree_with_a_tail() -> nx.Graph[int]:
    """Wide breadth-first levels and yet a tiny gap: Lanczos alone does not reach it, factors do."""
    return tp.numbered(nx.compose(nx.balanced_tree(2, 8), nx.path_graph(range(510, 1610))))


def two_expanders_and_a_bridge() -> nx.Graph[int]:
    halves = nx.disjoint_union(nx.random_regular_graph(4, 800, seed=1), nx.random_regular_graph(4, 800, seed=2))
    return tp.numbered(nx.compose(halves, nx.Graph([(0, 1000)])))


@pytest.mark.slow
@pytest.mark.parametrize(
    "graph",
    [
        tp.numbered(nx.barabasi_albert_graph(1600, 2, seed=0)),
        tp.numbered(nx.lollipop_graph(40, 1500)),
        tree_with_a_tail(),
        two_expanders_and_a_bridge(),
    ],
    ids=["scale free", "lollipop", "tree with a tail", "two expanders"],
)
def test_sparse_agrees_with_dense(graph: nx.Graph[int]) -> None:
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
