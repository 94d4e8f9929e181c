"""The style and the class of the package's figures; needs matplotlib."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import matplotlib.style
from matplotlib.figure import Figure

STYLE = "decentorth.paper"
"""The style sheet, the file ``paper.mplstyle`` of the package, by the name that matplotlib takes."""


class PaperFigure(Figure):
    """A figure that is saved in the package's style, and that a notebook shows, whether or not pyplot is loaded."""

    def savefig(self, fname: Any, **given: Any) -> None:
        """Save as `matplotlib.figure.Figure.savefig` does."""
        with matplotlib.style.context(STYLE):
            super().savefig(fname, **given)

    def _repr_png_(self) -> bytes:
        file = BytesIO()
        self.savefig(file, format="png", dpi=150)
        return file.getvalue()
