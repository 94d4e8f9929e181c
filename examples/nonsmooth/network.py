"""
How does a network solve nonsmooth problems?
============================================

Robust subspaces and dictionaries over networks: DRSM with ten agents on a ring,
a random graph and a complete graph. ::

    # two seeds, a minute
    python examples/nonsmooth/network.py network.png
    # ten seeds
    python examples/nonsmooth/network.py network.png --full

Subspaces of dimension 3 in R^30, 500 inliers and 1000 outliers, divided evenly
or by kind, and dictionaries of order 20, 4000 samples, from random starts. Each
problem has the method's automatic steps, which are geometric, and others: for
subspaces shorter runs with steps that shrink faster, for dictionaries longer
runs with steps that shrink half as fast. Draws the worst agent's error against
iterations, medians and ranges over the seeds; prints it after the last
iteration, on how many seeds it is below 1e-6, and the last iteration in which
it was above 1: how short steps must be for dictionaries, and so how much way is
left then.

Explained in ``docs/nonsmooth.md``.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from concurrent.futures import ProcessPoolExecutor
from itertools import islice, product

import numpy as np

import decentorth as do
import topologies as tp
from decentorth.figures import band, legend_below, panels, publish, style
from decentorth.problems import ODLSettings, RSRSettings

AGENTS = 10
ENOUGH = 1e-6
GRAPHS = {
    "ring": lambda seed: tp.uniform_weights(tp.ring(AGENTS), self_weight=0.8),
    "random graph": lambda seed: tp.metropolis_weights(
        tp.erdos_renyi(AGENTS, p=0.4, seed=seed)
    ),
    "complete graph": lambda seed: tp.metropolis_weights(tp.complete(AGENTS)),
}
SUBSPACE = {"dimension": 30, "rank": 3, "inliers": 500, "outliers": 1000}


def automatic(W):
    """The method as it is."""
    return do.DRSM()


def fast(W):
    """Steps that suit agents with the same kind of data."""
    return do.DRSM(step_size="geometric:initial=0.3,ratio=0.97")


def half_as_fast(W):
    """Automatic steps whose logarithm decreases half as fast."""
    ratio = max(0.97, 1.0 - (1.0 - tp.spectrum(W).lambda_2) / 4.0)
    return do.DRSM(step_size=f"geometric:ratio={ratio**0.5:.6f}")


PROBLEMS = {  # and for each the methods: a function of W, and iterations
    "subspace": (
        RSRSettings(**SUBSPACE),
        {"automatic": (automatic, 1500), "0.3 * 0.97^k": (fast, 400)},
    ),
    "subspace, kinds apart": (
        RSRSettings(**SUBSPACE, partition="by-label"),
        {"automatic": (automatic, 1500), "0.3 * 0.97^k": (fast, 400)},
    ),
    "dictionary": (
        ODLSettings(dimension=20, samples=4000),
        {"automatic": (automatic, 1500), "half as fast": (half_as_fast, 3000)},
    ),
}


def curve(task):
    """Iterations, every fifth and the last, and the worst agent's error in
    them.
    """
    name, steps, graph, seed, share = task
    settings, methods = PROBLEMS[name]
    method, iterations = methods[steps]
    W = GRAPHS[graph](seed)
    last = max(20, round(iterations * share))
    made = method(W)
    more = {"seed": seed, "comm": "serial"}
    problem = do.solve(
        settings.problem(AGENTS, seed), made, W, iterations=0, **more
    ).problem
    rows = []
    for state in islice(do.iterate(problem, made, W, **more), last + 1):
        if state.k % 5 == 0 or state.k == last:
            rows.append((state.k, max(map(problem.error, state.x))))
    return np.array(rows).T


def report(words, k, errors):
    """Print the worst agent's error in the end, and when it was above 1."""
    final = errors[:, -1]
    above = [int(k[error > 1.0].max(initial=0.0)) for error in errors]
    print(
        f"{words}: error {np.median(final):.1e} "
        f"({final.min():.1e} to {final.max():.1e}) after "
        f"{k[-1]:.0f} iterations; below {ENOUGH:g} on "
        f"{np.sum(final < ENOUGH)} of {len(errors)} seeds; "
        f"above 1 until iteration {np.median(above):.0f} ({max(above)})"
    )


def arguments():
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", nargs="?", default="network.png")
    parser.add_argument("--full", action="store_true", help="ten seeds")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument(
        "--share", type=float, default=1.0, help="of the iterations"
    )
    return parser.parse_args()


@style()
def main():
    options = arguments()
    seeds = 10 if options.full else options.seeds
    rows = [
        (problem, steps, graph)
        for problem, (_, methods) in PROBLEMS.items()
        for steps, graph in product(methods, GRAPHS)
    ]
    tasks = [
        (*row, seed, options.share) for row, seed in product(rows, range(seeds))
    ]
    figure, axes = panels(1, len(PROBLEMS), (7.16, 3.2), sharey=True)
    shown = dict(zip(PROBLEMS, axes[0], strict=True))
    places = dict.fromkeys(PROBLEMS, 0)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(curve, tasks)
        for problem, steps, graph in rows:
            runs = np.array([next(found) for _ in range(seeds)])
            k = runs[0, 0]
            errors = np.maximum(runs[:, 1], 1e-16)
            report(f"{problem}, {graph}, steps {steps}", k, errors)
            shown[problem].set_yscale("log")
            label = f"{graph}, {steps}"
            band(shown[problem], k, errors, places[problem], label)
            places[problem] += 1
    for problem, panel in shown.items():
        panel.set(title=problem, xlabel="iteration")
    axes[0][0].set_ylabel("error of the worst agent")
    legend_below(figure, axes[0], 3)
    publish(
        figure,
        options.figure,
        f"""DRSM on networks of {AGENTS} agents: medians and ranges of {seeds}
        seeds from 0 on, {options.share:g} of the iterations. Made by
        examples/nonsmooth/network.py.""",
    )
    if seeds < 3:
        print("few seeds decide nothing: the order is that of --full")


if __name__ == "__main__":
    main()
