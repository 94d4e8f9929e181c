"""``python -m decentorth.run``: one run from the command line, in this process or, under ``mpirun``, on MPI ranks.

Exit codes: 0 converged, all iterations done, or an objective said to have no minimum, 1 a fault, 2 bad input, 3 diverged or left
the safety region, 4 not converged with ``--require-converged``, 130 interrupted (Ctrl-C), 141 nobody reads the output any more,
143 ended by SIGTERM, SIGHUP or SIGUSR2. `docs/running.md` says what each leaves.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import shlex
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from ._ending import patience
from .cli.config import Command, Configuration, values
from .cli.flags import InputError
from .cli.settings import CHECKPOINTS, RunSettings
from .cli.shell import FAULT, INTERRUPTED, REFUSALS, complain, one_line, read_configuration, say, serve, together

if TYPE_CHECKING:
    from .agreement import Agreement
    from .api import Result, Run
    from .checkpoint import Checkpoints, Resumed
    from .cli.outputs import HistoryWriter, RunFolder
    from .cli.progress import SettingUp, Steps
    from .network.communicator import Communicator
    from .protocols import Array, Problem, Row, StoppingRule

RUNAWAY, NOT_CONVERGED, TERMINATED = 3, 4, 143


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code.

    Parameters
    ----------
    tokens
        The arguments; by default those of this process, which from then on ignores SIGUSR1 where no run takes it.
    """
    if tokens is None:
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # it asks for a checkpoint, and nothing happens where none can be written
    return serve(tokens, Command, _run, name="decentorth")


def _run(words: Sequence[str], communicator: Communicator) -> int:
    configuration = read_configuration(Command, words, communicator)
    settings, root = configuration.run, communicator.rank == 0
    if settings.print_config:
        return say(configuration.yaml(outputs=True), root)
    communicator.watch(patience("rank_timeout", settings.rank_timeout), math.inf)
    together(communicator, lambda: _check_early(settings, communicator))

    from .cli.progress import SettingUp

    with SettingUp(root and not settings.quiet):
        run, origin = _made(configuration, communicator)
    agreement = together(communicator, lambda: run.agreement(stopping_rule(settings)))
    opening = _opening(configuration, run, origin, agreement) if root else []
    if settings.dry_run:
        from .cli.dryrun import report

        return say("\n".join([*opening, *report(run)]), root)
    with contextlib.closing(_Desk(configuration, run)) as desk:
        return _go(words, configuration, run, desk, opening)


def _go(words: Sequence[str], configuration: Configuration, run: Run, desk: _Desk, opening: list[str]) -> int:
    from .checkpoint import CheckpointError
    from .cli.progress import SettingUp
    from .network import ChannelError
    from .survival import Loss, LostError

    settings, communicator = configuration.run, run.collective.communicator
    root = communicator.rank == 0
    resumed = None
    if settings.resume is not None:
        together(communicator, lambda: desk.hold() if root and _continues(settings) else None)
        try:
            with SettingUp(root and not settings.quiet):
                resumed = run.resume(settings.resume)
        except CheckpointError as error:
            raise InputError(one_line(error)) from error
        if resumed.state.k > settings.iterations:
            raise InputError(f"{resumed.path} is beyond --iterations {settings.iterations}: give more than {resumed.state.k}")
        opening.append(f"goes on     from {resumed.path}")
        opening += [f"lost        {Loss(*loss)}" for loss in resumed.losses]
    together(communicator, lambda: desk.open(resumed) if root else None)
    if root and not settings.quiet:
        say("\n".join(opening))
    try:
        return _solve(words, configuration, run, desk, resumed)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*desk.left()) from None
    except ChannelError as error:
        raise InputError(one_line(error)) from error
    except (CheckpointError, LostError) as error:
        if error.first if isinstance(error, LostError) else desk.taken:
            complain(f"decentorth: {one_line(error)}")
        return FAULT


def _made(configuration: Configuration, communicator: Communicator) -> tuple[Run, str]:
    """The run, and where its network comes from."""
    from .api import Run
    from .cli import wiring

    settings = configuration.run
    made = together(communicator, lambda: wiring.make(settings) if communicator.rank == 0 else None)
    W, origin = wiring.share(settings, made, communicator)
    problem = together(communicator, lambda: _problem(configuration))
    x0 = together(communicator, lambda: _start(settings))
    try:
        run = Run(
            problem,
            configuration.algorithm,
            W,
            x0=x0,
            seed=settings.seed,
            comm=communicator,
            placement=settings.placement,
            channel=settings.bad_channel,
            on_rank_loss=settings.on_rank_loss,
            rank_timeout=settings.rank_timeout,
        )
    except REFUSALS as error:
        raise InputError(one_line(error)) from error
    return run, origin


