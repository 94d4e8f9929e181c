"""Sums with a fixed order of additions, so that runs are bitwise reproducible: sparse rows times
points, over agents, within one.

`accumulate`, `subtract_scaled` and `add_agents` call SciPy's ``csr_matvecs``, the loop behind
``csr_array @ dense``: for each row, for each stored column in order, ``out[row] += weight *
x[column]`` over the whole point. It accumulates into ``out``, which the public operator cannot: so
a row whose columns are on several ranks is added piece by piece, in global agent order, without
copying the pieces together first. `scatter` calls ``csc_matvecs``, the same by columns.

These loops are loaded from their own file in SciPy, as ``scipy.sparse`` brings all of
``scipy.linalg``: on every rank that takes longer than Python and NumPy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..protocols import Array, Index

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def _loops() -> Any:
    """SciPy's compiled loops without the rest of ``scipy.sparse``, which uses the same module when
    it is loaded later.

    None if they have no file of their own.
    """
    name = "scipy.sparse._sparsetools"
    if name in sys.modules:
        return sys.modules[name]
    scipy = find_spec("scipy")
    places = scipy.submodule_search_locations if scipy is not None else None
    spec = PathFinder.find_spec(name, [f"{place}/sparse" for place in places or ()])
    if spec is None or spec.loader is None:
        return None
    module = sys.modules[name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if (_sparsetools := _loops()) is None:
    from scipy.sparse import _sparsetools
Loop = Callable[..., None]
ROWS: Loop = _sparsetools.csr_matvecs
"""The loop of `accumulate`: its arguments are rows, columns, width, indptr, indices, data, x and
out."""

_SMALL, _LARGE = 2.0**-450, 2.0**500
"""Norms between these are the root of the sum of squares; outside, squares underflow or
overflow."""


class Csr(NamedTuple):
    """A sparse block in compressed rows, as plain arrays."""

    rows: int
    columns: int
    indptr: Index
    indices: Index
    data: Array
    push: Array | None = None
    """Of a directed network the entries of B in the places where ``data`` has those of A."""

    @property
    def array(self) -> csr_array[Any, tuple[int, int]]:
        """The same block for SciPy."""
        from scipy.sparse import csr_array

        return csr_array((self.data, self.indices, self.indptr), shape=(self.rows, self.columns))


def entry_rows(block: Csr | csr_array) -> Index:
    """The row of each stored entry of a block."""
    return np.repeat(np.arange(len(block.indptr) - 1, dtype=np.int64), np.diff(block.indptr))


def plain(W: csr_array) -> Csr:
    """SciPy's matrix as plain arrays."""
    return Csr(*W.shape, W.indptr.astype(np.int64), W.indices.astype(np.int64), W.data)


def accumulate(block: Csr, width: int, x: Array, out: Array, loop: Loop = ROWS) -> None:
    """Compute ``out += block @ x``, both flat and C-contiguous, with ``width`` numbers per row.

    ``loop`` may be another function with the arguments and the bits of `ROWS`.
    """
    loop(block.rows, block.columns, width, block.indptr, block.indices, block.data, x, out)


@cache
def _diagonal(n: int) -> tuple[Index, Index]:
    return np.arange(n + 1, dtype=np.int64), np.arange(n, dtype=np.int64)


