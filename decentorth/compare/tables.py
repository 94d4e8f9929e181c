"""Comparisons as tables: for a terminal, Markdown, LaTeX, and CSV with every digit."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..cli.outputs import replacing
from ..plot import save as save_figure
from ..study.table import cell
from .comparison import Comparison, Format, Line, Spread

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

UNITS = {"bytes": ("megabytes", 1e-6), "seconds": ("seconds here", 1.0)}
"""Counts that are shown by another name or in another unit, and its factor."""
_WHOLE = ("iterations", "rounds", "gradients")
_WIDEST = 1000
DIGITS = 3
"""Of what is not a whole number; CSV has them all."""


def number(value: float, quantity: str) -> str:
    """A count as it is shown: whole numbers as such, others to `DIGITS` digits, infinity where it was not reached."""
    if math.isinf(value):
        return "inf"
    if quantity in _WHOLE:
        return f"{value:g}" if value < 1e6 else f"{value:.0f}"
    scaled = value * UNITS.get(quantity, ("", 1.0))[1]
    return f"{scaled:.0f}" if 10**DIGITS <= scaled < 1e6 else f"{scaled:.{DIGITS}g}"


def heading(quantity: str) -> str:
    """The heading of a count's column."""
    return UNITS.get(quantity, (quantity,))[0]


def table(comparison: Comparison, form: Format) -> str:
    """The comparison in one of the formats.

    Raises
    ------
    ValueError
        For another format.
    """
    if form == "text":
        return text(comparison)
    if form == "markdown":
        return markdown(comparison)
    if form == "latex":
        return latex(comparison)
    if form == "csv":
        return written(csv_rows(comparison))
    raise ValueError(f"the format must be text, markdown, latex or csv, got {form!r}")


def sections(comparison: Comparison) -> Iterator[tuple[float, list[Line]]]:
    """The lines of each tolerance that is shown."""
    for tolerance in comparison.shown:
        yield tolerance, [line for line in comparison.lines if line.tolerance == tolerance]


def least(lines: Sequence[Line], quantity: str) -> float:
    """The smallest median of a section, which is set in bold."""
    return min(line.counts[quantity].median for line in lines)


def _reached(line: Line) -> str:
    return f"{line.reached}/{line.trials}"


def _parts(spread: Spread, quantity: str) -> tuple[str, str]:
    """The median and the range, which is nothing where there is but one value."""
    median, low, high = (number(value, quantity) for value in spread)
    return median, "" if low == median == high else f"{low} to {high}"


def text(comparison: Comparison) -> str:
    """Plain, as wide as it needs to be."""
    from rich.console import Console

    whole = rich_table(comparison)
    console = Console(width=_width(whole), file=io.StringIO(), color_system=None)
    with console.capture() as capture:
        console.print(whole)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def show(comparison: Comparison) -> None:
    """Print the table on standard output; on a terminal that is too narrow for the ranges, medians alone."""
    from rich.console import Console

    if not sys.stdout.isatty():
        sys.stdout.write(text(comparison))
        return
    console, whole = Console(), rich_table(comparison)
    console.print(whole if _width(whole) <= console.width else rich_table(comparison, ranges=False))


