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
    from topologies.graphs import complete, erdos_renyi, grid, numbered, path, ring, star, torus
    from topologies.specification import available, graph_from_name
    from topologies.spectra import MixingSpectrum, eigenvalues, spectrum
    from topologies.weights import (
        available_weights,
        lazy,
        max_degree_weights,
        metropolis_weights,
        resolve_weights_name,
        uniform_weights,
        weights_from_name,
    )

__all__ = [
    "MixingSpectrum",
    "adjacency",
    "available",
    "available_weights",
    "canonical_weights",
    "check_graph",
    "check_weights",
    "complete",
    "eigenvalues",
    "erdos_renyi",
    "graph_from_name",
    "grid",
    "lazy",
    "max_degree_weights",
    "metropolis_weights",
    "numbered",
    "path",
    "resolve_weights_name",
    "ring",
    "spectrum",
    "star",
    "torus",
    "uniform_weights",
    "weights_from_name",
]

_HOME = {
    "MixingSpectrum": "spectra",
    "adjacency": "checks",
    "available": "specification",
    "available_weights": "weights",
    "canonical_weights": "canonical",
    "check_graph": "checks",
    "check_weights": "checks",
    "complete": "graphs",
    "eigenvalues": "spectra",
    "erdos_renyi": "graphs",
    "graph_from_name": "specification",
    "grid": "graphs",
    "lazy": "weights",
    "max_degree_weights": "weights",
    "metropolis_weights": "weights",
    "numbered": "graphs",
    "path": "graphs",
    "resolve_weights_name": "weights",
    "ring": "graphs",
    "spectrum": "spectra",
    "star": "graphs",
    "torus": "graphs",
    "uniform_weights": "weights",
    "weights_from_name": "weights",
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
