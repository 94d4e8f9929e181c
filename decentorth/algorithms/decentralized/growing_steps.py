"""Growing steps: automatic ones, which grow while the moves of the agents show no sign that they are too large.

The largest useful step is 1 to 6 times the one that is safe in advance, and the data alone decide. So a run begins with that one
and judges it after every block of w + D iterations, w = max(30, 3 / gap), gap = 1 - lambda_2 and D the rounds in which a number
reaches all agents. Let x_k be the agent's point and z_k = (I - W) p_k, where p_k is the first array that it sends in iteration k:
x_k, or x_k - alpha y_k. In every third of the first w iterations the agent adds, for each half of them,

    E = ||x_{k+1} - 2 x_k + x_{k-1}||^2        Q = ||x_{k+1} - x_k||^2        N = ||z_k - z_{k-1}||^2

and has tau = E / Q and delta = N / (gap^2 Q) of the second half, and the ratios u of E and q of Q in the second half to those in
the first. Near a minimiser a step that is too large for the curvature makes moves turn back and grow (tau, u), whereas slow
convergence and the escape from a saddle go straight ahead. Farther away, a step that is too large for consensus makes agents
circle at a distance from each other: the disagreement of their moves, delta, does not shrink. The verdict of an agent is

    4 broken   a move of half the norm of x, or tau > 0.02 and u > 30 (both only above the first step), or a number not finite
    3 drift    above the first step, q > 1.02 in six blocks in a row
    2 bad      tau > 0.02 and u > 1; or delta > `apart` and q > 0.9; after a cut only where q > 2 too; or, above the first step,
               q > 0.97, u > 0.97 and tau > 3e-5 in four blocks in a row
    1 hold     tau > 0.02 or delta > `hold`
    1/2 rest   moves at the level of rounding: their ratios are noise, and the step stays
    0 grow     otherwise

A step of EXTRA above 2^(5/3) times the first one must prove itself: it is bad where tau > 0.02 or delta > 0.15 (after a cut only
where q > 2 too), and grows only where q <= 0.9 and delta <= 0.05. Where moves shrink, the curvature about the minimiser decides,
and tau shows it in time; otherwise such steps have let agents circle.

Moves that grow without turning are those of an escape from a saddle, or of agents that drift off together: where agents are unlike,
what keeps them apart grows with the step, and takes away from the curvature of the mean until there is none. A saddle is left with
the first step too, so drift is a reason to halve the step down to that, and no further.

In the last D iterations of a block the largest verdict spreads to all agents, as one more number in messages that they send anyway
(`Network.mix_and_max`). Then all agents do the same. After 0 the step grows, unless it waits after a cut; after 2 to 4 it is cut,
and waits for `PATIENCE` blocks, twice as long each time. After 4, and after 2 in the first block of a step, the run returns to
the last state that was judged below 1; an agent whose move was too long stays there until the others follow. Steps are the first
ones times 2^(m/6) with an integer m, so that they are the same bits on all agents, on any number of ranks and after a checkpoint.

The automatic first step is stable, so after 2 the step is cut to that at the least. A given first step may be far too large. So 2
cuts it too, and until a block is judged below 1 each cut returns to the start.

What depends on the step changes with it: the correction u of EXTRA, which is alpha F at rest, by the same factor; and a penalty
that is a share of 1 / step, where trackers follow by y += F_new - F_old of the agent's own fields, so that their mean stays the
mean field. The rule and its constants are ours, found by experiments (``benchmarks/auto_steps.py``).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np

from ...numerics.ordered_sums import sums
from ...numerics.states import arrays
from ...protocols import Array, Network, Problem, Spectrum, Streams
from ..common.method import Decentralized, Method
from ..common.schedules import Growing as GrowingStep
from ..common.step_sizes import GrowingStepSize, changed

PATIENCE = 3
"""The blocks without growth after the first cut."""
TURNING = 0.02
"""The tau above which moves turn back."""
APART, CLOSE = 0.15, 0.05
"""The delta above which agents are apart, and below which they are close, for tracking and for EXTRA above `Limits.proven`."""
REST, ROUNDING = 0.5, 2.0**-44
"""The verdict on moves at the level of rounding, and the largest such move relative to x; noise up to 2^-46 was measured."""
LEAST, GIVEN_LEAST = -60, -600
"""The least m from an automatic and from a given first step: a run broken there has diverged for other reasons than its step."""
_FAR = 1e4
"""Up to the first step, a squared move is too long only when it is so many times longer than above."""
_EVERY = 3
_SKIPPED = 4
"""The first iterations of a block, in which the moves are still those of the last step."""


class Limits(NamedTuple):
    """The constants of the rule for a method on a network."""

    gap: float
    window: int
    """w, the iterations of a block in which agents measure."""
    block: int
    """w + D, all its iterations."""
    most: float = math.inf
    """The largest m."""
    pace: int = 2
    """The growth of m in a block before the first cut; afterwards it is 2."""
    hold: float = CLOSE
    apart: float = APART
    proven: float = math.inf
    """The m above which a step must prove itself: it grows only while moves shrink and agents are close, and is cut otherwise."""

    @classmethod
    def of(cls, spectrum: Spectrum, flooding_rounds: int, gap: float | None = None, **constants: Any) -> Self:
        """The limits on a network with this spectrum and D; ``gap`` is that of the matrix with which an iteration mixes."""
        own = 1.0 - spectrum.lambda_2
        window = max(30, round(3.0 / (own if gap is None else gap)))
        return cls(own, window, window + flooding_rounds, **constants)


def most_tracking(gap: float, aim: float) -> float:
    """The largest m of tracking with one exchange, which has no use for more than twice the step that the slowest mode of consensus
    asks for; ``aim`` is the product of first step and curvature."""
    return 6.0 * math.log2(2.0 * math.sqrt(gap) / aim)


class JudgedState(Protocol):
    """A state with a place for the progress, and otherwise the names of `tracking` or `extra`."""

    @property
    def x(self) -> Array: ...
    @property
    def step_size(self) -> Array: ...
    @property
    def k(self) -> int: ...
    @property
    def gradients(self) -> int: ...
    @property
    def progress(self) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...


class Progress(NamedTuple):
    """The quantities of the rule; its numbers are the same on all agents."""

    verdict: Array
    """``(n_local,)``: the largest verdict known to an agent."""
    stopped: Array
    """``(n_local,)``: 1 for agents whose move was too long."""
    circling: Array
    """``(n_local,)``: the blocks in a row in which an agent's moves neither shrank nor went straight ahead."""
    drifting: Array
    """``(n_local,)``: the blocks in a row in which an agent's moves grew."""
    sums: Array
    """``(n_local, 5)``: E and Q in the first half of the block, then E, Q and N in the second."""
    before: Array
    """x_{k-1}, like x."""
    apart: Array
    """z_{k-1}, like x."""
    first: Array
    """``(n_local, 2)``: the first steps and penalties."""
    good: JudgedState
    """The last state that was judged below 1, and its m; the start before."""
    candidate: JudgedState
    """The state at the end of the window, which is the next good one if its block is judged below 1."""
    good_exponent: int = 0
    exponent: int = 0
    """m."""
    wait: int = 0
    patience: int = PATIENCE
    cut: bool = False
    """True in the block after a cut."""
    trial: bool = False
    """True in the first block of a larger step."""


