"""Ranks that are threads of one process: the communicator's contract once more, with queues instead
of MPI.

Messages are synchronous, the strictest reading of the contract: a send is complete when its
receiver has taken it, straight from the sender's buffer. A plan that works only because messages
are buffered hangs here, and fails after a timeout.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np

from decentorth.network import Communicator
from decentorth.protocols import Array
from tests.support.mpi import HUNG

T = TypeVar("T")


class RankFailedError(Exception):
    """Another rank failed, so that this one would wait for ever."""


class _Letter:
    def __init__(self, content: Any) -> None:
        self.content = content
        self.taken = False


class Letters:
    """Mailboxes for each (source, target, kind of message)."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.boxes: dict[tuple[int, int, str], deque[_Letter]] = {}
        self.failed = False

    def put(self, source: int, target: int, kind: str, content: Any) -> _Letter:
        letter = _Letter(content)
        with self.changed:
            self.boxes.setdefault((source, target, kind), deque()).append(letter)
            self.changed.notify_all()
        return letter

    def take(self, source: int, target: int, kind: str, use: Callable[[Any], None]) -> None:
        """Wait for a message, use it, and tell its sender."""
        key = (source, target, kind)
        with self.changed:
            self._wait(
                lambda: bool(self.boxes.get(key)),
                f"rank {target} waits for a message of rank {source}",
            )
            letter = self.boxes[key].popleft()
            use(letter.content)
            letter.taken = True
            self.changed.notify_all()

    def delivered(self, letter: _Letter, what: str) -> None:
        with self.changed:
            self._wait(lambda: letter.taken, what)

    def _wait(self, ready: Callable[[], bool], what: str) -> None:
        if not self.changed.wait_for(lambda: ready() or self.failed, HUNG):
            raise TimeoutError(what)
        if not ready():
            raise RankFailedError(what)

    def fail(self) -> None:
        with self.changed:
            self.failed = True
            self.changed.notify_all()


class _Exchange:
    """Fixed buffers; receives are posted before anything is sent."""

    def __init__(
        self,
        rank: int,
        post: Letters,
        sends: Sequence[tuple[int, Array]],
        receives: Sequence[tuple[int, Array]],
    ) -> None:
        self._rank, self._post, self._sends, self._receives = rank, post, sends, receives

    def __call__(self) -> None:
        for _, buffer in self._receives:
            buffer.fill(np.nan)
        letters = [
            self._post.put(self._rank, target, "exchange", buffer) for target, buffer in self._sends
        ]
        for source, buffer in self._receives:
            self._post.take(source, self._rank, "exchange", partial(_copy, buffer))
        for letter in letters:
            self._post.delivered(letter, f"rank {self._rank} sends what nobody receives")


def _copy(buffer: Array, sent: Array) -> None:
    assert sent.dtype == buffer.dtype == np.float64
    assert sent.size == buffer.size
    assert sent.flags.c_contiguous
    assert buffer.flags.c_contiguous
    buffer.reshape(-1)[:] = sent.reshape(-1)


class ThreadCommunicator(Communicator):
    """One rank of several, each in its thread."""

    def __init__(self, rank: int, size: int, post: Letters) -> None:
        self.rank, self.size, self._post = rank, size, post

    def exchange(
        self, sends: Sequence[tuple[int, Array]], receives: Sequence[tuple[int, Array]]
    ) -> _Exchange:
        return _Exchange(self.rank, self._post, sends, receives)

    def send(self, array: Array, target: int) -> None:
        self._post.delivered(
            self._post.put(self.rank, target, "message", array),
            f"rank {self.rank} sends to {target}",
        )

    def receive(self, array: Array, source: int) -> None:
        self._post.take(source, self.rank, "message", partial(_copy, array))

    def bcast(self, array: Array) -> None:
        array[...] = self._gathered(array.copy())[0]

    def bcast_bytes(self, data: bytes) -> bytes:
        return self._gathered(data)[0]

    def allgather_bytes(self, data: bytes) -> list[bytes]:
        return self._gathered(data)

    def max(self, values: Array) -> Array:
        return np.max(self._gathered(values.copy()), axis=0)

    def watch(self, silence: float, computing: float) -> None:
        """Threads stop together."""

    def describe(self) -> Mapping[str, Any]:
        return {"kind": "threads", "ranks": self.size}

    def _gathered(self, content: Any) -> list[Any]:
        for target in range(self.size):
            self._post.put(self.rank, target, "all", content)
        result: list[Any] = []
        for source in range(self.size):
            self._post.take(source, self.rank, "all", result.append)
        return result


def on_ranks(size: int, work: Callable[[ThreadCommunicator], T]) -> list[T]:
    """What ``work(communicator)`` returns on each rank, all at the same time, with one BLAS thread
    each.

    Raises the exception of the first rank that failed by itself.
    """
    return on_threads(size, lambda rank, post: work(ThreadCommunicator(rank, size, post)))


def on_threads(size: int, work: Callable[[int, Letters], T]) -> list[T]:
    """What ``work(rank, letters)`` returns on each rank, as `on_ranks`."""
    post = Letters()
    results: dict[int, T] = {}
    failures: dict[int, BaseException] = {}

    def rank(number: int) -> None:
        try:
            results[number] = work(number, post)
        except BaseException as error:
            failures[number] = error
            post.fail()

    threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(failures.values(), key=lambda error: isinstance(error, RankFailedError)):
        raise error
    return [results[number] for number in range(size)]
