"""A user's own script, spoilt in one way: ``python tests/mpi/faulty.py FAULT [RANK]``; the faulty
rank is 1 unless given.

At the moment of the fault it writes `FAULT` to standard error.
"""

from __future__ import annotations

import importlib
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import decentorth as do
import topologies as tp
from decentorth.problems import FunctionProblem, Procrustes
from decentorth.protocols import Array, Row
from decentorth.sets import Stiefel

FAULT = "the fault comes now"
AGENTS, AFTER = 10, 50
"""Agents, and the iteration after which a fault happens in the middle of a run."""
METHOD = do.DRFGT(step_size=0.05)


def mark() -> None:
    sys.stderr.write(f"{FAULT}\n")
    sys.stderr.flush()


def marked(stop: Callable[[], Any]) -> Callable[[], None]:
    def stop_marked() -> None:
        mark()
        stop()

    return stop_marked


def fail() -> None:
    raise ArithmeticError("the faulty rank has had enough")


def stick() -> None:
    """A system call that never returns."""
    signal.pause()


def compute() -> None:
    """No fault: one NumPy call that takes at least about 3.5 seconds of the processor: as many
    matrices as that asks for."""
    matrices = np.random.default_rng(1).standard_normal((4, 200, 200))
    fastest = math.inf
    for _ in range(4):
        begun = time.process_time()
        np.linalg.eigvals(matrices)
        fastest = min(fastest, time.process_time() - begun)
    stack = np.broadcast_to(matrices[0], (4 * math.ceil(3.5 / fastest), 200, 200))
    begun = time.monotonic()
    np.linalg.eigvals(stack)
    sys.stderr.write(f"computed for {time.monotonic() - begun:.2f} s\n")


STOPS: dict[str, Callable[[], None]] = {
    "raises": marked(fail),
    "exits-3": marked(lambda: sys.exit(3)),
    "exits-0": marked(lambda: sys.exit(0)),
    "killed": marked(lambda: os.kill(os.getpid(), signal.SIGKILL)),
    "paused": marked(lambda: os.kill(os.getpid(), signal.SIGSTOP)),
    "stuck": marked(stick),
    "computes": marked(compute),
    "leaves": mark,
}


def forked(stop: Callable[[], None]) -> None:
    """No fault: a child of this process ends in that way, and the process waits for it."""
    child = os.fork()
    if child == 0:
        stop()
    _, status = os.waitpid(child, 0)
    sys.stderr.write(f"the child ended with {os.waitstatus_to_exitcode(status)}\n")


def problem(stop: Callable[[], None] | None = None) -> FunctionProblem[Stiefel]:
    """-1/2 ||A x||^2 for each agent, whose gradient stops the process when it has been asked for
    often enough."""
    data = np.random.default_rng(5).standard_normal((AGENTS, 8, 6)) / 4.0
    asked = 0

    def value(agent: int, x: Array) -> float:
        return -0.5 * float(((data[agent] @ x) ** 2).sum())

    def gradient(agent: int, x: Array) -> Array:
        nonlocal asked
        asked += 1
        if stop is not None and asked == AFTER * 3:
            stop()
        return np.asarray(-data[agent].T @ (data[agent] @ x))

    return FunctionProblem(value, gradient, Stiefel(6, 2), AGENTS)


def weights(own: float = 0.8) -> Any:
    return tp.uniform_weights(tp.ring(AGENTS), own)


def solve(given: Any, iterations: int = 100_000, **options: Any) -> do.Result:
    return do.solve(given, METHOD, weights(), iterations=iterations, **options)


class FaultyRecorder:
    """A recorder that fails, as one that writes to a full disk does; only rank 0 calls it."""

    def record(self, row: Row) -> None:
        """Fail in the middle of the run."""
        if row.iteration > AFTER:
            STOPS["raises"]()


