"""Constraint sets, each with its capabilities; pure functions of stacked arrays."""

from .euclidean import Euclidean
from .stiefel import Stiefel

__all__ = ["Euclidean", "Stiefel"]
