"""Mixing with W over agents in one process or on several ranks."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np

import topologies

from ..display import Shown
from ..numerics.ordered_sums import Csr, entry_rows, plain
from ..protocols import SETUP, Array, Index, JointSpectrum, PushPullSpectrum, Spectrum
from .halo import even_bounds, fewer_cuts_bounds, plan
from .ledger import Contents, Ledger
from .masks import Masks
from .traffic import Traffic
from .transport.communicator import connect
from .tree import Tree, TreeSum, spanning_tree

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from topologies import DirectedWeights, WeightSequence

Placement = Literal["even", "fewer-cuts"]
Arrays: TypeAlias = tuple[Array, ...]
Shapes: TypeAlias = tuple[tuple[int, ...], ...]
InFlight: TypeAlias = Mapping[str, Array]
"""The messages that have not arrived, by name."""
_PLACEMENTS: dict[str, Callable[[Csr, int], Index]] = {
    "even": lambda W, ranks: even_bounds(W.rows, ranks),
    "fewer-cuts": fewer_cuts_bounds,
}
_KEPT_PLANS = 64
_LARGEST_DIRECTED = 1500
"""The largest number of agents of a directed network with a spectrum
(`topologies.directed_spectrum`)."""


class Exchanges(dict[Shapes, Traffic]):
    """The exchanges by the shapes of their arrays, each checked and made when it is first needed.

    Arrays of the same widths share an exchange, which is in ``by_widths``.
    """

    def __init__(self, n_local: int, make: Callable[[tuple[int, ...]], Traffic]) -> None:
        self._n_local = n_local
        self._make = make
        self.by_widths: dict[tuple[int, ...], Traffic] = {}

    def __missing__(self, shapes: Shapes) -> Traffic:
        widths = tuple([_width(shape, self._n_local) for shape in shapes])
        if widths not in self.by_widths:
            self.by_widths[widths] = self._make(widths)
        self[shapes] = self.by_widths[widths]
        return self[shapes]


def _width(shape: tuple[int, ...], n_local: int) -> int:
    """The numbers per agent of a stacked array; ValueError for another number of agents."""
    if shape[:1] != (n_local,):
        raise ValueError(
            f"an array for the other agents needs one entry for each of the {n_local} agents of "
            f"this process: its shape must begin with {n_local}, got {shape}"
        )
    return math.prod(shape[1:])


class Plan:
    """The exchange plan of one matrix, with the buffers for arrays of each combination of
    widths."""

    def __init__(self, W: Csr, network: Network) -> None:
        communicator = network.communicator
        self.halo = plan(W, network.bounds, communicator.rank)
        self.directed_edges = len(W.data) - W.rows
        self.traffic = Exchanges(
            network.n_local,
            partial(Traffic, self.halo, communicator, compiled=network.compiled),
        )
        self.used: Counter[Contents] = Counter()
        """The rounds so far in which every message was sent once, by what the messages had in
        them."""
        self._rows = W

    @cached_property
    def pairs(self) -> Index:
        """``(2, directed_edges)``: the sender and the receiver of each message of a round."""
        senders = self._rows.indices.astype(np.int64)
        receivers = entry_rows(self._rows)
        return np.stack((senders, receivers))[:, senders != receivers]

    def enter(self, ledger: Ledger) -> None:
        """Add the messages of this plan's rounds to a ledger."""
        used = self.used + Counter(
            {
                Contents(use, widths): n
                for widths, one in self.traffic.by_widths.items()
                for use, n in one.used.items()
            }
        )
        for contents, times in used.items():
            ledger.add(contents, self.pairs, times, 8 * times * sum(contents.widths))


