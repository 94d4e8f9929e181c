"""RSM and RSSM on the problems of paper 002, published and tuned schedules, ten seeds: the tables
of docs/nonsmooth.md.

    python benchmarks/nonsmooth.py rsr
    python benchmarks/nonsmooth.py odl
    python benchmarks/nonsmooth.py odl 100 3          # the first seed, how many
    python benchmarks/nonsmooth.py odl 100 10 1e-3    # only methods in whose name this is

Robust subspace recovery: the error after 300 iterations. Orthogonal dictionary learning: iterations
and processor seconds until the error is 2e-4. One BLAS thread; the clock runs for iterations only.
Schedules were tuned on other data.
"""

from __future__ import annotations

import sys
import time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from decentorth import RSM, RSSM
from decentorth.api import set_up
from decentorth.problems import ODLSettings, RSRSettings

TARGET = 2e-4


class Contender(NamedTuple):
    """A method, what it is called, and the most iterations it gets."""

    name: str
    method: Any
    iterations: int


def printed(blocks: int, initial: float, power: float, ratio: float) -> str:
    """The schedule as the paper prints it."""
    return (
        f"annealed:initial={initial},pairs={blocks * (blocks - 1) // 2},power={power},ratio={ratio}"
    )


RSR = [
    Contender("RSM, published", RSM(), 300),
    *[Contender(f"RSSM l = {blocks}, default", RSSM(blocks=blocks), 300) for blocks in (3, 5, 10)],
    Contender(
        "RSSM l = 10, first steps cut to 10 times",
        RSSM(blocks=10, step_size=printed(10, 0.9, 2.0, 0.991) + ",cap=10"),
        300,
    ),
    Contender(
        "RSSM l = 10, as printed", RSSM(blocks=10, step_size=printed(10, 0.9, 2.0, 0.991)), 300
    ),
]
PLATEAU = "piecewise:initial=1e-4,knots=1000:1/1500:0.02"


def geometric(initial: str, ratio: float) -> str:
    """Steps that fall as a geometric progression."""
    return f"geometric:initial={initial},ratio={ratio}"


ODL = [
    Contender("RSM, published", RSM(), 2200),
    *[
        Contender(f"RSM, {initial} * {ratio}^k", RSM(step_size=geometric(initial, ratio)), limit)
        for initial, ratio, limit in (
            ("1e-3", 0.9594, 400),
            ("8e-3", 0.8, 100),
            ("8e-3", 0.84, 120),
            ("8e-3", 0.88, 160),
        )
    ],
    *[
        Contender(
            f"RSSM l = {blocks}, published, {words}",
            RSSM(
                blocks=blocks,
                step_size=printed(blocks, 1e-3, 4.0, 0.995),
                block_partition=partition,
            ),
            1000,
        )
        for blocks in (3, 5, 10)
        for partition, words in (("fixed", "blocks stay"), ("redraw", "redrawn"))
    ],
    Contender(
        "RSSM l = 5, 1e-4 to k = 1000, 2e-6 at 1500, blocks stay",
        RSSM(blocks=5, step_size=PLATEAU, block_partition="fixed"),
        2000,
    ),
    *[
        Contender(
            f"RSSM l = {blocks}, {initial} * {ratio}^k, redrawn",
            RSSM(blocks=blocks, step_size=geometric(initial, ratio), block_partition="redraw"),
            limit,
        )
        for blocks, initial, ratio, limit in (
            (3, "4e-3", 0.94, 300),
            (5, "2e-3", 0.99018, 1200),
            (5, "4e-3", 0.98, 600),
            (10, "2e-3", 0.99803, 4500),
            (10, "4e-3", 0.995, 2400),
        )
    ],
]


class Trial(NamedTuple):
    """How a method did on a seed."""

    iterations: int
    seconds: float
    error: float


def trial(problem: Any, contender: Contender, seed: int, target: float) -> Trial:
    """Iterate until the error is at most ``target``, or to the end."""
    run = set_up(problem, contender.method, seed=seed)
    states, spent, error = run.states(), 0.0, np.inf
    state = next(states)
    while state.k < contender.iterations and error > target:
        begin = time.process_time()
        state = next(states)
        spent += time.process_time() - begin
        if target > 0.0 or state.k == contender.iterations:
            error = run.problem.error(state.x[0])
    return Trial(state.k, spent, error)


def robust_subspaces(seeds: range, word: str) -> None:
    """Print the table of robust subspace recovery."""
    print(
        "| | median error | range | success (below 1e-3) | ms an iteration | of RSM's |\n|"
        + "---|" * 6
    )
    reference = 0.0
    for contender in (one for one in RSR if word in one.name):
        trials = [trial(RSRSettings().problem(1, seed), contender, seed, 0.0) for seed in seeds]
        errors = [each.error for each in trials]
        each = 1e3 * float(np.median([one.seconds / one.iterations for one in trials]))
        reference = reference or each
        good = sum(error < 1e-3 for error in errors)
        spread = f"{min(errors):.1e} to {max(errors):.1e}"
        cells = (
            f"{np.median(errors):.1e}",
            spread,
            f"{good} of {len(errors)}",
            f"{each:.2f}",
            f"{each / reference:.2f}",
        )
        print(f"| {contender.name} | {' | '.join(cells)} |", flush=True)


def dictionaries(seeds: range, word: str) -> None:
    """Print the table of orthogonal dictionary learning."""
    print(
        "| | success | iterations | seconds | ms an iteration | error where it failed |\n|"
        + "---|" * 6
    )
    for contender in (one for one in ODL if word in one.name):
        trials = [trial(ODLSettings().problem(1, seed), contender, seed, TARGET) for seed in seeds]
        good = [one for one in trials if one.error <= TARGET]
        failed = [one.error for one in trials if one.error > TARGET]
        cells = [f"{len(good)} of {len(trials)}"]
        if good:
            counts, spent = [one.iterations for one in good], [one.seconds for one in good]
            cells.append(f"{np.median(counts):.0f} ({min(counts)} to {max(counts)})")
            cells.append(f"{np.median(spent):.2f} ({min(spent):.2f} to {max(spent):.2f})")
        else:
            cells += ["", ""]
        cells.append(f"{1e3 * np.median([one.seconds / one.iterations for one in trials]):.2f}")
        cells.append(f"{min(failed):.1e} to {max(failed):.1e}" if failed else "")
        print(f"| {contender.name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    kind, first, number, word = [*sys.argv[1:], *("odl", "100", "10", "")[len(sys.argv) - 1 :]]
    with threadpool_limits(1):
        {"rsr": robust_subspaces, "odl": dictionaries}[kind](
            range(int(first), int(first) + int(number)), word
        )
