"""``python -m decentorth.run``: one run from the command line, in this process or, under ``mpirun``, on MPI ranks.

Exit codes: 0 converged or all iterations done, 1 a fault, 2 bad input, 3 diverged or left the safety region, 4 not converged with
``--require-converged``, 130 interrupted.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from . import __version__, _mpienv
from ._ending import abort
from .cli.config import Command, Configuration, config_flag, values
from .cli.flags import InputError
from .cli.settings import RunSettings

if TYPE_CHECKING:
    from .api import Result, Run
    from .cli.outputs import RunFolder
    from .network.communicator import Communicator
    from .protocols import Array, StoppingRule

BAD_INPUT, RUNAWAY, NOT_CONVERGED = 2, 3, 4
INTERRUPTED, NO_READER = 130, 141
"""As a shell reports the end by SIGINT and by SIGPIPE."""
HELP = frozenset({"--help", "-h"})
T = TypeVar("T")
log = logging.getLogger(__name__)


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code.

    Parameters
    ----------
    tokens
        The arguments; by default those of this process.
    """
    _mpienv.prepare()
    words = list(sys.argv[1:] if tokens is None else tokens)
    root = _mpienv.rank() == 0
    try:
        if "--version" in words:
            return _say(f"decentorth {__version__}", root)
        if HELP & set(words):
            return _help([word for word in words if word not in HELP]) if root else 0
        from .network.communicator import connect

        try:
            communicator = connect()
        except RuntimeError as error:
            raise InputError(str(error)) from None
        root = communicator.rank == 0
        return _run(words, communicator)
    except InputError as error:
        log.debug("where it was refused", exc_info=True)
        if root:
            sys.stderr.write(f"decentorth: {error}\n")
        return BAD_INPUT
    except KeyboardInterrupt:
        return _stopped(INTERRUPTED, "interrupted; the history so far is in the folder given by --out" if root else "")
    except BrokenPipeError:  # who read our output has had enough of it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _stopped(NO_READER, "")


def _stopped(code: int, words: str) -> int:
    """The exit code of a run that is stopped from outside, which ends the other ranks too."""
    if words:
        sys.stderr.write(f"decentorth: {words}\n")
    if _mpienv.expected_ranks()[0] > 1:
        abort(code)
    return code


def _help(words: Sequence[str]) -> int:
    path = config_flag(words)
    try:
        return _say(Command(words, path, b"" if path is None else Path(path).read_bytes()).help())
    except OSError as error:
        raise InputError(_words(error)) from None


def _run(words: Sequence[str], communicator: Communicator) -> int:
    configuration = read_configuration(words, communicator)
    settings, root = configuration.run, communicator.rank == 0
    if settings.print_config:
        return _say(configuration.yaml(outputs=True), root)
    together(communicator, lambda: _check_early(settings, communicator))

    from .api import Run
    from .cli import wiring

    made = together(communicator, lambda: wiring.make(settings) if root else None)
    W, origin = wiring.share(settings, made, communicator)
    problem = together(communicator, lambda: configuration.problem.problem(settings.agents, settings.seed))
    try:
        run = Run(problem, configuration.algorithm, W, seed=settings.seed, comm=communicator, placement=settings.placement)
    except (ValueError, TypeError, ImportError, OSError) as error:
        raise InputError(_words(error)) from error
    opening = _opening(configuration, run, origin) if root else []
    if settings.dry_run:
        from .cli.dryrun import report

        return _say("\n".join([*opening, *report(run)]), root)
    folder = together(communicator, lambda: _folder(configuration, run) if root else None)
    if root and not settings.quiet:
        _say("\n".join(opening))
    return _solve(words, configuration, run, folder)


def _solve(words: Sequence[str], configuration: Configuration, run: Run, folder: RunFolder | None) -> int:
    from .cli.outputs import write_final
    from .cli.progress import Steps, progress, verdict
    from .cli.summary import summarize

    settings, collective = configuration.run, run.collective
    tell = collective.rank == 0 and not settings.quiet
    started = datetime.now(UTC).isoformat(timespec="seconds")
    steps = Steps(configuration.algorithm, tell)
    with contextlib.ExitStack() as stack:
        recorders: list[Any] = []
        if folder is not None:
            recorders.append(stack.enter_context(contextlib.closing(folder.history())))
        if tell:
            recorders.append(stack.enter_context(progress(settings.iterations)))
        result = run.solve(
            iterations=settings.iterations,
            stopping=stopping_rule(settings),
            rows=settings.history_rows,
            record_every=settings.record_every,
            recorders=recorders,
            metrics=[steps],
            safety_region=settings.safety_region,
        )
    if settings.out is not None:
        write_final(folder, run.problem.n_agents, _variables(run.problem, result.x), collective)
        facts = {
            "algorithm": values(run.algorithm),
            "command": shlex.join(["python", "-m", "decentorth.run", *words]),
            "started": started,
            "steps": steps.ranges,
        }
        summary = summarize(configuration, result, facts)
        if folder is not None:
            folder.write_summary(summary)
            if settings.plot:
                from .plot import plot_histories, save

                save(plot_histories({str(folder.path): result.history}), folder.path / "history.png")
    if tell:
        notes = {"files in": str(settings.out)} if settings.out is not None else {}
        error_name = getattr(result.problem, "error_name", None)
        _say(verdict(_why(result), result.history.rows[0], result.row, error_name, notes))
    return exit_code(result.status, result.converged, settings.require_converged)


