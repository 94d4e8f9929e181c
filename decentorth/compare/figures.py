"""The figure of a comparison: a metric against iterations, rounds, bytes and modelled seconds, medians and ranges over trials."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..protocols import Array
from ..records.figures import WIDTHS, label, logarithmic, look, panels, say_empty, style, whole_decades
from ..running.history import COUNTS
from .comparison import Comparison, Entry
from .words import title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HEIGHT = 2.1
KINDS = ("median", "low", "high")


class Curve(NamedTuple):
    """Medians and ranges over trials, by recorded row."""

    x: Array
    median: Array
    low: Array
    high: Array


def curve(comparison: Comparison, entry: Entry, metric: str, against: str, first: int = 1) -> Curve:
    """A metric of a method over its trials, as long as most of them go on, from row ``first``; row 0 is the start.

    A trial that has ended keeps its last value (it reached the smallest tolerance) or counts as infinite (it diverged); equal rows
    of the histories belong to the same iteration.
    """
    ends = [trace.history["iteration"].size for trace in entry.traces]
    rows = sorted(ends)[len(ends) // 2]
    x, y = np.full((len(ends), rows), np.nan), np.full((len(ends), rows), np.inf)
    for trial, (seed, trace) in enumerate(zip(comparison.rules.seeds, entry.traces, strict=True)):
        values = trace.history[metric][:rows]
        y[trial, : len(values)] = values
        if trace.status != "diverged":
            y[trial, len(values) :] = values[-1]
        x[trial, : len(values)] = comparison.column(entry, seed, against)[:rows]
    y = y[:, first:]
    middle = np.nanmedian(x[:, first:], axis=0)
    return Curve(middle, np.median(y, axis=0), y.min(axis=0), y.max(axis=0))


def curves(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each method and recorded row: medians of the counts, and medians and ranges of the metrics, to six digits."""
    known = dict.fromkeys(name for entry in comparison.entries for name in entry.traces[0].history)
    metrics = [name for name in known if name not in (*COUNTS, "seconds")]
    blank = dict.fromkeys(comparison.quantities)
    blank |= dict.fromkeys(f"{name} {kind}" for name in metrics for kind in KINDS)
    for entry in comparison.entries:
        own, columns = [name for name in metrics if name in entry.traces[0].history], {}
        for name in comparison.quantities:
            columns[name] = curve(comparison, entry, own[0], name, first=0).x
        for name in own:
            _, *values = curve(comparison, entry, name, "iterations", first=0)
            columns |= {f"{name} {kind}": one for kind, one in zip(KINDS, values, strict=True)}
        for row in range(columns["iterations"].size):
            found = {name: float(f"{column[row]:.6g}") for name, column in columns.items()}
            yield {"algorithm": entry.label, "step": entry.step, **blank, **found}


@style()
def figure(comparison: Comparison, metrics: Sequence[str] = ()) -> Figure:
    """The metric against iterations, rounds, bytes and modelled seconds on the first network, medians and ranges over trials.

    Parameters
    ----------
    metrics
        A row of panels for each of these columns of the history, with the methods that have it; by default the compared metric.

    Raises
    ------
    InputError
        Matplotlib is missing.
    """
    metrics = metrics or (comparison.rules.metric,)
    columns = ["iterations", "rounds", "bytes"]
    columns += [f"seconds on {name}" for name in list(comparison.networks)[:1]]
    words = [f"{one.label}, step {one.step}".removesuffix(", step none") for one in comparison.entries]
    per_row = max(1, min(4, 120 // (8 + max(map(len, words)))))
    height = 0.5 + len(metrics) * HEIGHT + 0.17 * math.ceil(len(words) / per_row)
    size = WIDTHS["page"].inches, height
    drawn, rows = panels(len(metrics), len(columns), size, sharex="col", sharey="row")
    for row, metric in zip(rows, metrics, strict=True):
        for panel, against in zip(row, columns, strict=True):
            _panel(panel, comparison, metric, against)
        row[0].set_ylabel(label(metric), fontsize=8)
    for panel, against in zip(rows[-1], columns, strict=True):
        panel.set_xlabel(label(against).replace("seconds on", "modelled seconds on"), fontsize=8)
    drawn.suptitle(title(comparison), fontsize=9)
    for place, name in enumerate(words):
        rows[0][0].plot([], [], label=name, gid="legend", **look(place))
    drawn.legend(*rows[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=per_row)
    return drawn


def _panel(panel: Axes, comparison: Comparison, metric: str, against: str) -> None:
    logarithmic(panel)
    least = 0.0
    if metric == "objective":  # of any sign
        panel.set_yscale("linear")
        least = -math.inf
    ranges: list[tuple[Curve, object]] = []
    for place, entry in enumerate(comparison.entries):
        if metric in entry.traces[0].history:
            found = curve(comparison, entry, metric, against)
            visible = (found.x > 0.0) & np.isfinite(found.median) & (found.median > least)
            kept, mine = Curve(*(part[visible] for part in found)), look(place)
            ranges.append((kept, mine["color"]))
            panel.plot(kept.x, kept.median, gid="median", **mine)
    if any(kept.x.size for kept, _ in ranges):
        panel.set_xlim(whole_decades(*panel.get_xlim()))
    else:
        say_empty(panel)
    limits = panel.get_ylim()  # those of the medians
    if metric != "objective":
        limits = whole_decades(*limits)
    for kept, colour in ranges:
        high = np.where(np.isfinite(kept.high), kept.high, kept.median * 1e6)
        low = np.maximum(kept.low, least + 1e-300)
        panel.fill_between(kept.x, low, high, color=colour, alpha=0.15, linewidth=0, gid="range")
    panel.set_ylim(limits)
    if metric == comparison.rules.metric:
        dotted: dict[str, Any] = {"color": "0.5", "linewidth": 0.6, "linestyle": (0, (1, 2))}
        for tolerance in comparison.shown:
            panel.axhline(tolerance, zorder=0, gid="tolerance", **dotted)
