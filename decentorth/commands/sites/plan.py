"""The lines that a site reads before it agrees: who takes part, and what leaves it, to whom."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from ..._version import __version__
from ...api.capabilities import TWO_AGENTS
from ...api.ledger_table import sent
from ...data.files import extension
from ...display import size
from ...network import SerialCommunicator
from ...network.transport.along_edges import EXCHANGES, FACTS, USES
from ...numerics.threads import one_thread
from ...protocols import Declared
from ...running.history import schedule
from ..line.config import Configuration
from ..run.execution import made
from .folders import Site

_AGAIN = 2
"""A run compares about as much as the plan did: hashes of all arguments, by all sites."""
Bytes = Counter[tuple[str, str]]
"""Bytes by neighbour and quantity."""


class Foreseen(NamedTuple):
    """The bytes that leave this site."""

    method: str
    before: Bytes
    """Before the iterations."""
    each: Bytes
    """In an iteration."""
    alike: bool
    """True if the iterations need the same bits at all sites: those by sums, after which every
    site decides for itself what it does next."""
    rows: int
    """The most bytes for the rows of the history, to each neighbour."""


def shown(
    site: Site,
    configuration: Configuration,
    foreseen: Foreseen,
    sites: str,
    compared: Mapping[str, int],
) -> Iterator[str]:
    """The lines of the plan.

    ``sites`` are all sites with the fingerprints of their certificates, ``compared`` the bytes
    that went to each neighbour to compare settings.
    """
    given = configuration.run
    yield f"site        {site.identity.name}, one of {len(site.names)}: {sites}"
    yield (
        f"runs        {given.problem} by {foreseen.method}, at most {given.iterations} iterations, "
        f"seed {given.seed}; decentorth {__version__}"
    )
    if given.clear_sums:
        yield "sums        in the clear: a neighbour reads what this site sends it (--clear-sums)"
    else:
        yield "sums        masked: neighbours read random numbers, and all sites the totals"
    if not given.clear_sums and len(site.names) == 2:
        yield f"note        {TWO_AGENTS}"
    near = [site.names[rank] for rank in site.near]
    for name in near:
        yield from _to(name, foreseen, given.iterations)
        yield (
            f"            beside it about {size(_AGAIN * compared[name])} of {USES[FACTS]}: hashes, "
            "certificates, names of columns, numbers of samples; no sample"
        )
    yield (
        f"to others   {', '.join(site.away) or 'none'}: names of columns, numbers of samples, maxima, "
        "passed on; the server sees who sends when and how much"
    )
    yield '            what all this reveals: see the page "See what leaves a site"'


def _to(name: str, foreseen: Foreseen, iterations: int) -> Iterator[str]:
    """The lines about a neighbour."""
    before = {use: part for (to, use), part in foreseen.before.items() if to == name}
    each = {use: part for (to, use), part in foreseen.each.items() if to == name}
    most = sum(before.values()) + iterations * sum(each.values()) + foreseen.rows
    yield f"to {name:<8} at most about {size(most)} of {USES[EXCHANGES]}, of which"
    yield f"            before the iterations {size(sum(before.values()))}: {', '.join(before)}"
    if each:
        yield f"            in each about {size(sum(each.values()))}: {', '.join(each)}"
    if foreseen.rows:
        yield f"            rows of the history {size(foreseen.rows)}: sums over the sites"


def foresee(site: Site, configuration: Configuration) -> Foreseen:
    """Measure the messages of this site, by two iterations in this process.

    Made-up samples in the form of its own take the place of those of all sites.
    """
    own = Path(configuration.problem.data.split(",")[site.rank])
    masked = not configuration.run.clear_sums
    given = replace(configuration.run, secure=masked, clear_sums=False)
    with TemporaryDirectory() as folder:
        files = [Path(folder, f"{name}{extension(own)}") for name in site.names]
        for file in files:
            file.symlink_to(own.resolve())
        problem = replace(configuration.problem, data=",".join(map(str, files)))
        rehearsal = replace(configuration, run=given, problem=problem)
        run, _ = made(rehearsal, SerialCommunicator(), sized=True)
        states = run.states()
        with np.errstate(over="ignore", invalid="ignore"):
            state = next(states)
            before = _sent(run, state, site)
            next(states)
            first = _sent(run, state, site)
            next(states)
            each = _sent(run, state, site) - first
    method = given.algorithm
    if run.choice is not None:
        method = f"{run.choice.name} ({method})"
    count = len([*schedule(given.iterations, given.history_rows, given.record_every)])
    # of a row: the points, up to three gradients, five scalars and a feasibility of each site
    row = 8 * (4 * state.x[0].size + 5 + len(site.names))
    if run.single:
        count = 0
    alike = bool(each) and (run.single or Declared.of(run.algorithm).only_sums)
    return Foreseen(method, before, each, alike, count * row)


def _sent(run: Any, state: Any, site: Site) -> Bytes:
    """The bytes that this site has sent."""
    sends = Declared.of(run.algorithm).sends
    entries = {name: getattr(state, name)[0].size for name in sends if hasattr(state, name)}
    rows = sent(run.network, entries, site.names)
    return Counter(
        {(row.to, row.quantity): row.bytes for row in rows if row.site == site.identity.name}
    )


def rounding() -> str:
    """A hash of numbers that this computer has computed; equal where runs have the same bits."""
    draws = np.random.Generator(np.random.PCG64(0))
    A = draws.standard_normal((200, 33))
    stacked = draws.standard_normal((3, 50, 7))
    hashed = hashlib.sha256()
    with one_thread():
        C = A.T @ A
        found = [C, *np.linalg.eigh(C), *np.linalg.svd(A, full_matrices=False), *np.linalg.qr(A)]
        found += [np.linalg.solve(C, A[:33]), stacked.transpose(0, 2, 1) @ stacked]
        found += [A.sum(axis=1), np.linalg.norm(A, axis=0), np.exp(A), np.log(np.abs(A))]
    for array in found:
        hashed.update(np.ascontiguousarray(array).tobytes())
    return hashed.hexdigest()
