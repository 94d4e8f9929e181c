"""Growing steps: automatic ones, which grow while the moves of the agents show no sign that they
are too large.

The largest useful step is 1 to 6 times the one that is safe in advance, and the data alone decide.
So a run begins with the safe step and judges it after every block of w + D iterations:
w = max(30, 3 / gap), and D rounds let a number reach all agents. Let m_k = x_{k+1} - x_k be the
move of an agent and z_k = (I - W) p_k, where p_k is the first array that it sends in iteration k.
In two halves of the first w iterations each agent adds

    I = sum ||m_k - m_{k-1}||^2 + ||z_k - z_{k-1}||^2 / gap^2        Q = sum ||m_k||^2

I is the irregular part of the moves: it turns in time or differs among the agents. In the
last D iterations the largest I1, Q1, I2 and Q2 of all agents spread, as numbers in messages that
are sent anyway (`Network.mix_and_max`). Then all agents know the same numbers and decide the same
by `growing_rule`.

Steps are the first ones times 2^(m/6) with an integer m, so that they have the same bits on all
agents, on any number of ranks and after a checkpoint. Agents whose moves are at the level of
rounding report zeros, and when all do, nothing changes. An agent whose move is too long stays at
its good state until the others follow.

A method declares its `protocols.Limits` and otherwise knows nothing of this. What depends on the
step changes with it: the entries that the method calls `scaled`, and a penalty that is a share of
1 / step, with the field that the trackers follow.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ...numerics.ordered_sums import sums
from ...numerics.states import copied
from ...protocols import Array, Declared, Network, Problem, Streams
from ..common import changed, refresh
from .growing_rule import WINDOW, Progress, decided, hold, report
from .wrappers import CarryingNumber, WrappedState, Wrapper

MODES = 3.0
"""The least w * gap: the slowest mode of consensus falls by e^-3 in a block."""
EVERY = 3
"""Two of every three iterations are compared: a third of the time that all would take."""
SKIPPED = 6
"""The first iterations of a block, whose moves still show the change of the step."""

P = Problem[object]


class GrowingSteps(Wrapper):
    """A method with growing steps.

    Parameters
    ----------
    method
        The method, a `protocols.Judged`.
    """

    def __init__(self, method: Any) -> None:
        super().__init__(method)
        self._given = method.step_size.initial != "auto"
        self._follows = Declared.of(method).penalty_follows

    @cached_property
    def _limits(self) -> Any:
        return lru_cache(maxsize=1)(self.method.limits)

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> WrappedState:
        """The method's first state, and the progress of a run that has not judged its step yet."""
        state = self.method.init(problem, network, streams, x0)
        penalties = state.penalty if self._follows else state.step_size
        first = np.stack((state.step_size, penalties), axis=-1)
        good = copied(state)
        n = len(x0)
        known = np.zeros((n, 5))
        stopped = np.zeros(n)
        own = np.zeros((n, 4))
        move, apart = np.zeros((2, *x0.shape))
        return WrappedState(
            state, Progress(known, stopped, own, move, apart, first, good, candidate=good)
        )

    def step(
        self, problem: P, network: Network, streams: Streams, state: WrappedState
    ) -> WrappedState:
        """An iteration of the method, and at the end of a block the change of its step."""
        old, p = state
        limits = self._limits(network.spectrum)
        window = 2 * EVERY * round(max(WINDOW, MODES / limits.gap) / (2 * EVERY))
        j = old.k % (window + network.flooding_rounds)
        spreading = j >= window
        third = j % EVERY
        heard: Any = network
        if spreading or third:
            heard = _Overheard(network, p.known if spreading else None)
        new = self.method.step(problem, heard, streams, old)
        if spreading:
            p = p._replace(known=heard.known)
        if third:
            move = new.x - old.x
            if third == EVERY - 1:
                hold(p, move, new, self._given)
                if SKIPPED <= j < window:
                    half = 2 * (j >= (window + SKIPPED) // 2)
                    turn = move - p.move
                    drift = (heard.apart - p.apart) / limits.gap
                    p.sums[:, half] += sums(turn * turn) + sums(drift * drift)
                    p.sums[:, half + 1] += sums(move * move)
            p = p._replace(move=move, apart=heard.apart)
        if j + 1 == window:
            p = p._replace(candidate=copied(new))
            report(p, new.x, self._given)
        if j + 1 == window + network.flooding_rounds:
            new, now, p = decided(p, new, limits.most, self._given)
            p.known[...] = p.sums[...] = 0.0
            if now != p.exponent:
                new = self._restepped(problem, new, now, p)
        return WrappedState(new, p)

    def _restepped(self, problem: P, state: Any, now: int, p: Progress) -> Any:
        """The state with the step of ``p`` instead of that of the exponent ``now``."""
        multiple = 2.0 ** (p.exponent / 6.0)
        step = p.first[:, 0] * multiple
        state = changed(state, step_size=step)
        if hasattr(state, "base"):
            state = changed(state, base=step)
        for name in Declared.of(self.method).scaled:
            getattr(state, name)[...] *= 2.0 ** ((p.exponent - now) / 6.0)
        if not self._follows:
            return state
        penalty = p.first[:, 1] / multiple
        state = changed(state, penalty=penalty)
        if not hasattr(state, "tracker"):
            return state
        field = refresh(self.method.field, problem, state.x, state.tracker, state.field, penalty)
        return changed(state, field=field, gradients=state.gradients + 1)


class _Overheard(CarryingNumber):
    """The network that keeps z of the first message and lets what is known travel in it."""

    def __init__(self, network: Network, known: Array | None) -> None:
        super().__init__(network)
        self.known = known
        self.apart: Array | None = None

    def mix(self, *xs: Array, rounds: int = 1, push: tuple[Array, ...] = ()) -> tuple[Array, ...]:
        xs = (*xs, *push)
        if self.apart is not None:
            return self._network.mix(*xs, rounds=rounds)
        if self.known is None:
            mixed = self._network.mix(*xs)
        else:
            self.known, *others = self._network.mix_and_max(self.known, *xs)
            mixed = tuple(others)
        self.apart = xs[0] - mixed[0]
        return mixed if rounds == 1 else self._network.mix(*mixed, rounds=rounds - 1)
