"""Comparisons as Markdown, LaTeX, HTML, text, and CSV with every digit."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from textwrap import fill
from typing import Literal, NamedTuple

from topologies.line.flags import InputError

from ...figures.canvas import check_known
from ...records.run_files import csv_text
from .counts import CountedRuns, Line
from .notes import notes, title
from .tuning import span

Form = Literal["text", "markdown", "latex", "csv", "html"]
UNITS = {"bytes": ("megabytes", 1e-6), "seconds": ("seconds here", 1.0)}
"""The name and the unit's factor of counts that are shown under another name or in another unit."""
_WHOLE = ("iterations", "rounds", "gradients")
WIDTH = 80
"""The columns of a terminal."""
DIGITS = 3
"""The digits of numbers that are not integers; CSV has all digits."""


def table(
    comparison: CountedRuns,
    form: Form = "markdown",
    *,
    columns: Sequence[str] = (),
    tolerances: Sequence[float] = (),
    ranges: bool = True,
    labels: Mapping[str, str] | None = None,
    caption: str = "",
    label: str = "tab:comparison",
) -> str:
    """The table as Markdown, HTML, LaTeX (with booktabs), CSV (every digit and tolerance), or text of 80
    columns, with the notes.

    Parameters
    ----------
    columns
        The columns beside the method, by their headings without units: step, reached, iterations,
        rounds, bytes, gradients, seconds, seconds on lan; by default all. Two with ranges or four
        without fit a column of a paper.
    tolerances
        The tolerances; by default all that a method reached.
    ranges
        Write the range over the trials after the median.
    labels
        Other names of methods, by their labels in the comparison.
    caption
        The caption of the LaTeX table; by default the title and what the numbers are.
    label
        The label of the LaTeX table.

    Raises
    ------
    InputError
        The form, a column, a tolerance or a method is another, or two methods have one name.
    """
    comparison = _renamed(comparison, labels or {})
    check_known("unknown form", [form], ("csv", *_BOLD))
    if form == "csv":
        return _csv(comparison)
    known = ("step", "reached", *comparison.quantities)
    check_known("unknown column", columns, known)
    if form == "text":
        columns = columns or [name for name in known if name != "gradients"]
        ranges = False
    there = [str(one) for one in comparison.rules.tolerances]
    check_known("unknown tolerance", map(str, tolerances), there)
    names = sorted(columns or known, key=lambda name: name != "step")  # words stand at the left
    headings = ["method", *(UNITS.get(name, (name,))[0] for name in names)]
    escaped = _ESCAPED[form]
    remarks = [*map(plain, notes(comparison))]
    if not ranges:
        remarks[0] = remarks[0].replace("Median (range)", "Median")
    if form in ("markdown", "html"):
        remarks = [*map(escaped, remarks)]
    headings = [*map(escaped, headings)]
    parts = TableParts(title(comparison), headings, 1 + ("step" in names), {}, remarks)
    for one in tolerances or comparison.shown:
        lines = [line for line in comparison.lines if line.tolerance == one]
        parts.blocks[one] = [*_rows(lines, names, ranges, form)]
    if form == "latex":
        return _latex(parts, caption or f"{parts.title}. {parts.notes[0]}", label)
    return {"text": _text, "html": _html, "markdown": _markdown}[form](parts)


def _renamed(comparison: CountedRuns, labels: Mapping[str, str]) -> CountedRuns:
    """The comparison with other names of methods."""
    names = {entry.label: entry.label for entry in comparison.entries}
    check_known("unknown method", labels, names)
    names |= labels
    if len({*names.values()}) < len(names):
        raise InputError(
            f"labels: every method needs another name, got {', '.join(names.values())}"
        )
    entries = tuple(replace(entry, label=names[entry.label]) for entry in comparison.entries)
    return replace(comparison, entries=entries)


def number(value: float, quantity: str) -> str:
    """A count as it is shown: whole numbers as such, others to `DIGITS` digits, infinity where it
    was not reached."""
    scaled = value * UNITS.get(quantity, ("", 1.0))[1]
    digits = DIGITS
    if quantity in _WHOLE:
        digits = 6
    if 10**digits <= scaled < math.inf and (quantity in _WHOLE or scaled < 1e6):
        return f"{scaled:.0f}"
    return f"{scaled:.{digits}g}"


class TableParts(NamedTuple):
    """The parts of a table."""

    title: str
    headings: list[str]
    texts: int
    """The number of columns at the left that hold words."""
    blocks: dict[float, list[list[str]]]
    """The rows by tolerance."""
    notes: list[str]


_BOLD = {"text": "{}", "html": "<b>{}</b>", "markdown": "**{}**", "latex": r"\textbf{{{}}}"}
"""The best median of a column by form."""


