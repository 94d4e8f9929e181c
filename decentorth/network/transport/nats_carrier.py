"""Messages between sites through a NATS server: sites only dial out, over TLS with certificates on
both sides.

The server passes on sealed messages (`sealed`): it sees who sends to whom, when and how much. A
connection that is lost ends the run, which resumes from its checkpoint.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import queue
import ssl
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import nats
from cryptography import x509

from .along_edges import Carrier
from .sealed import Seal, SiteError, SiteIdentity, SiteLostError

_GREETING, _SEALED = b"G", b"S"
_READY, _BEAT, _LOST, _ENDED, _MORE = b"r", b"b", b"l", b"n", b"+"
"""The kinds of sealed messages beside those of `along_edges`."""
_PIECE = 900_000
"""The bytes of a message; a NATS server takes 1 MB."""
_BEAT_SECONDS = 2.0
_GREETING_SECONDS = 0.5
WORD_SECONDS = 10.0
"""The seconds between two words about a site that is awaited."""
_CONNECTING_SECONDS = 10
_LONGEST = 300
"""The most characters of a neighbour's words that are printed."""
OWN_SCREEN = "the reason is on its own screen"
"""The words that neighbours read of an error that is not of the transport."""


class _Quiet(logging.Filter):
    """Leaves out a word of asyncio about connections over TLS that end."""

    def filter(self, record: logging.LogRecord) -> bool:
        return "eof_received" not in record.getMessage()


