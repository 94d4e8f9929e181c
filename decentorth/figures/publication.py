"""Figures for a paper: one style, three formats, and a caption beside them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .canvas import look, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def publish(figure: Figure, path: str | Path, caption: str) -> None:
    """Write a figure as PNG, PDF and SVG, and its caption to a text file of the same name.

    Parameters
    ----------
    path
        A name that ends in .png.
    caption
        What is shown, with sizes, settings and seeds.
    """
    place = Path(path)
    for ending in (".png", ".pdf", ".svg"):
        save(figure, place.with_suffix(ending))
    place.with_suffix(".caption.txt").write_text(" ".join(caption.split()) + "\n", encoding="utf-8")


def band(axes: Axes, x: ArrayLike, runs: ArrayLike, place: int, label: str, **more: Any) -> None:
    """Draw the median of runs ``(seeds, points)`` and their range, whose edges stay visible in
    grey."""
    values = np.asarray(runs)
    own = look(place) | more
    axes.plot(x, np.median(values, axis=0), label=label, **own)
    if len(values) > 1:
        low = values.min(axis=0)
        high = values.max(axis=0)
        axes.fill_between(x, low, high, color=own["color"], alpha=0.12, linewidth=0)
        for edge in (low, high):
            axes.plot(x, edge, color=own["color"], linewidth=0.3, linestyle=own["linestyle"])


def legend_below(figure: Figure, axes: Sequence[Axes], columns: int) -> None:
    """Put one legend of all curves of the axes below the panels."""
    lines = {str(line.get_label()): line for each in axes for line in each.lines}
    found = {name: line for name, line in lines.items() if not name.startswith("_")}
    figure.legend([*found.values()], [*found], loc="outside lower center", ncols=columns)