def _why(result: Result) -> str:
    if result.converged:
        return f"Converged at iteration {result.state.k} ({result.message})"
    return result.message[:1].upper() + result.message[1:]


def exit_code(status: str, converged: bool, require_converged: bool) -> int:
    """The exit code of a run that has ended."""
    if status in ("diverged", "left_safe_region"):
        return RUNAWAY
    return NOT_CONVERGED if require_converged and not converged else 0


def read_configuration(words: Sequence[str], communicator: Communicator) -> Configuration:
    """The configuration, checked to be the same on every rank; a file is read by rank 0 alone.

    Raises
    ------
    InputError
        On every rank, for arguments and files that cannot be used.
    """
    path = together(communicator, lambda: config_flag(words))
    raw = b""
    if path is not None:
        raw = communicator.bcast_bytes(together(communicator, lambda: Path(path).read_bytes() if communicator.rank == 0 else b""))
    configuration = together(communicator, lambda: Command(words, path, raw).resolve())
    digests = communicator.allgather_bytes(configuration.digest())
    different = [rank for rank, digest in enumerate(digests) if digest != digests[0]]
    if different:
        raise InputError(f"every rank must be given the same settings; those of rank {different[0]} differ from rank 0's")
    return configuration


def together(communicator: Communicator, work: Callable[[], T]) -> T:
    """The result of ``work``, which must not communicate; if it fails on one rank, all raise the first failing rank's error.

    Raises
    ------
    InputError
        On every rank, with the same words.
    """
    message = ""
    try:
        result = work()
    except (ValueError, TypeError, ImportError, OSError) as error:
        log.debug("where it was refused", exc_info=True)
        message = _words(error)
    for rank, text in enumerate(communicator.allgather_bytes(message.encode())):
        if text:
            raise InputError(text.decode() if rank == 0 else f"on rank {rank}: {text.decode()}")
    return result


def stopping_rule(settings: RunSettings) -> StoppingRule | None:
    """All tolerances that are given must hold; the time limit ends a run by itself."""
    from .stopping import Consensus, Feasibility, GradientNorm, Rule, Time

    rule: Rule | None = None
    tolerances = (
        (GradientNorm, settings.gradient_tolerance),
        (Consensus, settings.consensus_tolerance),
        (Feasibility, settings.feasibility_tolerance),
    )
    for kind, tolerance in tolerances:
        if tolerance is not None:
            rule = kind(tolerance) if rule is None else rule & kind(tolerance)
    if settings.time_limit is not None:
        rule = Time(settings.time_limit) if rule is None else rule | Time(settings.time_limit)
    return rule


def _check_early(settings: RunSettings, communicator: Communicator) -> None:
    from .cli.outputs import refuse_existing
    from .network.halo import even_bounds

    even_bounds(settings.agents, communicator.size)
    if communicator.rank > 0:
        return
    if settings.out is not None and not settings.overwrite and not settings.dry_run:
        refuse_existing(settings.out)
    if settings.plot and importlib.util.find_spec("matplotlib") is None:
        raise InputError('figures need matplotlib: pip install "decentorth[plot]", or leave --plot out')


def _folder(configuration: Configuration, run: Run) -> RunFolder | None:
    from .cli.outputs import RunFolder

    settings = configuration.run
    if settings.out is None:
        return None
    per_agent = sum(array[0].nbytes for array in _variables(run.problem, run.x0).values())
    return RunFolder(settings.out, configuration.yaml(), overwrite=settings.overwrite, needed=run.problem.n_agents * per_agent)


def _opening(configuration: Configuration, run: Run, origin: str) -> list[str]:
    from .cli.summary import mixing_words

    settings, network = configuration.run, run.network
    groups = {heading.partition(":")[0]: part for heading, part in configuration.groups(outputs=False)}
    sizes = network.bounds[1:] - network.bounds[:-1]
    spread = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else f"{sizes[0]}"
    ranks = network.communicator.size
    where = "in this process" if ranks == 1 else f"on {ranks} ranks of {spread} agents"
    published = ", the published experiment (paper 004, Section V)" if configuration.published else ""
    shape = " x ".join(map(str, run.problem.shape))
    return [
        f"problem     {settings.problem}: {_listed(groups['Problem'])}; seed {settings.seed}; x is {shape}",
        f"network     {network.n_agents} agents, {origin}, {mixing_words(network)}, {where}",
        f"algorithm   {settings.algorithm}: {_listed(values(run.algorithm))}{published}",
    ]


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items() if value is not None)


def _variables(problem: Any, x: Array) -> dict[str, Array]:
    """x, and the problem's named variables that are only part of it."""
    parts = {name: array for name, array in problem.unpack(x).items() if array.shape != x.shape}
    return {**parts, "x": x}


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"cannot use {error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or repr(error)


def _say(text: str, speaks: bool = True) -> int:
    if speaks:
        sys.stdout.write(f"{text.rstrip()}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
