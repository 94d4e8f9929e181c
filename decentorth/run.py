"""``python -m decentorth.run``: one run from the command line, in this process or, under ``mpirun``, on MPI ranks.

Exit codes: 0 converged, all iterations done, or an objective said to have no minimum, 1 a fault, 2 bad input, 3 diverged or left
the safety region, 4 not converged with ``--require-converged``, 130 interrupted, 143 ended by SIGTERM or SIGUSR2 with a
checkpoint.
"""

from __future__ import annotations

import contextlib
import importlib.util
import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._ending import patience
from .cli.config import Command, Configuration, values
from .cli.flags import InputError
from .cli.settings import CHECKPOINTS, RunSettings
from .cli.shell import one_line, read_configuration, say, serve, together

if TYPE_CHECKING:
    from .agreement import Agreement
    from .api import Result, Run
    from .checkpoint import Checkpoints, Resumed
    from .cli.outputs import HistoryWriter, RunFolder
    from .cli.progress import Steps
    from .network.communicator import Communicator
    from .protocols import Array, Row, StoppingRule

FAULT, RUNAWAY, NOT_CONVERGED, TERMINATED = 1, 3, 4, 143


def main(tokens: Sequence[str] | None = None) -> int:
    """Do what the arguments say; the exit code.

    Parameters
    ----------
    tokens
        The arguments; by default those of this process.
    """
    return serve(tokens, Command, _run, name="decentorth", interrupted="the history so far is in the folder given by --out")


def _run(words: Sequence[str], communicator: Communicator) -> int:
    configuration = read_configuration(Command, words, communicator)
    settings, root = configuration.run, communicator.rank == 0
    if settings.print_config:
        return say(configuration.yaml(outputs=True), root)
    communicator.watch(patience("rank_timeout", settings.rank_timeout), math.inf)
    together(communicator, lambda: _check_early(settings, communicator))

    from .api import Run
    from .cli import wiring

    made = together(communicator, lambda: wiring.make(settings) if root else None)
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
    except (ValueError, TypeError, ImportError, OSError) as error:
        raise InputError(one_line(error)) from error
    agreement = together(communicator, lambda: run.agreement(stopping_rule(settings)))
    opening = _opening(configuration, run, origin, agreement) if root else []
    if settings.dry_run:
        from .cli.dryrun import report

        return say("\n".join([*opening, *report(run)]), root)
    from .checkpoint import CheckpointError
    from .network import ChannelError
    from .survival import Loss, LostError

    resumed = None
    if settings.resume is not None:
        try:
            resumed = run.resume(settings.resume)
        except CheckpointError as error:
            raise InputError(one_line(error)) from error
        if resumed.state.k > settings.iterations:
            raise InputError(f"{resumed.path} is beyond --iterations {settings.iterations}: give more than {resumed.state.k}")
        opening.append(f"goes on     from {resumed.path}")
        opening += [f"lost        {Loss(*loss)}" for loss in resumed.losses]
    desk = _Desk(configuration, run, resumed)
    together(communicator, lambda: desk.open() if root else None)
    if root and not settings.quiet:
        say("\n".join(opening))
    try:
        return _solve(words, configuration, run, desk, resumed)
    except ChannelError as error:
        raise InputError(one_line(error)) from error
    except (CheckpointError, LostError) as error:
        if error.first if isinstance(error, LostError) else desk.taken:
            sys.stderr.write(f"decentorth: {one_line(error)}\n")
        return FAULT


