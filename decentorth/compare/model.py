"""How long a run would take on a network: rounds and bytes are known exactly, whatever carried them, so one process can tell.

The model is of synchronous rounds. Agent i, ready at time t_i, computes for c_i, sends its message to every neighbour, and is ready
for the next round when its own messages have left and its neighbours' have arrived:

    u_i = t_i + c_i
    t_i <- max( max_{j in N(i)} (u_j + l_ij + s_ij),  u_i + max_{j in N(i)} s_ji )

    l_ij    latency of the link from j to i, seconds
    s_ij    m_ij bytes / bandwidth of that link, seconds
    m_ij    with ``shared`` the larger of the messages that j sends and that i receives in the round, because they share j's and
            i's network card; 1 otherwise

In a round each agent's c_i, and each link's l_ij and s_ij, is ``slowdown`` times as long with probability ``straggler``,
independently, from the counter-based streams of a seed. Nothing overlaps, and nobody waits for more than its neighbours.

Without stragglers t is periodic in the end (a max-plus recursion): its rounds are counted until it is, and the rest follows. With
stragglers the first rounds are simulated and the rest follow at the rate of the second half of those.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, get_type_hints

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from topologies import WeightSequence, text

from ..cli.flags import InputError
from ..protocols import Array, Index
from ..settings import NotNegative, Range, Settings
from ..streams import CounterStreams

SIMULATED = (256, 4096)
"""The fewest and the most rounds that are gone through one by one, unless they repeat earlier: as many as make `_MESSAGES`."""
_MESSAGES = 1 << 22
_LONGEST = 64
"""The longest period that is looked for."""
_SAME = 1e-12
_DRAWS = 1 << 18
"""About how many random numbers are drawn at once."""
_RESOLUTION = 1 << 30
"""Of probabilities."""


@dataclass(frozen=True, kw_only=True)
class NetworkModel(Settings):
    """The times that messages take over a network.

    Parameters
    ----------
    latency
        Seconds until a message begins to arrive: one number, or ``(n, n)`` with that of the link from j to i at [i, j].
    bandwidth
        Bytes a second, alike.
    straggler
        Probability that an agent's computation, or a link, is slow in a round.
    slowdown
        How many times as long what is slow takes.
    shared
        Whether the messages of an agent share its network card, rather than each having the bandwidth to itself.
    compute
        Seconds that an agent computes in an iteration, for every method alike; by default what was measured of each.
    """

    latency: float | Array = 0.0
    bandwidth: float | Array = math.inf
    straggler: Annotated[float, Range(least=0, most=1)] = 0.0
    slowdown: Annotated[float, Range(least=1)] = 10.0
    shared: bool = True
    compute: NotNegative | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (np.all(np.greater_equal(self.latency, 0.0)) and np.all(np.isfinite(self.latency))):
            raise ValueError(f"latency must be finite and not negative, got {self.latency}")
        if not np.all(np.greater(self.bandwidth, 0.0)):
            raise ValueError(f"bandwidth must be positive, got {self.bandwidth}")

    @classmethod
    def named(cls, name: str) -> NetworkModel:
        """One of `NETWORKS`, with other parameters where they are given: ``"wan"``, ``"wan:straggler=0.1"``; or parameters alone,
        ``"latency=1e-3,bandwidth=1e8"``.

        Raises
        ------
        InputError
            An unknown name or parameter, or a value that does not fit.
        """
        try:
            first, written = (_IDEAL, name) if "=" in name.partition(":")[0] else text.divided("network", name, NETWORKS, _OWN)
            where = f"network {name!r}"
            given = text.values(where, first, get_type_hints(cls), written)
            return text.built(where, first, cls, vars(NETWORKS[first]) | given)
        except ValueError as error:
            raise InputError(str(error)) from None


_IDEAL, _OWN = "ideal", "your own as latency=1e-3,bandwidth=1e8"
NETWORKS: Mapping[str, NetworkModel] = {
    _IDEAL: NetworkModel(),
    "datacenter": NetworkModel(latency=2e-5, bandwidth=3.125e9, straggler=0.001),
    "lan": NetworkModel(latency=2e-4, bandwidth=1.25e8, straggler=0.001),
    "wan": NetworkModel(latency=4e-2, bandwidth=1.25e7, straggler=0.01, slowdown=5.0),
    "wifi": NetworkModel(latency=3e-3, bandwidth=6.25e6, straggler=0.05),
    "satellite": NetworkModel(latency=0.27, bandwidth=1.25e6, straggler=0.02, slowdown=3.0),
}
"""Orders of magnitude, not measurements: one way, TCP between processes; 25 Gbit/s, 1 Gbit/s, 100, 50 and 10 Mbit/s."""


class Elapsed(NamedTuple):
    """Modelled seconds."""

    seconds: Array
    """As many as were asked for."""
    simulated: int
    """Rounds that were gone through one by one."""
    exact: bool
    """True where all of them were, or the others repeat them; otherwise they follow at the mean rate."""


class _Links(NamedTuple):
    """The messages of a round and each agent's wait for its own, sorted by who waits."""

    waits: Index
    """``(links,)``: the agent that waits for it; nobody has none."""
    source: Index
    starts: Index
    """``(n,)``: where the links that an agent waits for begin."""
    own: Index
    """``(n,)``: the place of each agent's wait for its own messages."""
    latency: Array
    transfer: Array


