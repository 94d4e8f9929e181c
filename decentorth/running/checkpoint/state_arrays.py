"""The conversion of a method's state to named arrays and numbers, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...numerics.states import mapped
from ..history import Column

Number = int | float | bool | str | None
Arrays = dict[str, Column]


def taken_apart(state: object, name: str) -> tuple[Arrays, dict[str, Number]]:
    """The arrays of a state and its numbers, by dotted name; of agents that keep their own state
    what their ``saved()`` returns.

    Raises
    ------
    TypeError
        An entry is neither an array nor a number; the message names it.
    """
    arrays: Arrays = {}
    numbers: dict[str, Number] = {}

    def take(leaf: str, entry: Any) -> None:
        match entry:
            case np.ndarray():
                arrays[leaf] = entry
            case int() | float() | bool() | str() | None:
                numbers[leaf] = entry
            case object(saved=saved):
                arrays[leaf] = saved()
            case _:
                raise TypeError(
                    f"a checkpoint holds arrays and numbers, but {leaf} is of type "
                    f"{type(entry).__name__}"
                )

    mapped(state, name, take)
    return arrays, numbers


def _filled(old: Any, array: Column, k: Any) -> object:
    """The entry in the place of ``old``; agents that keep their own state continue from it after
    ``k`` iterations."""
    if isinstance(old, np.ndarray):
        return array
    if array.dtype != np.int64 or array.ndim != 2 or array.shape[1] < 2:
        raise ValueError(f"the agents' states cannot be an array of {array.dtype} {array.shape}")
    old.restore(array, k)
    return old


def put_together(like: Any, name: str, arrays: Arrays, numbers: Mapping[str, Number]) -> Any:
    """A state of the structure of ``like``, with other arrays and numbers."""
    k = numbers.get(f"{name}.k")

    def fill(leaf: str, old: object) -> Any:
        if leaf in arrays:
            return _filled(old, arrays[leaf], k)
        return numbers[leaf]

    return mapped(like, name, fill)
