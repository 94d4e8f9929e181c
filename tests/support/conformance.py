"""What every transport must do: checks of a `decentorth.network.Communicator`, on three ranks or
more.

Neighbours on the ring of ranks send to each other; a transport along edges has at least these
edges. A transport of your own is checked by a file whose function returns its communicator, started
on every rank, by your launcher:

    mpirun -n 4 python -m tests.support.conformance transport.py:connected
    mpirun -n 4 python -m tests.support.conformance transport.py:connected --lose kill

The first prints the first check that fails, and exits with 1 if any does. In the second the last rank
ends itself in the middle of a run (``kill``), stops (``stop``) or leaves without a word
(``leave``): every other rank must end with an error in finite time.
"""

from __future__ import annotations

import gc
import hashlib
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import topologies
from decentorth import Result, solve
from decentorth.api import Options, set_up
from decentorth.network import Communicator
from decentorth.problems import PCA
from decentorth.protocols import Array
from topologies.line.flags import InputError

_LARGE = 500_000
"""The numbers of a large message, 4 MB."""
_BYTES = bytes(range(256)) * 12_000
"""A large message of bytes, 3 MB."""
_EVER = 10**7
"""The iterations of a run that the loss of a rank ends."""
_USAGE = "python -m tests.support.conformance FILE.py:FUNCTION [--lose kill|stop|leave]"
Check = Callable[[Communicator], None]


class Ring:
    """An exchange of this rank with the ranks before and after it in the ring."""

    def __init__(self, communicator: Communicator, width: int) -> None:
        self._rank, size = communicator.rank, communicator.size
        self._near = ((self._rank - 1) % size, (self._rank + 1) % size)
        self._out = [np.empty(width) for _ in self._near]
        self._in = [np.empty(width) for _ in self._near]
        sends = list(zip(self._near, self._out, strict=True))
        receives = list(zip(self._near, self._in, strict=True))
        self._exchange = communicator.exchange(sends, receives)

    def check(self, message: Callable[[int, int], Array]) -> None:
        """Exchange ``message(sender, receiver)``, whose bits must arrive."""
        for other, buffer in zip(self._near, self._out, strict=True):
            buffer[:] = message(self._rank, other)
        self._exchange()
        for other, buffer in zip(self._near, self._in, strict=True):
            assert buffer.tobytes() == message(other, self._rank).tobytes(), f"from rank {other}"


def _drawn(width: int, k: int) -> Callable[[int, int], Array]:
    """Random messages of a round."""
    return lambda sender, receiver: np.random.default_rng([sender, receiver, k]).normal(size=width)


def many_rounds(communicator: Communicator) -> None:
    """Each of 100 rounds has its own messages."""
    ring = Ring(communicator, 50)
    for k in range(100):
        ring.check(_drawn(50, k))


def special_numbers(communicator: Communicator) -> None:
    """Infinities, NaN, -0.0 and the smallest number keep their bits."""
    numbers = np.array([np.inf, -np.inf, np.nan, -0.0, 5e-324])
    Ring(communicator, 5).check(lambda sender, _: np.roll(numbers, sender))


def empty_messages(communicator: Communicator) -> None:
    """Messages may be empty."""
    for _ in range(3):
        Ring(communicator, 0).check(_drawn(0, 0))


def large_messages(communicator: Communicator) -> None:
    """Messages may have 4 MB."""
    ring = Ring(communicator, _LARGE)
    for k in range(3):
        ring.check(_drawn(_LARGE, k))


def plans_in_turn(communicator: Communicator) -> None:
    """Two plans are used in turn; one continues when the other is freed."""
    one, other = Ring(communicator, 3), Ring(communicator, 5)
    for k in range(5):
        one.check(_drawn(3, k))
        other.check(_drawn(5, k))
    del one
    gc.collect()
    other.check(_drawn(5, 5))


def late_ranks(communicator: Communicator) -> None:
    """A rank may be late, and its neighbours a round ahead."""
    ring = Ring(communicator, 4)
    for k in range(3 * communicator.size):
        if k % communicator.size == communicator.rank:
            time.sleep(0.01)
        ring.check(_drawn(4, k))


