"""``decentorth sites``: make the folders of a run between institutions, or try such a run here.

Exit codes: 0 done, 1 a site of the trial failed, 2 bad input.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from topologies.line.flags import InputError, arguments

from ...process.printing import BAD_INPUT, say
from ...settings import Positive
from ..line.shell import alone, of_function

_USAGE = "decentorth sites make GRAPH --names A,B,C --server HOST:PORT, or decentorth sites trial"
_MISSING = (
    "name a graph, as in: decentorth sites make path --names north,south,west --server "
    "hub.example.org:4222"
)


def main(tokens: Sequence[str] | None = None) -> int:
    """Make folders or try a run, as the first argument says; the exit code."""
    match arguments(tokens):
        case ["make", *words]:
            return of_function(words, made, "decentorth sites make GRAPH", missing=_MISSING)
        case ["trial", *words]:
            from .trial import main as trial

            return trial(words)
        case ["--help" | "-h", *_]:
            return say(
                f"Usage: {_USAGE}\n\ndecentorth sites make --help describes make, decentorth sites trial --help trial."
            )

    def refuse(words: list[str]) -> int:
        raise InputError(f"say what to do: {_USAGE}")

    return alone(tokens, refuse, name="decentorth sites") or BAD_INPUT


def made(
    graph: str,
    /,
    *,
    names: str | None = None,
    server: str | None = None,
    listen: str | None = None,
    days: Positive = 90.0,
    out: str = "sites",
) -> str:
    """Write the server's configuration, an authority to keep offline, and a folder for each site.

    Parameters
    ----------
    graph
        The graph of the sites by its name: path, ring, star, complete.
    names
        The names of the sites, in the order of the graph's nodes: north,south,west.
    server
        The address of the server as the sites see it, HOST:PORT.
    listen
        The address at which the server listens, by default that of --server.
    days
        The days for which the certificates are valid.
    out
        The new folder.

    Returns
    -------
    str
        What was written, and how to start the server.
    """
    from .folders import make, site_names

    if names is None or server is None:
        raise InputError(_MISSING)
    host, _, port = server.rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"--server must be HOST:PORT, as hub.example.org:4222, got {server!r:.80}")
    known = site_names(names)
    edges = make(Path(out), graph, known, server, listen or server, days)
    listed = ", ".join(f"{known[i]}-{known[j]}" for i, j in edges)
    return (
        f"{out}/NAME       for each of {', '.join(known)}: hand it over safely, then delete it\n"
        f"{out}/authority  the key of all certificates: keep it offline\n"
        f"{out}/server     start there: nats-server -c nats.conf\n"
        f"edges            {listed}; certificates for {days:g} days"
    )
