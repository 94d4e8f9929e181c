"""
Paper 003: step size and penalty
================================

Figures 8 and 10 of paper 003: how much the step size and the penalty matter,
landing with Psi_B against PLAM. ::

    # n = 100, p = 50, three seeds, half a minute
    python examples/generalized/figure8.py
    # n = 1000, p = 500
    python examples/generalized/figure8.py --published

Every pair of multiples of a base step size and a base penalty, constant steps.
The base is the best pair of a grid about the automatic step and penalty, on a
seed of its own, with the same budget for both methods: both are perturbed about
their best. Prints how many pairs diverge on some seed, and how many bring all
seeds below the same gap for both methods: ten times the larger of their two
best gaps. Left, the relative gap after the last iteration, the median over
seeds, and whether any seed diverged; right, as in Figure 8, the gap along the
way, a curve for each pair of the paper's multiples; below, as in Figure 10, the
distance of landing from the set. Landing takes its steps as they are given
(``safe=False``), as the paper's do.

All numbers: ``docs/papers/003.md``.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from experiment import TUNING_SEED, Task, arguments, band, last, parallel, run
from matplotlib.colors import LogNorm

from decentorth import PLAM, GeneralizedLanding
from decentorth.figures import (
    COLOURS,
    DASHES,
    logarithmic,
    panels,
    publish,
    style,
)

METHODS = {r"landing, $\Psi_B$": GeneralizedLanding(safe=False), "PLAM": PLAM()}
LETTERS = {r"landing, $\Psi_B$": r"$\omega$", "PLAM": r"$\beta$"}
TRIED = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
"""Multiples of the automatic step, and of the penalty beside it, out of which
the base is taken.
"""
WIDE = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
NEAR = (0.25, 0.75, 1.25, 1.75)
"""The paper's."""


def base(given, method):
    """The method with the best pair, which is told."""
    settings = given.settings
    iterations = given.iterations
    device = given.device
    own = parallel(run, [Task(settings, method, TUNING_SEED, 0)], given.jobs)[0]
    pairs = list(
        product(
            [c * own["step_size"] for c in TRIED],
            [c * own["penalty"] for c in (0.1, 1.0, 10.0)],
        )
    )
    tried = [
        replace(method, step_size=step, penalty=penalty)
        for step, penalty in pairs
    ]
    tasks = [
        Task(settings, one, TUNING_SEED, iterations, device) for one in tried
    ]
    gaps = dict(
        zip(pairs, map(last, parallel(run, tasks, given.jobs)), strict=True)
    )
    step, penalty = min(pairs, key=lambda pair: gaps[pair])
    print(
        f"{type(method).__name__}: base step {step:.3g}, penalty "
        f"{penalty:.3g}, gap {gaps[step, penalty]:.1e} after {iterations}"
    )
    return replace(method, step_size=step, penalty=penalty)


def perturbed(method, factors):
    """The method with multiples of its step and its penalty."""
    return replace(
        method,
        step_size=factors[0] * method.step_size,
        penalty=factors[1] * method.penalty,
    )


class Table(NamedTuple):
    """What a method reaches with each pair of `WIDE`, penalties by rows."""

    gaps: np.ndarray
    """The median over seeds of the gap in the end."""
    failed: np.ndarray
    """The number of seeds that diverged."""

    @property
    def trusted(self) -> np.ndarray:
        """The gaps, infinite where a seed diverged."""
        whole = np.isfinite(self.gaps) & (self.failed == 0)
        return np.where(whole, self.gaps, np.inf)


def table_of(found):
    """The table of a method's runs by pairs."""
    gaps = np.empty((len(WIDE), len(WIDE)))
    failed = np.empty(gaps.shape, dtype=int)
    for i, penalty in enumerate(WIDE):
        for j, step in enumerate(WIDE):
            ends = [last(one) for one in found[step, penalty]]
            gaps[i, j] = np.median(ends)
            failed[i, j] = np.isinf(ends).sum()
    return Table(gaps, failed)


def report(name, table):
    """Print how many pairs diverge, and the best pair."""
    best = table.trusted
    b, a = np.unravel_index(best.argmin(), best.shape)
    print(
        f"{name}: {np.count_nonzero(table.failed)} of {best.size} pairs "
        f"diverged on some seed"
    )
    print(
        f"{name}: gap {table.gaps[b, a]:.1e} at {WIDE[a]:g} times the base "
        f"step and {WIDE[b]:g} times the penalty is the best"
    )


