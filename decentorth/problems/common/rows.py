"""The base class of problems with a sum over samples, f_i(x) = w_i sum_j h(x^T a_j) over the rows
a_j of A_i, and stacks of rows.

Both passes over an agent's rows, the products A_i x and the sum A_i^T h'(A_i x), go piece by piece,
so that a piece's products are still in cache when they are multiplied back. Sparse rows are one
piece.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...numerics.ordered_sums import sums
from ...protocols import Array, Index
from ...sets import Stiefel
from ..base import AgentProblem, C, Selection, SeparateColumns, as_selection, held
from .checks import Rows
from .sparse_rows import SparseRows

RUN_BYTES = 1 << 21
"""The bytes of the arrays of a run, unless they belong to a single agent."""
PASS_BYTES = 1 << 17
"""The bytes of a piece of an agent's samples, small enough to stay in cache between the two
products."""


class Runs:
    """The arrays of each agent, the same number for every agent.

    Iterating gives ``(local, arrays)``: the slice of the agents of a run, and their arrays stacked.
    An agent with sparse rows is a run of its own, and its rows are not stacked.
    The runs depend on which agents share a process, so an agent's numbers must not depend on its
    run.
    """

    def __init__(self, agents: Sequence[tuple[Rows, ...]]) -> None:
        self._runs: list[tuple[slice, tuple[Any, ...]]] = []
        start = 0
        for end in range(1, len(agents) + 1):
            alone = isinstance(agents[start][0], SparseRows)
            full = (end - start) * sum(array.nbytes for array in agents[start]) >= RUN_BYTES
            if end == len(agents) or alone or full or _form(agents[end]) != _form(agents[start]):
                stacks = tuple(_stack(arrays) for arrays in zip(*agents[start:end], strict=True))
                self._runs.append((slice(start, end), stacks))
                start = end

    def __iter__(self) -> Iterator[tuple[slice, tuple[Any, ...]]]:
        return iter(self._runs)

    def take(self, local: Selection) -> Runs:
        """The runs of the agents in ``local``; the arrays of a slice are viewed, not copied."""
        part = object.__new__(Runs)
        part._runs = []
        wanted = np.arange(self._runs[-1][0].stop)[local]
        for own, arrays in self._runs:
            first, last = np.searchsorted(wanted, [own.start, own.stop]).tolist()
            if first < last:
                chosen = as_selection(wanted[first:last] - own.start)
                own_arrays = tuple([_selected(array, chosen) for array in arrays])
                part._runs.append((slice(first, last), own_arrays))
        return part


def _form(arrays: Sequence[Rows]) -> list[tuple[type, tuple[int, ...]]]:
    """The kinds and the shapes of an agent's arrays."""
    return [(type(array), array.shape) for array in arrays]


def _selected(stack: Rows, chosen: Selection) -> Rows:
    """The part of a run's stack; the sparse rows of its one agent."""
    return stack if isinstance(stack, SparseRows) else stack[chosen]


def _stack(arrays: Sequence[Any]) -> Rows:
    """The stack of the arrays of several agents, copied; a view for a single agent."""
    if isinstance(arrays[0], SparseRows):
        return arrays[0]
    if len(arrays) == 1:
        return arrays[0][None]
    return np.stack(arrays)


