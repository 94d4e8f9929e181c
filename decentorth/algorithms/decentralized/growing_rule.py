"""The rule of growing steps: what follows from the moves of a block (`growing_steps` measures
them).

From I1, Q1, I2 and Q2 of all agents follow three ratios:

    R = I2 / Q2    the share of the irregular part; sqrt(R) is the step times the curvature
    U = I2 / I1    above 1 where it grows
    q = Q2 / Q1    below 1 where the moves shrink

    cut      R > 0.05 and U > 1, or a move of half the norm of x: a smaller step. The run returns to
             the last good state if the step was new, or such a move was made.
    hold     R > 0.05 otherwise
    grow     if R, q and the waiting time allow: a larger step
    try      a step above the first, after six blocks, or two in which moves grew: two blocks with a
             smaller one. If moves shrink faster there, the step stays and the next one is tried; if
             not, the old one comes back. Moves that grow may be those of an escape from a saddle;
             these grow as step^k, so a smaller step must do better than that.

    circle   in twelve blocks moves, over the step, were neither shorter than any before nor longer
             than any since: back to the first step, or from there to half of the step

A cut is seen too late where agents are unlike: what keeps them apart then takes away from the
curvature of the mean, and the run slows down without a sign in its moves. That is what trials find.

The first step may be too large: a given one, or an automatic one where moves turn back by more than
their length. Then it is cut too, and a given one returns to the start until a block is good, at
the end of which no agent is far from the mean of its neighbours.

The rule is ours, found by experiments (``benchmarks/auto_steps.py``).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ...numerics.ordered_sums import sums
from ...numerics.states import arrays, copied
from ...protocols import Array
from ..common.step_sizes import changed

WINDOW = 30
"""The least number of iterations in a block."""
TURNING = 0.05
"""The R of gradient descent at a ninth of its largest stable step is 0.22^2."""
BACKWARDS = 1.0
"""The R above which moves turn back by more than their length: no first step should do that."""
FAST, SLOW = 4, 2
"""The growth of m before and after the first cut: short runs gain from a fast start; a step that is
2^(1/3) above the limit is seen within a block."""
PATIENCE = 3
"""The blocks without growth after the first cut, doubled by each: failures take a vanishing
share."""
TRY, TRIED = 6, 2
"""The blocks before a trial of a smaller step, and in it: it costs 2^(-1/3) * 2/8, 5 %."""
CIRCLE = 2 * TRY
"""The blocks without progress after which a run is taken to circle: two trials have failed."""
CUT = 6
"""The cut of the first step: it is halved."""
LEAST, GIVEN_LEAST = -60, -600
"""The least m from an automatic and from a given first step; a run broken there has other
reasons."""
FAR, FIRST_FAR = 0.25, 1e4
"""The squared move, over ||x||^2, that is too long above the first step, and up to it."""
APART = 1.0 / 16.0
"""The squared distance from the neighbours' mean, over ||x||^2, at which agents have not agreed."""
ROUNDING = 2.0**-44
"""The moves at the level of rounding, over ||x||; up to 2^-46 was measured."""


class Progress(NamedTuple):
    """The quantities of the rule; its numbers are the same on all agents."""

    known: Array
    """``(n_local, 5)``: the largest I1, Q1, I2, Q2 and ``stopped`` that have reached an agent."""
    stopped: Array
    """``(n_local,)``: 1 for agents whose move was too long."""
    sums: Array
    """``(n_local, 4)``: the agent's own I1, Q1, I2, Q2."""
    move: Array
    """m_{k-1}, like x."""
    apart: Array
    """z_{k-1}, like x."""
    first: Array
    """``(n_local, 2)``: the first steps and penalties."""
    good: Any
    """The method's last state in a block with R <= 0.05, and its m; the start before."""
    candidate: Any
    """The state at the end of the window, which is the next good one if its block is."""
    good_exponent: int = 0
    exponent: int = 0
    """m."""
    wait: int = 0
    patience: int = PATIENCE
    cut: bool = False
    """True in the block after a cut."""
    trial: bool = False
    """True in the first block of a larger step."""
    same: int = 0
    """The blocks since the step changed."""
    above: int = 0
    """m before the trial of a smaller step; 0 without one."""
    slow: float = 0.0
    """q there."""
    least: float = math.inf
    """The least Q2 / step^2 since the start or the last circle, with the first step as unit."""
    most: float = 0.0
    """The largest since the least."""
    stale: int = 0
    """The blocks since one of the two changed."""
    floor: int = 0
    """The m below which cuts do not go from an automatic step: 0, or that after a circle."""

    @property
    def pace(self) -> int:
        """The growth of m in a block."""
        return FAST if self.patience == PATIENCE else SLOW


