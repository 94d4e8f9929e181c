"""The frames of commands, on ranks (`serve`) and in one process (`alone`): arguments in, an exit
code out, an error printed once.

Exit codes: 2 bad input, 130 interrupted, 141 the reader of the output has closed it; other codes
belong to each command.
"""

from __future__ import annotations

import logging
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from decentorth.process.printing import BAD_INPUT, FAULT, complain, discard, say
from topologies.line.flags import HELP, InputError, arguments, call, function_help

from ..._version import __version__
from ...network.transport.communicator import Communicator, connect
from ...process import environment as _mpienv
from ...process.abort import abort
from ...process.withholding import withheld
from .config_files import with_flags
from .form import CommandForm, Saved, config_bytes, early_flag
from .help import help_of

Errors = tuple[type[Exception], ...]
INTERRUPTED, NO_READER = 130, 141
"""The exit codes by which a shell reports an end by SIGINT and by SIGPIPE."""
REFUSALS: Errors = (ValueError, TypeError, ImportError, OSError, MemoryError)
"""Exceptions that refuse a request; any other exception is a fault, and keeps its traceback."""
LONGEST, LONGEST_WORD = 1000, 300
"""The approximate maximum number of characters of an error's line, and of a word in it."""
T = TypeVar("T")
C = TypeVar("C", bound=Saved)
AnyForm = type[CommandForm[Any]]
log = logging.getLogger(__name__)


def serve(
    tokens: Sequence[str] | None,
    form: AnyForm,
    work: Callable[[list[str], Communicator], int],
    *,
    name: str,
    failed: Errors = (MemoryError,),
) -> int:
    """Run the command with these arguments and return the exit code.

    Parameters
    ----------
    tokens
        The arguments; None for those of this process.
    form
        The command's settings, for the help.
    work
        The command's work, a function of its arguments and the ranks that returns the exit code. A
        KeyboardInterrupt that it raises may carry a message on what is left.
    name
        The first word of error messages.
    failed
        Faults, perhaps of this rank alone, whose message is the whole answer.
    """
    _mpienv.prepare_command()
    root = _mpienv.rank() == 0

    def served() -> int:
        words = arguments(tokens)
        if "--version" in words:
            return say(f"decentorth {__version__}", root)
        if HELP & set(words):
            return show_help(form, words, root)
        try:
            # under torchrun a command has one meaning, as it has under mpirun
            communicator = connect("torch" if _mpienv.torchrun() else None)
        except (ImportError, RuntimeError) as error:
            raise InputError(str(error)) from None
        return work(words, communicator)

    return framed(served, name, failed=failed)


def alone(
    tokens: Sequence[str] | None,
    work: Callable[[list[str]], int],
    *,
    name: str,
    refused: Errors = REFUSALS,
    failed: Errors = (),
) -> int:
    """Run a command of one process, with errors handled as in `serve`.

    If it is started on several ranks, only rank 0 works.
    """
    _mpienv.prepare_command()
    if _mpienv.rank() > 0:
        return 0

    def worked() -> int:
        code = work(arguments(tokens))
        sys.stdout.flush()
        return code

    return framed(worked, name, refused, (MemoryError, *failed), together=False)


def of_function(
    tokens: Sequence[str] | None,
    function: Callable[..., str],
    usage: str,
    *,
    missing: str = "",
) -> int:
    """Run a one-process command that is a typed function, and print what it returns.

    Keyword parameters of ``function`` are flags. ``usage`` begins with the command. ``missing``
    is the message about a missing argument.
    """

    def work(words: list[str]) -> int:
        if HELP & set(words):
            summary = " ".join(str(function.__doc__).partition("\n\n")[0].split())
            return say(function_help(function, usage, summary))
        return say(call(function, words, missing))

    return alone(tokens, work, name=" ".join(usage.split()[:2]))


