"""Validation of users' data: shapes and finiteness, with messages that name the agent."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from topologies.line.words import suggestion

from ...protocols import Array, Collective
from .here import HERE
from .sparse_rows import SparseRows, is_sparse

AgentArrays = Sequence[Array] | Array
"""An array of each agent, as a list or a stack."""
SparseOrArrays = Sequence[Any] | Array
"""An array or a sparse matrix of SciPy of each agent, as a list, or a stack of arrays."""
Rows = Array | SparseRows
"""An agent's samples ``(m_i, d)``, checked."""
LARGEST = 1e60
"""The largest allowed entry of data. Line searches and step sizes compute squares of gradients, which are
fourth powers of data, and products of these."""
SMALLEST = 1e-60
"""The smallest allowed size of data that are not 0, whose fourth powers times squared tolerances do
not vanish."""


def is_masked(value: object) -> bool:
    """True for an array with masked entries; loads `numpy.ma` only where the caller has loaded
    it."""
    return "numpy.ma" in sys.modules and np.ma.is_masked(value)


def _shape(value: object) -> tuple[int, ...]:
    """The shape of an array or a frame; () for others."""
    return tuple(getattr(value, "shape", ()))


def is_matrix(value: object) -> bool:
    """True for an array or a frame of two dimensions."""
    return len(_shape(value)) == 2


def matrices(
    name: str, values: Any, first_agent: int = 0, *, missing: bool = False, sparse: bool = False
) -> list[Any]:
    """Return a list or stack of real matrices as checked float64 arrays, C-contiguous.

    Entries are finite, or NaN if they may be ``missing``. Matrices of SciPy that may be ``sparse``
    become `SparseRows`, unless they take less memory as arrays. Raises ValueError or TypeError for
    a matrix that is not 2-D, is empty, has entries that are not finite real numbers or exceed
    `LARGEST`, or has none of at least `SMALLEST` beside 0. The message names the agent, and the
    first bad row and column.
    """
    shape = _shape(values)
    must = "a list with one matrix for each agent, or a stack of them"
    if len(shape) == 2 and is_sparse(values):
        raise ValueError(
            f"{name} must be {must}, got one sparse matrix of shape {shape}: "
            f"[{name}[part] for part in np.array_split(np.arange({shape[0]}), n)], with {name} a "
            "csr_array, gives each of n agents its rows"
        )
    if len(shape) == 2:
        raise ValueError(
            f"{name} must be {must}, got one matrix of shape {shape}: "
            f"np.array_split(np.asarray({name}), n) gives each of n agents its rows"
        )
    if shape and len(shape) != 3:
        raise ValueError(f"{name} must be {must}, got an array of shape {shape}")
    if isinstance(values, Mapping):
        raise TypeError(
            f"{name} must be a list, got a mapping of {', '.join(map(str, values)):.80}: give "
            "list(values.values()), or the mapping to from_sites"
        )
    if isinstance(values, Iterator):
        raise TypeError(f"{name} must be {must}, got {type(values).__name__}: give list(...) of it")
    if values is None or np.isscalar(values):
        raise TypeError(f"{name} must be {must}, got {values!r:.80}")
    if not len(values):
        raise ValueError(f"{name} must hold at least one agent's matrix, got none")
    if _passes(values, 3):  # a stack, checked once
        return list(values)
    return [
        value if _passes(value, 2) else _matrix(f"{name} of agent {agent}", value, missing, sparse)
        for agent, value in enumerate(values, first_agent)
    ]


def _passes(value: Any, dimensions: int) -> bool:
    """True if an array is one of acceptable float64 numbers; others need a closer look."""
    if type(value) is not np.ndarray or value.dtype != np.float64 or value.ndim != dimensions:
        return False
    # NaN, infinities and large entries make the sum of squares large, or no number
    filled = value.flags.c_contiguous and value.size > 0
    return bool(filled and SMALLEST**2 <= np.vdot(value, value) <= LARGEST**2)


