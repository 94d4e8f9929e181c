"""
All decentralized methods, compared
===================================

Every method of gossip in the package, and three by exact sums along a tree, on six problems and
three graphs, tuned on equal budgets.
::

    python benchmarks/field.py out                              # ten seeds: about 3.5 hours of one core
    python benchmarks/field.py out --fast                       # two seeds, short runs
    python benchmarks/field.py out --fast --problems pca,ica    # some of the problems

Each problem and graph is a comparison in a folder of OUT, as `decentorth compare` writes it; an
interrupted command goes on. A method that cannot run on a problem is left out, and its name is
printed. Accuracies are shares of the gradient norm at the start (of the stationarity for sparse
PCA), and agents must agree to the same share.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import sys
from pathlib import Path

import decentorth as do
import topologies as tp
from decentorth import registry
from decentorth.compare import Comparison, load
from decentorth.lab.compare.command import main as compare
from decentorth.lab.compare.comparison_tables import UNITS, number
from decentorth.lab.compare.methods import methods
from decentorth.protocols import Declared

PROBLEMS = {
    "pca": {"data": "digits", "center": True, "rank": 5},
    "procrustes": {"dimension": 20, "rank": 5, "rows": 20},
    "ica": {"sources": 6, "samples": 200},
    "cca": {"data": "digits", "rank": 2},
    "sparse_pca": {"data": "digits", "center": True, "rank": 5},
    "matrix_completion": {"dimension": 30, "columns": 40, "rank": 3},
}
"""The settings of each problem; digits are the images of scikit-learn, divided evenly over ten
agents."""
GRAPHS = {"ring": "ring", "geometric": "random_geometric", "exponential": "exponential"}
VARIANTS = {
    "drcgd": ("drcgd", "drcgd:tracked=true"),
    "demuon": ("demuon", "demuon:length=nuclear"),
    "drfgt": ("drfgt:order=combine-then-adapt", "drfgt:order=accelerated"),
}
"""Methods that have another form beside the published one."""
SUMS = ("direct", "block_krylov", "lbfgs")
"""The methods of one agent that are run by exact sums along a tree."""
OMITTED = ("auto", "dgd", "gradient_tracking")
"""A name for other methods, and methods without the constraint. Smooth methods run on the smooth
problems alone, and the others on sparse PCA."""
SHARES = (1e-2, 1e-4, 1e-6)
"""The accuracies, as shares of the metric at the start."""
FULL = {"trials": 10, "grid": 8, "tune-seeds": 3, "iterations": 5000, "resolution": 0.01}
FAST = {"trials": 2, "grid": 4, "tune-seeds": 1, "iterations": 1500, "resolution": 0.05}
COSTS = ("iterations", "rounds", "bytes", "gradients", "seconds")


def candidates(name: str) -> tuple[list[str], float]:
    """The methods that run on a problem, and the metric at the start; prints the names of the
    others."""
    settings = registry.problems.get(name)(**PROBLEMS[name])
    problem, W = settings.problem(10, 0), tp.metropolis_weights(tp.ring(10))
    found, start, others = [], 0.0, []
    for each, kind in registry.algorithms.entries().items():
        declared = Declared.of(kind)
        alone = kind.network == "single-agent" and each not in SUMS
        smooth = declared.nonsmooth == (metric(name) == "stationarity")
        if each in OMITTED or alone or not smooth:
            others.append(each)
            continue
        for one in VARIANTS.get(each, (each,)):
            try:
                first = do.solve(problem, methods(one)[one], W, iterations=0).history
            except (ValueError, TypeError):
                others.append(one)
            else:
                start = max(start, float(first[metric(name)][0]))
                found.append(one)
    print(f"{name}: {len(found)} methods run on it; others: {', '.join(others)}\n", flush=True)
    return found, start


def metric(name: str) -> str:
    """The metric of a problem."""
    return "stationarity" if name == "sparse_pca" else "gradient_norm"


def make(
    name: str,
    graph: str,
    named: list[str],
    start: float,
    folder: Path,
    rules: dict[str, float],
    workers: int,
) -> Comparison:
    """Make a comparison in a folder, or read the one that is there."""
    words = [
        "--problem",
        name,
        "--topology",
        GRAPHS[graph],
        "--weights",
        "metropolis",
        "--algorithms",
        ",".join(named),
    ]
    for key, value in PROBLEMS[name].items():
        words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    for key, value in rules.items():
        words += [f"--{key}", f"{value:g}"]
    words += ["--metric", metric(name), "--consensus-factor", f"{1 / start:.3g}"]
    words += ["--tolerances", ",".join(f"{share * start:.3g}" for share in SHARES)]
    words += [
        "--tune",
        "--network",
        "lan",
        "--out",
        str(folder),
        "--no-plot",
        "--quiet",
        "--overwrite",
        "--workers",
        str(workers),
    ]
    print(f"decentorth compare {' '.join(words)}", flush=True)
    if compare(words):
        sys.exit(1)
    return load(folder)


def table(comparison: Comparison) -> str:
    """A row for each method: its costs to the three accuracies, in the median of the trials."""
    rows = [
        ["method", "step", "reached", "iterations", "rounds", "megabytes", "gradients", "seconds"]
    ]
    for entry in comparison.entries:
        lines = [line for line in comparison.lines if line.algorithm == entry.label]
        cells = [[number(line.counts[cost].median, cost) for line in lines] for cost in COSTS]
        reached = "/".join(str(line.reached) for line in lines)
        rows.append([entry.label, entry.step, reached, *(" / ".join(cell) for cell in cells)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    notes = [
        note
        for note in comparison.notes()
        if any(word in note for word in ("did not reach", "own step", "minimisers", " tried."))
    ]
    return "\n".join([*lines, *(f"- {note}" for note in notes)])


def summary(name: str, found: dict[str, Comparison], cost: str) -> str:
    """A Markdown table: a cost to the three accuracies on each graph."""
    lines = [
        f"| {name}, {UNITS.get(cost, (cost,))[0]} | {' | '.join(found)} |",
        f"|---|{'---:|' * len(found)}",
    ]
    for entry in next(iter(found.values())).entries:
        cells = []
        for comparison in found.values():
            own = [
                line.counts[cost].median
                for line in comparison.lines
                if line.algorithm == entry.label
            ]
            cells.append(" / ".join(number(median, cost).replace("inf", "-") for median in own))
        lines.append(f"| `{entry.label}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, help="folder of the comparisons")
    parser.add_argument("--fast", action="store_true", help="two seeds, short runs")
    parser.add_argument(
        "--problems", default=",".join(PROBLEMS), help="some of the problems: pca,ica"
    )
    parser.add_argument(
        "--graphs", default=",".join(GRAPHS), help="some of the graphs: ring,exponential"
    )
    parser.add_argument("--workers", type=int, default=1, help="processes that make runs")
    asked = parser.parse_args()
    summaries = []
    for name in asked.problems.split(","):
        named, start = candidates(name)
        found = {}
        for graph in asked.graphs.split(","):
            folder = asked.out / f"{name}-{graph}"
            found[graph] = make(
                name, graph, named, start, folder, FAST if asked.fast else FULL, asked.workers
            )
            print(f"\n{name} on {graph}\n\n{table(found[graph])}\n", flush=True)
        summaries += [summary(name, found, cost) for cost in ("iterations", "bytes")]
    print("\n\n".join(summaries))


if __name__ == "__main__":
    main()
