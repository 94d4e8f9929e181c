"""
Paper 001: the hyperbolic eigenvalue problem
============================================

Figure 1 of paper 001: objectives of the hyperbolic eigenvalue problem against processor time, every method from the same start. ::

    python examples/j_orthogonal/figure1.py figure1.png                             # randn10, randn100: some minutes
    python examples/j_orthogonal/figure1.py figure1.png --data randn1000 --seconds 60

Above the form that is printed, -f/2 at feasible points, without a bound: higher is further. Below the well-posed form, whose
minimum is known: the relative gap, without its sign, since methods that become feasible only as they converge come from below.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from experiment import arguments, followed, methods, settings_of, start_value

FURTHEST, CLOSEST = 1e6, 1e-12
"""Curves end at so many times the objective of the start, and at this gap."""


def draw(panel: Any, settings: Any, options: Any, target: float) -> None:
    """A curve for each method, and a line of print."""
    printed = settings.form == "as-printed"
    for place, (label, method) in enumerate(methods(settings.form, options.warm).items()):
        metric = "objective" if printed else "error"
        rows, ending = followed(settings.problem(1, options.seed), method, options, metric, target)
        seconds = [row.seconds for row in rows[1:]]
        values = np.array([-0.5 * row.value if printed else abs(row.value) for row in rows[1:]])
        look = {"color": f"C{place % 10}", "linestyle": ":" if ", then" in label else "--" if "published" in label else "-"}
        panel.loglog(seconds, values, label=label, linewidth=1.2, marker="." if len(values) == 1 else "", **look)
        reached = f"{values.max() if printed else values.min():.3g}" if len(values) else "nowhere feasible"
        print(f"  {label}: {reached} after {seconds[-1] if seconds else options.seconds:.3g} s, {ending}")


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
            draw(axes[row, column], settings, options, target)
            axes[row, column].set(title=f"{data}, {form}", xlabel="seconds", ylabel="$-f/2$" if printed else "relative gap")
    handles, labels = axes[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=7, frameon=False)
    figure.savefig(options.path, dpi=150)


if __name__ == "__main__":
    main()
