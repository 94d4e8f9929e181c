"""
Figure 1 of paper 004, both readings
====================================

DRFGT, DRGTA and DESTINY on the Procrustes problem of paper 004, Section V, with
ten seeds. ::

    # 500 rows at each agent, steps about 2e-4
    python examples/figure1.py figure1.png
    # 10 rows, steps about 1e-2
    python examples/figure1.py figure1.png --rows 10
    python examples/figure1.py figure1.png --seeds 2 --iterations 300

The paper says "m = 500 total data entries" and "alpha = 1/(10 m) = 1e-2". With
m = 500 rows of 50 numbers 1/(10 m) is 2e-4. With 500 numbers an agent has 10
rows, and 1/(10 m) is 1e-2 for m = 10 rows. The penalty is 0.1 / step.

As published, DRFGT and DRGTA have the step alpha, and DESTINY half of it. Then
each method has its best step of a grid of factors of alpha: the one with the
smallest median gradient norm in the end, over the seeds and without a
divergence. Slopes are fitted to the curves themselves over the last decade and
a half; a running mean of squares would have the slope -1 for any curve that
falls fast enough.

All numbers: ``docs/papers/004.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product

import numpy as np

import decentorth as do
import topologies as tp
from decentorth.figures import band, logarithmic, panels, publish, style

ALPHA = {500: 2e-4, 10: 1e-2}
"""The published step of each reading, by the rows of an agent."""
FACTORS = {
    500: (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0),
    10: (0.125, 0.25, 2.0**-1.5, 0.5, 2.0**-0.5, 1.0, 2.0**0.5, 2.0),
}
"""The factors of that step which are tried."""
PUBLISHED = {"DRFGT": 1.0, "DRGTA": 1.0, "DESTINY": 0.5}
"""The factors of the published step; the paper says that DESTINY's is reduced,
and not by how much.
"""
PANELS = {
    "local_gradient_sum": r"$\sum_i \|\mathrm{grad} f_i(x_i)\|_F$",
    "gradient_norm": r"$\|\mathrm{grad} f(\hat x)\|_F$",
    "consensus_error": r"$\sum_i \|x_i - \bar x\|_F$",
    "distance_to_manifold": r"$\sum_i \|x_i - \mathrm{polar}(x_i)\|_F$",
}
W = tp.uniform_weights(tp.ring(10), self_weight=0.8)


def method(name, step, alpha):
    """A method with a step; the penalty of DRFGT is 0.1 / step, that of DESTINY
    0.1 / alpha.
    """
    if name == "DRFGT":
        return do.DRFGT(step_size=step, order="combine-then-adapt")
    if name == "DRGTA":
        return do.DRGTA(step_size=step)
    return do.DESTINY(
        step_size=step, penalty=0.1 / alpha, order="combine-then-adapt"
    )


def curves(task):
    """The history of one run as plain arrays; None if it diverged."""
    rows, name, factor, seed, iterations = task
    alpha = ALPHA[rows]
    problem = do.problems.ProcrustesSettings(rows=rows).problem(10, seed)
    made = method(name, factor * alpha, alpha)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "diverged")  # counted below
        result = do.solve(
            problem,
            made,
            W,
            seed=seed,
            iterations=iterations,
            rows=120,
            comm="serial",
        )
    if result.status == "diverged":
        return None
    return {column: result.history[column] for column in ("iteration", *PANELS)}


def slope(iteration, values):
    """The fitted exponent of values ~ iteration^slope over the last decade and
    a half.
    """
    late = iteration >= iteration[-1] / 30
    return np.polyfit(
        np.log(iteration[late]), np.log(np.maximum(values[late], 1e-300)), 1
    )[0]


def best_factor(runs):
    """The factor with the least median gradient norm in the end, of those
    without a divergence.
    """
    whole = {factor: kept for factor, kept in runs.items() if None not in kept}
    return min(
        whole,
        key=lambda factor: np.median(
            [run["gradient_norm"][-1] for run in whole[factor]]
        ),
    )


def summarise(name, factor, kept, alpha):
    """Print the ends and the slopes of a method's curves; return its final
    gradient norms, infinite where it diverged.
    """
    whole = [run for run in kept if run is not None]
    print(
        f"{name}, step {factor * alpha:.3g}: {len(kept) - len(whole)} of "
        f"{len(kept)} seeds diverged"
    )
    for metric in PANELS:
        if not whole:
            break
        values = np.array([run[metric][1:] for run in whole])
        last = values[:, -1]
        median = np.median(values, axis=0)
        fitted = ""
        if median[-1] > 1e-10:
            slopes = [slope(whole[0]["iteration"][1:], one) for one in values]
            ends = f"({min(slopes):.2f} to {max(slopes):.2f})"
            fitted = f", slope {np.median(slopes):.2f} {ends}"
        print(
            f"  {metric:22s} {np.median(last):.2e} ({last.min():.2e} to "
            f"{last.max():.2e}){fitted}"
        )
    return [np.inf if run is None else run["gradient_norm"][-1] for run in kept]


def ranks(finals):
    """Print how often each order of the final gradient norms occurs."""
    seeds = len(finals["DRFGT"])
    order = [
        " < ".join(sorted(finals, key=lambda name: finals[name][seed]))
        for seed in range(seeds)
    ]
    for one in sorted(set(order), key=order.count, reverse=True):
        print(f"final gradient norm {one}: {order.count(one)} of {seeds} seeds")


def draw(axes, title, chosen, alpha):
    """A row of panels: medians and ranges over seeds that did not diverge."""
    for place, (name, (factor, kept)) in enumerate(chosen.items()):
        whole = [run for run in kept if run is not None]
        for axis, metric in zip(axes, PANELS, strict=True):
            if not whole:
                continue
            iteration = whole[0]["iteration"][1:]
            values = np.array([run[metric][1:] for run in whole])
            band(
                axis,
                iteration,
                values,
                place,
                f"{name}, {factor * alpha:.3g}",
                linewidth=1.2,
            )
    for axis, label in zip(axes, PANELS.values(), strict=True):
        logarithmic(axis, "iteration", label)
    axes[0].set_yscale("linear")
    axes[0].set_title(title, loc="left")
    axes[3].set_ylim(bottom=1e-14)
    axes[1].legend(title="method, step", loc="lower left")


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", nargs="?", default="figure1.png")
    parser.add_argument(
        "--rows",
        type=int,
        choices=tuple(ALPHA),
        default=500,
        help="rows of an agent's data",
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=3000)
    return parser.parse_args()


def runs_of(given):
    """For each method and factor the curves of all seeds."""
    factors = FACTORS[given.rows]
    seeds = range(given.seeds)
    tasks = product(
        (given.rows,), PUBLISHED, factors, seeds, (given.iterations,)
    )
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(curves, list(tasks))
        return {
            name: {factor: [next(found) for _ in seeds] for factor in factors}
            for name in PUBLISHED
        }


@style()
def main():
    given = arguments()
    alpha = ALPHA[given.rows]
    runs = runs_of(given)
    for name, of in runs.items():
        lost = [
            f"{factor * alpha:.3g}"
            for factor, kept in of.items()
            if None in kept
        ]
        print(
            f"{name}: steps that diverged on some seed: "
            f"{', '.join(lost) or 'none'}"
        )
    figure, grid = panels(4, 2, (7.16, 8.4))
    rows = ([*grid[0], *grid[1]], [*grid[2], *grid[3]])
    tuned = {name: best_factor(of) for name, of in runs.items()}
    choices = {"steps as published": PUBLISHED, "best steps": tuned}
    for axes, (title, factors) in zip(rows, choices.items(), strict=True):
        print(f"{given.rows} rows, {title}")
        chosen = {
            name: (factor, runs[name][factor])
            for name, factor in factors.items()
        }
        ranks(
            {
                name: summarise(name, factor, kept, alpha)
                for name, (factor, kept) in chosen.items()
            }
        )
        draw(axes, title, chosen, alpha)
    if given.seeds < 5:
        print(
            "too few seeds to decide the order of the methods: use --seeds 10"
        )
    publish(
        figure,
        given.figure,
        f"""DRFGT, DRGTA and DESTINY on the Procrustes problem of paper 004,
        Section V: 10 agents on a ring, {given.rows} rows each,
        {given.iterations} iterations. Medians and ranges of {given.seeds} seeds
        from 0 on, without those that diverged. Made by examples/figure1.py.""",
    )


if __name__ == "__main__":
    main()
