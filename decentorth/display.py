"""Short texts, and HTML for notebooks: a title, facts by name, and a small curve as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from html import escape

from topologies.line.memory import size as size

WIDTH, HEIGHT = 240, 60
"""The size of a curve in pixels."""


def shape(sides: Iterable[int]) -> str:
    """The shape of an array in words: "20 x 5"."""
    return " x ".join(map(str, sides)) or "a number"


def aligned(facts: Iterable[tuple[str, str]]) -> str:
    """Names and facts in two columns, a line each."""
    lines = list(facts)
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name:{width}}  {fact}" for name, fact in lines)


def curve(x: Iterable[float], y: Iterable[float], name: str) -> str:
    """An SVG of the positive values of ``y`` over ``x``, on a logarithmic scale; empty for fewer
    than two values."""
    points = [(float(a), math.log10(b)) for a, b in zip(x, y, strict=True) if 0 < b < math.inf]
    if len(points) < 2:
        return ""
    (left, low), (right, high) = (tuple(map(one, zip(*points, strict=True))) for one in (min, max))
    across = (WIDTH - 4) / ((right - left) or 1.0)
    up = (HEIGHT - 4) / ((high - low) or 1.0)
    places = [(2 + (a - left) * across, HEIGHT - 2 - (b - low) * up) for a, b in points]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    first, last = (10 ** points[at][1] for at in (0, -1))
    caption = escape(f"{name}: {first:.2g} to {last:.2g}, iterations {left:g} to {right:g}")
    return (
        f'<figure style="margin:0"><svg width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{caption}"><polyline points="{path}" fill="none" stroke="#0072b2" '
        f'stroke-width="1.5"/></svg><figcaption><small>{caption}</small></figcaption></figure>'
    )


def table(title: str, facts: Mapping[str, object], picture: str = "") -> str:
    """A title, a table of facts by name, and a picture, as HTML without scripts or files."""
    left = 'style="text-align:left"'
    cells = [(escape(name), escape(str(value))) for name, value in facts.items()]
    rows = "".join(f"<tr><th {left}>{a}</th><td {left}>{b}</td></tr>" for a, b in cells)
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table>{picture}</div>"


class Shown:
    """A class whose objects print as their name with facts, in a notebook as a table of them."""

    def _facts(self) -> Mapping[str, object]:
        """The facts by name."""
        return {}

    def __repr__(self) -> str:
        facts = [f"{name}={value}" for name, value in self._facts().items()]
        return f"{type(self).__name__}({', '.join(facts)})"

    def _repr_html_(self) -> str:
        return table(type(self).__name__, self._facts())
