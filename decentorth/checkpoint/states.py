"""The conversion of a method's state to named arrays and numbers, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Number = int | float | bool | str | None
Arrays = dict[str, NDArray[Any]]


def leaves(state: Any, name: str) -> Iterator[tuple[str, Any]]:
    """``(dotted name, array or number)`` for every entry of a state of nested NamedTuples and tuples.

    Raises
    ------
    TypeError
        An entry is neither an array nor a number; the message names it.
    """
    if isinstance(state, tuple):
        for field, value in zip(_fields(state), state, strict=True):
            yield from leaves(value, f"{name}.{field}")
    elif isinstance(state, np.ndarray | Number):
        yield name, state
    else:
        raise TypeError(f"a checkpoint holds arrays and numbers, but {name} is of type {type(state).__name__}")


def taken_apart(state: Any, name: str) -> tuple[Arrays, dict[str, Number]]:
    """The arrays of a state and its numbers, by dotted name."""
    arrays: Arrays = {}
    numbers: dict[str, Number] = {}
    for leaf, value in leaves(state, name):
        if isinstance(value, np.ndarray):
            arrays[leaf] = value
        else:
            numbers[leaf] = value
    return arrays, numbers


def put_together(like: Any, name: str, arrays: Mapping[str, NDArray[Any]], numbers: Mapping[str, Number]) -> Any:
    """A state of the structure of ``like``, with other arrays and numbers."""
    if isinstance(like, tuple):
        parts = [put_together(value, f"{name}.{field}", arrays, numbers) for field, value in zip(_fields(like), like, strict=True)]
        return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
    return arrays[name] if isinstance(like, np.ndarray) else numbers[name]


def copied(state: Any, into: Any = None) -> Any:
    """A state that shares no memory with ``state``; the arrays of ``into``, an earlier copy, are reused."""
    if isinstance(state, tuple):
        parts = [copied(value, None if into is None else into[number]) for number, value in enumerate(state)]
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
    if isinstance(state, np.ndarray):
        if into is None or into.shape != state.shape:
            return state.copy()
        into[...] = state
        return into
    return state


def _fields(state: tuple[Any, ...]) -> tuple[str, ...]:
    names: tuple[str, ...] = getattr(state, "_fields", None) or tuple(map(str, range(len(state))))
    return names