class Network(Shown):
    """Mixing with a doubly stochastic matrix W over the agents of this process and, through
    messages, those of other ranks.

    Parameters
    ----------
    W
        ``(n, n)``: symmetric, doubly stochastic, connected; anything `topologies.check_weights`
        accepts. Or a `topologies.WeightSequence`: round k (counted from 0 over all mixing) uses its
        W(k). Or `topologies.DirectedWeights` with A in the place of W, and B for what is pushed.
        Plain arrays (`Csr`) are of a matrix that is checked already, so that ranks need not load
        SciPy to check it again.
    comm
        The processes, as for `connect`.
    placement
        The division of consecutive agents over ranks: ``"even"``, ``"fewer-cuts"`` (borders moved
        by up to a tenth of a block so that fewer edges cross them), or the borders themselves.

    Attributes
    ----------
    agents
        The agents of this process, a slice of the global order.
    rounds, messages, bytes
        The communication so far, counted per edge of the graph: the same for any number of ranks.
    transport_messages, transport_bytes
        The messages and bytes that this rank sent to other ranks.
    compiled
        True if arrays are mixed by loops that numba has compiled, which give the same bits; to be
        set before the first round.

    Raises
    ------
    ValueError
        W cannot average, or there are more ranks than agents; the same on every rank.
    """

    plan_type: ClassVar[type[Plan]] = Plan
    channel: Any = None
    """The faults of messages; set on an unreliable network, and for asynchronous agents."""
    masks: Masks | None = None
    """The masks of all sums, where these are secure."""

    def __init__(self, W: Any, comm: Any = None, placement: Placement | Index = "even") -> None:
        self.communicator = connect(comm)
        self.sequence: WeightSequence | None = None
        self.rows = self._read(W)
        self.n_agents = self.rows.rows
        ranks = self.communicator.size
        if isinstance(placement, str):
            if placement not in _PLACEMENTS:
                raise ValueError(f"placement must be 'even' or 'fewer-cuts', got {placement!r}")
            placement = _PLACEMENTS[placement](self.rows, ranks)
        self.bounds = placement
        rank = self.communicator.rank
        self.agents = slice(int(self.bounds[rank]), int(self.bounds[rank + 1]))
        self.n_local = self.agents.stop - self.agents.start
        self.rounds = self.messages = self.bytes = 0
        self.transport_messages = self.transport_bytes = 0
        self.wait_seconds, self.compiled = 0.0, False
        self._plans: dict[Hashable, Plan] = {}
        self._totals: Counter[Contents] = Counter()
        self._earlier = Ledger()
        self.final_ledger: Ledger | None = None
        """The ledger of a run that has ended, whose iterations may be made again to find out
        why."""
        if ranks > 1 and self.sequence is None and not self._too_large:
            # computed once, by rank 0: step sizes made from it are the same bits everywhere
            if self.directed:
                numbers = self._of_root(self._own_push_pull_spectrum, 4)
                self.push_pull_spectrum = PushPullSpectrum(*numbers)
            else:
                self.spectrum = Spectrum(*self._of_root(self._own_spectrum, 2))

    def _read(self, W: Any) -> Csr:
        """The rows of W, of the first matrix of a sequence, or of both matrices of a directed
        network."""
        match W:
            case Csr():
                return W
            case topologies.DirectedWeights():
                return plain(W.A)._replace(push=W.B.data)
            case topologies.WeightSequence():
                self.sequence = W
                self.W = W.at(0)
            case _:
                self.W = topologies.check_weights(W)
        return plain(self.W)

    def _of_root(self, find: Callable[[], tuple[float, ...]], count: int) -> list[float]:
        """``count`` numbers that rank 0 finds, on every rank."""
        shared = np.zeros(count)
        if self.communicator.rank == 0:
            shared[:] = find()
        self.communicator.bcast(shared)
        return [float(number) for number in shared]

    def _facts(self) -> Mapping[str, object]:
        links: dict[str, object] = {"sequence": self.sequence}
        directed_edges = self.W.nnz - self.n_agents
        if self.directed:
            links = {"directed_edges": directed_edges}
        elif self.sequence is None:
            links = {"edges": directed_edges // 2}
        return {"n_agents": self.n_agents, **links, "ranks": self.communicator.size}

    @cached_property
    def W(self) -> csr_array:
        """The mixing matrix, the first one of a sequence, or A of a directed network, ``(n,
        n)``."""
        return self.rows.array

    @property
    def directed(self) -> bool:
        """True if points are mixed with a row-stochastic A, and pushed arrays with a
        column-stochastic B."""
        return self.rows.push is not None

    @property
    def directed_weights(self) -> DirectedWeights:
        """The matrices A and B of a directed network, each ``(n, n)``."""
        B: Any = self.rows.push
        return topologies.DirectedWeights(self.W, self.rows._replace(data=B).array)

    @cached_property
    def spectrum(self) -> Spectrum:
        """The second largest and the smallest eigenvalue of a fixed W (0 and 0 for a single
        agent)."""
        if self.sequence is not None:
            raise ValueError(
                "a time-varying network lacks the eigenvalues for automatic steps or rounds: give "
                "step_size and penalty as numbers, and rounds without chebyshev; or take drfgt"
            )
        if self.directed:
            raise ValueError("chebyshev needs a symmetric W: leave it out on a directed network")
        return self._own_spectrum()

    @property
    def changes(self) -> bool:
        """True if the graph, or its weights, change over time."""
        return self.sequence is not None

    @property
    def varies(self) -> bool:
        """True if the graph changes over time, or messages may be lost."""
        return self.changes

    @cached_property
    def joint_spectrum(self) -> JointSpectrum:
        """The speed of mixing where the graph changes or messages are lost."""
        if self.sequence is None:
            second, smallest = self.spectrum
            return JointSpectrum(1.0 - max(second, -smallest), smallest, True)
        SETUP.info("joint spectrum of a changing network of %d agents", self.n_agents)
        try:
            gap, smallest, independent = topologies.joint_spectrum(self.sequence)
        except ValueError as error:
            raise ValueError(
                f"automatic steps lack a joint spectrum: {error}; give step_size and penalty as "
                "numbers"
            ) from None
        return JointSpectrum(gap, smallest, independent)

    @cached_property
    def push_pull_spectrum(self) -> PushPullSpectrum:
        """The speed of pulling and pushing, and the length of a common step."""
        if self._too_large:
            raise ValueError(
                "automatic steps need the eigenvalues of the weights, which on a directed graph "
                f"of {self.n_agents} agents take too long: give step_size, and penalty where there "
                "is one, as numbers"
            )
        return self._own_push_pull_spectrum()

    @property
    def _too_large(self) -> bool:
        """True for a directed network of too many agents for its spectrum."""
        return self.directed and self.n_agents > _LARGEST_DIRECTED

    def _own_spectrum(self) -> Spectrum:
        SETUP.info("eigenvalues of the mixing matrix of %d agents", self.n_agents)
        values = topologies.spectrum(self.W)
        return Spectrum(values.lambda_2, values.lambda_min)

    def _own_push_pull_spectrum(self) -> PushPullSpectrum:
        from topologies.directed.spectra import limits

        if not self.directed:
            second, smallest = self.spectrum
            sigma = max(second, -smallest)
            most = limits(np.array([second, smallest]))
            return PushPullSpectrum(sigma, 1.0, *most)
        SETUP.info("eigenvalues of the weights of %d agents on a directed graph", self.n_agents)
        return PushPullSpectrum(*topologies.push_pull_spectrum(self.directed_weights))

    @cached_property
    def self_weights(self) -> Array:
        """``(n_local,)``: the self-weights W_ii of this process's agents, of a fixed W."""
        if self.sequence is not None:
            raise ValueError(
                "on a time-varying network an agent's own weight changes: give step_size as a "
                "number"
            )
        own = self.rows.indices == entry_rows(self.rows)
        return np.ascontiguousarray(self.rows.data[own][self.agents])

    def digest(self) -> bytes:
        """The SHA-256 of W (or of the first matrices of a sequence), which must be the same on
        every rank."""
        hashed = hashlib.sha256()
        for k in range(self.period or 4):
            W = self._rows_of(k)
            for part in (W.indptr, W.indices, W.data, W.push):
                if part is not None:
                    hashed.update(part.tobytes())
        return hashed.digest()

    def _rows_of(self, k: int) -> Csr:
        """The matrix of round ``k``."""
        if self.sequence is None:
            return self.rows
        return plain(self.sequence.at(k))

    def in_flight(self) -> dict[str, Array]:
        """Return the messages in transit, as arrays ``(n_local, ...)`` by name.

        The names never change. This network delivers every message at once, so the dictionary is
        empty but for the sizes of secure sums (`Masks.sizes`).
        """
        if self.masks is None:
            return {}
        return {"sizes": self.masks.remembered()}

    def restore(self, rounds: int, messages: int, bytes: int, in_flight: InFlight) -> None:
        """Continue from the counts and the messages in transit of a checkpoint.

        Raises ValueError if the messages do not match `in_flight`.
        """
        if in_flight.keys() != Network.in_flight(self).keys():
            held = ", ".join(in_flight)
            raise ValueError(
                f"this network delivers every message in its round, so it cannot hold {held}"
            )
        if self.masks is not None:
            self.masks.remember(in_flight["sizes"])
        self.rounds = rounds
        self.messages = messages
        self.bytes = bytes

    def without(
        self, lost: Index, communicator: Any = "serial", ranks: Sequence[int] = (0,)
    ) -> Network:
        """The network without the agents in ``lost``; the remaining agents are renumbered in their
        order.

        Weights of lost neighbours are added to the self-weight (`topologies.without_agents`).
        Counts begin at 0.

        Parameters
        ----------
        communicator, ranks
            The remaining processes, and the rank of each of them in this network.

        Raises
        ------
        ValueError
            The remaining agents are not connected or cannot average, a rank is left without agents,
            or the network is time-varying.
        """
        if self.sequence is not None:
            raise ValueError("agents cannot leave a time-varying network")
        left = np.setdiff1d(np.arange(self.n_agents), lost)
        borders = np.searchsorted(left, self.bounds)
        sizes = (borders[1:] - borders[:-1])[list(ranks)]
        if sizes.sum() != left.size or not sizes.all():
            raise ValueError(
                f"of {left.size} agents that are left, the ranks {', '.join(map(str, ranks))} "
                f"have {sizes.tolist()}"
            )
        bounds = np.concatenate(([0], np.cumsum(sizes)))
        return Network(topologies.without_agents(self.W, lost), communicator, bounds)

    def _plan(self) -> Plan:
        """The plan of the next round; plans of a sequence are cached by distinct matrix, and the
        oldest is dropped first."""
        key: Hashable = None
        if self.sequence is not None:
            key = (self.sequence.distinct(self.rounds),)
        known = self._plans.get(key)
        if known is None:
            if len(self._plans) >= _KEPT_PLANS:
                self._plans.pop(next(iter(self._plans))).enter(self._earlier)
            known = self._plans[key] = self.plan_type(self._rows_of(self.rounds), self)
        return known

    def mix(self, *xs: Array, rounds: int = 1, push: tuple[Array, ...] = ()) -> tuple[Array, ...]:
        """``W^rounds x`` for each stacked array, in one message per neighbour rank and round.

        Parameters
        ----------
        *xs
            Each ``(n_local, ...)``; float64 and C-contiguous arrays are not copied.
        rounds
            The number of rounds of mixing.
        push
            Further arrays, whose sums over the agents must be preserved. They come after ``xs`` in
            the result, multiplied by W too or, on a directed network, by B.

        Returns
        -------
        tuple of arrays
            New arrays, C-contiguous, shaped like the inputs.

        Raises
        ------
        ValueError
            ``rounds`` is below 1, or an array is for another number of agents.
        """
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, got {rounds}")
        xs += push
        for _ in range(rounds):
            xs = self._mix(xs, False, len(push))
        return xs

    def mix_alike(self, labels: Array, *xs: Array) -> tuple[Array, ...]:
        """One round of mixing among agents with the same label.

        An edge is used if both its ends have the same label; the other weights are added to the
        self-weights, so that the matrix of the round is symmetric and doubly stochastic too. The
        labels, ``(n_local,)`` and finite, are sent in the same messages, as one more array. The
        first result is the largest label among an agent and its neighbours; the others are as from
        `mix`.
        """
        return self._mix((labels, *xs), alike=True)

    def mix_and_max(self, x: Array, *xs: Array) -> tuple[Array, ...]:
        """Mix ``xs`` and, in the same messages, take the maximum of ``x`` over each neighbourhood:
        (maximum, W xs...)."""
        plan, traffic = self._exchange_of((x, *xs))
        return self._counted(plan, traffic, "mix_and_max", traffic.mix_and_max((x, *xs)))

    def max(self, x: Array, rounds: int = 1) -> Array:
        """Max-consensus: the elementwise maximum of ``x``, ``(n_local, ...)``, over the agents
        within ``rounds`` edges and itself.

        After `flooding_rounds` it is the maximum over all agents, on all of them. NaN counts as the
        largest. For no rounds the result is ``x`` itself.
        """
        for _ in range(rounds):
            (x,) = self.mix_and_max(x)
        return x

    def total(self, *xs: Array) -> tuple[Array, ...]:
        """The sum over all agents of each stacked array, on every agent: ``(n_local, ...)``, the
        same bits for each of them.

        The values go along a spanning tree to an agent in the middle of the graph and back
        (`tree`): two messages for each edge of the tree. ValueError on a network that changes over
        time, and for arrays of another number of agents.
        """
        if self.sequence is not None:
            raise ValueError("exact sums need edges that stay, and this network changes over time")
        flat = [self._flat(x) for x in xs]
        total = self._summed(flat, "sums over the tree")
        parts = np.split(total, np.cumsum([part.shape[1] for part in flat])[:-1])
        pairs = zip(parts, xs, strict=True)
        return tuple(
            [np.broadcast_to(one.reshape(x.shape[1:]), x.shape).copy() for one, x in pairs]
        )

    def column_sums(self, *xs: Array, use: str = "sums of columns") -> Array:
        """``(k,)``: the sums over all agents of each column of ``xs``, ``(n_local, ...)`` each,
        side by side, before a run; every message arrives, and is counted.

        As `total`; on a directed graph, and on one that changes, the messages go along the chain of
        the agents in their order.
        """
        return self._summed([self._flat(x) for x in xs], use, once=True)

    def _summed(self, arrays: list[Array], use: str, once: bool = False) -> Array:
        """``(k,)``: the sums over all agents of ``arrays``, ``(n_local, ...)`` each, side by side;
        masked where sums are secure."""
        if self.masks is not None:
            return self.masks.total(arrays, partial(self._add_up, use=f"masked {use}"), once)
        return self._add_up(np.concatenate(arrays, 1) if len(arrays) > 1 else arrays[0], use)

    def mask_sums(self) -> None:
        """Let no agent see the terms of another one in `total` and `column_sums` (`masks`); all
        agents get keys, in one sum that is counted.

        Sites sign the keys that they have received: a site that passes them on could otherwise put
        its own in their place, and read what is masked with them.
        """
        self.masks = Masks(self.agents, self.n_agents, partial(self._add_up, use="public keys"))
        communicator: Any = self.communicator
        if communicator.sites:
            communicator.confirm("public keys for masks", self.masks.keys)

    def row_sums(self, *xs: Array) -> Array:
        """The `column_sums` for a row of the history.

        ``rounds`` and ``wait_seconds`` stay those of the iterations: the rounds number the losses
        of a channel and the matrices of a changing network.
        """
        before = self.rounds, self.wait_seconds
        total = self.column_sums(*xs, use="rows of the history")
        self.rounds, self.wait_seconds = before
        return total

    @cached_property
    def _tree(self) -> Tree:
        """The edges of a sum: those of a fixed undirected graph, otherwise a chain."""
        if self.directed or self.sequence is not None:
            return spanning_tree(topologies.metropolis_weights(topologies.path(self.n_agents)))
        return spanning_tree(self.W)

    @property
    def rounds_of_sum(self) -> int:
        """The rounds of a sum over all agents: to the root of the tree and back."""
        return 2 * self._tree.depth

    @cached_property
    def _sum(self) -> TreeSum:
        return TreeSum(self._tree, self.bounds, self.communicator)

    def _add_up(self, values: Array, use: str) -> Array:
        """``(k,)``: the sum over all agents of ``values``, ``(n_local, k)``; its messages are
        counted."""
        width = values.shape[1]
        total = self._sum(values.astype(np.float64, casting="same_kind", copy=False))
        messages = 2 * (self.n_agents - 1)
        self._totals[Contents(use, (width,))] += 1
        self.rounds += self.rounds_of_sum
        self.messages += messages
        self.bytes += 8 * width * messages
        self.transport_messages += self._sum.messages
        self.transport_bytes += 8 * width * self._sum.vectors
        self.wait_seconds += self._sum.waited
        return total

    @property
    def sums_exactly(self) -> bool:
        """True if iterations can use `total`: the edges stay, and every message arrives."""
        return self.sequence is None

    @property
    def sums(self) -> bool:
        """True if iterations can use `total`, with coded values if the network codes messages."""
        return self.sums_exactly

    @cached_property
    def flooding_rounds(self) -> int:
        """The number of rounds after which a value has reached all agents
        (`topologies.flooding_rounds`)."""
        if self.directed:
            return topologies.flooding_rounds(self.directed_weights)
        return topologies.flooding_rounds(self.W if self.sequence is None else self.sequence)

    @property
    def period(self) -> int | None:
        """The number of rounds after which the neighbours repeat, or None if they need not."""
        return 1 if self.sequence is None else self.sequence.period

    @property
    def steady(self) -> bool:
        """True if every message arrives, and the graph, which is undirected, and its weights
        stay."""
        return not self.directed and self.sequence is None

    def reliable(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which every message arrives.

        An unreliable network sends lost messages again.
        """
        return contextlib.nullcontext()

    def _flat(self, x: Array) -> Array:
        """``x`` as ``(n_local, k)``; ValueError for another number of agents."""
        return x.reshape(self.n_local, _width(x.shape, self.n_local))

    def _mix(self, xs: Arrays, alike: bool = False, pushed: int = 0) -> Arrays:
        plan, traffic = self._exchange_of(xs)
        if alike:
            return self._counted(plan, traffic, "mix_alike", traffic.mix_alike(xs))
        return self._counted(plan, traffic, "mix", traffic.mix(xs, pushed))

    def _exchange_of(self, xs: Arrays) -> tuple[Plan, Traffic]:
        """The plan of the next round, and its exchange for these arrays."""
        plan = self._plans.get(None) or self._plan()  # that of a fixed W without a call
        return plan, plan.traffic[tuple([x.shape for x in xs])]

    def _counted(self, plan: Plan, traffic: Traffic, use: str, out: Arrays) -> Arrays:
        """Count a round in which all messages arrived; return ``out``."""
        traffic.used[use] += 1
        self._count(traffic, plan.directed_edges, traffic.agent_bytes)
        return out

    def ledger(self) -> Ledger:
        """The messages so far by sender, receiver and contents; the same on every rank, without a
        message."""
        if self.final_ledger is not None:
            return self.final_ledger
        ledger = self._earlier.copy()
        for known in self._plans.values():
            known.enter(ledger)
        for contents, times in self._totals.items():
            ledger.add(contents, self._tree.pairs, times, 8 * times * sum(contents.widths))
        return ledger

    def _count(self, traffic: Traffic, messages: int, size: int) -> None:
        """Count a round of messages of ``size`` bytes."""
        self.rounds += 1
        self.messages += messages
        self.bytes += messages * size
        self.transport_messages += traffic.messages
        self.transport_bytes += traffic.bytes
        self.wait_seconds += traffic.waited
