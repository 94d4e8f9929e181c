"""Symmetric matrices as their upper triangles, which agents add in place of them."""

from __future__ import annotations

import numpy as np

from ...protocols import Array


def packed(stack: Array) -> Array:
    """``(n, d (d + 1) / 2)``: the upper triangles of symmetric matrices ``(n, d, d)``."""
    rows, columns = np.triu_indices(stack.shape[-1])
    return np.ascontiguousarray(stack[:, rows, columns])


def unpacked(numbers: Array, d: int) -> Array:
    """The symmetric matrix ``(d, d)`` of a triangle."""
    upper = np.triu_indices(d)
    whole = np.empty((d, d))
    whole[upper] = numbers
    whole.T[upper] = numbers
    return whole
