"""Sums of squares over an agent's rows, f_i(x) = w_i ||A_i x - B_i||_F^2, in the cheaper of two
forms for each agent.

An agent with m_i rows in d columns computes its gradient ``2 w_i A_i^T (A_i x - B_i)`` from the
rows (4 m_i d r flops) or from the Gram matrix ``A_i^T A_i`` made once (2 d^2 r flops): whichever is
less. Sparse rows stay as they are (4 r flops a stored entry). The choice, and the stacking of
agents with equally many rows, depend on the agent alone, never on the other agents of its process.
Rows are copied only into stacks of row-form agents; mini-batches are gathered from them in either
form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from ...numerics.ordered_sums import sums
from ...numerics.threads import one_thread
from ...protocols import Array, Index
from ..base import AgentProblem, C, Selection, as_selection, held, selected
from .checks import Rows
from .moments import packed, unpacked
from .sparse_rows import SparseRows, below

Targets = Sequence[Array] | None
Table = tuple[Rows, Array | None, float]
"""An agent's rows, its targets or None, and twice its weight."""


def _of(function: Callable[[Any], object], targets: object) -> Any:
    """The function of the targets; None where there are none."""
    if targets is None:
        return None
    return function(targets)


def _stacked(arrays: Sequence[Array]) -> Array:
    """``(n, ...)``: the stacked arrays, C-contiguous, which `np.stack` does not give where all
    arrays are transposed."""
    return np.ascontiguousarray(np.stack(arrays))


def _gradient(a: Array, b: Array | None, twice: Array, x: Array) -> Array:
    """The gradient 2 w a^T (a x - b) of each agent, with ``twice`` = 2 w, ``(n, 1, 1)``."""
    residual: Array = a @ x
    if b is not None:
        residual -= b
    residual *= twice
    return a.swapaxes(-1, -2) @ residual


class _Rows(NamedTuple):
    """The data of agents that keep their rows: ``a`` (n, m, d), ``b`` (n, m, r) or None for zero,
    ``twice`` 2 w (n, 1, 1)."""

    a: Array
    b: Array | None
    twice: Array

    def value(self, x: Array) -> Array:
        residual: Array = self.a @ x
        if self.b is not None:
            residual -= self.b
        return 0.5 * self.twice[:, 0, 0] * sums(residual * residual)

    def gradient(self, x: Array) -> Array:
        return _gradient(self.a, self.b, self.twice, x)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        agents = np.arange(len(batch))[:, None]
        b = _of(lambda b: b[agents, batch], self.b)
        twice = self.twice * (self.a.shape[1] / batch.shape[1])
        return _gradient(self.a[agents, batch], b, twice, x)

    def hessian(self) -> Array:
        return np.ascontiguousarray(self.a.swapaxes(-1, -2) @ (self.a * self.twice))

    def product(self, v: Array) -> Array:
        return _gradient(self.a, None, self.twice, v)

    def curvature(self) -> Array:
        # A A^T has the same largest eigenvalue, and m < d.
        small = self.a @ np.ascontiguousarray(self.a.swapaxes(-1, -2))
        return np.abs(self.twice[:, 0, 0]) * np.linalg.eigvalsh(small)[:, -1]

    def on(self, put: Callable[[Any], Any]) -> _Rows:
        return _Rows(*map(put, self))

    def take(self, local: Selection) -> _Rows:
        return _Rows(self.a[local], _of(lambda b: b[local], self.b), self.twice[local])

    def counts(self) -> list[int]:
        return [self.a.shape[1]] * len(self.a)

    def tables(self) -> list[Table]:
        return _tables([*self.a], _of(list, self.b), self.twice)

    def row_form(self) -> tuple[Array, Array, Array] | None:
        return None if self.b is None else (self.a, self.b, self.twice)


