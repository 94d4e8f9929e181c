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

import numpy as np
from experiment import (
    Task,
    arguments,
    band,
    marks,
    parallel,
    solved,
    states_of,
    tuned,
)
from figure2 import FACTORS

from decentorth import GeneralizedLanding
from decentorth.authoring import on_host
from decentorth.figures import (
    COLOURS,
    DASHES,
    legend_below,
    logarithmic,
    panels,
    publish,
    style,
)

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
    x = state.x[0]
    field = state.field[0]
    product = state.product[0]
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
    manifold = solved(task.settings, task.seed).constraint
    states = states_of(task)
    rows = []
    eps = task.method.eps
    first = manifold.largest
    printed = first * eps + 2 * (1 + eps) * task.settings.condition
    constants = (2 * first * (2 + 3 * eps), printed)
    for k in marks(task.iterations, 80):
        state = next(state for state in states if state.k == k)
        state = state._replace(
            **{name: on_host(one) for name, one in state._asdict().items()}
        )
        bounds = [lemma_2_4(manifold, state, eps, one) for one in constants]
        safe = np.nan
        left = [np.nan, np.nan]
        if off(manifold, state.x) <= eps * INSIDE:
            safe = manifold.safe_step(
                state.x, state.field, state.penalty, eps, state.product
            )[0]
            ends = [state.x - bound * state.field for bound in bounds]
            left = [off(manifold, end) > eps * INSIDE for end in ends]
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


def methods_of(given):
    """Both directions with each kind of steps."""
    constant = {
        name: GeneralizedLanding(direction=direction, safe=False)
        for name, direction in DIRECTIONS.items()
    }
    best = tuned(given, constant, FACTORS)
    methods = {}
    for name, direction in DIRECTIONS.items():
        for kind, step in STEPS.items():
            methods[name, kind] = best[name]
            if step is not None:
                methods[name, kind] = GeneralizedLanding(
                    direction=direction, step_size=step
                )
    return methods


def draw(panel, kind, runs):
    """The bounds and steps of one kind, for both directions, and a line of
    print for each.
    """
    for place, name in enumerate(DIRECTIONS):
        own = runs[name, kind]
        for number, (column, words) in enumerate(WORDS.items()):
            looks = {"color": COLOURS[2 * place], "linestyle": DASHES[number]}
            label = f"{name}: {words}"
            band(panel, own, "iteration", column, 0, label, **looks)
        told(kind, name, own)
    panel.set_title(kind)


@style()
def main() -> None:
    given = arguments(str(__doc__), "figure9.png", 300)
    methods = methods_of(given)
    seeds = range(given.seeds)
    tasks = [
        Task(given.settings, method, seed, given.iterations, given.device)
        for seed in seeds
        for method in methods.values()
    ]
    found = parallel(steps, tasks, given.jobs, len(methods))
    runs = {
        key: found[number :: len(methods)] for number, key in enumerate(methods)
    }
    figure, (axes,) = panels(1, len(STEPS), (7.16, 3.0), sharey=True)
    for panel, kind in zip(axes, STEPS, strict=True):
        draw(panel, kind, runs)
        logarithmic(panel, "iteration", "step size" * (panel is axes[0]))
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
