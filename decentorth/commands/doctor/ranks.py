"""The findings of ranks together: their cores, equal machines, and equality with the bits of one process."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...network.transport.communicator import Communicator
from ...process.environment import cores, local_ranks
from ...records.environment import blas, cpu_model, versions
from .findings import Finding
from .host import ITERATIONS, short_run


def rank_findings(communicator: Communicator) -> Iterator[Finding]:
    """The findings of all ranks, on rank 0; every rank must call it and exhaust it."""
    libraries = [f"{one['library']} {one['version']} {one['architecture']}" for one in blas()]
    me = {"host": socket.gethostname(), "arithmetic": [cpu_model(), *versions().values(), *libraries]}
    everyone = [json.loads(raw) for raw in communicator.allgather_bytes(json.dumps(me).encode())]
    agents = max(10, communicator.size)
    on_ranks = short_run(communicator, agents)
    if communicator.rank == 0:
        yield places(local_ranks(), len(cores()))
        yield agreement(everyone)
        yield _same_bits(f"{communicator.size} ranks", on_ranks, short_run("serial", agents))


def places(ranks: int, cores: int) -> Finding:
    """The finding on the ranks and the cores of rank 0's host."""
    found = f"{ranks} ranks on {cores} cores of this host"
    if ranks <= cores:
        return Finding("cores", "works", found)
    return Finding("cores", "note", found, "start no more ranks than cores, or one process, where speed matters")


def agreement(everyone: Sequence[Mapping[str, Any]]) -> Finding:
    """The finding on equal processors, packages and BLAS on all ranks, on which the bits depend."""
    first = everyone[0]
    for rank, one in enumerate(everyone):
        differing = [theirs for theirs in one["arithmetic"] if theirs not in first["arithmetic"]]
        if differing:
            unlike = f"on {one['host']}, unlike rank 0 on {first['host']}: last bits may differ"
            found, remedy = f"rank {rank} has {', '.join(differing)} {unlike}", "OPENBLAS_CORETYPE evens out processors"
            return Finding("same machines", "warning", found, f"install the same versions; {remedy}")
    return Finding("same machines", "works", "processor, packages and BLAS are the same on every rank")


def _same_bits(what: str, on_ranks: str, here: str) -> Finding:
    if here != on_ranks:
        found = f"after {ITERATIONS} iterations of the main job sha256 {on_ranks[:16]}, in one process {here[:16]}"
        return Finding(what, "fault", found, "a mixed cluster? See 'same machines'; else please report it")
    return Finding(what, "works", f"the first {ITERATIONS} iterations of the main job have the bits of one process")
