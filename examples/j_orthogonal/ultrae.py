"""
Paper 001: UltraE on a generated graph
======================================

UltraE on a generated graph: J-JOBCD, VR-J-JOBCD and CSDM after the same number of epochs, over seeds, from the same starts. ::

    python examples/j_orthogonal/ultrae.py                                   # five seeds, two minutes
    python examples/j_orthogonal/ultrae.py --data WN18RR --entities 200      # a folder with train.txt and test.txt

An epoch is a gradient of every training triple: one iteration of J-JOBCD and CSDM, and of VR-J-JOBCD as many as take so many
gradients of single triples (values, by which steps are found, are not counted; the seconds have them). Entities and biases
are moved by Adam, whose rate --rate is; the first two methods have three times and twice that, their best of those tried. Filtered
ranks of held-out triples; medians, and ranges over the seeds.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import statistics
from typing import Any

from decentorth import CSDM, JJOBCD, VRJJOBCD
from decentorth.api import Options, Result, set_up
from decentorth.problems import UltraESettings

SIZES = {"entities": 60, "triples": 1500, "dimension": 16, "negatives": 10, "epochs": 200, "seeds": 5}
BATCH, RESTART = 0.25, 0.25
"""Of VR-J-JOBCD: the share of the triples in a difference of gradients, and how often the estimate starts over."""


def methods(triples: int, rate: float) -> dict[str, Any]:
    """The methods, for so many training triples: the first two at the best rates and steps that were tried."""
    return {
        "CSDM": CSDM(learning_rate=3.0 * rate),
        "J-JOBCD": JJOBCD(learning_rate=2.0 * rate, rounds=15),
        "J-JOBCD, one round": JJOBCD(learning_rate=rate),
        "VR-J-JOBCD": VRJJOBCD(
            learning_rate=rate, rounds=15, varsigma="backtracking", batch_size=max(1, round(BATCH * triples)), restart=RESTART
        ),
        "CSDM, same rate": CSDM(learning_rate=rate),
        "CSDM, published steps": CSDM(learning_rate=rate, step_size=5e-3),
    }


def ran(settings: UltraESettings, name: str, epochs: int, rate: float, seed: int) -> Result:
    """A method for so many epochs."""
    triples = int(set_up(settings.problem(1, seed), CSDM(), comm="serial").problem.n_samples[0])
    run = set_up(settings.problem(1, seed), methods(triples, rate)[name], seed=seed, comm="serial")
    return run.solve(
        Options(iterations=round(epochs / (RESTART + (1.0 - RESTART) * 2.0 * BATCH)) if "VR" in name else epochs, rows=2)
    )


def words(values: list[float], digits: int) -> str:
    """The median and the range."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="planted")
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rate", type=float, default=0.01, help="Adam's")
    given = parser.parse_args()
    settings = UltraESettings(
        data=given.data, entities=given.entities, triples=given.triples, dimension=given.dimension, negatives=given.negatives
    )
    mrr: dict[str, list[float]] = {}
    for name in methods(1, given.rate):
        results = [ran(settings, name, given.epochs, given.rate, seed) for seed in range(given.seeds)]
        starts = statistics.median(float(result.history["objective"][0]) for result in results)
        ends = {measure: [result.row.values[measure] for result in results] for measure in results[0].row.values}
        mrr[name] = ends["mrr"]
        above = sum(own > other for own, other in zip(mrr[name], mrr["CSDM"], strict=True))
        print(
            f"{name}: loss {starts:.3g} -> {words(ends['objective'], 2)}, MRR {words(mrr[name], 3)}, above CSDM's in {above} of "
            f"{given.seeds}, hits@1 {words(ends['hits_at_1'], 2)}, hits@10 {words(ends['hits_at_10'], 2)}, feasibility "
            f"{max(ends['feasibility']):.0e}, {statistics.median(result.seconds['compute'] for result in results):.2g} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
