"""The watchdog: it ends the job, naming the rank, when a rank is stopped or its host is frozen or
cannot be reached.

Every rank has a daemon thread that sends its successor in the ring of ranks a datagram (UDP) about
once a second, and listens for those of its predecessor. A rank that receives nothing from its
predecessor for ``limit`` seconds says so and ends the job.

A signal that stops a process stops all its threads, so a stopped rank is silent, while a rank in a
long gradient is not, as NumPy and BLAS let Python's other threads run. A call that holds Python's
lock for all that time is silent too, so the limit is minutes by default, and 0 switches it off.
Datagrams do not go through MPI, where a second thread slows every message down and the library
itself may hang, nor through files, which a run need not have. In a ring each rank listens to one
other, whatever their number, and if some ranks are alive and some are not, an alive one has a dead
predecessor.

Datagrams may be lost, so several must be missing. Time in which the listener itself did not run
does not count: a job whose processes are all stopped together, as schedulers do to suspend it,
continues. A predecessor that was never heard (a firewall between hosts) is not watched, which is
logged. On one host the sockets are on the loopback; a datagram without the job's token is ignored.

The same thread ends a rank whose launcher has died and, if a limit is given, one that computes for
too long without communicating, with the lines of code where it is. Failures before all ranks are
connected are left to the launcher.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import struct
import sys
import threading
import time
import traceback
from collections.abc import Callable
from math import inf
from typing import NamedTuple, TypeAlias

from ...process.abort import RANK_TIMEOUT, abort, end_soon
from ...process.environment import expected_ranks, local_ranks

if sys.platform == "linux":
    import fcntl

_BEAT_SECONDS = 1.0
_BEATS = 5
"""The least number of datagrams that are missed before a rank counts as lost."""
_TOKEN_BYTES = 16
_SIOCGIFADDR = 0x8915  # Linux; on other systems it fails, and only ranks of one host are watched
log = logging.getLogger(__name__)


Everyone: TypeAlias = Callable[[bytes], list[bytes]]


class Pulse:
    """A count of the working thread's calls to other ranks: it is constant while that thread
    computes."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class _Peer(NamedTuple):
    """The addresses and the name of a rank."""

    token: str
    addresses: list[str]
    port: int
    process: int
    host: str


class Watchdog:
    """The watchdog of this rank: it watches the predecessor and is watched by the successor, until
    `close` or ``finished()``.

    ``everyone`` is a collective call that returns every rank's bytes, in rank order.
    """

    def __init__(
        self, rank: int, size: int, everyone: Everyone, pulse: Pulse, finished: Callable[[], bool]
    ) -> None:
        self.limit(RANK_TIMEOUT, inf)
        self._rank = rank
        self._pulse = pulse
        self._finished = finished
        self._launcher = os.getppid()
        alone = local_ranks() >= expected_ranks()[0]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1" if alone else "", 0))
        addresses = ["127.0.0.1"] if alone else _addresses()
        token = os.urandom(_TOKEN_BYTES).hex()
        port = self._socket.getsockname()[1]
        own = _Peer(token, addresses, port, os.getpid(), socket.gethostname())
        self._peers = [_Peer(*json.loads(text)) for text in everyone(json.dumps(own).encode())]
        self._token = bytes.fromhex(self._peers[0].token)
        self._before = (rank - 1) % size
        self._after = (rank + 1) % size
        self._open = True
        threading.Thread(target=self._run, name="decentorth-watch", daemon=True).start()

    def limit(self, silence: float, computing: float) -> None:
        """Set the seconds after which a silent predecessor, or a calling thread that computes
        alone, ends the job."""
        self._silence = silence
        self._computing = computing
        self._worker = threading.get_ident()

    def close(self) -> None:
        """Stop watching and being watched; called when all ranks are about to end."""
        self._open = False

    def _run(self) -> None:
        with self._socket:
            self._watch()

    def _watch(self) -> None:
        silent = computing = 0.0
        heard = False
        count = self._pulse.count
        last = due = time.monotonic()
        while self._open and not self._finished():
            now = time.monotonic()
            beat = min(_BEAT_SECONDS, self._silence / _BEATS, self._computing / _BEATS)
            if now >= due:
                lived = min(now - last, 2 * beat)  # in the rest this process did not run
                last = now
                due = now + beat
                silent = silent + lived
                computing = computing + lived
                self._send(self._after, b"")
                if count != self._pulse.count:
                    count = self._pulse.count
                    computing = 0.0
                if os.getppid() != self._launcher:
                    self._end(
                        f"rank {self._rank} ends, as its launcher (process {self._launcher}) has "
                        "gone"
                    )
                elif computing > self._computing:
                    self._end(self._where(computing))
                elif silent > self._silence and heard:
                    self._end(self._missing(silent))
                elif silent > self._silence:
                    log.warning(
                        "rank %d hears nothing of rank %d, and does not watch it",
                        self._rank,
                        self._before,
                    )
                    silent = -inf
            self._socket.settimeout(max(0.0, due - time.monotonic()))
            with contextlib.suppress(OSError):
                source, ending = self._read(self._socket.recv(64))
                if ending:
                    end_soon()
                    return
                if source == self._before:
                    silent, heard = 0.0, True

    def _send(self, rank: int, word: bytes) -> None:
        peer = self._peers[rank]
        datagram = self._token + struct.pack("<I", self._rank) + word
        for address in peer.addresses:
            with contextlib.suppress(OSError):  # a network that is down: nothing is heard
                self._socket.sendto(datagram, (address, peer.port))

    def _read(self, datagram: bytes) -> tuple[int, bool]:
        """The rank that sent it (-1: not of this job), and True if the job must end."""
        if len(datagram) < _TOKEN_BYTES + 4 or not datagram.startswith(self._token):
            return -1, False
        return struct.unpack_from("<I", datagram, _TOKEN_BYTES)[0], len(datagram) > _TOKEN_BYTES + 4

    def _missing(self, seconds: float) -> str:
        peer = self._peers[self._before]
        return (
            f"rank {self._before} (process {peer.process} on {peer.host}) has given no sign of "
            f"life for {seconds:.3g} s, and rank {self._rank} ends the job: that process is "
            "stopped, its host is frozen or cannot be reached, or one call there holds Python's "
            f"lock. Seconds that are waited: rank_timeout {self._silence:g}"
        )

    def _where(self, seconds: float) -> str:
        frame = sys._current_frames().get(self._worker)
        stack = "".join(traceback.format_stack(frame)) if frame else ""
        return (
            f"rank {self._rank} has computed for {seconds:.3g} s without meeting the others, and "
            f"ends the job (compute_timeout {self._computing:g}); it is here:\n{stack}"
        )

    def _end(self, why: str) -> None:
        """End all ranks, including ranks that the launcher cannot reach."""
        self._open = False
        end_soon()
        with contextlib.suppress(OSError):  # standard error is closed
            # not through sys.stderr, which another thread may hold
            os.write(2, f"decentorth: {why.rstrip()}\n".encode())
        for other in range(len(self._peers)):
            if other != self._rank:
                self._send(other, b"end")
        abort(1)


def _addresses() -> list[str]:
    """The IPv4 addresses of this host, with the loopback for other ranks on it; on systems other
    than Linux that alone."""
    found: list[str] = []
    if sys.platform == "linux":
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            for _, name in socket.if_nameindex():
                with contextlib.suppress(OSError):  # an interface without an address
                    asked = struct.pack("256s", name.encode())
                    answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, asked)
                    found.append(socket.inet_ntoa(answer[20:24]))
    return found or ["127.0.0.1"]
