"""Sums of squares over an agent's rows, f_i(x) = w_i ||A_i x - B_i||_F^2, in the cheaper of two forms for each agent.

An agent with m_i rows in d columns computes its gradient ``2 w_i A_i^T (A_i x - B_i)`` from the rows (4 m_i d r flops) or from the
Gram matrix ``A_i^T A_i`` made once (2 d^2 r flops): whichever is less. The choice, and the stacking of agents with equally many
rows, depend on the agent alone, never on the other agents of its process. Rows are copied only into stacks of row-form agents;
mini-batches are gathered from them in either form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...numerics.ordered_sums import add_agents, sums
from ...numerics.threads import one_thread
from ...protocols import Array, Index
from ..base import Selection, selected


def _stacked(arrays: Sequence[Array]) -> Array:
    """``(n, ...)``: the stacked arrays, C-contiguous, which `np.stack` does not give where all arrays are transposed."""
    return np.ascontiguousarray(np.stack(arrays))


def _gradient(a: Array, b: Array | None, twice: Array, x: Array) -> Array:
    """The gradient 2 w a^T (a x - b) of each agent, with ``twice`` = 2 w, ``(n, 1, 1)``."""
    residual: Array = a @ x
    if b is not None:
        residual -= b
    residual *= twice
    return a.swapaxes(-1, -2) @ residual


class _Rows(NamedTuple):
    """The data of agents that keep their rows: ``a`` (n, m, d), ``b`` (n, m, r) or None for zero, ``twice`` 2 w (n, 1, 1)."""

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
        b = None if self.b is None else self.b[agents, batch]
        return _gradient(self.a[agents, batch], b, self.twice * (self.a.shape[1] / batch.shape[1]), x)

    def hessian(self) -> Array:
        return np.ascontiguousarray(self.a.swapaxes(-1, -2) @ (self.a * self.twice))

    def product(self, v: Array) -> Array:
        return _gradient(self.a, None, self.twice, v)

    def curvature(self) -> Array:
        small = self.a @ np.ascontiguousarray(self.a.swapaxes(-1, -2))  # A A^T has the same largest eigenvalue, and m < d
        return np.abs(self.twice[:, 0, 0]) * np.linalg.eigvalsh(small)[:, -1]

    def on(self, put: Callable[[Any], Any]) -> _Rows:
        return _Rows(*map(put, self))

    def take(self, local: Selection) -> _Rows:
        return _Rows(self.a[local], None if self.b is None else self.b[local], self.twice[local])

    def counts(self) -> list[int]:
        return [self.a.shape[1]] * len(self.a)

    def tables(self) -> list[tuple[Array, Array | None, float]]:
        return [(a, None if self.b is None else self.b[i], float(self.twice[i, 0, 0])) for i, a in enumerate(self.a)]


class _Gram(NamedTuple):
    """Products that agents keep: ``h`` = 2 w A^T A (n, d, d), ``k`` = 2 w A^T B (n, d, r) or None, ``c`` = w ||B||^2 (n,).

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
        a = _stacked([rows[numbers] for rows, numbers in zip(self.rows, batch, strict=True)])
        b = None if self.targets is None else _stacked([rows[numbers] for rows, numbers in zip(self.targets, batch, strict=True)])
        samples = np.array(self.counts(), dtype=np.float64)[:, None, None]
        return _gradient(a, b, self.twice * (samples / batch.shape[1]), x)

    def hessian(self) -> Array:
        return self.h

    def product(self, v: Array) -> Array:
        return self.h @ v

    def curvature(self) -> Array:
        return np.abs(np.linalg.eigvalsh(self.h)).max(-1)

    def on(self, put: Callable[[Any], Any]) -> _Gram:
        return _Gram(*map(put, self))

    def take(self, local: Selection) -> _Gram:
        k = None if self.k is None else self.k[local]
        targets = None if self.targets is None else selected(self.targets, local)
        return _Gram(self.h[local], k, self.c[local], selected(self.rows, local), targets, self.twice[local])

    def counts(self) -> list[int]:
        return [len(rows) for rows in self.rows]

    def tables(self) -> list[tuple[Array, Array | None, float]]:
        return [
            (rows, None if self.targets is None else self.targets[i], float(self.twice[i, 0, 0]))
            for i, rows in enumerate(self.rows)
        ]


