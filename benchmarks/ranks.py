"""One DRFGT iteration on MPI ranks (10 agents on a ring, 50 x 20) against a raw exchange plus the
same arithmetic in NumPy.

    mpirun -n 2 python benchmarks/ranks.py
    mpirun -n 10 python benchmarks/ranks.py
    mpirun -n 2 python benchmarks/ranks.py tracking 10 1000 5    # a part for python -m benchmarks: seconds of 5 blocks, as JSON

The raw side is what one would write by hand for this ring alone: mpi4py's persistent requests on
one buffer per neighbour, ``Startall`` and ``Waitall``, the two neighbours' values added by slices,
the landing field in the same two products. Both sides are timed in turn, in blocks between
barriers, in one job; the median of the ratios of neighbouring blocks is printed. Where numba is
installed, the iteration with ``kernel="numba"`` is timed too.

Parts, each with numbers of agents, variables and blocks: drfgt (10 agents of 50 x 20, ring),
tracking and alone (gradient tracking on a ring of 10 or a torus, with and without a rival),
exchange (x and y of gradient tracking mixed, against a ping-pong of as many bytes as a rank sends).
The published exchange is that of the code of Chen, Garcia, Hong and Shahrampour ("Decentralized
Riemannian gradient descent on the Stiefel manifold", 2021), with several agents on a rank where
theirs has one: ``Send`` of a whole array to each neighbour, then ``Recv`` from each into a new
array, first for x, then for y.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from mpi4py import MPI
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

import topologies as tp
from benchmarks.iteration import StraightFused
from benchmarks.tracking import StackedTracking, targets, tracking
from decentorth import DRFGT
from decentorth.api import Run, set_up
from decentorth.problems.stiefel.procrustes import Procrustes, published_rows
from decentorth.protocols import Array

AGENTS, ROWS, D, R = 10, 10, 50, 20
ALPHA, PENALTY, SELF, OTHER = 1e-3, 10.0, 0.8, 0.1
BLOCKS, PER_BLOCK = 60, 100
SIDES = {1000: (25, 40)}
"""Of the tori, by number of agents; other numbers are on a ring."""
Times = dict[str, list[float]]
"""By name, the seconds of a call in each block."""


class Raw(StraightFused):
    """The iteration on this rank's consecutive agents, by hand."""

    def __init__(self, comm: MPI.Intracomm, a: Array, bt: Array, x0: Array) -> None:
        # W is in the slices of `combine`
        super().__init__(a, bt, csr_array((0, 0)), x0, ALPHA, PENALTY)
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        if left == right:  # two ranks: both borders in one message
            self.sent, self.arrived = np.empty((1, 2, 2, D, R)), np.empty((1, 2, 2, D, R))
            to = [left]
            self.borders, self.ghosts = self.sent[0], self.arrived[0, ::-1]
        else:
            self.sent, self.arrived = np.empty((2, 1, 2, D, R)), np.empty((2, 1, 2, D, R))
            to = [left, right]
            self.borders, self.ghosts = self.sent[:, 0], self.arrived[:, 0]
        self.receives = [
            comm.Recv_init([buffer, MPI.DOUBLE], rank, 9)
            for rank, buffer in zip(to, self.arrived, strict=True)
        ]
        self.sends = [
            comm.Send_init([buffer, MPI.DOUBLE], rank, 9)
            for rank, buffer in zip(to, self.sent, strict=True)
        ]
        self.requests = [*self.receives, *self.sends]

    def combine(self, own: Array, ghosts: Array) -> Array:
        """0.8 of the own and 0.1 of each neighbour's."""
        mixed = SELF * own
        if len(own) > 1:
            part = OTHER * own
            mixed[1:] += part[:-1]
            mixed[:-1] += part[1:]
        mixed[0] += OTHER * ghosts[0]
        mixed[-1] += OTHER * ghosts[1]
        return mixed

    def exchange(self) -> None:
        """Send x and y of the border agents, receive the neighbours'."""
        MPI.Prequest.Startall(self.receives)
        for border, agent in zip(self.borders, (0, -1), strict=True):
            border[0] = self.x[agent]
            border[1] = self.y[agent]
        MPI.Prequest.Startall(self.sends)
        MPI.Prequest.Waitall(self.requests)

    def mix(self) -> tuple[Array, Array]:
        """W x and W y."""
        self.exchange()
        return self.combine(self.x, self.ghosts[:, 0]), self.combine(self.y, self.ghosts[:, 1])

    def step(self) -> None:
        """One iteration."""
        x, y = self.mix()
        x -= self.alpha * self.y
        field = self.landing(x)
        y += field
        y -= self.field
        self.x, self.y, self.field = x, y, field

    def free(self) -> None:
        """Give the requests back."""
        for request in self.requests:
            request.Free()


