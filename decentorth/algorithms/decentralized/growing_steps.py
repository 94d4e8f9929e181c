"""Automatic steps that grow while the run shows no sign that they are too large.

No constant found before the start is near the largest useful step: that is 1 to 6 times the automatic one, by the data alone. So a
run starts with the automatic step and is divided into blocks of w + D iterations, w = max(30, 3 / gap), gap = 1 - lambda_2 and D the
number of rounds in which a number reaches all agents. With s_k the last move of an agent, and z_k = (I - W) p_k the disagreement
of what it sent first in iteration k (its point, or x - alpha y), the agent has the means over each half of the first w iterations of

    E = ||s_k - s_{k-1}||^2        Q = ||s_k||^2        N = ||z_k - z_{k-1}||^2
    turning tau = E / Q,   apart delta = N / (gap^2 Q)   in the second half,   and their growth u = E'/E,  q = Q'/Q

Near a minimiser steps that are too large for the curvature make moves turn back and grow, whereas slow convergence and the escape
from a saddle go straight ahead. Before that, steps that are too large for consensus make agents circle at a distance from each other:
the disagreement of their moves does not shrink. The agent's verdict is

    3 broken   a number is not finite; above the first step, tau > 0.02 and u > 30, or the point is far from the manifold
    2 bad      tau > 0.02 and u > 1, or delta > `apart` and q > 0.9 (in the block after a cut only where q > 2 too); or circling:
               q > 0.97, u > 0.97 and tau > 3e-5 in four blocks running, above the first step
    1 hold     tau > 0.02 or delta > `hold`
    0 grow     otherwise

In the last D iterations of a block the largest verdict of the network reaches all agents, as one more number on messages that are
sent anyway. Every agent then does the same: after 0 the step grows by one factor, unless it waits after a cut; after 2 and 3 it
shrinks by one, and the run goes back to the last state that was judged 0 where this block was the first with a new step, or broken.
The waits double. Steps are the first ones times 2^(m/6), with an integer m: the same bits for all agents, ranks and resumed runs.

When the step changes, a penalty that is a share of 1 / step follows it, with y += F_new - F_old of the agent's own fields so that the
mean tracker stays the mean field; the correction u of EXTRA, which is alpha F at rest, is multiplied by the same factor.
"""

from __future__ import annotations

import math
from collections import namedtuple
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...numerics.ordered_sums import sums
from ...protocols import Array, Landing, Network, Problem, Spectrum, Streams
from ..common.automatic_steps import tracking_step
from ..common.fields import landing, track
from .extra import Extra

PATIENCE = 8


class Limits(NamedTuple):
    """The constants of the rule for a method on a network."""

    gap: float
    window: int
    """w, the iterations of a block in which agents measure."""
    spread: int
    """D, the rounds in which the verdict spreads."""
    most: int
    """The largest exponent m."""
    pace: int
    """The growth of m before the first cut; 2 from then on."""
    hold: float
    apart: float


class Progress(NamedTuple):
    """The numbers of the rule; all agents have the same integers."""

    exponent: int
    """m: the step is 2^(m/6) times the first."""
    position: int
    """The iterations made in this block."""
    wait: int
    patience: int
    cuts: int
    """The cuts in a row."""
    trial: bool
    """True in the first block with a larger step."""
    circling: Array
    """``(n_local,)``: blocks in a row in which the agent's moves neither shrink nor go straight."""
    verdict: Array
    """``(n_local,)``: the agent's, then the largest it has heard of."""
    means: Array
    """``(n_local, 5)``: the sums of E and Q in the first half, and of E, Q and N in the second."""
    move: Array
    """The last move, like x."""
    apart: Array
    """The last disagreement z, like x."""
    base: Array
    """The first steps, and penalties where there are any, ``(2, n_local)``."""
    good_exponent: int
    good: Any
    """The state after the last block that was judged 0."""
    bound: Array
    """``(n_local,)``: the largest squared move above the first step, a quarter of the squared norm of the good point."""