_Form = _Rows | _Gram


def _forms(rows: Sequence[Array], targets: Sequence[Array] | None, weights: Array) -> list[tuple[Index | None, _Form]]:
    """The numbers of agents (None for all) and their data in the cheaper form, for each form and number of rows."""
    d = rows[0].shape[1]
    kinds: dict[int, list[int]] = {}
    for agent, a in enumerate(rows):
        kinds.setdefault(0 if 2 * len(a) > d else len(a), []).append(agent)
    parts: list[tuple[Index | None, _Form]] = []
    for kind, members in sorted(kinds.items()):
        w = weights[members]
        form: _Form
        if kind == 0:
            h = np.stack([2.0 * weights[i] * (rows[i].T @ rows[i]) for i in members])
            k = None if targets is None else np.stack([2.0 * weights[i] * (rows[i].T @ targets[i]) for i in members])
            c = np.zeros(len(w)) if targets is None else w * np.array([(targets[i] * targets[i]).sum() for i in members])
            own = None if targets is None else [targets[i] for i in members]
            form = _Gram(h, k, c, [rows[i] for i in members], own, 2.0 * w[:, None, None])
        else:
            a = _stacked([rows[i] for i in members])
            form = _Rows(a, None if targets is None else _stacked([targets[i] for i in members]), 2.0 * w[:, None, None])
        parts.append((None if len(members) == len(rows) else np.array(members, dtype=np.int64), form))
    return parts


def gram_numbers(counts: Sequence[int], d: int, targets: int = 0) -> int:
    """The numbers in the products that agents with these counts of rows keep beside the rows."""
    return (d * (d + targets) + 1) * sum(2 * count > d for count in counts)


