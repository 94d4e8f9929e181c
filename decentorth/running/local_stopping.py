"""Agents decide to stop by themselves: max-consensus on each agent's local quantities.

At fixed iterations agent i computes its local quantities (q_i below). Neighbours then exchange
running maxima R times,

    m_i <- max(m_i, max_{j: W_ij != 0} m_j),    m_i = q_i at first                     (1)

With R at least the diameter of the graph, m_i is exactly max_j q_j for every i, since nothing is
rounded. All agents compare m_i with the tolerance and stop in the same iteration. None waits for
one that has stopped. The quantities are those of the final points. The agents must know R, the
tolerances and the iterations of the attempts beforehand.

    gradient        c ||y_i||, y_i the tracker; of a single agent the Riemannian gradient at the projection of its point
    movement        ||x_i - (x_i an iteration ago)|| / (its step)
    disagreement    ||x_i - sum_j W_ij x_j||, one more exchange of the points (as many as a period has, where W repeats itself)
    feasibility     ||x_i^T x_i - I||, or what the set has in its place

What they imply. Let a bound all of them and W have the second eigenvalue lambda_2. Since the mean
of the trackers is that of the fields F_i(x_i), no disagreement is hidden in ||mean of y|| <= max
||y_i||, and the mean xbar of the points has

    ((1/n) sum_i ||x_i - xbar||^2)^{1/2} <= r = a / (1 - lambda_2)                     (2)
    consensus_rms <= (r^2 + (r + a)^2)^{1/2} = s                                       (3)
    gradient_norm <= a + c L s                                                         (4)

where (3) holds as dist(xbar) <= ||xbar - x_i|| + dist(x_i), for the nearest x_i, and dist(x_i) <=
||x_i^T x_i - I||; in (4) L is a Lipschitz constant of the fields between the x_i and the projection
of xbar, and ||grad f|| <= c ||(1/n) sum_i F_i|| there: c = 2 for the landing field, 1 for the
others. With ``safe`` that is so once all agents' labels agree. Movement is weaker: where x_i <-
sum_j W_ij x_j - alpha F_i(x_i) with one alpha for all, the mean of the F_i an iteration ago is at
most a, which for methods that retract holds to first order. It proves nothing at other points where
W and the agents' data balance, and it need not vanish with diminishing steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ..numerics.ordered_sums import norms
from ..protocols import Agreed, Array, Declared, Observed, Problem, Quantity, Stop
from ..stopping import LocalMaximum, Rule, rules_of
from .checkpoint import Snapshot
from .checkpoint.checkpoint_files import Json
from .metrics import nonsmooth, projected, projects, splits_features


class Tally(NamedTuple):
    """Costs of agreeing so far; contained in the network's own counts."""

    attempts: int = 0
    rounds: int = 0
    messages: int = 0
    bytes: int = 0


USUAL: tuple[Quantity, ...] = ("gradient", "disagreement", "feasibility")
"""The quantities by default; without an estimate of the gradient movement in its place."""


