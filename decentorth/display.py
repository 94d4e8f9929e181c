"""Short texts, and HTML for notebooks: a title, facts by name, and a small curve as an inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape

from topologies.memory import size as size

WIDTH, HEIGHT = 240, 60
"""The size of a curve in pixels."""


def shape(sides: Iterable[int]) -> str:
    """The shape of an array in words: "20 x 5"."""
    return " x ".join(map(str, sides)) or "a number"


def curve(x: Iterable[float], y: Iterable[float], name: str) -> str:
    """An SVG of the positive values of ``y`` over ``x``, on a logarithmic scale; nothing where there are fewer than two."""
    points = [(float(a), math.log10(b)) for a, b in zip(x, y, strict=True) if 0 < b < math.inf]
    if len(points) < 2:
        return ""
    (left, low), (right, high) = map(min, zip(*points, strict=True)), map(max, zip(*points, strict=True))
    across, up = (WIDTH - 4) / ((right - left) or 1), (HEIGHT - 4) / ((high - low) or 1)
    path = " ".join(f"{2 + (a - left) * across:.1f},{HEIGHT - 2 - (b - low) * up:.1f}" for a, b in points)
    caption = f"{name}: 10^{high:.1f} to 10^{low:.1f}, iterations {left:g} to {right:g}"
    return (
        f'<figure style="margin:0"><svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{escape(caption)}">'
        f'<polyline points="{path}" fill="none" stroke="#0072b2" stroke-width="1.5"/></svg>'
        f"<figcaption><small>{escape(caption)}</small></figcaption></figure>"
    )


def table(title: str, facts: Mapping[str, object], picture: str = "") -> str:
    """A title, a table of facts by name, and a picture, as HTML without scripts, styles or files of its own."""
    rows = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in facts.items()
    )
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table>{picture}</div>"


class Shown:
    """A class whose objects print as their name with facts, in a notebook as a table of them."""

    def _facts(self) -> Mapping[str, object]:
        """The facts by name."""
        return {}

    def _picture(self) -> str:
        """A picture as HTML."""
        return ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value}' for name, value in self._facts().items())})"

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._facts(), self._picture())
