"""Lines about a long computation: what is computed, and for how long."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import Self, TextIO

LOG = logging.getLogger("topologies")
"""Long computations name themselves here, at level INFO."""
Loggers = Sequence[logging.Logger]
PATIENCE, EVERY, TICK = 2.0, 5.0, 0.1
"""CPU seconds before the first line, CPU seconds between lines, and seconds between readings of the
clock."""


class Telling(logging.Handler):
    """A context that prints the latest message of some loggers: after two CPU seconds, then every
    five.

    Parameters
    ----------
    title
        The beginning of each line.
    doing
        The task before the first message.
    loggers
        The loggers.
    tell
        Print nothing if false.
    stream
        The stream; by default standard output.
    """

    def __init__(
        self, title: str, doing: str, loggers: Loggers, tell: bool, stream: TextIO | None = None
    ) -> None:
        super().__init__()
        self._title = title
        self._doing = doing
        self._loggers = loggers
        self._stream = stream
        self._ended = threading.Event()
        self._teller = threading.Thread(target=self._tell, daemon=True) if tell else None

    def __enter__(self) -> Self:
        if self._teller is not None:
            for logger in self._loggers:
                logger.addHandler(self)
                logger.setLevel(logging.INFO)
            self._teller.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Print nothing more."""
        self._ended.set()
        if self._teller is not None:
            self._teller.join()
            self._teller = None
            for logger in self._loggers:
                logger.removeHandler(self)
                logger.setLevel(logging.NOTSET)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the message as the present task."""
        self._doing = record.getMessage()

    def _tell(self) -> None:
        begun = time.process_time()
        due = PATIENCE
        while not self._ended.wait(TICK):
            if (spent := time.process_time() - begun) >= due:
                due = spent + EVERY
                stream = self._stream or sys.stdout
                stream.write(f"{self._title}: {self._doing} ({spent:.0f} s)\n")
                stream.flush()