class _Desk:
    """Rank 0's output: the run folder and the progress lines. Where rank 0 is lost, the next rank takes over."""

    def __init__(self, configuration: Configuration, run: Run) -> None:
        self._configuration, self._run = configuration, run
        self._settings = configuration.run
        self._lock: IO[bytes] | None = None
        self._history: HistoryWriter | None = None
        self._progress: Any = None
        self._places = self._others()
        self._full = False
        self._setup: SettingUp | None = None
        self.folder: RunFolder | None = None
        self.taken = False

    def hold(self, insist: bool = True) -> None:
        """Keep other runs out of the folder."""
        from .cli.outputs import hold

        if self._settings.out is not None and self._lock is None:
            self._lock = hold(self._settings.out, insist)

    def open(self, resumed: Resumed | None) -> None:
        """Make the folder, and its history."""
        self.taken = True
        self.hold()
        self.folder = self._folder(continues=_continues(self._settings))
        earlier = () if resumed is None else resumed.history.rows
        self._begin(earlier, None if resumed is None or resumed.path is None else resumed.path.parent.parent)

    def begin(self, stack: contextlib.ExitStack) -> None:
        """Begin the progress, to be ended with ``stack``."""
        if self.taken and not self._settings.quiet:
            from .cli.progress import SettingUp, progress

            self._setup = stack.enter_context(SettingUp(True))
            self._progress = stack.enter_context(progress(self._settings.iterations))

    def record(self, row: Row) -> None:
        """A recorder's."""
        if self._setup is not None:
            self._setup.__exit__(None, None, None)
        if self._history is not None:
            try:
                self._history.record(row)
            except OSError as error:
                if not self._full:
                    self._full = True
                    complain(f"decentorth: {one_line(error)}; the run goes on, and its rows wait for room on the disk")
        if self._progress is not None:
            self._progress.record(row)

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """A recorder's (`protocols.Rewound`)."""
        if not self.taken:
            from .cli.progress import PlainProgress

            self.taken = True
            self.hold(insist=False)
            self.folder = self._folder(continues=True)
            self._progress = None if self._settings.quiet else PlainProgress(self._settings.iterations)
        if self._history is not None:
            self._history.close()
        self._begin(rows, None if self.folder is None else self.folder.path)
        if not self._settings.quiet:
            say(f"lost        {lost}; the others go on from there")

    def save(self, result: Result, summary: Mapping[str, Any]) -> bool:
        """Write the results; called by every rank. Where the folder does not take them, another does, and rank 0 says which.

        Returns
        -------
        bool
            Whether the folder has them, on every rank.
        """
        troubles = []
        while result.collective.decide(bool(trouble := self._write(result, summary))):
            troubles.append(trouble)
            if self.folder is not None:
                self.folder = next(self._places, None)
        if troubles and self.taken:
            end = "the results are lost" if self.folder is None else f"all files of the run are in {self.folder.path}"
            complain(f"decentorth: {'; '.join(troubles)}; {end}")
        return not troubles

    def _write(self, result: Result, summary: Mapping[str, Any]) -> str:
        """Why the folder has not all results."""
        from .cli.outputs import HISTORY, write_final

        folder = None if self.folder is None or self.folder.removed else self.folder
        try:
            write_final(folder, result.problem.n_agents, _variables(result.problem, result.x), result.collective)
            if folder is not None and self._history is not None:
                self._history.finish(folder.path / HISTORY)
                folder.write_summary(summary)
                if self._settings.plot:
                    from .cli.figures import save
                    from .plot import plot_histories

                    save(plot_histories({str(folder.path): result.history}), folder.path / "history.png")
            elif self.folder is not None:
                return f"{self.folder.path} was removed while the run went on"
        except (OSError, InputError) as error:
            return one_line(error)
        return ""

    def _others(self) -> Iterator[RunFolder]:
        """Where the results go if the folder does not take them: its path if it was removed, then a folder for temporary files."""
        from .cli.outputs import RunFolder, hold

        path, config = str(self._settings.out), self._configuration.yaml()
        if self.folder is not None and self.folder.removed:
            with contextlib.suppress(InputError):
                lock = hold(path)
                yield RunFolder(path, config, continues=self._settings.checkpoint_every is not None, lock=lock)
        with contextlib.suppress(InputError, OSError):
            yield RunFolder(tempfile.mkdtemp(prefix="decentorth-"), config)

    def left(self) -> list[str]:
        """The files that an interrupted run leaves."""
        path = None if self._history is None else self._history.path
        return [f"the history so far is in {path}"] if path is not None and path.exists() and path.stat().st_size else []

    def close(self) -> None:
        """Close the files, and let other runs use the folder."""
        for file in (self._history, self.folder, self._lock):
            if file is not None:
                file.close()

    def _begin(self, earlier: Sequence[Row], source: Path | None) -> None:
        if self.folder is not None:
            self._history = self.folder.history(earlier, source)

    def _folder(self, *, continues: bool) -> RunFolder | None:
        from .cli.outputs import RunFolder

        settings, run = self._settings, self._run
        if settings.out is None:
            return None
        per_agent = sum(array[0].nbytes for array in _variables(run.problem, run.x0).values())
        return RunFolder(
            settings.out,
            self._configuration.yaml(),
            overwrite=settings.overwrite,
            continues=continues,
            needed=run.problem.n_agents * per_agent,
            lock=self._lock,
        )


