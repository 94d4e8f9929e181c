"""Validation of users' data: shapes and finiteness, with messages that name the agent."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...protocols import Array

AgentArrays = Sequence[Array] | Array
"""An array of each agent, as a list or a stack."""
LARGEST = 1e150
"""The largest allowed entry of data: sums of millions of its squares are finite."""


def is_masked(value: object) -> bool:
    """True for an array with masked entries; loads `numpy.ma` only where the caller has loaded it."""
    return "numpy.ma" in sys.modules and np.ma.is_masked(value)


def _shape(value: object) -> tuple[int, ...]:
    """The shape of an array or a frame; () for others."""
    return tuple(getattr(value, "shape", ()))


def is_matrix(value: object) -> bool:
    """True for an array or a frame of two dimensions."""
    return len(_shape(value)) == 2


def matrices(name: str, values: Any, first_agent: int = 0, *, missing: bool = False) -> list[Array]:
    """A list or stack of 2-D real matrices as float64, C-contiguous, finite (or NaN, where entries may be ``missing``).

    The ValueError or TypeError names the agent whose matrix is not 2-D, empty, not of finite real numbers, or larger than `LARGEST`
    (with the first bad row and column).
    """
    result = []
    shape = _shape(values)
    if shape and len(shape) != 3:
        split = f": np.array_split(np.asarray({name}), n) gives each of n agents its rows" if len(shape) == 2 else ""
        raise ValueError(
            f"{name} must be a list with one matrix for each agent, or a "
            "stack of shape (n_agents, rows, columns), got "
            f"{'one matrix' if split else 'an array'} of shape {shape}{split}"
        )
    if isinstance(values, Mapping):
        listed = ", ".join(map(str, values))[:80]
        cure = "give list(values.values()), or the mapping to from_sites, which keeps the names"
        raise TypeError(f"{name} must be a list, got a mapping of {listed}: {cure}")
    if isinstance(values, Iterator):
        raise TypeError(f"{name} must be a list, got {type(values).__name__}: give list(...) of it")
    if values is None or np.isscalar(values):
        raise TypeError(f"{name} must be a list with one matrix for each agent, or a stack of them, got {values!r:.80}")
    for i, value in enumerate(values):
        agent = first_agent + i
        if is_masked(value):
            raise TypeError(
                f"{name} of agent {agent} has masked entries, which would count as numbers: fill them, or leave out their rows"
            )
        raw = np.asarray(value)
        if raw.dtype.kind not in "fiub":
            raise TypeError(f"{name} of agent {agent} must hold real numbers, got {_kinds(value, raw)}")
        array = np.ascontiguousarray(raw, dtype=np.float64)
        if array.ndim != 2 or array.size == 0:
            raise ValueError(f"{name} of agent {agent} must be a non-empty matrix, got shape {array.shape}")
        if not np.vdot(array, array) <= LARGEST**2 and (bad := _bad(array, missing)).any():
            row, column = np.argwhere(bad)[0]
            finite = np.isfinite(array[row, column])
            must = f"be at most {LARGEST:g} in size, as squares are computed: divide all by one number" if finite else "be finite"
            raise ValueError(
                f"{name} of agent {agent} must {must}; "
                f"{_place(value, int(row), int(column))} is {array[row, column]} "
                f"({int(bad.sum())} such entries){_repair(value, array[row, column])}"
            )
        result.append(array)
    if not result:
        raise ValueError(f"{name} must hold at least one agent's matrix, got none")
    return result


def _is_frame(value: Any, member: str = "columns") -> bool:
    """True for a data frame; with ``member`` for one of a library whose frames have it."""
    return hasattr(value, member)


def _kinds(value: Any, raw: NDArray[Any]) -> str:
    """The columns of a data frame that hold no numbers, or the type of the entries."""
    if not _is_frame(value):
        return f"dtype {raw.dtype}"
    kinds = {str(label): np.asarray(value[label]).dtype.kind for label in value.columns}
    texts = [label for label, kind in kinds.items() if kind not in "fiub"]
    columns = "column" if len(texts) == 1 else "columns"
    return f"text or other values in {columns} {', '.join(texts):.300}: leave them out, as frame.drop(columns=[...])"


def _place(value: Any, row: int, column: int) -> str:
    """An entry by its numbers, or in a data frame by its labels."""
    if not _is_frame(value):
        return f"entry [{row}, {column}]"
    label: Any = row
    if _is_frame(value, "index"):
        label = value.index[row]
    return f"column {value.columns[column]} in row {label}"


def _repair(value: Any, entry: float) -> str:
    """The remedy for a missing cell of a data frame."""
    if not _is_frame(value) or not np.isnan(entry):
        return ""
    call = {True: "dropna", False: "drop_nans"}[_is_frame(value, "dropna")]
    return f": frame.{call}() leaves out their rows"


def _bad(array: Array, missing: bool) -> NDArray[np.bool_]:
    """True for each entry that is refused."""
    size = np.abs(array)
    permitted = size <= LARGEST
    return ~(permitted | np.isnan(array) & missing)


def same_columns(name: str, values: Sequence[Array], first_agent: int = 0) -> int:
    """The common number of columns; the ValueError names the first agent that differs."""
    columns = values[0].shape[1]
    for i, value in enumerate(values):
        if value.shape[1] != columns:
            raise ValueError(
                f"all agents must share the dimension d: {name} of agent {first_agent} has "
                f"{columns} columns, that of agent {first_agent + i} has {value.shape[1]}"
            )
    return int(columns)


def same_names(name: str, values: Any, first_agent: int = 0) -> None:
    """Raise ValueError for the first of the agents' data frames whose columns are not those of the first one, in the same order."""
    frames = [(i, [*map(str, one.columns)]) for i, one in enumerate(values, first_agent) if _is_frame(one)]
    for agent, names in frames:
        if sorted(names) == sorted(frames[0][1]) and names != frames[0][1]:
            raise ValueError(
                f"{name} of agent {agent} has the columns of agent {frames[0][0]} "
                "in another order: give frame[frames[0].columns] for each frame"
            )
        if names != frames[0][1]:
            others = frames[0][1]
            lists = ((agent, set(names) - set(others)), (frames[0][0], set(others) - set(names)))
            differing = [f"only agent {which} has {', '.join(sorted(some)):.200}" for which, some in lists if some]
            raise ValueError(
                f"{name} of agent {agent} has other columns than that of agent "
                f"{frames[0][0]} ({'; '.join(differing) or 'some occur twice'}): "
                "give all data frames the same columns in the same order"
            )


def samples(name: str, values: Any, first_agent: int = 0) -> tuple[list[Array], int]:
    """The `matrices` of the agents' samples, a row each, and their common number of columns."""
    rows = matrices(name, values, first_agent)
    same_names(name, values, first_agent)
    return rows, same_columns(name, rows, first_agent)


def agent_weights(weights: Array | None, n_local: int) -> Array:
    """``(n_local,)``: the weights of the local agents, all 1 for None; a ValueError for another shape."""
    if weights is None:
        return np.ones(n_local)
    if weights.shape != (n_local,):
        raise ValueError(f"weights must have shape ({n_local},), one for each agent given, got {weights.shape}")
    return weights