def _width(table: Table) -> int:
    """How wide a table is that wraps nothing."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console(width=_WIDEST, file=io.StringIO())
    return Measurement.get(console, console.options, table).maximum


def rich_table(comparison: Comparison, *, ranges: bool = True) -> Table:
    """The table for rich: each count's median above its range."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    caption = None if ranges else "medians: the ranges do not fit on this terminal"
    found = Table(title=comparison.title, caption=caption, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("method", "step"):
        found.add_column(name, overflow="fold")
    for name in ("reached", *map(heading, comparison.quantities)):
        found.add_column(name, justify="right", overflow="fold")
    for tolerance, lines in sections(comparison):
        found.add_section()
        found.add_row(Text(f"to {tolerance:g}", style="italic"))
        for line in lines:
            cells = []
            for quantity, spread in line.counts.items():
                median, span = _parts(spread, quantity)
                best = median != "inf" and spread.median == least(lines, quantity)
                below = f"\n{span}" if span and ranges else ""
                cells.append(Text.assemble((median, "bold" if best else ""), (below, "dim")))
            found.add_row(line.algorithm, line.step, _reached(line), *cells)
    return found


def markdown(comparison: Comparison) -> str:
    """One table for each tolerance, the best medians in bold, and the notes."""
    parts = [f"# {comparison.title}\n"]
    names = ("method", "step", "reached", *map(heading, comparison.quantities))
    for tolerance, lines in sections(comparison):
        parts.append(f"\n## To {tolerance:g}\n\n| {' | '.join(names)} |")
        parts.append(f"|{'---|' * 2}{'---:|' * (len(names) - 2)}")
        for line in lines:
            cells = [_marked(line, lines, quantity, "**{}**", " ({})") for quantity in line.counts]
            parts.append(f"| {' | '.join((line.algorithm, line.step, _reached(line), *cells))} |")
    notes = [*comparison.notes(), *comparison.verdicts()]
    return "\n".join(parts) + "\n\n" + "\n".join(f"- {note}" for note in notes) + "\n"


def latex(comparison: Comparison) -> str:
    r"""A tabular with a block of rows for each tolerance; needs ``\usepackage{booktabs}``."""
    names = ("method", "step", "reached", *map(heading, comparison.quantities))
    parts = [f"% {comparison.title}; needs \\usepackage{{booktabs}}"]
    parts += [f"% {note}" for note in comparison.notes()]
    parts += [rf"\begin{{tabular}}{{ll{'r' * (len(names) - 2)}}}", r"\toprule", rf"{' & '.join(map(_escaped, names))} \\"]
    for tolerance, lines in sections(comparison):
        parts += [r"\midrule", rf"\multicolumn{{{len(names)}}}{{l}}{{to {tolerance:g}}} \\"]
        for line in lines:
            cells = [_marked(line, lines, quantity, r"\textbf{{{}}}", " ({})") for quantity in line.counts]
            parts.append(rf"{' & '.join((*map(_escaped, (line.algorithm, line.step)), _reached(line), *map(_signs, cells)))} \\")
    return "\n".join([*parts, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _marked(line: Line, lines: Sequence[Line], quantity: str, bold: str, span: str) -> str:
    """A count's median, marked where it is the least, and its range."""
    spread = line.counts[quantity]
    median, between = _parts(spread, quantity)
    best = median != "inf" and spread.median == least(lines, quantity)
    return (bold.format(median) if best else median) + (span.format(between) if between else "")


def _escaped(words: str) -> str:
    return "".join(f"\\{character}" if character in "_%&#${}" else character for character in words)


def _signs(words: str) -> str:
    """Infinity as LaTeX writes it."""
    return words.replace("inf", r"$\infty$")


def csv_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each method and tolerance, medians and ranges with every digit."""
    rows = []
    for line in comparison.lines:
        row: dict[str, Any] = {
            name: getattr(line, name) for name in ("algorithm", "step", "tolerance", "trials", "reached", "diverged")
        }
        for quantity, spread in line.counts.items():
            row |= {f"{quantity} {kind}": value for kind, value in spread._asdict().items()}
        rows.append(row)
    return rows


def tuning_rows(comparison: Comparison) -> Iterator[dict[str, Any]]:
    """A row for each step that was tried, seed and tolerance."""
    rules = comparison.rules
    for entry in comparison.entries:
        for one in entry.tried:
            for seed, trace in zip(rules.tuning_seeds, one.traces, strict=False):
                for tolerance in rules.tolerances:
                    at = rules.reached(trace.history, tolerance)
                    yield {
                        "algorithm": entry.label,
                        "factor": one.candidate.factor,
                        "step": str(one.candidate.algorithm.step_size),
                        "chosen": int(one is entry.chosen),
                        "seed": seed,
                        "tolerance": tolerance,
                        "iterations": None if at is None else int(trace.history["iteration"][at]),
                        "status": trace.status,
                        rules.metric: float(trace.history[rules.metric][-1]),
                    }


def written(rows: Iterable[Mapping[str, Any]]) -> str:
    """Rows as CSV."""
    listed = list(rows)
    file = io.StringIO()
    write = csv.writer(file, lineterminator="\n")
    write.writerow(listed[0])
    write.writerows([cell(value) for value in row.values()] for row in listed)
    return file.getvalue()


def save(comparison: Comparison, folder: Path, figure: Figure | None) -> None:
    """Write the files of a comparison; see `Comparison.save`."""
    texts = {
        "comparison.csv": table(comparison, "csv"),
        "trials.csv": written(comparison.per_trial()),
        "table.md": table(comparison, "markdown"),
        "table.tex": table(comparison, "latex"),
    }
    if comparison.rules.tune:
        texts["tuning.csv"] = written(tuning_rows(comparison))
    folder.mkdir(parents=True, exist_ok=True)
    for name, words in texts.items():
        with replacing(folder / name) as file:
            file.write(words.encode())
    if figure is not None:
        for name in ("figure.png", "figure.svg"):
            save_figure(figure, folder / name)