class _Desk:
    """What rank 0 does for all while a run goes on: its folder, and what is said. Where rank 0 is lost, the next takes over."""

    def __init__(self, configuration: Configuration, run: Run, resumed: Resumed | None) -> None:
        self._configuration, self._run, self._resumed = configuration, run, resumed
        self._settings = configuration.run
        self._history: HistoryWriter | None = None
        self._progress: Any = None
        self.folder: RunFolder | None = None
        self.taken = False

    def open(self) -> None:
        """Make the folder."""
        self.taken = True
        self.folder = _folder(self._configuration, self._run, continues=_continues(self._settings))

    def begin(self, stack: contextlib.ExitStack) -> None:
        """Begin the history and the progress, to be ended with ``stack``."""
        stack.callback(self._close)
        if self.taken:
            earlier = () if self._resumed is None else self._resumed.history.rows
            source = None if self._resumed is None or self._resumed.path is None else self._resumed.path.parent.parent
            self._begin(earlier, source)
            if not self._settings.quiet:
                from .cli.progress import progress

                self._progress = stack.enter_context(progress(self._settings.iterations))

    def record(self, row: Row) -> None:
        """A recorder's."""
        for recorder in (self._history, self._progress):
            if recorder is not None:
                recorder.record(row)

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """A recorder's (`protocols.Rewound`)."""
        if not self.taken:
            from .cli.progress import PlainProgress

            self.taken = True
            self.folder = _folder(self._configuration, self._run, continues=True)
            self._progress = None if self._settings.quiet else PlainProgress(self._settings.iterations)
        self._close()
        self._begin(rows, None if self.folder is None else self.folder.path)
        if not self._settings.quiet:
            say(f"lost        {lost}; the others go on from there")

    def _begin(self, earlier: Sequence[Row], source: Path | None) -> None:
        if self.folder is not None:
            self._history = self.folder.history(earlier, source)

    def _close(self) -> None:
        if self._history is not None:
            self._history.close()


def _solve(words: Sequence[str], configuration: Configuration, run: Run, desk: _Desk, resumed: Resumed | None) -> int:
    from .cli.outputs import write_final
    from .cli.progress import Steps, verdict
    from .cli.summary import summarize, taken

    settings = configuration.run
    started = datetime.now(UTC).isoformat(timespec="seconds")
    steps = Steps(
        configuration.algorithm, desk.taken and not settings.quiet, None if resumed is None else resumed.notes.get("steps")
    )
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
            checkpoints=_checkpoints(configuration, steps),
            resume=resumed,
            compute_timeout=settings.compute_timeout,
        )
    folder, problem = desk.folder, result.problem
    if settings.out is not None:
        write_final(folder, problem.n_agents, _variables(problem, result.x), result.collective)
        facts = {
            "algorithm": values(run.algorithm),
            "command": shlex.join(["python", "-m", "decentorth.run", *words]),
            "started": started,
            "resumed_from": None if resumed is None else str(resumed.path),
            "steps": steps.ranges,
        }
        summary = summarize(configuration, result, facts)
        if folder is not None:
            folder.write_summary(summary)
            if settings.plot:
                from .cli.figures import save
                from .plot import plot_histories

                save(plot_histories({str(folder.path): result.history}), folder.path / "history.png")
    if desk.taken and not settings.quiet:
        notes = {"files in": str(settings.out)} if settings.out is not None else {}
        if result.drifted:
            notes["the mean of the trackers drifted by"] = f"{result.row.values['tracking_error']:.2g} (tracking_error)"
        if result.losses:
            notes["lost"] = "; ".join(map(str, result.losses))
        if result.agreement is not None:
            notes["agreeing took"] = taken(result)
        if result.status == "terminated":
            notes["goes on with"] = f"--resume {settings.out}"
        error_name = getattr(result.problem, "error_name", None)
        say(verdict(_why(result), result.history.rows[0], result.row, error_name, notes))
    return exit_code(result.status, result.converged, settings.require_converged)


def _why(result: Result) -> str:
    if result.converged:
        return f"Converged at iteration {result.state.k} ({result.message})"
    return result.message[:1].upper() + result.message[1:]


def exit_code(status: str, converged: bool, require_converged: bool) -> int:
    """The exit code of a run that has ended."""
    if status == "terminated":
        return TERMINATED
    if status in ("diverged", "left_safe_region"):
        return RUNAWAY
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
    """Whether the run goes on in its own folder."""
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


def _folder(configuration: Configuration, run: Run, *, continues: bool) -> RunFolder | None:
    from .cli.outputs import RunFolder

    settings = configuration.run
    if settings.out is None:
        return None
    per_agent = sum(array[0].nbytes for array in _variables(run.problem, run.x0).values())
    return RunFolder(
        settings.out,
        configuration.yaml(),
        overwrite=settings.overwrite,
        continues=continues,
        needed=run.problem.n_agents * per_agent,
    )


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


def _variables(problem: Any, x: Array) -> dict[str, Array]:
    """x, and the problem's named variables that are only part of it."""
    parts = {name: array for name, array in problem.unpack(x).items() if array.shape != x.shape}
    return {**parts, "x": x}


if __name__ == "__main__":
    sys.exit(main())