class Published:
    """W for the rank's consecutive agents: a product with their arrays sends and receives the whole
    array of each neighbour."""

    def __init__(self, comm: MPI.Intracomm, W: csr_array, mine: slice, bounds: Array) -> None:
        self.comm, self.own = comm, csr_array(W[mine, mine])
        rank_of = np.searchsorted(bounds, np.arange(W.shape[0]), side="right") - 1
        n = W.shape[0]
        self.links = [
            (agent - mine.start, float(W[agent, j]), int(rank_of[j]), agent * n + j, j * n + agent)
            for agent in range(mine.start, mine.stop)
            for j in sorted(W.indices[W.indptr[agent] : W.indptr[agent + 1]])
            if rank_of[j] != comm.rank
        ]
        """The place of an own agent, the weight and the rank of its neighbour, and the tags of what
        is sent and received."""

    def __matmul__(self, x: Array) -> Array:
        for agent, _, rank, tag, _ in self.links:
            self.comm.Send(x[agent], rank, tag)
        mixed: Array = self.own @ x
        for agent, weight, rank, _, tag in self.links:
            arrived = np.empty_like(x[agent])
            self.comm.Recv(arrived, rank, tag)
            mixed[agent] += weight * arrived
        return mixed


def in_turn(
    comm: MPI.Intracomm, works: Mapping[str, Callable[[], Any]], blocks: int, calls: int
) -> Times:
    """The seconds of a call of each work in each block of ``calls``; the order of the works turns
    from block to block."""
    times: Times = {name: [] for name in works}
    for block in range(blocks):
        for name in [*works][:: 1 if block % 2 == 0 else -1]:
            comm.Barrier()
            begun = time.perf_counter()
            for _ in range(calls):
                works[name]()
            comm.Barrier()
            times[name].append((time.perf_counter() - begun) / calls)
    return times


def drfgt(comm: MPI.Intracomm) -> tuple[Run, dict[str, Any]]:
    """The run, and the iterations by hand: with persistent requests, and with the published
    exchange."""
    a, b = published_rows(slice(0, AGENTS), ROWS, D, R, 0)
    run = set_up(
        Procrustes(a, b),
        DRFGT(step_size=ALPHA, penalty=PENALTY, order="combine-then-adapt"),
        tp.uniform_weights(tp.ring(AGENTS), SELF),
    )
    mine = run.network.agents
    data = np.stack(a[mine]), np.stack([t.T for t in b[mine]]).copy()
    exchange: Any = Published(
        comm.Dup(), tp.uniform_weights(tp.ring(AGENTS), SELF), mine, run.network.bounds
    )
    published = StraightFused(*data, exchange, run.x0[0], ALPHA, PENALTY)
    return run, {
        "persistent requests by hand": Raw(comm.Dup(), *data, run.x0[0]),
        "published exchange": published,
    }


def weights(n: int) -> csr_array:
    """W of the ring or the torus of n agents."""
    return (
        tp.metropolis_weights(tp.torus(*SIDES[n])) if n in SIDES else tp.uniform_weights(tp.ring(n))
    )


