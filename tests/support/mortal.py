"""Ranks that are threads, some of which die on the way: what ULFM promises, without MPI."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tests.support.mpi import HUNG
from tests.support.threads import Letters, RankFailedError, ThreadCommunicator, _Letter

T = TypeVar("T")


class DeadError(BaseException):
    """This rank is no more."""


class _Generation(Letters):
    """The mailboxes of those who are alive at a time; who dies closes them for all."""

    def __init__(self, alive: tuple[int, ...]) -> None:
        super().__init__()
        self.alive = alive
        self.agreeing: set[int] = set()
        self.leaving: set[int] = set()
        self.dead: set[int] = set()
        self.following: _Generation | None = None


class MortalCommunicator(ThreadCommunicator):
    """A rank that dies when it has sent so many letters, and outlives others."""

    failures = (RankFailedError,)

    def __init__(self, first: int, generation: _Generation, letters: float) -> None:
        super().__init__(generation.alive.index(first), len(generation.alive), generation)
        self.alive = generation.alive
        self._first, self._generation, self._letters = first, generation, letters
        put = generation.put

        def counted(source: int, target: int, kind: str, content: Any) -> _Letter:
            self._letters -= source == self.rank
            if self._letters < 0 and source == self.rank:
                raise DeadError
            return put(source, target, kind, content)

        self._post: Any = _Counting(generation, counted)

    def agree(self) -> None:
        generation = self._generation
        with generation.changed:
            generation.agreeing.add(self._first)
            generation.changed.notify_all()
            generation.changed.wait_for(lambda: self._all_agree() or generation.failed, HUNG)
            if not self._all_agree():
                raise RankFailedError("somebody has died")

    def _all_agree(self) -> bool:
        return len(self._generation.agreeing) == self.size

    def shrunk(self) -> MortalCommunicator:
        generation = self._generation
        generation.fail()
        with generation.changed:
            generation.leaving.add(self._first)
            generation.changed.notify_all()
            assert generation.changed.wait_for(
                lambda: generation.leaving | generation.dead >= set(self.alive), HUNG
            )
            if generation.following is None:
                generation.following = _Generation(tuple(sorted(set(self.alive) - generation.dead)))
        return MortalCommunicator(self._first, generation.following, self._letters)

    def die(self) -> None:
        """Whoever waits for this rank learns of it."""
        with self._generation.changed:
            self._generation.dead.add(self._first)
        self._generation.fail()


class _Counting:
    def __init__(self, post: Letters, put: Callable[[int, int, str, Any], _Letter]) -> None:
        self.put, self.take, self.delivered = put, post.take, post.delivered


def on_mortal_ranks(
    size: int, letters: Mapping[int, int], work: Callable[[MortalCommunicator], T]
) -> dict[int, T]:
    """What ``work(communicator)`` returns on the ranks that live to its end; ``letters`` is how
    many each sends that dies."""
    first = _Generation(tuple(range(size)))
    results: dict[int, T] = {}
    failures: dict[int, BaseException] = {}

    def rank(number: int) -> None:
        own = MortalCommunicator(number, first, letters.get(number, float("inf")))
        try:
            results[number] = work(own)
        except DeadError:
            newest = first
            while newest.following is not None and number in newest.following.alive:
                newest = newest.following
            MortalCommunicator(number, newest, 0).die()
        except BaseException as error:
            failures[number] = error
            first.fail()

    threads = [threading.Thread(target=rank, args=(number,), daemon=True) for number in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in failures.values():
        raise error
    return results
