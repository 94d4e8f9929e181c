"""Independent trials in parallel processes, with results in order and progress."""

from __future__ import annotations

import importlib.util
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from itertools import islice
from typing import NoReturn, TypeVar

from threadpoolctl import threadpool_limits

from topologies.line.flags import InputError

from ... import registry
from ...numerics.threads import one_thread
from ...process.environment import cores

INTERRUPTED = 130
HANDED_OUT = 10.0
"""The most seconds to wait at the end until the pool has handed out its trials, which takes
milliseconds while its thread lives."""
T = TypeVar("T")
R = TypeVar("R")


def processes(asked: int | None) -> int:
    """The number of worker processes: as many as asked for; by default one per processor, or
    without joblib this one alone."""
    starts = importlib.util.find_spec("joblib") is not None
    if asked is None:
        return len(cores()) if starts else 1
    if asked > 1 and not starts:
        raise InputError(f"{asked} workers need joblib: pip install joblib, or give 1 worker")
    return asked


def results(
    work: Callable[[T], R],
    trials: Sequence[T],
    workers: int,
    name: Callable[[T], str],
) -> Generator[R, None, None]:
    """The result of ``work`` for each trial, in order; each process uses one thread of linear
    algebra.

    Parameters
    ----------
    work
        Any function; cloudpickle sends it to the other processes.
    workers
        The number of processes; 1 means this one.
    name
        The name of a trial, for the message when it fails.

    Raises
    ------
    RuntimeError
        A trial failed, or its process died (`BrokenExecutor`); the message names the trial.
    InputError
        Several workers are asked for without joblib.
    """
    if processes(workers) == 1 or len(trials) < 2:
        with one_thread():
            for trial in trials:
                yield _named(name(trial), lambda trial=trial: work(trial))  # type: ignore[misc]
        return
    from joblib.externals.loky import ProcessPoolExecutor

    workers = min(workers, len(trials))
    pool = ProcessPoolExecutor(workers, initializer=_settle, initargs=registry.plugins())
    left = iter(trials)
    ahead = deque[Future[R]]()

    def next_result() -> R:
        """The result of the oldest trial under way. At most two per worker are submitted, as many
        as the pool hands out at once."""
        while not (ahead and ahead[0].done()):
            running = sum(not future.done() for future in ahead)
            ahead.extend(pool.submit(work, trial) for trial in islice(left, 2 * workers - running))
            wait([future for future in ahead if not future.done()], return_when=FIRST_COMPLETED)
        return ahead.popleft().result()

    try:
        for trial in trials:
            yield _named(name(trial), next_result)
    finally:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one would leave workers
        patience = time.monotonic() + HANDED_OUT
        # a trial that is not handed out yet would end the pool's thread by a KeyError
        while time.monotonic() < patience and not all(one.running() or one.done() for one in ahead):
            time.sleep(1e-3)
        pool.shutdown(kill_workers=True)
        signal.signal(signal.SIGINT, handler)


def _named(name: str, work: Callable[[], R]) -> R:
    try:
        return work()
    except BrokenExecutor as error:
        raise BrokenExecutor(
            f"a worker process died (killed, crashed or out of memory) in the trial with {name} or "
            "one beside it; give 1 worker to see where"
        ) from error
    except Exception as error:
        raise RuntimeError(f"the trial with {name} failed: {error}") from error


def _settle(*named: str) -> None:
    """Use one thread of linear algebra, and ignore interruptions: the parent process handles them
    and ends this one. Execute the ``named`` plugins, as the parent has done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1)
    for path in named:
        registry.load_plugin(path)


def leave(code: int) -> NoReturn:
    """End this process. After an interruption, a second one no longer changes its exit code while
    other processes end."""
    if code == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(code)
