"""The states of methods: NamedTuples of arrays and numbers, which may hold others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..protocols import Array
from .devices import is_on_device


def arrays(state: object) -> list[Array]:
    """The arrays in a state of nested tuples, in their order."""
    match state:
        case np.ndarray():
            return [state]
        case tuple():
            return [array for entry in state for array in arrays(entry)]
    return []


def mapped(state: Any, name: str, change: Callable[[str, Any], Any]) -> Any:
    """The state of nested NamedTuples and tuples with ``change(dotted name, entry)`` in the place
    of every array and number."""
    match state:
        case object(_asdict=entries):  # a NamedTuple
            fields: Mapping[str, Any] = entries()
            parts = [mapped(one, f"{name}.{field}", change) for field, one in fields.items()]
            return type(state)(*parts)
        case tuple():
            return tuple(mapped(one, f"{name}.{i}", change) for i, one in enumerate(state))
    return change(name, state)


def copied(state: Any, into: Any = None) -> Any:
    """A state that shares no memory with ``state``; the arrays of ``into``, an earlier copy, are
    reused."""
    reused: dict[str, Any] = {}
    mapped(into, "", reused.__setitem__)

    def copy(leaf: str, entry: Any) -> Any:
        if not isinstance(entry, np.ndarray) and not is_on_device(entry):
            return entry
        target: Any = reused.get(leaf)
        if type(target) is not type(entry) or target.shape != entry.shape:
            return entry.copy()
        target[...] = entry
        return target

    return mapped(state, "", copy)
