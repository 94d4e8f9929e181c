"""
Paper 001: the hyperbolic eigenvalue problem
============================================

Figure 1 of paper 001: objectives of the hyperbolic eigenvalue problem against processor time, every method from the same start. ::

    python examples/j_orthogonal/figure1.py figure1.png                             # randn10, randn100: some minutes
    python examples/j_orthogonal/figure1.py figure1.png --data randn1000 --seconds 60

Left the form that is printed, -f/2 at feasible points, without a bound: higher is further. Right the well-posed form, whose
minimum is known: the relative gap, without its sign, since methods that become feasible only as they converge come from below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from experiment import arguments, followed, methods, settings_of, start_value

from decentorth.records.figures import logarithmic, look, panels, style
from decentorth.records.publication import legend_below, publish

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
        looks: Any = {**look(place, marked=len(values) == 1), "linewidth": 1.0}
        panel.loglog(seconds, values, label=label, **looks)
        reached = f"{values.max() if printed else values.min():.3g}" if len(values) else "nowhere feasible"
        print(f"  {label}: {reached} after {seconds[-1] if seconds else options.seconds:.3g} s, {ending}")


@style()
def main() -> None:
    parser = arguments(__doc__ or "", ("randn10", "randn100"), 10.0)
    parser.add_argument("path", nargs="?", default="figure1.png")
    options = parser.parse_args()
    number = len(options.data)
    figure, axes = panels(number, 2, (7.16, 2.3 * number + 1.3))
    for data, row in zip(options.data, axes, strict=True):
        for panel, form in zip(row, ("as-printed", "well-posed"), strict=True):
            settings = settings_of(data, form, options.positive, options.ridge, options)
            printed = form == "as-printed"
            target = FURTHEST * start_value(settings, options.seed) if printed else CLOSEST
            print(f"{data}, {form}: {'-f/2, furthest' if printed else 'relative gap, least'}")
            logarithmic(panel, "processor seconds", "$-f/2$" if printed else "relative gap")
            draw(panel, settings, options, target)
            panel.set_title(f"{data}, {form}")
    legend_below(figure, [panel for row in axes for panel in row], 3)
    publish(
        figure,
        options.path,
        f"""The hyperbolic eigenvalue problem on {", ".join(options.data)}, seed {options.seed}, {options.seconds:g} processor
        seconds for each method, from x = I, p = {options.positive or "n / 2"}. As printed: -f/2 at feasible points, without a
        bound. Well posed: the relative gap, without its sign. A matrix each, no band. Made by examples/j_orthogonal/figure1.py.""",
    )


if __name__ == "__main__":
    main()
