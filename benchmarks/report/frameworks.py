"""Row a: an iteration of ours against stacked NumPy, other frameworks and the published
exchange."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import topologies as tp
from decentorth import DRFGT
from decentorth.api import set_up
from decentorth.problems import Procrustes
from decentorth.problems.stiefel.procrustes import published_rows

from ..iteration import StraightFused
from ..tracking import StackedTracking, targets, tracking
from .jobs import job
from .peers import FOLDER, Peers
from .rows import Case, Works, printed, repeated

NAME = "gradient tracking, {} agents, {}, {} numbers"
SIZES = ((10, "ring", 1000, 300, 1.6), (1000, "torus", 100, 20, 1.2))
"""Agents, graph, variables of an agent, calls in a block, and the ratio to stacked NumPy that is
the goal."""


def weights(n: int) -> Any:
    """W of the ring of 10 or the torus of 1,000 agents."""
    return tp.uniform_weights(tp.ring(10)) if n == 10 else tp.metropolis_weights(tp.torus(25, 40))


def stacked(n: int, width: int, calls: int) -> Works:
    """Ours in one process, and plain NumPy."""
    b, W = targets(n, width), weights(n)
    ours = tracking(b, W).states()
    next(ours)
    return {
        "one process": repeated(ours.__next__, calls),
        "stacked NumPy": repeated(StackedTracking(W, b).step, calls),
    }


def rivals(n: int, graph: str, width: int, calls: int, peers: Peers) -> Works:
    """Ours in one process, on 2 ranks and on 10, plain NumPy and the frameworks that are here."""
    both = stacked(n, width, calls)
    works = {"one process": both["one process"]}
    for ranks in (2, 10):
        works[f"{ranks} ranks, wall time"] = partial(_on_ranks, ranks, n, width)
    return works | {"stacked NumPy": both["stacked NumPy"]} | frameworks(graph, width, peers)


def frameworks(graph: str, width: int, peers: Peers) -> dict[str, Callable[[], float]]:
    """The frameworks that are here and have the graph."""
    found: dict[str, Callable[[], float]] = {}
    if isinstance(python := peers["decent-bench"], Path):
        found["decent-bench SimpleGT"] = printed(
            python, FOLDER / "run_decent_bench.py", graph, width
        )
    if graph == "ring" and isinstance(python := peers["disropt"], Path):
        mpirun = (python.with_name("mpirun"), "--oversubscribe", "--allow-run-as-root", "-n", "10")
        found["disropt, 10 ranks, wall time"] = printed(*mpirun, python, FOLDER / "run_disropt.py")
    return found


def _on_ranks(ranks: int, n: int, width: int) -> float:
    return job(ranks, "alone", n, width, 1)["decentorth"]()


def drfgt() -> Works:
    """DRFGT in one process, and plain NumPy."""
    a, b = published_rows(slice(0, 10), 10, 50, 20, 0)
    W = weights(10)
    run = set_up(
        Procrustes(a, b),
        DRFGT(step_size=1e-3, penalty=10.0, order="combine-then-adapt"),
        W,
        comm="serial",
    )
    straight = StraightFused(
        np.stack(a), np.stack([m.T for m in b]).copy(), W, run.x0[0], 1e-3, 10.0
    )
    states = run.states()
    next(states)
    return {
        "one process": repeated(states.__next__, 200),
        "stacked NumPy": repeated(straight.step, 200),
    }


def cases(quick: bool, peers: Peers) -> list[Case]:
    """The section's cases."""
    blocks, jobs = (15, 5) if quick else (60, 15)
    found = []
    for n, graph, width, calls, goal in SIZES:
        name = NAME.format(f"{n:,}", graph, f"{width:,}")
        found.append(Case(name, partial(stacked, n, width, calls), blocks, goal=goal))
        others = partial(rivals, n, graph, width, calls, peers)
        found.append(Case(f"{name}, in one process and on ranks", others, 1 if quick else 3, own=3))
        for ranks in (2, 10):
            found.append(
                Case(
                    f"{name}, {ranks} ranks, wall time",
                    partial(job, ranks, "tracking", n, width, jobs),
                    jobs,
                )
            )
    found.append(Case("DRFGT, 10 agents of 50 x 20, ring", drfgt, blocks))
    for ranks in (2, 10):
        name = f"DRFGT, 10 agents of 50 x 20, ring, {ranks} ranks, wall time"
        found.append(Case(name, partial(job, ranks, "drfgt", 10, 1000, jobs), jobs))
    return found
