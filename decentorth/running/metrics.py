"""Measures of a run, by the names used everywhere: in the history, the summary and stopping rules."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from ..numerics.devices import numbers, on_host
from ..numerics.ordered_sums import norms, power_of_two
from ..protocols import (
    Array,
    Collective,
    Counted,
    Evaluated,
    HoldsOut,
    KnownOptimum,
    KnownValue,
    Landing,
    Nonsmooth,
    Observed,
    Problem,
    Projection,
    Riemannian,
)


class StandardMetrics:
    """The metrics of decentralized optimization on a constraint set, with xbar the mean iterate and xhat its projection.

    On a set without a projection xhat is xbar, and there is no distance_to_manifold.

    =====================  =======================================================================================
    objective              f(xhat) = (1/n) sum_i f_i(xhat)
    gradient_norm          ||P_xhat((1/n) sum_i G_i(xhat))||_F, the Riemannian gradient at xhat
    local_gradient_sum     sum_i ||grad f_i(x_i)||_F, plotted by paper 004; does not vanish with heterogeneous data
    consensus_error        sum_i ||x_i - xbar||_F
    consensus_rms          sqrt((1/n) sum_i ||x_i - xhat||_F^2)
    distance_to_manifold   sum_i ||x_i - polar(x_i)||_F
    feasibility            max_i ||x_i^T x_i - I||_F
    tracking_error         ||(1/n) sum_i (y_i - Lambda_i(x_i))||_F, where the method tracks
    landing_norm           ||(1/n) sum_i Lambda_i(xbar)||_F, where the method has a penalty
    flops                  sum_i of the floating-point operations made so far, where problem and method count them
    drift                  max_i of the largest infeasibility that a re-orthogonalisation has found, where the method makes any
    error                  distance of xhat from the known answer, in the problem's measure ``error_name``
    relative_gap           (f(xhat) - f*) / |f*|, where the least value f* is known; negative by rounding only
    =====================  =======================================================================================

    held_out_rmse          the root mean squared error at xhat of the values kept out of the objective, where there are any

    Behind them come the problem's own measures of xhat, where it has any (`protocols.Evaluated`).
    Of a problem that is not differentiable gradient_norm is called subgradient_norm: it need not vanish at a minimiser.
    Two chains of sums and two maxima over the ranks each time; the same numbers on every rank.
    """

    def __init__(self, problem: Problem[Any], state: Observed) -> None:
        constraint = problem.constraint
        if not isinstance(constraint, Riemannian):
            raise TypeError(f"the standard metrics need a constraint set with Riemannian; {constraint!r} has none")
        entries = set(state._fields)
        self._projects, self._lands = isinstance(constraint, Projection), isinstance(constraint, Landing)
        self._tracks = {"tracker", "field"} <= entries
        self._penalised = self._lands and "penalty" in entries
        self._counts = "flops" in entries and isinstance(problem, Counted)
        self._drifts = "drift" in entries
        self._known = problem if isinstance(problem, KnownOptimum) and problem.error_name else None
        self._least = problem.optimal_value if isinstance(problem, KnownValue) else None
        self._holds_out = isinstance(problem, HoldsOut) and problem.holds_out
        self._evaluated = problem if isinstance(problem, Evaluated) and problem.evaluations else None
        self.columns: tuple[str, ...] = (
            "objective",
            "subgradient_norm" if isinstance(problem, Nonsmooth) and problem.nonsmooth else "gradient_norm",
            "local_gradient_sum",
            "consensus_error",
            "consensus_rms",
            *(("distance_to_manifold",) if self._projects else ()),
            "feasibility",
            *(("tracking_error",) if self._tracks else ()),
            *(("landing_norm",) if self._penalised else ()),
            *(("flops",) if self._counts else ()),
            *(("drift",) if self._drifts else ()),
            *(("error",) if self._known is not None else ()),
            *(("relative_gap",) if self._least is not None else ()),
            *(("held_out_rmse",) if self._holds_out else ()),
            *(self._evaluated.evaluations if self._evaluated is not None else ()),
        )

    def __call__(self, problem: Problem[Any], state: Observed, collective: Collective) -> tuple[float, ...]:
        n = problem.n_agents
        constraint = problem.constraint
        x = state.x
        if self._tracks:
            sum_x, sum_gap = collective.sum(x, state.tracker - state.field)
        else:
            (sum_x,) = collective.sum(x)
        mean = sum_x[None] / n
        hat = constraint.project(mean) if self._projects else mean
        alone = n == 1 and not (self._projects or self._lands)  # xhat is the agent's own point

        at_hat = np.empty_like(x)
        at_mean = np.empty_like(x) if self._penalised else None
        held_out = np.empty_like(x, shape=(len(x), 2)) if self._holds_out else None
        scalars = np.empty_like(x, shape=(len(x), 5))
        feasibility = np.empty_like(x, shape=len(x))
        for block, part in problem.blocks():
            own = x[block]
            point = np.repeat(hat, len(own), axis=0)
            own_gradient = part.gradient(own)
            at_hat[block] = own_gradient if alone else part.gradient(point)
            scalars[block, 0] = part.value(point)
            direction = (
                part.constraint.relative_gradient(own, own_gradient) if self._lands else part.constraint.tangent(own, own_gradient)
            )
            scalars[block, 1] = norms(direction)
            scalars[block, 2] = norms(own - mean)
            scalars[block, 3] = norms(own - hat)
            scalars[block, 4] = part.constraint.distance(own) if self._projects else 0.0
            feasibility[block] = part.constraint.feasibility(own)
            if held_out is not None:
                held_out[block] = cast(HoldsOut, part).held_out_errors(point)
            if at_mean is not None:
                point = np.repeat(mean, len(own), axis=0)
                at_mean[block] = part.constraint.landing(point, part.gradient(point), state.penalty[block])
        unit = power_of_two(collective.max(scalars[:, 3].max()))
        scalars[:, 3] = (scalars[:, 3] / unit) ** 2
        optional = (*(() if at_mean is None else (at_mean,)), *((state.flops,) if self._counts else ()))
        optional += () if held_out is None else (held_out,)
        sums = collective.sum(at_hat, scalars, *optional)
        worst = collective.max(feasibility.max())

        objective, local_gradients, consensus, spread, distance = sums[1]
        gradient = local_gradients if alone else norms(constraint.tangent(hat, sums[0][None] / n))[0]
        evaluated = self._evaluated
        measures: tuple[float, ...] = ()
        finite = (evaluated is None and self._known is None) or bool(np.isfinite(hat).all())
        if evaluated is not None:
            measures = evaluated.evaluate(hat[0]) if finite else (math.nan,) * len(evaluated.evaluations)
        return numbers(
            (
                objective / n,
                gradient,
                local_gradients,
                consensus,
                unit * np.sqrt(spread / n),
                *((distance,) if self._projects else ()),
                worst,
                *((norms(sum_gap[None] / n)[0],) if self._tracks else ()),
                *((norms(sums[2][None] / n)[0],) if self._penalised else ()),
                *((sums[-1 - self._holds_out],) if self._counts else ()),
                *((collective.max(state.drift.max()),) if self._drifts else ()),
                *((self._known.error(hat[0]) if finite else math.nan,) if self._known is not None else ()),
                *(() if self._least is None else ((objective / n - self._least) / (abs(self._least) or 1.0),)),
                *((np.sqrt(sums[-1][0] / sums[-1][1]),) if self._holds_out else ()),
                *measures,
            )
        )


class AgentErrors:
    """The distance ||x_i - xbar||_F of every agent i from the mean of all, columns agent_0 to agent_{n-1}."""

    def __init__(self, n_agents: int) -> None:
        self.columns = tuple(f"agent_{agent}" for agent in range(n_agents))

    def __call__(self, problem: Problem[Any], state: Observed, collective: Collective) -> tuple[float, ...]:
        (total,) = collective.sum(state.x)
        own = on_host(norms(state.x - total[None] / problem.n_agents))
        return tuple(np.frombuffer(b"".join(collective.everyone(own.tobytes()))).tolist())


RUNAWAY = 1e50
"""An iteration whose point has a larger entry than this, or one that is not finite, has diverged."""


def first_runaway(x: Array, first_agent: int, n_agents: int, collective: Collective, bound: float = RUNAWAY) -> int | None:
    """The first agent whose point is not finite or larger than ``bound``, the same on every rank; None if all are fine."""
    with np.errstate(all="ignore"):
        bad = ~(np.abs(x.reshape(len(x), -1)).max(-1) <= bound)
    mine = first_agent + int(np.argmax(on_host(bad))) if bad.any() else n_agents
    first = int(-collective.max(float(-mine)))
    return None if first == n_agents else first
