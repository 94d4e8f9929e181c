"""Row d: seconds and memory with more agents, more variables and more ranks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from functools import partial

import topologies as tp

from .. import many_agents, scaling
from ..tracking import StackedTracking, targets, tracking
from .jobs import job
from .peers import Peers
from .rows import Case, Works, output, repeated

WIDTHS = {20: 300, 1000: 300, 10_000: 50, 100_000: 5, 1_000_000: 1}
"""Variables of an agent, and the calls in a block."""


def edges(sides: tuple[int, int]) -> Works:
    """The seconds of an edge of a torus, and of that of 1,000 agents."""
    names = f"{sides[0] * sides[1]:,} agents", "1,000 agents"
    return {
        name: partial(_edge, *size) for name, size in zip(names, (sides, (25, 40)), strict=True)
    }


def _edge(a: int, b: int) -> float:
    return scaling.measure(a, b)[1]


def agents() -> Works:
    """The seconds of an agent among 10,000 and among 1,000."""
    return {f"{n:,} agents": partial(_agent, n) for n in (10_000, 1_000)}


def _agent(n: int) -> float:
    return many(n)["us"] * 1e-6


def many(n: int) -> dict[str, float]:
    """The numbers of ``benchmarks/many_agents.py`` for n agents, in a process of their own."""
    found: dict[str, float] = json.loads(
        output([sys.executable, many_agents.__file__, n, "50x20"]).splitlines()[-1]
    )
    return found


def memory(n: int) -> Works:
    """The arrays of the state's size at the peak of a run, and the three that the method has."""
    return {f"{n:,} agents": lambda: many(n)["arrays"], "x, y and gradient": lambda: 3.0}


def variables(width: int) -> Works:
    """Ours, and plain NumPy."""
    b, W, calls = targets(10, width), tp.uniform_weights(tp.ring(10)), WIDTHS[width]
    ours = tracking(b, W).states()
    next(ours)
    return {
        "one process": repeated(ours.__next__, calls),
        "stacked NumPy": repeated(StackedTracking(W, b).step, calls),
    }


def ranks(count: int, agents_of: Callable[[int], int], blocks: int) -> Works:
    """The seconds of an agent on that many ranks, and on one."""

    def on(count: int) -> float:
        n = agents_of(count)
        times = job(count, "alone", n, 1000, blocks)["decentorth"]
        return sorted(times() for _ in range(blocks))[blocks // 2] / n

    return {f"{count} ranks": partial(on, count), "1 rank": partial(on, 1)}


def cases(quick: bool, peers: Peers) -> list[Case]:
    """The section's cases."""
    blocks = 1 if quick else 3
    found = []
    for sides in [(3, 4), (10, 10), (100, 100), *([] if quick else [(250, 400)])]:
        found.append(
            Case(
                "seconds of an edge, DRFGT, 10 x 3, tori, wall time", partial(edges, sides), blocks
            )
        )
    if not quick:
        found.append(Case("seconds of an agent, DRFGT, 50 x 20, tori, wall time", agents, blocks))
    for n in [1_000, *([] if quick else [10_000])]:
        name = "peak of a run in arrays of the state's size, DRFGT, 50 x 20, torus"
        found.append(Case(name, partial(memory, n), 1, goal=2.0, unit="arrays"))
    for width in WIDTHS:
        name = f"gradient tracking, 10 agents, ring, {width:,} numbers"
        found.append(Case(name, partial(variables, width), 3 if quick else 15))
    cores = f"{os.cpu_count()} cores, wall time"
    for count in (2, 10) if quick else range(2, 11):
        strong = (
            f"seconds of an agent, gradient tracking, 1,000 numbers, torus of 1,000 agents, {cores}"
        )
        weak = (
            "seconds of an agent, gradient tracking, 1,000 numbers, ring of 90 agents a rank, "
            f"{cores}"
        )
        found.append(Case(strong, partial(ranks, count, lambda count: 1000, 3), blocks))
        found.append(Case(weak, partial(ranks, count, lambda count: 90 * count, 3), blocks))
    return found