class _Gram(NamedTuple):
    """Products that agents keep: ``h`` = 2 w A^T A (n, d, d), ``k`` = 2 w A^T B (n, d, r) or None,
    ``c`` = w ||B||^2 (n,).

    For batches, also the ``rows`` A, the ``targets`` B or None, and ``twice`` 2 w (n, 1, 1).
    """

    h: Array
    k: Array | None
    c: Array
    rows: Sequence[Array]
    targets: Sequence[Array] | None
    twice: Array

    def value(self, x: Array) -> Array:
        value = 0.5 * sums(x * (self.h @ x))
        if self.k is not None:
            value -= sums(x * self.k)
        return value + self.c

    def gradient(self, x: Array) -> Array:
        gradient: Array = self.h @ x
        if self.k is not None:
            gradient -= self.k
        return gradient

    def gradient_on(self, x: Array, batch: Index) -> Array:
        def drawn(rows: Sequence[Array]) -> Array:
            return _stacked([own[numbers] for own, numbers in zip(rows, batch, strict=True)])

        samples = np.array(self.counts(), dtype=np.float64)[:, None, None]
        twice = self.twice * (samples / batch.shape[1])
        return _gradient(drawn(self.rows), _of(drawn, self.targets), twice, x)

    def hessian(self) -> Array:
        return self.h

    def product(self, v: Array) -> Array:
        return self.h @ v

    def curvature(self) -> Array:
        return np.abs(np.linalg.eigvalsh(self.h)).max(-1)

    def on(self, put: Callable[[Any], Any]) -> _Gram:
        return _Gram(*map(put, self))

    def take(self, local: Selection) -> _Gram:
        k = _of(lambda k: k[local], self.k)
        targets = _of(lambda own: selected(own, local), self.targets)
        rows = selected(self.rows, local)
        return _Gram(self.h[local], k, self.c[local], rows, targets, self.twice[local])

    def counts(self) -> list[int]:
        return [len(rows) for rows in self.rows]

    def tables(self) -> list[Table]:
        return _tables(self.rows, self.targets, self.twice)

    def row_form(self) -> None:
        return None


class _SparseSquares(NamedTuple):
    """The data of agents with sparse rows: ``rows`` A, ``targets`` B or None for zero, ``twice`` 2
    w (n, 1, 1)."""

    rows: Sequence[SparseRows]
    targets: Sequence[Array] | None
    twice: Array

    def value(self, x: Array) -> Array:
        residuals = [a @ own for a, own in zip(self.rows, x, strict=True)]
        if self.targets is not None:
            for residual, b in zip(residuals, self.targets, strict=True):
                residual -= b
        found = [float(sums((own * own)[None])[0]) for own in residuals]
        return 0.5 * self.twice[:, 0, 0] * np.array(found)

    def gradient(self, x: Array) -> Array:
        return self._gradients(self.rows, self.targets, self.twice, x)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        drawn = [a.take(numbers) for a, numbers in zip(self.rows, batch, strict=True)]
        targets = None
        if self.targets is not None:
            targets = [b[numbers] for b, numbers in zip(self.targets, batch, strict=True)]
        samples = np.array(self.counts(), dtype=np.float64)[:, None, None]
        return self._gradients(drawn, targets, self.twice * (samples / batch.shape[1]), x)

    @staticmethod
    def _gradients(
        rows: Sequence[SparseRows], targets: Sequence[Array] | None, twice: Array, x: Array
    ) -> Array:
        """``(n, d, r)``: 2 w A^T (A x - B)."""
        out = np.empty_like(x)
        for agent, a in enumerate(rows):
            residual = a @ x[agent]
            if targets is not None:
                residual -= targets[agent]
            residual *= twice[agent]
            out[agent] = a.T @ residual
        return out

    def hessian(self) -> Array:
        found = np.stack([a.T @ a for a in self.rows])
        found *= self.twice
        return found

    def product(self, v: Array) -> Array:
        return self._gradients(self.rows, None, self.twice, v)

    def curvature(self) -> Array:
        return np.abs(self.twice[:, 0, 0]) * np.array([a.largest() for a in self.rows])

    def on(self, put: Callable[[Any], Any]) -> _SparseSquares:
        raise ValueError("sparse samples do not run on a device: leave device out")

    def take(self, local: Selection) -> _SparseSquares:
        targets = _of(lambda own: selected(own, local), self.targets)
        return _SparseSquares(selected(self.rows, local), targets, self.twice[local])

    def counts(self) -> list[int]:
        return [len(rows) for rows in self.rows]

    def tables(self) -> list[Table]:
        return _tables(self.rows, self.targets, self.twice)

    def row_form(self) -> None:
        return None


_Form = _Rows | _Gram | _SparseSquares
_Part = tuple[Index | None, _Form]
"""The numbers of agents, None for all, and their data."""


def _tables(rows: Sequence[Rows], targets: Targets, twice: Array) -> list[Table]:
    """The table of each agent."""
    known = [None] * len(rows) if targets is None else targets
    return list(zip(rows, known, twice.reshape(-1).tolist(), strict=True))


