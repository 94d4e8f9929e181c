"""Mixing matrices as notebooks show them: a title, facts, and the entries of matrices as shaded squares."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

import numpy as np

from topologies.canonical import Weights

SIDE = 110
"""The side of a matrix in pixels."""
SHOWN = 4
"""The matrices of a sequence that are drawn."""
LARGEST = 40
"""The most agents whose matrices are drawn."""


def shown(title: str, facts: Mapping[str, object], matrices: Mapping[str, Weights]) -> str:
    """A title, a table of facts and a picture of each matrix, as HTML without scripts or files."""
    left = 'style="text-align:left"'
    cells = [(escape(name), escape(str(fact))) for name, fact in facts.items()]
    rows = "".join(f"<tr><th {left}>{a}</th><td {left}>{b}</td></tr>" for a, b in cells)
    pictures = "".join(_picture(name, W) for name, W in matrices.items() if W.shape[0] <= LARGEST)
    side_by_side = f'<div style="display:flex;gap:1em">{pictures}</div>'
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table>{side_by_side}</div>"


def _picture(name: str, W: Weights) -> str:
    """The entries of a matrix: the darker, the larger; red where they are negative."""
    entries = W.tocoo()
    values = entries.data
    shades = np.abs(values) / np.abs(values).max(initial=np.finfo(float).tiny)
    colours = np.where(values < 0, "#d55e00", "#0072b2")
    cells = "".join(
        f'<rect x="{j}" y="{i}" width="1" height="1" fill="{colour}" fill-opacity="{shade:.2f}"/>'
        for i, j, colour, shade in zip(entries.row, entries.col, colours, shades, strict=True)
    )
    n, label = W.shape[0], escape(name)
    box = f'width="{SIDE}" height="{SIDE}" viewBox="0 0 {n} {n}" role="img" aria-label="{label}"'
    frame = '<rect width="100%" height="100%" fill="none" stroke="#999" stroke-width="0.05"/>'
    caption = f"<figcaption><small>{label}</small></figcaption>"
    return f'<figure style="margin:0"><svg {box}>{cells}{frame}</svg>{caption}</figure>'
