"""Theorem 4.9 of papers 000 and 002: the stationarity of RSSM beside both bounds, for constant and
for diminishing steps.

    python benchmarks/stationarity.py 000             # T = 8, 64; three seeds; half a minute
    python benchmarks/stationarity.py 002 --full      # T = 8, 128, 2048; ten seeds; some minutes

Robust subspace recovery of 25 points in R^6 with three blocks of one column, Delta = 0.9/L, and
lambda half of the largest that is allowed. Paper 000 has the steps Delta / sqrt(T + 1) (a) and
Delta / sqrt(k + 1) (b), paper 002 divides them by sqrt(l). Prints the least mean over the seeds of
Theta(x_k)^2 over some k <= T, the bound, and their ratio. The mean over some k is at least that
over all, so that a ratio below 1 is evidence for the theorem. The minimum of f on the manifold,
which the bounds need, is bounded by 0. The slope is that of the least mean against T + 1; that of
the bound is -1/2, for diminishing steps but for a logarithm.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

import numpy as np

from decentorth import RSSM
from decentorth.api import set_up
from decentorth.problems import RobustSubspaceRecovery
from decentorth.protocols import Array
from decentorth.sets import Stiefel

sys.path.append(str(Path(__file__).parents[1]))
from tests.reference.stationarity import largest_parameter, surrogate_stationarity

PROBLEM = RobustSubspaceRecovery([np.random.default_rng(0).standard_normal((25, 6))], 3)
STEEP = float(PROBLEM.lipschitz_value[0])
BLOCKS = tuple(np.array([j]) for j in range(3))
NUMBER = len(BLOCKS)
SHARE = 0.9
"""Delta L."""
PARAMETER = 0.5 * largest_parameter(NUMBER, 0.0, STEEP)
"""Paper 000's lambda; paper 002's is l/2 times as large for the same proximal map, and its Theta
2/l times."""


def step_size(paper: str, part: str, horizon: int) -> str:
    """The steps of the theorem."""
    initial = SHARE / STEEP
    if paper == "002":
        initial /= math.sqrt(NUMBER)
    return (
        f"horizon:initial={initial},iterations={horizon + 1}"
        if part == "a"
        else f"diminishing:initial={initial}"
    )


def bound(paper: str, part: str, horizon: int, envelope: float) -> float:
    """The right side for f >= 0, where ``envelope`` is the mean of f_lambda at the starts.

    Part (b) has the constants of docs/errata.md, 1 + log(T + 1) and 12 sqrt(l).
    """
    blocks, lam = NUMBER, PARAMETER
    log, root = 1.0 + math.log(horizon + 1), math.sqrt(horizon + 1)
    if paper == "000":
        above = envelope + SHARE**2 * (1.0 + 68.0 / 9.0 * (blocks - 2)) / (lam * blocks) * (
            1.0 if part == "a" else log
        )
        return above / (
            lam / blocks * (1.0 / lam - (2 * blocks - 3) * STEEP) * SHARE / STEEP * root
        )
    lam *= blocks / 2.0
    if part == "a":
        above = 9.0 * SHARE**2 / (2 * lam * blocks) + 2.0 * SHARE**3 / (
            lam * math.sqrt(blocks) * root
        )
        above += SHARE**4 / (2 * lam * blocks * root**2)
    else:
        above = (9.0 * log + 12.0 * math.sqrt(blocks) + 2.0) / (2 * lam * blocks)
    slope = lam / blocks * (blocks / (2 * lam) - (2 * blocks - 3) * STEEP)
    return (envelope + above) / (slope * SHARE / (STEEP * math.sqrt(blocks)) * root)


def measured(paper: str, part: str, horizon: int, seed: int) -> tuple[Array, float]:
    """Theta^2 at nine k from 0 to T, and f_lambda at the start."""
    method = RSSM(blocks=NUMBER, step_size=step_size(paper, part, horizon), block_partition="fixed")
    run = set_up(PROBLEM, method, x0=Stiefel(6, 3).random(np.random.default_rng(seed)), seed=seed)
    asked = set(np.linspace(0, horizon, 9).astype(int).tolist())
    states = run.states()
    points = [
        state.x[0].copy()
        for state in (next(states) for _ in range(horizon + 1))
        if state.k in asked
    ]
    found = [surrogate_stationarity(PROBLEM, x, BLOCKS, PARAMETER) for x in points]
    scale = 2.0 / NUMBER if paper == "002" else 1.0
    return np.array([(scale * one.stationarity) ** 2 for one in found]), found[0].envelope


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paper", choices=("000", "002"))
    parser.add_argument("--full", action="store_true", help="T = 8, 128, 2048 and ten seeds")
    given = parser.parse_args()
    horizons: tuple[int, ...] = (8, 64)
    seeds = 3
    if given.full:
        horizons, seeds = (8, 128, 2048), 10
    for part in ("a", "b"):
        least = []
        for horizon in horizons:
            squares, envelopes = zip(
                *[measured(given.paper, part, horizon, seed) for seed in range(seeds)], strict=True
            )
            least.append(float(np.mean(squares, axis=0).min()))
            above = bound(given.paper, part, horizon, float(np.mean(envelopes)))
            print(
                f"Theorem 4.9 ({part}), T = {horizon}: least mean {least[-1]:.1e}, bound "
                f"{above:.1e}, ratio {least[-1] / above:.1e}"
            )
        slope = np.polyfit(np.log(np.array(horizons) + 1), np.log(least), 1)[0]
        print(f"Theorem 4.9 ({part}): slope {slope:.2f}")


if __name__ == "__main__":
    main()
