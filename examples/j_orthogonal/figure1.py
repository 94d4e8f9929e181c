"""
Paper 001: the hyperbolic eigenvalue problem
============================================

Figure 1 of paper 001: objectives of the hyperbolic eigenvalue problem against
processor time, every method from the same start. ::

    # randn10, randn100: some minutes
    python examples/j_orthogonal/figure1.py figure1.png
    python examples/j_orthogonal/figure1.py figure1.png --data randn1000 \\
        --seconds 60

Left the form that is printed, -f/2 at feasible points, without a bound: higher
is further. Right the well-posed form, whose minimum is known: the relative gap,
without its sign, since methods that become feasible only as they converge come
from below.

All numbers: ``docs/papers/001.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from experiment import (
    Task,
    arguments,
    follow,
    mapped,
    methods,
    settings_of,
    start_value,
)

from decentorth.figures import (
    legend_below,
    logarithmic,
    look,
    panels,
    publish,
    style,
)

FURTHEST = 1e6
CLOSEST = 1e-12
"""Curves end at this multiple of the first objective, and at this gap."""


def planned(settings: Any, options: Any) -> list[Task]:
    """The runs of a panel."""
    metric = "error"
    target = CLOSEST
    if settings.form == "as-printed":
        metric = "objective"
        target = FURTHEST * start_value(settings, options.seed, options.start)
    return [
        Task(settings, options.seed, one, options, metric, target)
        for one in methods(settings.form, options.warm).values()
    ]


def draw(panel: Any, form: Any, options: Any, found: Iterator[Any]) -> None:
    """A curve for each method, and a line of print."""
    printed = form == "as-printed"
    for place, label in enumerate(methods(form, options.warm)):
        rows, ending = next(found)
        seconds = [row.seconds for row in rows[1:]]
        values = np.array(
            [
                -0.5 * row.value if printed else abs(row.value)
                for row in rows[1:]
            ]
        )
        looks: Any = {**look(place, marked=len(values) == 1), "linewidth": 1.0}
        panel.loglog(seconds, values, label=label, **looks)
        reached = (
            f"{values.max() if printed else values.min():.3g}"
            if len(values)
            else "nowhere feasible"
        )
        print(
            f"  {label}: {reached} after "
            f"{seconds[-1] if seconds else options.seconds:.3g} s, {ending}",
            flush=True,
        )


@style()
def main() -> None:
    parser = arguments(__doc__ or "", ("randn10", "randn100"), 10.0)
    parser.add_argument("path", nargs="?", default="figure1.png")
    options = parser.parse_args()
    number = len(options.data)
    figure, axes = panels(number, 2, (7.16, 2.3 * number + 1.3))
    forms: Any = ("as-printed", "well-posed")
    every = [
        settings_of(data, form, options.positive, options.ridge, options)
        for data in options.data
        for form in forms
    ]
    found = mapped(
        follow,
        [task for settings in every for task in planned(settings, options)],
        options.jobs,
    )
    for data, row in zip(options.data, axes, strict=True):
        for panel, form in zip(row, forms, strict=True):
            printed = form == "as-printed"
            print(
                f"{data}, {form}: "
                f"{'-f/2, furthest' if printed else 'relative gap, least'}"
            )
            logarithmic(
                panel,
                "processor seconds",
                "$-f/2$" if printed else "relative gap",
            )
            draw(panel, form, options, found)
            panel.set_title(f"{data}, {form}")
    legend_below(figure, [panel for row in axes for panel in row], 3)
    publish(
        figure,
        options.path,
        f"""The hyperbolic eigenvalue problem on {", ".join(options.data)}, seed
        {options.seed}, {options.seconds:g} processor seconds for each method,
        {options.start} start, p = {options.positive or "n / 2"}. As printed: -f/2 at
        feasible points, without a bound. Well posed: the relative gap, without
        its sign. A matrix each, no band. Made by
        examples/j_orthogonal/figure1.py.""",
    )


if __name__ == "__main__":
    main()