class Agreement:
    """The agents' decisions about the end of a run, by one or more rules; a watcher.

    Attributes
    ----------
    quantities
        The names of the quantities that agents send, in order.
    every, rounds, exchanges
        Iterations between attempts, rounds of max-consensus in one, and all its rounds, with those
        for the points.
    wanted
        The last iteration at which the agents found a tolerance reached, and want a row.
    latest, tally
        The result of the last attempt, None before the first, and the costs so far.

    Raises
    ------
    ValueError
        The rules contradict each other, no number of rounds is enough, or the agents cannot know a
        quantity.
    """

    def __init__(
        self, rules: Sequence[LocalMaximum], problem: Problem[Any], algorithm: object, network: Any
    ) -> None:
        self.rules = tuple(rules)
        self._problem = problem
        self._network = network
        self._alone = problem.n_agents == 1
        factor = Declared.of(algorithm).gradient_factor
        self._factor = factor or 1.0
        self._usual = USUAL
        if factor is None and not self._alone:
            self._usual = ("movement", *USUAL[1:])
        asked = {name for rule in rules for name in rule.quantities or self._usual}
        self.rounds: int = network.flooding_rounds
        if rules[0].rounds is not None:
            self.rounds = rules[0].rounds
        _check(rules, asked, problem, self._usual)
        if self.rounds < network.flooding_rounds:
            raise ValueError(
                f"{self.rounds} rounds of max-consensus are too few for this network: it takes "
                f"{network.flooding_rounds} until every agent has heard of every other, so agents "
                "would decide differently"
            )
        measures = {
            "gradient": self._gradient,
            "movement": self._movement,
            "disagreement": self._disagreement,
            "feasibility": self._feasibility,
        }
        self._measures = {name: measure for name, measure in measures.items() if name in asked}
        self.quantities = tuple(self._measures)
        self._mixes = 0
        if "disagreement" in asked and not self._alone:
            self._mixes = network.period
        self.exchanges = self.rounds + self._mixes
        self.every = rules[0].every or 10 * max(1, self.exchanges)
        self.latest: Agreed | None = None
        self.tally = Tally()
        self._before: tuple[Array, Array | float] | None = None
        self.next = 0
        self.wanted = -1

    @classmethod
    def of(cls, stopping: Rule | None, *parts: Any) -> Self | None:
        """The agreement by the rules in a combination, with the other arguments; None where the
        agents do not decide."""
        rules = rules_of(LocalMaximum, stopping)
        return cls(rules, *parts) if rules else None

    def at(self, k: int) -> Agreed | None:
        """The result of the attempt at iteration ``k``, if it is the last one."""
        if self.latest is None or self.latest.iteration != k:
            return None
        return self.latest

    def look(self, snapshot: Snapshot) -> Stop | None:
        """Let the agents meet where they do at this iteration, and want a row where they find a
        tolerance reached."""
        state: Observed = snapshot.state
        k = state.k
        if k % self.every == 0 and self.at(k) is None and self._meet(state):
            self.wanted = k
        due = k - k % self.every + self.every
        self.next = due
        if "movement" in self.quantities:
            if due == k + 1:
                step = state.step_size.copy() if hasattr(state, "step_size") else 1.0
                self._before = state.x.copy(), step
            self.next = max(k + 1, due - 1)
        return None

    def _meet(self, state: Observed) -> bool:
        """True if the agents find a tolerance reached."""
        network = self._network
        before = np.array([network.rounds, network.messages, network.bytes])
        with network.reliable():
            own = np.stack([measure(state) for measure in self._measures.values()], axis=-1)
            found = network.max(own, self.rounds)
        spent = np.array([network.rounds, network.messages, network.bytes]) - before
        self.tally = Tally(*np.add(self.tally, [1, *spent]).tolist())
        maxima = dict(zip(self.quantities, found[0].tolist(), strict=True))
        self.latest = Agreed(state.k, self.rounds, maxima, self._usual)
        return any(rule.reached(self.latest) for rule in self.rules)

    def _gradient(self, state: Observed) -> Array:
        if not self._alone:
            return self._factor * norms(state.tracker)
        constraint = self._problem.constraint
        hat = state.x
        if projects(self._problem):
            hat = projected(self._problem, hat)
        if not np.isfinite(hat).all():
            return np.full(1, np.nan)
        return norms(constraint.tangent(hat, self._problem.gradient(hat)))

    def _movement(self, state: Observed) -> Array:
        if self._before is None:
            return np.full(len(state.x), np.inf)
        before, step = self._before
        return norms(state.x - before) / np.maximum(step, np.finfo(np.float64).tiny)

    def _disagreement(self, state: Observed) -> Array:
        if self._alone:
            return np.zeros(1)
        (mixed,) = self._network.mix(state.x, rounds=self._mixes)
        return norms(state.x - mixed)

    def _feasibility(self, state: Observed) -> Array:
        known = [state.x]
        if hasattr(state, "product_tracker"):
            known.append(state.product_tracker)
        found = np.empty(len(state.x))
        for block, part in self._problem.blocks():
            found[block] = part.constraint.feasibility(*[one[block] for one in known])
        return found

    def saved(self) -> Json:
        """The part that a checkpoint holds."""
        saved: dict[str, object] = {"tally": self.tally}
        if self.latest is not None:
            saved |= {"iteration": self.latest.iteration, "maxima": self.latest.maxima}
        return saved

    def restore(self, saved: Json) -> None:
        """Continue with the result of `saved`; its maxima count if they are of the same
        quantities."""
        if saved:
            self.tally = Tally(*saved["tally"])
        if tuple(saved.get("maxima", ())) == self.quantities:
            self.latest = Agreed(saved["iteration"], self.rounds, saved["maxima"], self._usual)


def _check(
    rules: Sequence[LocalMaximum], asked: set[Quantity], problem: object, usual: Sequence[Quantity]
) -> None:
    """Raise a ValueError for rules that these agents cannot follow."""
    if len({(rule.every, rule.rounds) for rule in rules}) > 1:
        raise ValueError(
            "local tolerances that are combined must have the same every and rounds: one attempt "
            "serves all of them"
        )
    if splits_features(problem):
        raise ValueError(
            "a local tolerance is for agents that hold a whole point; here each holds rows: give "
            "a gradient tolerance"
        )
    if "gradient" not in asked:
        return
    others = "for movement, disagreement or feasibility"
    if "gradient" not in usual:
        raise ValueError(
            "the agents of this method have no estimate of the mean gradient: give a local "
            f"tolerance {others}"
        )
    if nonsmooth(problem):
        raise ValueError(
            "a local tolerance on the gradient needs a differentiable problem, as a subgradient's "
            f"norm need not vanish: give one {others}"
        )
