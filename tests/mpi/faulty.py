"""A user's own script, spoilt in one way: ``python tests/mpi/faulty.py FAULT [RANK]``; the faulty rank is 1 unless given.

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
from typing import Any

import numpy as np

import decentorth as do
import topologies as tp
from decentorth.problems import FunctionProblem
from decentorth.protocols import Array, Row
from decentorth.sets import Stiefel

FAULT = "the fault comes now"
AGENTS, AFTER = 10, 50
"""Agents, and the iteration after which a fault happens in the middle of a run."""


def rank() -> int:
    """This process's rank."""
    return do.connect().rank


def mark() -> None:
    """Say that the fault comes now."""
    sys.stderr.write(f"{FAULT}\n")
    sys.stderr.flush()


def stop_raising() -> None:
    """An exception."""
    mark()
    raise ArithmeticError("the faulty rank has had enough")


def stop_exiting(code: int) -> None:
    """sys.exit."""
    mark()
    sys.exit(code)


def stop_killed() -> None:
    """The operating system ends the process."""
    mark()
    os.kill(os.getpid(), signal.SIGKILL)


def stop_paused() -> None:
    """The operating system stops the process until somebody lets it go on."""
    mark()
    os.kill(os.getpid(), signal.SIGSTOP)


def stop_stuck() -> None:
    """A system call that never returns."""
    mark()
    signal.pause()


def stop_computing() -> None:
    """No fault: one NumPy call that takes at least about 3.5 seconds of the processor: as many matrices as that asks for."""
    mark()
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


def forked(stop: Callable[[], None]) -> None:
    """No fault: a child of this process ends in that way, and the process waits for it."""
    child = os.fork()
    if child == 0:
        stop()
    _, status = os.waitpid(child, 0)
    sys.stderr.write(f"the child ended with {os.waitstatus_to_exitcode(status)}\n")


STOPS: dict[str, Callable[[], None]] = {
    "raises": stop_raising,
    "exits-3": lambda: stop_exiting(3),
    "exits-0": lambda: stop_exiting(0),
    "killed": stop_killed,
    "paused": stop_paused,
    "stuck": stop_stuck,
    "computes": stop_computing,
}


class Quadratic:
    """-1/2 ||A x||^2 for each agent, whose gradient stops the process when it has been asked for often enough."""

    def __init__(self, stop: Callable[[], None] | None) -> None:
        self.data = np.random.default_rng(5).standard_normal((AGENTS, 8, 6)) / 4.0
        self.stop, self.asked = stop, 0

    def value(self, agent: int, x: Array) -> float:
        """f_i(x)."""
        return -0.5 * float(((self.data[agent] @ x) ** 2).sum())

    def gradient(self, agent: int, x: Array) -> Array:
        """Its gradient."""
        self.asked += 1
        if self.stop is not None and self.asked == AFTER * 3:
            self.stop()
        result: Array = -self.data[agent].T @ (self.data[agent] @ x)
        return result


def problem(stop: Callable[[], None] | None = None) -> FunctionProblem[Stiefel]:
    """The problem of two functions."""
    functions = Quadratic(stop)
    return FunctionProblem(functions.value, functions.gradient, Stiefel(6, 2), AGENTS)


def weights(own: float = 0.8) -> Any:
    """W on a ring."""
    return tp.uniform_weights(tp.ring(AGENTS), own)


def solve(given: Any, iterations: int = 100_000, **options: Any) -> do.Result:
    """A long run."""
    return do.solve(given, do.DRFGT(step_size=0.05), weights(), iterations=iterations, **options)


def fork(stop: Callable[[], None] | None) -> None:
    """A run in which a rank has a child that ends, unless there is None; its bits."""
    hashed = solve(problem(None if stop is None else lambda: forked(stop)), iterations=2 * AFTER).iterates_sha256
    sys.stdout.write(f"{hashed}\n" if rank() == 0 else "")