class Judged(Method, ABC):
    """A method with a setting ``step_size``, whose step can be judged by its moves; its state is a `JudgedState`."""

    step_size: Any

    @property
    def exact(self) -> bool:
        """True if its gradients are exact and its steps are as given."""
        return True

    @property
    def follows(self) -> bool:
        """True if it has penalties that are multiples of 1 / step."""
        return False

    @abstractmethod
    def limits(self, spectrum: Spectrum, flooding_rounds: int) -> Limits:
        """The constants of the rule, on a network with this spectrum and D."""

    @abstractmethod
    def rescaled(self, state: JudgedState, step: Array, ratio: float) -> JudgedState:
        """The state with other steps, ``ratio`` times those before."""

    def penalised(self, problem: Problem[object], state: JudgedState, penalty: Array) -> JudgedState:
        """The state with the penalties that follow the steps, if `follows`."""
        return changed(state, penalty=penalty)

    def resolved(self, network: Network) -> Self:
        """This method, with growing steps for automatic ones if several agents on a steady network can judge them."""
        grows = self.step_size == "auto" and self.exact and network.steady and network.n_agents > 1
        return replace(self, step_size=GrowingStep()) if grows else self  # type: ignore[type-var]  # all are dataclasses

    def running(self) -> Any:
        """The method that runs: this one, or `Growing` around it."""
        return Growing(self) if isinstance(self.step_size, GrowingStep) else self