def _forms(rows: Sequence[Any], targets: Targets, weights: Array) -> list[_Part]:
    """The numbers of agents (None for all) and their data in the cheaper form, for each form and
    number of rows."""
    d = rows[0].shape[1]
    kinds: dict[int, list[int]] = {}
    for agent, a in enumerate(rows):
        kind = 0 if 2 * len(a) > d else len(a)
        if isinstance(a, SparseRows):
            kind = -1
        kinds.setdefault(kind, []).append(agent)
    parts: list[_Part] = []
    for kind, members in sorted(kinds.items()):
        w = weights[members]
        own = [rows[i] for i in members]
        wanted = None if targets is None else [targets[i] for i in members]
        if kind == -1:
            form: _Form = _SparseSquares(own, wanted, 2.0 * w[:, None, None])
        elif kind == 0:
            h = np.stack([2.0 * weight * (a.T @ a) for weight, a in zip(w, own, strict=True)])
            k = None
            c = np.zeros(len(w))
            if wanted is not None:
                triples = zip(w, own, wanted, strict=True)
                k = np.stack([2.0 * weight * (a.T @ b) for weight, a, b in triples])
                c = w * np.array([(b * b).sum() for b in wanted])
            form = _Gram(h, k, c, own, wanted, 2.0 * w[:, None, None])
        else:
            form = _Rows(_stacked(own), _of(_stacked, wanted), 2.0 * w[:, None, None])
        whole = len(members) == len(rows)
        parts.append((None if whole else np.array(members, dtype=np.int64), form))
    return parts


def gram_numbers(counts: Sequence[int], d: int, targets: int = 0) -> int:
    """The numbers in the products that agents with these counts of rows keep beside the rows."""
    return (d * (d + targets) + 1) * sum(2 * count > d for count in counts)


def _taken(parts: Sequence[_Part], wanted: Index, local: Selection) -> list[_Part]:
    """The parts of the agents ``wanted``, which ``local`` selects; the data of a slice is viewed,
    not copied."""
    found: list[_Part] = []
    for members, form in parts:
        if members is None:
            found.append((None, form.take(local)))
            continue
        kept = np.flatnonzero(np.isin(members, wanted))
        if kept.size:
            among = np.searchsorted(wanted, members[kept])
            own = form.take(as_selection(kept))
            found.append((None if kept.size == len(wanted) else among, own))
    return found


