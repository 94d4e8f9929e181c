"""Figure 1 of paper 001: objectives of the hyperbolic eigenvalue problem against seconds, every method from the same start.

    python examples/j_orthogonal/figure1.py figure1.png                             # randn10, randn100: some minutes
    python examples/j_orthogonal/figure1.py figure1.png --data randn1000 --seconds 60

Above the form that is printed, -f/2 at feasible points, without a bound: higher is further. Below the well-posed form, whose
minimum is known: the relative gap, without its sign, since methods that become feasible only as they converge come from below.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from experiment import arguments, compared, feasible, settings_of, start_value

FURTHEST, CLOSEST = 1e6, 1e-12
"""Curves end at so many times the objective of the start, and at this gap."""


def draw(panel: Any, comparison: Any, printed: bool) -> None:
    """A curve for each method, and a line of print."""
    for place, entry in enumerate(comparison.entries):
        (trace,) = entry.traces
        kept = np.flatnonzero(feasible(trace.history))[1:]
        values = -0.5 * trace.history["objective"][kept] if printed else np.abs(trace.history["error"][kept])
        look = {"color": f"C{place % 10}", "linestyle": "--" if "published" in entry.label else "-"}
        marker = "." if len(kept) == 1 else ""
        panel.loglog(trace.history["seconds"][kept], values, label=entry.label, linewidth=1.2, marker=marker, **look)
        reached = f"{values.max() if printed else values.min():.3g}" if len(values) else "nowhere feasible"
        print(f"  {entry.label}: {reached} after {trace.history['seconds'][-1]:.3g} s, {trace.status}")


def main() -> None:
    parser = arguments(__doc__ or "", ("randn10", "randn100"), 10.0)
    parser.add_argument("path", nargs="?", default="figure1.png")
    options = parser.parse_args()
    columns = len(options.data)
    figure, axes = plt.subplots(2, columns, figsize=(4.2 * columns, 7.5), layout="constrained", squeeze=False)
    for column, data in enumerate(options.data):
        for row, form in enumerate(("as-printed", "well-posed")):
            settings = settings_of(data, form, options.positive, options.ridge)
            printed = form == "as-printed"
            target = FURTHEST * start_value(settings, options.seed) if printed else CLOSEST
            print(f"{data}, {form}: {'-f/2, furthest' if printed else 'relative gap, least'}")
            draw(axes[row, column], compared(settings, [target], options.seconds, options.warm, options.seed), printed)
            axes[row, column].set(title=f"{data}, {form}", xlabel="seconds", ylabel="$-f/2$" if printed else "relative gap")
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    figure.savefig(options.path, dpi=150)


if __name__ == "__main__":
    main()
