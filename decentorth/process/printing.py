"""Lines on standard output and standard error, which may have been closed or be full."""

from __future__ import annotations

import os
import sys
from typing import TextIO

FAULT, BAD_INPUT = 1, 2


def on_terminal() -> bool:
    """True if standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def say(text: str, speaks: bool = True) -> int:
    """Print on standard output if this rank ``speaks``; the exit code is 0, or 1 if the text cannot
    be printed.

    The failure is reported on standard error, and nothing more is printed: the work continues.

    Raises
    ------
    BrokenPipeError
        The reader of the output has closed it.
    """
    try:
        if speaks and sys.stdout is not None:  # it is None in a process without a console
            sys.stdout.write(f"{text.rstrip()}\n")
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        discard(sys.stdout)
        complain(
            f"decentorth: cannot write to standard output ({error.strerror}); nothing more is "
            "printed"
        )
        return FAULT
    return 0


def complain(text: str) -> None:
    """Print a line on standard error, if that can be written to."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except OSError:
        discard(sys.stderr)


def discard(stream: TextIO) -> None:
    """Discard the stream's buffer and everything written to it from now on."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
