"""What an iteration of RSSM costs with l blocks of columns: counted operations and seconds, n =
2000, p = 500.

    python benchmarks/blocks.py
    python benchmarks/blocks.py 1000 200 500    # n, p, samples

Robust subspace recovery of Gaussian samples. One BLAS thread; processor time, the best of several.
RSM moves all columns, which for l = 2 RSSM does too. Beside each number stands what it is times l,
which does not change if the cost falls as 1/l.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from decentorth import RSM, RSSM
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import RobustSubspaceRecovery

BLOCKS = (2, 5, 10, 20, 50)


def best(function: Callable[[], Any], seconds: float = 2.0) -> float:
    """Processor milliseconds of the fastest call within that time, at least three."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        begin = time.process_time()
        function()
        times.append(time.process_time() - begin)
    return 1e3 * min(times)


def measure(problem: Any, method: Any, x0: Any) -> tuple[float, float]:
    """Counted operations of an iteration, in millions, and its milliseconds."""
    streams = CounterStreams(0, slice(0, 1))
    states = [method.init(problem, None, streams, x0)]

    def step() -> None:
        states[0] = method.step(problem, None, streams, states[0])

    milliseconds = best(step)
    return states[0].flops[0] / states[0].k / 1e6, milliseconds


def main(n: int = 2000, p: int = 500, samples: int = 2000) -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    problem = RobustSubspaceRecovery([rng.standard_normal((samples, n))], n - p)
    x0 = problem.constraint.random(rng)[None]
    print(
        f"n = {n}, p = {p}, {samples} samples\n| | Mflop | times l | ms | times l | of these "
        "(15), (16) | times l |\n|" + "---|" * 7
    )
    flops, milliseconds = measure(problem, RSM(step_size=1e-3), x0)
    print(f"| RSM | {flops:.0f} | | {milliseconds:.1f} | | | |")
    for blocks in BLOCKS:
        flops, milliseconds = measure(problem, RSSM(blocks=blocks, step_size=1e-3), x0)
        columns = np.arange(2 * p // blocks)
        v = 1e-3 * rng.standard_normal((1, n, len(columns)))
        move = best(lambda columns=columns, v=v: problem.constraint.move_columns(x0, columns, v))
        shown = (flops, milliseconds, move)
        cells = " | ".join(
            f"{value:.{digits}f} | {blocks * value:.0f}"
            for value, digits in zip(shown, (0, 1, 1), strict=True)
        )
        print(f"| l = {blocks} | {cells} |", flush=True)


if __name__ == "__main__":
    with threadpool_limits(1):
        main(*map(int, sys.argv[1:]))
