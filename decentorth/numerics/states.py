"""The arrays in a method's state."""

from __future__ import annotations

from typing import Any

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


def copied(state: Any) -> Any:
    """A state of nested NamedTuples that shares no memory with ``state``."""
    match state:
        case np.ndarray():
            return state.copy()
        case tuple():
            return type(state)(*[copied(entry) for entry in state])
    return state