def hold(p: Progress, move: Array, moved: Any, given: bool) -> None:
    """Hold agents whose move is too long, or not finite, at the good state."""
    if p.exponent <= (GIVEN_LEAST if given else LEAST):
        return
    reach = FAR if p.exponent > 0 else FIRST_FAR
    p.stopped[~(sums(move * move) <= reach * sums(p.good.x * p.good.x))] = 1.0
    agents = np.flatnonzero(p.stopped)
    for array, kept in zip(arrays(moved), arrays(p.good), strict=True):
        array[agents] = kept[agents]


def report(p: Progress, x: Array, given: bool) -> None:
    """Write what each agent reports of its block: zeros for moves at the level of rounding.

    In a `fresh` run an agent far from its neighbours has stopped too: agents at rest apart from
    each other do not move, so that their moves are no sign of a step that is too large.
    """
    rest = p.sums[:, 3] <= WINDOW * ROUNDING**2 * sums(x * x)
    p.known[:, :4] = np.where(rest[:, None], 0.0, p.sums)
    p.known[:, 4] = p.stopped
    if fresh(p, given):
        p.known[sums(p.apart * p.apart) > APART * sums(x * x), 4] = 1.0


def fresh(p: Progress, given: bool) -> bool:
    """True until a block of a given first step is good."""
    return given and p.good.k == 0


def decided(p: Progress, state: Any, most: float, given: bool) -> tuple[Any, int, Progress]:
    """The state from which the run continues, its m, and the progress with the next m.

    ``most`` is the largest m, and ``given`` is True if the first step is no automatic one.
    """
    i1, q1, i2, q2, stopped = p.known[0].tolist()
    turning = i2 > TURNING * q2
    m = p.exponent
    if stopped or (turning and i2 > i1 and not p.cut):
        return _cut(p, state, stopped > 0.0, i2 > BACKWARDS * q2, given)
    p = _watched(p, q2)
    if p.stale >= CIRCLE:
        return state, m, _below_the_circle(p)
    p = p._replace(cut=False, trial=False, same=p.same + 1)
    if not turning and not p.above:
        p = p._replace(good=p.candidate, good_exponent=m)
    if q2 == 0.0:
        return state, m, p
    q = q2 / q1 if q1 > 0.0 else math.inf
    if p.above:
        return state, m, _compared(p, q) if p.same >= TRIED else p
    if not turning and q <= 1.0 and p.wait == 0 and m < most:
        return state, m, p._replace(exponent=int(min(m + p.pace, most)), trial=True, same=0)
    p = p._replace(wait=max(p.wait - 1, 0))
    return state, m, _lower(p, q) if p.same >= (TRIED if q > 1.0 else TRY) else p


def _cut(
    p: Progress, state: Any, broken: bool, backwards: bool, given: bool
) -> tuple[Any, int, Progress]:
    """As `decided`, for a step that is too large."""
    m = now = p.exponent
    new = fresh(p, given)
    if broken or p.trial or new:
        state = changed(copied(p.good), k=state.k, gradients=state.gradients)
        now = p.good_exponent
        p.stopped[...] = 0.0
    lower = m - p.pace if m > 0 else m - CUT
    if not (broken or backwards or given):
        lower = max(lower, min(m, p.floor))
    lower = max(lower, GIVEN_LEAST if given else LEAST)
    patience = 2 * p.patience if p.wait == 0 else p.patience
    p = p._replace(exponent=lower, wait=patience // 2, patience=patience)
    return state, now, p._replace(cut=not new, trial=False, same=0, above=0)


def _watched(p: Progress, q2: float) -> Progress:
    """The progress with the least and the largest Q2 / step^2, or one more block without either.

    In an escape from a saddle they grow from block to block, which is no circle.
    """
    level = q2 * 2.0 ** (-p.exponent / 3.0)
    if level < p.least or q2 == 0.0:
        return p._replace(least=level, most=level, stale=0)
    if level > p.most:
        return p._replace(most=level, stale=0)
    return p._replace(stale=p.stale + 1)


def _below_the_circle(p: Progress) -> Progress:
    """The progress with the first step, or half of a step that is not above it."""
    lower = 0 if p.exponent > 0 else max(p.exponent - CUT, LEAST)
    patience = 2 * p.patience
    p = p._replace(exponent=lower, floor=min(lower, p.floor), wait=patience, patience=patience)
    return p._replace(least=math.inf, stale=0, cut=True, trial=False, same=0, above=0)


def _lower(p: Progress, q: float) -> Progress:
    """The progress with a smaller step on trial, if there is one above the first."""
    if p.exponent <= 0:
        return p._replace(same=0)
    return p._replace(exponent=max(p.exponent - SLOW, 0), same=0, above=p.exponent, slow=q)


def _compared(p: Progress, q: float) -> Progress:
    """The progress after the trial of a smaller step."""
    share = 2.0 ** ((p.exponent - p.above) / 6.0)
    if q >= (p.slow if p.slow < 1.0 else p.slow**share):
        return p._replace(exponent=p.above, same=0, above=0)
    p = p._replace(wait=max(p.wait, PATIENCE), patience=max(p.patience, 2 * PATIENCE), above=0)
    return _lower(p, q)
