"""The DRFGT study: iterations, rounds and bytes to a tolerance against the gap, and the linear rate
against its prediction.

Three problems on each graph and rule of weights. ``quadratic``: f_i(x) = h_i x^2/2 with curvatures
h_i evenly spaced from 0.2 to 1.8 in agent order, on R, where DRFGT is gradient tracking; the step
is the one with the best predicted rate. ``pca`` and ``procrustes``: Gaussian data of 20 rows an
agent in dimension 6, two columns, automatic steps; the rate is predicted from the agents'
linearised landing fields at the solution.

Columns: ``iterations``, ``rounds`` and ``bytes`` to ||Lambda(xbar)|| <= 1e-6 times its first value
and a consensus error (root mean square) of at most 1e-6; ``measured`` and ``predicted`` linear
rates; ``bound``: the iterations after which Theorem IV.7 of paper 004 guarantees ||Lambda(xbar)||
for some iterate, with the step ``guaranteed``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import topologies as tp

from ...algorithms import DRFGT
from ...algorithms.common.fields import blockwise, landing
from ...api import Run, set_up
from ...figures.canvas import Look, logarithmic, panels, style
from ...figures.publication import legend_below
from ...numerics.ordered_sums import norms, sums
from ...problems import PCA, FunctionProblem, Procrustes
from ...protocols import Array, Observed
from ...sets import Euclidean
from ..theory import constants, ergodic_bounds, local_rate, solution
from ..theory.merit import merit_at
from .study_graphs import FAMILIES, RULES, look_of, mixing_matrix
from .sweep import Row, Study, Trial, grid, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame, Series

    from topologies.canonical import Weights

PROBLEMS = ("quadratic", "pca", "procrustes")
ORDERS = ("combine-then-adapt", "adapt-then-combine")
TOLERANCE = 1e-6
EPS = 0.5
_ROWS, _DIMENSION, _RANK = 20, 6, 2
_LIMIT = 40_000
_ZERO = 1e-6
_ENDS = {"quadratic": (1e-160, 0.4), "pca": (1e-12, 0.75), "procrustes": (1e-12, 0.75)}
"""The norm of the trackers, relative to the first one, at which a run ends; and the share of a
run's digits after which the linear rate is measured: long enough to even out beats, late enough to
be linear."""


def trials(full: bool, seed: int) -> list[Trial]:
    """The trials: problems times families times weights, with 16 agents (in full also 36, both
    orders, and two seeds)."""
    sizes = (16, 36)[: 1 + full]
    orders = ORDERS[: 1 + full]
    seeds = range(seed, seed + 1 + full)
    cases = {"n": sizes, "problem": PROBLEMS, "family": FAMILIES, "weights": RULES}
    made = grid(**cases, order=orders, seed=seeds)
    return [one for one in made if one["family"] != "hypercube" or one["n"] == 16]


def curvatures(n: int) -> Array:
    """``(n,)``: the curvatures of the quadratics."""
    return np.linspace(0.2, 1.8, n)


def make_problem(name: str, n: int, seed: int) -> Any:
    """The problem of a trial, all agents in this process."""
    if name == "quadratic":
        h = curvatures(n)[:, None, None]
        return FunctionProblem(
            lambda agents, x: 0.5 * sums(h[agents] * x * x),
            lambda agents, x: h[agents] * x,
            Euclidean(1, 1),
            n,
            stacked=True,
        )
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(n,)))
    A = rng.standard_normal((n, _ROWS, _DIMENSION)) * np.linspace(2.0, 0.8, _DIMENSION)
    return PCA(A, _RANK) if name == "pca" else Procrustes(A, rng.standard_normal((n, _RANK, _ROWS)))


Counts = tuple[int, int, int]
"""Iterations, rounds and bytes."""


def drive(run: Run, floor: float, *, centred: bool) -> tuple[Any, Counts | None, Array]:
    """Iterate until the trackers have shrunk to ``floor`` and the tolerance is reached, or the
    limit.

    The result is the last state; the iterations, rounds and bytes to the tolerance; and the norms
    of all agents' trackers, ``(k + 1,)``. ``centred`` restores in each iteration the trackers' mean
    to that of the landing fields, from which it drifts by rounding: a run towards zero then
    converges without end, where it would stop near 1e-16.
    """
    problem = run.problem
    network = run.network
    trackers: list[float] = []
    reached, first = None, 0.0
    for state in run.states():
        if centred:
            state.tracker[...] -= (state.tracker - state.field).mean(0)
        trackers.append(float(np.linalg.norm(state.tracker)))
        if reached is None:
            mean = state.x.mean(0)
            everywhere = np.repeat(mean[None], len(state.x), axis=0)
            size = length(blockwise(landing, problem, everywhere, state.penalty))
            first = first or size
            spread = math.sqrt(float(sums((state.x - mean) ** 2).mean()))
            if size <= TOLERANCE * first and spread <= TOLERANCE:
                reached = (state.k, network.rounds, network.bytes)
        if state.k >= _LIMIT or (reached is not None and trackers[-1] <= floor * trackers[0]):
            return state, reached, np.array(trackers)
    raise AssertionError("a run's states never end")


def length(fields: Array) -> float:
    """The norm of the agents' mean field."""
    return float(norms(fields.mean(0)[None])[0])


