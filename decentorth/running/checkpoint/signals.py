"""Pending signals of a run: each is noted when it comes, and handled between two iterations or when
all files are written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Collection
from types import FrameType
from typing import Any, Self


def _known(*names: str) -> frozenset[signal.Signals]:
    """The signals of these names that there are on this system (Windows lacks some)."""
    return frozenset(number for number in signal.Signals if number.name in names)


ENDINGS = _known("SIGHUP", "SIGINT", "SIGTERM", "SIGUSR2")
"""The signals that end a run."""
REQUESTS = _known("SIGUSR1")
"""The signal that asks for a checkpoint."""


class PendingSignals:
    """A context in which signals wait until they are taken; a second SIGINT raises
    KeyboardInterrupt at once.

    It may be nested. A signal of `ENDINGS` that has not been taken takes effect when the outermost
    context ends; an ignored signal stays ignored (nohup, a background job of a shell). Only the
    main thread receives signals: in another thread the context changes nothing. All signals since
    the outermost context began are in ``seen``.

    Parameters
    ----------
    numbers
        The signals that wait.
    """

    def __init__(self, numbers: Collection[signal.Signals] = ENDINGS | REQUESTS) -> None:
        self._numbers = numbers
        self.seen: set[int] = set()
        self._waiting: set[int] = set()
        self._before: dict[int, Any] = {}
        self._depth = 0

    def __enter__(self) -> Self:
        self._depth += 1
        if self._depth == 1 and threading.current_thread() is threading.main_thread():
            self.seen = set()
            self._waiting = set()
            for number in self._numbers:
                if number in REQUESTS or signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            for number, handler in self._before.items():
                signal.signal(number, handler or signal.SIG_DFL)
            self._before.clear()
            if kind is None and (late := self.take() & ENDINGS):
                signal.raise_signal(max(late))

    def take(self) -> set[int]:
        """The signals received since the last call."""
        taken = self._waiting
        self._waiting = set()
        return taken

    def _note(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and number in self.seen:
            raise KeyboardInterrupt
        self.seen.add(number)
        self._waiting.add(number)
