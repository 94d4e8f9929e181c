"""The seconds that a run would take on a network, from its rounds and bytes, which are known exactly whatever carried them.

Agent i, ready at time t_i, computes for c_i, sends its message to every neighbour, and is ready for the next round when its own
messages have left and its neighbours' have arrived:

    u_i = t_i + c_i
    t_i <- max( max_{j in N(i)} (u_j + l_ij + s_ij),  u_i + max_{j in N(i)} s_ji )

    l_ij    latency of the link from j to i, seconds
    s_ij    m_ij bytes / bandwidth of that link, seconds
    m_ij    with ``shared`` the larger of the messages that j sends and that i receives in the round, because they share j's and
            i's network card; 1 otherwise

In a round each agent's c_i, and each link's l_ij and s_ij, is ``slowdown`` times as long with probability ``straggler``,
independently, from the counter-based streams of a seed. Nothing overlaps.

Without stragglers the times repeat after some rounds but for a common delay (a max-plus recursion), and all later ones follow
exactly. With stragglers the first rounds are simulated, and all later ones repeat the second half of those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from topologies import DirectedWeights, WeightSequence, text
from topologies.typed import declared

from ..cli.flags import InputError
from ..numerics.random_streams import CounterStreams
from ..protocols import Array, Index
from ..settings import NotNegative, Range, Settings

SIMULATED = (256, 4096)
"""The fewest and the most rounds that are simulated unless they repeat earlier; in between as many as make `_MESSAGES`."""
_MESSAGES, _DRAWS = 1 << 22, 1 << 18
"""The approximate numbers of messages to simulate, and of random numbers to draw at once."""
_LONGEST = 64
"""The longest period that is looked for."""
_RESOLUTION = 1 << 30
"""The resolution of probabilities."""


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
        The factor by which a slow computation or link takes longer.
    shared
        True if the messages of an agent share its network card, false if each has the bandwidth to itself.
    compute
        Seconds that an agent computes in an iteration, for every method alike; by default as measured for each.

    Raises
    ------
    ValueError
        A parameter is out of range.
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

    def __str__(self) -> str:
        """The parameters that are not the defaults, an array by its range."""
        parts = []
        for name, value in vars(self).items():
            if value is not getattr(NetworkModel, name):
                low, high = f"{np.min(value):g}", f"{np.max(value):g}"
                parts.append(f"{name} {low if low == high else f'{low} to {high}'}")
        return ", ".join(parts) or "no delays"

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
            given = text.values(where, first, declared(cls), written)
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
    """Modelled seconds, the number of rounds that were simulated, and True if the other rounds follow exactly."""

    seconds: Array
    simulated: int
    exact: bool


def _links(model: NetworkModel, W: Any, payload: float) -> tuple[Index, Index, Array, Array]:
    """The receiver, sender, latency and transfer time of every message; those of the diagonal of W take no time."""
    n = W.shape[0]
    entries = (abs(csr_array(W.A if isinstance(W, DirectedWeights) else W)) + eye_array(n, format="csr")).tocoo()
    receiver, sender = (index.astype(np.int64) for index in entries.coords)

    def along(name: str) -> Array:
        values = np.asarray(getattr(model, name), dtype=np.float64)
        if values.ndim and values.shape != (n, n):
            raise ValueError(f"{name} must be a number or of shape {(n, n)}, got {values.shape}")
        return np.broadcast_to(values, (n, n))[receiver, sender]

    shares = np.maximum(np.bincount(sender)[sender], np.bincount(receiver)[receiver]) - 1 if model.shared else 1
    between = receiver != sender
    return receiver, sender, between * along("latency"), between * shares * payload / along("bandwidth")


def elapsed(
    model: NetworkModel,
    W: Any,
    rounds: NDArray[np.integer[Any]],
    *,
    payload: float,
    compute: float = 0.0,
    first: int = 0,
    seed: int = 0,
) -> Elapsed:
    """The seconds until the slowest agent has ended each of the given numbers of rounds.

    A message has ``payload`` bytes, and an agent computes for ``compute`` seconds before each round. The number of the first round
    decides the matrix of a sequence and, with the seed, the stragglers.
    """
    asked, n, varies = np.asarray(rounds, dtype=np.int64), _agents(W), isinstance(W, WeightSequence)
    receiver, sender, latency, transfer = _links(model, W.at(first) if varies else W, payload)
    most = min(int(asked.max(initial=0)), int(np.clip(_MESSAGES // len(sender), *SIMULATED)))
    block = 1 if varies else int(np.clip(_DRAWS // len(sender), 1, 64))
    turn = (W.period or most + 1) if varies else 1
    times, slow, period = [np.zeros(n)], np.ones((1, 1)), 0
    for k in range(first, first + most):
        if varies:
            receiver, sender, latency, transfer = _links(model, W.at(k), payload)
        if model.straggler > 0.0 and (k - first) % block == 0:
            drawn = CounterStreams(seed, slice(0, n + len(sender))).integers("fault", k, block, _RESOLUTION).T
            slow = np.where(drawn < model.straggler * _RESOLUTION, model.slowdown, 1.0)
        busy, delayed = slow[(k - first) % len(slow), :n], slow[(k - first) % len(slow), -len(sender) :]
        t = times[-1] + busy * compute
        sent = t[sender] + delayed * transfer
        np.maximum.at(t, sender, sent)
        np.maximum.at(t, receiver, sent + delayed * latency)
        times.append(t)
        done = len(times) - 1
        if model.straggler == 0.0 and done & (done - 1) == 0 and (period := _period(times, turn)):
            break
    ends, done = np.array([t.max() for t in times]), len(times) - 1
    exact = period > 0 or bool((asked <= done).all())
    period = period or max(done - done // 2, 1)
    turns = -(-np.maximum(asked - done, 0) // period)
    return Elapsed(ends[asked - turns * period] + turns * (ends[done] - ends[done - period]), done, exact)


def _period(times: list[Array], turn: int) -> int:
    """The number of rounds, a multiple of ``turn``, after which the times are the same but for a common delay, or 0."""
    for back in range(turn, min(len(times), _LONGEST + 1), turn):
        change = times[-1] - times[-1 - back]
        if change.max() - change.min() <= 1e-12 * times[-1].max():
            return back
    return 0


def wall_time(model: NetworkModel, W: Any, history: Mapping[str, NDArray[Any]], *, seed: int = 0) -> Elapsed:
    """The modelled seconds at each row of a run's history.

    The rounds before the start (automatic steps) come first, with their own size of messages; then the iterations, whose computing
    is divided evenly over their rounds. A run without rounds is a computation on every agent alone.

    Parameters
    ----------
    W
        The run's mixing matrix, `topologies.DirectedWeights` or `topologies.WeightSequence`.
    history
        The columns iteration, rounds, messages, bytes and seconds.
    seed
        The seed of the stragglers.
    """
    rounds, messages, k, n = history["rounds"], history["messages"], history["iteration"], _agents(W)
    own = history["seconds"] / n if model.compute is None else model.compute * (k + 1.0)
    before = int(rounds[0])
    start = elapsed(model, W, rounds[:1], payload=history["bytes"][0] / max(int(messages[0]), 1), seed=seed)
    talks = rounds[-1] > before
    since = rounds - before if talks else k
    payload = (history["bytes"][-1] - history["bytes"][0]) / max(int(messages[-1] - messages[0]), 1)
    compute = float(own[-1] - own[0]) / max(int(since[-1]), 1)
    links = W if talks else eye_array(n, format="csr")
    rest = elapsed(model, links, since, payload=payload, compute=compute, first=before, seed=seed)
    return Elapsed(own[0] + start.seconds[0] + rest.seconds, start.simulated + rest.simulated, start.exact and rest.exact)


def _agents(W: Any) -> int:
    return int(W.n if isinstance(W, WeightSequence) else W.shape[0])
