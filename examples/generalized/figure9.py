"""
Paper 003: the safe step
========================

Figure 9 of paper 003: the bound of Lemma 2.4 on the safe step, the largest safe
step, and the step that the method asked for. ::

    # n = 200, p = 100, three seeds, a few seconds
    python examples/generalized/figure9.py
    # n = 1000, p = 500
    python examples/generalized/figure9.py --published

Landing with Psi_B and with Psi_B^R, automatic constant and Barzilai-Borwein
steps; it takes the smaller one of the largest safe step and the step asked for.
The bound has L_N = 2 beta_1 (2 + 3 eps). The paper's figure has the L_N of
Lemma D.1, with which points can leave the region (docs/errata.md). Medians and
ranges over seeds.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from experiment import Task, arguments, band, parallel, set_up_on

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
    "requested": "step asked for",
}
STEPS = {"automatic constant steps": "auto", "Barzilai-Borwein steps": "bb"}


def lemma_2_4(manifold, state, eps):
    """The bound of Lemma 2.4 on the safe step."""
    x, field, product = (
        on_host(one)[0] for one in (state.x, state.field, state.product)
    )
    gap = x.T @ product - np.eye(x.shape[1])
    pull = float(state.penalty[0]) * 4 * np.sum((product @ gap) ** 2)
    bend = 2 * manifold.largest * (2 + 3 * eps) * np.sum(field**2)
    return float(
        (pull + np.sqrt(pull**2 + bend * max(eps**2 - np.sum(gap**2), 0.0)))
        / bend
    )


def steps(task):
    """The safe step, the bound on it and the requested step at log-spaced
    iterations.
    """
    prepared, problem = set_up_on(task)
    manifold, states, rows = problem.constraint, prepared.states(), []
    for k in schedule(task.iterations, 80, None):
        state = next(state for state in states if state.k == k)
        safe = manifold.safe_step(
            state.x, state.field, state.penalty, task.method.eps, state.product
        )
        rows.append(
            (
                k,
                safe[0],
                lemma_2_4(manifold, state, task.method.eps),
                float(state.step_size[0]),
            )
        )
    return dict(
        zip(
            ("iteration", "safe", "bound", "requested"),
            np.array(rows, dtype=float).T,
            strict=True,
        )
    )


@style()
def main() -> None:
    given = arguments(str(__doc__), "figure9.png", 300)
    keys = [
        (name, kind, seed)
        for seed, name, kind in product(range(given.seeds), DIRECTIONS, STEPS)
    ]
    methods = {
        (name, kind): GeneralizedLanding(
            direction=DIRECTIONS[name], step_size=STEPS[kind]
        )
        for name, kind, _ in keys
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
    figure, (axes,) = panels(1, 2, (7.16, 3.4), sharey=True)
    for panel, kind in zip(axes, STEPS, strict=True):
        for place, name in enumerate(DIRECTIONS):
            runs = [found[name, kind, seed] for seed in range(given.seeds)]
            for look, words in enumerate(("safe", "bound", "requested")):
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
            safe, bound = (
                [np.mean(one["requested"] > one[words]) for one in runs]
                for words in ("safe", "bound")
            )
            print(
                f"{kind}, {name}: the safe step is the smaller one in "
                f"{np.median(safe):.0%} of the recorded iterations"
            )
            shorter = [
                (one["iteration"] <= EARLY, one["bound"] < one["requested"])
                for one in runs
            ]
            early, late = (
                np.median(
                    [np.mean(less[part == sought]) for part, less in shorter]
                )
                for sought in (True, False)
            )
            print(
                f"    the bound of Lemma 2.4 in {np.median(bound):.0%}, up to "
                f"iteration {EARLY} in {early:.0%}, then in {late:.0%}"
            )
        logarithmic(panel, "iteration", "step size" * (panel is axes[0]))
        panel.set_title(kind)
    legend_below(figure, axes[:1], 2)
    publish(
        figure,
        given.figure,
        f"""The largest safe step, the bound of Lemma 2.4 on it with the true
        Lipschitz constant of grad N, and the step that the method asked for, on
        the generalized eigenvalue problem, n = {given.dimension}, p =
        {given.rank}, condition 100, {given.iterations} iterations. Medians and
        ranges of {given.seeds} seeds from 0 on. Made by
        examples/generalized/figure9.py.""",
    )


if __name__ == "__main__":
    main()
