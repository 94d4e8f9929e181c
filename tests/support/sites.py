"""Sites as processes or threads over a real NATS server on the loopback, with certificates of
their own."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

import nats
import numpy as np

import decentorth as do
from decentorth.commands.sites.folders import CONFIGURATION, make
from decentorth.commands.sites.trial import (
    NAMES,
    agreeing,
    free_port,
    server_program,
    serving,
    write_tables,
)
from decentorth.network import AlongEdges
from decentorth.network.transport.nats_carrier import NatsCarrier
from tests.support.mpi import HUNG, SETTINGS
from tests.support.nats_ring import along_edges, carrier

T = TypeVar("T")
RUN = ("--problem", "pca", "--rank", "2", "--algorithm", "drfgt", "--clear-sums")
"""A run by gossip."""
SCREEN = "the reason is on its own screen"


class Place:
    """Folders of sites, their tables and a port."""

    def __init__(
        self, root: Path, graph: str = "path", names: Sequence[str] = NAMES, days: float = 2.0
    ) -> None:
        self.root, self.names, self.port = root / "sites", names, free_port()
        server, listen = f"localhost:{self.port}", f"127.0.0.1:{self.port}"
        make(self.root, graph, names, server, listen, days)
        write_tables(self.root)

    def serving(self) -> Any:
        return serving(server_program(), self.root / "server", self.port)

    def start(
        self,
        name: str,
        *flags: str,
        iterations: int = 100,
        run: Sequence[str] = RUN,
        out: Path | None = None,
        more: Mapping[str, str] = {},
    ) -> subprocess.Popen[str]:
        command = ["-m", "decentorth", "run", "--join", str(self.root / name)]
        command += ["--data", str(self.root / f"{name}.csv"), *run]
        command += ["--iterations", str(iterations)]
        command += ["--out", str(out or self.root / f"run-{name}")]
        return self._started([*command, *flags], more)

    def joining(self, name: str, *flags: str) -> subprocess.Popen[str]:
        """A site with these flags only."""
        command = ["-m", "decentorth", "run", "--join", str(self.root / name), *flags]
        return self._started(command, {})

    def checking(self, name: str, *flags: str) -> subprocess.Popen[str]:
        """A site of the suite of transports."""
        command = ["-m", "tests.support.conformance", "tests/support/nats_ring.py:joined", *flags]
        return self._started(command, {"SITE": str(self.root / name)})

    @staticmethod
    def _started(command: list[str], more: Mapping[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, *command],
            env={**os.environ, **SETTINGS, **more},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def points(self, name: str) -> Any:
        with np.load(self.root / f"run-{name}" / "final.npz") as saved:
            return saved["x"]

    def pooled(self, iterations: int, method: str = "drfgt", **more: Any) -> Any:
        """The points of all sites in one process."""
        files = ",".join(str(self.root / f"{name}.csv") for name in self.names)
        problem = do.problems.PCASettings(data=files, rank=2).problem(3, seed=0)
        return np.asarray(do.solve(problem, method, "path", iterations=iterations, **more).x)


def ended(sites: Sequence[subprocess.Popen[str]]) -> list[tuple[int, str]]:
    """The exit codes and the outputs of sites, which agree to what they are asked."""
    texts = [""] * len(sites)

    def read(place: int) -> None:
        texts[place] = agreeing(sites[place])

    readers = [threading.Thread(target=read, args=(k,)) for k in range(len(sites))]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(HUNG)
    return [(site.wait(HUNG), text) for site, text in zip(sites, texts, strict=True)]


def errors(found: Sequence[tuple[int, str]]) -> list[str]:
    """The last line of each output."""
    return [text.splitlines()[-1].removeprefix("decentorth: ") for _, text in found]


class Administrator(ABC):
    """A client with the server's rights, which hears messages while it is open."""

    subject = ">"

    def __init__(self, place: Place) -> None:
        self._place = place
        conf = place.root / "server" / CONFIGURATION
        text = conf.read_text().replace("users = [", 'users = [\n  { user: "CN=server" }')
        conf.write_text(text)

    @abstractmethod
    async def hear(self, message: Any) -> None:
        """Do something with a message."""

    async def listen(self, done: threading.Event, ready: threading.Event) -> None:
        folder = self._place.root / "server"
        tls = ssl.create_default_context(cafile=folder / "ca.pem")
        tls.load_cert_chain(folder / "server.pem", folder / "server.key")
        self._client = await nats.connect(f"tls://localhost:{self._place.port}", tls=tls)
        await self._client.subscribe(self.subject, cb=self.hear)
        await self._client.flush()
        ready.set()
        while not done.is_set():
            await asyncio.sleep(0.05)
        await self._client.close()

    def __enter__(self) -> Self:
        self._done, ready = threading.Event(), threading.Event()
        work = self.listen(self._done, ready)
        self._thread = threading.Thread(target=asyncio.run, args=(work,))
        self._thread.start()
        assert ready.wait(60.0)
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        self._thread.join()


class Tap(Administrator):
    """A wiretap, which records all messages."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.heard: list[tuple[str, bytes]] = []

    async def hear(self, message: Any) -> None:
        self.heard.append((message.subject, message.data))


Attack = Callable[[int, bytes], Sequence[bytes]]
"""From the number of a sealed message and the message, what is passed on in its place."""


class Intruder(Administrator):
    """Stands in the server between two sites, and passes on what an attack makes of the messages
    from the first to the second."""

    subject = "held.>"

    def __init__(self, place: Place, sender: str, receiver: str, attack: Attack) -> None:
        super().__init__(place)
        self._attack, self._count = attack, 0
        about = json.loads((place.root / sender / "site.json").read_text())
        way = f"{about['run']}.{sender}.{receiver}"
        self._forged = f"forged.{way}"
        conf = place.root / "server" / CONFIGURATION
        mappings = f'mappings = {{ "do.{way}": "held.{way}", "{self._forged}": "do.{way}" }}\n'
        # the server permits what it has mapped
        permitted = conf.read_text().replace(f'"do.{way}"', f'"do.{way}", "held.{way}"')
        conf.write_text(mappings + permitted)

    async def hear(self, message: Any) -> None:
        passed: Sequence[bytes] = [message.data]
        if message.data[:1] == b"S":
            passed = self._attack(self._count, message.data)
            self._count += 1
        for data in passed:
            await self._client.publish(self._forged, data)


def at_sites(
    place: Place,
    work: Callable[[AlongEdges], T],
    kinds: Mapping[str, type[NatsCarrier]] | None = None,
    names: Sequence[str] = (),
    waiting: float = 60.0,
) -> list[T | Exception]:
    """What ``work(communicator)`` returns at each site, or the error that ends it; sites are threads
    here, by default all. ``kinds`` are carriers of other kinds, by the names of their sites."""
    names = names or place.names
    found: dict[str, T | Exception] = {}

    def at(name: str) -> None:
        kind = (kinds or {}).get(name, NatsCarrier)
        try:
            with carrier(place.root / name, kind, waiting) as made:
                found[name] = work(along_edges(place.root / name, made))
        except Exception as error:
            found[name] = error

    threads = [threading.Thread(target=at, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HUNG)
    return [found[name] for name in names]


def refuse(sites: Sequence[subprocess.Popen[str]]) -> Iterator[tuple[int, str]]:
    """The ends of sites, whose keyboards are closed."""
    for site in sites:
        if site.stdin is not None:
            site.stdin.close()
            site.stdin = None
    for site in sites:
        text, _ = site.communicate(timeout=HUNG)
        yield site.returncode, text
