"""Figures: panels and their style, the histories of runs, and how figures are saved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from .flags import InputError, unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

History = Mapping[str, NDArray[Any]]
Against = Literal["iterations", "rounds", "bytes", "seconds"]

COLOURS = ("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7f7f7f")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1, 1, 1)), (0, (8, 2, 2, 2)), (0, (2, 1)))
LABELS = {
    "local_gradient_sum": r"$\sum_i \|\mathrm{grad}\,f_i(x_i)\|_F$",
    "gradient_norm": r"$\|\mathrm{grad}\,f(\hat x)\|_F$",
    "consensus_error": r"$\sum_i \|x_i - \bar x\|_F$",
    "consensus_rms": r"consensus $(\frac{1}{n}\sum_i \|x_i - \hat x\|_F^2)^{1/2}$",
    "distance_to_manifold": r"$\sum_i \mathrm{dist}(x_i, \mathcal{M})$",
    "feasibility": r"feasibility $\max_i \|x_i^\top x_i - I\|_F$",
    "iterations": "iteration $k$",
    "rounds": "rounds of messages",
    "bytes": "bytes sent, all agents",
    "seconds": "seconds",
}

PANELS: tuple[tuple[str, ...], ...] = (("local_gradient_sum", "gradient_norm"), ("consensus_error",), ("distance_to_manifold",))
"""The metrics of each panel of Figure 1; the second of a panel is drawn thin beside the first."""
WIDTHS = (1.3, 0.6)
DECADES = 30.0
"""A logarithmic axis spans at least about this factor."""
COLUMN = 3.5
"""Width of a paper's column in inches."""


def panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """A figure of ``size`` in inches, and its empty panels by row and column."""
    try:
        import matplotlib.figure  # noqa: F401  # refused here where it is missing

        from topologies.pictures import Picture
    except ImportError:
        raise InputError('figures need matplotlib: pip install "decentorth[plot]"') from None
    figure = Picture(figsize=size, layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **shared)
    for each in axes.flat:
        each.tick_params(labelsize=7, which="both")
        each.grid(which="major", linewidth=0.3, color="0.85")
    return figure, axes


def check_metrics(metrics: Iterable[str], present: Collection[str]) -> None:
    """Raise unless the histories have all metrics to be drawn."""
    for name in metrics:
        if name not in present:
            raise unknown(f"no run has the metric {name!r} (there are {', '.join(sorted(present))})", name, present, "")


def label(name: str) -> str:
    """The label of an axis that shows a column of the history."""
    return LABELS.get(name, name.replace("_", " "))


