"""The arrays in a method's state."""

from __future__ import annotations

import numpy as np

from ..protocols import Array


def arrays(state: object) -> list[Array]:
    """The arrays in a state of nested tuples, in their order."""
    if isinstance(state, np.ndarray):
        return [state]
    if isinstance(state, tuple):
        return [array for entry in state for array in arrays(entry)]
    return []
