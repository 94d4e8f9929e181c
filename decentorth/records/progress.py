"""Progress output during set-up and iterations: a bar on a terminal, about ten plain lines elsewhere."""

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
from ..process.printing import say
from ..protocols import SETUP, Collective, Recorder, Row

SHOWN = (
    *("objective", "gradient_norm", "subgradient_norm", "stationarity"),
    *("consensus_error", "feasibility", "error", "mrr"),
)
"""The metrics that are shown, where a run has them."""
LINES = 10


class SettingUp(Telling):
    """A context that prints the present task of a long set-up, if it is to ``tell``."""

    def __init__(self, tell: bool) -> None:
        super().__init__("setting up", "reading the settings", (SETUP, LOG), tell)


def step_ranges(algorithm: object, state: object, collective: Collective) -> dict[str, list[float]]:
    """The smallest and largest of each per-agent constant that is both a setting of the algorithm and in its state."""
    found = {}
    for name in getattr(algorithm, "__dataclass_fields__", {}):
        values: Any = getattr(state, name, None)
        if isinstance(values, np.ndarray) or is_on_device(values):
            least, most = float(values.min()), float(values.max())
            found[name] = [-collective.max(-least), collective.max(most)]
    return found


def steps_line(ranges: Mapping[str, Sequence[float]]) -> str:
    """The ranges of `step_ranges` in words."""
    parts = []
    for name, (low, high) in ranges.items():
        parts.append(f"{name.replace('_', ' ')} {low:.6g}")
        if high > low:
            parts[-1] += f" to {high:.6g}"
    return f"steps       {', '.join(parts) or 'none'}"


class Steps:
    """A metric without columns that reads from the first state the steps with which the agents start, and prints them if it is to
    ``tell``; ``ranges`` are those with which a resumed run started."""

    columns: tuple[str, ...] = ()

    def __init__(self, algorithm: object, tell: bool, ranges: dict[str, list[float]] | None = None) -> None:
        self.algorithm = algorithm
        self.tell = tell
        self.ranges = ranges

    def __call__(self, problem: object, state: object, collective: Collective) -> tuple[float, ...]:
        """Read the steps at the first recorded row; called by every rank at each row."""
        if self.ranges is None:
            self.ranges = step_ranges(self.algorithm, state, collective)
            if self.tell:
                say(steps_line(self.ranges))
        return ()


def brief(values: Mapping[str, float]) -> str:
    """The shown metrics in one line, three digits each."""
    return "  ".join(f"{name} {values[name]:.3g}" for name in SHOWN if name in values)


def briefer(values: Mapping[str, float]) -> str:
    """A shorter `brief` for the line of a bar: first words of names, two digits, no objective if there is a gradient."""
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


def progress(total: int, done: int = 0, noun: str = "", due: float = 0.0) -> AbstractContextManager[Show]:
    """A bar when standard error is a terminal, which is removed at the end; plain lines otherwise."""
    if sys.stderr is not None and sys.stderr.isatty():
        return _bar(total, done)
    return contextlib.nullcontext(plain_lines(total, noun, due))


def show_row(show: Show, row: Row) -> None:
    """Show a row of the history."""
    show(row.iteration, f"{brief(row.values)}  {row.seconds:.1f} s", briefer(row.values))


@contextlib.contextmanager
def row_progress(total: int) -> Iterator[Recorder]:
    """A recorder that shows how far a run is, and its latest row: in a notebook in one line, else as `progress`."""
    showing = progress(total)
    if "ipykernel" in sys.modules:
        showing = _in_notebook(total)
    with showing as show:
        yield SimpleNamespace(record=partial(show_row, show))


@contextlib.contextmanager
def _in_notebook(total: int) -> Iterator[Show]:
    from IPython.display import HTML, display

    line = display(HTML(""), display_id=True)

    def show(done: int, words: str, short: str) -> None:
        bar = f'<progress value="{done}" max="{max(total, 1)}"></progress>'
        line.update(HTML(f"{bar} {done}/{total} {words}"))

    yield show


@contextlib.contextmanager
def trial_progress(total: int, done: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A function to call with a few words after each of ``total`` trials, of which ``done`` were made before."""
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


@contextlib.contextmanager
def _bar(total: int, done: int) -> Iterator[Show]:
    from rich import progress as rich
    from rich.console import Console

    parts = rich.MofNCompleteColumn(), rich.BarColumn(bar_width=10), rich.TextColumn("{task.description}")
    with rich.Progress(*parts, rich.TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda done, words, short: bar.update(task, completed=done, description=short)


def verdict(message: str, first: Row, last: Row, error_name: str | None, notes: Mapping[str, str]) -> str:
    """One sentence on how a run ended: the reason, its first and last rows, and further facts by a key of a word or two.

    ``error_name`` is the meaning of the metric ``error``, if the answer is known.
    """
    facts = []
    for name in ("gradient_norm", "stationarity", "consensus_error", "feasibility", "error", "mrr"):
        if name in last.values:
            fact = f"{last.values[name]:.3g}"
            if name in ("gradient_norm", "stationarity", "mrr") and name in first.values:
                fact = f"{first.values[name]:.3g} -> {fact}"
            words = {"error": error_name or name}.get(name, name)
            facts.append(f"{words.replace('_', ' ')} {fact}")
    facts += [f"{last.seconds:.2f} s", *(f"{words} {value}" for words, value in notes.items())]
    facts = [fact for fact in facts if fact not in message]
    return f"{message.rstrip('.')}: {', '.join(facts)}."
