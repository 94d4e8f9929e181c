"""The findings of ranks together: equal machines, and equality with the bits of one process."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence

from ...network.transport.communicator import Communicator, connect
from ...records.machine import blas, cpu_model, versions
from ...running.checkpoint.checkpoint_files import Json
from .findings import Finding
from .host import ITERATIONS, short_run

_MAIN = f"{ITERATIONS} iterations of the main job have"


def rank_findings(communicator: Communicator) -> Iterator[Finding]:
    """The findings of all ranks, on rank 0; every rank must call it and exhaust it."""
    libraries = ["{library} {version} {architecture}".format(**one) for one in blas()]
    arithmetic = [cpu_model(), *versions().values(), *libraries]
    me = json.dumps({"host": socket.gethostname(), "arithmetic": arithmetic}).encode()
    everyone = [json.loads(raw) for raw in communicator.allgather_bytes(me)]
    agents = max(10, communicator.size)
    on_ranks = short_run(communicator, agents)
    if communicator.rank == 0:
        yield agreement(everyone)
        yield _same_bits(f"{communicator.size} ranks", on_ranks, short_run("serial", agents))


def torch_findings() -> Iterator[Finding]:
    """The findings of the processes of torchrun, as `rank_findings`."""
    try:
        communicator = connect("torch")
    except (ImportError, RuntimeError) as error:
        yield Finding("torchrun", "fault", str(error), "pip install torch")
        return
    if communicator.rank == 0:
        yield Finding("torchrun", "works", str(communicator.describe()["library"]))
    yield from rank_findings(communicator)


def agreement(everyone: Sequence[Json]) -> Finding:
    """The finding on equal processors, packages and BLAS on all ranks, on which the bits depend."""
    first = everyone[0]
    for rank, one in enumerate(everyone):
        differing = [one for one in one["arithmetic"] if one not in first["arithmetic"]]
        if differing:
            found = (
                f"rank {rank} has {', '.join(differing)} on {one['host']}, unlike rank 0 on "
                f"{first['host']}: last bits may differ"
            )
            remedy = "install the same versions; OPENBLAS_CORETYPE evens out processors"
            return Finding("same machines", "warning", found, remedy)
    same = "processor, packages and BLAS are the same on every rank"
    return Finding("same machines", "works", same)


def _same_bits(what: str, on_ranks: str, here: str) -> Finding:
    if here != on_ranks:
        found = f"{_MAIN} sha256 {on_ranks[:16]}, in one process {here[:16]}"
        remedy = "a mixed cluster? See 'same machines'; else please report it"
        return Finding(what, "fault", found, remedy)
    return Finding(what, "works", f"{_MAIN} the bits of one process")
