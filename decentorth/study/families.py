"""The graphs and weights that studies go through."""

from __future__ import annotations

import topologies as tp
from topologies.canonical import Weights

FAMILIES = (
    "path",
    "ring",
    "binary_tree",
    "grid",
    "torus",
    "random_geometric",
    "watts_strogatz",
    "barabasi_albert",
    "random_regular",
    "hypercube",
    "exponential",
    "star",
    "complete",
)
"""With default parameters. Every one exists for n = 4^k from 16 on."""
RULES = ("metropolis", "lazy-metropolis", "best-constant")


def mixing_matrix(family: str, n: int, rule: str, seed: int) -> Weights:
    """W, ``(n, n)``."""
    return tp.weights_from_name(tp.adjacency_from_name(family, n, seed), rule)
