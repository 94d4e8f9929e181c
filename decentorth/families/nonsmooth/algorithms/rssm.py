"""RSSM: the randomized submanifold subgradient method, which moves two blocks of columns at a time.

Cheung, Wang, Yue, So, "Randomized submanifold subgradient method for optimization over Stiefel
manifolds" (papers 000 and 002, its later version), Algorithm 1. The columns are divided into l >= 2
blocks; every iteration draws a pair {i, j} of them uniformly and moves C = C_i + C_j:

    Z    a subgradient of f in the columns C alone
    xi   Z - x Y, where Y = x^T Z with its rows C replaced by sym(x_C^T Z)               (15)
    x_C <- polar(x_C - gamma_k xi)                                                        (16)

so an iteration takes about 2/l of the operations of one that moves all columns, if Z does. The
others stay as they are, bit by bit.

    l, C_i    blocks, block_partition      Z     problem.partial_gradient, columns of problem.gradient where it has none
    x         state.x                (15), (16)   constraint.move_columns
    gamma_k   step_size, from base

``step_size="auto"`` and ``block_partition="auto"`` follow the problem's advice for l blocks (the
published schedules, repaired where those as printed fail), otherwise 1 / (L sqrt(k + 1)) with L a
Lipschitz constant of f, and fixed blocks. Beyond the papers: blocks drawn again in every iteration;
(15) is taken of x_C - gamma_k Z, not of Z, which removes rounding errors instead of piling them up
(`Stiefel.move_columns`); re-orthogonalisation, with the drift that it found; the count of
floating-point operations. A gradient in ``gradients`` is one call of the oracle, whatever its
columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np

from decentorth.algorithms.common import advanced, can
from decentorth.protocols import (
    Array,
    ColumnOracle,
    ConstraintSet,
    Index,
    Network,
    Problem,
    Projection,
    Streams,
)
from decentorth.settings import Count, Range

from .subgradient import Subgradient, iteration_flops

BLOCKS = 5
"""The default number of blocks."""
Partition = Literal["auto", "fixed", "redraw"]


class RSSMState(NamedTuple):
    """The state of RSSM.

    x ``(1, d, r)`` changes, as does cache, which is the problem's cache or ``(1, 0)``. The other
    arrays are ``(1,)``: step_size; drift, the largest ||x^T x - I||_F found by a
    re-orthogonalisation; flops, the operations made; and base (Delta), which is constant.
    """

    x: Array
    cache: Array
    step_size: Array
    drift: Array
    flops: Array
    base: Array
    k: int
    gradients: int


@runtime_checkable
class ColumnBlocks(Protocol):
    """A set whose points stay in it when some of their columns move and the others do not."""

    def move_columns(self, x: Array, columns: Index, v: Array) -> Array:
        """Return the columns ``(c,)`` of a feasible x, moved along the tangent part of ``v``.

        The result is a new array, ``(n_local, d, c)``.
        """


class BlockManifold(ConstraintSet, ColumnBlocks, Projection, Protocol):
    """A manifold on which some columns can move alone, and which has a projection."""


P = Problem[BlockManifold]


@dataclass(frozen=True, kw_only=True)
class RSSM(Subgradient):
    """Randomized submanifold subgradient method for a single agent (Cheung, Wang, Yue, So 2024).

    Parameters
    ----------
    blocks
        l, the number of blocks of columns, of which two move in an iteration.
    block_partition
        fixed (consecutive columns), redraw (drawn again in every iteration), or auto (what suits
        the problem and l).
    reorthogonalize
        Number of iterations after which x is replaced by its polar factor and the problem's cache
        is made again; by default never.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.RSRSettings(dimension=30).problem(1, seed=0)
    >>> method = do.RSSM()
    >>> result = do.solve(problem, method, iterations=300)
    >>> error = result.history["error"]
    >>> bool(error[-1] < 1e-2 * error[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (ColumnBlocks, Projection)
    auto: ClassVar[tuple[str, ...]] = ("step_size", "block_partition")

    blocks: Annotated[int, Range(least=2)] = BLOCKS
    block_partition: Partition = "auto"
    reorthogonalize: Count | None = None

    @property
    def n_blocks(self) -> int:
        """l, the number of blocks."""
        return self.blocks

    def for_problem(self, problem: Problem[object]) -> Self:
        """Return this method with its settings chosen for the problem.

        Raises ValueError if there are more blocks than columns.
        """
        method = super().for_problem(problem)
        divided(method.blocks, problem.shape[1])
        return method

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> RSSMState:
        step, base, spent = self.for_problem(problem).first_steps(problem, x0)
        none = 0.0 * base
        cache = _cache(problem, x0)
        return RSSMState(x0.copy(), cache, step, none, none.copy(), base, 0, spent)

    def step(self, problem: P, network: Network, streams: Streams, state: RSSMState) -> RSSMState:
        method = self.for_problem(problem)
        k = state.k + 1
        x = state.x
        cache = state.cache
        columns = method.drawn(streams, state.k, problem.shape[1])
        v = _partial(problem, x, columns, cache)
        v *= -state.step_size[:, None, None]
        x[:, :, columns] = problem.constraint.move_columns(x, columns, v)  # (15), (16)
        if cache.size and can(problem, ColumnOracle):
            problem.refresh(cache, x, columns)
        drift = state.drift
        if self.reorthogonalize is not None and k % self.reorthogonalize == 0:
            drift = np.maximum(drift, problem.constraint.feasibility(x))
            x = problem.constraint.project(x, "polar")
            cache = _cache(problem, x)
        flops = state.flops + iteration_flops(problem, len(columns))
        return advanced(method.step_size, state, x=x, cache=cache, drift=drift, flops=flops)

    def drawn(self, streams: Streams, k: int, r: int) -> Index:
        """Draw the columns ``(c,)``, out of r, that move in iteration ``k``."""
        blocks = divided(self.blocks, r)
        pairs = len(blocks) * (len(blocks) - 1) // 2
        i, j = _pairs(len(blocks))[int(streams.integers("blocks", k, 1, pairs)[0, 0])]
        columns = np.concatenate((blocks[i], blocks[j]))
        if self.block_partition == "redraw":
            columns = np.sort(streams.permutation("blocks", k, r)[columns])
        return columns


@lru_cache
def divided(blocks: int, r: int) -> tuple[Index, ...]:
    """Divide r columns into ``blocks`` runs of consecutive columns of nearly equal size.

    Raises ValueError if there are more blocks than columns.
    """
    if blocks > r:
        raise ValueError(f"blocks must be at most the number of columns, {r}, got {blocks}")
    return tuple(np.array_split(np.arange(r, dtype=np.int64), blocks))


@lru_cache
def _pairs(blocks: int) -> tuple[tuple[int, int], ...]:
    return tuple(combinations(range(blocks), 2))


def _cache(problem: object, x: Array) -> Array:
    """The cache for cheap gradients of column blocks; empty if the problem lacks a column
    oracle."""
    return problem.cache(x) if can(problem, ColumnOracle) else np.zeros((len(x), 0))


def _partial(problem: Problem[object], x: Array, columns: Index, cache: Array) -> Array:
    """The given columns of a subgradient, ``(n_local, d, c)``, fresh."""
    if can(problem, ColumnOracle):
        return problem.partial_gradient(x, columns, cache)
    return np.take(problem.gradient(x), columns, axis=-1)
