"""Communication graphs, mixing matrices and their spectra, for decentralized methods.

Graphs are plain ``networkx.Graph`` with nodes 0..n-1 in that order; agent i is node i. Mixing matrices are
``scipy.sparse.csr_array``: float64, sorted columns, exactly symmetric, rows that sum to 1, the diagonal stored. Names are
loaded when first used, so that ``import topologies`` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topologies.canonical import canonical_weights
    from topologies.checks import adjacency, check_graph, check_weights
    from topologies.drawing import agent_positions, draw_graph, draw_spectrum
    from topologies.fastest import FastestWeights, fastest_weights, fdla_weights, fmmc_weights
    from topologies.flooding import flooding_rounds
    from topologies.graphs import (
        barbell,
        binary_tree,
        chordal_cycle,
        circulant,
        complete,
        exponential,
        grid,
        hypercube,
        lollipop,
        margulis,
        numbered,
        path,
        ring,
        star,
        torus,
    )
    from topologies.leaving import without_agents
    from topologies.measures import (
        GraphMeasures,
        algebraic_connectivity,
        diameter,
        graph_measures,
        kemeny_constant,
        mixing_time,
    )
    from topologies.networks import davis_women, florentine_families, graph_from_file, karate_club, les_miserables
    from topologies.optimised import TrackingWeights, curvature_scenarios, tracking_weights
    from topologies.random_graphs import barabasi_albert, erdos_renyi, random_geometric, random_regular, watts_strogatz
    from topologies.scaling import sinkhorn_weights
    from topologies.sequence_names import agents_from_name, available_sequences, is_sequence_name, sequence_from_name
    from topologies.sequences import (
        LinkFailures,
        OnePeerExponential,
        PeriodicSequence,
        RandomGossip,
        RandomMatching,
        WeightSequence,
        joint_contraction,
    )
    from topologies.specification import adjacency_from_name, available, graph_from_name
    from topologies.spectra import MixingSpectrum, eigenvalues, spectrum
    from topologies.tracking import Order, Recursion, TrackingScore, iteration_matrix, tracking_rate, tracking_score
    from topologies.weights import (
        available_weights,
        best_constant_weights,
        lazy,
        local_degree_weights,
        max_degree_weights,
        metropolis_weights,
        resolve_weights_name,
        uniform_weights,
        weights_from_name,
    )

__all__ = [
    "FastestWeights",
    "GraphMeasures",
    "LinkFailures",
    "MixingSpectrum",
    "OnePeerExponential",
    "Order",
    "PeriodicSequence",
    "RandomGossip",
    "RandomMatching",
    "Recursion",
    "TrackingScore",
    "TrackingWeights",
    "WeightSequence",
    "adjacency",
    "adjacency_from_name",
    "agent_positions",
    "agents_from_name",
    "algebraic_connectivity",
    "available",
    "available_sequences",
    "available_weights",
    "barabasi_albert",
    "barbell",
    "best_constant_weights",
    "binary_tree",
    "canonical_weights",
    "check_graph",
    "check_weights",
    "chordal_cycle",
    "circulant",
    "complete",
    "curvature_scenarios",
    "davis_women",
    "diameter",
    "draw_graph",
    "draw_spectrum",
    "eigenvalues",
    "erdos_renyi",
    "exponential",
    "fastest_weights",
    "fdla_weights",
    "flooding_rounds",
    "florentine_families",
    "fmmc_weights",
    "graph_from_file",
    "graph_from_name",
    "graph_measures",
    "grid",
    "hypercube",
    "is_sequence_name",
    "iteration_matrix",
    "joint_contraction",
    "karate_club",
    "kemeny_constant",
    "lazy",
    "les_miserables",
    "local_degree_weights",
    "lollipop",
    "margulis",
    "max_degree_weights",
    "metropolis_weights",
    "mixing_time",
    "numbered",
    "path",
    "random_geometric",
    "random_regular",
    "resolve_weights_name",
    "ring",
    "sequence_from_name",
    "sinkhorn_weights",
    "spectrum",
    "star",
    "torus",
    "tracking_rate",
    "tracking_score",
    "tracking_weights",
    "uniform_weights",
    "watts_strogatz",
    "weights_from_name",
    "without_agents",
]

_HOME = {
    "FastestWeights": "fastest",
    "GraphMeasures": "measures",
    "LinkFailures": "sequences",
    "MixingSpectrum": "spectra",
    "OnePeerExponential": "sequences",
    "Order": "tracking",
    "PeriodicSequence": "sequences",
    "RandomGossip": "sequences",
    "RandomMatching": "sequences",
    "Recursion": "tracking",
    "TrackingScore": "tracking",
    "TrackingWeights": "optimised",
    "WeightSequence": "sequences",
    "adjacency": "checks",
    "adjacency_from_name": "specification",
    "agent_positions": "drawing",
    "algebraic_connectivity": "measures",
    "available": "specification",
    "agents_from_name": "sequence_names",
    "available_sequences": "sequence_names",
    "available_weights": "weights",
    "barabasi_albert": "random_graphs",
    "barbell": "graphs",
    "best_constant_weights": "weights",
    "binary_tree": "graphs",
    "canonical_weights": "canonical",
    "check_graph": "checks",
    "check_weights": "checks",
    "chordal_cycle": "graphs",
    "circulant": "graphs",
    "complete": "graphs",
    "curvature_scenarios": "optimised",
    "davis_women": "networks",
    "diameter": "measures",
    "draw_graph": "drawing",
    "draw_spectrum": "drawing",
    "eigenvalues": "spectra",
    "erdos_renyi": "random_graphs",
    "exponential": "graphs",
    "fastest_weights": "fastest",
    "fdla_weights": "fastest",
    "flooding_rounds": "flooding",
    "florentine_families": "networks",
    "fmmc_weights": "fastest",
    "graph_from_file": "networks",
    "graph_from_name": "specification",
    "graph_measures": "measures",
    "grid": "graphs",
    "hypercube": "graphs",
    "iteration_matrix": "tracking",
    "joint_contraction": "sequences",
    "karate_club": "networks",
    "kemeny_constant": "measures",
    "lazy": "weights",
    "les_miserables": "networks",
    "local_degree_weights": "weights",
    "lollipop": "graphs",
    "margulis": "graphs",
    "max_degree_weights": "weights",
    "metropolis_weights": "weights",
    "mixing_time": "measures",
    "numbered": "graphs",
    "path": "graphs",
    "random_geometric": "random_graphs",
    "random_regular": "random_graphs",
    "resolve_weights_name": "weights",
    "ring": "graphs",
    "is_sequence_name": "sequence_names",
    "sequence_from_name": "sequence_names",
    "sinkhorn_weights": "scaling",
    "spectrum": "spectra",
    "star": "graphs",
    "torus": "graphs",
    "tracking_rate": "tracking",
    "tracking_score": "tracking",
    "tracking_weights": "optimised",
    "uniform_weights": "weights",
    "watts_strogatz": "random_graphs",
    "weights_from_name": "weights",
    "without_agents": "leaving",
}


def __getattr__(name: str) -> object:
    """Load a public name from its module on first use (PEP 562)."""
    if name not in _HOME:
        raise AttributeError(f"module 'topologies' has no attribute {name!r}")
    value: object = getattr(import_module(f"topologies.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