def measured(comm: MPI.Intracomm, part: str, agents: int, width: int, blocks: int) -> Times:
    """The times of a part."""
    calls = max(3, PER_BLOCK * 10_000 // (agents * width * comm.size))
    if part == "drfgt":
        run, others = drfgt(comm)
        states = run.parts.states()
        works: dict[str, Callable[[], Any]] = {"decentorth": lambda: next(states)}
        works |= {name: other.step for name, other in others.items()}
        times = warm(comm, works, blocks, PER_BLOCK)
        others["persistent requests by hand"].free()
        return times
    W, b = weights(agents), targets(agents, width)
    run = tracking(b, W, None)
    if part == "exchange":
        return exchanged(comm, run, W, blocks, calls)
    states = run.parts.states()
    works = {"decentorth": lambda: next(states)}
    if part == "tracking":
        mine = run.network.agents
        works["published exchange"] = StackedTracking(
            Published(comm.Dup(), W, mine, run.network.bounds), b[mine]
        ).step
    return warm(comm, works, blocks, calls)


def exchanged(comm: MPI.Intracomm, run: Run, W: csr_array, blocks: int, calls: int) -> Times:
    """x and y mixed, and between ranks 0 and 1 a ping-pong of the bytes that rank 0 sends when it
    mixes."""
    x, y = run.x0.copy(), run.x0.copy()
    network = run.network
    links = Published(comm, W, network.agents, network.bounds).links
    numbers = comm.bcast(2 * len(links)) * run.x0[0].size
    sent, arrived = np.zeros(numbers), np.empty(numbers)

    def there_and_back() -> None:
        if comm.rank == 0:
            comm.Send(sent, 1)
            comm.Recv(arrived, 1)
        elif comm.rank == 1:
            comm.Recv(arrived, 0)
            comm.Send(sent, 0)

    return warm(
        comm,
        {"x and y mixed": lambda: network.mix(x, y), "ping-pong": there_and_back},
        blocks,
        calls,
    )


def warm(
    comm: MPI.Intracomm, works: Mapping[str, Callable[[], Any]], blocks: int, calls: int
) -> Times:
    """The times of the works after a block that does not count."""
    in_turn(comm, works, 1, calls)
    return in_turn(comm, works, blocks, calls)


def main() -> None:
    """Measure and print."""
    comm = MPI.COMM_WORLD
    if sys.argv[1:]:
        with threadpool_limits(1):
            times = measured(comm, sys.argv[1], *map(int, sys.argv[2:]))
        if comm.rank == 0:
            print(json.dumps(times))
        return
    if comm.size < 2:
        sys.exit("start on ranks: mpirun -n 2 python benchmarks/ranks.py")
    run, others = drfgt(comm)
    raw = others["persistent requests by hand"]
    states = run.parts.states()
    with threadpool_limits(1):
        next(states)
        for _ in range(50):
            state = next(states)
            raw.step()
        gap = np.abs(state.x - raw.x).max()
        iteration = in_turn(
            comm, {"decentorth": lambda: next(states), "raw": raw.step}, BLOCKS, PER_BLOCK
        )
        x, y = raw.x.copy(), raw.y.copy()
        mixing = in_turn(
            comm, {"decentorth": lambda: run.network.mix(x, y), "raw": raw.mix}, BLOCKS, PER_BLOCK
        )
        found = {"iteration": iteration, "mixing alone": mixing}
        if find_spec("numba"):
            method = DRFGT(
                step_size=ALPHA, penalty=PENALTY, kernel="numba", order="combine-then-adapt"
            )
            compiled = set_up(
                run.problem, method, tp.uniform_weights(tp.ring(AGENTS), SELF)
            ).parts.states()
            found["kernel numba"] = in_turn(
                comm, {"decentorth": lambda: next(compiled), "raw": raw.step}, BLOCKS, PER_BLOCK
            )
    raw.free()
    if comm.rank == 0:
        print(
            f"{comm.size} ranks, {AGENTS} agents; largest difference of rank 0's iterates after "
            f"50 iterations: {gap:.1e}"
        )
        for what, times in found.items():
            ours, theirs = (1e6 * statistics.median(times[name]) for name in ("decentorth", "raw"))
            ratio = statistics.median(
                a / b for a, b in zip(times["decentorth"], times["raw"], strict=True)
            )
            print(f"{what:14s} decentorth {ours:8.1f} us, raw {theirs:8.1f} us, ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
