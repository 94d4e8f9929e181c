"""The class of the package's figures."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from matplotlib.figure import Figure

from .figures import style


class PaperFigure(Figure):
    """A figure that is saved in the package's style, and that a notebook shows, whether or not pyplot is loaded."""

    def savefig(self, fname: Any, **given: Any) -> None:
        """Save as `matplotlib.figure.Figure.savefig` does."""
        with style():
            super().savefig(fname, **given)

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png", dpi=150)
        return file.getvalue()