def limits(method: Any, network: Any) -> Limits:
    """The constants of the rule."""
    spectrum: Spectrum = network.spectrum
    gap = 1.0 - spectrum.lambda_2
    window, spread = max(30, math.ceil(3.0 / gap)), network.flooding_rounds
    if isinstance(method, Extra):
        return Limits(gap, window, spread, 10, 2, math.inf, 1.0)
    order = getattr(method, "order", "combine-then-adapt")
    if order == "adapt-then-combine":
        return Limits(gap, window, spread, 10**6, 3, 0.02, 0.15)
    aim = method.aim(spectrum, order) if hasattr(method, "aim") else tracking_step(spectrum, order)
    return Limits(gap, window, spread, math.floor(6.0 * math.log2(2.0 * math.sqrt(gap) / aim)), 2, 0.05, 0.15)


@cache
def _class_of(inner: type) -> Any:
    """The class of a method's states with the `Progress` of its steps."""
    return namedtuple(f"Growing{inner.__name__}", (*inner._fields, "progress"))  # type: ignore[attr-defined, misc]


class _Listening:
    """The network as the method sees it, which notes the disagreement in the first message of an iteration, and lets a verdict ride."""

    def __init__(self, network: Any, measured: bool, verdict: Array | None) -> None:
        self._network, self._measured, self.verdict = network, measured, verdict
        self.n_agents = network.n_agents
        self.apart: Array | None = None
        self._first = True

    @property
    def spectrum(self) -> Spectrum:
        return self._network.spectrum

    def mix(self, *xs: Array, rounds: int = 1) -> tuple[Array, ...]:
        first, self._first = self._first, False
        if not first or (self.verdict is None and not self._measured):
            return self._network.mix(*xs, rounds=rounds)
        if self.verdict is not None:
            self.verdict, *mixed = self._network.mix_and_max(self.verdict, *xs)
        else:
            mixed = self._network.mix(*xs)
        if self._measured:
            self.apart = xs[0] - mixed[0]
        return tuple(mixed) if rounds == 1 else self._network.mix(*mixed, rounds=rounds - 1)