def subtract_scaled(scale: Array, x: Array, out: Array) -> None:
    """Compute ``out[i] -= scale[i] * x[i]`` for each agent i, in one pass over C-contiguous
    arrays."""
    n = len(scale)
    if type(x) is not np.ndarray:  # on a device
        out -= scale.reshape(-1, *(1,) * (x.ndim - 1)) * x
        return
    if len(x) != n or x.size != out.size:
        raise ValueError(_unequal("subtract_scaled", (scale.shape, x.shape), out))
    if n == 1:  # the same bits, with less to prepare
        out -= scale.item() * x
        return
    flat = out.reshape(-1)
    ROWS(n, n, x.size // n, *_diagonal(n), -scale, x.reshape(-1), flat)
    if not out.flags.c_contiguous:
        out[...] = flat.reshape(out.shape)


def add_multiple(scale: float, x: Array, out: Array) -> None:
    """Compute ``out += scale * x`` in one pass over C-contiguous arrays."""
    if type(x) is not np.ndarray:  # on a device
        out += scale * x
        return
    if x.shape != out.shape:
        raise ValueError(_unequal("add_multiple", (x.shape,), out))
    flat = out.reshape(-1)
    accumulate(Csr(1, 1, *_diagonal(1), np.array([scale])), x.size, x.reshape(-1), flat)
    if not out.flags.c_contiguous:
        out[...] = flat.reshape(out.shape)


def add_agents(x: Array, out: Array) -> None:
    """Compute ``out += x[0]``, ``out += x[1]``, ...: a sum strictly in agent order (NumPy's own
    sums are pairwise)."""
    n = len(x)
    if x.size != n * out.size:
        raise ValueError(_unequal("add_agents", (x.shape,), out))
    if n == 1:
        out += x[0]
        return
    ones = Csr(1, n, np.array([0, n], dtype=np.int64), np.arange(n, dtype=np.int64), np.ones(n))
    flat = out.reshape(-1)
    accumulate(ones, out.size, x.reshape(-1), flat)
    if not out.flags.c_contiguous:
        out[...] = flat.reshape(out.shape)


def _unequal(name: str, given: tuple[tuple[int, ...], ...], out: Array) -> str:
    """The refusal of arrays that SciPy's loops would read or write beyond their ends."""
    shapes = " and ".join(map(str, given))
    return f"{name} needs arrays of equal sizes, got {shapes} for a result of {out.shape}"


def scatter(places: Index, weights: Array, x: Array, out: Array) -> None:
    """Compute ``out[places[i, j]] += weights[i, j] * x[i]``, strictly in the order of i and, within
    it, j.

    Places, below m, and weights are ``(b, c)``, x ``(b, width)``, out ``(m, width)`` and
    C-contiguous.
    """
    (b, c), (rows, width) = places.shape, out.shape
    if weights.shape != places.shape or x.shape != (b, width) or not out.flags.c_contiguous:
        raise ValueError(_unequal("scatter", (places.shape, weights.shape, x.shape), out))
    if places.size and not 0 <= places.min() <= places.max() < rows:
        raise ValueError(f"scatter needs places from 0 to {rows - 1}, got {places.max()}")
    starts = c * np.arange(b + 1, dtype=np.int64)
    flat = (array.reshape(-1) for array in (places, weights, x, out))
    _sparsetools.csc_matvecs(rows, b, width, starts, *flat)


def sums(x: Array) -> Array:
    """``(n, ...) -> (n,)``: the sum of each agent's entries; its bits do not depend on the other
    agents."""
    return x.reshape(len(x), -1).sum(-1)


def norms(x: Array) -> Array:
    """``(n, ...) -> (n,)``: the Frobenius norm of each agent's array, without overflow or
    underflow."""
    # on a device no branch is taken by the numbers, which the host would have to wait for
    if type(x) is not np.ndarray:
        unit = power_of_two(np.abs(x.reshape(len(x), -1)).max(-1))
        return unit * np.sqrt(sums(np.square(x / unit.reshape(-1, *(1,) * (x.ndim - 1)))))
    root: Array = np.sqrt(sums(x * x))
    if not (root.min() > _SMALL and root.max() < _LARGE):
        odd = np.flatnonzero(~((root > _SMALL) & (root < _LARGE)))
        far = x[odd]
        unit = power_of_two(np.abs(far.reshape(len(far), -1)).max(-1))
        far /= unit.reshape(-1, *(1,) * (x.ndim - 1))
        root[odd] = unit * np.sqrt(sums(far * far))
    return root


def power_of_two(size: Array | float) -> Array:
    """Return the largest power of two not above each size, for exact division.

    It is 1 for 0 and for sizes that are not finite.
    """
    usual = (size > 0.0) & (size < np.inf)
    known: Array = np.where(usual, size, 1.0)
    return known / (2.0 * np.frexp(known)[0])
