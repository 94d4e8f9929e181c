"""The graphs and weights of the studies, and the style of each family in figures."""

from __future__ import annotations

import topologies as tp
from topologies.canonical import Weights

from ...figures.canvas import Look, look
from .sweep import Trial

FAMILIES = (
    *("path", "ring", "binary_tree", "grid", "torus", "random_geometric", "watts_strogatz"),
    *("barabasi_albert", "random_regular", "hypercube", "exponential", "star", "complete"),
)
"""The families, with default parameters; each exists for n = 4^k from 16 on."""
RULES = ("metropolis", "lazy-metropolis", "best-constant")


def mixing_matrix(trial: Trial) -> Weights:
    """The mixing matrix of a trial, ``(n, n)``."""
    graph = tp.adjacency_from_name(trial["family"], trial["n"], trial["seed"])
    return tp.weights_from_name(graph, trial["weights"])


def look_of(family: str) -> Look:
    """The colour, dashes and marker of a family."""
    return look(FAMILIES.index(family), marked=True) | {"markersize": 3.5, "linewidth": 0.8}
