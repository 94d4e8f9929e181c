"""
Paper 003: the safe step
========================

Figure 9 of paper 003: the bound of Lemma 2.4 on the safe step, the largest safe
step, and the step that the method asked for. ::

    # n = 200, p = 100, three seeds, half a minute
    python examples/generalized/figure9.py
    # n = 1000, p = 500
    python examples/generalized/figure9.py --published

Landing with Psi_B and with Psi_B^R. The steps are constant, as in the paper and
in figure 2: the best pair of a grid of steps and penalties, without safe steps.
Automatic constant steps and Barzilai-Borwein steps follow, which the largest
safe step shortens. The bound is shown with two constants: the paper's L_N of
Lemma D.1, beta_1 eps + 2 (1 + eps) kappa, and the Lipschitz constant of grad N
in the region, 2 beta_1 (2 + 3 eps). Medians and ranges over seeds.

All numbers: ``docs/papers/003.md``.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from experiment import Task, arguments, band, parallel, set_up_on, tuned
from figure2 import FACTORS

from decentorth import GeneralizedLanding
from decentorth.numerics.devices import on_host
from decentorth.records.figures import (
    COLOURS,
    DASHES,
    logarithmic,
    panels,
    style,
)
from decentorth.records.publication import legend_below, publish
from decentorth.running.history import schedule

DIRECTIONS = {r"landing, $\Psi_B$": "psi-b", r"landing, $\Psi_B^R$": "psi-br"}
EARLY = 50
WORDS = {
    "safe": "largest safe step",
    "bound": "bound of Lemma 2.4",
    "printed": "the bound with the paper's constant",
    "requested": "step asked for",
}
STEPS = {
    "tuned constant steps": None,
    "automatic constant steps": "auto",
    "Barzilai-Borwein steps": "bb",
}
COLUMNS = ("iteration", *WORDS, "left", "left_printed")
INSIDE = 1.0 + 1e-9
"""Of eps: rounding leaves no region."""


def off(manifold, x):
    """||x^T B x - I||_F."""
    return float(manifold.feasibility(x)[0])


def lemma_2_4(manifold, state, eps, constant):
    """The bound of Lemma 2.4 on the safe step, for a Lipschitz constant L_N."""
    x, field, product = (
        on_host(one)[0] for one in (state.x, state.field, state.product)
    )
    gap = x.T @ product - np.eye(x.shape[1])
    pull = float(state.penalty[0]) * 4 * np.sum((product @ gap) ** 2)
    bend = constant * np.sum(field**2)
    return float(
        (pull + np.sqrt(pull**2 + bend * max(eps**2 - np.sum(gap**2), 0.0)))
        / bend
    )


def steps(task):
    """The steps and bounds at log-spaced iterations, and whether a step as long
    as a bound leaves the region.
    """
    prepared, problem = set_up_on(task)
    manifold = problem.constraint
    states = prepared.states()
    rows = []
    eps = task.method.eps
    first = manifold.largest
    printed = first * eps + 2 * (1 + eps) * task.settings.condition
    for k in schedule(task.iterations, 80, None):
        state = next(state for state in states if state.k == k)
        bounds = [
            lemma_2_4(manifold, state, eps, constant)
            for constant in (2 * first * (2 + 3 * eps), printed)
        ]
        safe = np.nan
        left = [np.nan, np.nan]
        if off(manifold, state.x) <= eps * INSIDE:
            safe = manifold.safe_step(
                state.x, state.field, state.penalty, eps, state.product
            )[0]
            left = [
                off(manifold, state.x - bound * state.field) > eps * INSIDE
                for bound in bounds
            ]
        rows.append((k, safe, *bounds, float(state.step_size[0]), *left))
    return dict(zip(COLUMNS, np.array(rows, dtype=float).T, strict=True))


def share(values):
    """The median over seeds of the mean of the values that are numbers."""
    with np.errstate(invalid="ignore"):
        return float(np.median([np.nanmean(one) for one in values]))


def told(kind, name, runs):
    """Print how often the safe step and both bounds are the smaller ones."""
    asked = [one["requested"] for one in runs]
    safe = share(
        [
            np.where(np.isnan(one["safe"]), np.nan, step > one["safe"])
            for one, step in zip(runs, asked, strict=True)
        ]
    )
    print(
        f"{kind}, {name}: the safe step is the smaller one in {safe:.0%} of the "
        f"recorded iterations"
    )
    outside = share([np.isnan(one["safe"]).astype(float) for one in runs])
    if outside:
        print(f"    points are outside the region in {outside:.0%}")
    for words, left, constant in (
        ("bound", "left", "the true L_N"),
        ("printed", "left_printed", "the printed L_N"),
    ):
        parts = [
            share(
                [
                    (one[words] < step)[chosen(one["iteration"])]
                    for one, step in zip(runs, asked, strict=True)
                ]
            )
            for chosen in (
                lambda k: k >= 0,
                lambda k: k <= EARLY,
                lambda k: k > EARLY,
            )
        ]
        gone = share([one[left] for one in runs])
        print(
            f"    the bound of Lemma 2.4 with {constant} in {parts[0]:.0%}, up "
            f"to iteration {EARLY} in {parts[1]:.0%}, then in {parts[2]:.0%}; a "
            f"step as long leaves the region in {gone:.0%}"
        )


@style()
def main() -> None:
    given = arguments(str(__doc__), "figure9.png", 300)
    keys = [
        (name, kind, seed)
        for seed, name, kind in product(range(given.seeds), DIRECTIONS, STEPS)
    ]
    constant = {
        name: GeneralizedLanding(direction=direction, safe=False)
        for name, direction in DIRECTIONS.items()
    }
    best = tuned(given, constant, FACTORS)
    methods = {
        (name, kind): best[name]
        if step is None
        else GeneralizedLanding(direction=DIRECTIONS[name], step_size=step)
        for name in DIRECTIONS
        for kind, step in STEPS.items()
    }
    tasks = [
        Task(
            given.settings,
            methods[name, kind],
            seed,
            given.iterations,
            given.device,
        )
        for name, kind, seed in keys
    ]
    found = dict(
        zip(keys, parallel(steps, tasks, given.jobs, len(methods)), strict=True)
    )
    figure, (axes,) = panels(1, len(STEPS), (7.16, 3.0), sharey=True)
    for panel, kind in zip(axes, STEPS, strict=True):
        for place, name in enumerate(DIRECTIONS):
            runs = [found[name, kind, seed] for seed in range(given.seeds)]
            for look, words in enumerate(WORDS):
                looks = {"color": COLOURS[2 * place], "linestyle": DASHES[look]}
                band(
                    panel,
                    runs,
                    "iteration",
                    words,
                    0,
                    f"{name}: {WORDS[words]}",
                    **looks,
                )
            told(kind, name, runs)
        logarithmic(panel, "iteration", "step size" * (panel is axes[0]))
        panel.set_title(kind)
    legend_below(figure, axes[:1], 2)
    publish(
        figure,
        given.figure,
        f"""The largest safe step, the bound of Lemma 2.4 on it with the true
        Lipschitz constant of grad N and with the paper's, and the step that the
        method asked for, on the generalized eigenvalue problem, n =
        {given.dimension}, p = {given.rank}, condition 100, {given.iterations}
        iterations. Medians and ranges of {given.seeds} seeds from 0 on. Made by
        examples/generalized/figure9.py.""",
    )


if __name__ == "__main__":
    main()
