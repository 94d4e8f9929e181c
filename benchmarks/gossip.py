"""Rounds of gossip to an answer of 1e-6 without settings, on graphs of ten and fifty agents.

    python benchmarks/gossip.py [--limit 12000] [--cell "ring of 10, wine"] [method ...]

A method is written as in ``decentorth compare``, for example ``drfgt:order=combine-then-adapt``. A
run has arrived when the gradient norm at the agents' projected mean is 1e-6 of that at the start,
and the root mean square distance of the agents from their mean, over sqrt(r), is at most 1e-6.
Counts do not depend on the speed of the machine. Printed as a table in Markdown, with the rounds of
the first method over the fewest of the others; -: not within the limit. The last rows are harder
cases: samples sorted by label, and weights of fastest mixing, with eigenvalues near -1.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets

import topologies as tp
from decentorth.api import Run, set_up
from decentorth.lab.compare.methods import methods
from decentorth.problems import PCA, ICASettings, MatrixCompletionSettings, ProcrustesSettings

TOLERANCE = 1e-6
METHODS = ("drfgt", "drfgt:order=combine-then-adapt", "rfextra")
ENOUGH = 1.2
"""The ratio to the best other method that is counted."""


def components(load: Callable[[], Any], rank: int, by_label: bool = False) -> Callable[[int], Any]:
    """PCA of standardised columns, whose rows are dealt out to the agents at random or sorted."""

    def problem(agents: int) -> PCA:
        data = load()
        X = data.data.astype(float)
        X = X - X.mean(axis=0)
        spread = X.std(axis=0)
        X = X[:, spread > 0] / spread[spread > 0]
        order = np.random.default_rng(0).permutation(len(X))
        if by_label:
            order = np.argsort(data.target, kind="stable")
        return PCA(np.array_split(X[order], agents), rank)

    return problem


PROBLEMS: dict[str, Callable[[int], Any]] = {
    "wine": components(datasets.load_wine, 3),
    "cancer": components(datasets.load_breast_cancer, 5),
    "digits": components(datasets.load_digits, 5),
    "diabetes": components(datasets.load_diabetes, 3),
    "Procrustes": lambda agents: ProcrustesSettings().problem(agents, 0),
    "ICA": lambda agents: ICASettings(sources=5).problem(agents, 0),
    "completion": lambda agents: MatrixCompletionSettings(dimension=40, rank=3).problem(agents, 0),
    "wine by label": components(datasets.load_wine, 3, by_label=True),
    "digits by label": components(datasets.load_digits, 5, by_label=True),
}
GRAPHS: dict[str, Callable[[], Any]] = {
    "ring of 10": lambda: tp.metropolis_weights(tp.ring(10)),
    "random of 10": lambda: tp.metropolis_weights(tp.erdos_renyi(10, 0.4, seed=0)),
    "complete of 10": lambda: tp.metropolis_weights(tp.complete(10)),
    "grid of 50": lambda: tp.metropolis_weights(tp.grid(5, 10)),
    "ring of 50": lambda: tp.metropolis_weights(tp.ring(50)),
    "fastest mixing": lambda: tp.fmmc_weights(tp.ring(10)),
}
CELLS = (
    *(("ring of 10", name) for name in [*PROBLEMS][:7]),
    *(("random of 10", name) for name in ("wine", "cancer", "digits")),
    *(("complete of 10", name) for name in ("wine", "digits", "Procrustes", "ICA", "completion")),
    *((graph, name) for graph in ("grid of 50", "ring of 50") for name in ("wine", "ICA")),
)
HARDER = (
    *(("ring of 10", name) for name in ("wine by label", "digits by label")),
    *(("fastest mixing", name) for name in ("wine", "ICA", "completion")),
)


def rounds(run: Run, limit: int) -> float:
    """The rounds of a run until it has arrived; infinite beyond the limit."""
    problem = run.problem
    first, due = math.nan, 0
    for state in run.states():
        if run.network.rounds > limit:
            return math.inf
        if state.k < due:
            continue
        due = state.k + max(1, state.k // 200)
        mean = state.x.mean(axis=0)
        at = problem.constraint.project(mean[None])
        gradient = problem.gradient(np.repeat(at, len(state.x), axis=0)).mean(axis=0)[None]
        norm = float(np.linalg.norm(problem.constraint.tangent(at, gradient)))
        apart = float(np.linalg.norm(state.x - mean)) / math.sqrt(state.x[..., 0, :].size)
        if state.k == 0:
            first = norm
        if norm <= TOLERANCE * first and apart <= TOLERANCE:
            return float(run.network.rounds)
    return math.inf


def main() -> None:
    """Print the table."""
    arguments = argparse.ArgumentParser(description="Rounds of gossip to an answer of 1e-6.")
    arguments.add_argument("methods", nargs="*", default=METHODS)
    arguments.add_argument("--limit", type=int, default=12_000)
    arguments.add_argument("--cell", action="append", help="several times for several")
    given = arguments.parse_args()
    heads = ["graph, problem", *given.methods, "ratio"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    ratios = []
    for graph, name in (*CELLS, *HARDER):
        cell = f"{graph}, {name}"
        if given.cell and cell not in given.cell:
            continue
        W = GRAPHS[graph]()
        problem = PROBLEMS[name](W.shape[0])
        counts = []
        for text in given.methods:
            (method,) = methods(text).values()
            counts.append(rounds(set_up(problem, method, W, comm="serial"), given.limit))
        words = [f"{count:.0f}" if math.isfinite(count) else "-" for count in counts]
        ratio = counts[0] / min(counts[1:], default=math.nan)
        print(f"| {cell} | {' | '.join(words)} | {ratio:.2f} |", flush=True)
        if (graph, name) in CELLS:
            ratios.append(ratio)
    near = sum(ratio <= ENOUGH for ratio in ratios)
    print(f"at most {ENOUGH:g} in {near} of {len(ratios)}")


if __name__ == "__main__":
    main()
