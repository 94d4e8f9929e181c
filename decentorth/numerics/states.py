"""The arrays in a method's state."""

from __future__ import annotations

import numpy as np

from ..protocols import Array


def arrays(state: object) -> list[Array]:
    """The arrays in a state of nested tuples, in their order."""
    match state:
        case np.ndarray():
            return [state]
        case tuple():
            return [array for entry in state for array in arrays(entry)]
    return []
