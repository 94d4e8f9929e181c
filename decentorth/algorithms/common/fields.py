"""Gradients, exact or from a mini-batch, and fields computed from them, in blocks of agents that
fit into the cache.

``problem.blocks()`` gives runs of local agents whose points take about a quarter of a megabyte,
each as a slice and as the problem of these agents alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Concatenate, Generic, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from ...protocols import Array, Index, Known, Landing, Oracle, Problem, Riemannian, Sampled, Streams

C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)
G = TypeVar("G", bound=Oracle[object])
Field = Callable[Concatenate[G, Array, ...], Array]
"""A function ``field(problem, x, *others)``: a fresh array like ``x``, where each agent's row
depends on its own rows alone."""


@runtime_checkable
class Penalised(Protocol):
    """A set whose infeasibility p can be added to an objective on the whole space."""

    def penalised(self, x: Array, g: Array, penalty: Array) -> Array:
        """The gradient of f + penalty p at any ``x``, from the Euclidean gradient ``g`` of f;
        ``penalty`` is ``(n_local,)``."""


class SampledProblem(Problem[C_co], Sampled, Protocol[C_co]):
    """A problem whose f_i is a mean over samples."""


class OnSamples(Generic[C]):
    """A problem whose gradients come from a mini-batch.

    Parameters
    ----------
    batch
        ``(n_local, b)``: the numbers of each agent's samples.
    """

    def __init__(self, problem: SampledProblem[C], batch: Index) -> None:
        self.constraint: C = problem.constraint
        self._problem = problem
        self._batch = batch

    def gradient(self, x: Array) -> Array:
        """Return an unbiased estimate of each agent's Euclidean gradient, in a new array shaped
        like ``x``."""
        return self._problem.gradient_on(x, self._batch)

    def blocks(self) -> Sequence[tuple[slice, OnSamples[C]]]:
        """Runs of local agents, as for every problem."""
        parts = self._problem.blocks()
        batch = self._batch
        return [(block, OnSamples(part, batch[block])) for block, part in parts]


def on_samples(problem: Problem[C], streams: Streams, k: int, batch_size: int) -> Oracle[C]:
    """The problem with the gradients of iteration ``k`` from ``batch_size`` samples of each agent.

    Samples are drawn with replacement from each agent's own stream, so a batch does not depend on
    the other agents in the process.
    """
    means = cast(SampledProblem[C], problem)
    return OnSamples(means, streams.integers("batch", k, batch_size, means.n_samples))


def gradient(problem: Oracle[object], x: Array) -> Array:
    """Return the Euclidean gradients G_i(x_i), in a new array shaped like ``x``."""
    return problem.gradient(x)


def landing(problem: Oracle[Landing], x: Array, penalty: Array) -> Array:
    """Return the landing fields Lambda_i(x_i) of paper 004 (5), in a new array shaped like ``x``.

    ``penalty`` is ``(n_local,)``.
    """
    return problem.constraint.landing(x, problem.gradient(x), penalty)


def riemannian(problem: Oracle[Riemannian], x: Array) -> Array:
    """Return the Riemannian gradients grad f_i(x_i) = P_x(G_i(x_i)), in a new array shaped like
    ``x``."""
    return problem.constraint.tangent(x, problem.gradient(x))


def soft(problem: Oracle[object], x: Array, penalty: float) -> Array:
    """Return the gradients of f_i + penalty p, in a new array shaped like ``x``.

    p is the set's infeasibility. For a penalty of 0 these are the gradients of f_i.
    """
    gradient = problem.gradient(x)
    if penalty == 0.0:
        return gradient
    everywhere = _everywhere(len(x), penalty)
    return cast(Penalised, problem.constraint).penalised(x, gradient, everywhere)


@lru_cache(maxsize=8)
def _everywhere(n: int, penalty: float) -> Array:
    """``(n,)``: the penalty of every agent, made once for the blocks of a run."""
    return np.full(n, penalty)


def blockwise(field: Field[G], problem: G, x: Array, *others: Array, out: Known = None) -> Array:
    """Evaluate ``field(problem, x, *others)`` in blocks of agents.

    All arrays have the agents on the first axis. Several blocks write into ``out``, which may be
    one of ``others``, or into a new array. For one block the result of ``field`` is returned
    unchanged.
    """
    blocks = problem.blocks()
    if len(blocks) == 1:
        return field(problem, x, *others)
    out = np.empty_like(x) if out is None else out
    for block, part in blocks:
        out[block] = field(part, x[block], *[other[block] for other in others])
    return out


def refresh(
    field: Field[G], problem: G, x: Array, tracker: Array, old: Array, *others: Array
) -> Array:
    """Add ``field(problem, x, *others) - old`` to ``tracker`` and return the new field.

    The work is done in blocks of agents. If there are several blocks, ``old`` is overwritten.
    """
    blocks = problem.blocks()
    if len(blocks) == 1:
        new = field(problem, x, *others)
        tracker += new
        tracker -= old
        return new
    for block, part in blocks:
        new = field(part, x[block], *[other[block] for other in others])
        tracker[block] += new
        tracker[block] -= old[block]
        old[block] = new
    return old