def _matrix(name: str, value: object, missing: bool, sparse: bool) -> Rows:
    """An agent's matrix, checked."""
    if isinstance(value, SparseRows) or is_sparse(value):
        if not sparse:
            raise TypeError(f"{name} is sparse, and must be dense here: give its toarray()")
        return value if isinstance(value, SparseRows) else _sparse(name, value)
    if is_masked(value):
        raise TypeError(f"{name} has masked entries: fill them, or leave out their rows")
    if isinstance(value, str):
        raise TypeError(f"{name} is the text {value!r:.80}: read that file, and give its matrix")
    frame = _Frame.of(value)
    raw = _numbers(value) if frame else np.asarray(value)
    if raw.dtype.kind not in "fiub":
        got = _texts(value) if frame else f"dtype {raw.dtype}"
        raise TypeError(f"{name} must hold real numbers, got {got}")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused below
        array = np.ascontiguousarray(raw, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must be a non-empty matrix, got shape {array.shape}")
    if SMALLEST**2 <= np.vdot(array, array) <= LARGEST**2:
        return array
    if (bad := _bad(array, missing)).any():
        row, column = np.argwhere(bad)[0].tolist()
        must = "be finite"
        entry = array[row, column]
        if np.isfinite(entry):
            must = f"be at most {LARGEST:g} in size, as fourth powers are computed: divide all by one number"
        place = f"entry [{row}, {column}]"
        repair = ""
        if frame:
            place = f"column {frame.columns[column]} in row {frame.rows[row]}"
            repair = f": frame.{frame.drop}() leaves out their rows" * bool(np.isnan(entry))
        raise ValueError(
            f"{name} must {must}; {place} is {entry} ({int(bad.sum())} such entries){repair}"
        )
    _check_smallest(name, array)
    return array


def _sparse(name: str, matrix: Any) -> Rows:
    """An agent's sparse matrix, checked."""
    if matrix.dtype.kind not in "fiub":
        raise TypeError(f"{name} must hold real numbers, got dtype {matrix.dtype}")
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must be a non-empty matrix, got shape {matrix.shape}")
    rows = SparseRows.of(matrix)
    values = rows.stored.data
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST))
    if bad.size:
        row, column = rows.place(int(bad[0]))
        raise ValueError(
            f"{name} must be finite and at most {LARGEST:g} in size; entry [{row}, {column}] is "
            f"{values[bad[0]]} ({bad.size} such entries)"
        )
    if rows.nbytes >= 8 * len(rows) * rows.shape[1]:
        return rows.dense()
    _check_smallest(name, values)
    return rows


def _check_smallest(name: str, array: Array) -> None:
    """Raise ValueError unless an entry is at least `SMALLEST` in size, or all are 0."""
    size = float(np.abs(np.nan_to_num(array)).max(initial=0.0))
    if 0.0 < size < SMALLEST:
        raise ValueError(
            f"{name} must have an entry of at least {SMALLEST:g} in size, as fourth powers are "
            f"computed, and its largest is {size:g}: multiply all by one number"
        )


class _Frame(NamedTuple):
    """The labels of a data frame, for messages."""

    columns: list[str]
    rows: Sequence[object]
    drop: str
    """The method that leaves out the rows of missing cells."""

    @staticmethod
    def of(value: Any) -> _Frame | None:
        """The labels of a frame of pandas or polars; None for others."""
        if not hasattr(value, "columns"):
            return None
        columns = [*map(str, value.columns)]
        if hasattr(value, "index"):
            return _Frame(columns, value.index, "dropna")
        return _Frame(columns, range(len(value)), "drop_nans")


def _numbers(frame: Any) -> NDArray[Any]:
    """A data frame as an array; a missing cell of pandas' nullable numbers is NaN."""
    raw = np.asarray(frame)
    if raw.dtype.kind == "O" and not any(map(_is_text, _columns(frame))):
        columns = [column.to_numpy(np.float64, na_value=np.nan) for column in _columns(frame)]
        return np.stack(columns, axis=1)
    return raw


def _columns(frame: Any) -> list[Any]:
    return [frame[label] for label in frame.columns]


def _is_text(column: Any) -> bool:
    """True for a column of a data frame that holds no numbers."""
    kind = getattr(column.dtype, "kind", None) or np.asarray(column).dtype.kind
    return kind not in "fiub"


def _texts(frame: Any) -> str:
    """The columns of a data frame that hold no numbers."""
    texts = ", ".join(str(column.name) for column in _columns(frame) if _is_text(column))
    return f"text or other values in {texts:.300}: leave them out, as frame.drop(columns=[...])"


