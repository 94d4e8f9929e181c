"""Figures without a window that a notebook shows as pictures."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from topologies.line.matrix_files import refuse_other

_MARK = b"decentorth"
"""The program that a figure's file names as its maker."""


class Picture(Figure):
    """A figure that a notebook shows, with Type 42 fonts in PDF files, as publishers require."""

    def savefig(self, fname: Any, **given: Any) -> None:
        """Save as `matplotlib.figure.Figure.savefig` does, with Type 42 fonts in PDF and
        PostScript."""
        with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
            super().savefig(fname, **given)

    def _repr_png_(self) -> bytes:
        return _png(self)


class PictureAxes(Axes):
    """Axes of which a notebook shows the figure."""

    def _repr_png_(self) -> bytes:
        return _png(self.figure)


def save(figure: Figure, path: Path, **given: Any) -> None:
    """Write a figure as PNG, SVG or PDF, by the ending of its name; ``given`` as for
    `matplotlib.figure.Figure.savefig`.

    Raises
    ------
    ValueError
        The ending is another one, or a file is there that was not written by this function.
    """
    ending = path.suffix.lower()
    if ending not in (".png", ".svg", ".pdf"):
        raise ValueError(f"{path}: a figure must end in .png, .svg or .pdf")
    check_place(path)
    key = "Software" if ending == ".png" else "Creator"
    figure.savefig(path, metadata={key: _MARK.decode()}, **given)


def check_place(path: Path) -> None:
    """Raise ValueError if `save` would replace a file that it has not written."""
    refuse_other(path, _MARK, "figure of decentorth")


def _png(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return file.getvalue()
