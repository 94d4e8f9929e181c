"""Time of one iteration in one process: DRFGT against its rivals, split into gradient, mixing and
geometry.

    python benchmarks/rivals.py

Ten agents on a ring with Procrustes data, steps so small that nothing moves far. All methods are
timed in turn, in blocks, in one process; ratios are medians over the blocks. Gradient and mixing
are timed alone, with the arrays that the method sends; geometry is what is left of its iteration.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits

import decentorth as do
import topologies as tp
from decentorth.api import set_up
from decentorth.problems import Procrustes

AGENTS, BLOCKS, STEP = 10, 15, 1e-6
SHAPES = ((50, 20, 10), (784, 10, 100), (500, 100, 100))
"""d, r and rows of an agent."""


@dataclass(frozen=True)
class Contender:
    """A method by the name it has in the table, the arrays it sends in an iteration and its
    rounds."""

    name: str
    algorithm: Any
    arrays: int = 2


CONTENDERS = (
    Contender("DRFGT", do.DRFGT(step_size=STEP, order="combine-then-adapt")),
    Contender("DRFGT, accelerated", do.DRFGT(step_size=STEP, order="accelerated")),
    Contender("DRFGT, adapt-then-combine", do.DRFGT(step_size=STEP, order="adapt-then-combine")),
    Contender("RF-EXTRA", do.RFEXTRA(step_size=STEP), arrays=1),
    Contender("DESTINY", do.DESTINY(step_size=STEP, order="combine-then-adapt")),
    Contender("DRGTA, polar by SVD", do.DRGTA(step_size=STEP, retraction="polar-svd")),
    Contender("DRGTA, polar by eigh", do.DRGTA(step_size=STEP, retraction="polar-eigh")),
    Contender("DRGTA, polar", do.DRGTA(step_size=STEP, retraction="polar")),
    Contender("DRGTA, QR", do.DRGTA(step_size=STEP, retraction="qr")),
    Contender("DRGTA, Cholesky-QR", do.DRGTA(step_size=STEP, retraction="cholesky-qr")),
    Contender("DPRGT, polar", do.DPRGT(step_size=STEP)),
    Contender("REXTRA, polar", do.REXTRA(step_size=STEP), arrays=1),
    Contender("gradient tracking", do.GradientTracking(step_size=STEP, order="combine-then-adapt")),
)


def seconds(work: Callable[[], object], times: int) -> float:
    """Seconds that one call takes, over ``times`` calls."""
    begun = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - begun) / times


def measure(d: int, r: int, rows: int) -> Table:
    """The table of one shape."""
    rng = np.random.default_rng(0)
    scale = 1.0 / np.sqrt(d)
    data = [scale * rng.standard_normal((rows, d)) for _ in range(AGENTS)]
    problem = Procrustes(data, [scale * rng.standard_normal((r, rows)) for _ in range(AGENTS)])
    W = tp.uniform_weights(tp.ring(AGENTS), 0.8)
    works: dict[str, Callable[[], object]] = {}
    for contender in CONTENDERS:
        run = set_up(problem, contender.algorithm, W, comm="serial")
        states = run.states()
        next(states)
        works[contender.name] = states.__next__
    x = set_up(problem, CONTENDERS[0].algorithm, W, comm="serial").x0
    network = set_up(problem, CONTENDERS[0].algorithm, W, comm="serial").network
    works["gradient"] = lambda: [part.gradient(x[block]) for block, part in problem.blocks()]
    works["mixing 1"] = lambda: network.mix(x)
    works["mixing 2"] = lambda: network.mix(x, x)
    times: dict[str, list[float]] = {name: [] for name in works}
    repeat = max(3, round(2e7 / (AGENTS * d * r * (rows + 4 * r))))
    with threadpool_limits(1):
        for _ in range(BLOCKS):
            for name, work in works.items():
                times[name].append(seconds(work, repeat))
    table = Table(
        title=f"{AGENTS} agents, {d} x {r}, {rows} rows an agent: microseconds an iteration"
    )
    for column in ("method", "iteration", "gradient", "mixing", "geometry", "ratio to DRFGT"):
        table.add_column(column, justify="left" if column == "method" else "right")
    median = {name: statistics.median(values) * 1e6 for name, values in times.items()}
    for contender in CONTENDERS:
        whole, gradient, mixing = (
            median[contender.name],
            median["gradient"],
            median[f"mixing {contender.arrays}"],
        )
        ratio = statistics.median(
            a / b for a, b in zip(times[contender.name], times["DRFGT"], strict=True)
        )
        cells = (whole, gradient, mixing, whole - gradient - mixing)
        table.add_row(contender.name, *(f"{cell:.0f}" for cell in cells), f"{ratio:.2f}")
    return table


def main() -> None:
    """Print a table for each shape."""
    console = Console()
    for shape in SHAPES:
        console.print(measure(*shape))


if __name__ == "__main__":
    main()