class SumsOfSquares:
    """f_i(x) = w_i ||A_i x - B_i||_F^2 for each agent.

    The rows A_i are ``(m_i, d)``, referenced by agents that keep Gram matrices; the targets B_i are ``(m_i, r)``, or None for zero;
    the weights w_i ``(n,)`` are all of one sign.
    """

    def __init__(self, rows: Sequence[Array], targets: Sequence[Array] | None, weights: Array) -> None:
        self.n_local = len(rows)
        with one_thread():  # the bits of A_i^T A_i depend on the number of BLAS threads
            self._parts = _forms(rows, targets, weights)

    def take(self, local: Selection) -> SumsOfSquares:
        """The sums of the agents in ``local``; the data of a slice is viewed, not copied."""
        part = object.__new__(SumsOfSquares)
        part.n_local = local.stop - local.start if isinstance(local, slice) else len(local)
        part._parts = []
        for members, form in self._parts:
            if members is None:
                part._parts.append((None, form.take(local)))
                continue
            if not isinstance(local, slice):
                kept = np.flatnonzero(np.isin(members, local))
                if kept.size:
                    among = np.searchsorted(local, members[kept])
                    part._parts.append((None if kept.size == part.n_local else among, form.take(kept)))
                continue
            a, b = np.searchsorted(members, [local.start, local.stop])
            if a < b:
                chosen = members[a:b] - local.start
                part._parts.append((None if b - a == part.n_local else chosen, form.take(slice(int(a), int(b)))))
        return part

    def _each(self, evaluate: Callable[..., Any], *given: Any) -> Any:
        """The results of the agents' forms, in agent order, for their part of the arrays; fresh unless all have one form."""
        if self._parts[0][0] is None:
            return evaluate(self._parts[0][1], *given)
        found = [(members, evaluate(form, *[array[members] for array in given])) for members, form in self._parts]
        out = np.empty_like(found[0][1], shape=(self.n_local, *found[0][1].shape[1:]))
        for members, stack in found:
            out[members] = stack
        return out

    def on(self, put: Callable[[Any], Any]) -> SumsOfSquares:
        """The same sums with the arrays that evaluate them on a device; agents with Gram matrices gather batches on the host."""
        part = object.__new__(SumsOfSquares)
        part.n_local = self.n_local
        part._parts = [(members, form.on(put)) for members, form in self._parts]
        return part

    @property
    def n_samples(self) -> Index:
        """``(n,)``: the numbers of rows m_i."""
        return self._each(lambda form: np.array(form.counts(), dtype=np.int64))

    @cached_property
    def row_form(self) -> tuple[Array, Array, Array] | None:
        """The rows, the targets and twice the weights, where all agents have targets and keep equally many rows."""
        form = self._parts[0][1]
        if len(self._parts) > 1 or not isinstance(form, _Rows) or form.b is None:
            return None
        return form.a, form.b, form.twice

    def value(self, x: Array) -> Array:
        return self._each(lambda form, x: form.value(x), x)

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, r)``, fresh: the gradients at x_i."""
        members, form = self._parts[0]
        if members is None:  # in every iteration: without the calls of `_each`
            return form.gradient(x)
        return self._each(lambda form, x: form.gradient(x), x)

    def product(self, v: Array) -> Array:
        """``(n_local, d, r)``, fresh: 2 w_i A_i^T A_i v_i, the gradient without its constant part."""
        return self._each(lambda form, v: form.product(v), v)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, d, r)``, fresh: m_i / b times the gradients of the rows ``batch``, ``(n_local, b)``.

        The mean over random rows is the gradient.
        """
        return self._each(lambda form, x, batch: form.gradient_on(x, batch), x, batch)

    def hessian(self) -> Array:
        """``(n_local, d, d)``: 2 w_i A_i^T A_i, the Hessian of f_i in each column of x."""
        return self._each(lambda form: form.hessian())

    def curvature(self) -> Array:
        """``(n_local,)``: the largest absolute eigenvalue of each Hessian."""
        return self._each(lambda form: form.curvature())

    def weighted_rows(self) -> list[Array]:
        """The matrices sqrt(2 |w_i|) A_i of the agents, as copies."""
        return [math.sqrt(abs(own)) * rows for rows, _, own in self._tables()]

    def mean(self, d: int, r: int) -> SumsOfSquares:
        """The mean of the objectives as the objective of a single agent."""
        zero = np.zeros((self.n_local, d, r))
        parts = (self.hessian(), -self.gradient(zero), self.value(zero))  # f(x) = <x, H x>/2 - <x, K> + c
        totals = [np.zeros(part.shape[1:]) for part in parts]
        for part, total in zip(parts, totals, strict=True):
            add_agents(part, total)
        h, k, c = (total[None] / self.n_local for total in totals)
        pooled = object.__new__(SumsOfSquares)
        pooled.n_local = 1
        pooled._parts = [(None, _Gram(h, k, c, *self._joined()))]
        return pooled

    def _tables(self) -> list[tuple[Array, Array | None, float]]:
        """The rows, targets and twice the weight of each agent, in agent order."""
        return [table for i in range(self.n_local) for _, form in self.take(slice(i, i + 1))._parts for table in form.tables()]

    def _joined(self) -> tuple[list[Array], list[Array] | None, Array]:
        """The rows and targets of all agents as one agent of weight 1 or -1, scaled by the roots of their weights and 1 / n."""
        rows, targets, twice = zip(*self._tables(), strict=True)
        scales = [math.sqrt(0.5 * abs(own) / self.n_local) for own in twice]

        def joined(tables: Sequence[Array]) -> list[Array]:
            return [np.concatenate([scale * table for scale, table in zip(scales, tables, strict=True)])]

        return joined(rows), None if targets[0] is None else joined(targets), np.full((1, 1, 1), math.copysign(2.0, twice[0]))
