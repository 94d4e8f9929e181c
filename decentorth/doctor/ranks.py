"""The findings of ranks together: their cores, equality with the bits of one process, and the speed of exchanges."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from topologies import ring, uniform_weights

from ..cli.environment import blas, cpu_model, versions
from ..network import Network
from ..network.transport.communicator import Communicator
from ..numerics.threads import one_thread
from ..process.environment import cores
from ..protocols import Array
from .findings import Finding
from .job import ITERATIONS, short_run

AGENTS, SHAPE = 10, (50, 20)
_SLOW = 1000.0
"""The time of a benchmark iteration, in microseconds, above which a single host counts as slow.

It is 15 for one rank, 100 to 300 for 10 ranks on two cores, and 18,000 with a library that never yields the core.
"""


def rank_findings(communicator: Communicator) -> Iterator[Finding]:
    """The findings of all ranks, on rank 0; every rank must call it and exhaust it."""
    agents = max(AGENTS, communicator.size)
    me = {
        "host": socket.gethostname(),
        "cores": cores(),
        "arithmetic": [
            cpu_model(),
            *versions().values(),
            *(f"{one['library']} {one['version']} {one['architecture']}" for one in blas()),
        ],
    }
    everyone = [json.loads(raw) for raw in communicator.allgather_bytes(json.dumps(me).encode())]
    bits = _same_bits(communicator, agents)
    speed = ring_benchmark(communicator, agents)
    if communicator.rank == 0:
        yield places(everyone)
        yield agreement(everyone)
        yield bits
        yield _speed(*speed, communicator.size, len({one["host"] for one in everyone}))


def places(everyone: Sequence[Mapping[str, Any]]) -> Finding:
    """The finding on ranks per core, from the report of each rank."""
    hosts: dict[str, list[Mapping[str, Any]]] = {}
    for one in everyone:
        hosts.setdefault(one["host"], []).append(one)
    cores = {host: len({core for one in ranks for core in one["cores"]}) for host, ranks in hosts.items()}
    words = [f"{len(ranks)} on {cores[host]} core{'s' * (cores[host] > 1)} of {host}" for host, ranks in hosts.items()]
    found = f"{len(everyone)} rank{'s' * (len(everyone) > 1)}: {', '.join(words)}"
    if all(len(ranks) <= cores[host] for host, ranks in hosts.items()):
        return Finding("ranks, cores", "works", found)
    remedy = "no more ranks than cores, or one process, where speed matters: each further rank costs some 20 us an iteration"
    return Finding("ranks, cores", "note", found, remedy)


def agreement(everyone: Sequence[Mapping[str, Any]]) -> Finding:
    """The finding on equal processors, packages and BLAS on all ranks, on which the bits depend."""
    first = everyone[0]
    for rank, one in enumerate(everyone):
        differing = [f"{theirs} on {one['host']}" for theirs in one["arithmetic"] if theirs not in first["arithmetic"]]
        if differing:
            found = f"rank {rank} has {', '.join(differing)}, unlike rank 0 on {first['host']}: last bits may differ"
            return Finding("same machines", "warning", found, "install the same versions; OPENBLAS_CORETYPE evens out processors")
    return Finding("same machines", "works", "processor, packages and BLAS are the same on every rank")


def _same_bits(communicator: Communicator, agents: int) -> Finding:
    on_ranks = short_run(communicator, agents)
    here = short_run("serial", agents) if communicator.rank == 0 else on_ranks
    what = f"{communicator.size} rank{'s' * (communicator.size > 1)}"
    if here != on_ranks:
        found = f"after {ITERATIONS} iterations of the main job sha256 {on_ranks[:16]}, in one process {here[:16]}"
        return Finding(what, "fault", found, "a mixed cluster? See 'same machines'; else please report it")
    found = f"the main job's first {ITERATIONS} iterations, with the bits of one process; sha256 {on_ranks[:16]}"
    return Finding(what, "works", found)


def ring_benchmark(communicator: Communicator, agents: int) -> tuple[float, float]:
    """The microseconds per iteration of x_i <- A_i (sum over the ring of W_ij x_j), on the ranks and in NumPy on rank 0 alone."""
    d, r = SHAPE
    rng = np.random.default_rng(0)
    A, x = np.linalg.qr(rng.standard_normal((agents, d, d)))[0], rng.standard_normal((agents, d, r))
    W = uniform_weights(ring(agents), self_weight=0.8)
    network, dense = Network(W, communicator), W.toarray()
    mine = A[network.agents]

    def on_ranks(x: Array) -> Array:
        (mixed,) = network.mix(x)
        return mine @ mixed

    def straight(x: Array) -> Array:
        return A @ (dense @ x.reshape(agents, -1)).reshape(x.shape)

    with one_thread():
        count = np.clip(np.array([0.7 / _timed(on_ranks, x[network.agents], 10)]), 10, 20_000)
        communicator.bcast(count)
        talking = communicator.max(np.array([_timed(on_ranks, x[network.agents], int(count[0]))]))
        if communicator.rank > 0:
            time.sleep(0.3)  # the other ranks leave the cores to rank 0
            return float(talking[0]) * 1e6, 0.0
        return float(talking[0]) * 1e6, _timed(straight, x, int(max(10.0, 0.25 / _timed(straight, x, 10)))) * 1e6


def _timed(step: Callable[[Array], Array], x: Array, count: int) -> float:
    """The seconds per iteration."""
    begun = time.perf_counter()
    for _ in range(count):
        x = step(x)
    return (time.perf_counter() - begun) / count


def _speed(talking: float, alone: float, ranks: int, hosts: int) -> Finding:
    load = f"load average {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "load unknown"
    found = f"{talking:.0f} us an iteration (50 x 20), {talking / alone:.1f} times NumPy in one process ({alone:.0f} us); {load}"
    if talking > _SLOW * hosts:
        remedy = (
            "other load on the cores, more than one BLAS thread, MPICH before 5, or Open MPI told that it has enough cores: "
            "see the lines above; small matrices on one host are faster in one process"
        )
        return Finding("ring", "warning", found, remedy)
    if ranks > 1 and talking > 3 * alone and hosts == 1:
        return Finding("ring", "works", f"{found}: matrices this small are faster in one process")
    return Finding("ring", "works", found)