def _solve(words: Sequence[str], configuration: Configuration, run: Run, desk: _Desk, resumed: Resumed | None) -> int:
    from .checkpoint import ENDINGS, PendingSignals
    from .cli.progress import Steps
    from .cli.summary import summarize

    settings = configuration.run
    started = datetime.now(UTC).isoformat(timespec="seconds")
    steps = Steps(
        configuration.algorithm, desk.taken and not settings.quiet, None if resumed is None else resumed.notes.get("steps")
    )
    checkpoints = _checkpoints(configuration, steps)
    signals = PendingSignals() if checkpoints is None else checkpoints.signals
    with signals if checkpoints is not None else contextlib.nullcontext():
        with contextlib.ExitStack() as stack:
            desk.begin(stack)
            result = run.solve(
                iterations=settings.iterations,
                stopping=stopping_rule(settings),
                rows=settings.history_rows,
                record_every=settings.record_every,
                recorders=[desk],
                metrics=[steps],
                safety_region=settings.safety_region,
                checkpoints=checkpoints,
                resume=resumed,
                compute_timeout=settings.compute_timeout,
            )
        with signals:  # whatever comes now waits until the files are whole on rank 0
            saved = True
            if settings.out is not None:
                facts = {
                    "algorithm": values(run.algorithm),
                    "command": shlex.join(["python", "-m", "decentorth.run", *words]),
                    "started": started,
                    "resumed_from": None if resumed is None else str(resumed.path),
                    "steps": steps.ranges,
                }
                saved = desk.save(result, summarize(configuration, result, facts))
            if desk.taken and not settings.quiet:
                _conclude(result, desk)
            ended_by = int(result.collective.max(float(max(signals.seen & ENDINGS, default=0))))
            signals.take()
    return exit_code(result.status, result.converged, settings.require_converged, ended_by) if saved else FAULT


def _conclude(result: Result, desk: _Desk) -> None:
    """Say how the run has ended."""
    from .cli.progress import verdict
    from .cli.summary import taken

    notes = {}
    if desk.folder is not None:
        notes["files in"] = str(desk.folder.path)
    if result.drifted:
        notes["the mean of the trackers drifted by"] = f"{result.row.values['tracking_error']:.2g} (tracking_error)"
    if result.losses:
        notes["lost"] = "; ".join(map(str, result.losses))
    if result.agreement is not None:
        notes["agreeing took"] = taken(result)
    if result.status == "terminated" and desk.folder is not None:
        notes["goes on with"] = f"--resume {desk.folder.path}"
    say(verdict(_why(result), result.history.rows[0], result.row, getattr(result.problem, "error_name", None), notes))


def _why(result: Result) -> str:
    if result.converged:
        return f"Converged at iteration {result.state.k} ({result.message})"
    return result.message[:1].upper() + result.message[1:]


def exit_code(status: str, converged: bool, require_converged: bool, ended_by: int = 0) -> int:
    """The exit code of a run that has ended; ``ended_by`` is the signal that has told it to, if any."""
    if status in ("diverged", "left_safe_region"):
        return RUNAWAY
    if ended_by:
        return INTERRUPTED if ended_by == signal.SIGINT else TERMINATED
    return NOT_CONVERGED if require_converged and not converged else 0


def stopping_rule(settings: RunSettings) -> StoppingRule | None:
    """All tolerances that are given must hold; the time limit and the objective's floor each end a run by themselves."""
    from .stopping import Consensus, Feasibility, GradientNorm, ObjectiveBelow, Rule, Time

    rule: Rule | None = None
    tolerances = (
        (GradientNorm, settings.gradient_tolerance),
        (Consensus, settings.consensus_tolerance),
        (Feasibility, settings.feasibility_tolerance),
    )
    for kind, tolerance in tolerances:
        if tolerance is not None:
            rule = kind(tolerance) if rule is None else rule & kind(tolerance)
    if settings.local_rule is not None:
        rule = settings.local_rule if rule is None else rule & settings.local_rule
    limits = ((Time, settings.time_limit), (ObjectiveBelow, settings.objective_below))
    for limit, value in limits:
        if value is not None:
            rule = limit(value) if rule is None else rule | limit(value)
    return rule


