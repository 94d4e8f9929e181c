"""Measures of a run, by the names used everywhere: in the history, the summary and stopping
rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import protocols
from ..numerics.devices import numbers, on_host
from ..numerics.ordered_sums import norms, power_of_two
from ..numerics.tangent_proximal import stationarity
from ..protocols import Array, Collective, Observed, Problem

T = TypeVar("T")
ROUNDING = 1e-13
"""The feasibility of a point that is on the constraint set but for rounding."""
SUMS_OF_A_ROW = 2
"""The sums over the agents in a row: the mean point, and everything at it. At the agents' own points
one sum would do, but the mean gradient there vanishes at points that minimise nothing, such as
those at which `algorithms.DGD` stays."""


@dataclass(frozen=True)
class MeasuredState:
    """A state as the measures see it, with the sums over all agents, the same on every rank."""

    problem: Any
    state: Observed
    collective: Collective
    hat: Array
    """The point xhat, ``(1, *shape)``."""
    sums: Mapping[str, Array]
    """The sums over all agents of the terms of `StandardMetrics`, by their names."""
    objective: float
    gradient: float
    consensus_rms: float
    feasibility: float

    def mean_norm(self, name: str) -> Any:
        """The norm of the agents' mean of a term."""
        return norms(self.sums[name][None] / self.problem.n_agents)[0]

    def at_hat(self, function: Callable[[Array], T], otherwise: T) -> T:
        """A problem's own measure at xhat, where that is finite."""
        if not np.isfinite(self.hat).all():
            return otherwise
        return function(self.hat[0])

    def stationarity(self) -> float:
        """The generalized gradient at xhat of a problem with a convex term."""
        mean = self.sums["smooth"] / self.problem.n_agents
        return self.at_hat(lambda x: stationarity(self.problem.regularizer, x, mean), math.nan)

    def relative_gap(self) -> Any:
        """The distance of the objective from its least value, relative to the least value."""
        least = self.problem.optimal_value
        return (self.objective - least) / (abs(least) or 1.0)

    def held_out_rmse(self) -> Any:
        """The root mean squared error of the values kept out of the objective."""
        squares, count = self.sums["held_out"]
        return np.sqrt(squares / count)


class Measure(NamedTuple):
    """A measure: its name, its value, and the states (by their entries) and problems that have
    it."""

    name: str
    compute: Callable[[MeasuredState], Any]
    entries: tuple[str, ...] = ()
    applies: Callable[[Any], object] | None = None
    """True for problems that have it; by default all."""


def nonsmooth(problem: object) -> bool:
    """True if the problem is not differentiable."""
    return isinstance(problem, protocols.Nonsmooth) and problem.nonsmooth


def _smooth(problem: object) -> bool:
    return not nonsmooth(problem)


def projects(problem: Any) -> bool:
    """True if the constraint set has a projection."""
    return isinstance(problem.constraint, protocols.Projection)


def _lands(problem: Any) -> bool:
    return isinstance(problem.constraint, protocols.Landing)


def projected(problem: Any, mean: Array) -> Array:
    """The projection of the agents' mean ``(1, *shape)``; a single agent's own point where it is on
    the set but for rounding, so that its gradient there is the one that is known."""
    constraint = problem.constraint
    if problem.n_agents == 1 and constraint.feasibility(mean)[0] <= ROUNDING:
        return mean
    hat: Array = constraint.project(mean)
    return hat


def composite(problem: object) -> bool:
    """True if the problem is a smooth one plus a term with a proximal map."""
    return isinstance(problem, protocols.Composite)


def splits_features(problem: object) -> bool:
    """True if each agent holds rows of one common point."""
    return isinstance(problem, protocols.SplitFeatures)


def _counted(problem: object) -> bool:
    return isinstance(problem, protocols.Counted)


def error_name(problem: object) -> str:
    """The measure of the distance from the known answer; empty where there is none."""
    return problem.error_name if isinstance(problem, protocols.KnownOptimum) else ""


def _bounded(problem: object) -> bool:
    return isinstance(problem, protocols.KnownValue) and problem.optimal_value is not None


def _holds_out(problem: object) -> bool:
    return isinstance(problem, protocols.HoldsOut) and problem.holds_out