def measured_rate(trackers: Array, floor: float, window: float) -> float | None:
    """The linear rate over the last digits of a run that reached its floor; None for others and
    after too few iterations."""
    digits = np.log(np.maximum(trackers, np.finfo(np.float64).tiny) / trackers[0])
    start = int(np.argmax(digits <= window * digits[-1]))
    end = len(digits) - 1
    if end - start < 5 or digits[-1] > math.log(floor):
        return None
    return math.exp(float(np.polyfit(np.arange(start, end + 1), digits[start:], 1)[0]))


def run(trial: Trial) -> list[Row]:
    """The only row of a trial."""
    name = trial["problem"]
    n = trial["n"]
    seed = trial["seed"]
    order = trial["order"]
    W = mixing_matrix(trial)
    spectrum = tp.spectrum(W)
    problem = make_problem(name, n, seed)
    step: Any = "constant"
    if name == "quadratic":
        step = tp.tracking_score(W, curvatures(n), order).step
    made = set_up(problem, DRFGT(step_size=step, order=order), W, seed=seed, comm="serial")
    state, reached, trackers = drive(made, _ENDS[name][0], centred=name == "quadratic")
    guaranteed, bound = None, None
    if name != "quadratic":
        guaranteed, bound = guarantee(made, state, spectrum)
    iterations, rounds, sent = reached or (None, None, None)
    return [
        {
            **trial,
            "sigma": spectrum.sigma,
            "gap": spectrum.gap,
            "lambda_min": spectrum.lambda_min,
            "step": float(state.step_size.mean()),
            "iterations": iterations,
            "rounds": rounds,
            "bytes": sent,
            "measured": measured_rate(trackers, *_ENDS[name]),
            "predicted": predict(name, problem, W, state, order),
            "guaranteed": guaranteed,
            "bound": bound,
        }
    ]


def predict(name: str, problem: Any, W: Weights, state: Any, order: Any) -> float | None:
    """The linear rate in theory: from the curvatures, or from the linearisation at the solution
    near the end of the run.

    None where the run did not come near a solution.
    """
    if name == "quadratic":
        return tp.tracking_rate(W, curvatures(problem.n_agents), float(state.step_size[0]), order)
    try:
        point = solution(problem, state.x.mean(0))
    except ValueError:
        return None
    return local_rate(problem, W, point, state.step_size, state.penalty, order).rate


def guarantee(run: Run, state: Observed, spectrum: tp.MixingSpectrum) -> tuple[float, float]:
    """The guaranteed step of paper 004 and the iterations after which it guarantees the tolerance
    for some iterate."""
    problem = run.problem
    n = run.problem.n_agents
    penalty = float(state.penalty.mean())
    c = constants(problem, min(spectrum.sigma, 1.0), spectrum.lambda_min, penalty, EPS)
    fields = blockwise(landing, problem, run.x0, np.full(n, penalty))
    spread = float(sums((fields - fields.mean(0)) ** 2).sum())
    begun, ended = (merit_at(problem, x, c.gamma) for x in (run.x0[0], state.x.mean(0)))
    field, _ = ergodic_bounds(c, c.guaranteed, 1, begun - ended, spread)
    return c.guaranteed, field / (TOLERANCE * length(fields)) ** 2


