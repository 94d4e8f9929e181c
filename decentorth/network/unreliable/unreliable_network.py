"""A network whose messages go through a channel."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...numerics.ordered_sums import Csr, accumulate, entry_rows
from ...protocols import Array, Index, JointSpectrum
from ..ledger import Contents, Ledger
from ..network import Arrays, InFlight, Network, Placement, Plan
from ..traffic import Traffic
from .channel import Channel, ChannelError
from .draws import Mask
from .faults import Coding, Delay, EdgeEnds, MessageLoss, any_of
from .message_memory import Memory

if TYPE_CHECKING:
    from scipy.sparse import csr_array


def edges_of(W: Csr | csr_array) -> EdgeEnds:
    """The edges of a symmetric matrix."""
    rows = entry_rows(W)
    below = W.indices < rows
    return EdgeEnds(W.indices[below].astype(np.int64), rows[below])


class _LossyPlan(Plan):
    """The exchange plan of one matrix, and the messages that are lost over its edges."""

    def __init__(self, W: Csr, network: Any) -> None:
        super().__init__(W, network)
        edges = edges_of(W)
        n = W.rows
        channel = network.channel
        self.directed = edges.directed()
        self._edges = len(edges.lower)
        self._repair = channel.repair
        losses = channel.all(MessageLoss)
        lost = [loss.lost(edges, network.seed, number) for number, loss in losses]
        self._losses = any_of(lost, 2 * self._edges)
        ordered = edges.upper * n + edges.lower
        self._sent: dict[Contents, Index] = {}
        # for each piece of the halo the numbers of its entries' messages; self-weights have the
        # last
        self._entries = []
        for piece in self.halo.pieces:
            sender = piece.agents[piece.block.indices]
            receiver = self.halo.agents.start + entry_rows(piece.block)
            upper = np.maximum(sender, receiver)
            lower = np.minimum(sender, receiver)
            edge = np.searchsorted(ordered, upper * n + lower)
            number = np.where(sender < receiver, edge, self._edges + edge)
            self._entries.append(np.where(sender == receiver, 2 * self._edges, number))

    def lost(self, t: int, asleep: Mask) -> Mask:
        """The mask of the ``directed`` messages of round ``t`` that do not arrive, or come from
        agents that sleep or go to them."""
        return self._losses(t) | asleep[self.directed.lower] | asleep[self.directed.upper]

    def tally(self, contents: Contents, messages: Index, size: Index) -> None:
        """Count messages and bytes, ``(2 * edges,)`` each, of the ``directed`` pairs."""
        known = self._sent.setdefault(contents, np.zeros((2, 2 * self._edges), dtype=np.int64))
        known += (messages, size)

    def enter(self, ledger: Ledger) -> None:
        super().enter(ledger)
        pairs = np.stack((self.directed.lower, self.directed.upper))
        for contents, (messages, size) in self._sent.items():
            ledger.add(contents, pairs, messages, size)

    def arriving(self, lost: Mask) -> list[Mask] | None:
        """For each piece of the halo the mask of its used entries; None if all are used."""
        if not lost.any():
            return None
        if self._repair:
            lost = np.tile(lost[: self._edges] | lost[self._edges :], 2)
        return self.entries(~lost, True)

    def entries(self, arrived: Mask, own: bool) -> list[Mask]:
        """For each piece of the halo the mask of its entries, from ``arrived``, ``directed``, and
        ``own`` for self-weights."""
        known = np.append(arrived, own)
        return [known[entries] for entries in self._entries]


class UnreliableNetwork(Network):
    """A `Network` with a `Channel`, through which messages go inside `iteration`: all others are
    delivered.

    Bytes are those of coded messages. A message that is lost was sent, one of an agent that sleeps
    was not; with feedback a message that is lost is sent once more after the round, so that its
    receiver can continue the sum.

    Parameters
    ----------
    W, comm, placement
        As for `Network`.
    channel
        The faults.
    seed
        The seed of their draws.

    Raises
    ------
    ValueError
        In addition to those of `Network`: the network is directed, or neighbours change and
        messages build on earlier ones.
    """

    plan_type = _LossyPlan
    steady = False
    varies = True
    channel: Channel

    def __init__(
        self,
        W: Any,
        comm: Any = None,
        placement: Placement = "even",
        *,
        channel: Channel,
        seed: int = 0,
    ) -> None:
        super().__init__(W, comm, placement)
        if self.directed:
            raise ValueError(
                "a channel is for undirected graphs, whose two directions fail and are repaired "
                "together: leave it out, or take asynchronous_drfgt, which tolerates loss:p=... "
                "and delays on directed graphs"
            )
        if self.sequence is not None and channel.remembers:
            raise ValueError(
                "on a time-varying network neighbours change, but delays and feedback build on "
                "earlier messages: drop them"
            )
        self.channel = channel
        self.seed = seed
        self._memory = Memory(channel, seed, self.agents)
        self._nobody = np.zeros(self.n_agents, dtype=np.bool_)
        self._asleep: Mask | None = None
        self._back = self._nobody
        self._exchange = 0
        self._reliable = False
        self._spared: Counter[Contents] = Counter()
        """The bytes that each of `_ends` has not sent, as its messages were coded."""

    @property
    def cautions(self) -> list[str]:
        """Reasons why agents that mix run apart on this network whatever they compute; known for
        fixed networks."""
        if self.sequence is not None:
            return []
        return self.channel.cautions(float(self.W.diagonal().mean()), self.spectrum.lambda_min)

    @cached_property
    def joint_spectrum(self) -> JointSpectrum:
        """The speed of mixing without faults, times the share of the edges that work."""
        found = super().joint_spectrum
        return found._replace(gap=self.channel.working * found.gap)

    def check_alike(self) -> None:
        """Raise ChannelError if messages may be late, so that `mix_alike` cannot work."""
        if self.channel.all(Delay):
            raise ChannelError(
                "methods that start over together (safe) cannot distinguish earlier messages if "
                "these are late: drop safe or delay"
            )

    @property
    def sums_exactly(self) -> bool:
        """False: messages may be lost."""
        return False

    @property
    def sums(self) -> bool:
        """True if the only fault is coding: every message arrives in its round, and trackers are
        left alone."""
        only_codings = len(self.channel.all(Coding)) == len(self.channel.faults)
        return self.sequence is None and only_codings and not self.channel.correction

    def in_flight(self) -> dict[str, Array]:
        """Return the arrays on which later messages depend, ``(n_local, ...)`` by name."""
        return self._memory.state()

    def restore(self, rounds: int, messages: int, bytes: int, in_flight: InFlight) -> None:
        super().restore(rounds, messages, bytes, {})
        self._memory.restore(in_flight)

    @contextlib.contextmanager
    def iteration(self, asleep: Mask, back: Mask) -> Iterator[None]:
        """Return a context in which messages pass through the channel.

        Agents in the mask ``asleep``, ``(n,)``, neither send nor receive. Agents in the mask
        ``back``, ``(n,)``, have lost their earlier messages.
        """
        self._asleep = asleep
        self._back = back
        self._exchange = 0
        try:
            yield
        finally:
            self._asleep = None

    @contextlib.contextmanager
    def reliable(self) -> Iterator[None]:
        """A context in which messages are sent as float64, each again until it arrives; late
        messages and agents that sleep are waited for. A round takes as many rounds as its
        unluckiest message needs, and all messages are counted.
        """
        self._reliable = True
        try:
            yield
        finally:
            self._reliable = False

    @cached_property
    def flooding_rounds(self) -> int:
        """As on a reliable network; ValueError if neighbours change, as the receiver of a lost
        message may have left."""
        if self.sequence is not None:
            raise ValueError(
                "on a time-varying network with a bad channel what is lost cannot be sent again, "
                "as the neighbours have changed: no number of rounds is sure to reach all agents"
            )
        return super().flooding_rounds

    def sums_from(self, x: Array, senders: Mask, receivers: Mask) -> tuple[Array, Array]:
        """Return the sums over the neighbours j of W_ij x_j and of W_ij, ``(n,)`` each, for every
        agent i.

        In this round some agents send messages to others, and all messages arrive.
        """
        plan = self._plan()
        width = x.size // self.n_local
        traffic = plan.traffic[(x.shape,)]
        sent = senders[plan.directed.lower] & receivers[plan.directed.upper]
        gathered = traffic.gather((x,))
        blocks = [
            piece.block._replace(data=np.where(used, piece.block.data, 0.0))
            for piece, used in zip(plan.halo.pieces, plan.entries(sent, False), strict=True)
        ]
        total = traffic.add(blocks, gathered, 0, np.zeros(x.shape))
        weights = np.zeros(self.n_local)
        for block in blocks:
            accumulate(block, 1, np.ones(block.columns), weights)
        contents = Contents("points for agents that are back", (width,))
        plan.tally(contents, sent * 1, sent * 8 * width)
        self._count(traffic, int(sent.sum()), 8 * width)
        return total, weights

    @cached_property
    def _ends(self) -> Index:
        """``(2, count)``: the agents at the ends of the tree of `total`, and whom they send to."""
        up = self._tree.up
        return up[:, ~np.isin(up[0], up[1])]

    def total(self, *xs: Array) -> tuple[Array, ...]:
        """As on a reliable network; in an iteration the sum of the agents' coded values. An agent
        at an end of the tree sends its own value, coded, and the others send sums, which are
        whole."""
        if self._asleep is None:
            return super().total(*xs)
        here = self.agents
        width = sum([self._flat(x).shape[1] for x in xs])
        messages = self._memory.messages(
            xs, self.rounds, self._exchange, self._asleep[here], self._back[here]
        )
        self._exchange += 1
        spared = 8 * width - messages.size
        self.bytes -= spared * self._ends.shape[1]
        self._spared[Contents("sums over the tree", (width,))] += spared
        pairs = zip(messages.arrays, xs, strict=True)
        return super().total(*[array.reshape(x.shape) for array, x in pairs])

    def ledger(self) -> Ledger:
        ledger = super().ledger()
        if self.final_ledger is None:
            for contents, spared in self._spared.items():
                ledger.add(contents, self._ends, 0, -spared)
        return ledger

    def _plan(self) -> _LossyPlan:
        return cast(_LossyPlan, super()._plan())

    def _mix(self, xs: Arrays, alike: bool = False, pushed: int = 0) -> Arrays:
        if self._asleep is None:
            return super()._mix(xs, alike, pushed)
        labels = xs[: int(alike)]
        xs = xs[int(alike) :]
        plan = self._plan()
        t = self.rounds
        here = self.agents
        asleep = self._asleep
        lost = plan.lost(t, asleep)
        traffic = plan.traffic[tuple([x.shape for x in (*labels, *xs)])]
        messages = self._memory.messages(xs, t, self._exchange, asleep[here], self._back[here])
        gathered = traffic.gather((*labels, *messages.arrays))
        used = plan.arriving(lost)
        out: list[Array] = []
        blocks = plan.halo.blocks
        if alike:
            heard, blocks = plan.halo.alike([arrays[0] for arrays in gathered], used)
            out.append(heard)
        elif used is not None:
            blocks = plan.halo.using(used)
        for number, (x, rest) in enumerate(zip(xs, messages.rests, strict=True), len(labels)):
            if rest is None:
                rest = np.zeros(x.shape)
            elif not self.channel.repair:
                rest *= plan.halo.own_weights(blocks)[:, None]
            out.append(traffic.add(blocks, gathered, number, rest.reshape(x.shape)))
        sender, receiver = plan.directed
        sent = ~asleep[sender]
        counts = sent.astype(np.int64)
        size = messages.size + 8 * len(labels)
        more: Index = 0 * counts
        if self.channel.feedback:
            counts += sent & lost
            whole = sent & (self._back[sender] | self._back[receiver])
            more = whole * (messages.whole - messages.size)
        amount = counts * size + more
        widths = tuple([x.size // self.n_local for x in (*labels, *xs)])
        plan.tally(Contents("mix" + "_alike" * alike, widths), counts, amount)
        self.bytes += int(more.sum())
        self._count(traffic, int(counts.sum()), size)
        self._exchange += 1
        return tuple(out)

    def _count(self, traffic: Traffic, messages: int, size: int) -> None:
        super()._count(traffic, messages, size)
        if not self._reliable:
            return
        plan = self._plan()
        missing = plan.lost(self.rounds - 1, self._nobody)
        while missing.any():
            self.messages += int(missing.sum())
            self.bytes += int(missing.sum()) * size
            plan.tally(Contents("sent again", (size // 8,)), missing * 1, missing * size)
            missing &= plan.lost(self.rounds, self._nobody)
            self.rounds += 1
        self.rounds += self.channel.lateness
