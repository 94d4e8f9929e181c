"""Comparisons as tables, for a terminal, Markdown, LaTeX, and CSV with every digit, and the files of a comparison."""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ..cli.figures import save as save_figure
from ..cli.outputs import csv_text, replacing
from .comparison import Comparison
from .figures import figure
from .words import notes, title

if TYPE_CHECKING:
    from rich.table import Table

UNITS = {"bytes": ("megabytes", 1e-6), "seconds": ("seconds here", 1.0)}
"""The name and the unit's factor of counts that are shown under another name or in another unit."""
_WHOLE = ("iterations", "rounds", "gradients")
_WIDEST = 1000
DIGITS = 3
"""The digits of numbers that are not integers; CSV has all digits."""
Cell = TypeVar("Cell")


def table(comparison: Comparison, form: Literal["text", "markdown", "latex", "csv"] = "text") -> str:
    """The table as text for a terminal, Markdown, LaTeX (with booktabs) or CSV (every digit and every tolerance).

    Raises
    ------
    ValueError
        The format is another.
    """
    if form == "csv":
        return csv_text(_medians(comparison))
    if form == "text":
        return _text(comparison)
    if form == "markdown":
        return _markdown(comparison)
    if form == "latex":
        return _latex(comparison)
    raise ValueError(f"the format must be text, markdown, latex or csv, got {form!r}")


def number(value: float, quantity: str) -> str:
    """A count as it is shown: whole numbers as such, others to `DIGITS` digits, infinity where it was not reached."""
    if math.isinf(value):
        return "inf"
    if quantity in _WHOLE:
        return f"{value:g}" if value < 1e6 else f"{value:.0f}"
    scaled = value * UNITS.get(quantity, ("", 1.0))[1]
    return f"{scaled:.0f}" if 10**DIGITS <= scaled < 1e6 else f"{scaled:.{DIGITS}g}"


def headings(comparison: Comparison) -> list[str]:
    """The headings of the columns."""
    return ["method", "step", "reached", *(UNITS.get(quantity, (quantity,))[0] for quantity in comparison.quantities)]


def _sections(comparison: Comparison, write: Callable[[str, str, bool], Cell]) -> Iterator[tuple[float, list[list[str | Cell]]]]:
    """The cells of each tolerance that is shown; ``write`` makes the cell of a count from its median, its range (empty if there is
    but one value), and True if the median is the least of the section."""
    for tolerance in comparison.shown:
        lines = [line for line in comparison.lines if line.tolerance == tolerance]
        rows: list[list[str | Cell]] = []
        for line in lines:
            rows.append([line.algorithm, line.step, f"{line.reached}/{line.trials}"])
            for quantity, spread in line.counts.items():
                median, low, high = (number(value, quantity) for value in spread)
                least = min(other.counts[quantity].median for other in lines)
                between = "" if low == median == high else f"{low} to {high}"
                rows[-1].append(write(median, between, spread.median == least < math.inf))
        yield tolerance, rows


def show(comparison: Comparison) -> None:
    """Print the table on standard output."""
    from rich.console import Console

    if sys.stdout.isatty():
        Console().print(_rich(comparison))
    else:
        sys.stdout.write(_text(comparison))


def _text(comparison: Comparison) -> str:
    """The table as wide as it needs to be."""
    from rich.console import Console

    file = io.StringIO()
    Console(width=_WIDEST, file=file, color_system=None).print(_rich(comparison))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