class Growing:
    """A method whose automatic steps grow."""

    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"

    def __init__(self, method: Any, network: Any) -> None:
        self.method, self.step_size = method, method.step_size
        self.requires, self.requires_set = method.requires, method.requires_set
        if hasattr(method, "gradient_factor"):
            self.gradient_factor = method.gradient_factor
        self.limits = limits(method, network)

    def init(self, problem: Problem[Any], network: Network, streams: Streams, x0: Array) -> Any:
        inner = self.method.init(problem, network, streams, x0)
        n = len(x0)
        penalty = inner.penalty if hasattr(inner, "penalty") else np.zeros(n)
        progress = Progress(
            0, 0, 0, PATIENCE, 0, False, np.zeros(n), np.zeros(n), np.zeros((n, 5)), np.zeros_like(x0), np.zeros_like(x0),
            np.stack((inner.step_size, penalty)), 0, _copied(inner), 0.25 * sums(x0 * x0),
        )
        return _class_of(type(inner))(*inner, progress)

    def step(self, problem: Problem[Any], network: Network, streams: Streams, state: Any) -> Any:
        """An iteration of the method, and at the end of a block the verdict on its step."""
        progress: Progress = state.progress
        inner_class = type(progress.good)
        inner = inner_class(*state[:-1])
        rule, j = self.limits, progress.position
        begun, half, measuring = 4, rule.window // 2, j < rule.window
        listening = _Listening(network, measuring and j >= half - 1, None if measuring else progress.verdict)
        moved = self.method.step(problem, listening, streams, inner)
        verdict = progress.verdict if measuring else listening.verdict
        move = moved.x - inner.x
        size = sums(move * move)
        if progress.exponent > 0:
            verdict[~(size <= progress.bound)] = 3.0
            _stop(moved, progress.good, np.flatnonzero(verdict == 3.0))
        if measuring:
            apart = progress.apart if listening.apart is None else listening.apart
            if j >= begun:
                means, column = progress.means, 0 if j < half else 2
                turn = move - progress.move
                means[:, column] += sums(turn * turn)
                means[:, column + 1] += size
                if j >= half:
                    change = apart - progress.apart
                    means[:, 4] += sums(change * change)
            progress = progress._replace(move=move, apart=apart)
            if j + 1 == rule.window:
                self._judge(progress)
        progress = progress._replace(verdict=verdict, position=j + 1)
        if j + 1 == rule.window + rule.spread:
            moved, progress = self._decide(problem, moved, progress)
        return type(state)(*moved, progress)

    def _judge(self, p: Progress) -> None:
        """Raise the agents' verdicts to what their block shows."""
        rule, half = self.limits, self.limits.window // 2
        e1, q1, e2, q2, n2 = p.means.T
        with np.errstate(all="ignore"):
            tau, delta = e2 / q2, n2 / (rule.gap**2 * q2)
            ratio = (half - 4) / (rule.window - half)
            u, q = ratio * e2 / e1, ratio * q2 / q1
        moving = q2 > 0.0
        above = p.exponent > 0
        hold = moving & ((tau > 0.02) | (delta > rule.hold))
        bad = moving & (((tau > 0.02) & (u > 1.0)) | ((delta > rule.apart) & (q > 0.9)))
        if p.cuts:
            bad &= q > 2.0
        circles = moving & (q > 0.97) & (u > 0.97) & (tau > 3e-5) & above
        p.circling[...] = np.where(circles, p.circling + 1.0, 0.0)
        bad |= p.circling >= 4.0
        p.circling[p.circling >= 4.0] = 0.0
        broken = moving & above & (tau > 0.02) & (u > 30.0)
        found = np.where(broken, 3.0, np.where(bad, 2.0, np.where(hold, 1.0, 0.0)))
        np.maximum(p.verdict, found, out=p.verdict)

    def _decide(self, problem: Problem[Any], state: Any, p: Progress) -> tuple[Any, Progress]:
        """The state and the progress after a block, by the network's verdict."""
        rule, verdict = self.limits, int(p.verdict[0])
        exponent, wait, patience, cuts, trial = p.exponent, p.wait, p.patience, 0, False
        good, good_exponent, bound = p.good, p.good_exponent, p.bound
        if verdict < 2:
            if verdict == 0:
                good, good_exponent = _copied(state), exponent
                bound = 0.25 * sums(state.x * state.x)
            pace = rule.pace if patience == PATIENCE else 2
            if wait > 0:
                wait -= 1
            elif verdict == 0 and exponent + pace <= rule.most:
                exponent, trial = exponent + pace, True
            state = self._at(problem, state, p, p.exponent, exponent)
        else:
            cuts, now = p.cuts + 1, p.exponent
            pace = rule.pace if patience == PATIENCE else 2
            if verdict == 3 or p.trial:
                state, now = _since(p.good, state), p.good_exponent
            exponent, wait, patience = max(p.exponent - pace, 0), patience, 2 * patience
            state = self._at(problem, state, p, now, exponent)
        n = len(p.verdict)
        return state, p._replace(
            exponent=exponent, position=0, wait=wait, patience=patience, cuts=cuts, trial=trial, verdict=np.zeros(n),
            means=np.zeros((n, 5)), good=good, good_exponent=good_exponent, bound=bound,
        )

    def _at(self, problem: Problem[Any], state: Any, p: Progress, now: int, exponent: int) -> Any:
        """The state with the step of ``exponent`` instead of that of ``now``."""
        if now == exponent:
            return state
        step, factor = p.base[0] * 2.0 ** (exponent / 6.0), 2.0 ** ((exponent - now) / 6.0)
        state = state._replace(step_size=step)
        if "base" in state._fields:
            state = state._replace(base=step)
        if "dual" in state._fields:
            state.dual[...] *= factor
        if "penalty" in state._fields and (self.method.follows if hasattr(self.method, "follows") else self.method.penalty == "auto"):
            penalty = p.base[1] / 2.0 ** (exponent / 6.0)
            if "tracker" in state._fields:
                field = track(landing, problem, state.x, state.tracker, state.field, penalty)
                state = state._replace(field=field, gradients=state.gradients + 1)
            state = state._replace(penalty=penalty)
        return state


def _copied(state: Any) -> Any:
    return type(state)(*[entry.copy() if isinstance(entry, np.ndarray) else entry for entry in state])


def _stop(state: Any, good: Any, agents: Array) -> None:
    """Hold these agents at the good state until the network goes back to it."""
    if len(agents):
        for entry, kept in zip(state, good, strict=True):
            if isinstance(entry, np.ndarray):
                entry[agents] = kept[agents]


def _since(earlier: Any, state: Any) -> Any:
    """An earlier state with the counts of this one."""
    return _copied(earlier)._replace(k=state.k, gradients=state.gradients)
