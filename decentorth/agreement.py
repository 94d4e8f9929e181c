"""Agents find out by themselves whether all of them are done: max-consensus of what each can tell of itself.

Every so many iterations, between two of them, agent i computes some numbers from what it has (q_i below), and then the agents tell
their neighbours R times the largest that they know of,

    m_i <- max(m_i, max_{j: W_ij != 0} m_j),    m_i = q_i at first                     (1)

With R at least the diameter of the graph, m_i is max_j q_j for every i: exactly, as nothing is rounded. So all agents decide alike,
in the same iteration, by comparing m_i with the tolerance, and nobody waits for one that has gone. What is compared belongs to the
points at which the run then ends. What the agents must know beforehand: R, the tolerances, and at which iterations to do so.

    gradient        c ||y_i||, y_i the tracker; of a single agent the Riemannian gradient at the projection of its point
    movement        ||x_i - (x_i an iteration ago)|| / (its step)
    disagreement    ||x_i - sum_j W_ij x_j||, one more exchange of the points (as many as a period has, where W repeats itself)
    feasibility     ||x_i^T x_i - I||, or what the set has in its place

What they imply. Let a bound all of them and W have the second eigenvalue lambda_2. Since the mean of the trackers is that of the
fields F_i(x_i), no disagreement is hidden in ||mean of y|| <= max ||y_i||, and the mean xbar of the points has

    ((1/n) sum_i ||x_i - xbar||^2)^{1/2} <= r = a / (1 - lambda_2)                     (2)
    consensus_rms <= (r^2 + (r + a)^2)^{1/2} = s                                       (3)
    gradient_norm <= a + c L s                                                         (4)

where (3) holds as dist(xbar) <= ||xbar - x_i|| + dist(x_i), for the nearest x_i, and dist(x_i) <= ||x_i^T x_i - I||; in (4) L is a
Lipschitz constant of the fields between the x_i and the projection of xbar, and ||grad f|| <= c ||(1/n) sum_i F_i|| there: c = 2
for the landing field, 1 for the others. With ``safe`` that is so once all agents' labels agree. Movement is weaker: where
x_i <- sum_j W_ij x_j - alpha F_i(x_i) with one alpha for all, the mean of the F_i an iteration ago is at most a, which for methods
that retract holds to first order; it says nothing where W and the agents' data hold each other in balance elsewhere, and with steps
that diminish it need not vanish.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from .checkpoint import Moment
from .protocols import Agreed, Array, Nonsmooth, Projection, Quantity, Stop, StoppingRule, TracksGradient
from .stopping import LocalMaximum, rules_of
from .sums import norms


class Tally(NamedTuple):
    """Costs of agreeing so far; contained in the network's own counts."""

    attempts: int = 0
    rounds: int = 0
    messages: int = 0
    bytes: int = 0


