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

import numpy as np
from experiment import TUNING_SEED, Task, arguments, band, last, parallel, run
from matplotlib.colors import LogNorm

from decentorth import PLAM, GeneralizedLanding
from decentorth.records.figures import (
    COLOURS,
    DASHES,
    logarithmic,
    panels,
    style,
)
from decentorth.records.publication import publish

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


@style()
def main() -> None:
    given = arguments(str(__doc__), "figure8.png", 300, dimension=100, rank=50)
    pairs = list(dict.fromkeys([*product(WIDE, WIDE), *product(NEAR, NEAR)]))
    bases = {name: base(given, method) for name, method in METHODS.items()}
    keys = [
        (name, pair, seed)
        for seed, name, pair in product(range(given.seeds), METHODS, pairs)
    ]
    tasks = [
        Task(
            given.settings,
            perturbed(bases[name], pair),
            seed,
            given.iterations,
            given.device,
        )
        for name, pair, seed in keys
    ]
    found = dict(
        zip(keys, parallel(run, tasks, given.jobs, len(pairs)), strict=True)
    )

    figure, ((spare,),) = panels(1, 1, (7.16, 7.4))
    spare.remove()
    upper, lower = figure.subfigures(2, 1, height_ratios=(2.2, 1))
    grid = upper.subplots(2, 2, width_ratios=(1, 1.5))
    bests = {}
    tables = {}
    for name, (left, right) in zip(METHODS, grid, strict=True):
        gaps = np.array(
            [
                [
                    np.median(
                        [
                            last(found[name, (a, b), s])
                            for s in range(given.seeds)
                        ]
                    )
                    for a in WIDE
                ]
                for b in WIDE
            ]
        )
        failed = np.array(
            [
                [
                    sum(
                        np.isinf(last(found[name, (a, b), s]))
                        for s in range(given.seeds)
                    )
                    for a in WIDE
                ]
                for b in WIDE
            ]
        )
        heat(left, gaps, failed, given.seeds)
        left.set_title(f"{name}: gap after {given.iterations} iterations")
        left.set_xlabel(r"$\eta$ / base", fontsize=8)
        left.set_ylabel(f"{LETTERS[name]} / base", fontsize=8)
        colorbar = upper.colorbar(left.images[0], ax=left)
        colorbar.ax.tick_params(labelsize=7)
        for pair in product(NEAR, NEAR):
            runs = [found[name, pair, seed] for seed in range(given.seeds)]
            looks = {
                "color": COLOURS[NEAR.index(pair[0])],
                "linestyle": DASHES[NEAR.index(pair[1])],
            }
            band(right, runs, "iteration", "gap", 0, "_", **looks)
        logarithmic(right, "iteration", "relative gap")
        right.set_ylim(gaps[np.isfinite(gaps)].min() / 3, 2.0)
        right.set_title(f"{name}: the paper's multiples")
        told = np.isfinite(gaps) & (failed == 0)
        b, a = np.unravel_index(
            np.where(told, gaps, np.inf).argmin(), gaps.shape
        )
        bests[name], tables[name] = gaps[b, a], np.where(told, gaps, np.inf)
        print(
            f"{name}: {np.count_nonzero(failed)} of {gaps.size} pairs diverged "
            f"on some seed"
        )
        print(
            f"{name}: gap {gaps[b, a]:.1e} at {WIDE[a]:g} times the base step "
            f"and {WIDE[b]:g} times the penalty is the best"
        )
    goal = 10 * max(bests.values())
    for name, table in tables.items():
        print(
            f"{name}: {np.count_nonzero(table <= goal)} of {table.size} pairs "
            f"reach a gap of {goal:.1e}"
        )
    for place, factor in enumerate(NEAR):
        grid[0, 1].plot(
            [], [], color=COLOURS[place], label=rf"$\eta$ x {factor:g}"
        )
    for place, factor in enumerate(NEAR):
        grid[0, 1].plot(
            [],
            [],
            color="0.5",
            linestyle=DASHES[place],
            label=rf"penalty x {factor:g}",
        )
    grid[0, 1].legend(ncols=2, loc="lower left")

    landing = next(iter(METHODS))
    shown = [factor for factor in WIDE if factor != 1.0]
    bottom = lower.subplots(1, len(shown), sharey=True, sharex=True)
    for panel, step in zip(bottom, shown, strict=True):
        for place, penalty in enumerate(shown):
            runs = [
                found[landing, (step, penalty), seed]
                for seed in range(given.seeds)
            ]
            band(
                panel,
                runs,
                "iteration",
                "feasibility",
                place,
                rf"$\omega$ x {penalty:g}",
            )
        logarithmic(
            panel,
            "iteration",
            r"landing: $\|x^\top B x - I\|_F$" if step == shown[0] else "",
        )
        panel.set_title(rf"$\eta$ x {step:g}")
        panel.set_ylim(1e-5, 1e2)
    lower.legend(
        *bottom[0].get_legend_handles_labels(),
        loc="outside lower center",
        ncols=len(shown),
    )
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
