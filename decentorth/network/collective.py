"""Whole-network quantities for metrics, stopping, set-up and files. No algorithm uses them."""

from __future__ import annotations

import contextlib
import hashlib
import json
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from topologies.line.words import either

from ..numerics.ordered_sums import add_agents
from ..process.withholding import WithheldError, withhold
from ..protocols import Array, Index
from . import Communicator

_OF_INPUT = (ValueError, TypeError, FileNotFoundError, PermissionError, MemoryError)
"""The errors whose messages need no name of their kind."""


ColumnSums: TypeAlias = Callable[[Array], Array] | None


def _reported(error: Exception) -> bytes:
    """The words of an error and where it was raised, for the other ranks."""
    words = "".join(traceback.format_exception_only(error)).strip()
    if type(error) in _OF_INPUT:
        words = str(error)
    trace = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    return json.dumps([words, trace]).encode()


def check_same(communicator: Communicator, digests: Mapping[str, bytes]) -> None:
    """Raise a ValueError on every rank that names the first fact whose digests differ."""
    own = json.dumps({what: digest.hex() for what, digest in digests.items()})
    every = [json.loads(text) for text in communicator.allgather_bytes(own.encode())]
    for what in dict.fromkeys(what for facts in every for what in facts):
        found = [facts.get(what) for facts in every]
        different = [rank for rank, other in enumerate(found) if other != found[0]]
        if different:
            listed = ", ".join(map(str, different[:8])) + " and more" * (len(different) > 8)
            raise ValueError(
                f"{what} must be the same on every rank; it differs from rank 0's on rank {listed}"
            )


