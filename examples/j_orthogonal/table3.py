"""
Paper 001: ADMM and its penalty
===============================

Table 3 and figure 3 of paper 001: ADMM on the hyperbolic eigenvalue problem
with a constant beta and one that doubles. ::

    # randn10 and randn100, a quarter of a minute
    python examples/j_orthogonal/table3.py
    # figure 3 in place of the table
    python examples/j_orthogonal/table3.py --figure figure3.png
    # randn1000 too, 200 iterations of it: many minutes
    python examples/j_orthogonal/table3.py --full
    # ten matrices of each size, medians: ten minutes
    python examples/j_orthogonal/table3.py --seeds 10
    python examples/j_orthogonal/table3.py --data my.svmlight --iterations 500

Shown are the objective and the feasibility ``(1/n^2) sum |x^T J x - J|`` after
the last iteration: of the printed form, which is unbounded below, half of the
objective, and of the well-posed form, whose minimum is known, the relative gap.
Beta doubles every five iterations up to 1e9. Last stands the default of this
package, a constant 0.3 L with f's Lipschitz constant L. The paper has the first
six after 30 s on a GPU machine. Figure 3 shows the feasibility against the
first beta, in the printed form: medians and ranges over the seeds, betas from
1e2 to 1e9.

All numbers: ``docs/papers/001.md``.
"""

from __future__ import annotations

import argparse
import statistics
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from experiment import mapped, settings_of, start_value

import decentorth as do
from decentorth.figures import (
    band,
    legend_below,
    logarithmic,
    panels,
    publish,
    style,
)

METHODS = {
    **{
        f"constant {beta:.0e}": do.JADMM(penalty=beta)
        for beta in (1e5, 1e7, 1e9)
    },
    **{
        f"doubled from {beta:.0e}": do.JADMM(penalty=beta, schedule="published")
        for beta in (1e3, 1e5, 1e7)
    },
    "constant 0.3 L": do.JADMM(),
}


BETAS = tuple(10.0**power for power in range(2, 10))
"""The first betas of figure 3."""
DIVERGED = 1e10
"""The feasibility that figure 3 shows for a run that has diverged."""


class Runs(NamedTuple):
    """A method on one problem of each seed."""

    data: str
    form: str
    method: do.JADMM
    iterations: int
    seeds: int


def ends(runs: Runs) -> list[tuple[float, float]] | None:
    """Half the objective or the relative gap, and the feasibility, of each
    seed; None if one diverged.
    """
    data, form, method, iterations, seeds = runs
    settings = settings_of(data, form, None, 0.0)
    found = []
    for seed in range(seeds):
        with (
            np.errstate(over="ignore", invalid="ignore"),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter(
                "ignore", RuntimeWarning
            )  # runs that diverge are shown as such
            result = do.solve(
                settings.problem(1, seed),
                method,
                iterations=iterations,
                rows=2,
                comm="serial",
            )
        if result.status == "diverged":
            return None
        values = result.row.values
        reached = (
            0.5 * values["objective"]
            if form == "as-printed"
            else values["error"]
        )
        found.append((reached, values["feasibility"]))
    return found


def cell(found: list[tuple[float, float]] | None) -> str:
    """What a method ends with, medians over the seeds."""
    if found is None:
        return "diverged"
    reached, feasibility = map(statistics.median, zip(*found, strict=True))
    return f"{reached:.2e} ({feasibility:.0e})"


SCHEDULES = {"constant": "constant", "published": "doubled every 5 iterations"}
"""The schedules of figure 3 by their labels."""


def draw_panel(
    axes: Any, data: str, found: Iterator[Any], seeds: int, label: str
) -> None:
    """A panel of figure 3, and a line of print for each beta."""
    for place, words in enumerate(SCHEDULES.values()):
        columns = []
        for beta in BETAS:
            reached = next(found)
            column = [DIVERGED] * seeds
            if reached is not None:
                column = [max(off, 1e-17) for _, off in reached]
            columns.append(column)
            print(
                f"{data}, {words}, first beta {beta:.0e}: feasibility "
                f"{statistics.median(column):.1e} "
                f"({min(column):.1e} to {max(column):.1e})",
                flush=True,
            )
        logarithmic(axes, r"first $\beta$", label)
        values = np.array(columns).T
        band(axes, BETAS, values, place, words, marker="os"[place])


@style()
def draw(
    path: str, sizes: list[tuple[str, int]], seeds: int, jobs: int
) -> None:
    """Figure 3: the feasibility against the first beta."""
    every = [
        Runs(
            data,
            "as-printed",
            do.JADMM(penalty=beta, schedule=schedule),
            iterations,
            seeds,
        )
        for data, iterations in sizes
        for schedule in SCHEDULES
        for beta in BETAS
    ]
    found = mapped(ends, every, jobs)
    width = min(7.16, 1.2 + 2.3 * len(sizes))
    figure, axes = panels(1, len(sizes), (width, 2.4))
    label = r"$\frac{1}{n^2}\sum_{ij}|x^\top J x - J|_{ij}$"
    for axis, (data, iterations) in zip(axes[0], sizes, strict=True):
        draw_panel(axis, data, found, seeds, label * (axis is axes[0][0]))
        axis.set_title(f"{data}, {iterations} iterations")
    legend_below(figure, axes[0], 2)
    publish(
        figure,
        path,
        f"""ADMM on the printed hyperbolic eigenvalue problem: infeasibility
        after the last iteration against the first beta, constant and doubled
        every five iterations up to 1e9. Medians and ranges of {seeds} seeds
        from 0 on; {DIVERGED:g} stands for a run that diverged. Made by
        examples/j_orthogonal/table3.py.""",
    )


def table(sizes: list[tuple[str, int]], seeds: int, jobs: int) -> None:
    """Print table 3."""
    forms = ("as-printed", "well-posed")
    every = [
        Runs(data, form, method, iterations, seeds)
        for data, iterations in sizes
        for method in METHODS.values()
        for form in forms
    ]
    found = mapped(ends, every, jobs)
    for data, iterations in sizes:
        settings = settings_of(data, "as-printed", None, 0.0)
        starts = [start_value(settings, seed) for seed in range(seeds)]
        start = 0.5 * statistics.median(starts)
        print(
            f"{data}, {iterations} iterations, seeds: {seeds}; half objective "
            f"of the printed form at the start {start:.3g}"
        )
        print(
            f"  {'beta':18s} {'printed form: half objective':>30s} "
            f"{'well-posed form: relative gap':>30s}"
        )
        for name in METHODS:
            cells = [cell(next(found)) for _ in forms]
            print(f"  {name:18s} {cells[0]:>30s} {cells[1]:>30s}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--data",
        nargs="+",
        default=["randn10", "randn100"],
        help="randn10 and so on, or files with a sample a row",
    )
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument(
        "--seeds", type=int, default=1, help="matrices of each size"
    )
    parser.add_argument(
        "--full", action="store_true", help="200 iterations of randn1000 too"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="cells made at the same time, each in a process of one thread",
    )
    parser.add_argument(
        "--figure",
        help="draw figure 3 to this file, which must end in .png, instead",
    )
    options = parser.parse_args()
    sizes = [(data, options.iterations) for data in options.data]
    if options.full:
        sizes.append(("randn1000", 200))
    if options.figure:
        draw(options.figure, sizes, options.seeds, options.jobs)
    else:
        table(sizes, options.seeds, options.jobs)


if __name__ == "__main__":
    main()
