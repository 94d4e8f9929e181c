"""Figures in the style of the package, for histories of runs and for numbers of your own.

`plot_histories` draws the recorded metrics of several runs. The other names are for a figure of
your own: `panels` and `style` make it, `look`, `band` and `logarithmic` draw in it, and `publish`
writes it with its caption. All need matplotlib.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .canvas import COLOURS as COLOURS
    from .canvas import DASHES as DASHES
    from .canvas import logarithmic as logarithmic
    from .canvas import look as look
    from .canvas import panels as panels
    from .canvas import style as style
    from .canvas import whole_decades as whole_decades
    from .histories import plot_histories as plot_histories
    from .publication import band as band
    from .publication import legend_below as legend_below
    from .publication import publish as publish

__getattr__, __dir__ = lazily(__name__)