def chain(communicator: Communicator) -> None:
    """A sum goes from rank to rank round the ring, and rank 0's array to all."""
    rank, size = communicator.rank, communicator.size
    total = np.zeros(4)
    if rank > 0:
        communicator.receive(total, rank - 1)
    total += [rank, 1.0, 0.5, np.inf]
    communicator.send(total, (rank + 1) % size)
    if rank == 0:
        communicator.receive(total, size - 1)
    communicator.bcast(total)
    assert total.tolist() == [size * (size - 1) / 2, size, size / 2, np.inf]


def order(communicator: Communicator) -> None:
    """Arrays keep their order on their way to another rank."""
    rank, size = communicator.rank, communicator.size
    for sender in range(size):
        receiver = (sender + 1) % size
        for k in range(5):
            if rank == sender:
                communicator.send(np.full(3, float(k)), receiver)
            elif rank == receiver:
                found = np.empty(3)
                communicator.receive(found, sender)
                assert found.tolist() == [k] * 3


def bytes_of_rank_0(communicator: Communicator) -> None:
    """Rank 0's bytes go to all, none or 3 MB of them."""
    for data in (b"", _BYTES):
        own = data if communicator.rank == 0 else b"other"
        assert communicator.bcast_bytes(own) == data


def bytes_of_all(communicator: Communicator) -> None:
    """All get the bytes of each rank, of any lengths."""
    ranks = range(communicator.size)
    for parts in (
        [b"a" * k for k in ranks],
        [b""] * len(ranks),
        [_BYTES, *[b""] * (len(ranks) - 1)],
    ):
        assert communicator.allgather_bytes(parts[communicator.rank]) == parts


def maxima(communicator: Communicator) -> None:
    """Maxima take infinities, and leave the given values as they are."""
    rank, size = communicator.rank, communicator.size
    own = np.array([rank, -rank, -np.inf, np.inf if rank == 1 else 0.0])
    kept = own.copy()
    found = communicator.max(own)
    assert found.tolist() == [size - 1, 0.0, -np.inf, np.inf]
    assert found is not own
    assert own.tobytes() == kept.tobytes()
    found[:] = 0.0  # it is the caller's


def description(communicator: Communicator) -> None:
    """The kind of transport is described, and the rest of the protocol is there."""
    facts = communicator.describe()
    assert facts["kind"]
    assert facts["ranks"] == communicator.size
    assert isinstance(communicator, Communicator)
    assert all(issubclass(kind, Exception) for kind in communicator.failures)
    assert len(communicator.sites) in (0, communicator.size)
    communicator.watch(300.0, np.inf)


def _problem(size: int) -> Any:
    """The principal components of samples of as many sites as ranks."""
    each = np.random.default_rng(0).normal(size=(size, 30, 8)) * np.arange(1.0, 9.0)
    return PCA.from_sites({f"site {rank}": samples for rank, samples in enumerate(each)}, 2)


def _solved(communicator: Any, size: int, method: str = "drfgt", **more: Any) -> Result:
    """A run on the ring of all ranks, one agent each."""
    problem = _problem(size)
    W = topologies.metropolis_weights(topologies.ring(size))
    given: dict[str, Any] = {"clear_sums": True, **more}
    return solve(problem, method, W, iterations=50, comm=communicator, **given)


def _check_bits(communicator: Communicator, method: str, **more: Any) -> None:
    size, rank = communicator.size, communicator.rank
    own = _solved(communicator, size, method, **more)
    whole = _solved("serial", size, method, **more)
    points = np.asarray(whole.x)[rank : rank + 1]
    assert np.asarray(own.x).tobytes() == points.tobytes(), "other bits"
    assert own.row.messages == whole.row.messages, "another count"


def bits_of_one_process(communicator: Communicator) -> None:
    """A run has the bits of one process."""
    _check_bits(communicator, "drfgt")


def bits_of_sums(communicator: Communicator) -> None:
    """A method of exact sums has the bits of one process."""
    _check_bits(communicator, "lbfgs")


def bits_of_masked_sums(communicator: Communicator) -> None:
    """Masked sums, with keys that all ranks have agreed on, have the bits of one process."""
    size, rank = communicator.size, communicator.rank
    W = topologies.metropolis_weights(topologies.ring(size))
    runs = [
        set_up(_problem(size), "direct", W, comm=comm, secure=True)
        for comm in ("serial", communicator)
    ]
    whole, own = [run.solve(Options(iterations=50)) for run in runs]
    points = np.asarray(whole.x)[rank : rank + 1]
    assert np.asarray(own.x).tobytes() == points.tobytes(), "other bits"