def _checkpoints(configuration: Configuration, steps: Steps) -> Checkpoints | None:
    from .checkpoint import FOLDER, Checkpoints

    settings = configuration.run
    if settings.out is None or settings.checkpoint_every is None:
        return None
    given = {**configuration.mapping(), **{name: getattr(settings, name) for name in CHECKPOINTS}}
    return Checkpoints(
        Path(settings.out) / FOLDER,
        settings.checkpoint_every,
        settings.keep_checkpoints,
        lambda: {"settings": given, "steps": steps.ranges},
    )


def _continues(settings: RunSettings) -> bool:
    """True if the run goes on in its own folder."""
    return settings.resume is not None and Path(str(settings.out)).resolve() == Path(settings.resume).resolve()


def _check_early(settings: RunSettings, communicator: Communicator) -> None:
    from .cli.outputs import refuse_existing
    from .network.halo import even_bounds

    if settings.spread_samples is None:
        if settings.agents == 1 < communicator.size:
            raise InputError(
                f"{communicator.size} ranks for one agent: start one rank, or spread its samples over them with "
                f"--spread-samples {communicator.size} or more"
            )
        even_bounds(settings.agents, communicator.size)
    if communicator.rank > 0:
        return
    if settings.out is not None and not (settings.overwrite or settings.dry_run or _continues(settings)):
        refuse_existing(settings.out)
    if settings.plot and importlib.util.find_spec("matplotlib") is None:
        raise InputError('figures need matplotlib: pip install "decentorth[plot]", or leave --plot out')


def _problem(configuration: Configuration) -> Any:
    """The problem, or that of one agent whose samples are spread over the ranks."""
    from .problems import Spread

    settings, made = configuration.run, configuration.problem
    blocks = settings.spread_samples
    if blocks is None:
        return made.problem(settings.agents, settings.seed)
    try:
        return Spread(getattr(made, "in_blocks", made.problem)(blocks, settings.seed))
    except ValueError as error:
        raise InputError(f"{settings.problem} cannot be had in {blocks} blocks, as if of {blocks} agents: {error}") from error


def _start(settings: RunSettings) -> Array | None:
    from .cli.outputs import read_start

    return None if settings.start is None else read_start(settings.start)


def _opening(configuration: Configuration, run: Run, origin: str, agreement: Agreement | None) -> list[str]:
    from .cli.summary import in_words, mixing_words

    settings, network = configuration.run, run.network
    groups = {heading.partition(":")[0]: part for heading, part in configuration.groups(outputs=False)}
    sizes = network.bounds[1:] - network.bounds[:-1]
    spread = f"{sizes.min()} to {sizes.max()}" if sizes.min() < sizes.max() else f"{sizes[0]}"
    ranks = run.collective.size
    where = "in this process" if ranks == 1 else f"on {ranks} ranks of {spread} agents"
    if settings.spread_samples is not None:
        where = f"its samples in {settings.spread_samples} blocks {'in this process' if ranks == 1 else f'over {ranks} ranks'}"
    published = ", the published experiment (paper 004, Section V)" if configuration.published else ""
    shape = " x ".join(map(str, run.problem.shape))
    channel = settings.bad_channel
    faults = []
    if channel is not None:
        repairs = [f"{'with' if channel.repair else 'without'} repair"]
        repairs += [f"trackers corrected by {channel.correction:g} / iteration"] if channel.correction else []
        faults = [f"channel     {', '.join(channel.written)}; {', '.join(repairs)}"]
    return [
        f"problem     {settings.problem}: {_listed(groups['Problem'])}; seed {settings.seed}; x is {shape}",
        f"network     {network.n_agents} agents, {origin}, {mixing_words(network)}, {where}",
        *faults,
        *([] if agreement is None else [f"stopping    {in_words(agreement)}"]),
        f"algorithm   {settings.algorithm}: {_listed(values(run.algorithm))}{published}",
    ]


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in values.items() if value is not None)


def _variables(problem: Problem[Any], x: Array) -> dict[str, Array]:
    """x, and the problem's named variables that are only part of it."""
    parts = {name: array for name, array in problem.unpack(x).items() if array.shape != x.shape}
    return {**parts, "x": x}


if __name__ == "__main__":
    sys.exit(main())
