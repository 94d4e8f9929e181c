"""Figures of the histories of runs: a panel for each metric, a curve for each run."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from topologies.line.flags import InputError

from ..running.history import Column, Columns
from .canvas import Look, Scale, check_known, look, panels, say_empty, scales, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Against = Literal["iterations", "rounds", "bytes", "gradients", "seconds"]
Width = Literal["column", "page"]
LABELS = {
    "gradient_norm": "gradient norm\n" r"$\|\mathrm{grad}\,f(\hat x)\|_F$",
    "consensus_error": "disagreement\n" r"$\sum_i \|x_i - \bar x\|_F$",
    "consensus_rms": "disagreement (rms)\n" r"$(\frac{1}{n}\sum_i \|x_i - \hat x\|_F^2)^{1/2}$",
    "distance_to_manifold": "distance from the set\n" r"$\sum_i \mathrm{dist}(x_i, \mathrm{M})$",
    "feasibility": "feasibility\n" r"$\max_i \|x_i^\top x_i - I\|_F$",
    "iterations": "iteration $k$",
    "rounds": "rounds of messages",
    "bytes": "bytes sent, all agents",
    "gradients": "gradients of each agent",
    "seconds": "seconds",
}

PANELS: tuple[tuple[str, ...], ...] = (
    ("gradient_norm", "local_gradient_sum"),
    ("consensus_error",),
    ("distance_to_manifold",),
)
"""The metrics of each panel of Figure 1; the second of a panel is drawn thin and grey beside the
first."""
THIN_CURVE = "thin: sum over agents"
"""The title of a panel with a thin curve."""
THICK, THIN = 1.3, 0.6
DECADES = 30.0
"""A logarithmic axis spans at least about this factor."""


class PaperWidth(NamedTuple):
    """A width of a figure in a paper."""

    inches: float
    abreast: int
    """The number of panels beside each other."""
    height: float
    """The inches of a row of panels."""
    letters: int
    """The characters of a line of the legend."""


WIDTHS: dict[Width, PaperWidth] = {
    "column": PaperWidth(3.5, 1, 1.45, 62),
    "page": PaperWidth(7.16, 3, 2.1, 130),
}
"""One and two columns of a paper."""


def check_metrics(metrics: Iterable[str], present: Collection[str]) -> None:
    """Raise unless the histories have all metrics to be drawn."""
    check_known("no run has the metric", metrics, sorted(present))


def label(name: str) -> str:
    """The label of an axis that shows a column of the history."""
    return LABELS.get(name, name.replace("_", " "))


@style()
def plot_histories(
    histories: Mapping[str, Columns],
    *,
    against: Against = "iterations",
    metrics: str | Sequence[str] | None = None,
    x: Scale = "linear",
    y: Scale = "log",
    width: Width = "column",
    guide: bool = False,
) -> Figure:
    """A figure of a paper's column or page, of the columns of each run by its label.

    There is a panel for each metric, by default the three of Figure 1, or the objective where a run
    has none of them; in a column they stand below each other, across a page beside each other. By
    default the y axis is logarithmic, which makes linear convergence a straight line; zeros are
    left out there, and an objective that is not positive gets a linear axis.

    Parameters
    ----------
    x, y
        The scales of the axes.
    guide
        Draw the slope O(1/K), a line on two logarithmic axes.

    Raises
    ------
    InputError
        No histories, a metric that no run has, an unknown count or width, a guide on other axes, or
        no matplotlib.
    """
    if guide and (x, y) != ("log", "log"):
        raise InputError("the guide O(1/K) is a line where both axes are logarithmic: give x log")
    shown = _shown(histories, [metrics] if isinstance(metrics, str) else metrics)
    check_known("unknown count", [against], get_args(Against))
    check_known("unknown width", [width], WIDTHS)
    layout = WIDTHS[width]
    column = {"iterations": "iteration"}.get(against, against)
    rows = -(-len(shown) // layout.abreast)
    columns = min(len(shown), layout.abreast)
    names = {run: textwrap.fill(run, layout.letters) for run in histories}
    several = len(histories) > 1
    across = 1
    if width == "page" and all(len(name) < layout.letters / 2 for name in names.values()):
        across = 2
    lines = several * sum(name.count("\n") + 1 for name in names.values())
    size = layout.inches, layout.height * rows + 0.5 + 0.15 * lines / across
    figure, grid = panels(rows, columns, size, sharex=True)
    axes = [each for row in grid for each in row]
    for spare in axes[len(shown) :]:
        spare.remove()
    for place, (each, panel) in enumerate(zip(axes, shown, strict=False)):
        scale = y
        if panel[0] == "objective" and any(
            (one["objective"] <= 0).any() for one in histories.values()
        ):
            scale = "linear"
        scales(each, x, scale)
        each.set_autoscaley_on(each.get_yscale() != "log")
        each.set_xmargin(0.0)
        _draw(each, histories, column, panel)
        if guide:
            _guide(each)
        if place >= len(shown) - columns:
            each.set_xlabel(LABELS[against])
            each.tick_params(labelbottom=True)
    if several:
        found = {line.get_label(): line for each in axes for line in each.lines}
        handles = [found[run] for run in histories]
        labels = [*names.values()]
        figure.legend(handles=handles, labels=labels, loc="outside upper center", ncols=across)
    return figure


def _shown(
    histories: Mapping[str, Columns], metrics: Sequence[str] | None
) -> list[tuple[str, ...]]:
    """The metrics of each panel: the given ones, or those of Figure 1, or the objective."""
    if not histories:
        raise InputError("nothing to plot: give the folder of at least one run")
    present = {name for history in histories.values() for name in history}
    if metrics:
        check_metrics(metrics, present)
        return [(name,) for name in metrics]
    found = [tuple(name for name in panel if name in present) for panel in PANELS]
    if not any(found):
        check_metrics(["objective"], present)
    return [panel for panel in found if panel] or [("objective",)]


def _draw(axes: Axes, histories: Mapping[str, Columns], column: str, names: Sequence[str]) -> None:
    """Draw the metrics of a panel: the first thick, with markers if there are several runs, and the
    second thin."""
    several = len(histories) > 1
    drawn = []
    for number, (run, history) in enumerate(histories.items()):
        marks = {"markevery": (0.02 + 0.18 * number / len(histories), 0.18), "markersize": 3.0}
        thick = {"label": run, "linewidth": THICK, **look(number, marked=several), **marks}
        thin = {"label": f"_{run}", "linewidth": THIN, **look(number), "color": "0.55"}
        for name, looks in zip(names, (thick, thin), strict=False):
            if name in history:
                axes.plot(history[column], history[name], gid=name, **looks)
                drawn.append(history[name])
    if axes.get_yscale() == "log":
        _fit(axes, drawn)
    axes.set_ylabel(label(names[0]))
    if len(names) > 1:
        axes.set_title(THIN_CURVE, fontsize=7, color="0.4")


def _fit(axes: Axes, drawn: Sequence[Column]) -> None:
    """Fit a logarithmic vertical axis to the values that the panel can show; with no such value,
    say so in the panel.

    Below, the start does not count, where agents are equal up to rounding.
    """
    values = np.concatenate([y[1:] if len(y) > 1 else y for y in drawn])
    values = values[(values > 0) & np.isfinite(values)]
    if not len(values):
        say_empty(axes)
        return
    starts = [y[0] for y in drawn if np.isfinite(y[0])]
    low = values.min()
    high = max([values.max(), *starts])
    # so that the axis spans whole powers of ten
    few = max(1.0, (DECADES * low / high) ** 0.5)
    axes.set_ylim(low / (1.6 * few), high * 1.6 * few)


def _guide(axes: Axes) -> None:
    """Draw the slope O(1/K) from the middle of the left edge."""
    (left, right), (bottom, top) = np.log10(axes.get_xlim()), np.log10(axes.get_ylim())
    start = (left + 0.05 * (right - left), bottom + 0.5 * (top - bottom))
    length = min(0.4 * (right - left), 0.42 * (top - bottom))
    ends = 10 ** np.array([start, (start[0] + length, start[1] - length)])
    line: Look = {"color": "0.6", "linewidth": 0.7, "linestyle": "-"}
    axes.plot(ends[:, 0], ends[:, 1], label="_guide", gid="guide", **line)
    place: Look = {"xytext": (2, -1), "textcoords": "offset points", "va": "center"}
    axes.annotate("$O(1/K)$", tuple(ends[1]), fontsize=6, color="0.4", **place)