def deviation(rows: DataFrame) -> Series:
    """The relative differences of the measured iterations per digit from the predicted ones.

    NaN where nothing was measured, or the rate is zero up to rounding (the complete graph,
    adapt-then-combine).
    """
    slow = rows["predicted"].between(_ZERO, 1.0, inclusive="neither") & (rows["measured"] < 1.0)
    rates = rows[["measured", "predicted"]].where(slow)
    return (np.log(rates["measured"]) / np.log(rates["predicted"]) - 1.0).abs()


@style()
def figure(rows: DataFrame) -> Figure:
    """The figure of measured and predicted iterations against the gap for each problem, and of
    measured against predicted rates."""
    drawn, (axes,) = panels(1, len(PROBLEMS) + 1, (14.0, 3.9))
    shapes = dict(zip(RULES, ("full", "none", "left"), strict=True))
    first = rows[rows["order"] == ORDERS[0]]
    points_only = {"linewidth": 0.0}
    for panel, name in zip(axes, PROBLEMS, strict=False):
        own = first[first["problem"] == name]
        found = own[own["predicted"].between(0.0, 1.0, inclusive="neither")]
        expected = math.log(TOLERANCE) / np.log(found["predicted"])
        cross: Look = {"color": "0.7", "markersize": 3.5, "zorder": 0}
        panel.plot(found["gap"], expected, "x", label="predicted", **cross)
        for (family, rule), points in own.groupby(["family", "weights"], sort=False):
            look = look_of(family) | points_only | {"fillstyle": shapes[rule], "label": f"_{rule}"}
            if rule == RULES[0]:
                look["label"] = family.replace("_", " ")
            panel.plot(points["gap"], points["iterations"], **look)
        logarithmic(panel, r"gap $1 - \sigma_W$", f"iterations to {TOLERANCE:g}")
        panel.set_title(f"{name} (full {RULES[0]}, open {RULES[1]}, half {RULES[2]})", fontsize=6)
    for family, found in rows[deviation(rows).notna()].groupby("family", sort=False):
        look = look_of(family) | points_only
        axes[-1].plot(1.0 - found["predicted"], 1.0 - found["measured"], **look)
    axes[-1].axline((0.1, 0.1), slope=1.0, color="0.6", linewidth=0.7, zorder=0)
    logarithmic(axes[-1], "1 - predicted rate", "1 - measured rate")
    axes[-1].set_title("all runs that came to their floor", fontsize=6)
    legend_below(drawn, axes[:1], 7)
    return drawn


def conclusions(rows: DataFrame) -> Iterator[str]:
    """The lines that compare prediction with measurement, and iterations with the gap."""
    yield (
        "runs, those short of the tolerance, how far the rate and the iterations per digit are "
        "off, bound over iterations:"
    )
    compared = rows.assign(
        short=rows["iterations"].isna(),
        off=(rows["measured"] - rows["predicted"]).abs(),
        away=deviation(rows),
        over=rows["bound"] / rows["iterations"],
    ).groupby("problem", sort=False)
    yield table(compared.agg(**_OFF).reset_index(), ("problem", *_OFF))
    case = ["problem", "family", "n", "order", "seed"]
    cases = rows.fillna({"iterations": math.inf}).groupby(case, sort=False)
    fewest = cases["iterations"].idxmin()
    widest = cases["gap"].idxmax()
    chosen = {"fewest": fewest, "widest": widest, "both": fewest[fewest == widest]}
    yield (
        f"of {len(fewest)} cases those in which a rule needs the fewest iterations, has the "
        "widest gap, or both:"
    )
    rules = {name: rows["weights"][index].value_counts() for name, index in chosen.items()}
    counts = {name: number.reindex(RULES, fill_value=0) for name, number in rules.items()}
    yield table(counts["fewest"].to_frame().assign(**counts).reset_index(), ("weights", *counts))


_OFF = {
    "runs": ("n", "size"),
    "short": ("short", "sum"),
    "rate": ("off", "max"),
    "median": ("away", "median"),
    "most": ("away", "max"),
    "bound, least": ("over", "min"),
    "bound, most": ("over", "max"),
}
"""The columns of the first conclusion: what of the runs of a problem is shown."""
_COSTS = "iterations, rounds and bytes of DRFGT to a tolerance against the gap"
_SUMMARY = f"{_COSTS}; its linear rate against the prediction"
STUDY = Study("drfgt", _SUMMARY, trials, run, figure, conclusions)