def _rows(lines: list[Line], names: Sequence[str], ranges: bool, form: Form) -> Iterator[list[str]]:
    """A row for each method: medians, and ranges where they are more than one value.

    The least median of a column is bold, of the methods of which every trial reached the tolerance.
    """
    bold = _BOLD[form]
    escaped = _ESCAPED[form]
    whole = [line for line in lines if line.reached == line.trials]
    for line in lines:
        cells = {"step": escaped(line.step), "reached": f"{line.reached}/{line.trials}"}
        for quantity, counts in line.counts.items():
            median, low, high = (number(value, quantity) for value in counts)
            shown = median
            between = span(low, high)
            if line in whole and counts.median == min(
                other.counts[quantity].median for other in whole
            ):
                shown = bold.format(median)
            if ranges and between != median:
                shown += f" ({between})"
            cells[quantity] = shown
        yield [escaped(line.algorithm), *(cells[name] for name in names)]


def _text(parts: TableParts) -> str:
    """The medians and the notes in 80 columns; rows that are too long for that take two lines."""
    lines = [parts.title]
    texts = parts.texts
    heads = [name.replace("megabytes", "MB").replace("seconds ", "s ") for name in parts.headings]
    for tolerance, rows in parts.blocks.items():
        labels = [f"to {tolerance:g}", *(", step ".join(row[:texts]) for row in rows)]
        cells = [row[texts:] for row in (heads, *rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        left = max(map(len, labels))
        between = "  "
        if left + sum(widths) + 2 * len(widths) > WIDTH:
            left, between = 0, "\n    "
        lines.append("")
        for label, row in zip(labels, cells, strict=True):
            numbers = "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
            lines.append(f"{label:{left}}{between}{numbers}")
    remarks = [*parts.notes, "Tables in Markdown and LaTeX have the ranges too."]
    remarks = [fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in remarks]
    return "\n".join([*lines, "", *remarks])


def _markdown(parts: TableParts) -> str:
    names = parts.headings
    lines = [f"# {parts.title}"]
    texts = parts.texts
    sides = ["<" * (place < texts) or ">" for place in range(len(names))]
    for tolerance, rows in parts.blocks.items():
        widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
        rule = ["-" * width for width in widths[:texts]]
        rule += ["-" * (width - 1) + ":" for width in widths[texts:]]
        lines.append(f"\n## To {tolerance:g}\n")
        for row in (names, rule, *rows):
            every = zip(row, sides, widths, strict=True)
            cells = [f"{cell:{side}{width}}" for cell, side, width in every]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(f"- {note}" for note in parts.notes), ""])


def _html(parts: TableParts) -> str:
    """A table for each tolerance and the notes, without scripts or files."""
    lines = [f"<div><strong>{escape(parts.title)}</strong>"]
    heads = parts.headings
    for tolerance, rows in parts.blocks.items():
        lines.append(f"<p>To {tolerance:g}</p><table>")
        lines.append(f"<tr>{''.join(f'<th>{head}</th>' for head in heads)}</tr>")
        for name, *cells in rows:
            numbers = "".join(f"<td>{cell}</td>" for cell in cells)
            lines.append(f"<tr><th>{name}</th>{numbers}</tr>")
        lines.append("</table>")
    notes = "".join(f"<li>{note}</li>" for note in parts.notes)
    return "\n".join([*lines, f"<ul>{notes}</ul></div>"])


def plain(text: str) -> str:
    """A text in one line, without control characters."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())


def _in_markdown(text: str) -> str:
    """A text that Markdown shows as it is, also in a table."""
    escaped = re.sub(r"([\\|*`\[])", r"\\\1", plain(text))
    return re.sub(r"<(?=[A-Za-z/!?])", "&lt;", escaped)


def _in_latex(text: str) -> str:
    """A text that LaTeX shows as it is."""
    special = {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    special |= {one: f"\\{one}" for one in "_%&#${}"}
    return "".join(special.get(one, one) for one in plain(text)).replace("<=", r"$\le$")


_ESCAPED = {
    "text": plain,
    "html": lambda text: escape(plain(text)),
    "markdown": _in_markdown,
    "latex": _in_latex,
}
"""How labels and names of networks are written by form."""


def _latex(parts: TableParts, caption: str, label: str) -> str:
    count = len(parts.headings)
    texts = parts.texts
    lines = [r"% needs \usepackage{booktabs}", *(f"% {note}" for note in parts.notes)]
    lines += [r"\begin{table}", r"\centering\footnotesize", r"\setlength{\tabcolsep}{3pt}"]
    lines += [rf"\caption{{{_in_latex(caption)}}}", rf"\label{{{label}}}"]
    lines += [rf"\begin{{tabular}}{{{'l' * texts}{'r' * (count - texts)}}}", r"\toprule"]
    lines.append(rf"{' & '.join(parts.headings)} \\")
    for tolerance, rows in parts.blocks.items():
        lines += [r"\midrule", rf"\multicolumn{{{count}}}{{l}}{{to {tolerance:g}}} \\"]
        for row in rows:
            cells = row[:texts]
            cells += [cell.replace("inf", r"$\infty$") for cell in row[texts:]]
            lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _csv(comparison: CountedRuns) -> str:
    """A row for each method and tolerance."""
    rows = []
    for line in comparison.lines:
        row = line._asdict()
        for name, counts in row.pop("counts").items():
            row |= {f"{name} {kind}": value for kind, value in counts._asdict().items()}
        rows.append(row)
    return csv_text(rows)