MEASURES = (
    Measure("objective", attrgetter("objective")),
    Measure("gradient_norm", attrgetter("gradient"), applies=_smooth),
    Measure("subgradient_norm", attrgetter("gradient"), applies=nonsmooth),
    Measure("stationarity", MeasuredState.stationarity, applies=composite),
    Measure("local_gradient_sum", lambda seen: seen.sums["scalars"][1]),
    Measure("consensus_error", lambda seen: seen.sums["scalars"][2]),
    Measure("consensus_rms", attrgetter("consensus_rms")),
    Measure("distance_to_manifold", lambda seen: seen.sums["scalars"][4], applies=projects),
    Measure("feasibility", attrgetter("feasibility")),
    Measure("tracking_error", lambda seen: seen.mean_norm("gap"), ("tracker", "field")),
    Measure("landing_norm", lambda seen: seen.mean_norm("at_mean"), ("penalty",), _lands),
    Measure("flops", lambda seen: seen.sums["flops"], ("flops",), _counted),
    Measure("drift", lambda seen: seen.collective.max(seen.state.drift.max()), ("drift",)),
    Measure("error", lambda seen: seen.at_hat(seen.problem.error, math.nan), applies=error_name),
    Measure("relative_gap", MeasuredState.relative_gap, applies=_bounded),
    Measure("held_out_rmse", MeasuredState.held_out_rmse, applies=_holds_out),
)
"""All standard measures, in the order of the columns."""


def measures(problem: object) -> list[str]:
    """The names of the measures that apply to a problem."""
    found = [one.name for one in MEASURES if one.applies is None or one.applies(problem)]
    if isinstance(problem, protocols.Evaluated):
        found += problem.evaluations
    return found


Terms = tuple[dict[str, Array], Array]
"""Terms of sums over the agents by name, and the agents' feasibility."""


class StandardMetrics:
    """The metrics of decentralized optimization on a constraint set, with xbar the mean iterate and
    xhat its projection.

    On a set without a projection xhat is xbar, and there is no distance_to_manifold.

    =====================  =======================================================================================
    objective              f(xhat) = (1/n) sum_i f_i(xhat)
    gradient_norm          ||P_xhat((1/n) sum_i G_i(xhat))||_F, the Riemannian gradient at xhat
    stationarity           ||w - xhat||_F / t with the tangent proximal point w of xhat, for composite problems
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
    Of a problem that is not differentiable gradient_norm is called subgradient_norm: it need not
    vanish at a minimiser. Two chains of sums and two maxima over the ranks each time; the same
    numbers on every rank. With ``by_messages`` two sums over the edges of the network, counted.
    """

    def __init__(
        self, problem: Problem[object], state: Observed, by_messages: bool = False
    ) -> None:
        self._by_messages = by_messages
        constraint = problem.constraint
        if not isinstance(constraint, protocols.Riemannian):
            raise TypeError(
                f"the standard metrics need a constraint set with Riemannian; {constraint!r} has "
                "none"
            )
        possible = [one for one in MEASURES if all(hasattr(state, name) for name in one.entries)]
        self._measures = [one for one in possible if one.applies is None or one.applies(problem)]
        self._own: tuple[str, ...] = ()
        if isinstance(problem, protocols.Evaluated):
            self._own = problem.evaluations
        self.columns = (*[measure.name for measure in self._measures], *self._own)
        self._projects = projects(problem)
        self._lands = _lands(problem)

    def __call__(
        self, problem: Problem[Any], state: Observed, collective: Collective
    ) -> tuple[float, ...]:
        n = problem.n_agents
        first = {"x": state.x}
        if "tracking_error" in self.columns:
            first["gap"] = state.tracker - state.field
        sums: dict[str, Any] = dict(zip(first, collective.sum(*first.values()), strict=True))
        del first  # it holds an array of the state's size
        mean = hat = sums["x"][None] / n
        if self._projects:
            hat = projected(problem, mean)
        alone = n == 1 and not (self._projects or self._lands)
        terms, feasibility = self._terms(problem, state, mean, hat, n == 1 and hat is mean)
        spread = terms["scalars"][:, 3]
        unit: Any = 1.0
        if self._by_messages:
            terms["feasibility"] = in_places(feasibility, problem)
        else:
            unit = power_of_two(collective.max(spread.max()))
        spread[:] = (spread / unit) ** 2
        sums |= zip(terms, collective.sum(*terms.values()), strict=True)
        if self._by_messages:
            worst = float(sums["feasibility"].max())
        else:
            worst = collective.max(feasibility.max())
        value, gradient, _, squares, _ = sums["scalars"]
        if not alone:
            gradient = norms(problem.constraint.tangent(hat, sums["at_hat"][None] / n))[0]
        rms = unit * np.sqrt(squares / n)
        seen = MeasuredState(problem, state, collective, hat, sums, value / n, gradient, rms, worst)
        values = [measure.compute(seen) for measure in self._measures]
        if self._own:
            values += seen.at_hat(seen.problem.evaluate, [math.nan] * len(self._own))
        return numbers(values)

    def _terms(
        self, problem: Any, state: Observed, mean: Array, hat: Array, own_hat: bool
    ) -> Terms:
        """The terms of the sums over agents, by name, and the agents' feasibility, in blocks that
        stay in cache; ``own_hat`` is True if xhat is the only agent's own point."""
        x = state.x
        at_hat = np.empty_like(x)
        scalars = np.zeros_like(x, shape=(len(x), 5))
        terms = {"at_hat": at_hat, "scalars": scalars}
        feasibility = np.empty_like(x, shape=len(x))
        if "landing_norm" in self.columns:
            terms["at_mean"] = np.empty_like(x)
        if "stationarity" in self.columns:
            terms["smooth"] = np.empty_like(x)
        if "flops" in self.columns:
            terms["flops"] = state.flops
        if "held_out_rmse" in self.columns:
            terms["held_out"] = np.empty_like(x, shape=(len(x), 2))
        for block, part in problem.blocks():
            own = x[block]
            constraint = part.constraint
            point = np.repeat(hat, len(own), axis=0)
            gradient = part.gradient(own)
            at_hat[block] = gradient if own_hat else part.gradient(point)
            if "smooth" in terms:
                terms["smooth"][block] = part.smooth.gradient(point)
            scalars[block, 0] = part.value(point)
            along = constraint.relative_gradient if self._lands else constraint.tangent
            scalars[block, 1] = norms(along(own, gradient))
            scalars[block, 2] = norms(own - mean)
            scalars[block, 3] = norms(own - hat)
            feasibility[block] = constraint.feasibility(own)
            if self._projects:
                scalars[block, 4] = constraint.distance(own)
            if "held_out" in terms:
                terms["held_out"][block] = part.held_out_errors(point)
            if "at_mean" in terms:
                point = np.repeat(mean, len(own), axis=0)
                slope = part.gradient(point)
                penalty = state.penalty[block]
                terms["at_mean"][block] = constraint.landing(point, slope, penalty)
        return terms, feasibility