class FaultyRecorder:
    """A recorder that fails, as one that writes to a full disk does; only rank 0 calls it."""

    def record(self, row: Row) -> None:
        """Fail in the middle of the run."""
        if row.iteration > AFTER:
            stop_raising()


def iterate(faulty: bool, stop: Callable[[], None]) -> None:
    """A user's own loop, which a faulty rank leaves where ``stop`` returns; its script then ends normally."""
    for state in do.iterate(problem(), do.DRFGT(step_size=0.05), weights()):
        if faulty and state.k == AFTER:
            stop()
            break
        if state.k == 100_000:
            break


def leave_before_the_run(how: list[str], faulty_rank: int) -> None:
    """One rank, or all of them for -1, ends before the run (``exits-0``, ``returns``).

    ``mpi``: all have initialized MPI; ``late``: the others wait already; ``sleeps``: it comes after the time limit.
    """
    if "mpi" in how:
        importlib.import_module("mpi4py.MPI")
    if faulty_rank in (-1, int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])):
        mark()
        if "late" in how:
            time.sleep(2.0)
        if "sleeps" in how:
            time.sleep(30.0)
        if "returns" in how:
            return
        if how[-1].startswith("exits-"):
            sys.exit(int(how[-1].removeprefix("exits-")))
    do.solve(problem(), do.DRFGT(step_size=0.05), weights(), iterations=AFTER, rank_timeout=1.0 if "sleeps" in how else 300.0)


def load(agent: int) -> tuple[Array, Array]:
    """A loader that finds the data of one agent missing."""
    if agent == 5:
        raise FileNotFoundError("no rows of agent 5")
    rng = np.random.default_rng(agent)
    return rng.standard_normal((8, 6)), rng.standard_normal((2, 8))


def main(fault: str, faulty_rank: int) -> None:
    """Meet the fault."""
    if fault == "raises-before-connecting":
        if int(os.environ.get("PMI_RANK") or os.environ["OMPI_COMM_WORLD_RANK"]) == faulty_rank:
            stop_raising()
        do.connect()
        return
    if fault.startswith("leaves:"):
        leave_before_the_run(fault.split(":")[1:], faulty_rank)
        return
    if fault == "bad-data":
        mark()
        data = np.ones((AGENTS, 8, 6))
        data[3, 1, 2] = np.nan
        solve(do.problems.Procrustes(data, np.ones((AGENTS, 2, 8))))
    faulty = rank() == faulty_rank
    where, _, what = fault.partition(":")
    if where == "gradient":
        solve(problem(STOPS[what] if faulty else None))
    elif where == "forks":
        fork(STOPS[what] if faulty else None)
    elif where == "loop":
        iterate(faulty, STOPS[what])
    elif where == "everywhere":
        iterate(True, STOPS[what])
    elif fault == "recorder":
        solve(problem(), recorders=[FaultyRecorder()])
    elif fault == "before-solve":
        if faulty:
            stop_raising()
        solve(problem())
    elif fault == "leaves-early":
        iterate(faulty, mark)
    elif fault == "loader":
        mark()
        solve(do.problems.Procrustes.from_loader(load, AGENTS))
    elif fault == "W-differs":
        mark()
        do.solve(problem(), do.DRFGT(step_size=0.05), weights(own=0.7 if faulty else 0.8), iterations=5)
    elif fault == "step-size-differs":
        mark()
        do.solve(problem(), do.DRFGT(step_size=0.06 if faulty else 0.05), weights(), iterations=5)
    elif fault == "none":
        legitimate()
    else:
        raise SystemExit(f"unknown fault {fault!r}")


def legitimate() -> None:
    """A script in which rank 0 works on alone, for longer than the others are expected to wait when a rank is missing."""
    result = solve(problem(), iterations=50)
    hashed = result.iterates_sha256
    whole = result.gather()
    if whole is not None:
        if result.collective.size > 1:
            time.sleep(4.0)
        sys.stdout.write(f"{whole.shape} {hashed}\n")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1)