def lossy_channel(communicator: Communicator) -> None:
    """A run with losses has the bits of one process."""
    _check_bits(communicator, "drfgt", channel="loss:p=0.2")


def hashes(communicator: Communicator) -> None:
    """All ranks of one job have the hash of all points, and each site that of its own."""
    size, rank = communicator.size, communicator.rank
    whole, own = np.asarray(_solved("serial", size).x), _solved(communicator, size)
    if communicator.sites:
        whole = whole[rank : rank + 1]
    assert own.collective.sha256(own.x) == hashlib.sha256(whole.tobytes()).hexdigest()


def posts(communicator: Communicator) -> None:
    """Asynchronous agents run, or are refused in one line before the work."""
    if communicator.posts:
        _solved(communicator, communicator.size, "asynchronous_drfgt:step_size=0.001,penalty=1")
        return
    refusal = ""
    try:
        _solved(communicator, communicator.size, "asynchronous_drfgt:step_size=0.001,penalty=1")
    except ValueError as error:
        refusal = str(error)
    assert refusal.startswith("agents that do not wait for each other need ranks of MPI"), refusal


CHECKS: Sequence[Check] = (
    many_rounds,
    special_numbers,
    empty_messages,
    large_messages,
    plans_in_turn,
    late_ranks,
    chain,
    order,
    bytes_of_rank_0,
    bytes_of_all,
    maxima,
    description,
    bits_of_one_process,
    bits_of_sums,
    bits_of_masked_sums,
    lossy_channel,
    hashes,
    posts,
)
"""The checks; each is called by all ranks together."""


def failing(communicator: Communicator) -> list[str]:
    """The first check that fails on any rank, with the reason on this rank; the later ones, which
    may wait for ever, are left out."""
    for check in CHECKS:
        found = []
        try:
            check(communicator)
        except Exception as error:  # whatever a transport raises
            what = str(check.__doc__).splitlines()[0]
            found.append(f"rank {communicator.rank}: {what} {type(error).__name__}: {error}")
        if communicator.max(np.array([float(bool(found))]))[0]:
            return found
    return []


class _Losing:
    """A recorder that loses the last rank, at the first row after the start."""

    def __init__(self, communicator: Communicator, how: str) -> None:
        self._last, self._how = communicator.rank == communicator.size - 1, how

    columns = ()

    def __call__(self, problem: Any, state: Any, collective: Any) -> tuple[()]:
        if self._last and state.k > 0:
            sys.stdout.flush()
            match self._how:
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "stop":
                    os.kill(os.getpid(), signal.SIGSTOP)
                case _:
                    raise SystemExit
        return ()


def lose(communicator: Communicator, how: str, silence: float = 10.0) -> None:
    """Run until the loss of the last rank ends the run with an error."""
    problem = _problem(communicator.size)
    W = topologies.metropolis_weights(topologies.ring(communicator.size))
    losing = _Losing(communicator, how)
    solve(
        problem,
        "drfgt",
        W,
        iterations=_EVER,
        record_every=100,
        metrics=[losing],
        comm=communicator,
        clear_sums=True,
        rank_timeout=silence,
    )
    raise AssertionError(f"rank {communicator.rank} has not noticed the loss")


def _connect(place: str) -> Communicator:
    """What the function ``FILE.py:FUNCTION`` returns."""
    path, _, name = place.rpartition(":")
    spec = importlib.util.spec_from_file_location("transport", path)
    if spec is None or spec.loader is None or not os.path.exists(path):
        raise InputError(f"give FILE.py:FUNCTION, got {place!r}: {_USAGE}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    communicator: Communicator = getattr(module, name)()
    return communicator


def main(words: Sequence[str]) -> int:
    """Check the transport that the arguments name; the exit code."""
    match words:
        case [place]:
            how = ""
        case [place, "--lose", "kill" | "stop" | "leave" as how]:
            pass
        case _:
            sys.stderr.write(f"usage: {_USAGE}\n")
            return 2
    communicator = _connect(place)
    if how:
        lose(communicator, how)
    found = failing(communicator)
    every = communicator.allgather_bytes("\n".join(found).encode())
    if communicator.root:
        lines = [text.decode() for text in every if text]
        lines.append(f"{len(CHECKS)} checks on {communicator.size} ranks\n")
        sys.stdout.write("\n".join(lines))
        sys.stdout.flush()
    return int(any(every))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