class NatsCarrier(Carrier):
    """A `Carrier` between this site and its neighbours; a context that leaves them at its end.

    Parameters
    ----------
    identity
        This site.
    server
        ``"tls://host:port"``.
    names
        The names of all sites, in the order of their ranks.
    neighbours
        The ranks of the neighbours.
    run
        The name of the run.
    waiting
        The seconds in which the neighbours must come.
    tell
        Called from time to time with the names of the neighbours that are awaited.

    Raises
    ------
    SiteError
        The server, or a certificate, is not that of this run.
    SiteLostError
        The server does not answer, or a neighbour does not come.
    """

    def __init__(
        self,
        identity: SiteIdentity,
        server: str,
        names: Sequence[str],
        neighbours: Sequence[int],
        run: str,
        waiting: float,
        tell: Callable[[list[str]], object] = lambda names: None,
    ) -> None:
        self.identity = identity
        self._names = names
        self._run = run
        self.rank = names.index(identity.name)
        self.size = len(names)
        self._seals = {rank: Seal(identity, names[rank], run) for rank in neighbours}
        self._boxes: dict[int, queue.SimpleQueue[bytes | None]] = {
            rank: queue.SimpleQueue() for rank in neighbours
        }
        self._parts = dict.fromkeys(neighbours, b"")
        self._ready = {rank: threading.Event() for rank in neighbours}
        self._heard = dict.fromkeys(neighbours, time.monotonic())
        self._ended: set[int] = set()
        self._silence, self._over = 30.0, False
        self._failure: SiteError | None = None
        self._nats: Any = None
        self._tasks: list[asyncio.Task[None]] = []
        logging.getLogger("asyncio").addFilter(_Quiet())
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            self._await(self._connected(server), 2.0 * _CONNECTING_SECONDS)
            self._meet(waiting, tell)
        except BaseException as error:
            self.leave(error)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave(error)

    @property
    def certificates(self) -> Mapping[int, x509.Certificate]:
        """The certificates of the neighbours."""
        found = {rank: seal.certificate for rank, seal in self._seals.items()}
        return {rank: one for rank, one in found.items() if one is not None}

    def post(self, target: int, kind: bytes, data: bytes) -> None:
        self._put(target, kind + data)

    def take(self, source: int, kind: bytes) -> bytes:
        box = self._boxes[source]
        data = None
        if not (self._failure and box.empty()):  # what came before the failure is still taken
            data = box.get()
        if data is None:
            raise self._failure or SiteLostError(f"site {self._names[source]} has ended its run")
        if data[:1] != kind:
            raise SiteError(
                f"site {self._names[source]} is at another step of the method than this one: its "
                "processor, NumPy or decentorth rounds differently"
            )
        return data[1:]

    def limit(self, seconds: float) -> None:
        """Set the seconds after which a silent neighbour is lost, at least those of two beats."""
        self._silence = max(seconds, 2 * _BEAT_SECONDS)

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "NATS, encrypted for the neighbour"}

    def signed(self, data: bytes) -> bytes:
        return self.identity.signed(data.hex())

    def opened(self, signed: bytes, rank: int) -> bytes:
        name = self._names[rank]
        text, _ = self.identity.opened(signed, name)
        try:
            return bytes.fromhex(text)
        except (ValueError, TypeError):
            raise SiteError(f"what site {name} has signed is damaged") from None

    def leave(self, error: BaseException | None = None) -> None:
        """Send the rest and leave; after an error the neighbours' runs end too, with its words if
        they are of the transport."""
        if self._over:
            return
        self._over = True
        last = _ENDED
        if error is not None:
            words = f"site {self.identity.name} cannot continue: {OWN_SCREEN}"
            if isinstance(error, SiteError):
                words = str(error)
            last = _LOST + words.encode()
        for rank, ready in self._ready.items():
            if ready.is_set():
                self._put(rank, last)
        # the connection may be gone
        with contextlib.suppress(TimeoutError, OSError, nats.errors.Error):
            self._await(self._closed(), _CONNECTING_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CONNECTING_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    def _await(self, work: Coroutine[Any, Any, None], seconds: float) -> None:
        """Do work in the loop's thread."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def _put(self, rank: int, data: bytes) -> None:
        """Queue a message; one task numbers, seals and sends all of them, in their order."""
        self._loop.call_soon_threadsafe(self._outgoing.put_nowait, (rank, data))

    async def _connected(self, server: str) -> None:
        self._outgoing: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        folder = self.identity.folder
        name = self.identity.name
        tls = ssl.create_default_context(cafile=folder / "ca.pem")
        tls.minimum_version = ssl.TLSVersion.TLSv1_3
        tls.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
        troubles: list[Exception] = []

        async def lost() -> None:
            self._fail(SiteLostError("the connection to the server is lost"))

        async def wrong(error: Exception) -> None:
            troubles.append(error)
            if "ermissions" in str(error):
                self._fail(SiteError(f"the server forbids a message of this site ({error})"))
            elif isinstance(error, nats.errors.SlowConsumerError):
                self._fail(SiteLostError("messages come faster than this site can take them"))

        try:
            self._nats = await nats.connect(
                server,
                tls=tls,
                allow_reconnect=False,
                max_reconnect_attempts=1,
                connect_timeout=_CONNECTING_SECONDS,
                error_cb=wrong,
                disconnected_cb=lost,
            )
            await self._nats.subscribe(f"do.{self._run}.*.{name}", cb=self._hear)
            await self._nats.flush()
        except Exception as error:  # of sockets, of TLS, of the server
            raise _refusal(server, [error, *troubles]) from None
        self._tasks = [self._loop.create_task(one) for one in (self._send_all(), self._beat())]

    async def _closed(self) -> None:
        if self._nats is None:
            return
        await self._outgoing.join()
        for task in self._tasks:
            task.cancel()
        if not self._nats.is_closed:
            await self._nats.flush()
            await self._nats.close()

    def _meet(self, waiting: float, tell: Callable[[list[str]], object]) -> None:
        """Greet the neighbours until each has answered."""
        now = time.monotonic()
        until = now + waiting
        told = now - WORD_SECONDS + 2 * _GREETING_SECONDS
        while missing := [rank for rank, ready in self._ready.items() if not ready.is_set()]:
            for rank in missing:
                self._put(rank, _GREETING)
            self._ready[missing[0]].wait(_GREETING_SECONDS)
            names = [self._names[rank] for rank in missing]
            now = time.monotonic()
            if self._failure:
                raise self._failure
            if now > until:
                raise SiteLostError(f"site {', '.join(names)} has not come within {waiting:g} s")
            if now > told + WORD_SECONDS:
                told = now
                tell(names)

    async def _send_all(self) -> None:
        """Send what is queued."""
        while True:
            rank, data = await self._outgoing.get()
            try:
                await self._send(rank, data)
            except (nats.errors.Error, OSError) as error:
                self._fail(SiteLostError(f"the connection to the server is lost ({error})"))
            finally:
                self._outgoing.task_done()

    async def _send(self, rank: int, data: bytes) -> None:
        seal = self._seals[rank]
        if data == _GREETING:
            await self._publish(rank, _GREETING + seal.greeting())
            return
        kind = data[:1]
        rest = data[1:]
        while len(rest) > _PIECE:
            await self._publish(rank, _SEALED + seal.close(_MORE + rest[:_PIECE]))
            rest = rest[_PIECE:]
        await self._publish(rank, _SEALED + seal.close(kind + rest))

    async def _publish(self, rank: int, data: bytes) -> None:
        subject = f"do.{self._run}.{self.identity.name}.{self._names[rank]}"
        await self._nats.publish(subject, data)

    async def _hear(self, message: Any) -> None:
        """Take a message of a neighbour; any error about it ends the run."""
        try:
            rank = self._names.index(message.subject.split(".")[2])
            seal = self._seals[rank]
            data = message.data
            if data[:1] == _GREETING:
                if seal.greeted(data[1:]):
                    self._outgoing.put_nowait((rank, _GREETING))
                    self._outgoing.put_nowait((rank, _READY))
            elif seal.certificate is not None:  # otherwise it is of a run before this one
                self._heard[rank] = time.monotonic()
                self._opened(rank, seal.open(data[1:]))
        except SiteError as error:
            self._fail(error)
        except (ValueError, KeyError, IndexError):
            self._fail(SiteError(f"a message came from no neighbour ({message.subject})"))

    def _opened(self, rank: int, data: bytes) -> None:
        """Put the contents of a message in their place."""
        name = self._names[rank]
        kind = data[:1]
        rest = data[1:]
        match kind:
            case b"r":
                self._ready[rank].set()
            case b"b":
                pass
            case b"l":
                words = rest.decode("ascii", "backslashreplace")[:_LONGEST]
                self._fail(SiteLostError(words if words.isprintable() else f"site {name} ended"))
            case b"n":
                self._ended.add(rank)
                self._boxes[rank].put(None)
            case b"+":
                self._parts[rank] += rest
            case _:
                self._boxes[rank].put(kind + self._parts[rank] + rest)
                self._parts[rank] = b""

    async def _beat(self) -> None:
        """Give a sign of life from time to time, and watch the neighbours and the certificates."""
        while not self._over:
            try:
                self.identity.check_dates(self.identity.certificate, self.identity.name)
                for rank, one in self.certificates.items():
                    self.identity.check_dates(one, self._names[rank])
            except SiteError as error:
                self._fail(error)
            for rank, ready in self._ready.items():
                if not ready.is_set() or rank in self._ended:
                    continue
                self._outgoing.put_nowait((rank, _BEAT))
                if time.monotonic() - self._heard[rank] > self._silence:
                    words = f"site {self._names[rank]} has been silent for {self._silence:g} s"
                    self._fail(SiteLostError(words))
            await asyncio.sleep(_BEAT_SECONDS)

    def _fail(self, error: SiteError) -> None:
        """End all waiting, once; the neighbours hear of it when this site leaves."""
        if self._over or self._failure:
            return
        self._failure = error
        for box in self._boxes.values():
            box.put(None)


def _refusal(server: str, troubles: Sequence[Exception]) -> SiteError:
    """The error, in words for its user, of a connection that failed."""
    host = server.removeprefix("tls://")
    text = "; ".join(f"{one!r}" for one in troubles)
    for one in troubles:
        match one:
            case ssl.SSLCertVerificationError(verify_message=why):
                return SiteError(
                    f"the server at {host} shows a certificate that is not of this run: {why}"
                )
            case OSError() if not isinstance(one, ssl.SSLError):
                return SiteLostError(
                    f"no server answers at {host}: is it running, and may this computer connect "
                    "to it?"
                )
    if "uthorization" in text:
        return SiteError(
            f"the server at {host} knows no site of this name: its nats.conf is of another run"
        )
    if "NoServers" in text or "Timeout" in text:
        return SiteLostError(
            f"no server answers at {host}: is it running, and may this computer connect to it?"
        )
    return SiteError(
        f"the server at {host} refuses this site, whose certificate may be revoked or be of "
        f"another run ({text:.200})"
    )
