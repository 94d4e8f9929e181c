"""Short texts, and HTML for notebooks: a title and facts by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape

from topologies.memory import size as size


def shape(sides: Iterable[int]) -> str:
    """The shape of an array in words: "20 x 5"."""
    return " x ".join(map(str, sides)) or "a number"


def aligned(facts: Iterable[tuple[str, str]]) -> str:
    """Names and facts in two columns, a line each."""
    lines = list(facts)
    width = max((len(name) for name, _ in lines), default=0)
    return "\n".join(f"{name:{width}}  {fact}" for name, fact in lines)


def table(title: str, facts: Mapping[str, object]) -> str:
    """A title and a table of facts by name, as HTML without scripts or files."""
    left = 'style="text-align:left"'
    cells = [(escape(name), escape(str(value))) for name, value in facts.items()]
    rows = "".join(f"<tr><th {left}>{a}</th><td {left}>{b}</td></tr>" for a, b in cells)
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table></div>"


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
