"""Sums of squares over an agent's rows, f_i(x) = w_i ||A_i x - B_i||_F^2, in the cheaper of two forms for each agent.

An agent with m_i rows in d columns computes its gradient ``2 w_i A_i^T (A_i x - B_i)`` from the rows (4 m_i d r flops) or from the
Gram matrix ``A_i^T A_i`` made once (2 d^2 r flops): whichever is less. The choice, and the stacking of agents with equally many
rows, depend on the agent alone, never on who shares its process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from ..protocols import Array, Index
from ..sums import add_agents, sums


class _Form(Protocol):
    def value(self, x: Array) -> Array: ...
    def gradient(self, x: Array) -> Array: ...
    def hessian(self) -> Array: ...
    def curvature(self) -> Array: ...
    def take(self, local: slice) -> Any: ...


class _Rows(NamedTuple):
    """Agents that keep their rows: ``a`` is (n, m, d), ``b`` (n, m, r) or None for zero, ``twice`` 2 w (n, 1, 1)."""

    a: Array
    b: Array | None
    twice: Array

    def _residual(self, x: Array) -> Array:
        residual: Array = self.a @ x
        if self.b is not None:
            residual -= self.b
        return residual

    def value(self, x: Array) -> Array:
        residual = self._residual(x)
        return 0.5 * self.twice[:, 0, 0] * sums(residual * residual)

    def gradient(self, x: Array) -> Array:
        residual = self._residual(x)
        residual *= self.twice
        gradient: Array = self.a.swapaxes(-1, -2) @ residual
        return gradient

    def hessian(self) -> Array:
        return np.ascontiguousarray(self.a.swapaxes(-1, -2) @ (self.a * self.twice))

    def curvature(self) -> Array:
        small = self.a @ np.ascontiguousarray(self.a.swapaxes(-1, -2))  # A A^T has the same largest eigenvalue, and m < d
        largest: Array = np.abs(self.twice[:, 0, 0]) * np.linalg.eigvalsh(small)[:, -1]
        return largest

    def take(self, local: slice) -> _Rows:
        return _Rows(self.a[local], None if self.b is None else self.b[local], self.twice[local])


class _Gram(NamedTuple):
    """Agents that keep products: ``h`` = 2 w A^T A (n, d, d), ``k`` = 2 w A^T B (n, d, r) or None, ``c`` = w ||B||^2 (n,)."""

    h: Array
    k: Array | None
    c: Array

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

    def hessian(self) -> Array:
        return self.h

    def curvature(self) -> Array:
        largest: Array = np.abs(np.linalg.eigvalsh(self.h)).max(-1)
        return largest

    def take(self, local: slice) -> _Gram:
        return _Gram(self.h[local], None if self.k is None else self.k[local], self.c[local])


def _forms(rows: Sequence[Array], targets: Sequence[Array] | None, weights: Array) -> list[tuple[Index | None, _Form]]:
    """The agents' numbers (None for all) and their data in the cheaper form, one entry for each form and number of rows."""
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
            form = _Gram(h, k, c)
        else:
            a = np.stack([rows[i] for i in members])
            form = _Rows(a, None if targets is None else np.stack([targets[i] for i in members]), 2.0 * w[:, None, None])
        parts.append((None if len(members) == len(rows) else np.array(members, dtype=np.int64), form))
    return parts


class SumsOfSquares:
    """f_i(x) = w_i ||A_i x - B_i||_F^2 for each agent.

    Parameters
    ----------
    rows
        A_i, each ``(m_i, d)``.
    targets
        B_i, each ``(m_i, r)``; None for zero.
    weights
        ``(n,)``: w_i.
    """

    def __init__(self, rows: Sequence[Array], targets: Sequence[Array] | None, weights: Array) -> None:
        self.n_local = len(rows)
        with threadpool_limits(1):  # the bits of A_i^T A_i depend on the number of BLAS threads
            self._parts = _forms(rows, targets, weights)

    def take(self, local: slice) -> SumsOfSquares:
        """The same for the agents in ``local``; data is viewed, not copied."""
        part = object.__new__(SumsOfSquares)
        part.n_local = local.stop - local.start
        part._parts = []
        for members, form in self._parts:
            if members is None:
                part._parts.append((None, form.take(local)))
                continue
            a, b = np.searchsorted(members, [local.start, local.stop])
            if a < b:
                chosen = members[a:b] - local.start
                part._parts.append((None if b - a == part.n_local else chosen, form.take(slice(int(a), int(b)))))
        return part

    def _each(self, x: Array, out: Array, evaluate: Callable[[_Form, Array], Array]) -> Array:
        for members, form in self._parts:
            out[members] = evaluate(form, x[members])
        return out

    def value(self, x: Array) -> Array:
        """``(n_local,)``."""
        if self._parts[0][0] is None:
            return self._parts[0][1].value(x)
        return self._each(x, np.empty(len(x)), lambda form, points: form.value(points))

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, r)``, fresh."""
        if self._parts[0][0] is None:
            return self._parts[0][1].gradient(x)
        return self._each(x, np.empty_like(x), lambda form, points: form.gradient(points))

    def hessian(self) -> Array:
        """``(n_local, d, d)``: 2 w_i A_i^T A_i, the Hessian of f_i in each column of x."""
        stacks = [(members, form.hessian()) for members, form in self._parts]
        if stacks[0][0] is None:
            return stacks[0][1]
        out = np.empty((self.n_local, *stacks[0][1].shape[1:]))
        for members, stack in stacks:
            out[members] = stack
        return out

    def mean(self, d: int, r: int) -> SumsOfSquares:
        """The mean of the objectives as one agent's."""
        zero = np.zeros((self.n_local, d, r))
        parts = (self.hessian(), -self.gradient(zero), self.value(zero))  # f(x) = <x, H x>/2 - <x, K> + c
        sums = [np.zeros(part.shape[1:]) for part in parts]
        for part, total in zip(parts, sums, strict=True):
            add_agents(part, total.reshape(part.shape[1:]))
        h, k, c = (total[None] / self.n_local for total in sums)
        pooled = object.__new__(SumsOfSquares)
        pooled.n_local = 1
        pooled._parts = [(None, _Gram(h, k, c))]
        return pooled

    def curvature(self) -> Array:
        """``(n_local,)``: the largest absolute eigenvalue of each Hessian."""
        out = np.empty(self.n_local)
        for members, form in self._parts:
            out[slice(None) if members is None else members] = form.curvature()
        return out
