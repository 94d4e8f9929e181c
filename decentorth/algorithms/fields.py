"""What the agents evaluate at their points: a gradient, exact or from a mini-batch, and the vector field that a method makes of it.

All of it in blocks of agents that stay in cache (`Problem.blocks`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..protocols import Array, Penalised, Sampled, Streams
from ..sums import sums
from .step_sizes import StepPolicy

Field = Callable[[Any, Array, slice], Array]
"""``field(part, x, block)``: the field of the problem ``part`` of the local agents ``block`` at their points, fresh."""


def check_batch_size(batch_size: int | None) -> None:
    """Refuse a batch below one sample.

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
    """What gradients from so many samples ask of a problem."""
    return () if batch_size is None else (Sampled,)


def check_soft(penalty: float) -> None:
    """Refuse what is no penalty of a soft constraint, 0 for none.

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
    """What a soft constraint with this penalty asks of a set."""
    return (Penalised,) if penalty > 0.0 else ()


def gradients(problem: Any, streams: Streams, k: int, batch_size: int | None) -> Field:
    """The Euclidean gradients of iteration ``k``: exact, or an unbiased estimate from ``batch_size`` samples of each agent.

    Samples are drawn with replacement from each agent's own stream, so an agent's batch does not depend on who shares its process.
    """
    if batch_size is None:
        return _exact
    batch = streams.integers("batch", k, batch_size, problem.n_samples)
    return lambda part, x, block: part.gradient_on(x, batch[block])


def _exact(part: Any, x: Array, block: slice) -> Array:
    gradient: Array = part.gradient(x)
    return gradient


def landing(gradient: Field, penalty: Array) -> Field:
    """Lambda_i, the landing field with the penalties ``(n_local,)``."""
    return lambda part, x, block: part.constraint.landing(x, gradient(part, x, block), penalty[block])


def riemannian(gradient: Field) -> Field:
    """P_x(G_i), the Riemannian gradient."""
    return lambda part, x, block: part.constraint.tangent(x, gradient(part, x, block))


def soft(gradient: Field, penalty: float) -> Field:
    """The gradients of f_i + penalty p, p the set's infeasibility; those of f_i for 0."""
    if penalty == 0.0:
        return gradient
    return lambda part, x, block: part.constraint.penalised(x, gradient(part, x, block), np.full(len(x), penalty))


def evaluate(problem: Any, x: Array, field: Field) -> Array:
    """The field at all local points, fresh."""
    blocks = problem.blocks()
    if len(blocks) == 1:
        return field(problem, x, slice(0, len(x)))
    out = np.empty_like(x)
    for block, part in blocks:
        out[block] = field(part, x[block], block)
    return out


def landing_field(problem: Any, x: Array, penalty: Array) -> Array:
    """Lambda_i(x_i) with exact gradients, fresh."""
    return evaluate(problem, x, landing(_exact, penalty))


class Change(NamedTuple):
    """<s, s>, <s, z> and <z, z> per agent, of what an iteration moved the point by, s, and changed the field by, z."""

    moved: Array
    along: Array
    changed: Array


def difference(x: Array, before: Array, new: Array, old: Array, policy: StepPolicy) -> Change:
    """What moved and what changed between two points and the field's values there; zeros unless the policy adapts."""
    if not policy.adapts:
        zero = np.zeros(len(x))
        return Change(zero, zero, zero)
    s, z = x - before, new - old
    return Change(sums(s * s), sums(s * z), sums(z * z))


def advance(problem: Any, x: Array, before: Array, value: Array, tracker: Array, field: Field, policy: StepPolicy) -> Change:
    """``tracker += field(x) - value`` and ``value = field(x)``, in place.

    Parameters
    ----------
    x, before
        The points now and an iteration ago; ``before`` is looked at only where the policy adapts.
    value
        The field at ``before``.
    tracker
        The mixed trackers.

    Returns
    -------
    Change
        Zeros unless the policy adapts.
    """
    n = len(x)
    change = Change(np.zeros(n), np.zeros(n), np.zeros(n))
    for block, part in problem.blocks():
        points, old, tracked = x[block], value[block], tracker[block]
        new = field(part, points, block)
        if policy.adapts:
            for out, found in zip(change, difference(points, before[block], new, old, policy), strict=True):
                out[block] = found
        tracked += new
        tracked -= old
        old[...] = new
    return change
