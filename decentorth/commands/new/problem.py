"""Template: quadratic traces over the Stiefel manifold. Replace the mathematics by yours.

First name the problem, with its citation, and give each agent's objective and gradient with the
source's numbers:

    f_i(x) = 1/2 tr(x^T A_i x),   G_i(x) = A_i x,   x in St(d, r)                      (1)

with symmetric A_i. The minimisers of (1/n) sum_i f_i span the eigenvectors of the mean of the A_i
with the r least eigenvalues. Then list every symbol with its name in the code, and the differences
from the source:

    A_i     self.matrices[i]    (n_local, d, d)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from decentorth.authoring import (
    AgentProblem,
    Array,
    Count,
    Deferred,
    Loadable,
    Selection,
    Settings,
    matrices,
    on_each_rank,
)
from decentorth.sets import Stiefel


class TemplateProblem(AgentProblem[Stiefel], Loadable):
    """f_i(x) = 1/2 tr(x^T A_i x) over St(d, rank).

    Parameters
    ----------
    A
        List or stack of symmetric ``(d, d)``, one for each agent in this process.
    rank
        The number of columns of x.
    n_agents, first_agent
        The number of all agents, and the number of the first one whose data are given; by default
        these are all.

    Raises
    ------
    ValueError, TypeError
        A matrix does not hold finite real numbers, is not symmetric, or ``rank`` does not fit.
    """

    def __init__(
        self,
        A: Sequence[Array] | Array,
        rank: int,
        *,
        n_agents: int | None = None,
        first_agent: int = 0,
    ) -> None:
        given = matrices("A", A, first_agent)
        d = len(given[0])
        super().__init__(
            n_agents or len(given), slice(first_agent, first_agent + len(given)), Stiefel(d, rank)
        )
        for agent, a in enumerate(given, first_agent):
            if a.shape != (d, d) or not np.array_equal(a, a.T):
                raise ValueError(
                    f"A of agent {agent} must be a symmetric {d} x {d} matrix, got shape {a.shape}"
                )
        self.matrices = np.stack(given)
        # (n_local,), for automatic steps
        self.lipschitz = np.abs(np.linalg.eigvalsh(self.matrices)).max(-1)

    def _take(self, local: Selection) -> None:
        self.matrices, self.lipschitz = self.matrices[local], self.lipschitz[local]

    def value(self, x: Array) -> Array:
        """``(n_local,)``: f_i(x_i)."""
        value: Array = 0.5 * (x * (self.matrices @ x)).sum((-2, -1))  # (1)
        return value

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, rank)``: G_i(x_i)."""
        gradient: Array = self.matrices @ x  # (1)
        return gradient


@dataclass(frozen=True, kw_only=True)
class TemplateSettings(Settings):
    """One line that describes the problem; the fields below become flags of the command line, with
    this text as help.

    Parameters
    ----------
    dimension
        d.
    rank
        The number of columns of x.
    """

    dimension: Count = 10
    rank: Count = 2

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem, whose data each rank generates for its own agents from the seed and the
        agents' numbers."""

        def make(agents: slice) -> TemplateProblem:
            given: list[Array] = []
            for agent in range(agents.start, agents.stop):
                a = np.random.default_rng([seed, agent]).standard_normal(
                    (self.dimension, self.dimension)
                )
                given.append(a + a.T)
            return TemplateProblem(given, self.rank, n_agents=n_agents, first_agent=agents.start)

        return on_each_rank(n_agents, make)
