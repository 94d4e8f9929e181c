"""The scaling study: seconds and memory of DRFGT on tori from 12 agents to 100,000, 10 x 3 variables each.

Procrustes with 10 rows an agent, automatic step. ``seconds`` is the median over blocks of iterations of the time of one; ``peak``
the largest resident memory of the process so far, so that trials go from small to large in one process.
"""

from __future__ import annotations

import itertools
import resource
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

import topologies as tp

from ..algorithms import DRFGT
from ..api import Run
from ..cli.dryrun import held
from ..cli.figures import logarithmic, panels
from ..problems import Procrustes
from .sweep import Row, Rows, Study, Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIMENSION, RANK, ROWS = 10, 3, 10
SIDES = ((3, 4), (5, 6), (10, 10), (15, 20), (25, 40), (50, 60), (100, 100), (150, 200), (250, 400))
_DEFAULT = 10_000
_REFERENCE = 1000
"""The number of agents whose cost per edge is the reference."""
_BLOCKS = 5
_BLOCK_SECONDS = 0.3


def trials(full: bool, seed: int) -> list[Trial]:
    """The trials: tori up to 10,000 agents, or up to 100,000."""
    sizes = [sides for sides in SIDES if full or sides[0] * sides[1] <= _DEFAULT]
    return [{"torus": f"{a}x{b}", "n": a * b, "seed": seed} for a, b in sizes]


def run(trial: Trial) -> list[Row]:
    """The only row of a trial."""
    n, seed = int(trial["n"] or 0), int(trial["seed"] or 0)
    begun = time.perf_counter()
    W = tp.metropolis_weights(tp.adjacency_from_name(f"torus:{trial['torus']}"))
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(n,)))
    problem = Procrustes(rng.standard_normal((n, ROWS, DIMENSION)), rng.standard_normal((n, RANK, ROWS)))
    made = Run(problem, DRFGT(order="combine-then-adapt"), W, seed=seed, comm="serial")
    states = made.states()
    state = next(states)
    setup = time.perf_counter() - begun
    first = float(np.linalg.norm(state.tracker.mean(0)))
    times: list[float] = []
    length = 1
    while len(times) < _BLOCKS:
        begun = time.perf_counter()
        state = next(itertools.islice(states, length - 1, None))
        seconds = time.perf_counter() - begun
        if seconds < _BLOCK_SECONDS and not times:
            length *= 2  # a warm-up, until a block is long enough for the clock's resolution
        else:
            times.append(seconds / length)
    edges = (made.network.W.nnz - made.network.n_agents) // 2
    return [
        {
            **trial,
            "edges": edges,
            "setup_seconds": setup,
            "seconds": float(np.median(times)),
            "seconds_per_edge": float(np.median(times)) / edges,
            "state_bytes": held(state),
            "data_bytes": held(made.problem),
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024),
            "iterations": int(state.k),
            "progress": float(np.linalg.norm(state.tracker.mean(0))) / first,
        }
    ]


def figure(rows: Rows) -> Figure:
    """The figure of seconds per iteration and memory against edges, with linear guides."""
    drawn, (axes,) = panels(1, 2, (7.0, 3.9))
    edges = np.array([row["edges"] for row in rows], dtype=np.float64)
    seconds = np.array([row["seconds"] for row in rows])
    axes[0].plot(edges, seconds, "o-", color="#0072b2", markersize=3.5, linewidth=0.8, label="an iteration")
    axes[0].plot(
        edges, [row["setup_seconds"] for row in rows], "s-", color="#d55e00", markersize=3.5, linewidth=0.8, label="set-up"
    )
    axes[0].plot(edges, seconds[-1] * edges / edges[-1], color="0.6", linewidth=0.7, label="linear")
    for name, mark in (("state_bytes", "o"), ("data_bytes", "s"), ("peak_bytes", "D")):
        axes[1].plot(edges, [row[name] for row in rows], f"{mark}-", markersize=3.5, linewidth=0.8, label=name.partition("_")[0])
    logarithmic(axes[0], "edges", "seconds")
    logarithmic(axes[1], "edges", "bytes")
    for each in axes:
        each.legend(fontsize=7, frameon=False)
    return drawn


def conclusions(rows: Rows) -> Iterator[str]:
    """The lines of the table, and the cost of an edge relative to that at 1000 agents."""
    yield f"{'agents':>8}{'edges':>9}{'s/iteration':>13}{'ns/edge':>9}{'set-up s':>10}{'state MB':>10}{'data MB':>9}{'peak MB':>9}"
    for row in rows:
        megabytes = [row[name] / 1e6 for name in ("state_bytes", "data_bytes", "peak_bytes")]
        cost = f"{row['seconds']:>13.3g}{1e9 * row['seconds_per_edge']:>9.0f}{row['setup_seconds']:>10.2f}"
        yield f"{row['n']:>8}{row['edges']:>9}{cost}" + "{:>10.1f}{:>9.1f}{:>9.0f}".format(*megabytes)
    reference = next(row for row in rows if row["n"] == _REFERENCE)
    ratio = rows[-1]["seconds_per_edge"] / reference["seconds_per_edge"]
    yield f"an edge at {rows[-1]['n']} agents costs {ratio:.2f} times what it costs at {_REFERENCE} (1: linear)"


STUDY = Study(
    name="scaling",
    summary="seconds and memory of DRFGT on tori, 10 x 3 variables an agent, over the number of agents",
    key=("torus", "n", "seed"),
    columns=(
        *("torus", "n", "seed", "edges", "setup_seconds", "seconds", "seconds_per_edge"),
        *("state_bytes", "data_bytes", "peak_bytes", "iterations", "progress"),
    ),
    trials=trials,
    run=run,
    figure=figure,
    conclusions=conclusions,
    workers=1,
)
