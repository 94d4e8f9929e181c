"""The base class of problems with sums of squares over rows; `SumsOfSquares` evaluates them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Self

from ...protocols import Array, Index
from ..base import AgentProblem, C, Selection
from .rows import SumsOfSquares


class SquaresProblem(AgentProblem[C]):
    """f_i(x) = w_i ||A_i x - B_i||_F^2, with its gradient, its Lipschitz constants and its mean; ``sums`` evaluates it."""

    def __init__(self, n_agents: int, agents: slice, constraint: C, sums: SumsOfSquares) -> None:
        super().__init__(n_agents, agents, constraint)
        self._sums = sums

    def _take(self, local: Selection) -> None:
        self._sums = self._sums.take(local)

    def on(self, put: Callable[[Array], Array]) -> Self:
        placed = self._in_one_block()
        placed._sums = self._sums.on(put)
        return placed

    def value(self, x: Array) -> Array:
        """``(n_local,)``: w_i ||A_i x_i - B_i||_F^2."""
        return self._sums.value(x)

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, r)``: 2 w_i A_i^T (A_i x_i - B_i)."""
        return self._sums.gradient(x)

    def row_form(self) -> tuple[Array, Array, Array] | None:
        """A_i ``(n_local, m, d)``, B_i ``(n_local, m, r)`` and 2 w_i ``(n_local, 1, 1)``, where all agents keep m rows and B_i."""
        return self._sums.row_form

    @property
    def n_samples(self) -> Index:
        """``(n_local,)``: the numbers of rows m_i."""
        return self._sums.n_samples

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, d, r)``: (m_i / b) 2 w_i A_b^T (A_b x_i - B_b), an unbiased gradient.

        ``batch`` ``(n_local, b)`` holds the rows b of each agent, from 0 to m_i - 1, repeats allowed; an IndexError for any other.
        """
        return self._sums.gradient_on(x, batch)

    @cached_property
    def lipschitz(self) -> Array:
        """``(n_local,)``: L_i = 2 |w_i| lambda_max(A_i^T A_i)."""
        return self._sums.curvature()

    def hessian(self) -> Array:
        """``(n_local, d, d)``: 2 w_i A_i^T A_i, the Hessian in each column of x."""
        return self._sums.hessian()

    def hessian_product(self, x: Array, v: Array) -> Array:
        """``(n_local, d, r)``: 2 w_i A_i^T A_i v_i, for every x."""
        return self._sums.product(v)

    def pooled(self) -> Self:
        """The mean of the agents' objectives as that of a single agent, with a copy of all rows; all agents must be here."""
        pooled = self._alone()
        pooled._sums = self._sums.mean(*self.shape)
        return pooled
