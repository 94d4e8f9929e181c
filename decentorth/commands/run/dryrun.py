"""The cost of a run before it is made: messages between ranks, bytes and memory, counted at the
start and in one iteration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...api import Run
from ...api.automatic import fitting
from ...api.kinds import run_of
from ...display import size
from ...network import Network, even_bounds
from ...problems import SpreadProblem
from ...problems.deferred import FEW, Outline
from ...protocols import Declared, Index
from ...records.progress_bar import step_ranges, steps_line
from ...registry import algorithms

SHOWN_RANKS = 12
Bytes = dict[str, int]
"""Bytes of the state and of the data."""


def report(run: Run) -> list[str]:
    """Return lines about the cost of a run that is built but not yet iterated.

    Every rank calls it. If random samples stand in for the data, a second run with one sample
    more shows how the memory grows with the samples.
    """
    network = run.network
    collective = run.collective
    states = run.states()
    with np.errstate(over="ignore", invalid="ignore"):  # as in the run, which says that it diverges
        state = next(states)
    steps = steps_line(step_ranges(run.algorithm, state, collective))
    memory = {"state": held(state), "data": held(run.problem)}
    problem: Any = run.arguments.problem
    if (sizes := run.arguments.sizes) is not None:
        other = run.again(problem=problem.stand_in(1), comm=collective.communicator)
        second = next(other.states())
        if steps_line(step_ranges(other.algorithm, second, collective)) != steps:
            steps = "steps       chosen from the data when the run begins"
        more = {"state": held(second), "data": held(other.problem)}
        memory = extrapolated(run, sizes, memory, more)
    lines = [
        steps,
        f"set-up      {_sent(_counts(network))}",
    ]
    links = network.W.nnz - network.n_agents
    tree = False
    if Declared.of(run.algorithm).counts == "activations":  # its first step may be the whole run
        payload = state.agents.message_bytes
        lines.append(
            f"activation  no round, {links / network.n_agents:.3g} messages on average, "
            f"{size(payload)} to each neighbour"
        )
    else:
        words, payload, tree = _iteration(run, states, links)
        lines.append(words)
    parts = collective.communicator.allgather_bytes(json.dumps(memory).encode())
    every = [json.loads(part) for part in parts]
    lines += _ranks(run, every[:SHOWN_RANKS], payload, tree)
    if len(every) > SHOWN_RANKS:
        lines.append(f"            and {len(every) - SHOWN_RANKS} more ranks")
    state, data = (size(sum(used[name] for used in every)) for name in ("state", "data"))
    lines.append(f"memory      state {state}, data {data} in all, beside the libraries")
    return [*lines, *_alternatives(run)]


def _alternatives(run: Run) -> Iterator[str]:
    """A line for each other method of the table: the messages of its second iteration and its
    set-up; of a method that iterates without messages all of them."""
    collective = run.collective
    for name in fitting(run):
        method = algorithms.get(name)
        if isinstance(run.algorithm, method):
            continue
        given = replace(run.arguments, algorithm=method(), comm=collective.communicator)
        other = run_of(given)
        network = other.network
        states = other.states()
        with np.errstate(over="ignore", invalid="ignore"):
            next(states)
            setup = _sent(_counts(network))
            next(states)
            before = _counts(network)
            next(states)
        each = _counts(network) - before
        if each.any():
            yield f"instead     {name}: iteration {_sent(each)}; set-up about {setup}"
        else:
            yield f"instead     {name}: {setup} in all"


def _counts(network: Network) -> Index:
    """The rounds, messages and bytes so far."""
    return np.array([network.rounds, network.messages, network.bytes])


def _sent(counts: Index) -> str:
    rounds, messages, sent = counts.tolist()
    return f"{rounds} rounds, {messages} messages, {size(sent)}"


def _iteration(run: Run, states: Iterator[object], links: int) -> tuple[str, int, bool]:
    """The messages of an iteration in words, the bytes of each, and True if they go along a
    tree."""
    network = run.network
    before = _counts(network)
    with np.errstate(over="ignore", invalid="ignore"):
        next(states)
    rounds, messages, sent = (_counts(network) - before).tolist()
    payload = sent // max(messages // max(rounds, 1), 1)
    tree = network.sums_exactly and messages < rounds * links
    along = f"{size(payload)} along each directed edge"
    if tree:
        along = "two along each edge of a tree"
    if not messages:
        return "iteration   no messages", 0, False
    return (
        f"iteration   {rounds} rounds, {messages} messages between agents, {size(sent)} ({along})",
        payload,
        tree,
    )


def _ranks(run: Run, every: Sequence[Mapping[str, int]], payload: int, tree: bool) -> Iterator[str]:
    """A line for each rank: its agents, its memory, and what it sends to other ranks."""
    bounds = run.collective.bounds
    spread = run.collective.size > run.network.communicator.size
    rows: dict[int, list[str]] = {}
    if not spread:
        for (rank, other), count in crossing(run.network.W, run.network.bounds).items():
            rows.setdefault(rank, []).append(f"{size(count * payload)} to rank {other}")
    for rank, used in enumerate(every):
        whose = f"agents {bounds[rank]} to {bounds[rank + 1] - 1}"
        wire = ", ".join(rows.get(rank, ["nothing to other ranks"]))
        if tree:
            wire = "its part of the sums along the tree"
        if spread:
            whose = "a share of the samples"
            wire = f"a sum of {size(run.x0.nbytes)} for each gradient"
        yield (
            f"rank {rank:<6d} {whose}, state {size(used['state'])}, data {size(used['data'])}; "
            f"sends {wire}"
        )


def extrapolated(run: Run, outline: Outline, few: Bytes, more: Bytes) -> Bytes:
    """Extrapolate the memory to all samples, in bytes.

    ``few`` is measured with `FEW` samples for each agent, ``more`` with one more. Each row adds
    the same number of bytes, those of its stored entries where samples stay sparse.
    """
    rank = run.collective.rank
    blocks = run.collective.bounds
    if isinstance(run.problem, SpreadProblem):
        blocks = even_bounds(len(outline.counts), run.collective.size)
    own = outline.counts[int(blocks[rank]) : int(blocks[rank + 1])]
    rows = [[min(count, most) for count in own] for most in (FEW, FEW + 1)] + [list(own)]
    totals = [sum(counts) for counts in rows]
    found = {}
    for name in few:
        beside = [8 * outline.more(counts) * (name == "data") for counts in rows]
        first = few[name] - beside[0]
        second = more[name] - beside[1]
        slope = (second - first) / max(totals[1] - totals[0], 1)
        found[name] = round(first + slope * (totals[2] - totals[0])) + beside[2]
        if name == "data" and outline.stored is not None:
            found[name] = round(few[name] + 8.0 * outline.stored * (totals[2] - totals[0]))
    return found


def crossing(W: Any, bounds: Index) -> dict[tuple[int, int], int]:
    """Return the number of agents' rows sent from one rank to another, by (sender, receiver).

    Only pairs of ranks that exchange messages are included. Agent i needs the rows of all j with
    an entry W_ij, where W is ``(n, n)`` CSR. Rank q holds the agents
    ``bounds[q]:bounds[q + 1]``.
    """
    n = W.shape[0]
    home = np.searchsorted(bounds, np.arange(n), side="right") - 1
    receiver = home[np.repeat(np.arange(n), np.diff(W.indptr))]
    sender = home[W.indices]
    needed = np.unique(np.stack([sender, receiver, W.indices])[:, sender != receiver], axis=1)
    pairs, rows = np.unique(needed[:2], axis=1, return_counts=True)
    return dict(zip(zip(*pairs.tolist(), strict=True), rows.tolist(), strict=True))


def held(thing: object) -> int:
    """Bytes of all arrays that can be reached from ``thing``, each piece of memory once."""
    found = 0
    todo = [thing]
    visited = set()
    while todo:
        item = todo.pop()
        if id(item) in visited:
            continue
        visited.add(id(item))
        match item:
            case np.ndarray(base=np.ndarray() as whole):
                todo.append(whole)
            case np.ndarray():
                found += item.nbytes
            case dict():
                todo += item.values()
            case list() | tuple():
                todo += item
            case type():
                pass
            case object(__dict__=entries):
                todo += entries.values()
    return found