class SquaresProblem(AgentProblem[C]):
    """f_i(x) = w_i ||A_i x - B_i||_F^2, with its gradient, its Lipschitz constants and its mean.

    The rows A_i are ``(m_i, d)``, arrays or `SparseRows`. Agents that keep Gram matrices only
    reference them. The targets B_i are ``(m_i, r)``, or None for zero. The weights w_i, ``(n,)``,
    are all of one sign.
    """

    def __init__(
        self,
        rows: Sequence[Rows],
        targets: Targets,
        weights: Array,
        constraint: C,
        n_agents: int | None,
        first_agent: int,
    ) -> None:
        super().__init__(*held(rows, n_agents, first_agent), constraint)
        self._targets = targets is not None
        with one_thread():  # the bits of A_i^T A_i depend on the number of BLAS threads
            self._parts = _forms(rows, targets, weights)

    def _take(self, local: Selection) -> None:
        self._parts = _taken(self._parts, np.arange(self.n_local)[local], local)

    def _each(self, evaluate: Callable[..., Any], *given: Any) -> Any:
        """The results of the agents' forms, in agent order, for their part of the arrays; fresh
        unless all have one form."""
        if self._parts[0][0] is None:
            return evaluate(self._parts[0][1], *given)
        found = [(at, evaluate(form, *[array[at] for array in given])) for at, form in self._parts]
        out = np.empty_like(found[0][1], shape=(self.n_local, *found[0][1].shape[1:]))
        for members, stack in found:
            out[members] = stack
        return out

    def on(self, put: Callable[[Any], Any]) -> Self:
        """The same problem on a device; agents with Gram matrices gather batches on the host."""
        placed = self._in_one_block()
        placed._parts = [(members, form.on(put)) for members, form in self._parts]
        return placed

    def value(self, x: Array) -> Array:
        """``(n_local,)``: w_i ||A_i x_i - B_i||_F^2."""
        return self._each(lambda form, x: form.value(x), x)

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, r)``: 2 w_i A_i^T (A_i x_i - B_i)."""
        members, form = self._parts[0]
        if members is None:  # in every iteration: without the calls of `_each`
            return form.gradient(x)
        return self._each(lambda form, x: form.gradient(x), x)

    def row_form(self) -> tuple[Array, Array, Array] | None:
        """A_i ``(n_local, m, d)``, B_i ``(n_local, m, r)`` and 2 w_i ``(n_local, 1, 1)``, where all
        agents keep m rows and B_i."""
        return self._parts[0][1].row_form() if len(self._parts) == 1 else None

    @property
    def n_samples(self) -> Index:
        """``(n_local,)``: the numbers of rows m_i."""
        return self._each(lambda form: np.array(form.counts(), dtype=np.int64))

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, d, r)``: (m_i / b) 2 w_i A_b^T (A_b x_i - B_b), an unbiased gradient.

        ``batch`` ``(n_local, b)`` holds the rows b of each agent, from 0 to m_i - 1, repeats
        allowed; an IndexError for any other.
        """
        return self._each(lambda form, x, batch: form.gradient_on(x, batch), x, batch)

    @cached_property
    def lipschitz(self) -> Array:
        """``(n_local,)``: L_i = 2 |w_i| lambda_max(A_i^T A_i)."""
        return self._each(lambda form: form.curvature())

    def hessian(self) -> Array:
        """``(n_local, d, d)``: 2 w_i A_i^T A_i, the Hessian in each column of x."""
        return self._each(lambda form: form.hessian())

    def hessian_product(self, x: Array, v: Array) -> Array:
        """``(n_local, d, r)``: 2 w_i A_i^T A_i v_i, for every x."""
        return self._each(lambda form, v: form.product(v), v)

    @property
    def n_moments(self) -> int:
        """The numbers of each agent in `agent_moments`."""
        d, r = self.shape
        numbers = d * (d + 1) // 2
        if self._targets:
            numbers += d * r + 1
        return numbers

    def agent_moments(self) -> Array:
        """``(n_local, k)``: the triangle of 2 w_i A_i^T A_i; with targets also 2 w_i A_i^T B_i and
        w_i ||B_i||^2, minus the gradient and the value at 0."""
        triangle = packed(self.hessian())
        if not self._targets:
            return triangle
        zero = np.zeros((self.n_local, *self.shape))
        k = -self.gradient(zero)
        c = self.value(zero)
        return np.concatenate((triangle, k.reshape(len(k), -1), c[:, None]), axis=1)

    def from_moments(self, sums: Array) -> Self:
        """The mean of all agents' objectives as the problem of one agent."""
        d = self.shape[0]
        alone = self._copied()
        mean = sums / self.n_agents
        size = d * (d + 1) // 2
        h = unpacked(mean[:size], d)[None]
        k = None
        c = np.zeros(1)
        if self._targets:
            k = mean[size:-1].reshape(1, *self.shape)
            c = mean[-1:]
        alone.n_agents = 1
        alone.agents = slice(0, 1)
        alone._blocks = None
        alone._parts = [(None, _Gram(h, k, c, (), None, np.ones((1, 1, 1))))]
        return alone

    def weighted_rows(self) -> list[Rows]:
        """The matrices sqrt(2 |w_i|) A_i of the agents, as copies."""
        return [math.sqrt(abs(own)) * rows for rows, _, own in self._tables()]

    def _tables(self) -> list[Table]:
        """The rows, targets and twice the weight of each agent, in agent order."""
        each = [self.restrict(slice(i, i + 1)) for i in range(self.agents.start, self.agents.stop)]
        return [table for one in each for _, form in one._parts for table in form.tables()]

    def pooled(self) -> Self:
        """Return the mean of the agents' objectives as the problem of a single agent.

        All rows are copied. All agents must be in this process.
        """
        pooled = self._alone()
        rows, targets, twice = zip(*self._tables(), strict=True)
        scales = [math.sqrt(0.5 * abs(own) / self.n_local) for own in twice]

        def joined(tables: Sequence[Any]) -> list[Any]:
            return [below([scale * table for scale, table in zip(scales, tables, strict=True)])]

        known = None if targets[0] is None else joined(targets)
        with one_thread():
            pooled._parts = _forms(joined(rows), known, np.array([math.copysign(1.0, twice[0])]))
        return pooled
