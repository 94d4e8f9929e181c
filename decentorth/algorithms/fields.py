"""Gradients, exact or from a mini-batch, and functions of them, evaluated in blocks of agents that stay in cache.

``problem.blocks()`` gives runs of local agents whose points take about half a megabyte, each as a slice and as the problem of these
agents alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..protocols import Array, Index, Penalised, Sampled, Streams

Field = Callable[..., Array]
"""``field(problem, x, *others)``: a fresh array like ``x``, each agent's row from its own rows of ``x`` and of the others alone."""


def check_batch_size(batch_size: int | None) -> None:
    """Raise unless ``batch_size`` is None or at least one sample.

    Raises
    ------
    ValueError, TypeError
        With what was given.
    """
    if batch_size is None:
        return
    if isinstance(batch_size, bool) or not isinstance(batch_size, int):
        raise TypeError(f"batch_size must be a whole number or None (all samples), got {type(batch_size).__name__}")
    if batch_size < 1:
        raise ValueError(f"batch_size must be at least 1, got {batch_size}")


def sampled(batch_size: int | None) -> tuple[type, ...]:
    """The capabilities that a problem needs for gradients from so many samples."""
    return () if batch_size is None else (Sampled,)


def check_soft(penalty: float) -> None:
    """Raise unless ``penalty`` is the weight of a soft constraint, 0 for none.

    Raises
    ------
    ValueError, TypeError
        With what was given.
    """
    if isinstance(penalty, bool) or not isinstance(penalty, int | float):
        raise TypeError(f"penalty must be a number, 0 for none, got {type(penalty).__name__}")
    if not 0.0 <= penalty <= sys.float_info.max:
        raise ValueError(f"penalty must be finite and not negative, got {penalty}")


def soft_set(penalty: float) -> tuple[type, ...]:
    """The capabilities that a set needs for a soft constraint with this penalty."""
    return (Penalised,) if penalty > 0.0 else ()


class OnSamples:
    """A problem whose gradients come from a mini-batch.

    Parameters
    ----------
    problem
        A `Sampled` problem.
    batch
        ``(n_local, b)``: the numbers of each agent's samples.
    """

    def __init__(self, problem: Any, batch: Index) -> None:
        self.constraint = problem.constraint
        self._problem, self._batch = problem, batch

    def gradient(self, x: Array) -> Array:
        """Like ``x``, fresh: an unbiased estimate of each agent's Euclidean gradient."""
        gradient: Array = self._problem.gradient_on(x, self._batch)
        return gradient

    def blocks(self) -> Sequence[tuple[slice, Any]]:
        """As for every problem."""
        return [(block, OnSamples(part, self._batch[block])) for block, part in self._problem.blocks()]


def on_samples(problem: Any, streams: Streams, k: int, batch_size: int | None) -> Any:
    """The problem with the gradients of iteration ``k``: exact, or from ``batch_size`` samples of each agent.

    Samples are drawn with replacement from each agent's own stream, so an agent's batch does not depend on who shares its process.
    """
    if batch_size is None:
        return problem
    return OnSamples(problem, streams.integers("batch", k, batch_size, problem.n_samples))


def landing(problem: Any, x: Array, penalty: Array) -> Array:
    """Lambda_i(x_i), the landing field with the penalties ``(n_local,)`` (paper 004 (5)), fresh."""
    field: Array = problem.constraint.landing(x, problem.gradient(x), penalty)
    return field


def riemannian(problem: Any, x: Array) -> Array:
    """grad f_i(x_i) = P_x(G_i(x_i)), the Riemannian gradient, fresh."""
    gradient: Array = problem.constraint.tangent(x, problem.gradient(x))
    return gradient


def soft(problem: Any, x: Array, penalty: float) -> Array:
    """The gradient of f_i + penalty p, p the set's infeasibility; that of f_i for 0; fresh."""
    gradient: Array = problem.gradient(x)
    if penalty == 0.0:
        return gradient
    penalised: Array = problem.constraint.penalised(x, gradient, np.full(len(x), penalty))
    return penalised


def blockwise(field: Field, problem: Any, x: Array, *others: Array) -> Array:
    """``field(problem, x, *others)`` in blocks of agents, fresh; all arrays have the agent axis first."""
    blocks = problem.blocks()
    if len(blocks) == 1:
        return field(problem, x, *others)
    out = np.empty_like(x)
    for block, part in blocks:
        out[block] = field(part, x[block], *[other[block] for other in others])
    return out


def track(field: Field, problem: Any, x: Array, tracker: Array, old: Array, *others: Array) -> Array:
    """``tracker += field(problem, x, *others) - old`` in place, in blocks of agents; returns the new field and uses up ``old``."""
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