def pieces(a: Any) -> Iterator[Any]:
    """Runs of the samples ``(n, m, d)`` of about `PASS_BYTES` for each agent, at least one sample
    each."""
    if isinstance(a, SparseRows):
        yield a
        return
    size = max(1, PASS_BYTES // (8 * a.shape[2]))
    for start in range(0, a.shape[1], size):
        yield a[:, start : start + size]


def drawn(a: Any, batch: Index) -> Any:
    """The samples ``batch``, ``(n, b)``, of the agents of a run."""
    if isinstance(a, SparseRows):
        return a.take(batch[0])
    return np.take_along_axis(a, batch[..., None], 1)


class RowLosses(AgentProblem[C]):
    """f_i(x) = w_i sum_j h(x^T a_j), the sum over the rows a_j of an agent's samples A_i ``(m_i,
    d)``, already checked."""

    def __init__(
        self,
        rows: Sequence[Rows],
        weights: Sequence[float] | Array,
        constraint: C,
        n_agents: int | None,
        first_agent: int,
    ) -> None:
        super().__init__(*held(rows, n_agents, first_agent), constraint)
        self.n_samples: Index = np.array([len(a) for a in rows], dtype=np.int64)
        self._weights = np.array(weights, dtype=np.float64)
        self._rows = Runs([(a,) for a in rows])

    @staticmethod
    @abstractmethod
    def losses(products: Array) -> Array:
        """``(n, ...)``: numbers that add up, for each agent, to the sum of h over the samples with
        products ``(n, b, c)``."""

    @staticmethod
    @abstractmethod
    def differentiate(products: Array) -> None:
        """Replace the products ``(n, b, c)`` by the gradients of h there."""

    def _take(self, local: Selection) -> None:
        self.n_samples, self._weights = self.n_samples[local], self._weights[local]
        self._rows = self._rows.take(local)

    @cached_property
    def largest(self) -> Array:
        """``(n_local,)``: lambda_max(A_i^T A_i)."""
        out = np.empty(self.n_local)
        for local, (a,) in self._rows:
            if isinstance(a, SparseRows):
                out[local] = a.largest()
            else:
                out[local] = np.linalg.eigvalsh(a.swapaxes(-1, -2) @ a)[:, -1]
        return out

    def value(self, x: Array) -> Array:
        out = np.zeros(len(x))
        for local, (a,) in self._rows:
            points = x[local]
            for rows in pieces(a):
                out[local] += sums(self.losses(rows @ points))
        return out * self._weights

    def gradient(self, x: Array) -> Array:
        """Return the gradients w_i A_i^T h'(A_i x_i), ``(n_local, d, r)``.

        Points may have any number r of columns.
        """
        out = np.empty_like(x)
        for local, (a,) in self._rows:
            self._sum(a, x[local], out[local])
        out *= self._weights[:, None, None]
        return out

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """Return m_i / b times the gradients of the samples in ``batch``, ``(n_local, d, r)``.

        ``batch``, ``(n_local, b)``, holds numbers of samples within each agent.
        """
        out = np.empty_like(x)
        for local, (a,) in self._rows:
            self._sum(drawn(a, batch[local]), x[local], out[local])
        out *= (self._weights * self.n_samples / batch.shape[1])[:, None, None]
        return out

    def _sum(self, a: Any, x: Array, out: Array) -> None:
        """``out = a^T h'(a x)`` for the samples ``(n, b, d)``."""
        for number, rows in enumerate(pieces(a)):
            products: Array = rows @ x
            self.differentiate(products)
            if number == 0:
                out[...] = rows.swapaxes(-1, -2) @ products
            else:
                out += rows.swapaxes(-1, -2) @ products


class SeparableLosses(RowLosses[C], SeparateColumns):
    """Row losses with h(y) a sum over the entries of y, so that each column of the gradient is
    computed on its own."""

    def flops(self, columns: int) -> Array:
        """``(n_local,)``: the operations of two products with the samples for ``columns`` columns;
        h' counts as one an entry."""
        return (self.n_samples * ((4 * self.shape[0] + 1) * columns)).astype(np.float64)


class AbsoluteLosses(SeparableLosses[Stiefel]):
    """f_i(x) = w_i ||A_i x||_1, with the subgradient w_i A_i^T sign(A_i x), in which the sign of 0
    is 0."""

    nonsmooth = True

    @staticmethod
    def losses(products: Array) -> Array:
        """The absolute value of every entry."""
        return np.abs(products)

    @staticmethod
    def differentiate(products: Array) -> None:
        """Replace every entry by its sign."""
        np.sign(products, out=products)

    @property
    def lipschitz_value(self) -> Array:
        """``(n_local,)``: |w_i| ||A_i||_2 sqrt(m_i r), which bounds |w_i| ||A_i^T U||_F for every U
        of signs."""
        return np.abs(self._weights) * np.sqrt(self.largest * (self.n_samples * self.shape[1]))