def draw_row(axes, name, table, found, given):
    """The table of a method on the left, its curves on the right."""
    left, right = axes
    heat(left, table.gaps, table.failed, given.seeds)
    left.set_title(f"{name}: gap after {given.iterations} iterations")
    left.set_xlabel(r"$\eta$ / base", fontsize=8)
    left.set_ylabel(f"{LETTERS[name]} / base", fontsize=8)
    colorbar = left.figure.colorbar(left.images[0], ax=left)
    colorbar.ax.tick_params(labelsize=7)
    for pair in product(NEAR, NEAR):
        looks = {
            "color": COLOURS[NEAR.index(pair[0])],
            "linestyle": DASHES[NEAR.index(pair[1])],
        }
        band(right, found[pair], "iteration", "gap", 0, "_", **looks)
    logarithmic(right, "iteration", "relative gap")
    right.set_ylim(table.gaps[np.isfinite(table.gaps)].min() / 3, 2.0)
    right.set_title(f"{name}: the paper's multiples")


def draw_legend(axes):
    """The colours of steps and the dashes of penalties."""
    for factor, colour in zip(NEAR, COLOURS, strict=False):
        axes.plot([], [], color=colour, label=rf"$\eta$ x {factor:g}")
    for factor, dashes in zip(NEAR, DASHES, strict=False):
        label = rf"penalty x {factor:g}"
        axes.plot([], [], color="0.5", linestyle=dashes, label=label)
    axes.legend(ncols=2, loc="lower left")


def draw_feasibility(figure, found):
    """As in Figure 10: the distance of landing from the set, a panel for each
    step.
    """
    shown = [factor for factor in WIDE if factor != 1.0]
    axes = figure.subplots(1, len(shown), sharey=True, sharex=True)
    for panel, step in zip(axes, shown, strict=True):
        for place, penalty in enumerate(shown):
            runs = found[step, penalty]
            label = rf"$\omega$ x {penalty:g}"
            band(panel, runs, "iteration", "feasibility", place, label)
        logarithmic(
            panel,
            "iteration",
            r"landing: $\|x^\top B x - I\|_F$" if step == shown[0] else "",
        )
        panel.set_title(rf"$\eta$ x {step:g}")
        panel.set_ylim(1e-5, 1e2)
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(shown),
    )


def runs_of(given):
    """For each method the runs of all seeds, by pairs of multiples."""
    pairs = list(dict.fromkeys([*product(WIDE, WIDE), *product(NEAR, NEAR)]))
    bases = {name: base(given, method) for name, method in METHODS.items()}
    keys = list(product(METHODS, pairs))
    tasks = [
        Task(
            given.settings,
            perturbed(bases[name], pair),
            seed,
            given.iterations,
            given.device,
        )
        for seed in range(given.seeds)
        for name, pair in keys
    ]
    runs = parallel(run, tasks, given.jobs, len(pairs))
    found = {name: {} for name in METHODS}
    for number, (name, pair) in enumerate(keys):
        found[name][pair] = runs[number :: len(keys)]
    return found


@style()
def main() -> None:
    given = arguments(str(__doc__), "figure8.png", 300, dimension=100, rank=50)
    found = runs_of(given)
    figure, ((spare,),) = panels(1, 1, (7.16, 7.4))
    spare.remove()
    upper, lower = figure.subfigures(2, 1, height_ratios=(2.2, 1))
    grid = upper.subplots(2, 2, width_ratios=(1, 1.5))
    tables = {name: table_of(runs) for name, runs in found.items()}
    for (name, table), axes in zip(tables.items(), grid, strict=True):
        draw_row(axes, name, table, found[name], given)
        report(name, table)
    goal = 10 * max(table.trusted.min() for table in tables.values())
    for name, table in tables.items():
        reached = np.count_nonzero(table.trusted <= goal)
        print(
            f"{name}: {reached} of {table.gaps.size} pairs reach a gap of "
            f"{goal:.1e}"
        )
    draw_legend(grid[0, 1])
    draw_feasibility(lower, found[next(iter(METHODS))])
    publish(
        figure,
        given.figure,
        f"""Landing with Psi_B and PLAM for multiples of their best step and
        penalty, on the generalized eigenvalue problem, n = {given.dimension}, p
        = {given.rank}, condition 100, {given.iterations} iterations. Left: the
        median gap over {given.seeds} seeds from 0 on, and the share of seeds
        that diverged. Right and below: medians and ranges. Made by
        examples/generalized/figure8.py.""",
    )


def heat(axes, values, failed, seeds) -> None:
    """A grid of gaps, with the number of seeds that diverged."""
    finite = values[np.isfinite(values)]
    axes.imshow(
        values,
        origin="lower",
        norm=LogNorm(finite.min(), max(1.0, finite.max())),
        cmap="viridis_r",
        aspect="auto",
    )
    axes.grid(False)
    axes.set_xticks(
        range(len(WIDE)), [f"{factor:g}" for factor in WIDE], fontsize=7
    )
    axes.set_yticks(
        range(len(WIDE)), [f"{factor:g}" for factor in WIDE], fontsize=7
    )
    for row, column in zip(*np.nonzero(failed), strict=True):
        axes.text(
            column,
            row,
            f"{failed[row, column]}/{seeds}",
            ha="center",
            va="center",
            fontsize=6,
            color="0.2",
        )


if __name__ == "__main__":
    main()
