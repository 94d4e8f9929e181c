"""A comparison: prints as its table, is drawn, and is saved and loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import comparison_figures, comparison_tables, notes, saved_comparison
from .counts import CountedRuns

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, repr=False)
class Comparison(CountedRuns):
    """Methods on the same problems; prints as its table.

    Examples
    --------
    >>> import decentorth as do
    >>> from decentorth.lab.compare import Rules, compare
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = lambda seed: settings.problem(4, seed)
    >>> rules = Rules(trials=2, iterations=300, tolerances=(1e-1,))
    >>> found = compare(problem, "drfgt,deepca", "ring", rules)
    >>> [entry.label for entry in found.entries]
    ['drfgt', 'deepca']
    """

    def __repr__(self) -> str:
        return self.table("text")

    def _repr_html_(self) -> str:
        return self.table("html")

    def notes(self) -> list[str]:
        """The notes below the table, in a sentence or two each."""
        return [*notes.notes(self)]

    def table(self, form: comparison_tables.Form = "markdown", **options: Any) -> str:
        """The table in a form; see `tables.table`."""
        return comparison_tables.table(self, form, **options)

    def plot(self, **options: Any) -> Figure:
        """The figure; see `figures.figure`."""
        return comparison_figures.figure(self, **options)

    def save(self, folder: str | Path, **options: Any) -> None:
        """Write the tables, the figure, and ``comparison.json``, which `load` reads; see
        `saved.write`."""
        saved_comparison.write(self, Path(folder), **options)


def load(folder: str | Path) -> Comparison:
    """The comparison in a folder that `Comparison.save` or ``decentorth compare --out`` has filled;
    nothing in it is executed.

    Raises
    ------
    InputError
        The folder holds no comparison that has ended, or its file is damaged.
    """
    return Comparison(*saved_comparison.read(Path(folder)))
