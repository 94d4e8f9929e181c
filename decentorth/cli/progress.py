"""Progress output during set-up and iterations: a bar on a terminal, about ten plain lines elsewhere."""

from __future__ import annotations

import logging
import math
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ..protocols import SETUP, Collective, Row
from .shell import say

if TYPE_CHECKING:
    from rich.progress import Progress

SHOWN = ("objective", "gradient_norm", "subgradient_norm", "consensus_error", "feasibility", "error", "mrr")
"""The metrics that are shown, where a run has them."""
LINES = 10
PATIENCE, EVERY, TICK = 2.0, 5.0, 0.1
"""CPU seconds of set-up before its first message, CPU seconds between messages, and seconds between looks at the clock."""


def size(number: float) -> str:
    """Bytes in the unit that fits."""
    units = ("B", "kB", "MB", "GB", "TB")
    power = min(max(int(math.log10(max(number, 1))) // 3, 0), len(units) - 1)
    return f"{number / 1000**power:.3g} {units[power]}"


def step_ranges(algorithm: object, state: object, collective: Collective) -> dict[str, list[float]]:
    """The smallest and largest of each per-agent constant that is both a setting of the algorithm and in its state."""
    found = {}
    for name in getattr(algorithm, "__dataclass_fields__", {}):
        values = getattr(state, name, None)
        if isinstance(values, np.ndarray):
            found[name] = [-collective.max(float(-values.min())), collective.max(float(values.max()))]
    return found


def steps_line(ranges: Mapping[str, Sequence[float]]) -> str:
    """The ranges of `step_ranges` in words."""
    parts = [
        f"{name.replace('_', ' ')} {low:.6g}" + (f" to {high:.6g}" if high > low else "") for name, (low, high) in ranges.items()
    ]
    return f"steps       {', '.join(parts) or 'none'}"


class Steps:
    """A metric without columns that reads from the first state the steps with which the agents start.

    Parameters
    ----------
    algorithm
        Its settings say which arrays of the state are steps.
    tell
        Also print them.
    ranges
        The ranges with which a resumed run started.
    """

    columns: tuple[str, ...] = ()

    def __init__(self, algorithm: Any, tell: bool, ranges: dict[str, list[float]] | None = None) -> None:
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


def _short(values: Mapping[str, float]) -> str:
    """A shorter `brief` for the line of a bar: first words of names, two digits, no objective if there is a gradient."""
    names = [name for name in SHOWN if name in values and not (name == "objective" and "gradient_norm" in values)]
    return "  ".join(f"{name.partition('_')[0]} {values[name]:.1e}" for name in names)


class SettingUp(logging.Handler):
    """Handler that prints the latest message of the logger `SETUP` during a long set-up: after two CPU seconds, then every five.

    Parameters
    ----------
    tell
        Print anything at all.
    """

    def __init__(self, tell: bool) -> None:
        super().__init__()
        self._doing = "reading the settings"
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell, daemon=True) if tell else None

    def __enter__(self) -> Self:
        if self._teller is not None:
            SETUP.addHandler(self)
            SETUP.setLevel(logging.INFO)
            self._teller.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Print nothing more."""
        self._ended.set()
        if self._teller is not None:
            self._teller.join()
            self._teller = None
            SETUP.removeHandler(self)
            SETUP.setLevel(logging.NOTSET)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message as the present task."""
        self._doing = record.getMessage()

    def _tell(self) -> None:
        begun, due = time.process_time(), PATIENCE
        while not self._ended.wait(TICK):
            if (spent := time.process_time() - begun) >= due:
                due = spent + EVERY
                sys.stdout.write(f"setting up: {self._doing} ({spent:.0f} s)\n")
                sys.stdout.flush()


class PlainProgress:
    """A recorder that prints a line at the start and whenever another tenth of the iterations is done.

    Parameters
    ----------
    iterations
        The most that will be made.
    """

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self._due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Undo nothing."""

    def record(self, row: Row) -> None:
        """Print the row if a line is due."""
        if row.iteration >= self._due:
            self._due = (row.iteration * LINES // max(self.iterations, 1) + 1) * self.iterations / LINES
            width = len(str(self.iterations))
            say(f"{row.iteration:{width}d}/{self.iterations}  {brief(row.values)}  {row.seconds:.1f} s")


class BarProgress:
    """A recorder that draws a bar with the metrics on the terminal, and removes it at the end.

    Parameters
    ----------
    iterations
        The most that will be made.
    """

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        parts = (MofNCompleteColumn(), BarColumn(bar_width=10), TextColumn("{task.description}"), TimeRemainingColumn())
        self._bar = Progress(*parts, console=Console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task("", total=self.iterations)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()

    def record(self, row: Row) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=row.iteration, description=_short(row.values))


def progress(iterations: int) -> PlainProgress | BarProgress:
    """The bar when standard error is a terminal, plain lines otherwise."""
    return BarProgress(iterations) if sys.stderr.isatty() else PlainProgress(iterations)


def verdict(message: str, first: Row, last: Row, error_name: str | None, notes: Mapping[str, str]) -> str:
    """One sentence on how a run ended.

    Parameters
    ----------
    message
        The reason for stopping.
    first, last
        The first and last rows of its history.
    error_name
        The meaning of the metric ``error``, if the answer is known.
    notes
        Further facts about the end, by a key of a word or two.
    """
    facts = []
    for name in ("gradient_norm", "consensus_error", "feasibility", "error", "mrr"):
        if name in last.values:
            words = (error_name or name) if name == "error" else name
            begin = f"{first.values[name]:.3g} -> " if name in ("gradient_norm", "mrr") and name in first.values else ""
            facts.append(f"{words.replace('_', ' ')} {begin}{last.values[name]:.3g}")
    facts.append(f"{last.seconds:.2f} s")
    facts += [f"{words} {value}" for words, value in notes.items()]
    return f"{message.rstrip('.')}: {', '.join(facts)}."
