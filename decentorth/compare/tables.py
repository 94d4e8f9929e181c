"""Comparisons as Markdown, LaTeX, and CSV with every digit, and the files of a comparison."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from textwrap import fill
from typing import Literal

from ..records.figures import save as save_figure
from ..records.files import csv_text, replacing
from .comparison import Comparison, span
from .figures import curves, figure
from .words import notes, title

UNITS = {"bytes": ("megabytes", 1e-6), "seconds": ("seconds here", 1.0)}
"""The name and the unit's factor of counts that are shown under another name or in another unit."""
_WHOLE = ("iterations", "rounds", "gradients")
FILES = (
    *("comparison.csv", "trials.csv", "curves.csv", "tuning.csv"),
    *("table.md", "table.tex", "figure.png", "figure.svg"),
)
"""The files of a comparison."""
WIDTH = 80
"""The columns of a terminal."""
DIGITS = 3
"""The digits of numbers that are not integers; CSV has all digits."""


def table(comparison: Comparison, form: Literal["markdown", "latex", "csv"] = "markdown") -> str:
    """The table as aligned Markdown with the notes, LaTeX (with booktabs), or CSV (every digit and every tolerance).

    Raises
    ------
    ValueError
        The format is another.
    """
    if form not in _FORMS:
        raise ValueError(f"the format must be markdown, latex or csv, got {form!r}")
    return _FORMS[form](comparison)


def number(value: float, quantity: str) -> str:
    """A count as it is shown: whole numbers as such, others to `DIGITS` digits, infinity where it was not reached."""
    scaled, digits = value * UNITS.get(quantity, ("", 1.0))[1], DIGITS
    if quantity in _WHOLE:
        digits = 6
    if 10**digits <= scaled < math.inf and (quantity in _WHOLE or scaled < 1e6):
        return f"{scaled:.0f}"
    return f"{scaled:.{digits}g}"


def headings(comparison: Comparison) -> list[str]:
    """The headings of the columns."""
    counts = [UNITS.get(quantity, (quantity,))[0] for quantity in comparison.quantities]
    return ["method", "step", "reached", *counts]


def _rows(comparison: Comparison, tolerance: float, bold: str, ranges: bool = True) -> Iterator[list[str]]:
    """A row for each method: medians, the least of a column bold, and with ``ranges`` those of more than one value."""
    lines = [line for line in comparison.lines if line.tolerance == tolerance]
    for line in lines:
        row = [line.algorithm, line.step, f"{line.reached}/{line.trials}"]
        for quantity, counts in line.counts.items():
            median, low, high = (number(value, quantity) for value in counts)
            shown, words = median, span(low, high)
            if counts.median == min(other.counts[quantity].median for other in lines) < math.inf:
                shown = bold.format(median)
            if ranges and words != median:
                shown += f" ({words})"
            row.append(shown)
        yield row


def screen(comparison: Comparison) -> str:
    """The medians, without gradients, and the notes in 80 columns; rows that are too long for that take two lines."""
    names = headings(comparison)
    columns = [place for place, name in enumerate(names) if place > 1 and name != "gradients"]
    lines = [title(comparison)]
    for tolerance in comparison.shown:
        rows = list(_rows(comparison, tolerance, "{}", ranges=False))
        labels = [f"to {tolerance:g}", *(f"{row[0]}, step {row[1]}" for row in rows)]
        heads = [name.replace("megabytes", "MB").replace("seconds ", "s ") for name in names]
        cells = [[row[place] for place in columns] for row in (heads, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        left, between = max(map(len, labels)), "  "
        if left + sum(widths) + 2 * len(widths) > WIDTH:
            left, between = 0, "\n    "
        lines.append("")
        for label, row in zip(labels, cells, strict=True):
            numbers = "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
            lines.append(f"{label:{left}}{between}{numbers}")
    remarks = [*notes(comparison), "The files of --out FOLDER have the ranges, in Markdown and LaTeX."]
    return "\n".join([*lines, "", *(fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in remarks)])


def _markdown(comparison: Comparison) -> str:
    lines, names = [f"# {title(comparison)}"], headings(comparison)
    sides = ["<", "<", *">" * (len(names) - 2)]
    for tolerance in comparison.shown:
        rows = list(_rows(comparison, tolerance, "**{}**"))
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        rule = ["-" * width for width in widths[:2]]
        rule += ["-" * (width - 1) + ":" for width in widths[2:]]
        lines.append(f"\n## To {tolerance:g}\n")
        for row in (names, rule, *rows):
            cells = [f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"- {note}" for note in notes(comparison)), ""])


def _latex(comparison: Comparison) -> str:
    names = headings(comparison)
    lines = [f"% {title(comparison)}; needs \\usepackage{{booktabs}}"]
    lines += [f"% {note}" for note in notes(comparison)]
    lines += [rf"\begin{{tabular}}{{ll{'r' * (len(names) - 2)}}}", r"\toprule"]
    lines.append(rf"{' & '.join(names)} \\")
    for tolerance in comparison.shown:
        lines += [r"\midrule", rf"\multicolumn{{{len(names)}}}{{l}}{{to {tolerance:g}}} \\"]
        for row in _rows(comparison, tolerance, r"\textbf{{{}}}"):
            cells = [re.sub(r"([_%&#${}])", r"\\\1", cell) for cell in row[:2]]
            cells += [cell.replace("inf", r"$\infty$") for cell in row[2:]]
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _csv(comparison: Comparison) -> str:
    """A row for each method and tolerance."""
    rows = []
    for line in comparison.lines:
        row = line._asdict()
        for name, counts in row.pop("counts").items():
            row |= {f"{name} {kind}": value for kind, value in counts._asdict().items()}
        rows.append(row)
    return csv_text(rows)


_FORMS = {"markdown": _markdown, "latex": _latex, "csv": _csv}


def _tuning(comparison: Comparison) -> Iterator[dict[str, object]]:
    """A row for each step that was tried, seed and tolerance."""
    rules = comparison.rules
    for entry in comparison.entries:
        for one in entry.tried:
            runs = zip(rules.tuning_seeds, one.traces, strict=False)
            for (seed, trace), tolerance in product(runs, rules.tolerances):
                row = {"algorithm": entry.label, "factor": one.factor}
                row |= {"step": str(one.algorithm.step_size), "chosen": int(one is entry.chosen)}
                row |= {"seed": seed, "tolerance": tolerance, "iterations": None}
                at = rules.reached(trace.history, tolerance)
                if at is not None:
                    row["iterations"] = int(trace.history["iteration"][at])
                last = float(trace.history[rules.metric][-1])
                yield row | {"status": trace.status, rules.metric: last}


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
    drawn = []
    if plot:
        drawn.append(figure(comparison, metrics))
    texts = {
        "comparison.csv": table(comparison, "csv"),
        "trials.csv": csv_text(comparison.per_trial()),
        "curves.csv": csv_text(curves(comparison)),
        "table.md": table(comparison),
        "table.tex": table(comparison, "latex"),
    }
    if comparison.rules.tune:
        texts["tuning.csv"] = csv_text(_tuning(comparison))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in texts.items():
        with replacing(folder / name) as file:
            file.write(words.encode())
    for one in drawn:
        save_figure(one, folder / "figure.png")
        save_figure(one, folder / "figure.svg")
