"""One agent whose samples are spread over the ranks: a problem of n agents, shown to a single-agent method as their mean.

    f(x) = (1/n) sum_i f_i(x),   G(x) = (1/n) sum_i G_i(x)

The n agents of the problem become n blocks of the samples of one agent. Every rank evaluates its own blocks at the same point, and
what they give is added strictly in block order through the collective, which the method does not see: it runs on every rank alike,
with the same bits whatever the number of ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..protocols import Array, Collective, Index, Sampled, Smooth
from .base import AgentProblem, Deferred, Selection


@dataclass(frozen=True)
class Spread:
    """The mean of a problem's objectives as one agent's, to be given to `solve` with a single-agent method.

    Parameters
    ----------
    problem
        Of n agents, the blocks of samples, n at least the number of ranks: given whole (each rank keeps its own), or a `Deferred`
        that each rank builds for its own.
    """

    problem: Any
    n_agents = 1

    @property
    def n_blocks(self) -> int:
        """The agents of the problem."""
        return int(self.problem.n_agents)

    def build(self, blocks: slice, collective: Collective) -> SpreadProblem:
        """The problem of the one agent, with the blocks of this rank; called by all of them.

        Parameters
        ----------
        collective
            Of the blocks, as if they were agents.
        """
        base = self.problem.build(blocks, collective) if isinstance(self.problem, Deferred) else self.problem.restrict(blocks)
        kind = _SmoothSpread if isinstance(base, Smooth) else SpreadProblem
        return kind(base, collective)


class SpreadProblem(AgentProblem):
    """f(x) = (1/n) sum_i f_i(x) of a single agent, who is on every rank.

    It has samples, an answer and a least value where the problem has. All ranks call its methods together.

    Parameters
    ----------
    base
        The f_i of the blocks that are here.
    collective
        Of the blocks.
    """

    def __init__(self, base: Any, collective: Collective) -> None:
        super().__init__(1, slice(0, 1), base.constraint)
        self.base, self._collective = base, collective
        if isinstance(base, Sampled):
            self._counts = self._of_all(base.n_samples)
            self.n_samples: Index = np.array([self._counts.sum(-1)], dtype=np.int64)

    def _take(self, local: Selection) -> None:
        """There is one agent."""

    def _of_all(self, own: Index) -> Index:
        """``(n,)``: a number of each block, from those of the blocks that are here."""

        def add(total: Array) -> None:
            total[self.base.agents] = own

        return self._collective.fold(self.base.n_agents, add).astype(np.int64)

    def _mean(self, per_block: Array) -> Array:
        """``(1, ...)``: added in block order."""
        (total,) = self._collective.sum(per_block)
        total /= self.base.n_agents
        return total.reshape(1, *per_block.shape[1:])

    def _repeated(self, x: Array) -> Array:
        return np.repeat(x, self.base.agents.stop - self.base.agents.start, axis=0)

    def value(self, x: Array) -> Array:
        """``(1,)``."""
        return self._mean(self.base.value(self._repeated(x)))

    def gradient(self, x: Array) -> Array:
        """``(1, *shape)``."""
        gradients = self._repeated(x)
        for local, part in self.base.blocks():
            gradients[local] = part.gradient(gradients[local])
        return self._mean(gradients)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(1, *shape)``: an unbiased gradient from the samples ``batch``, ``(1, b)``, numbered through all blocks in their order.

        Block i's samples have weight N / (n m_i) in it, with m_i of the N samples.
        """
        first, count = self.base.agents.start, self._counts
        starts, total = np.cumsum(count, -1) - count, int(self.n_samples[0])
        gradients = np.zeros((self.base.agents.stop - first, *self.shape))
        for local in range(len(gradients)):
            block = first + local
            within = batch[0] - starts[block]
            within = within[(within >= 0) & (within < count[block])]
            if len(within):
                one = self.base.restrict(slice(block, block + 1))
                gradients[local] = one.gradient_on(x, within[None])[0]
                gradients[local] *= len(within) / batch.shape[1] * (total / count[block])
        return self._mean(gradients)

    def prepare(self, collective: Collective) -> None:
        """What the blocks set up together."""
        self.base.prepare(self._collective)

    def start(self, seed: int) -> Array:
        """The start of the blocks' problem."""
        start: Array = self.base.start(seed)
        return start

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """The variables of the blocks' problem."""
        variables: Mapping[str, Array] = self.base.unpack(x)
        return variables

    @property
    def error_name(self) -> str:
        """That of the blocks' problem; empty where no answer is known."""
        return getattr(self.base, "error_name", "")

    def error(self, xhat: Array) -> float:
        """Distance from the answer of the blocks' problem."""
        return float(self.base.error(xhat))

    @property
    def nonsmooth(self) -> bool:
        """Whether the blocks' problem is not differentiable."""
        return bool(getattr(self.base, "nonsmooth", False))

    @property
    def optimal_value(self) -> float | None:
        """The least value, where the blocks' problem knows it."""
        return getattr(self.base, "optimal_value", None)


class _SmoothSpread(SpreadProblem):
    @cached_property
    def lipschitz(self) -> Array:
        """``(1,)``: the mean of the blocks' Lipschitz constants, which bounds that of the mean."""
        return self._mean(self.base.lipschitz)
