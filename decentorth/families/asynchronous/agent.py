"""One agent of the asynchronous method: its activation, with mass counters in fixed point.

The activation of agent i, at any time; A_ij = 1 / (in-degree + 1), B_ji = 1 / (out-degree + 1):

    v_i <- x_i - alpha_i z_i                                                              (1)
    x_i <- (v_i + sum_j v_j) / (in-degree + 1)             v_j of the newest message used    (2)
    z_i <- z_i + sum_j (rho_j - used_ij) + Lambda_i(new x_i) - Lambda_i(old x_i)          (3)
    used_ij <- rho_j
    rho_i <- rho_i + s,  z_i <- z_i - (out-degree) s,      s = floor(z_i / (out-degree + 1))  (4)
    send (version, v_i, rho_i), which may be lost, to every out-neighbour                    (5)

rho_i is the mass that agent i has ever sent over each of its out-edges, so a lost message loses
nothing: the next one that arrives carries its mass too. All masses are whole multiples of one
quantum, as int64 modulo 2^64: `rho_j - used_ij` is right across the wrap, and two invariants hold
exactly, whatever is lost or late, also when an agent falls back to a checkpoint:

    z_i - Lambda_i = sum_j used_ij - (out-degree) rho_i                      of every agent alone
    sum_i z_i + sum over edges (rho_j - used_ij) = sum_i Lambda_i            their sum

Counters as in Tian, Sun, Scutari, "Achieving linear convergence in distributed asynchronous
multiagent optimization" (ASY-SONATA, 2020), and Zhu, Tian, Huang, Xu, Scutari, "R-FAST: robust
fully-asynchronous stochastic gradient tracking over general topology" (2024), here with the landing
field of paper 004 and in fixed point.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from decentorth.algorithms.common.fields import landing
from decentorth.numerics.ordered_sums import norms
from decentorth.protocols import Array, ConstraintSet, Index, Landing, Problem

Mass = NDArray[np.int64]
QUANTUM_BITS = 54
"""The largest entry of a field or gradient at the start is about this power of two times the
quantum."""
_LIMIT = 1 << 62
COUNT = (1 << 40) - 1
"""The bits of a version that count activations; those above are the incarnation, raised when an
agent comes back."""
_FASTER = 10.0
"""The largest ratio of rates that a step makes up for."""
_SMOOTH = 10
_CALM = 10
"""Activations for which an agent's quantities must be small before it says so."""
AGREED, SPENT = 4, 5
"""Levels of agents that will stop: by agreement, or with all activations used."""


class Message(NamedTuple):
    """The message of one activation; the same to all out-neighbours."""

    version: int
    """The number of the sender's activations, with its incarnation in the high bits."""
    point: Array
    """v_j, ``(1, d, r)``."""
    sent: Mass
    """rho_j, the mass ever sent over each of the sender's out-edges."""
    known: Index
    """``(2, n)``: for each agent the newest version known to the sender, and its level."""

    @property
    def bytes(self) -> int:
        """The size of the message in bytes."""
        return 8 + self.point.nbytes + self.sent.nbytes + self.known.nbytes

    def words(self) -> Index:
        """The message as int64 words; floats keep their bits."""
        parts = (self.point.ravel().view(np.int64), self.sent.ravel(), self.known.ravel())
        return np.concatenate(([self.version], *parts))

    def read(self, words: Index) -> Message:
        """Decode a message from int64 words; its arrays have the shapes of this message's
        arrays."""
        size = self.point.size
        shape = self.point.shape
        return Message(
            int(words[0]),
            words[1 : 1 + size].view(np.float64).reshape(shape),
            words[1 + size : 1 + 2 * size].reshape(shape),
            words[1 + 2 * size :].reshape(self.known.shape),
        )


def quantum(largest: float) -> float:
    """The quantum of the masses, a power of two, from the largest entry of all agents' fields and
    gradients at the start."""
    if not 0.0 < largest < math.inf:
        largest = 0.5  # its exponent is 0
    return math.ldexp(1.0, math.frexp(largest)[1] - QUANTUM_BITS)


