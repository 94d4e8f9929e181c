"""Figures without a window that a notebook shows as pictures."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that a notebook shows."""

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
