"""Figures: panels and their style, the histories of runs, and how figures are saved."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from topologies.flags import InputError
from topologies.words import suggestion

from ..running.history import Column, Columns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Against = Literal["iterations", "rounds", "bytes", "gradients", "seconds"]
Scale = Literal["linear", "log"]
Width = Literal["column", "page"]
Look = dict[str, Any]
"""Keyword arguments of matplotlib."""

COLOURS = ("#004488", "#6699cc", "#994455", "#000000", "#997700", "#ee99aa")
DASHES: tuple[Any, ...] = (
    *((0, ()), (0, (5, 1.5)), (0, (1, 1))),
    *((0, (5, 1, 1, 1)), (0, (8, 2, 2, 2)), (0, (2, 1))),
)
"""The style sheet's cycle of colours and dashes, which a test compares."""
MARKERS = ("o", "s", "^", "D", "v", "X")
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

NEEDED = "figures need matplotlib: pip install matplotlib"


def check_matplotlib(otherwise: str = "") -> None:
    """Raise InputError where matplotlib is missing; for commands that draw at their end, before
    they work."""
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError(f"{NEEDED}{otherwise}")


@contextmanager
def style() -> Iterator[None]:
    """A context, or a decorator, in which matplotlib has the package's style."""
    try:
        import matplotlib.style

        from .paper import STYLE
    except ImportError:
        raise InputError(NEEDED) from None
    with matplotlib.style.context(STYLE):
        yield


def look(place: int, *, marked: bool = False) -> Look:
    """Colour and dashes, and the marker where asked for, of a curve; the dashes of a colour change
    when it comes round again."""
    turns, colour = divmod(place, len(COLOURS))
    kind = (colour + turns) % len(DASHES)
    return {"color": COLOURS[colour], "linestyle": DASHES[kind], "marker": MARKERS[kind] * marked}


def panels(
    rows: int, columns: int, size: tuple[float, float], **shared: Any
) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """A figure of ``size`` in inches in the package's style, and its empty panels by row and
    column."""
    with style():
        from .paper import PaperFigure

        figure = PaperFigure(figsize=size, layout="constrained")
        return figure, figure.subplots(rows, columns, squeeze=False, **shared)


def check_metrics(metrics: Iterable[str], present: Collection[str]) -> None:
    """Raise unless the histories have all metrics to be drawn."""
    check_known("no run has the metric", metrics, sorted(present))


def check_known(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise unless all names are known; ``what`` is the message before the name."""
    for name in given:
        if name not in known:
            raise InputError(
                f"{what} {name!r} (there are {', '.join(known)}){suggestion(name, known)}"
            )


def label(name: str) -> str:
    """The label of an axis that shows a column of the history."""
    return LABELS.get(name, name.replace("_", " "))


def logarithmic(axes: Axes, x: str = "", y: str = "") -> None:
    """Make the axes logarithmic, with these labels; whole powers of ten alone have numbers."""
    scales(axes, "log", "log")
    axes.set_xlabel(x, fontsize=8)
    axes.set_ylabel(y, fontsize=8)


def scales(axes: Axes, x: Scale, y: Scale) -> None:
    """Set the scales before lines are drawn: matplotlib warns if a line lacks positive values on a
    logarithmic axis."""
    from matplotlib.ticker import NullFormatter

    both = (x, axes.set_xscale, axes.xaxis), (y, axes.set_yscale, axes.yaxis)
    for scale, set_scale, axis in both:
        if scale == "log":
            set_scale("log", nonpositive="mask")
            axis.set_minor_formatter(NullFormatter())


def whole_decades(low: float, high: float) -> tuple[float, float]:
    """Limits of a logarithmic axis, widened to the powers of ten around them where fewer than two
    are within."""
    below, above = np.log10([low, high])
    if np.floor(above) - np.ceil(below) >= 1:
        return low, high
    return float(10.0 ** np.floor(below)), float(10.0 ** np.ceil(above))


def say_empty(axes: Axes) -> None:
    """Say in a panel with logarithmic axes that none of its numbers can be shown on them."""
    middle: Look = {"transform": axes.transAxes, "ha": "center", "va": "center"}
    axes.text(0.5, 0.5, "nothing above zero", fontsize=7, **middle)


@style()
def plot_histories(
    histories: Mapping[str, Columns],
    *,
    against: Against = "iterations",
    metrics: Sequence[str] | None = None,
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
        No histories, a metric that no run has, a guide on other axes, or no matplotlib.
    """
    if guide and (x, y) != ("log", "log"):
        raise InputError("the guide O(1/K) is a line where both axes are logarithmic: give --x log")
    shown = _shown(histories, metrics)
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


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of its name, its fonts as outlines that a
    publisher takes (Type 42)."""
    from topologies import pictures

    try:
        with style():
            pictures.save(figure, Path(path))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