def in_places(values: Array, problem: Problem[Any]) -> Array:
    """``(n_local, n)``: each agent's number in the place of the agent, so that all numbers are in
    the sum."""
    places = np.zeros((len(values), problem.n_agents))
    places[np.arange(len(values)), np.arange(problem.n_agents)[problem.agents]] = values
    return places


class AgentErrors:
    """Columns of each agent i: agent_i is its distance ||x_i - xbar||_F from the mean of all.

    A point of two or three numbers has columns agent_i_x, agent_i_y and agent_i_z. Another matrix
    has agent_i_angle, the largest principal angle, in radians, between its columns' span and that
    of the mean.
    """

    def __init__(self, n_agents: int, shape: tuple[int, ...]) -> None:
        self._small = math.prod(shape) in (2, 3)
        names = [""]
        if self._small:
            names += ["_x", "_y", "_z"][: math.prod(shape)]
        elif len(shape) == 2:
            names.append("_angle")
        self.columns = tuple(f"agent_{agent}{name}" for agent in range(n_agents) for name in names)

    def __call__(
        self, problem: Problem[object], state: Observed, collective: Collective
    ) -> tuple[float, ...]:
        (total,) = collective.sum(state.x)
        mean = total[None] / problem.n_agents
        own = [on_host(norms(state.x - mean))[:, None]]
        if self._small:
            own.append(on_host(state.x).reshape(len(state.x), -1))
        elif state.x.ndim == 3:
            own.append(largest_angles(on_host(state.x), on_host(mean)[0])[:, None])
        mine = np.concatenate(own, axis=1)
        n = problem.n_agents

        def in_place(agent: int, values: Array) -> Array:
            places = np.zeros((n, len(values)))
            places[agent] = values
            return places.reshape(-1)

        each = map(in_place, range(n)[problem.agents], mine)
        return tuple(collective.each(n * mine.shape[1], each).tolist())


def largest_angles(x: Array, y: Array) -> Array:
    """``(n,)``: the largest principal angle, in radians, between the spans of ``(n, d, r)``
    matrices and that of ``(d, r)`` y.

    It is nan where an entry is not finite.
    """
    angles = np.full(len(x), np.nan)
    finite = np.isfinite(x).all((1, 2)) & np.isfinite(y).all()
    if finite.any():
        basis = np.linalg.qr(y)[0]
        spans = np.linalg.qr(x[finite])[0]
        inside = basis.T @ spans
        # the bits of NumPy's arctan2 of strided arrays depend on where they lie in memory
        cosines = np.ascontiguousarray(np.linalg.svd(inside, compute_uv=False)[:, -1])
        sines = np.linalg.norm(spans - basis @ inside, 2, axis=(1, 2))
        angles[finite] = np.arctan2(sines, cosines)
    return angles


RUNAWAY = 1e50
"""An iteration whose point has a larger entry than this, or one that is not finite, has
diverged."""


def first_runaway(
    x: Array, first_agent: int, n_agents: int, collective: Collective, bound: float = RUNAWAY
) -> int | None:
    """The first agent whose point is not finite or larger than ``bound``, the same on every rank;
    None if all are fine."""
    with np.errstate(all="ignore"):
        bad = ~(np.abs(x.reshape(len(x), -1)).max(-1) <= bound)
    mine = n_agents
    if bad.any():
        mine = first_agent + int(np.argmax(on_host(bad)))
    first = int(-collective.max(float(-mine)))
    return first if first < n_agents else None