class Agreement:
    """The agents of a run, in so far as they decide about its end.

    Parameters
    ----------
    rules
        By which they do, at least one.
    problem, algorithm, network
        Those of the run.

    Attributes
    ----------
    quantities
        What is told, in order.
    every, rounds
        Iterations between attempts, rounds of max-consensus in one.
    next
        The iteration at which to `look` again.
    wanted
        The last iteration at which the agents found a tolerance reached, and want a row.
    latest
        What the agents know, and since when; None before the first attempt.
    tally
        What it has taken.

    Raises
    ------
    ValueError
        The rules contradict each other, no number of rounds is enough, or the agents cannot know a quantity.
    """

    def __init__(self, rules: Sequence[LocalMaximum], problem: Any, algorithm: Any, network: Any) -> None:
        self.rules = tuple(rules)
        if len({(rule.every, rule.rounds) for rule in rules}) > 1:
            raise ValueError("local tolerances that are combined must have the same every and rounds: the agents meet once for all")
        self._problem, self._network = problem, network
        self._alone = problem.n_agents == 1
        self._tracks = isinstance(algorithm, TracksGradient)
        estimated = self._alone or self._tracks
        self._usual: tuple[Quantity, ...] = ("gradient" if estimated else "movement", "disagreement", "feasibility")
        asked = {name for rule in rules for name in rule.quantities or self._usual}
        self.quantities = tuple(name for name in _QUANTITIES if name in asked)
        if "gradient" in asked and not estimated:
            raise ValueError(
                f"agents of {type(algorithm).__name__} have no estimate of the mean gradient: give a local tolerance for movement, "
                "disagreement or feasibility"
            )
        if "gradient" in asked and isinstance(problem, Nonsmooth) and problem.nonsmooth:
            raise ValueError(
                "a local tolerance on the gradient needs a differentiable problem, as a subgradient's norm need not vanish: give "
                "one for movement, disagreement or feasibility"
            )
        self._factor = float(algorithm.gradient_factor) if self._tracks else 1.0
        self.rounds = self._enough(rules[0].rounds, network)
        self._mixes = 0 if self._alone or "disagreement" not in asked else network.period
        self.every = rules[0].every or 10 * max(1, self.rounds + self._mixes)
        self.latest: Agreed | None = None
        self.tally = Tally()
        self._before: tuple[Array, Array] | None = None
        self.next, self.wanted = 0, -1

    @classmethod
    def of(cls, stopping: StoppingRule | None, problem: Any, algorithm: Any, network: Any) -> Self | None:
        """The agreement by a combination of rules; None where the agents have no say in it."""
        rules = rules_of(LocalMaximum, stopping)
        return cls(rules, problem, algorithm, network) if rules else None

    def _enough(self, given: int | None, network: Any) -> int:
        needed: int = network.flooding_rounds
        if given is not None and given < needed:
            raise ValueError(
                f"{given} rounds of max-consensus are too few for this network: it takes {needed} until everybody has heard of "
                "everybody, so agents would decide differently"
            )
        return needed if given is None else given

    @property
    def exchanges(self) -> int:
        """Rounds of an attempt, the exchange of points included."""
        return self.rounds + self._mixes

    def look(self, moment: Moment) -> Stop | None:
        """Let the agents meet where they do at this iteration, and want a row where they find a tolerance reached."""
        state = moment.state
        k = state.k
        if k % self.every == 0 and (self.latest is None or self.latest.iteration != k) and self._meet(state):
            self.wanted = k
        due = k - k % self.every + self.every
        self.next = due
        if "movement" in self.quantities:
            if due == k + 1:
                self._before = (state.x.copy(), np.copy(getattr(state, "step_size", 1.0)))
            self.next = max(k + 1, due - 1)
        return None

    def _meet(self, state: Any) -> bool:
        problem, network = self._problem, self._network
        begun = (network.rounds, network.messages, network.bytes)
        with network.reliable():
            found = network.max(self.quantities_of(problem, network, state), self.rounds)
        ended = (network.rounds, network.messages, network.bytes)
        spent = [now - then for now, then in zip(ended, begun, strict=True)]
        self.tally = Tally(*[so_far + more for so_far, more in zip(self.tally, (1, *spent), strict=True)])
        maxima = dict(zip(self.quantities, found[0].tolist(), strict=True))
        self.latest = Agreed(state.k, self.rounds, maxima, self._usual)
        return any(rule.reached(self.latest) for rule in self.rules)

    def quantities_of(self, problem: Any, network: Any, state: Any) -> Array:
        """``(n_local, number of quantities)``: what each agent can tell of itself."""
        return np.stack([_QUANTITIES[name](self, problem, network, state) for name in self.quantities], axis=-1)

    def _gradient(self, problem: Any, network: Any, state: Any) -> Array:
        if not self._alone:
            return self._factor * norms(state.tracker)
        constraint, x = problem.constraint, state.x
        hat = constraint.project(x) if isinstance(constraint, Projection) else x
        if not np.isfinite(hat).all():
            return np.full(1, np.nan)
        return norms(constraint.tangent(hat, problem.gradient(hat)))

    def _movement(self, problem: Any, network: Any, state: Any) -> Array:
        if self._before is None:
            return np.full(len(state.x), np.inf)
        before, step = self._before
        return norms(state.x - before) / np.maximum(step, np.finfo(np.float64).tiny)

    def _disagreement(self, problem: Any, network: Any, state: Any) -> Array:
        if self._alone:
            return np.zeros(1)
        (mixed,) = network.mix(state.x, rounds=self._mixes)
        return norms(state.x - mixed)

    def _feasibility(self, problem: Any, network: Any, state: Any) -> Array:
        products = getattr(state, "product_tracker", None)  # where nobody knows B, what agents believe B x to be
        found = np.empty(len(state.x))
        for block, part in problem.blocks():
            known = {} if products is None else {"bx": products[block]}
            found[block] = part.constraint.feasibility(state.x[block], **known)
        return found

    def saved(self) -> dict[str, Any]:
        """The part that a checkpoint holds."""
        latest = {} if self.latest is None else {"iteration": self.latest.iteration, "maxima": self.latest.maxima}
        return {"tally": self.tally, **latest}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on with what `saved` gave; what the agents know counts if they were told the same quantities."""
        if saved:
            self.tally = Tally(*saved["tally"])
        if tuple(saved.get("maxima", ())) == self.quantities:
            self.latest = Agreed(saved["iteration"], self.rounds, saved["maxima"], self._usual)


_QUANTITIES: dict[Quantity, Callable[[Agreement, Any, Any, Any], Array]] = {
    "gradient": Agreement._gradient,
    "movement": Agreement._movement,
    "disagreement": Agreement._disagreement,
    "feasibility": Agreement._feasibility,
}