@dataclass(frozen=True, kw_only=True)
class Exact(Judged, Decentralized):
    """A method that is exact with a constant step, so that its step can be judged by its moves.

    Parameters
    ----------
    step_size
        A number > 0; constant: from the agents' Lipschitz constants, the spectrum of W and a given penalty; growing: from there on
        as long as the agents' moves allow; auto: growing where that is possible, otherwise constant; or a schedule (diminishing,
        horizon).
    """

    step_size: GrowingStepSize = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.step_size, GrowingStep) and not self.exact:
            raise ValueError(
                "growing steps are judged by moves along exact gradients from one step to the "
                "next: leave out batch_size and safe, or take step_size auto"
            )

    @property
    def exact(self) -> bool:
        return self.batch_size is None

    def rescaled(self, state: JudgedState, step: Array, ratio: float) -> JudgedState:
        return changed(state, step_size=step, base=step)


@cache
def _limits(method: Judged, spectrum: Spectrum, flooding_rounds: int) -> Limits:
    return method.limits(spectrum, flooding_rounds)


class Through:
    """The network for one iteration, whose messages carry another number."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.n_agents = network.n_agents

    @property
    def spectrum(self) -> Spectrum:
        """The spectrum of the network."""
        return self._network.spectrum


class _Heard(Through):
    """The network that keeps z of the first message and lets the verdicts travel in it."""

    def __init__(self, network: Network, verdict: Array | None) -> None:
        super().__init__(network)
        self.verdict = verdict
        self.apart: Array | None = None

    def mix(self, *xs: Array, rounds: int = 1, push: tuple[Array, ...] = ()) -> tuple[Array, ...]:
        xs = (*xs, *push)
        if self.apart is not None:
            return self._network.mix(*xs, rounds=rounds)
        if self.verdict is None:
            mixed = self._network.mix(*xs)
        else:
            self.verdict, *others = self._network.mix_and_max(self.verdict, *xs)
            mixed = tuple(others)
        self.apart = xs[0] - mixed[0]
        return mixed if rounds == 1 else self._network.mix(*mixed, rounds=rounds - 1)


class Around:
    """A method that changes the steps of another one.

    Parameters
    ----------
    method
        The other method.
    """

    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"

    def __init__(self, method: Any) -> None:
        self.method, self.step_size = method, method.step_size
        self.requires, self.requires_set = method.requires, method.requires_set
        self.gradient_factor = method.gradient_factor


class Growing(Around):
    """A method with growing steps.

    Parameters
    ----------
    method
        The `Judged` method.
    """

    every_message: ClassVar[bool] = True
    """The verdicts must reach all agents: it is not for unreliable networks."""

    def __init__(self, method: Judged) -> None:
        super().__init__(method)
        self.given = method.step_size.initial != "auto"
        self.least = GIVEN_LEAST if self.given else LEAST

    def init(self, problem: Problem[object], network: Network, streams: Streams, x0: Array) -> JudgedState:
        """The method's first state, and the progress of a run that has not judged its step yet."""
        state = self.method.init(problem, network, streams, x0)
        penalties = state.penalty if self.method.follows else state.step_size
        first = np.stack((state.step_size, penalties), axis=-1)
        good, numbers, none = _copied(state), np.zeros((4, len(x0))), np.zeros((2, *x0.shape))
        sums = np.zeros((len(x0), 5))
        p = Progress(numbers[0], numbers[1], numbers[2], numbers[3], sums, none[0], none[1], first, good, good)
        return changed(state, progress=p)

    def step(self, problem: Problem[object], network: Network, streams: Streams, state: JudgedState) -> JudgedState:
        """An iteration of the method, and at the end of a block the change of its step."""
        rule, p = _limits(self.method, network.spectrum, network.flooding_rounds), state.progress
        j = state.k % rule.block
        spreading, sampled = j >= rule.window, j % _EVERY == _EVERY - 1
        compared = j >= rule.window // 2 and j % _EVERY >= _EVERY - 2 and not spreading
        seen: Any = network
        if spreading or compared:
            seen = _Heard(network, p.verdict if spreading else None)
        moved: JudgedState = self.method.step(problem, seen, streams, changed(state, progress=()))
        if spreading:
            p = p._replace(verdict=seen.verdict)
        if sampled:
            self._measure(rule, p, j, state.x, moved, seen.apart if compared else None)
        elif j % _EVERY == _EVERY - 2:
            p = p._replace(before=state.x, apart=seen.apart if compared else p.apart)
        if j + 1 == rule.window:
            self._judge(rule, p)
            p = p._replace(candidate=_copied(moved))
        if j + 1 == rule.block:
            moved, p = self._decide(rule, problem, moved, p)
        return changed(moved, progress=p)

    def _measure(self, rule: Limits, p: Progress, j: int, x: Array, moved: JudgedState, apart: Array | None) -> None:
        """Add to the sums of this block; agents whose move is too long stop at the good state."""
        move = moved.x - x
        size = sums(move * move)
        if p.exponent > self.least:
            reach = 0.25 if p.exponent > 0 else _FAR
            p.stopped[~(size <= reach * sums(p.good.x * p.good.x))] = 1.0
            agents = np.flatnonzero(p.stopped)
            if len(agents):
                for array, kept in zip(arrays(moved), arrays(p.good), strict=True):
                    array[agents] = kept[agents]
        if _SKIPPED <= j < rule.window:
            turn, column = move - (x - p.before), 0 if j < rule.window // 2 else 2
            p.sums[:, column] += sums(turn * turn)
            p.sums[:, column + 1] += size
            if apart is not None:
                change = apart - p.apart
                p.sums[:, 4] += sums(change * change)

    def _judge(self, rule: Limits, p: Progress) -> None:
        """The agents' own verdicts on this block."""
        half = rule.window // 2
        parts = range(_SKIPPED, half), range(half, rule.window)
        samples = [sum(j % _EVERY == _EVERY - 1 for j in part) for part in parts]
        e1, q1, e2, q2, n2 = p.sums.T
        rest = q2 <= samples[1] * ROUNDING**2 * sums(p.before * p.before)
        with np.errstate(all="ignore"):
            tau, delta = e2 / q2, n2 / (rule.gap * rule.gap * q2)
            u, q = np.where(rest, 0.0, (e2 / e1, q2 / q1)) * (samples[0] / samples[1])
        turning = tau > TURNING
        bad = (turning & (u > 1.0)) | ((delta > rule.apart) & (q > 0.9))
        waits = turning | (delta > rule.hold)
        if p.exponent >= rule.proven:
            waits |= (delta > CLOSE) | (q > 0.9)
        if p.exponent > rule.proven:
            bad |= turning | (delta > APART)
        if p.cut:
            bad &= q > 2.0
        p.verdict[...] = np.where(bad, 2.0, np.where(waits, 1.0, 0.0))
        if p.exponent > 0:
            p.circling[...] = np.where((q > 0.97) & (u > 0.97) & (tau > 3e-5), p.circling + 1.0, 0.0)
            p.drifting[...] = np.where(q > 1.02, p.drifting + 1.0, 0.0)
            for blocks, most, verdict in ((p.circling, 4.0, 2.0), (p.drifting, 6.0, 3.0)):
                p.verdict[blocks == most] = verdict
                blocks[blocks == most] = 0.0
            p.verdict[turning & (u > 30.0)] = 4.0
        p.verdict[rest] = REST
        p.verdict[p.stopped > 0.0] = 4.0

    def _decide(self, rule: Limits, problem: Problem[object], state: JudgedState, p: Progress) -> tuple[JudgedState, Progress]:
        """The state and the progress after a block, by the network's verdict."""
        verdict, now, pace = float(p.verdict[0]), p.exponent, rule.pace if p.patience == PATIENCE else 2
        fresh = self.given and p.good.k == 0
        if verdict < 1:
            p = p._replace(good=p.candidate, good_exponent=now)
        if verdict < 2:
            grows = verdict == 0 and p.wait == 0 and now + pace <= rule.most
            following = p._replace(exponent=now + pace * grows, wait=max(p.wait - 1, 0), cut=False, trial=grows)
        else:
            if verdict == 4 or ((p.trial or fresh) and verdict == 2):
                state, now = changed(_copied(p.good), k=state.k, gradients=state.gradients), p.good_exponent
                p.stopped[...] = 0.0
            lower = p.exponent - (pace if p.exponent > 0 and verdict != 3 else 6)
            exponent = max(lower, self.least if verdict == 4 or self.given else min(p.exponent, 0))
            patience = 2 * p.patience if p.wait == 0 else p.patience
            following = p._replace(exponent=exponent, wait=patience // 2, patience=patience, cut=not fresh, trial=False)
        p.verdict[...] = 0.0
        p.sums[...] = 0.0
        return self._at(problem, state, now, following), following

    def _at(self, problem: Problem[object], state: JudgedState, now: int, p: Progress) -> JudgedState:
        """The state with the step of ``p`` instead of that of the exponent ``now``."""
        if now == p.exponent:
            return state
        multiple, ratio = 2.0 ** (p.exponent / 6.0), 2.0 ** ((p.exponent - now) / 6.0)
        state = self.method.rescaled(state, p.first[:, 0] * multiple, ratio)
        if self.method.follows:
            state = self.method.penalised(problem, state, p.first[:, 1] / multiple)
        return state


def _copied(state: JudgedState) -> JudgedState:
    """A state that shares no memory with ``state``."""
    return type(state)(*[entry.copy() if isinstance(entry, np.ndarray) else entry for entry in state])
