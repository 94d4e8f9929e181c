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
from decentorth.records.figures import (
    COLOURS,
    DASHES,
    logarithmic,
    panels,
    style,
)
from decentorth.records.publication import legend_below, publish

EPS, START = 0.9, 0.8


@style()
def main(path="safe_steps.png", iterations=2000):
    problem = do.solve(
        do.problems.CCASettings().problem(1, 0), do.RGD(), iterations=0
    ).problem
    constraint = problem.constraint
    x0 = problem.start(0)
    x0 *= np.sqrt(
        1 + START / np.sqrt(2 * x0.shape[1])
    )  # X^T B X = I of both views times 1 + START / sqrt(2 p)
    figure, ((above,), (below,)) = panels(2, 1, (3.5, 4.4), sharex=True)
    logarithmic(above, "", "step")
    logarithmic(below, "iteration", r"$\|X^\top B X - I\|_F$")
    for colour, direction in enumerate(("psi-b", "psi-br")):
        bounds = []
        wanted = []
        infeasible = []
        for state in do.iterate(
            problem, do.GeneralizedLanding(direction=direction), x0=x0
        ):
            bounds.append(
                constraint.safe_step(
                    state.x, state.field, state.penalty, EPS, state.product
                )[0]
            )
            wanted.append(state.step_size[0])
            infeasible.append(constraint.feasibility(state.x)[0])
            if state.k == iterations:
                break
        k = 1 + np.arange(iterations + 1)
        looks = {"color": COLOURS[2 * colour], "linewidth": 1.2}
        above.plot(
            k,
            bounds,
            label=f"{direction}: safe step",
            linestyle=DASHES[2 * colour],
            **looks,
        )
        above.plot(
            k,
            wanted,
            label=f"{direction}: automatic step",
            linestyle=DASHES[2 * colour + 1],
            **looks,
        )
        below.plot(k, infeasible, linestyle=DASHES[2 * colour], **looks)
        restricted = sum(
            bound < step for bound, step in zip(bounds, wanted, strict=True)
        )
        print(
            f"{direction}: automatic step {wanted[0]:.2e}; safe steps "
            f"{min(bounds):.2e} to {max(bounds):.2e}, shorter than that in "
            f"{restricted} of {len(bounds)} iterations; infeasibility at most "
            f"{max(infeasible):.2f}"
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