def _links(model: NetworkModel, W: csr_array[Any, tuple[int, int]], payload: float) -> _Links:
    n = W.shape[0]
    entries = W.tocoo()
    between = entries.row != entries.col
    receiver = np.concatenate([entries.row[between], np.arange(n)]).astype(np.int64)
    source = np.concatenate([entries.col[between], np.arange(n)]).astype(np.int64)
    order = np.lexsort((source, receiver))
    receiver, source = receiver[order], source[order]
    message = receiver != source
    degree = np.bincount(source[message], minlength=n), np.bincount(receiver[message], minlength=n)
    shares = np.maximum(degree[0][source], degree[1][receiver]) if model.shared else np.ones(len(source))

    def along(value: float | Array, what: str) -> Array:
        values = np.asarray(value, dtype=np.float64)
        if values.ndim and values.shape != (n, n):
            raise ValueError(f"{what} must be a number or of shape {(n, n)}, got {values.shape}")
        return np.broadcast_to(values, (n, n))[receiver, source]

    return _Links(
        receiver,
        source,
        np.searchsorted(receiver, np.arange(n)),
        np.flatnonzero(~message),
        np.where(message, along(model.latency, "latency"), 0.0),
        np.where(message, shares * payload / along(model.bandwidth, "bandwidth"), 0.0),
    )


def _delays(links: _Links, slow: Array | float) -> Array:
    """``(..., links)``: from when a sender is done computing until a waiting agent has the message, or has sent its own."""
    transfer = slow * links.transfer
    delays = slow * links.latency + transfer
    sending = np.zeros((*transfer.shape[:-1], len(links.own)))
    np.maximum.at(sending.T, links.source, transfer.T)
    delays[..., links.own] = sending
    return delays


