"""Constraint sets, each with its capabilities; pure functions of stacked arrays."""

from .stiefel import Stiefel

__all__ = ["Stiefel"]
