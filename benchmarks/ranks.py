"""One DRFGT iteration on MPI ranks (10 agents on a ring, 50 x 20) against a raw exchange plus the same arithmetic in NumPy.

    mpirun -n 2 python benchmarks/ranks.py
    mpirun -n 10 python benchmarks/ranks.py

The raw side is what one would write by hand for this ring alone: mpi4py's persistent requests on one buffer per neighbour,
``Startall`` and ``Waitall``, the two neighbours' values added by slices, the landing field in the same two products. Both sides are
timed in turn, in blocks between barriers, in one job; the median of the ratios of neighbouring blocks is printed. Where numba is
installed, the iteration with ``kernel="numba"`` is timed too.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
from iteration import StraightFused
from mpi4py import MPI
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

import topologies as tp
from decentorth import DRFGT
from decentorth.api import Run
from decentorth.problems.stiefel.procrustes import Procrustes, published_rows
from decentorth.protocols import Array
from decentorth.running.loop import iterate

AGENTS, ROWS, D, R = 10, 10, 50, 20
ALPHA, PENALTY, SELF, OTHER = 1e-3, 10.0, 0.8, 0.1
BLOCKS, PER_BLOCK = 60, 100


class Raw(StraightFused):
    """The iteration on this rank's consecutive agents, by hand."""

    def __init__(self, comm: MPI.Intracomm, a: Array, bt: Array, x0: Array) -> None:
        super().__init__(a, bt, csr_array((0, 0)), x0, ALPHA, PENALTY)  # W is in the slices of `combine`
        left, right = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size
        if left == right:  # two ranks: both borders in one message
            self.sent, self.arrived = np.empty((1, 2, 2, D, R)), np.empty((1, 2, 2, D, R))
            to = [left]
            self.borders, self.ghosts = self.sent[0], self.arrived[0, ::-1]
        else:
            self.sent, self.arrived = np.empty((2, 1, 2, D, R)), np.empty((2, 1, 2, D, R))
            to = [left, right]
            self.borders, self.ghosts = self.sent[:, 0], self.arrived[:, 0]
        self.receives = [comm.Recv_init([buffer, MPI.DOUBLE], rank, 9) for rank, buffer in zip(to, self.arrived, strict=True)]
        self.sends = [comm.Send_init([buffer, MPI.DOUBLE], rank, 9) for rank, buffer in zip(to, self.sent, strict=True)]
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


def paired(comm: MPI.Intracomm, ours: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float, float]:
    """Median microseconds of each, and the median ratio of neighbouring blocks; which comes first alternates."""
    times: dict[Callable[[], Any], list[float]] = {ours: [], theirs: []}
    for block in range(BLOCKS):
        for work in (ours, theirs) if block % 2 == 0 else (theirs, ours):
            comm.Barrier()
            begun = time.perf_counter()
            for _ in range(PER_BLOCK):
                work()
            comm.Barrier()
            times[work].append((time.perf_counter() - begun) / PER_BLOCK * 1e6)
    ratio = statistics.median(a / b for a, b in zip(times[ours], times[theirs], strict=True))
    return statistics.median(times[ours]), statistics.median(times[theirs]), ratio


def main() -> None:
    """Measure and print."""
    comm = MPI.COMM_WORLD
    if comm.size < 2:
        sys.exit("start on ranks: mpirun -n 2 python benchmarks/ranks.py")
    a, b = published_rows(slice(0, AGENTS), ROWS, D, R, 0)
    W = tp.uniform_weights(tp.ring(AGENTS), SELF)
    run = Run(Procrustes(a, b), DRFGT(step_size=ALPHA, penalty=PENALTY), W)
    mine = run.network.agents
    raw = Raw(comm.Dup(), np.stack(a[mine]), np.stack([t.T for t in b[mine]]).copy(), run.x0[0])
    states = iterate(run.parts)
    with threadpool_limits(1):
        next(states)
        for _ in range(50):
            state = next(states)
            raw.step()
        gap = np.abs(state.x - raw.x).max()
        found = {"iteration": paired(comm, lambda: next(states), raw.step)}
        x, y = raw.x.copy(), raw.y.copy()
        found["mixing alone"] = paired(comm, lambda: run.network.mix(x, y), raw.mix)
        if find_spec("numba"):
            compiled = iterate(Run(Procrustes(a, b), DRFGT(step_size=ALPHA, penalty=PENALTY, kernel="numba"), W).parts)
            found["kernel numba"] = paired(comm, lambda: next(compiled), raw.step)
    raw.free()
    if comm.rank == 0:
        print(f"{comm.size} ranks, {AGENTS} agents; largest difference of rank 0's iterates after 50 iterations: {gap:.1e}")
        for what, (ours, theirs, ratio) in found.items():
            print(f"{what:14s} decentorth {ours:8.1f} us, raw {theirs:8.1f} us, ratio {ratio:.3f}")


if __name__ == "__main__":
    main()
