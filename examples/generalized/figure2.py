"""
Paper 003: the eigenvalue problem
=================================

Figures 2 and 5 of paper 003: the generalized eigenvalue problem, gap and
feasibility against time and iterations. ::

    # n = 200, p = 100, three seeds, half a minute
    python examples/generalized/figure2.py
    # n = 1000, p = 500
    python examples/generalized/figure2.py --published

Upper row: constant steps, as in the paper and without safe steps, which the
paper does not take; each method has the best pair of a grid of steps and
penalties about its automatic ones. Lower row: alternating Barzilai-Borwein
steps, with safe ones for landing. Medians and ranges over seeds; the vertical
line is the time in which scipy.linalg.eigh has the answer to the last digit.
Seconds are of the processor, for the iterations alone. The steps that appendix
B prints diverge: tests/lab/theory/test_generalized_landing.py.

All numbers: ``docs/papers/003.md``.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import scipy.linalg
from experiment import (
    arguments,
    band,
    last,
    parallel,
    run,
    task_of,
    tuned,
    where,
)

from decentorth import PLAM, RGD, GeneralizedLanding
from decentorth.figures import legend_below, logarithmic, panels, publish, style
from decentorth.problems import pencil

METHODS = {
    r"landing, $\Psi_B$": GeneralizedLanding(safe=False),
    r"landing, $\Psi_B^R$": GeneralizedLanding(direction="psi-br", safe=False),
    "RGD, Cholesky-QR, natural metric": RGD(retraction="cholesky-qr"),
    "RGD, Cholesky-QR, Euclidean metric": RGD(
        retraction="cholesky-qr", metric="euclidean"
    ),
    "PLAM": PLAM(),
}
FACTORS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
GAPS = (1e-2, 1e-3)
"""The gaps for which seconds are printed."""
PANELS = (
    ("seconds", "gap", "seconds", r"relative gap $(f(\hat x) - f^*) / |f^*|$"),
    ("iteration", "gap", "iteration", ""),
    ("seconds", "feasibility", "seconds", r"$\|x^\top B x - I\|_F$"),
)


def barzilai_borwein(method):
    """The method with Barzilai-Borwein steps, which landing needs safe steps
    for.
    """
    if isinstance(method, GeneralizedLanding):
        return replace(method, step_size="bb", safe="auto")
    return replace(method, step_size="bb")


def reached(runs, goal):
    """The median second at which the gap is below the goal, or a dash."""
    seconds = [one["seconds"][one["gap"] <= goal][:1] for one in runs]
    if not all(len(one) for one in seconds):
        return "-"
    return f"{statistics.median(float(one[0]) for one in seconds):.2f} s"


def seconds_of_eigh(n, p, condition):
    """The median second in which scipy.linalg.eigh has the answer."""
    A, B = pencil(n, condition, 0)
    times = []
    for _ in range(3):
        begun = time.process_time()
        scipy.linalg.eigh(A, B, subset_by_index=[n - p, n - 1])
        times.append(time.process_time() - begun)
    return statistics.median(times)


def draw(axes, row, runs):
    """The curves of a row of panels, and a line of print for each method."""
    for place, (name, own) in enumerate(runs.items()):
        for panel, (x, y, _, _) in zip(axes, PANELS, strict=True):
            band(panel, own, x, y, place, name)
        ends = sorted(map(last, own))
        times = ", ".join(f"{goal:g} at {reached(own, goal)}" for goal in GAPS)
        spent = statistics.median(one["seconds"][-1] for one in own)
        print(
            f"{row}, {name}: gap {statistics.median(ends):.1e} "
            f"({ends[0]:.1e} to {ends[-1]:.1e}) in {spent:.2f} s; {times}"
        )
    axes[0].set_title(row, loc="left")


def finish(axes, eigh, lowest):
    """Labels and limits of a row of panels, and the time of eigh."""
    for panel, (x, y, across, up) in zip(axes, PANELS, strict=True):
        logarithmic(panel, across if lowest else "", up)
        if x == "seconds":
            panel.axvline(
                eigh, color="0.4", linewidth=0.8, linestyle=(0, (4, 2))
            )
            panel.annotate(
                "eigh",
                (eigh, 0.03),
                xycoords=("data", "axes fraction"),
                fontsize=7,
                color="0.4",
                rotation=90,
                ha="right",
            )
        panel.set_ylim(*((1e-9, 2.0) if y == "gap" else (1e-15, 1e3)))


@style()
def main() -> None:
    given = arguments(str(__doc__), "figure2.png", 300)
    n = given.dimension
    p = given.rank
    condition = given.settings.condition
    rows = {
        "constant steps, tuned": tuned(given, METHODS, FACTORS),
        "Barzilai-Borwein steps": {
            name: barzilai_borwein(method) for name, method in METHODS.items()
        },
    }
    keys = [(row, name) for row, methods in rows.items() for name in methods]
    tasks = [
        task_of(given, rows[row][name], seed)
        for seed in range(given.seeds)
        for row, name in keys
    ]
    jobs = given.jobs if given.device is None else 1
    found = parallel(run, tasks, jobs, len(keys))
    eigh = seconds_of_eigh(n, p, condition)
    print(f"scipy.linalg.eigh: {eigh:.3g} s")
    figure, grid = panels(2, 3, (7.16, 5.0), sharex="col", sharey="col")
    for (row, methods), axes in zip(rows.items(), grid, strict=True):
        runs = {
            name: found[keys.index((row, name)) :: len(keys)]
            for name in methods
        }
        draw(axes, row, runs)
        finish(axes, eigh, axes is grid[-1])
    legend_below(figure, grid[0][:1], 2)
    publish(
        figure,
        given.figure,
        f"""The generalized eigenvalue problem, n = {n}, p = {p}, condition
        {condition:g}, {given.iterations} iterations: constant steps
        (tuned, without safe steps) above, Barzilai-Borwein steps below. Medians
        and ranges of {given.seeds} seeds from 0 on. {where(given.device)}; the
        vertical line is scipy.linalg.eigh on one thread. Made by
        examples/generalized/figure2.py.""",
    )


if __name__ == "__main__":
    main()