def iterate(stop: Callable[[], None] | None) -> None:
    """A user's own loop, which a faulty rank leaves where ``stop`` returns; its script then ends
    normally."""
    for state in do.iterate(problem(), METHOD, weights()):
        if stop is not None and state.k == AFTER:
            stop()
            break
        if state.k == 100_000:
            break


def leave_before_the_run(how: list[str], faulty_rank: int) -> None:
    """One rank, or all of them for -1, ends before the run (``exits-0``, ``returns``).

    ``mpi``: all have initialized MPI; ``late``: the others wait already; ``sleeps``: it comes after
    the time limit.
    """
    if "mpi" in how:
        importlib.import_module("mpi4py.MPI")
    if faulty_rank in (-1, launched()):
        mark()
        time.sleep(2.0 * ("late" in how) + 30.0 * ("sleeps" in how))
        if "returns" in how:
            return
        if how[-1].startswith("exits-"):
            sys.exit(int(how[-1].removeprefix("exits-")))
    solve(problem(), iterations=AFTER, rank_timeout=1.0 if "sleeps" in how else 300.0)


def launched() -> int:
    """The rank of this process, before MPI is initialized."""
    return int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])


def load(agent: int) -> tuple[Array, Array]:
    """A loader that finds the data of one agent missing."""
    if agent == 5:
        raise FileNotFoundError("no rows of agent 5")
    rng = np.random.default_rng(agent)
    return rng.standard_normal((8, 6)), rng.standard_normal((2, 8))


def works_on_alone() -> None:
    """A script in which rank 0 works on alone, for longer than the others are expected to wait when
    a rank is missing."""
    result = solve(problem(), iterations=50)
    hashed, whole = result.iterates_sha256, result.gather()
    if whole is not None:
        time.sleep(4.0 * (result.collective.size > 1))
        sys.stdout.write(f"{whole.shape} {hashed}\n")


def forks(stop: Callable[[], None] | None) -> None:
    """A run in which a rank has a child that ends, unless there is none; its bits."""
    hashed = solve(problem(stop and partial(forked, stop)), iterations=2 * AFTER).iterates_sha256
    sys.stdout.write(f"{hashed}\n" if do.connect().rank == 0 else "")


def bad_data() -> None:
    data = np.ones((AGENTS, 8, 6))
    data[3, 1, 2] = np.nan
    solve(Procrustes(data, np.ones((AGENTS, 2, 8))))


def main(fault: str, faulty_rank: int) -> None:
    where, _, what = fault.partition(":")
    if where == "leaves":
        leave_before_the_run(what.split(":"), faulty_rank)
        return
    if fault == "raises-before-connecting" and launched() == faulty_rank:
        STOPS["raises"]()
    faulty = do.connect().rank == faulty_rank
    stop = STOPS[what] if what and (faulty or where == "everywhere") else None
    faults: dict[str, Callable[[], Any]] = {
        "raises-before-connecting": lambda: None,
        "gradient": lambda: solve(problem(stop)),
        "sums": lambda: do.solve(
            problem(stop), do.RGD(step_size=1e-6), weights(), iterations=100_000
        ),
        "forks": lambda: forks(stop),
        "loop": lambda: iterate(stop),
        "everywhere": lambda: iterate(stop),
        "recorder": lambda: solve(problem(), recorders=[FaultyRecorder()]),
        "before-solve": lambda: STOPS["raises"]() if faulty else solve(problem()),
        "bad-data": marked(bad_data),
        "loader": marked(lambda: solve(Procrustes.from_loader(load, AGENTS))),
        "W-differs": marked(
            lambda: do.solve(problem(), METHOD, weights(0.7 if faulty else 0.8), iterations=5)
        ),
        "step-size-differs": marked(
            lambda: do.solve(
                problem(), do.DRFGT(step_size=0.06 if faulty else 0.05), weights(), iterations=5
            )
        ),
        "none": works_on_alone,
    }
    faults[where]()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
