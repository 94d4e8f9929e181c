"""Automatic steps of DRFGT on networks that change or lose messages: divergences, and what longer
steps would gain.

    python -m benchmarks.changing_steps [--random 500] [--first 0] [--limit 1000] [--longer 1]

Each case is a random problem of ``auto_steps.py`` on a random network: matchings, one edge at a
time, link failures, periodic sequences of parts of a graph, and lost messages. Counted are the runs
that diverge, and those whose gradient is larger at the end than at the start. With ``--longer f``
steps are f times the automatic ones, and penalties 1 / f times.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import topologies as tp
from benchmarks.auto_steps import random_case
from decentorth import DRFGT
from decentorth.api import set_up, solve

SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)


def parts(W: Any, count: int, rng: np.random.Generator) -> tp.PeriodicSequence:
    """A graph's edges divided over ``count`` rounds, and repeated in this order."""
    edges = np.argwhere(np.triu(W.toarray(), 1))
    matrices = []
    for which in np.array_split(rng.permutation(len(edges)), count):
        near = np.zeros(W.shape)
        for i, j in edges[which]:
            near[i, j] = near[j, i] = 1.0
        degree = near.sum(1)
        weights = near / (1.0 + np.maximum(degree[:, None], degree[None]))
        matrices.append(weights + np.diag(1.0 - weights.sum(1)))
    return tp.PeriodicSequence(matrices)


def network(seed: int, W: Any) -> tuple[str, Any, str | None]:
    """The kind of a random network of as many agents as W, its weights and its channel."""
    rng = np.random.default_rng((seed, 11))
    n = W.shape[0]
    graph = (W - np.diag(W.diagonal())) != 0
    edges = int(graph.sum()) // 2
    p = float(rng.choice(SHARES))
    match int(rng.integers(6)):
        case 0:
            return "matchings", tp.RandomMatching(n, seed), None
        case 1:
            return "one edge", tp.RandomGossip(tp.adjacency(tp.ring(n)), seed), None
        case 2:
            return "link failures", tp.LinkFailures(W, p, seed), None
        case 3:
            return "parts of a graph", parts(W, int(rng.integers(2, edges + 1)), rng), None
        case 4:
            return "edges in turn", parts(W, edges, rng), None
    fault = rng.choice(["loss:p={}", "failures:p={}", "bursts:p={},length=10", "sleep:p={}"])
    return "lost messages", W, str(fault).format(min(p, 0.5))


def outcome(case: tuple[int, int, float]) -> tuple[str, bool, float]:
    """The kind of the network, true if the run diverged, and the share of the gradient left."""
    seed, limit, longer = case
    problem, W = random_case(seed)
    kind, weights, channel = network(seed, W)
    method = DRFGT()
    with threadpool_limits(1):
        if longer != 1.0:
            run = set_up(problem, method, weights, seed=seed, comm="serial", channel=channel)
            first = next(run.states())
            step = longer * float(first.step_size.mean())
            method = DRFGT(step_size=step, penalty=float(first.penalty.mean()) / longer)
        result = solve(
            problem,
            method,
            weights,
            iterations=limit,
            rows=limit,
            seed=seed,
            channel=channel,
            comm="serial",
        )
    norms = result.history["gradient_norm"]
    return kind, result.status == "diverged", float(norms[-1] / norms[0])


def main() -> None:
    """Print the counts for each kind of network."""
    arguments = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    arguments.add_argument("--random", type=int, default=500)
    arguments.add_argument("--first", type=int, default=0)
    arguments.add_argument("--limit", type=int, default=1000)
    arguments.add_argument("--longer", type=float, default=1.0)
    given = arguments.parse_args()
    seeds = range(given.first, given.first + given.random)
    found: dict[str, list[tuple[bool, float]]] = defaultdict(list)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        cases = [(seed, given.limit, given.longer) for seed in seeds]
        for kind, diverged, left in pool.map(outcome, cases, chunksize=5):
            found[kind].append((diverged, left))
    print("| network | runs | diverged | larger gradient | gradient left, median |")
    print("|---|---|---|---|---|")
    for kind, ends in sorted(found.items()):
        diverged = sum(one for one, _ in ends)
        larger = sum(not left < 1.0 for _, left in ends)
        middle = statistics.median(left for _, left in ends)
        print(f"| {kind} | {len(ends)} | {diverged} | {larger} | {middle:.2g} |")
    print(f"{sum(one for ends in found.values() for one, _ in ends)} of {given.random} diverged")


if __name__ == "__main__":
    main()
