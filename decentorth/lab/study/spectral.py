"""The spectral study: sigma, gap, degree, diameter and bytes of every family of graphs, over the
number of agents.

Bytes are those of one round of DRFGT's messages at the size of paper 004's experiment: x and y,
50 x 20 each, along every directed edge. ``rounds_per_decade`` is log(1/10) / log(sigma), the rounds
of plain averaging per factor of ten.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import topologies as tp

from ...figures.canvas import logarithmic, panels, style
from ...figures.publication import legend_below
from .study_graphs import FAMILIES, RULES, look_of
from .sweep import Row, Study, Trial, grid, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

PAYLOAD = 2 * 50 * 20 * 8
"""The bytes along a directed edge: x and y of the published experiment."""
_DIAMETER = 4096
"""The number of agents up to which the diameter is computed (n searches of the graph)."""
EXACT = 1e-12
"""The sigma below which one round averages exactly, up to rounding."""
_COMPLETE = 700
"""The number of agents above which complete graphs are left out."""
_SIZES = (16, 64, 256, 1024, 4096, 16384)


def trials(full: bool, seed: int) -> list[Trial]:
    """The trials: families times weights times sizes, the two largest in full only."""
    made = grid(n=_SIZES[: 4 + 2 * full], family=FAMILIES, weights=RULES, seed=[seed])
    return [one for one in made if one["family"] != "complete" or one["n"] <= _COMPLETE]


def run(trial: Trial) -> list[Row]:
    """The only row of a trial."""
    graph = tp.adjacency_from_name(trial["family"], trial["n"], trial["seed"])
    spectrum = tp.spectrum(tp.weights_from_name(graph, trial["weights"]))
    degrees = np.diff(graph.indptr)
    messages = int(degrees.sum())
    row = {
        **trial,
        "edges": messages // 2,
        "degree_min": int(degrees.min()),
        "degree_mean": float(degrees.mean()),
        "degree_max": int(degrees.max()),
        "diameter": None,
        "lambda_2": spectrum.lambda_2,
        "lambda_min": spectrum.lambda_min,
        "sigma": spectrum.sigma,
        "gap": spectrum.gap,
        "rounds_per_decade": 1.0,
        "bytes_per_round": messages * PAYLOAD,
    }
    if trial["n"] <= _DIAMETER:
        row["diameter"] = tp.diameter(graph)
    if spectrum.sigma >= EXACT:
        row["rounds_per_decade"] = -math.log(10.0) / math.log1p(-spectrum.gap)
    return [{**row, "bytes_per_decade": row["rounds_per_decade"] * messages * PAYLOAD}]


@style()
def figure(rows: DataFrame) -> Figure:
    """The figure of gap, diameter, and bytes to average by a factor of ten, over n, with Metropolis
    weights."""
    drawn, (axes,) = panels(1, 3, (10.5, 3.9))
    drawn.suptitle("Metropolis weights", fontsize=8)
    for family, found in rows[rows["weights"] == "metropolis"].groupby("family", sort=False):
        axes[0].plot(found["n"], found["gap"], label=family.replace("_", " "), **look_of(family))
        axes[1].plot(found["n"], found["diameter"], **look_of(family))
        positive = found[found["bytes_per_decade"] > 0]
        axes[2].plot(positive["n"], positive["bytes_per_decade"] / positive["n"], **look_of(family))
    logarithmic(axes[0], "agents $n$", r"gap $1 - \sigma_W$")
    logarithmic(axes[1], "agents $n$", "diameter")
    logarithmic(axes[2], "agents $n$", "bytes per agent to average ten times closer")
    legend_below(drawn, axes[:1], 7)
    return drawn


def conclusions(rows: DataFrame) -> Iterator[str]:
    """Yield a heading and a table for the largest size of the complete graph.

    The table has the networks with Metropolis weights, in order of their gap.
    """
    n = rows[rows["family"] == "complete"]["n"].max()
    yield f"{n} agents, metropolis weights (bytes: x and y of 50 x 20 along every directed edge)"
    costs = ("rounds_per_decade", "bytes_per_round", "bytes_per_decade")
    largest = rows[(rows["n"] == n) & (rows["weights"] == "metropolis")]
    columns = ("family", "sigma", "gap", "degree_mean", "diameter", *costs)
    yield table(largest.sort_values("gap", kind="stable"), columns)


_SUMMARY = "sigma, gap, degree, diameter and bytes of every family of graphs, over the agents"
STUDY = Study("spectral", _SUMMARY, trials, run, figure, conclusions)
