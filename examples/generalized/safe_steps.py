"""
How small are safe steps on CCA?
================================

Safe steps on CCA, beside Figure 9 of paper 003: the largest step that stays in
the region, along two landing methods. ::

    # 2000 iterations
    python examples/generalized/safe_steps.py safe_steps.png
    python examples/generalized/safe_steps.py safe_steps.png 200

Halves of the digits, p = 5, automatic steps, from a start with ||X^T B X -
I||_F = 0.8, eps = 0.9. Steps below the line keep the infeasibility below eps;
the dashed line is the automatic step, of which no more than the safe one is
taken. The lower panel is the infeasibility itself. Without the bound the
direction psi-br leaves the region in the first iterations, and diverges.

Explained in ``docs/generalized.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import sys

import numpy as np

import decentorth as do
from decentorth.figures import (
    COLOURS,
    DASHES,
    legend_below,
    logarithmic,
    panels,
    publish,
    style,
)

EPS = 0.9
START = 0.8


def followed(problem, direction, x0, iterations):
    """For each iteration the largest safe step, the step that the method asks
    for, and the infeasibility.
    """
    constraint = problem.constraint
    rows = []
    method = do.GeneralizedLanding(direction=direction)
    for state in do.iterate(problem, method, x0=x0):
        safe = constraint.safe_step(
            state.x, state.field, state.penalty, EPS, state.product
        )
        infeasible = constraint.feasibility(state.x)
        rows.append((safe[0], state.step_size[0], infeasible[0]))
        if state.k == iterations:
            return np.array(rows).T


@style()
def main(path="safe_steps.png", iterations=2000):
    problem = do.solve(
        do.problems.CCASettings().problem(1, 0), do.RGD(), iterations=0
    ).problem
    x0 = problem.start(0)
    # X^T B X = I of both views times 1 + START / sqrt(2 p)
    x0 *= np.sqrt(1 + START / np.sqrt(2 * x0.shape[1]))
    figure, ((above,), (below,)) = panels(2, 1, (3.5, 4.4), sharex=True)
    logarithmic(above, "", "step")
    logarithmic(below, "iteration", r"$\|X^\top B X - I\|_F$")
    k = 1 + np.arange(iterations + 1)
    for place, direction in enumerate(("psi-b", "psi-br")):
        bounds, wanted, infeasible = followed(
            problem, direction, x0, iterations
        )
        looks = {"color": COLOURS[2 * place], "linewidth": 1.2}
        solid = DASHES[2 * place]
        dashed = DASHES[2 * place + 1]
        label = f"{direction}: safe step"
        above.plot(k, bounds, label=label, linestyle=solid, **looks)
        label = f"{direction}: automatic step"
        above.plot(k, wanted, label=label, linestyle=dashed, **looks)
        below.plot(k, infeasible, linestyle=solid, **looks)
        print(
            f"{direction}: automatic step {wanted[0]:.2e}; safe steps "
            f"{min(bounds):.2e} to {max(bounds):.2e}, shorter than that in "
            f"{np.sum(bounds < wanted)} of {len(bounds)} iterations; "
            f"infeasibility at most {max(infeasible):.2f}"
        )
    below.axhline(EPS, color="black", linestyle=":", linewidth=0.8)
    legend_below(figure, [above], 1)
    publish(
        figure,
        path,
        f"""The largest safe step and the automatic step along landing on the
        canonical correlations of the halves of the digits, p = 5, eps = {EPS},
        from a start with ||X^T B X - I||_F = {START}: {iterations} iterations,
        one run of each direction. Below: the infeasibility, and eps (dotted).
        Made by examples/generalized/safe_steps.py.""",
    )


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