def framed(
    work: Callable[[], int],
    name: str,
    refused: Errors = (InputError,),
    failed: Errors = (MemoryError,),
    together: bool = True,
) -> int:
    """The exit code of ``work``, with its errors and warnings as lines that begin with ``name``.

    Parameters
    ----------
    refused, failed
        Exceptions whose message is the whole answer: bad input, on every rank, and a fault, perhaps
        on this rank alone.
    together
        Whether other ranks work too, and are ended where this one is stopped.
    """
    form = warnings.formatwarning
    warnings.formatwarning = lambda message, *_: f"{name}: {one_line(Exception(message))}\n"
    try:
        return work()
    except BrokenPipeError:  # the reader of our output has closed it
        discard(sys.stdout)
        code = NO_READER
        told = ""
    except refused as error:
        log.debug("where it was refused", exc_info=True)
        if _mpienv.rank() == 0 or withheld(error):
            complain(f"{name}: {one_line(error)}")
        if isinstance(error, OSError) and error.filename is None:  # the output, not a file
            return FAULT
        return BAD_INPUT
    except failed as error:
        log.debug("where it failed", exc_info=True)
        code = FAULT
        told = f"{name}: {one_line(error)}"
    except KeyboardInterrupt as error:
        words = "; ".join(("interrupted", *map(str, error.args)))
        code = INTERRUPTED
        told = f"{name}: {words}" * (_mpienv.rank() == 0)
    finally:
        warnings.formatwarning = form
    if told:
        complain(told)
    if together and _mpienv.expected_ranks()[0] > 1:
        abort(code)
    return code


def show_help(form: AnyForm, words: Sequence[str], speaks: bool = True) -> int:
    """Print the help of a command if this rank ``speaks``, and return the exit code 0.

    A word after ``--help`` names a topic.
    """
    path = early_flag(words, "config")
    try:
        raw = config_bytes(path)
    except OSError as error:
        raise InputError(one_line(error)) from None
    topic = ""
    rest = list(words)
    for flag, word in pairwise(words):
        if flag in HELP and not word.startswith("-"):
            topic = word
            rest.remove(word)
    rest = [word for word in rest if word not in HELP]
    return say(help_of(form(rest, path, raw), topic), speaks)


def read_configuration(
    form: type[CommandForm[C]], words: Sequence[str], communicator: Communicator
) -> C:
    """The configuration, which rank 0 reads and shares: an error of rank 0 is raised by all.

    An InputError if ranks were started with other arguments.
    """
    own = "\0".join(words).encode(errors="surrogateescape")
    if len({*communicator.allgather_bytes(own)}) > 1:
        raise InputError("start every rank with the same arguments; some have others")

    def read() -> tuple[C, bytes]:
        asked = form.asked(words)
        return asked.resolve(), asked.shared()

    found, shared = by_root(communicator, read) or (None, b"")
    shared = communicator.bcast_bytes(shared)
    return together(communicator, lambda: found or form.received(shared).resolve())


def by_root(communicator: Communicator, work: Callable[[], T]) -> T | None:
    """The result of ``work`` on rank 0, None on the others, and at each site; all raise its
    error."""

    def on_root() -> T | None:
        return work() if communicator.root else None

    return together(communicator, on_root)


def together(communicator: Communicator, work: Callable[[], T]) -> T:
    """The result of ``work``, which must not communicate; if it fails on one rank, all raise the
    first failing rank's error. Other sites read only whose it is."""
    message = ""
    try:
        result = work()
    except REFUSALS as error:
        log.debug("where it was refused", exc_info=True)
        message = one_line(error)
    if communicator.sites:
        _check_sites(communicator, message)
        return result
    for rank, text in enumerate(communicator.allgather_bytes(message.encode())):
        if text and rank > 0:
            raise InputError(f"on rank {rank}: {text.decode()}")
        if text:
            raise InputError(text.decode())
    return result


def _check_sites(communicator: Communicator, message: str) -> None:
    """Raise this site's error, or say which other site has one."""
    every = communicator.allgather_bytes(b"failed" * bool(message))
    if message:
        raise InputError(message)
    for site, failed in zip(communicator.sites, every, strict=True):
        if failed:
            raise InputError(f"site {site} cannot continue: the reason is on its own screen")


def one_line(error: Exception) -> str:
    """An error's message in one printable line: very long words are cut to their beginning, a very
    long line to its two ends."""
    text = with_flags(str(error) or repr(error))
    match error:
        case OSError(filename=str() | bytes() as file):
            text = f"cannot use {file!s}: {error.strerror}"
        case MemoryError():
            text = (
                f"not enough memory: {error or 'none is left'}; give smaller numbers, or more "
                "ranks on more hosts"
            )
    text = " ".join(text.encode(errors="backslashreplace").decode().split())
    text = re.sub(rf"(\S{{80}})\S{{{LONGEST_WORD - 79},}}", r"\1...", text)
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 3 :]}"
    return text
