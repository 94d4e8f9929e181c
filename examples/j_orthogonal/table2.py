"""
Paper 001: tables 2 and 4
=========================

Tables 2 and 4 of paper 001: the hyperbolic eigenvalue problem at a time limit,
and the processor time to fixed objective values. ::

    # randn10, randn100, randn1000: a quarter hour
    python examples/j_orthogonal/table2.py
    # ten matrices, medians
    python examples/j_orthogonal/table2.py --data randn100 --seconds 5 \\
        --seeds 10
    # from a random J-orthogonal matrix, as in the paper
    python examples/j_orthogonal/table2.py --data randn10 randn100 \\
        --start random --seconds 3
    # rows of table 4
    python examples/j_orthogonal/table2.py --data randn10 randn100 \\
        --shares 0.5 0.7 0.9 --seconds 1
    python examples/j_orthogonal/table2.py --data w1a --draw-rows 2470 \\
        --draw-columns 290 --shares 0.5 0.7 0.9 --seconds 90
    python examples/j_orthogonal/table2.py --data my.svmlight \\
        --positive 100 --ridge 0.01 --form well-posed

As printed, min -tr(x^T D^T D x) is unbounded below: the least objective in a
given time measures only how fast a method is. Shown is half of it, as in the
paper, at points with feasibility below 1e-6, and the time and iterations to 2,
10 and 1000 times the start's. The well-posed form, min tr(x^T D^T D x), has a
known minimum: shown is the relative gap to it. Over several seeds these are
medians, those of times over the seeds that came there, whose number stands
beside them if it is not that of all.

All numbers: ``docs/papers/001.md``.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from experiment import (
    Row,
    Task,
    arguments,
    follow,
    loaded,
    mapped,
    methods,
    settings_of,
    start_value,
)

import decentorth as do

FACTORS = (2.0, 10.0, 1000.0)
"""Objectives to which seconds are counted, as multiples of the start's."""
GAPS = (1e-1, 1e-3, 1e-6)
PUBLISHED = {
    "randn10": "UMCM -4.23e1, ADMM -4.21e1, CSDM -2.29e2, GS -4.23e1, J "
    "-8.46e1, CSDM+GS -3.01e2",
    "randn100": "UMCM -5.01e3, ADMM -4.93e3, CSDM -1.34e4, GS -4.90e3, J "
    "-1.71e4, CSDM+GS -2.13e4",
    "randn1000": "UMCM -5.64e5, ADMM -5.63e5, CSDM -5.46e5, GS -5.01e5, J "
    "-2.84e6, CSDM+GS -5.52e5",
}
"""Half objectives of table 2, where half of the signs are +1, after 90 s on a
GPU machine.
"""


class Table(NamedTuple):
    """A data set with the signs of J, the objectives at the start and those
    sought for each seed, and the runs to make.
    """

    data: str
    positive: int | None
    starts: list[float]
    targets: list[list[float]]
    tasks: list[Task]


def columns(data: str, options: Any) -> int:
    """The number of columns of a data set."""
    settings = settings_of(data, options.form, None, options.ridge, options)
    return len(loaded(settings.problem(1, 0), do.CSDM()).constraint.signs)


def planned(data: str, positive: int | None, options: Any) -> Table:
    """The table of a data set, before its runs."""
    settings = settings_of(data, options.form, positive, options.ridge, options)
    printed = settings.form == "as-printed"
    seeds = range(options.seed, options.seed + options.seeds)
    starts = [start_value(settings, seed, options.start) for seed in seeds]
    targets = [
        [own * factor for factor in FACTORS] if printed else list(GAPS)
        for own in starts
    ]
    metric = "objective" if printed else "error"
    tasks = [
        Task(settings, seed, method, options, metric, own[-1])
        for method in methods(settings.form, options.warm).values()
        for seed, own in zip(seeds, targets, strict=True)
    ]
    return Table(data, positive, starts, targets, tasks)


def head(table: Table, options: Any, names: list[str]) -> None:
    """Print the first lines of a table."""
    printed = options.form == "as-printed"
    start = statistics.median(table.starts)
    words = table.data
    if table.positive is not None:
        words += f", p = {table.positive}"
    what = "objective"
    value = "relative gap"
    if printed:
        start /= 2
        what = value = "half objective"
    print(
        f"{words}, {options.form}, {options.seconds:g} s; {what} at the start "
        f"{start:.4g}"
    )
    columns = "  ".join(f"{name:>16s}" for name in names)
    print(f"{'method':31s} {value:>15s} {'feasibility':>12s}  {columns}")


def cell(runs: Any, goals: list[float]) -> str:
    """The median time and iterations to the goals of the seeds, and how many
    seeds came there if not all.
    """
    there = []
    for rows, goal in zip(runs, goals, strict=True):
        first = next((row for row in rows if row.value <= goal), None)
        if first is not None:
            there.append((first.seconds, first.iteration))
    if not there:
        return "-"
    seconds, iteration = map(statistics.median, zip(*there, strict=True))
    some = ""
    if len(there) < len(runs):
        some = f" ({len(there)} of {len(runs)})"
    return f"{seconds:.3g} s, {iteration:.0f}{some}"


def show(table: Table, found: Iterator[Any], options: Any) -> None:
    """Print a table as its runs end."""
    printed = options.form == "as-printed"
    start = statistics.median(table.starts)
    names = [f"to gap {gap:g}" for gap in GAPS]
    if printed:
        names = [f"to {start * factor / 2:.3g}" for factor in FACTORS]
    head(table, options, names)
    nothing = Row(0.0, 0, 0.0, math.nan, math.nan)
    for name in methods(options.form, options.warm):
        runs, endings = zip(*[next(found) for _ in table.starts], strict=True)
        least = [
            min(rows, key=lambda row: row.value, default=nothing)
            for rows in runs
        ]
        value, feasibility = np.median(
            [(row.value, row.feasibility) for row in least], axis=0
        )
        shown = f"{value / 2 if printed else value:.3g}"
        goals = zip(*table.targets, strict=True)
        cells = "  ".join(f"{cell(runs, list(one)):>16s}" for one in goals)
        ending = ", ".join(dict.fromkeys(endings))
        print(
            f"{name:31s} {shown:>15s} {feasibility:12.0e}  {cells}  {ending}",
            flush=True,
        )
    if len(table.starts) < 3:
        print(
            "few seeds decide nothing where methods are close: --seeds 3 or "
            "more"
        )
    if printed and table.data in PUBLISHED and table.positive is None:
        print(f"published, 90 s on a GPU machine: {PUBLISHED[table.data]}")


def main() -> None:
    parser = arguments(
        __doc__ or "", ("randn10", "randn100", "randn1000"), 30.0
    )
    parser.add_argument(
        "--form", choices=("as-printed", "well-posed"), default="as-printed"
    )
    parser.add_argument(
        "--seeds",
        type=int,
        default=1,
        help="problems and runs, from --seed on: medians of them",
    )
    parser.add_argument(
        "--shares",
        type=float,
        nargs="+",
        help="the signs +1 as shares of the columns; several in turn",
    )
    options = parser.parse_args()
    tables = []
    for data in options.data:
        for share in options.shares or [None]:
            positive = options.positive
            if share is not None:
                positive = round(share * columns(data, options))
            tables.append(planned(data, positive, options))
    found = mapped(
        follow, [task for table in tables for task in table.tasks], options.jobs
    )
    for table in tables:
        show(table, found, options)


if __name__ == "__main__":
    main()
