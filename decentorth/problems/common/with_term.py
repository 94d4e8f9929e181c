"""A smooth problem plus a convex term, and losses of samples that take more than the scores of a
point."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Annotated, Literal, cast

import numpy as np

from ...protocols import Array, Index, Sampled
from ...sets import Stiefel
from ...settings import NotNegative, check
from ..base import AgentProblem, Selection
from .regularizers import REGULARIZERS
from .rows import RowLosses

Term = Annotated[
    Literal["l1", "rows", "negative"],
    "What mu weighs: l1 (entries become 0), rows (the norms of rows; whole rows become 0), "
    "negative (negative entries).",
]


class WithTerm(AgentProblem[Stiefel]):
    """A smooth problem plus a convex term that is the same for all agents.

        f_i(x) = g_i(x) + mu h(x) over x^T x = I

    `drproxgt` and `prextra` take it.

    Parameters
    ----------
    smooth
        The smooth problem, such as `PCA`.
    mu
        Weight of the term, not negative.
    term
        h: l1 (entries become 0), rows (the norms of rows; whole rows become 0), negative (negative
        entries).

    Raises
    ------
    ValueError
        The problem is not smooth, or a number or name is out of range.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 8)) * np.arange(1, 9)
    >>> smooth = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> problem = do.problems.WithTerm(smooth, 0.5, term="rows")
    >>> method = do.DRProxGT()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    nonsmooth = True

    def __init__(self, smooth: AgentProblem[Stiefel], mu: float, *, term: Term = "l1") -> None:
        super().__init__(smooth.n_agents, smooth.agents, smooth.constraint)
        if smooth.nonsmooth:
            raise ValueError(
                f"smooth must be a differentiable problem, such as PCA, got "
                f"{type(smooth).__name__}: give its part without a term, and all terms as one"
            )
        self._smooth = smooth
        self._mu = check("mu", NotNegative, mu)
        self.regularizer = REGULARIZERS[check("term", Term, term)](self._mu)

    @cached_property
    def smooth(self) -> AgentProblem[Stiefel]:
        """The problem without the term."""
        own = self._smooth._copied()
        own.agents = self.agents
        own.n_agents = self.n_agents
        return own

    def _take(self, local: Selection) -> None:
        self._smooth = self._smooth._copied()
        self._smooth._take(local)
        self._smooth.agents = slice(0, len(np.arange(self.n_local)[local]))

    @property
    def n_samples(self) -> Index:
        """``(n_local,)``: the numbers of samples m_i."""
        return cast(Sampled, self._smooth).n_samples

    def value(self, x: Array) -> Array:
        """``(n_local,)``: the values of the smooth problem and of the term."""
        return self._smooth.value(x) + self.regularizer.value(x)

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, r)``: the gradient of the smooth problem plus a subgradient of the term,
        where the sign of 0 is 0."""
        return self._smooth.gradient(x) + self.regularizer.subgradient(x)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, d, r)``: the subgradient from the samples ``batch``, ``(n_local, b)`` numbers
        within each agent."""
        return cast(Sampled, self._smooth).gradient_on(x, batch) + self.regularizer.subgradient(x)


class LiftedLosses(RowLosses[Stiefel]):
    """Row losses of a larger point that is linear in x, so that a sample's products have what its
    loss needs."""

    @abstractmethod
    def lift(self, x: Array) -> Array:
        """``(n, columns of the rows, products)``: the larger points."""

    @abstractmethod
    def lower(self, gradient: Array) -> Array:
        """The gradient by x, fresh, from that by the larger point."""

    def value(self, x: Array) -> Array:
        return super().value(self.lift(x))

    def gradient(self, x: Array) -> Array:
        return self.lower(super().gradient(self.lift(x)))

    def gradient_on(self, x: Array, batch: Index) -> Array:
        return self.lower(super().gradient_on(self.lift(x), batch))
