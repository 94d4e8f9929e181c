"""
Paper 001: ADMM and its penalty
===============================

Table 3 and figure 3 of paper 001: ADMM on the hyperbolic eigenvalue problem with a constant beta and one that doubles. ::

    python examples/j_orthogonal/table3.py                     # randn10 and randn100, a quarter of a minute
    python examples/j_orthogonal/table3.py --full              # randn1000 too, 200 iterations of it: many minutes
    python examples/j_orthogonal/table3.py --seeds 10          # ten matrices of each size, medians: ten minutes
    python examples/j_orthogonal/table3.py --data my.svmlight --iterations 500

Shown are the objective and the feasibility ``(1/n^2) sum |x^T J x - J|`` after the last iteration: of the printed form, which is
unbounded below, half of the objective, and of the well-posed form, whose minimum is known, the relative gap. Beta doubles every
five iterations up to 1e9. Last stands the default of this package, a constant 0.3 L with f's Lipschitz constant L. The paper has
the first six after 30 s on a GPU machine.
"""

from __future__ import annotations

import argparse
import statistics

import numpy as np
from experiment import settings_of, start_value

import decentorth as do

METHODS = {
    **{f"constant {beta:.0e}": do.JADMM(penalty=beta) for beta in (1e5, 1e7, 1e9)},
    **{f"doubled from {beta:.0e}": do.JADMM(penalty=beta, schedule="published") for beta in (1e3, 1e5, 1e7)},
    "constant 0.3 L": do.JADMM(),
}


def cell(data: str, form: str, method: do.JADMM, iterations: int, seeds: int) -> str:
    """What a method ends with: half the objective or the relative gap, and the feasibility, medians over the seeds."""
    settings, reached, feasibility = settings_of(data, form, None, 0.0), [], []
    for seed in range(seeds):
        with np.errstate(over="ignore", invalid="ignore"):
            result = do.solve(settings.problem(1, seed), method, iterations=iterations, rows=2, comm="serial")
        if result.status == "diverged":
            return "diverged"
        values = result.row.values
        reached.append(0.5 * values["objective"] if form == "as-printed" else values["error"])
        feasibility.append(values["feasibility"])
    return f"{statistics.median(reached):.2e} ({statistics.median(feasibility):.0e})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", nargs="+", default=["randn10", "randn100"], help="randn10 and so on, or files with a sample a row"
    )
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=1, help="matrices of each size")
    parser.add_argument("--full", action="store_true", help="200 iterations of randn1000 too")
    options = parser.parse_args()
    sizes = [(data, options.iterations) for data in options.data] + ([("randn1000", 200)] if options.full else [])
    for data, iterations in sizes:
        starts = [start_value(settings_of(data, "as-printed", None, 0.0), seed) for seed in range(options.seeds)]
        start = 0.5 * statistics.median(starts)
        print(f"{data}, {iterations} iterations, seeds: {options.seeds}; ", end="")
        print(f"half objective of the printed form at the start {start:.3g}")
        print(f"  {'beta':18s} {'printed form: half objective':>30s} {'well-posed form: relative gap':>30s}")
        for name, method in METHODS.items():
            cells = [cell(data, form, method, iterations, options.seeds) for form in ("as-printed", "well-posed")]
            print(f"  {name:18s} {cells[0]:>30s} {cells[1]:>30s}", flush=True)


if __name__ == "__main__":
    main()
