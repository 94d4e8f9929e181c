"""Safe steps on a network: every agent's point stays in ||x^T x - I||_F <= eps, for any given step
size.

The rule is not from paper 004, whose guaranteed steps (Proposition IV.1) are some 1e9 times smaller
than useful ones, and not the safe step of a single agent (Ablin & Peyre 2022), which does not hold
for agents that mix. Here steps are halved until they are safe. The number of halvings is an agent's
label h_i: its steps are 2^-h_i times the given ones, and where the penalty follows the step, it is
2^h_i times as large. An iteration uses only edges between agents of equal label: its mixing matrix
is W(h),

    W(h)_ij = W_ij [h_i = h_j] (i != j),    W(h)_ii = 1 - sum_{j != i} W(h)_ij,

symmetric and doubly stochastic like W. Then every agent updates its label from its own new point
and its neighbours' labels:

    h_i <- max(h_i + [||x_i^T x_i - I||_F > eps], max_{j: W_ij > 0} h_j)

and if its label has risen it starts over from the common start, x_i = x_0 and y_i = Lambda_i(x_0),
without momentum.
So a label that one agent needs reaches all agents in at most as many iterations as the graph's
diameter; agents of equal label have equal steps; and among the agents of the largest label the mean
of the trackers stays the mean of the fields, since an agent that joins them has y_i = Lambda_i.

Every agent begins with the least label whose first step, x_0 - alpha_i Lambda_i(x_0), stays inside:
a step 1e8 times too large is corrected at once, and few halvings are left for later. A point that
is not a number counts as outside. Safe means inside: nothing here uses the objective, and no step
grows again.

    h_i     progress.label          x_0             progress.start
    y_i     state.tracker           Lambda_i(x_0)   progress.start_field
    W(h)    network.mix_alike
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from ...protocols import Array, ConstraintSet, Declared, Network, Problem, Streams
from ...settings import Range
from .wrappers import CarryingNumber, WrappedState, Wrapper

LAST = 1100
"""The number of halvings after which a step is zero. An agent that is outside even then (its
gradient is not a number) stays there: the run has diverged."""


Eps = Annotated[
    float, Range(above=0, below=0.75), "The safety region ||x^T x - I||_F <= eps of safe."
]


class SafeProgress(NamedTuple):
    """The quantities of safe steps."""

    label: Array
    """``(n_local,)``: the number of halvings."""
    start: Array
    """x_0."""
    start_field: Array
    """The field there, like x."""


P = Problem[ConstraintSet]


class Safe(Wrapper):
    """A method with safe steps, for networks: `Landing` has its own.

    Parameters
    ----------
    method
        The method, with the settings penalty and eps; its state is a `PenalisedState`.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> method = do.Safe(do.DRFGT(step_size=0.5))
    >>> result = do.solve(problem, method, "ring", iterations=200)
    >>> result.status
    'iterations'
    """

    safe: ClassVar[bool] = True

    def __init__(self, method: Any) -> None:
        super().__init__(method)
        self.eps = method.eps

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> WrappedState:
        """The method's first state, with steps whose first moves stay inside."""
        state = self.method.init(problem, network, streams, x0)
        label = np.zeros(len(state.x))
        for block, part in problem.blocks():
            x = state.x[block]
            field = state.field[block]
            step = state.step_size[block].copy()
            own = label[block]
            outside = np.ones(len(x), dtype=np.bool_)
            while len(np.flatnonzero(outside)):
                inside = part.constraint.feasibility(x - step[:, None, None] * field) <= self.eps
                outside = ~inside & (own < LAST)
                own += outside
                step[outside] *= 0.5
        self._halve(state, label, slice(None))
        return WrappedState(state, SafeProgress(label, state.x.copy(), state.field.copy()))

    def step(
        self, problem: P, network: Network, streams: Streams, state: WrappedState
    ) -> WrappedState:
        """Run an iteration in which only agents of equal label exchange messages.

        Agents outside the safety region, and agents with a lower label, start over.
        """
        old, p = state
        alike = _Alike(network, p.label)
        moved = self.method.step(problem, alike, streams, old)
        outside = np.empty(len(moved.x), dtype=np.bool_)
        for block, part in problem.blocks():
            outside[block] = ~(part.constraint.feasibility(moved.x[block]) <= self.eps)
        label = np.maximum(alike.heard, p.label + outside)
        rise = label - p.label
        again = np.flatnonzero(rise)
        if len(again):
            again = again[label[again] <= LAST]
            moved.x[again] = p.start[again]
            moved.tracker[again] = moved.field[again] = p.start_field[again]
            for momentum in moved.momenta:
                momentum[again] = 0.0
            self._halve(moved, rise, again)
        return WrappedState(moved, p._replace(label=label))

    def _halve(self, state: Any, times: Array, agents: Any) -> None:
        """Halve the steps of ``agents`` ``times`` times, and double the penalties that follow them;
        exact, in place."""
        n = times[agents].astype(np.int64)
        state.step_size[agents] = np.ldexp(state.step_size[agents], -n)
        state.base[agents] = np.ldexp(state.base[agents], -n)
        if Declared.of(self.method).penalty_follows:
            state.penalty[agents] = np.ldexp(state.penalty[agents], n)


class _Alike(CarryingNumber):
    """The network restricted to edges between agents of equal label, and the largest label that
    each agent has received."""

    def __init__(self, network: Network, label: Array) -> None:
        super().__init__(network)
        self.heard = self._label = label

    def mix(self, *xs: Array, rounds: int = 1) -> tuple[Array, ...]:
        for _ in range(rounds):
            heard, *mixed = self._network.mix_alike(self._label, *xs)
            self.heard = np.maximum(self.heard, heard)
            xs = tuple(mixed)
        return xs