def _bad(array: Array, missing: bool) -> NDArray[np.bool_]:
    """True for each entry that is refused."""
    return ~((np.abs(array) <= LARGEST) | np.isnan(array) & missing)


def same_columns(name: str, values: Sequence[Rows], first_agent: int = 0) -> int:
    """Return the common number of columns.

    Raises ValueError, naming the first agent that differs.
    """
    columns = values[0].shape[1]
    for agent, value in enumerate(values, first_agent):
        if value.shape[1] != columns:
            raise ValueError(
                f"all agents must share the dimension d: {name} of agent {first_agent} has "
                f"{columns} columns, that of agent {agent} has {value.shape[1]}"
            )
    return int(columns)


def same_names(name: str, values: Any, first_agent: int = 0, collective: Collective = HERE) -> Any:
    """Return the agents' samples, where data frames have the columns of the first one of all
    agents, joined by name; called by all ranks.

    Raises ValueError for a name without a partner, with the nearest one.
    """
    if not isinstance(values, list | tuple):
        return values
    others = (value for value in values if type(value) is not np.ndarray)
    own = [frame.columns for frame in map(_Frame.of, others) if frame][:1]
    every = collective.everyone(json.dumps(own).encode())
    known: list[str] = next((columns for one in every for columns in json.loads(one)), [])
    with collective.together():
        given = enumerate(values, first_agent)
        return [_in_order(f"{name} of agent {agent}", one, known) for agent, one in given]


def _in_order(name: str, value: Any, known: Sequence[str]) -> Any:
    """A frame with its columns in this order; other values as they are."""
    frame = None if type(value) is np.ndarray else _Frame.of(value)
    if frame is None or frame.columns == known:
        return value
    own = frame.columns
    for column in known:
        if column not in own:
            near = suggestion(column, {*own} - {*known}) or ":"
            raise ValueError(
                f"{name} lacks the column {column!r}, which an earlier agent has{near} give all "
                "agents the same columns"
            )
    for column in own:
        if column not in known:
            raise ValueError(
                f"{name} has a column {column!r}, which an earlier agent lacks: leave it out"
            )
        if own.count(column) + known.count(column) > 2:
            raise ValueError(
                f"columns are joined by name, and {name} or an earlier agent has {column!r} twice: "
                "leave one"
            )
    return value[[value.columns[own.index(column)] for column in known]]


def samples(
    name: str, values: object, first_agent: int = 0, *, sparse: bool = False
) -> tuple[list[Any], int]:
    """The `matrices` of the agents' samples, a row each, and their common number of columns."""
    matrices(name, values, first_agent, sparse=sparse)
    named = same_names(name, values, first_agent)
    rows = matrices(name, named, first_agent, sparse=sparse)
    return rows, same_columns(name, rows, first_agent)


def sparse_samples(view: Sequence[Any], first_agent: int = 0) -> list[Any]:
    """The agents' samples, of which those in sparse matrices are checked and become `SparseRows`;
    the others are as they were."""
    named = enumerate(view, first_agent)
    return [_sparse(f"data of agent {k}", a) if is_sparse(a) else a for k, a in named]


def agent_weights(weights: Sequence[float] | Array | None, n_local: int) -> Array:
    """Return the weights of the local agents, ``(n_local,)``, all 1 for None.

    Raises ValueError for another shape.
    """
    if weights is None:
        return np.ones(n_local)
    weights = np.asarray(weights, dtype=np.float64)
    if weights.shape != (n_local,):
        raise ValueError(
            f"weights must have shape ({n_local},), one for each agent, got {weights.shape}"
        )
    return weights


def class_cautions(names: Iterable[object]) -> list[str]:
    """A caution for each set of names of classes that differ only in case or spaces."""
    sets: dict[str, list[str]] = {}
    for name in map(str, names):
        sets.setdefault("".join(name.split()).casefold(), []).append(name)
    return [
        f"the classes {', '.join(map(repr, same))} differ only in case or spaces, and count as "
        f"{len(same)} classes: if they are one class, write its name in one way"
        for same in sets.values()
        if len(same) > 1
    ]
