"""
Paper 002: RSM and RSSM
=======================

Figures 1 and 2 of paper 002 (Cheung, Wang, Yue, So): RSM and RSSM with 3, 5 and
10 blocks on published problems. ::

    # robust subspaces, two seeds, under a minute
    python examples/nonsmooth/figures.py rsr figure1.png
    # dictionaries, two seeds, under a minute
    python examples/nonsmooth/figures.py odl figure2.png
    # the published ten seeds
    python examples/nonsmooth/figures.py odl figure2.png 10
    # one seed, a tenth of the iterations
    python examples/nonsmooth/figures.py rsr figure1.png 1 0.1

Error against operations and against processor time, logarithmic, medians and
ranges over the seeds. Above with the steps as printed; below with steps that
work for every number of blocks, RSM's tuned as well. Prints final errors, on
how many seeds the error came below 2e-4 and stayed there, and what that took.

All numbers: ``docs/papers/002.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

import decentorth as do
from decentorth.figures import (
    band,
    legend_below,
    logarithmic,
    panels,
    publish,
    style,
)
from decentorth.problems import ODLSettings, RSRSettings

ENOUGH = 2e-4
BLOCKS = (3, 5, 10)


def blocks(steps, partition="fixed"):
    """RSSM for each number of blocks, with the steps that a function of it
    gives.
    """
    return {
        f"RSSM, l = {count}": do.RSSM(
            blocks=count, step_size=steps(count), block_partition=partition
        )
        for count in BLOCKS
    }


def annealed(initial, power, ratio):
    """The steps of paper 002 for a number of blocks."""
    return lambda count: (
        f"annealed:initial={initial},pairs={count * (count - 1) // 2},"
        f"power={power},ratio={ratio}"
    )


TITLES = {"rsr": "robust subspaces", "odl": "dictionaries"}
PROBLEMS = {"rsr": RSRSettings(), "odl": ODLSettings()}
# for each problem and row: iterations of RSM and for l = 3, 5, 10, and the
# methods
METHODS = {
    "rsr": {
        "as printed": (
            (300, 300, 300, 300),
            {
                "RSM": do.RSM(step_size="square-summable:initial=0.9"),
                **blocks(annealed(0.9, 2.0, 0.991)),
            },
        ),
        "geometric": (
            (150, 225, 375, 750),
            {
                "RSM": do.RSM(step_size="geometric:initial=1.8,ratio=0.94"),
                **blocks(
                    lambda count: (
                        f"geometric:initial=1.8,ratio={1 - 0.12 / count:.4f}"
                    )
                ),
            },
        ),
    },
    "odl": {
        "as printed": (
            (1800, 1000, 1000, 1000),
            {
                "RSM": do.RSM(step_size="square-summable:initial=1e-3"),
                **blocks(annealed(1e-3, 4.0, 0.995)),
            },
        ),
        "geometric": (
            (200, 250, 700, 2800),
            {
                "RSM": do.RSM(step_size="geometric:initial=1e-3,ratio=0.9594"),
                **blocks(
                    lambda count: (
                        f"geometric:initial=4e-3,ratio={1 - 0.5 / count**2:.4f}"
                    ),
                    "redraw",
                ),
            },
        ),
    },
}


def curve(task):
    """Operations, processor seconds and errors of a run, log-spaced over its
    iterations.
    """
    name, row, method, seed, iterations = task
    made = METHODS[name][row][1][method]
    settings = {"seed": seed, "comm": "serial"}
    problem = do.solve(
        PROBLEMS[name].problem(1, seed), made, iterations=0, **settings
    ).problem
    due = {0, *np.unique(np.geomspace(1, iterations, 120).round().astype(int))}
    rows = []
    seconds = 0.0
    states = do.iterate(problem, made, **settings)
    for k in range(iterations + 1):
        mark = time.process_time()
        state = next(states)
        seconds += time.process_time() - mark
        if k in due:
            rows.append(
                (
                    state.flops[0],
                    seconds if k else 0.0,
                    problem.error(state.x[0]),
                )
            )
    return np.array(rows).T


def report(method, flops, seconds, errors):
    """Print the errors in the end, and what it takes to stay below `ENOUGH`."""
    needed = []
    for f, s, error in zip(flops, seconds, errors, strict=True):
        since = np.flatnonzero(np.append(True, error > ENOUGH))[-1]
        if since < len(f):
            needed.append((f[since], s[since]))
    cost = "never"
    if needed:
        cost = "flops {:.1e}, {:.2f} s".format(*np.median(needed, axis=0))
    last = errors[:, -1]
    print(
        f"  {method:13s} error {np.median(last):.1e} ({last.min():.1e} "
        f"to {last.max():.1e}); "
        f"below {ENOUGH:g} on {len(needed)} of {len(errors)} seeds: {cost}"
    )


def draw(pair, place, method, flops, seconds, errors):
    """A method's errors against operations and against time."""
    shown = np.maximum(errors[:, 1:], 1e-16)
    for axis, across in zip(pair, (flops, seconds), strict=True):
        band(axis, np.median(across, axis=0)[1:], shown, place, method)


def finish(pair, title):
    """Titles and labels of a row of panels."""
    logarithmic(pair[0], "floating-point operations", "error")
    logarithmic(pair[1], "processor seconds", "")
    for axis in pair:
        axis.set_title(title)


@style()
def main(name="rsr", path="figure.png", seeds=2, share=1.0):
    tasks = [
        (name, row, method, seed, max(2, round(iterations * share)))
        for row, (counts, methods) in METHODS[name].items()
        for (method, iterations), seed in product(
            zip(methods, counts, strict=True), range(seeds)
        )
    ]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = {
            task[:4]: result
            for task, result in zip(tasks, pool.map(curve, tasks), strict=True)
        }
    figure, axes = panels(2, 2, (7.16, 4.8), sharey=True)
    for pair, (row, (_, methods)) in zip(
        axes, METHODS[name].items(), strict=True
    ):
        print(f"{row}:")
        for place, method in enumerate(methods):
            runs = [found[name, row, method, seed] for seed in range(seeds)]
            columns = np.array(runs).transpose(1, 0, 2)
            report(method, *columns)
            draw(pair, place, method, *columns)
        finish(pair, f"{TITLES[name]}, steps {row}")
    legend_below(figure, axes[0], 4)
    publish(
        figure,
        path,
        f"""RSM and RSSM on {TITLES[name]}, {PROBLEMS[name]}: medians and ranges
        of {seeds} seeds from 0 on, {share:g} of the iterations of the paper.
        Made by examples/nonsmooth/figures.py.""",
    )
    if seeds < 3:
        print(
            "few seeds decide nothing: the order of methods is that of ten "
            "seeds"
        )


if __name__ == "__main__":
    main(*sys.argv[1:3], *map(int, sys.argv[3:4]), *map(float, sys.argv[4:5]))
