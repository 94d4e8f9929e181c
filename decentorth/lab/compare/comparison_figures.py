"""The figure of a comparison: a metric against iterations, rounds, bytes and modelled seconds,
medians and bands over trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, cast, get_args

import numpy as np

from topologies.line.flags import InputError

from ...figures import canvas, histories
from ...protocols import Array
from ...running.history import COUNTS
from .counts import CountedRuns
from .notes import title
from .tuning import Entry

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


Band = Literal["range", "quartiles", "none"]
Log = Literal["xy", "x", "y", "none"]
BANDS: dict[Band, list[float]] = {"range": [0, 1], "quartiles": [0.25, 0.75], "none": [0, 1]}
"""The quantiles between which a band lies."""
SCALES: tuple[canvas.Scale, canvas.Scale] = ("linear", "log")
HEIGHT = 2.1


Entries: TypeAlias = Sequence[Entry]
Shown: TypeAlias = tuple[str, str]
"""A metric, and the count against which it is drawn."""


class Curve(NamedTuple):
    """Medians and ranges over trials, by recorded row."""

    x: Array
    median: Array
    low: Array
    high: Array


def curve(
    comparison: CountedRuns, entry: Entry, shown: Shown, band: Band = "range", first: int = 1
) -> Curve:
    """A metric of a method against a count, from row ``first``, until half of the trials have
    ended, as in the table; row 0 is the start.

    A trial that has ended keeps its last value (it reached the smallest tolerance). A trial that
    diverged counts as infinite in the median, and not in the band. Equal rows of the histories
    belong to the same iteration.
    """
    metric, against = shown
    ends = [trace.history["iteration"].size for trace in entry.traces]
    whole = [end for end, one in zip(ends, entry.traces, strict=True) if one.status != "diverged"]
    half = len(ends) // 2
    rows = sorted(whole)[half] if len(whole) > half else sorted(ends)[half]
    x = np.full((len(ends), rows), np.nan)
    y = np.full((len(ends), rows), np.inf)
    for trial, (seed, trace) in enumerate(zip(comparison.rules.seeds, entry.traces, strict=True)):
        values = trace.history[metric][:rows]
        y[trial, : len(values)] = values
        if trace.status != "diverged":
            y[trial, len(values) :] = values[-1]
        x[trial, : len(values)] = comparison.column(entry, seed, against)[:rows]
    y = y[:, first:]
    middle = np.nanmedian(x[:, first:], axis=0)
    low, high = _quantiles(y, BANDS[band])
    return Curve(middle, np.median(y, axis=0), low, high)


def _quantiles(y: Array, shares: Sequence[float]) -> Array:
    """``(shares, rows)``: the quantiles of the finite values of each row; infinite where there are
    none."""
    values = np.where(np.isfinite(y), y, np.nan)
    values[:, np.isnan(values).all(axis=0)] = np.inf
    found: Array = np.nanquantile(values, shares, axis=0, method="inverted_cdf")
    return found


def curves(comparison: CountedRuns) -> Iterator[dict[str, Any]]:
    """A row for each method and recorded row: medians of the counts, and medians and ranges of the
    metrics, to six digits."""
    known = dict.fromkeys(name for entry in comparison.entries for name in entry.traces[0].history)
    metrics = [name for name in known if name not in (*COUNTS, "seconds")]
    blank = dict.fromkeys(comparison.quantities)
    blank |= dict.fromkeys(f"{name} {kind}" for name in metrics for kind in Curve._fields[1:])
    for entry in comparison.entries:
        own = [name for name in metrics if name in entry.traces[0].history]
        columns = {}
        for name in comparison.quantities:
            columns[name] = curve(comparison, entry, (own[0], name), first=0).x
        for name in own:
            found = curve(comparison, entry, (name, "iterations"), first=0)
            columns |= {f"{name} {kind}": one for kind, one in list(found._asdict().items())[1:]}
        for row in range(columns["iterations"].size):
            cells = {name: float(f"{column[row]:.6g}") for name, column in columns.items()}
            yield {"algorithm": entry.label, "step": entry.step, **blank, **cells}


@canvas.style()
def figure(
    comparison: CountedRuns,
    *,
    x: str | Sequence[str] = (),
    metrics: str | Sequence[str] = (),
    width: histories.Width = "page",
    band: Band = "range",
    log: Log = "xy",
    order: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    colors: Mapping[str, Any] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """The metric against iterations, rounds, bytes and modelled seconds on the first network, with
    bands over the trials.

    Parameters
    ----------
    x
        The counts on the horizontal axes, one or several: iterations, rounds, bytes, gradients,
        seconds, or "seconds on lan". By default iterations, rounds, bytes and modelled seconds.
    metrics
        Panels for this column of the history or each of several, with the methods that have it; by
        default the compared metric.
    width
        A paper's column (3.5 inches), with the panels below each other, or its page (7.16 inches).
    band
        The band about the medians: the range over the trials, their quartiles, or none.
    log
        The logarithmic axes: xy, x, y or none.
    order
        The methods to draw, by their labels in the comparison, in this order; by default all.
    labels
        Names for the legend by label; by default the label, on a page with its step.
    colors
        Colours of matplotlib by label; by default those of the package.
    ax
        The axes of a figure of your own, for one metric against one count; by default a new
        figure.

    Raises
    ------
    InputError
        There is no such count, metric, width, band, axes' scale or method, axes are given for
        several panels, or matplotlib is missing.
    """
    columns = [x] if isinstance(x, str) else [*x]
    if not columns:
        modelled = [name for name in comparison.quantities if " on " in name]
        columns = ["iterations", "rounds", "bytes", *modelled[:1]]
    metrics = [metrics] if isinstance(metrics, str) else metrics or [comparison.rules.metric]
    histories.check_metrics(
        metrics, {name for one in comparison.entries for name in one.traces[0].history}
    )
    entries = {one.label: one for one in comparison.entries}
    names = dict(zip(entries, entries, strict=True))
    if width == "page":
        names = {
            name: f"{name}, step {one.step}".removesuffix(", step none")
            for name, one in entries.items()
        }
    canvas.check_known("unknown count", columns, comparison.quantities)
    canvas.check_known("unknown width", [width], histories.WIDTHS)
    canvas.check_known("unknown band", [band], BANDS)
    canvas.check_known("unknown log", [log], get_args(Log))
    canvas.check_known("unknown method", [*order, *(labels or {}), *(colors or {})], names)
    names |= labels or {}
    drawn = [entries[name] for name in order or entries]
    across = 1
    if width == "page":
        across = len(columns) if len(columns) > 1 else len(metrics)
    sharing = "row" if across == len(columns) else "none"
    pairs = list(product(metrics, columns))
    size = histories.WIDTHS[width]
    looks = [canvas.look(place) for place in range(len(drawn))]
    for one, look in zip(drawn, looks, strict=True):
        look["color"] = (colors or {}).get(one.label, look["color"])
    if ax is not None:
        if len(pairs) > 1:
            raise InputError(
                f"ax is for one panel, and there are {len(pairs)}: give one metric and one x"
            )
        return _on_axes(ax, comparison, drawn, looks, names, pairs[0], log, band)
    rows = len(pairs) // across
    per_row = max(1, min(4, size.letters // (8 + max(len(names[one.label]) for one in drawn))))
    height = 0.5 + rows * HEIGHT + 0.17 * math.ceil(len(drawn) / per_row)
    made, grid = canvas.panels(rows, across, (size.inches, height), sharey=sharing)
    axes = [panel for row in grid for panel in row]
    for place, (panel, pair) in enumerate(zip(axes, pairs, strict=True)):
        _panel(panel, comparison, drawn, looks, pair, log, band)
        if sharing == "none" or place % across == 0:
            panel.set_ylabel(histories.label(pair[0]), fontsize=8)
        panel.set_xlabel(_count_label(pair[1]), fontsize=8)
    if width == "page":
        made.suptitle(title(comparison), fontsize=9)
    _name_curves(axes[0], drawn, looks, names)
    made.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=per_row)
    return made


def _on_axes(
    ax: Axes,
    comparison: CountedRuns,
    drawn: Entries,
    looks: Sequence[canvas.Look],
    names: Mapping[str, str],
    shown: Shown,
    log: Log,
    band: Band,
) -> Figure:
    """Draw a metric against a count on axes that were given, with a legend; returns their
    figure."""
    _panel(ax, comparison, drawn, looks, shown, log, band)
    ax.set_ylabel(histories.label(shown[0]))
    ax.set_xlabel(_count_label(shown[1]))
    _name_curves(ax, drawn, looks, names)
    ax.legend()
    return cast("Figure", ax.get_figure())


def _count_label(name: str) -> str:
    """The label of an axis of counts."""
    return histories.label(name).replace("seconds on", "modelled seconds on")


def _name_curves(
    axes: Axes, drawn: Entries, looks: Sequence[canvas.Look], names: Mapping[str, str]
) -> None:
    """Add the entries of the legend."""
    for one, look in zip(drawn, looks, strict=True):
        axes.plot([], [], label=names[one.label], gid="legend", **look)


def _panel(
    panel: Axes,
    comparison: CountedRuns,
    entries: Entries,
    looks: Sequence[canvas.Look],
    shown: Shown,
    log: Log,
    band: Band,
) -> None:
    """Draw a metric against a count."""
    metric, _ = shown
    least = 0.0
    vertical = "y" in log
    if metric == "objective":  # of any sign
        least = -math.inf
        vertical = False
    canvas.scales(panel, SCALES["x" in log], SCALES[vertical])
    ranges: list[tuple[Curve, object]] = []
    for entry, mine in zip(entries, looks, strict=True):
        if metric in entry.traces[0].history:
            found = curve(comparison, entry, shown, band)
            visible = (found.x > 0.0) & np.isfinite(found.median) & (found.median > least)
            kept = Curve(*(part[visible] for part in found))
            ranges.append((kept, mine["color"]))
            panel.plot(kept.x, kept.median, gid="median", **mine)
    if not any(kept.x.size for kept, _ in ranges):
        canvas.say_empty(panel)
    elif "x" in log:
        panel.set_xlim(canvas.whole_decades(*panel.get_xlim()))
    else:
        panel.ticklabel_format(axis="x", scilimits=(-2, 4))
    limits = panel.get_ylim()  # those of the medians
    if vertical:
        limits = canvas.whole_decades(*limits)
    for kept, colour in ranges:
        low = np.maximum(kept.low, least + 1e-300)
        if band != "none":
            shade: dict[str, Any] = {"color": colour, "alpha": 0.15, "linewidth": 0}
            panel.fill_between(kept.x, low, kept.high, gid="range", **shade)
    panel.set_ylim(limits)
    if metric == comparison.rules.metric:
        dotted: dict[str, Any] = {"color": "0.5", "linewidth": 0.6, "linestyle": (0, (1, 2))}
        for tolerance in comparison.shown:
            panel.axhline(tolerance, zorder=0, gid="tolerance", **dotted)
