"""Panels in the style of the package: their colours, dashes and axes, and how a figure is saved."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from topologies.line.flags import InputError
from topologies.line.words import suggestion

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Scale = Literal["linear", "log"]
Look = dict[str, Any]
"""Keyword arguments of matplotlib."""

COLOURS = ("#004488", "#6699cc", "#994455", "#000000", "#997700", "#ee99aa")
DASHES: tuple[Any, ...] = (
    *((0, ()), (0, (5, 1.5)), (0, (1, 1))),
    *((0, (5, 1, 1, 1)), (0, (8, 2, 2, 2)), (0, (2, 1))),
)
"""The style sheet's cycle of colours and dashes, which a test compares."""
MARKERS = ("o", "s", "^", "D", "v", "X")

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


def check_known(what: str, given: Iterable[str], known: Collection[str]) -> None:
    """Raise unless all names are known; ``what`` is the message before the name."""
    for name in given:
        if name not in known:
            raise InputError(
                f"{what} {name!r} (there are {', '.join(known)}){suggestion(name, known)}"
            )


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


def save(figure: Figure, path: str | Path) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of its name, its fonts as outlines that a
    publisher takes (Type 42)."""
    from topologies import pictures

    try:
        with style():
            pictures.save(figure, Path(path))
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
