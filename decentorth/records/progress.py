"""Progress output during set-up and iterations: a bar on a terminal, otherwise about ten lines."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from topologies.progress import LOG, Telling

from ..numerics.devices import is_on_device
from ..process.printing import on_terminal, say
from ..protocols import SETUP, Collective, Recorder, Row
from ..settings import settings

SHOWN = (
    *("objective", "gradient_norm", "subgradient_norm", "stationarity"),
    *("consensus_error", "feasibility", "error", "mrr"),
)
"""The metrics that are shown, where a run has them."""
LINES = 10


class SettingUp(Telling):
    """A context that prints the current task of a long set-up, if ``prints``."""

    def __init__(self, prints: bool) -> None:
        super().__init__("setting up", "reading the settings", (SETUP, LOG), prints)


Ranges = dict[str, list[float]]
"""The smallest and largest value by name."""


def step_ranges(algorithm: object, state: Any, collective: Collective) -> Ranges:
    """The smallest and largest of each per-agent constant that is both a setting of the algorithm
    and in its state."""
    found, entries = {}, state._asdict()
    for name in settings(type(algorithm)):
        values = entries.get(name)
        if isinstance(values, np.ndarray) or is_on_device(values):
            least, most = float(values.min()), float(values.max())
            found[name] = [-collective.max(-least), collective.max(most)]
    return found


def steps_line(ranges: Mapping[str, Sequence[float]]) -> str:
    """The ranges of `step_ranges` in words."""
    parts = []
    for name, ends in ranges.items():
        words = dict.fromkeys(f"{end:.6g}" for end in ends)
        parts.append(f"{name.replace('_', ' ')} {' to '.join(words)}")
    return f"steps       {', '.join(parts) or 'none'}"


class Steps:
    """A metric without columns that reads the agents' first steps from the first state, and
    ``prints`` them.

    ``ranges`` are those of the first start of a resumed run.
    """

    columns: tuple[str, ...] = ()

    def __init__(self, algorithm: object, prints: bool, ranges: Ranges | None = None) -> None:
        self.algorithm = algorithm
        self.prints = prints
        self.ranges = ranges

    def __call__(self, problem: object, state: object, collective: Collective) -> tuple[float, ...]:
        """Read the steps at the first recorded row; called by every rank at each row."""
        if self.ranges is None:
            self.ranges = step_ranges(self.algorithm, state, collective)
            if self.prints and self.ranges:
                say(steps_line(self.ranges))
        return ()


def brief(values: Mapping[str, float]) -> str:
    """The shown metrics in one line, three digits each."""
    return "  ".join(f"{name} {values[name]:.3g}" for name in SHOWN if name in values)


def briefer(values: Mapping[str, float]) -> str:
    """A shorter `brief` for the line of a bar: first words of names, two digits, no objective if
    there is a gradient."""
    names = [name for name in SHOWN if name in values]
    if "gradient_norm" in values:
        names = [name for name in names if name != "objective"]
    return "  ".join(f"{name.partition('_')[0]} {values[name]:.1e}" for name in names)


Show = Callable[[int, str, str], None]
"""Shows how many are done, with words for a line and shorter words for a bar."""


def _next_line(done: int, total: int) -> float:
    """The number at which another tenth is done."""
    return (done * LINES // max(total, 1) + 1) * total / LINES


def plain_lines(total: int, noun: str = "", due: float = 0.0) -> Show:
    """Print a line when ``due`` are done, and then whenever another tenth is."""

    def show(done: int, words: str, short: str) -> None:
        nonlocal due
        if done >= due:
            due = _next_line(done, total)
            say(f"{done:{len(str(total))}d}/{total}{noun}  {words}")

    return show


def progress(
    total: int, done: int = 0, noun: str = "", due: float = 0.0
) -> AbstractContextManager[Show]:
    """A bar when standard error is a terminal, which is removed at the end; plain lines
    otherwise."""
    if sys.stderr is not None and sys.stderr.isatty():
        return _bar(total, done)
    return contextlib.nullcontext(plain_lines(total, noun, due))


def show_row(show: Show, row: Row) -> None:
    """Show a row of the history."""
    show(row.iteration, f"{brief(row.values)}  {row.seconds:.1f} s", briefer(row.values))


@contextlib.contextmanager
def row_progress(total: int) -> Iterator[Recorder]:
    """A recorder that shows how far a run is, and its latest row."""
    with progress(total) as show:
        yield SimpleNamespace(record=partial(show_row, show))


@contextlib.contextmanager
def trial_progress(total: int, done: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A function to call with a few words after each of ``total`` trials, of which ``done`` were
    made before."""
    if quiet or total == done:
        yield lambda words: None
        return
    begun, made = time.perf_counter(), done
    with progress(total, done, " trials", _next_line(done, total)) as show:

        def advance(words: str) -> None:
            nonlocal made
            made += 1
            show(made, f"{time.perf_counter() - begun:.1f} s  {words}", words)

        yield advance


def _rich() -> Any:
    """The part of rich that draws on terminals."""
    from rich import progress as rich

    return rich


@contextlib.contextmanager
def _bar(total: int, done: int) -> Iterator[Show]:
    rich = _rich()
    whole = rich.Column(no_wrap=True, min_width=2 * len(str(total)) + 1)
    parts = (
        rich.MofNCompleteColumn(table_column=whole),
        rich.BarColumn(bar_width=10),
        rich.TimeRemainingColumn(table_column=rich.Column(no_wrap=True, min_width=7)),
        rich.TextColumn("{task.description}"),
    )
    with rich.Progress(*parts, console=rich.Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda done, words, short: bar.update(task, completed=done, description=short)


def results(first: Row, last: Row, error_name: str | None) -> Iterator[tuple[str, str]]:
    """The names and values of the shown metrics at the end of a run; at its start too, where they
    fall or rise to the answer.

    ``error_name`` is the meaning of the metric ``error``, if the answer is known.
    """
    for name in SHOWN:
        if name in last.values:
            digits = 6 if name == "objective" else 3
            fact = f"{last.values[name]:.{digits}g}"
            if name not in ("consensus_error", "feasibility") and name in first.values:
                fact = f"{first.values[name]:.{digits}g} -> {fact}"
            words = {"error": error_name or name}.get(name, name)
            yield words.replace("_", " "), fact


def headline(text: str, style: str) -> None:
    """Print a line on standard output, on a terminal in a style of rich such as "bold green",
    without colours by NO_COLOR."""
    if on_terminal():
        _rich().Console(highlight=False).print(text, style=style, markup=False, soft_wrap=True)
    else:
        say(text)
