"""The hyperbolic structural probe on generated data: J-JOBCD and VR-J-JOBCD over seeds, from the same random starts.

    python examples/j_orthogonal/hspp.py                        # 60 points, n = 10, three seeds, ten seconds
    python examples/j_orthogonal/hspp.py --points 400 --dimension 40 --iterations 2000

First the form that paper 001 prints: its objective does not change, whatever the J-orthogonal x. Then three kinds of distances:
those of a tree, Euclidean ones of Gaussian points, and planted ones, whose least value is 0. Exact slopes are infinite at
distance 0, so distances are smoothed; --smoothing 0 leaves them as they are (J-JOBCD finds its steps by trial either way).
VR-J-JOBCD takes as many iterations, but about a tenth of the gradients (all pairs count one), with a constant varsigma.
Medians and ranges over seeds: there are local minima.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics

import numpy as np

from decentorth import JJOBCD, VRJJOBCD
from decentorth.api import Run
from decentorth.problems import HSPPSettings

METHODS = {"J-JOBCD": JJOBCD(), "VR-J-JOBCD": VRJJOBCD(varsigma=300.0)}
KINDS = {"tree": {}, "gaussian": {"data": "gaussian"}, "planted": {"data": "gaussian", "distances": "planted"}}


def printed_form(settings: HSPPSettings, seeds: int) -> float:
    """How far (1/m^2) sum (T_ij - d(q_i, q_j))^2 with q_i = x^T phi(d_i) is from its value at x = I, at random x."""
    problem = Run(settings.problem(1, 0), JJOBCD(), comm="serial").problem
    q, signs = problem.manifold.points(problem.rows), problem.constraint.signs

    def value(points: np.ndarray) -> float:
        sizes = problem.manifold.sizes(points)
        u, _ = problem.manifold.cosines(points * signs @ points.T, sizes[:, None] * sizes)
        return float(np.mean((problem.wanted[0] - problem.manifold.distances(u)) ** 2))

    at_identity = value(q)
    return max(abs(value(q @ problem.start(seed)) / at_identity - 1.0) for seed in range(seeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("points", 60), ("dimension", 10), ("iterations", 400), ("seeds", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--smoothing", type=float, default=0.5)
    given = parser.parse_args()
    sizes = {"points": given.points, "dimension": given.dimension, "smoothing": given.smoothing}
    print(f"printed form: changes by {printed_form(HSPPSettings(**sizes), 5):.0e} of itself at five random x")
    for kind, more in KINDS.items():
        for name, method in METHODS.items():
            results = [
                Run(HSPPSettings(**sizes, **more).problem(1, seed), method, seed=seed, comm="serial").solve(
                    iterations=given.iterations, rows=2
                )
                for seed in range(given.seeds)
            ]
            starts = statistics.median(float(result.history["objective"][0]) for result in results)
            ends = sorted(result.row.values["objective"] for result in results)
            feasible = max(result.row.values["feasibility"] for result in results)
            spent = statistics.median(
                getattr(result.state, "samples", 0) / result.problem.n_samples[0] or result.state.gradients for result in results
            )
            seconds = statistics.median(result.seconds["compute"] for result in results)
            print(
                f"{kind}, {name}: {starts:.4g} -> {statistics.median(ends):.4g} ({ends[0]:.4g} to {ends[-1]:.4g}), "
                f"feasibility {feasible:.0e}, {spent:.0f} gradients, {seconds:.2g} s"
            )


if __name__ == "__main__":
    main()
