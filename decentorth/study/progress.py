"""How far a study is: a bar on a terminal, about ten plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from .table import Trial

LINES = 10


def words(trial: Trial) -> str:
    """A trial in one line."""
    return " ".join(str(value) for value in trial.values())


@contextlib.contextmanager
def progress(total: int, done: int, quiet: bool) -> Iterator[Callable[[Trial], None]]:
    """A function to call after each trial.

    Parameters
    ----------
    total, done
        Trials in all, and those that a file had already.
    """
    if quiet or total == done:
        yield lambda trial: None
    elif sys.stderr.isatty():
        yield from _bar(total, done)
    else:
        yield _plain(total, done)


def _bar(total: int, done: int) -> Iterator[Callable[[Trial], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    parts = (MofNCompleteColumn(), BarColumn(bar_width=20), TextColumn("{task.description}"), TimeRemainingColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total, completed=done)
        yield lambda trial: bar.update(task, advance=1, description=words(trial))


def _plain(total: int, done: int) -> Callable[[Trial], None]:
    begun, made = time.perf_counter(), done

    def advance(trial: Trial) -> None:
        nonlocal made
        made += 1
        if made == total or made * LINES // total > (made - 1) * LINES // total:
            sys.stdout.write(f"{made:{len(str(total))}d}/{total} trials  {time.perf_counter() - begun:.1f} s  {words(trial)}\n")
            sys.stdout.flush()

    return advance
