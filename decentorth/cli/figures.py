"""The parts that all figures share: panels, their style, and how they are saved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .flags import InputError, unknown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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


def panels(rows: int, columns: int, size: tuple[float, float], **shared: Any) -> tuple[Figure, Sequence[Sequence[Axes]]]:
    """A figure of ``size`` in inches, and its empty panels by row and column."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise InputError('figures need matplotlib: pip install "decentorth[plot]"') from None
    figure = Figure(figsize=size, layout="constrained")
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


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of its name."""
    if Path(path).suffix.lower() not in (".png", ".svg", ".pdf"):
        raise InputError(f"{path}: a figure must end in .png, .svg or .pdf")
    try:
        figure.savefig(path, dpi=200)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