class AgentCollective:
    """A `protocols.Collective` of the processes, where rank q holds the agents
    ``bounds[q]:bounds[q + 1]``.

    Where a rank reads only the samples of its own agents, ``holders`` names all agents in words. An
    error of one rank may quote its samples, so the others then read no more than whose it is. Ranks
    that are sites keep their points, files and errors, and send to their neighbours only.
    """

    def __init__(
        self,
        communicator: Communicator,
        bounds: Index,
        along_edges: ColumnSums = None,
        holders: Sequence[str] = (),
    ) -> None:
        self.communicator = communicator
        self.bounds = bounds
        self._along_edges = along_edges
        self._holders = holders or [f"site {name}" for name in communicator.sites]
        self.rank = communicator.rank
        self.size = communicator.size
        self.root = communicator.root

    @property
    def n_agents(self) -> int:
        """The number of agents over all ranks."""
        return int(self.bounds[-1])

    @property
    def own(self) -> slice:
        """The agents whose terms this rank adds."""
        return slice(int(self.bounds[self.rank]), int(self.bounds[self.rank + 1]))

    def fold(self, size: int, add: Callable[[Array], None]) -> Array:
        """Send the partial sum along the chain of ranks, and broadcast the result."""
        if self.communicator.sites:
            raise ValueError(
                "this needs sums from rank to rank, and sites send to their neighbours only (with "
                "cca and maxvar, give a ridge)"
            )
        total = np.zeros(size)
        if self.rank > 0:
            self.communicator.receive(total, self.rank - 1)
        add(total)
        if self.size > 1:
            self.communicator.send(total, (self.rank + 1) % self.size)
            if self.rank == 0:
                self.communicator.receive(total, self.size - 1)
            self.communicator.bcast(total)
        return total

    def sum(self, *per_agent: Array) -> tuple[Array, ...]:
        cuts = np.cumsum([x[0].size for x in per_agent])

        def add(total: Array) -> None:
            for x, part in zip(per_agent, np.split(total, cuts[:-1]), strict=True):
                add_agents(x.reshape(len(x), -1), part)

        parts = np.split(self.fold(int(cuts[-1]), add), cuts[:-1])
        return tuple(part.reshape(x.shape[1:]) for x, part in zip(per_agent, parts, strict=True))

    def each(self, size: int, terms: Iterable[Array]) -> Array:
        def add(total: Array) -> None:
            for term in terms:
                total += term

        return self.fold(size, add)

    def column_sums(self, per_agent: Array) -> Array:
        if self._along_edges is None:
            return self.sum(per_agent)[0]
        return self._along_edges(per_agent)

    def max(self, value: float) -> float:
        encoded = np.array([0.0, value])
        if np.isnan(value):
            encoded[:] = 1.0, -np.inf
        has_nan, largest = self.communicator.max(encoded)
        return float("nan") if has_nan else float(largest)

    def largest(self, values: Array) -> Array:
        return self.communicator.max(values)

    def everyone(self, data: bytes) -> list[bytes]:
        return self.communicator.allgather_bytes(data)

    @property
    def streamed(self) -> int:
        """The number of agents in the blocks of `stream`: all, or those of this site."""
        if self.communicator.sites:
            return self.own.stop - self.own.start
        return self.n_agents

    def ours(self, data: bytes) -> list[bytes]:
        return [data] if self.communicator.sites else self.everyone(data)

    def decide(self, on_root: bool) -> bool:
        answer = np.array([float(on_root)])
        if self.communicator.sites:
            answer = self.communicator.max(answer)
        else:
            self.communicator.bcast(answer)
        return bool(answer[0])

    def same(self, what: str, digest: bytes) -> None:
        check_same(self.communicator, {what: digest})

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        failure: Exception | None = None
        report = b""
        try:
            yield
        except Exception as error:
            failure = error
            report = b"failed" if self._holders else _reported(error)
        reports = self.communicator.allgather_bytes(report)
        if failure is not None:
            if self._holders and self.size > 1:
                withhold(failure)
            raise failure
        for rank, text in enumerate(reports):
            if text and self._holders:
                raise WithheldError(
                    f"{self._holder(rank)} cannot continue: the reason is on its own screen"
                )
            if text:
                words, trace = json.loads(text)
                theirs = ValueError(f"on rank {rank}: {words}")
                theirs.add_note(f"There:\n{trace}")
                raise theirs

    def _holder(self, rank: int) -> str:
        """The sites of a rank in words."""
        if self.communicator.sites:
            return self._holders[rank]
        names = self._holders[self.bounds[rank] : self.bounds[rank + 1]]
        if len(names) > 3:
            return f"one of {names[0]} to {names[-1]}"
        return either(names)

    def stream(self, per_agent: Array) -> Iterator[Array]:
        if not self.root:
            self.communicator.send(np.ascontiguousarray(per_agent), 0)
            return
        yield per_agent
        if self.communicator.sites:
            return
        for source in range(1, self.size):
            rows = int(self.bounds[source + 1] - self.bounds[source])
            block = np.empty((rows, *per_agent.shape[1:]))
            self.communicator.receive(block, source)
            yield block

    def gather(self, per_agent: Array) -> Array | None:
        """``(n, ...)`` in agent order on rank 0, None on the other ranks; a site has its own."""
        blocks = list(self.stream(per_agent))
        return np.concatenate(blocks) if self.root else None

    def sha256(self, per_agent: Array) -> str:
        """Return the SHA-256 of the float64 values in agent order, on every rank; at a site that of
        its own."""
        hashed = hashlib.sha256()
        for block in self.stream(per_agent):
            hashed.update(np.ascontiguousarray(block).tobytes())
        return self.ours(hashed.hexdigest().encode())[0].decode()


class ReplicaCollective(AgentCollective):
    """The collective of a single agent that every rank holds a copy of: sums need no messages, and
    rank 0 writes its arrays."""

    def __init__(self, communicator: Communicator) -> None:
        super().__init__(communicator, np.ones(communicator.size + 1, dtype=np.int64))
        self.bounds[0] = 0

    @property
    def own(self) -> slice:
        return slice(0, int(self.root))

    def fold(self, size: int, add: Callable[[Array], None]) -> Array:
        total = np.zeros(size)
        add(total)
        return total

    def stream(self, per_agent: Array) -> Iterator[Array]:
        if self.root:
            yield per_agent
