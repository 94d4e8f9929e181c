"""The style and the class of the package's figures; needs matplotlib."""

from __future__ import annotations

import matplotlib.style

from topologies.pictures import Picture

STYLE = "decentorth.paper"
"""The style sheet of the package, ``paper.mplstyle``, by its name in matplotlib."""


class PaperFigure(Picture):
    """A figure that is saved in the package's style."""

    def savefig(self, fname: object, **given: object) -> None:
        """Save as `matplotlib.figure.Figure.savefig` does."""
        with matplotlib.style.context(STYLE):
            super().savefig(fname, **given)