class LandingSet(Landing, ConstraintSet, Protocol):
    """A set with a landing field and a measure of infeasibility."""


class AsynchronousAgent:
    """An agent with its own state and the newest messages from its neighbours.

    Parameters
    ----------
    number
        The agent's number.
    problem
        The problem of this agent alone.
    x
        The point, ``(1, d, r)``; changed in place.
    unit
        The quantum.
    step, penalty
        alpha and lambda.
    ins, outs
        Its in-neighbours, in the order of its sums, and its out-neighbours.
    n_agents
        The number of all agents.
    tolerance
        The bound on its local quantities for an agreed end; None for no such end.

    Attributes
    ----------
    heard
        The newest message of each of ``ins`` that it has used.
    """

    def __init__(
        self,
        number: int,
        problem: Problem[LandingSet],
        x: Array,
        unit: float,
        step: float,
        penalty: float,
        ins: Sequence[int],
        outs: Sequence[int],
        n_agents: int,
        tolerance: float | None = None,
    ) -> None:
        self.number = number
        self.x = x
        self.unit = unit
        self.step = step
        self.ins = list(ins)
        self.outs = list(outs)
        self._problem = problem
        self._penalty = np.full(1, penalty)
        self._tolerance = tolerance
        self.version, self.finite, self._calm = 0, True, 0
        self.sent: Mass = np.zeros(x.shape, dtype=np.int64)
        self.used: list[Mass] = [self.sent] * len(self.ins)
        self.field = self._fixed(x)
        self.mass = self.field.copy()
        self.known: Index = np.zeros((2, n_agents), dtype=np.int64)
        self.heard = [self.first()] * len(self.ins)

    def first(self) -> Message:
        """Return the message of version 0: the common start and zero mass.

        Every agent can compute it without communication.
        """
        return Message(0, self.x.copy(), self.sent, self.known.copy())

    @property
    def activations_known(self) -> int:
        """The number of activations of all agents, as known to this agent."""
        return int((self.known[0] & COUNT).sum())

    def activate(self, heard: Sequence[Message]) -> Message:
        """Run one activation and return the message to send.

        ``heard`` holds the newest message from each of ``ins``.
        """
        v: Array = self.mass * np.float64(-self._own_step() * self.unit)
        v += self.x  # (1)
        x = v.copy()
        mass = self.mass
        outs = len(self.outs)
        for place, message in enumerate(heard):
            x += message.point
            if message.sent is not self.used[place]:
                mass += message.sent
                mass -= self.used[place]
                self.used[place] = message.sent
                np.copyto(self.known, message.known, where=message.known[0] > self.known[0])
        self.heard = list(heard)
        x *= 1.0 / (len(heard) + 1)  # (2)
        field = self._fixed(x)
        mass += field
        mass -= self.field  # (3)
        if self._tolerance is not None:
            self._judge(x, heard, self._tolerance)
        share = mass // (outs + 1)
        self.sent = self.sent + share
        mass -= outs * share  # (4)
        self.field, self.x[...] = field, x
        if not self.finite or np.abs(mass).max() > _LIMIT:
            self.finite, self.x[...] = False, np.nan
        self.version += 1
        self.known[0, self.number] = self.version
        return Message(self.version, v, self.sent, self.known.copy())  # (5)

    def _own_step(self) -> float:
        """alpha_i = alpha (fastest rate / own rate)^(1/2), at most sqrt(10) alpha, from the
        versions of the messages used."""
        counts = self.known[0] & COUNT
        ratio = (int(counts.max()) + _SMOOTH) / (int(counts[self.number]) + _SMOOTH)
        return self.step * math.sqrt(min(ratio, _FASTER))

    def _fixed(self, x: Array) -> Mass:
        """Lambda_i(x) in quanta."""
        field = landing(self._problem, x, self._penalty)
        field /= self.unit
        np.rint(field, out=field)
        if not np.abs(field).max() < _LIMIT:
            self.finite = False
            field[...] = 0.0
        return field.astype(np.int64)

    def balance(self) -> Mass:
        """z_i - Lambda_i - sum_j used_ij + (out-degree) rho_i: exactly zero, modulo 2^64, after
        each activation."""
        total: Mass = self.mass - self.field + len(self.outs) * self.sent
        for used in self.used:
            total -= used
        return total

    def _judge(self, x: Array, heard: Sequence[Message], tolerance: float) -> None:
        """Update this agent's level.

        It is 0 until tracker, disagreement and infeasibility have been small for some activations.
        It is then one more than the least known level, at most 3. At 3 for all agents the run ends,
        and every agent that learns it stops.
        """
        largest = max(
            2.0 * self.unit * float(norms(self.mass.astype(np.float64))[0]),
            float(self._problem.constraint.feasibility(x)[0]),
            *[float(norms(x - message.point)[0]) for message in heard],
        )
        self._calm += 1
        if not largest <= tolerance:
            self._calm = 0
        levels = self.known[1]
        if levels.max() < AGREED:
            levels[self.number] = 3
            if self._calm >= _CALM:
                levels[self.number] = min(1 + int(levels.min()), 3)
            else:
                levels[self.number] = 0
            if levels.min() == 3:
                levels[self.number] = AGREED
        else:
            levels[self.number] = levels.max()

    @property
    def level(self) -> int:
        """0 to 3, or `AGREED` or `SPENT` if the agent will stop."""
        return int(self.known[1, self.number])

    def spend(self, activations: int) -> None:
        """Stop if the known activations add up to ``activations``, or a neighbour reported the
        end."""
        levels = self.known[1]
        if levels.max() >= AGREED:
            levels[self.number] = levels.max()
        elif self.activations_known >= activations:
            levels[self.number] = SPENT

    def checkpoint(self) -> Index:
        """Return the agent's state and its neighbours' newest messages as int64 words.

        The words keep the bits of floats. Messages in transit are not needed.
        """
        own = self.x, self.mass, self.field, self.sent, self.known
        parts: list[Array | Index] = [*own, *self.used]
        for message in self.heard:
            parts += [np.array([message.version]), message.point, message.sent]
        words = (part.reshape(-1).view(np.int64) for part in parts)
        return np.concatenate([[self.version, self._calm], *words])

    def take(self, saved: Index) -> None:
        """Restore the state in ``saved``, a `checkpoint` of this agent.

        Raises ValueError if the state violates the agent's invariant.
        """
        size = self.x.size
        shape = self.x.shape
        degree = len(self.ins)
        lengths = [2, *[size] * 4, self.known.size, *[size] * degree, *[1, size, size] * degree]
        if len(saved) != sum(lengths):
            raise ValueError(f"it has {len(saved)} words instead of {sum(lengths)}")
        ends = list(accumulate(lengths[:-1]))
        head, x, mass, field, sent, known, *rest = np.split(saved.copy(), ends)
        self.version, self._calm = head.tolist()
        self.mass, self.field, self.sent = (one.reshape(shape) for one in (mass, field, sent))
        self.known = known.reshape(self.known.shape)
        self.used = [used.reshape(shape) for used in rest[:degree]]
        messages = zip(*[iter(rest[degree:])] * 3, strict=True)
        nothing = np.zeros(self.known.size, np.int64)
        self.heard = [self.first().read(np.concatenate((*parts, nothing))) for parts in messages]
        if self.balance().any() or self.version < 0 or not np.isfinite(x.view(np.float64)).all():
            raise ValueError("its masses do not balance")
        self.x[...] = x.view(np.float64).reshape(shape)

    def come_back(self, before: int) -> None:
        """Continue from the state of `take` with a version above ``before``.

        ``before`` is the newest known version of this agent. Both parts of the version increase.
        The field is recomputed, because another machine may round it differently.
        """
        incarnation = max(before >> 40, self.version >> 40) + 1
        self.version = incarnation << 40 | max(before & COUNT, self.version & COUNT)
        self.known[0, self.number] = self.version
        self._calm, self.known[1] = 0, 0
        field = self._fixed(self.x)
        self.mass += field - self.field
        self.field = field
