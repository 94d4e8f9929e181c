"""Comparisons as Markdown, LaTeX, and CSV with every digit, and the files of a comparison."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from ..cli.figures import save as save_figure
from ..cli.outputs import CURVES, TABLES, csv_text, replacing
from ..cli.shell import say
from .comparison import Comparison
from .figures import curves, figure
from .words import notes, title

UNITS = {"bytes": ("megabytes", 1e-6), "seconds": ("seconds here", 1.0)}
"""The name and the unit's factor of counts that are shown under another name or in another unit."""
_WHOLE = ("iterations", "rounds", "gradients")
_BOLD = {"markdown": "**{}**", "latex": r"\textbf{{{}}}"}
FILES = ("comparison.csv", "trials.csv", CURVES, TABLES, "table.tex", "tuning.csv", "figure.png", "figure.svg")
"""The files of a comparison."""
DIGITS = 3
"""The digits of numbers that are not integers; CSV has all digits."""


def table(comparison: Comparison, form: Literal["markdown", "latex", "csv"] = "markdown") -> str:
    """The table as aligned Markdown with the notes, LaTeX (with booktabs), or CSV (every digit and every tolerance).

    Raises
    ------
    ValueError
        The format is another.
    """
    if form == "csv":
        return csv_text(_medians(comparison))
    if form not in _BOLD:
        raise ValueError(f"the format must be markdown, latex or csv, got {form!r}")
    sections = {tolerance: list(_rows(comparison, tolerance, _BOLD[form])) for tolerance in comparison.shown}
    return "\n".join((_markdown if form == "markdown" else _latex)(comparison, headings(comparison), sections)) + "\n"


def show(comparison: Comparison) -> None:
    """Print the table and the notes: in columns as wide as a terminal permits, elsewhere as Markdown."""
    if not sys.stdout.isatty():
        say(table(comparison))
        return
    from rich.console import Console
    from rich.table import Column, Table

    console = Console(highlight=False)
    for tolerance in comparison.shown:
        found = Table(*(Column(name, overflow="fold") for name in headings(comparison)), title=f"To {tolerance:g}")
        for row in _rows(comparison, tolerance, "[bold]{}[/]"):
            found.add_row(*row)
        console.print(found)
    say("\n".join([title(comparison), *notes(comparison)]))


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


def _rows(comparison: Comparison, tolerance: float, bold: str) -> Iterator[list[str]]:
    """A row for each method: medians, the least of a column bold, and ranges where they are more than one value."""
    lines = [line for line in comparison.lines if line.tolerance == tolerance]
    for line in lines:
        row = [line.algorithm, line.step, f"{line.reached}/{line.trials}"]
        for quantity, spread in line.counts.items():
            median, low, high = (number(value, quantity) for value in spread)
            least = min(other.counts[quantity].median for other in lines)
            shown = bold.format(median) if spread.median == least < math.inf else median
            row.append(shown if low == median == high else f"{shown} ({low} to {high})")
        yield row


def _markdown(comparison: Comparison, names: list[str], sections: dict[float, list[list[str]]]) -> Iterator[str]:
    yield f"# {title(comparison)}"
    for tolerance, rows in sections.items():
        yield f"\n## To {tolerance:g}\n"
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        sides = ["<", "<", *">" * (len(names) - 2)]
        rule = ["-" * (width - 1) + ("-" if side == "<" else ":") for width, side in zip(widths, sides, strict=True)]
        for row in (names, rule, *rows):
            cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]
            yield f"| {' | '.join(cells)} |"
    yield ""
    yield from (f"- {note}" for note in notes(comparison))


def _latex(comparison: Comparison, names: list[str], sections: dict[float, list[list[str]]]) -> Iterator[str]:
    yield f"% {title(comparison)}; needs \\usepackage{{booktabs}}"
    yield from (f"% {note}" for note in notes(comparison))
    yield rf"\begin{{tabular}}{{ll{'r' * (len(names) - 2)}}}"
    yield r"\toprule"
    yield rf"{' & '.join(names)} \\"
    for tolerance, rows in sections.items():
        yield r"\midrule"
        yield rf"\multicolumn{{{len(names)}}}{{l}}{{to {tolerance:g}}} \\"
        for row in rows:
            named = [re.sub(r"([_%&#${}])", r"\\\1", cell) for cell in row[:2]]
            yield " & ".join([*named, *(cell.replace("inf", r"$\infty$") for cell in row[2:])]) + r" \\"
    yield r"\bottomrule"
    yield r"\end{tabular}"


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
    """Write ``comparison.csv``, ``trials.csv``, ``curves.csv``, ``tuning.csv`` where steps were tuned, ``table.md``, ``table.tex``,
    and with ``plot`` ``figure.png`` and ``figure.svg``.

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
        CURVES: csv_text(curves(comparison)),
        TABLES: table(comparison),
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
