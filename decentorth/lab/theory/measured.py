"""The quantities that Theorem IV.7 of paper 004 bounds, and the descent of the merit function,
measured along a run."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np

from ...algorithms.common.fields import blockwise, landing
from ...numerics.ordered_sums import sums
from ...protocols import Array
from .constants import Constants, ergodic_bounds
from .merit import merit_at


class Measured(NamedTuple):
    """The means over k = 0, ..., K - 1 and the extremes of a run of K iterations in one process."""

    iterations: int
    field: float
    """The mean of ||Lambda(xbar_k)||_F^2."""
    field_bound: float
    consensus: float
    """The mean over k = 1, ..., K of ||x_k - xbar_k||_F^2."""
    consensus_bound: float
    merit: Array
    """``(K + 1,)``: the merit function at xbar_k."""
    allowance: Array
    """``(K,)``: the largest change of the merit function in an iteration by the descent lemma
    (26)."""
    feasibility: float
    """The largest ||x_i^T x_i - I||_F of any agent and iteration."""


def measure(run: Any, constants: Constants, iterations: int) -> Measured:
    """Return the measurements of a `decentorth.api.Run` over ``iterations`` iterations.

    All agents must be in this process, with one constant step and penalty.
    """
    n = run.problem.n_agents
    problem = run.problem
    c = constants
    fields = []
    spreads = []
    merits = []
    allowances = []
    worst, step, initial = 0.0, 0.0, 0.0
    for state in itertools.islice(run.states(), iterations + 1):
        mean = state.x.mean(0)
        points = np.repeat(mean[None], n, axis=0)
        field = blockwise(landing, problem, points, state.penalty).mean(0)
        tracker = state.tracker.mean(0)
        if state.k == 0:
            step = float(state.step_size[0])
            initial = float(sums((state.tracker - tracker) ** 2).sum())
        merits.append(merit_at(problem, mean, constants.gamma))
        fields.append(float((field * field).sum()))
        spreads.append(float(sums((state.x - mean) ** 2).sum()))
        worst = max(worst, float(problem.constraint.feasibility(state.x).max()))
        allowances.append(
            -0.5 * step * c.rho * fields[-1]
            + step * (c.ratio * c.smoothness) ** 2 / (2.0 * c.rho * n) * spreads[-1]
            + 0.5 * step**2 * c.smoothness * float((tracker * tracker).sum())
        )
    bounds = ergodic_bounds(c, step, iterations, merits[0] - merits[-1], initial)
    field = float(np.mean(fields[:-1]))
    consensus = float(np.mean(spreads[1:]))
    merit = np.array(merits)
    allowance = np.array(allowances[:-1])
    return Measured(iterations, field, bounds[0], consensus, bounds[1], merit, allowance, worst)
