"""What the studies' figures share: axes in a row, a colour and a mark for each family."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..cli.flags import InputError
from .families import FAMILIES
from .sweep import Rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#56b4e9", "#e69f00")
MARKS = "osD^v"
WIDTH = 3.5


def panels(number: int) -> tuple[Figure, Sequence[Axes]]:
    """A figure of square panels side by side.

    Raises
    ------
    InputError
        Without matplotlib.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError('figures need matplotlib: pip install "decentorth[plot]"') from None
    figure = Figure(figsize=(WIDTH * number, 3.9), layout="constrained")
    axes = figure.subplots(1, number, squeeze=False)[0]
    for each in axes:
        each.tick_params(labelsize=7, which="both")
        each.grid(which="major", linewidth=0.3, color="0.85")
    return figure, axes


def logarithmic(axes: Axes, x: str, y: str) -> None:
    """Logarithmic axes with these labels."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)


def style(family: str) -> dict[str, Any]:
    """Colour and mark of a family; the two counts have no common factor, so no pair comes twice."""
    number = FAMILIES.index(family)
    return {"color": COLOURS[number % len(COLOURS)], "marker": MARKS[number % len(MARKS)], "markersize": 3.5, "linewidth": 0.8}


def legend(figure: Figure, axes: Axes, columns: int) -> None:
    """One legend below all panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=7, frameon=False)


def where(rows: Rows, **wanted: Any) -> list[dict[str, Any]]:
    """The rows with these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]