def logarithmic(axes: Axes, x: str = "", y: str = "") -> None:
    """Make the axes logarithmic, with these labels."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)


def say_empty(axes: Axes) -> None:
    """Say in a panel with logarithmic axes that none of its numbers can be shown on them."""
    axes.text(0.5, 0.5, "nothing above zero", transform=axes.transAxes, ha="center", va="center", fontsize=7)


def plot_histories(
    histories: Mapping[str, History],
    *,
    against: Against = "iterations",
    metrics: Sequence[str] | None = None,
    linear: bool = False,
) -> Figure:
    """A figure of a paper's column width, one panel below the other, of the columns of each run by its label.

    There is a panel for each metric, by default the three of Figure 1, or the objective where a run has none of them. Logarithmic
    axes leave out zeros, and with them iteration 0, and a grey guide shows the slope O(1/K). Raises InputError for no histories, a
    metric that no run has, or a missing matplotlib.
    """
    shown = _shown(histories, metrics)
    height = 0.5 + 1.45 * len(shown) + 0.17 * (len(histories) > 1) * len(histories)
    figure, columns = panels(len(shown), 1, (COLUMN, height), sharex=True)
    rows = [row[0] for row in columns]
    column = "iteration" if against == "iterations" else against
    if not linear:
        _logarithmic(rows, np.concatenate([history[column] for history in histories.values()]))
    for axes, names in zip(rows, shown, strict=True):
        _draw(axes, histories, column, names, linear=linear)
    rows[-1].set_xlabel(LABELS[against], fontsize=8)
    if len(histories) > 1:
        handles = [next(line for line in axes.lines if line.get_label() == run) for run in histories]
        figure.legend(handles=handles, loc="outside upper center", ncols=1, fontsize=7, frameon=False)
    return figure


def _shown(histories: Mapping[str, History], metrics: Sequence[str] | None) -> list[tuple[str, ...]]:
    if not histories:
        raise InputError("nothing to plot: give the folder of at least one run")
    present = {name for history in histories.values() for name in history}
    if metrics:
        check_metrics(metrics, present)
        return [(name,) for name in metrics]
    found = [tuple(name for name in panel if name in present) for panel in PANELS]
    return [panel for panel in found if panel] or [("objective",)]


def _logarithmic(rows: Sequence[Axes], x: NDArray[Any]) -> None:
    """Make the axes logarithmic before lines are drawn: matplotlib warns if a line has no positive values."""
    from matplotlib.ticker import NullFormatter

    for axes in rows:
        axes.set_xscale("log", nonpositive="mask")
        axes.set_yscale("log", nonpositive="mask")
        axes.set_autoscale_on(False)
        axes.yaxis.set_minor_formatter(NullFormatter())
    shown = x[x > 0]
    if len(shown):
        rows[0].set_xlim(shown.min(), max(shown.max(), 1.001 * shown.min()))


def _draw(axes: Axes, histories: Mapping[str, History], column: str, names: Sequence[str], *, linear: bool) -> None:
    drawn = []
    for number, (run, history) in enumerate(histories.items()):
        style = {"color": COLOURS[number % len(COLOURS)], "linestyle": DASHES[number % len(DASHES)]}
        for thin, name in enumerate(names):
            if name in history:
                x, y = history[column], history[name]
                axes.plot(x, y, linewidth=WIDTHS[thin], label=f"_{run}" if thin else run, gid=name, **style)
                drawn.append((x, y))
    if not linear:
        _fit(axes, drawn)
    if len(names) > 1:
        from matplotlib.lines import Line2D

        axes.set_ylabel("gradient norms", fontsize=8)
        handles = [
            Line2D([], [], color="0.3", linewidth=width, label=label(name)) for name, width in zip(names, WIDTHS, strict=False)
        ]
        axes.legend(handles=handles, ncols=2, frameon=False, fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 0.97))
    else:
        axes.set_ylabel(label(names[0]), fontsize=8)


def _fit(axes: Axes, drawn: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
    """Fit logarithmic axes to the values that they can show, and draw the guide; with no such value, say so in the panel."""
    shown = [(x > 0) & (y > 0) & np.isfinite(y) for x, y in drawn]
    if not any(mask.any() for mask in shown):
        say_empty(axes)
        return
    y = np.concatenate([y[mask] for (_, y), mask in zip(drawn, shown, strict=True)])
    few = max(1.0, DECADES**0.5 * (y.min() / y.max()) ** 0.5)  # so that the axis spans whole powers of ten
    axes.set_ylim(y.min() / (1.6 * few), y.max() * 1.6 * few)
    (left, right), (bottom, top) = np.log10(axes.get_xlim()), np.log10(axes.get_ylim())
    start = (left + 0.05 * (right - left), bottom + 0.5 * (top - bottom))
    length = min(0.4 * (right - left), 0.42 * (top - bottom))
    ends = 10 ** np.array([start, (start[0] + length, start[1] - length)])
    axes.plot(ends[:, 0], ends[:, 1], color="0.6", linewidth=0.7, label="_guide", gid="guide")
    axes.annotate("$O(1/K)$", tuple(ends[1]), xytext=(2, -1), textcoords="offset points", fontsize=6, color="0.4", va="center")


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of its name."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"{path}: a figure must end in .png, .svg or .pdf")
    try:
        figure.savefig(path, dpi=200)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