def _rich(comparison: Comparison) -> Table:
    """The table for rich: each count's median above its range."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    def cell(median: str, between: str, least: bool) -> Text:
        return Text.assemble((median, "bold" if least else ""), (f"\n{between}" if between else "", "dim"))

    found = Table(title=title(comparison), box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for place, name in enumerate(headings(comparison)):
        found.add_column(name, justify="left" if place < 2 else "right", overflow="fold")
    for tolerance, rows in _sections(comparison, cell):
        found.add_section()
        found.add_row(Text(f"to {tolerance:g}", style="italic"))
        for row in rows:
            found.add_row(*row)
    return found


def _markdown(comparison: Comparison) -> str:
    """A table for each tolerance, then the notes."""
    names = headings(comparison)
    parts = [f"# {title(comparison)}"]
    for tolerance, rows in _sections(comparison, _marker("**{}**")):
        head = f"|{'---|' * 2}{'---:|' * (len(names) - 2)}"
        parts += ["", f"## To {tolerance:g}", "", f"| {' | '.join(names)} |", head]
        parts += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*parts, "", *(f"- {note}" for note in notes(comparison))]) + "\n"


def _latex(comparison: Comparison) -> str:
    r"""A tabular with a block of rows for each tolerance; needs ``\usepackage{booktabs}``."""
    names = headings(comparison)
    parts = [f"% {title(comparison)}; needs \\usepackage{{booktabs}}", *(f"% {note}" for note in notes(comparison))]
    parts += [rf"\begin{{tabular}}{{ll{'r' * (len(names) - 2)}}}", r"\toprule", rf"{' & '.join(map(_escaped, names))} \\"]
    for tolerance, rows in _sections(comparison, _marker(r"\textbf{{{}}}")):
        parts += [r"\midrule", rf"\multicolumn{{{len(names)}}}{{l}}{{to {tolerance:g}}} \\"]
        for row in rows:
            cells = [*map(_escaped, row[:2]), *(cell.replace("inf", r"$\infty$") for cell in row[2:])]
            parts.append(rf"{' & '.join(cells)} \\")
    return "\n".join([*parts, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _marker(bold: str) -> Callable[[str, str, bool], str]:
    """The cell of a count as text: its median, bold where it is the least, and its range."""
    return lambda median, between, least: (bold.format(median) if least else median) + (f" ({between})" if between else "")


def _escaped(words: str) -> str:
    return "".join(f"\\{character}" if character in "_%&#${}" else character for character in words)


def _medians(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each method and tolerance."""
    for line in comparison.lines:
        spreads = {f"{name} {kind}": value for name, spread in line.counts.items() for kind, value in spread._asdict().items()}
        yield {name: value for name, value in line._asdict().items() if name != "counts"} | spreads


def _tuning(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each step that was tried, seed and tolerance."""
    rules = comparison.rules
    for entry in comparison.entries:
        for one in entry.tried:
            for seed, trace in zip(rules.tuning_seeds, one.traces, strict=False):
                for tolerance in rules.tolerances:
                    at = rules.reached(trace.history, tolerance)
                    yield {
                        "algorithm": entry.label,
                        "factor": one.factor,
                        "step": str(one.algorithm.step_size),
                        "chosen": int(one is entry.chosen),
                        "seed": seed,
                        "tolerance": tolerance,
                        "iterations": None if at is None else int(trace.history["iteration"][at]),
                        "status": trace.status,
                        rules.metric: float(trace.history[rules.metric][-1]),
                    }


def save(comparison: Comparison, folder: str | Path, *, plot: bool = True, metrics: Sequence[str] = ()) -> None:
    """Write ``comparison.csv``, ``trials.csv``, ``tuning.csv`` where steps were tuned, ``table.md``, ``table.tex``, and with
    ``plot`` ``figure.png`` and ``figure.svg``.

    Parameters
    ----------
    metrics
        Rows of the figure, see `figure`.

    Raises
    ------
    InputError
        Matplotlib is missing, or the figure cannot be written.
    """
    drawn = figure(comparison, metrics) if plot else None
    texts = {
        "comparison.csv": table(comparison, "csv"),
        "trials.csv": csv_text(comparison.per_trial()),
        "table.md": table(comparison, "markdown"),
        "table.tex": table(comparison, "latex"),
    }
    if comparison.rules.tune:
        texts["tuning.csv"] = csv_text(_tuning(comparison))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in texts.items():
        with replacing(folder / name) as file:
            file.write(words.encode())
    if drawn is not None:
        save_figure(drawn, folder / "figure.png")
        save_figure(drawn, folder / "figure.svg")
