"""Figures without a window that a notebook shows as pictures."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that a notebook shows, with fonts in PDF files that publishers take (Type 42)."""

    def savefig(self, fname: Any, **given: Any) -> None:
        """Save as `matplotlib.figure.Figure.savefig` does."""
        with rc_context({"pdf.fonttype": 42, "ps.fonttype": 42}):
            super().savefig(fname, **given)

    def _repr_png_(self) -> bytes:
        return _png(self)


class PictureAxes(Axes):
    """Axes of which a notebook shows the figure."""

    def _repr_png_(self) -> bytes:
        return _png(self.figure)


def _png(figure: Any) -> bytes:
    file = BytesIO()
    figure.savefig(file, format="png", dpi=100)
    return file.getvalue()
