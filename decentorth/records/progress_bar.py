"""Progress output during set-up and iterations: a bar on a terminal or in a notebook, otherwise
about ten lines, and at least one a minute."""

from __future__ import annotations

import contextlib
import html
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from types import SimpleNamespace
from typing import Any, Self

import numpy as np

from topologies.line.progress import LOG, Telling

from ..numerics.devices import is_on_device
from ..process.printing import on_terminal, say
from ..protocols import SETUP, Collective, Followed, Recorder, Row
from ..settings import settings

SHOWN = (
    *("objective", "gradient_norm", "subgradient_norm", "stationarity"),
    *("consensus_error", "feasibility", "error", "mrr"),
)
"""The metrics that are shown, where a run has them."""
LINES = 10
MINUTE = 60.0
"""The most seconds without a line."""
WRITER = logging.getLogger("decentorth.running.checkpoint.writer")
"""It has a message for each checkpoint."""


class SettingUp(Telling):
    """A context that prints the current task of a long set-up, if ``prints``."""

    def __init__(self, prints: bool) -> None:
        super().__init__("setting up", "reading the settings", (SETUP, LOG), prints)


Ranges = dict[str, list[float]]
"""The smallest and largest value by name."""


def step_ranges(algorithm: object, state: Any, collective: Collective) -> Ranges:
    """The smallest and largest of each per-agent constant that is both a setting of the algorithm
    and in its state."""
    found = {}
    for name in settings(type(algorithm)):
        values: Any = getattr(state, name, None)
        if isinstance(values, np.ndarray) or is_on_device(values):
            least = float(values.min())
            most = float(values.max())
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


def duration(seconds: float) -> str:
    """Seconds in words, of one unit or two: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 60.0:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60.0), 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min"


class Lines:
    """Plain lines about ``total`` units of work: when ``due`` units are done, then after every
    tenth, and at least one a minute.

    A line after the first minute has the time that is left, if the pace stays. As a context it also
    prints between two calls, if it follows a run.
    """

    def __init__(
        self,
        total: int,
        noun: str = "",
        due: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total = total
        self._noun = noun
        self._due = due
        self._clock = clock
        self._begun = self._printed = clock()
        self._first: int | None = None
        self._words = ""
        self._run: Followed | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def __call__(self, done: int, words: str, short: str) -> None:
        """Print the line of ``done`` units if it is time for one."""
        with self._lock:
            if self._first is None:
                self._first, self._begun = done, self._clock()
            self._words = words
            if done >= self._due or self._clock() - self._printed >= MINUTE:
                self._due = _next_line(done, self._total)
                self._print(done, words)

    def follow(self, run: Followed) -> None:
        """Read the iteration of a run between two rows."""
        self._run = run

    def between(self) -> None:
        """Print a line with the iteration of the run that is followed, if a minute has passed
        without a line."""
        with self._lock:
            waiting = self._clock() - self._printed >= MINUTE
            if waiting and self._run is not None and self._first is not None:
                self._print(self._run.iteration, f"last row: {self._words}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Print nothing more between two calls."""
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(1.0):
            self.between()

    def _print(self, done: int, words: str) -> None:
        now = self._clock()
        self._printed, spent, made = now, now - self._begun, done - (self._first or 0)
        if spent >= MINUTE and made > 0 and done < self._total:
            words = f"{words}  {duration(spent * (self._total - done) / made)} left"
        say(f"{done:{len(str(self._total))}d}/{self._total}{self._noun}  {words}")


class CheckpointLines(logging.Handler):
    """A context in which a line says each checkpoint that is written."""

    def __enter__(self) -> Self:
        WRITER.addHandler(self)
        WRITER.setLevel(logging.INFO)
        return self

    def __exit__(self, *error: object) -> None:
        """Print nothing more."""
        WRITER.removeHandler(self)
        WRITER.setLevel(logging.NOTSET)

    def emit(self, record: logging.LogRecord) -> None:
        """Print the message about a checkpoint."""
        if record.levelno == logging.INFO:
            say(record.getMessage())


def progress(
    total: int, done: int = 0, noun: str = "", due: float = 0.0
) -> AbstractContextManager[Show]:
    """A bar in a notebook, or when standard error is a terminal, which is removed at the end;
    plain lines otherwise."""
    if in_notebook():
        return _notebook_bar(total, done)
    if sys.stderr is not None and sys.stderr.isatty():
        return _bar(total, done)
    return Lines(total, noun, due)


def in_notebook() -> bool:
    """True in the kernel of a notebook, which shows HTML."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


@contextlib.contextmanager
def _notebook_bar(total: int, done: int) -> Iterator[Show]:
    """A bar below a cell, drawn again after each hundredth and each second; the last line stays."""
    from IPython.display import HTML, display

    handle = display(HTML(""), display_id=True)
    drawn = 0.0
    share = -1
    line = ""

    def show(done: int, words: str, short: str) -> None:
        nonlocal drawn, share, line
        now = time.monotonic()
        part = 100 * done // max(total, 1)
        line = f"<code>{html.escape(f'{done}/{total}  {words}')}</code>"
        if part != share or now - drawn >= 1.0:
            drawn = now
            share = part
            handle.update(HTML(f'<progress value="{done}" max="{total}"></progress> {line}'))

    show(done, "", "")
    try:
        yield show
    finally:
        handle.update(HTML(line))


def show_row(show: Show, row: Row) -> None:
    """Show a row of the history."""
    show(row.iteration, f"{brief(row.values)}  {row.seconds:.1f} s", briefer(row.values))


@contextlib.contextmanager
def row_progress(total: int) -> Iterator[Recorder]:
    """A recorder that shows how far a run is, and its latest row."""
    with progress(total) as show:
        recorder = SimpleNamespace(record=partial(show_row, show))
        if isinstance(show, Lines):
            recorder.follow = show.follow
        yield recorder


@contextlib.contextmanager
def trial_progress(total: int, done: int, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A function to call with a few words after each of ``total`` trials, of which ``done`` were
    made before."""
    if quiet or total == done:
        yield lambda words: None
        return
    begun = time.perf_counter()
    made = done
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
    with rich.Progress(
        rich.MofNCompleteColumn(table_column=whole),
        rich.BarColumn(bar_width=10),
        rich.TimeRemainingColumn(table_column=rich.Column(no_wrap=True, min_width=7)),
        rich.TextColumn("{task.description}"),
        console=rich.Console(stderr=True),
        transient=True,
    ) as bar:
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
