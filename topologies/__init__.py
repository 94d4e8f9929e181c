"""Communication graphs, mixing matrices and their spectra, for decentralized methods.

Graphs are plain ``networkx.Graph`` with nodes 0..n-1 in that order; agent i is node i. Mixing
matrices are ``scipy.sparse.csr_array``: float64, sorted columns, exactly symmetric, rows that sum
to 1, the diagonal stored. Directed graphs are ``networkx.DiGraph``, and have two matrices: one
whose rows sum to 1, and one whose columns do. Names are loaded when first used, so that ``import
topologies`` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from topologies.canonical import *
    from topologies.directed.graphs import *
    from topologies.directed.spectra import *
    from topologies.directed.weights import *
    from topologies.drawing import *
    from topologies.graphs.graph_families import *
    from topologies.graphs.random import *
    from topologies.graphs.real import *
    from topologies.measures import *
    from topologies.names import *
    from topologies.sequences.flooding import *
    from topologies.sequences.joint_spectra import *
    from topologies.sequences.sequence_names import *
    from topologies.sequences.sequences import *
    from topologies.spectra.eigenvalues import *
    from topologies.spectra.tracking_rate import *
    from topologies.weights.fastest import *
    from topologies.weights.rules import *
    from topologies.weights.sinkhorn import *
    from topologies.weights.tracking_optimal import *
    from topologies.weights.weight_checks import *
    from topologies.weights.without_agents import *

_PUBLIC = {
    "canonical": "canonical_weights",
    "directed.graphs": "digraph_from_file directed_exponential directed_ring random_k_out",
    "directed.spectra": "DirectedSpectrum PushPullSpectrum directed_spectrum push_pull_spectrum",
    "directed.weights": "DirectedWeights check_column_stochastic check_digraph check_row_stochastic "
    "column_stochastic directed_weights perron_vector row_stochastic",
    "weights.weight_checks": "adjacency check_graph check_weights",
    "drawing": "agent_positions draw_graph draw_spectrum",
    "weights.fastest": "FastestWeights fastest_weights fdla_weights fmmc_weights",
    "sequences.flooding": "flooding_rounds",
    "graphs.graph_families": "barbell binary_tree chordal_cycle circulant complete exponential grid hypercube lollipop "
    "margulis named_graph numbered path ring star torus",
    "weights.without_agents": "without_agents",
    "measures": "GraphMeasures algebraic_connectivity diameter graph_measures kemeny_constant "
    "mixing_time",
    "graphs.real": "davis_women florentine_families graph_from_file karate_club les_miserables",
    "weights.tracking_optimal": "TrackingWeights curvature_scenarios tracking_weights",
    "graphs.random": "barabasi_albert erdos_renyi random_geometric random_regular watts_strogatz",
    "weights.sinkhorn": "sinkhorn_weights",
    "sequences.joint_spectra": "JointSpectrum joint_spectrum",
    "sequences.sequence_names": "agents_from_name is_sequence_name sequence_from_name",
    "sequences.sequences": "LinkFailures OnePeerExponential PeriodicSequence RandomGossip RandomMatching WeightSequence "
    "joint_contraction",
    "names": "adjacency_from_name available digraph_from_name graph_from_name is_digraph_name",
    "spectra.eigenvalues": "MixingSpectrum eigenvalues spectrum",
    "spectra.tracking_rate": "Order Recursion TrackingScore tracking_rate tracking_score",
    "weights.rules": "available_weights best_constant_weights conductance_weights lazy local_degree_weights "
    "max_degree_weights metropolis_weights resolve_weights_name uniform_weights weights_from_name",
}
"""The public names of each module."""
_MODULE = {name: module for module, names in _PUBLIC.items() for name in names.split()}

__all__ = [*sorted(_MODULE)]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Load a public name from its module on first use (PEP 562)."""
        if name not in _MODULE:
            from topologies.line.words import suggestion

            hint = "" if name.startswith("_") else suggestion(name, _MODULE)
            raise AttributeError(f"module 'topologies' has no attribute {name!r}{hint}")
        value = getattr(import_module(f"topologies.{_MODULE[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
