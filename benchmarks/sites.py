"""A round of sites over NATS beside one of MPI, and with a delay on the way.

    mpirun -n 3 python benchmarks/sites.py
    mpirun -n 3 python benchmarks/sites.py --delay 20

Three ranks on a path exchange 5 kB with their neighbours: by MPI, and over a NATS server on the
loopback, sealed, in blocks in turn; the one in the middle prints. With ``--delay`` a message from
one site to another is that many milliseconds on its way, half of them to the server.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy as np

from decentorth.commands.sites.folders import SITE, Site, make
from decentorth.commands.sites.trial import NAMES, free_port, server_program, serving
from decentorth.network import AlongEdges, Communicator, connect
from decentorth.network.transport.nats_carrier import NatsCarrier

NUMBERS = 640
"""The numbers of an exchange, of 5 kB."""
BLOCKS = 7


async def _relay(listen: int, target: int, seconds: float) -> None:
    """Pass bytes between two ports of the loopback, each some seconds later."""
    loop = asyncio.get_running_loop()

    async def one_way(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            loop.call_later(seconds, writer.write, data)
        loop.call_later(seconds, writer.close)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward, back = await asyncio.open_connection("127.0.0.1", target)
        with contextlib.suppress(OSError):
            await asyncio.gather(one_way(reader, back), one_way(onward, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", listen)
    await server.serve_forever()


@contextlib.contextmanager
def made(delay: float) -> Iterator[Path]:
    """The folders of three sites, while their server runs."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        out = Path(folder) / "sites"
        port, way = free_port(), free_port()
        make(out, "path", NAMES, f"localhost:{way}", f"127.0.0.1:{port}", 1.0)
        if not delay:
            for name in NAMES:
                about = json.loads((out / name / SITE).read_text())
                about["server"] = f"tls://localhost:{port}"
                (out / name / SITE).write_text(json.dumps(about))
        stack.enter_context(serving(server_program(), out / "server", port))
        if delay:
            words = ["--relay", str(way), str(port), str(delay / 2000)]
            relay = subprocess.Popen([sys.executable, __file__, *words])
            stack.callback(relay.wait)
            stack.callback(relay.terminate)
            answers(way)
        yield out


def answers(port: int) -> None:
    """Wait until something listens at a port of the loopback."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)


def block(communicator: Communicator, neighbours: list[int], rounds: int) -> float:
    """The milliseconds of a round in which every rank exchanges 5 kB with its neighbours."""
    sends = [(rank, np.zeros(NUMBERS)) for rank in neighbours]
    receives = [(rank, np.empty(NUMBERS)) for rank in neighbours]
    exchange = communicator.exchange(sends, receives)
    exchange()
    begun = time.perf_counter()
    for _ in range(rounds):
        exchange()
    return 1e3 * (time.perf_counter() - begun) / rounds


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--delay", type=float, default=0.0, help="milliseconds between sites")
    parser.add_argument("--relay", nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.relay:
        listen, target, seconds = given.relay
        asyncio.run(_relay(int(listen), int(target), float(seconds)))
        return
    ranks = connect("world")
    if ranks.size != len(NAMES):
        sys.exit("start three ranks: mpirun -n 3 python benchmarks/sites.py")
    with contextlib.ExitStack() as stack:
        folder = b""
        if ranks.root:
            folder = str(stack.enter_context(made(given.delay))).encode()
        measure(ranks, Path(ranks.bcast_bytes(folder).decode()), given.delay)
        ranks.max(np.zeros(1))


def measure(ranks: Communicator, folder: Path, delay: float) -> None:
    """Exchange by MPI and over NATS in turn; rank 0 prints."""
    site = Site.of(folder / NAMES[ranks.rank])
    arguments = (site.identity, site.server, site.names, site.near, site.run, 60.0)
    with NatsCarrier(*arguments) as carrier:
        sites = AlongEdges(carrier, site.edges, site.names)
        by_mpi: list[float] = []
        over_nats: list[float] = []
        rounds = 30 if delay else 300
        for _ in range(BLOCKS):
            by_mpi.append(block(ranks, site.near, rounds))
            over_nats.append(block(sites, site.near, rounds))
        sites.max(np.zeros(1))
    if ranks.rank != 1:
        return
    for name, times in (("MPI", by_mpi), ("NATS", over_nats)):
        print(f"{name:<5} a round of 5 kB: {in_words(times)} ms")
    ratios = [nats / mpi for nats, mpi in zip(over_nats, by_mpi, strict=True)]
    print(f"NATS / MPI: {in_words(ratios)}")
    if delay:
        print(f"NATS, in delays of {delay:g} ms: {in_words([one / delay for one in over_nats])}")


def in_words(values: list[float]) -> str:
    """The median of blocks and their range."""
    return f"{np.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


if __name__ == "__main__":
    main()