def _rounds(
    model: NetworkModel, W: Any, payload: float, compute: float, first: int, seed: int
) -> Iterator[tuple[_Links, Array | float, Array]]:
    """For each round its links, the seconds each agent computes, and the links' delays."""
    sequence = W if isinstance(W, WeightSequence) else None
    links = _links(model, csr_array(W) if sequence is None else sequence.at(first), payload)
    n, k = len(links.own), first
    while True:
        if sequence is not None:
            links = _links(model, sequence.at(k), payload)
        if model.straggler == 0.0:
            delays = _delays(links, 1.0)
            yield links, compute, delays
            while sequence is None:
                yield links, compute, delays
            k += 1
            continue
        count = 1 if sequence is not None else int(np.clip(_DRAWS // len(links.source), 4, 64))
        drawn = CounterStreams(seed, slice(0, n + len(links.source))).integers("fault", k, count, _RESOLUTION).T
        slow = np.where(drawn < model.straggler * _RESOLUTION, model.slowdown, 1.0)
        delays = _delays(links, slow[:, n:])
        for busy, delay in zip(slow[:, :n] * compute, delays, strict=True):
            yield links, busy, delay
        k += count


def elapsed(
    model: NetworkModel,
    W: Any,
    rounds: NDArray[np.integer[Any]],
    *,
    payload: float,
    compute: float = 0.0,
    first: int = 0,
    seed: int = 0,
    limit: int | None = None,
) -> Elapsed:
    """The seconds until the slowest agent has ended each of the given rounds.

    Parameters
    ----------
    W
        ``(n, n)`` mixing matrix, whose pattern says who talks to whom, or a `topologies.WeightSequence`.
    rounds
        Numbers of rounds since all agents started together.
    payload
        Bytes of a message.
    compute
        Seconds that an agent computes before each round.
    first
        The number of the first round: which matrix of a sequence it uses, and which stragglers it meets.
    seed
        Of the stragglers.
    limit
        Rounds that are gone through one by one; by default 4096, fewer for more than a thousand links, and at least 256.

    Raises
    ------
    ValueError
        Latencies or bandwidths of another shape than W.
    """
    asked = np.asarray(rounds, dtype=np.int64)
    links = W.n if isinstance(W, WeightSequence) else csr_array(W).nnz
    last = min(int(asked.max(initial=0)), limit or int(np.clip(_MESSAGES // links, *SIMULATED)))
    turn = (W.period or 0) if isinstance(W, WeightSequence) else 1
    repeats = model.straggler == 0.0 and 0 < turn <= _LONGEST
    ends = np.zeros(last + 1)
    period, gain, done = 0, 0.0, 0
    recent: deque[Array] = deque(maxlen=_LONGEST + 1)
    t = np.zeros(_agents(W))
    recent.append(t)
    for each, busy, delays in _rounds(model, W, payload, compute, first, seed):
        if done == last or period:
            break
        arrivals = (t + busy)[each.source]
        arrivals += delays
        t = np.maximum.reduceat(arrivals, each.starts)
        done += 1
        ends[done] = t.max()
        recent.append(t)
        if repeats and done & (done - 1) == 0:
            period, gain = _period(recent, turn)
    seconds = ends[np.minimum(asked, done)]
    beyond = asked > done
    if period:
        ahead = asked[beyond] - done
        place = done - period + 1 + (ahead - 1) % period
        seconds[beyond] = ends[place] + (asked[beyond] - place) // period * gain
    elif beyond.any():
        seconds[beyond] += (asked[beyond] - done) * (ends[done] - ends[done // 2]) / (done - done // 2)
    return Elapsed(seconds, done, bool(period) or not beyond.any())


def _period(recent: deque[Array], turn: int) -> tuple[int, float]:
    """After how many rounds the times are the same again but for a common delay, and that delay; 0 where they are not yet."""
    now = recent[-1]
    for back in range(turn, len(recent), turn):
        change = now - recent[-1 - back]
        if change.max() - change.min() <= _SAME * now.max():
            return back, float(change.max())
    return 0, 0.0


def wall_time(
    model: NetworkModel,
    W: Any,
    history: Mapping[str, NDArray[Any]],
    *,
    agents: float | None = None,
    seed: int = 0,
) -> Elapsed:
    """The modelled seconds at each row of a run's history.

    The rounds before the start (automatic steps) come first, with their own size of messages; then the iterations, whose computing
    is divided evenly over their rounds. A run without rounds is a computation on every agent alone.

    Parameters
    ----------
    W
        As the run's.
    history
        The columns iteration, rounds, messages, bytes and seconds.
    agents
        How many agents the process computed for whose seconds these are; by default all.
    seed
        As of `elapsed`.
    """
    rounds, k, n = history["rounds"], history["iteration"], _agents(W)
    own = history["seconds"] / (agents or n) if model.compute is None else model.compute * (k + 1.0)
    before = int(rounds[0])
    payload = history["bytes"][0] / max(int(history["messages"][0]), 1)
    start = elapsed(model, W, np.array([before]), payload=payload, seed=seed)
    since = k if rounds[-1] == before else rounds - before
    number = max(int(since[-1]), 1)
    messages = int(history["messages"][-1] - history["messages"][0])
    payload = (history["bytes"][-1] - history["bytes"][0]) / max(messages, 1)
    compute = float(own[-1] - own[0]) / number
    links = W if rounds[-1] > before else eye_array(n, format="csr")  # nobody sends
    rest = elapsed(model, links, since, payload=payload, compute=compute, first=before, seed=seed)
    return Elapsed(own[0] + start.seconds[0] + rest.seconds, start.simulated + rest.simulated, start.exact and rest.exact)


def _agents(W: Any) -> int:
    return int(W.n if isinstance(W, WeightSequence) else W.shape[0])
