"""A run from the settings of a command line: it is set up, solved and recorded, its results are
saved, and its end is reported."""

from __future__ import annotations

import contextlib
import math
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import product
from operator import and_, or_
from pathlib import Path

from topologies.line.flags import InputError

from ... import stopping
from ...api import Options, Result, Run, set_up
from ...api.losses import Loss, LostError
from ...api.sizes import check_data
from ...figures.canvas import check_matplotlib
from ...network import Communicator, even_bounds
from ...problems import Deferred, Spread
from ...process.abort import patience
from ...process.printing import FAULT, complain, say
from ...protocols import Declared, Metric
from ...records.progress_bar import SettingUp, Steps
from ...records.run_files import refuse_existing, refuse_foreign
from ...records.saved_runs import read_start
from ...running.checkpoint import ENDINGS, Checkpoints, PendingSignals, Resumed
from ...running.checkpoint.checkpoint_files import FOLDER, CheckpointError
from ...running.metrics import AgentErrors
from ...running.options import PlacementSettings, RunLimits
from ...settings import Settings, Values, settings, values
from ...stopping import Rule
from ..line import wiring
from ..line.config import Configuration
from ..line.run_settings import RunSettings
from ..line.shell import INTERRUPTED, REFUSALS, Errors, by_root, one_line, together
from .opening_lines import opening
from .output import RunOutput, SafeRecorder, check_recorder
from .summary import summarize

Recorders = Sequence[SafeRecorder]
Summary = dict[str, object]
Notes = Callable[[], Values]
RUNAWAY, NOT_CONVERGED, TERMINATED = 3, 4, 143


def run(
    words: Sequence[str],
    configuration: Configuration,
    communicator: Communicator,
    notes: Notes = dict,
) -> int:
    """Do what the configuration says, on every rank; the exit code.

    Each checkpoint keeps ``notes()``.
    """
    settings = configuration.run
    root = communicator.root
    communicator.watch(patience("rank_timeout", settings.rank_timeout), math.inf)
    together(communicator, lambda: _check_early(settings, communicator))
    sized = settings.dry_run and not settings.check_gradient
    with SettingUp(root and not settings.quiet):
        run, origin = made(configuration, communicator, sized)
    configuration = configuration.with_choice(run.choice, run.arguments.method)
    run.about = configuration.mapping()
    if settings.record_agents and run.single and run.network.n_agents > 1:
        raise InputError(
            f"--record-agents is for agents that have points of their own, and with "
            f"{configuration.run.algorithm} all have the same: add --algorithm drfgt"
        )
    rule = stopping_rule(settings)
    fresh = settings.resume is None
    agreement = together(communicator, lambda: run.agreement(rule, fresh))
    lines: list[str] = []
    if root:
        lines += opening(configuration, run, origin, agreement)
    if settings.check_gradient:
        with _refusing():
            lines.append(f"gradient    {run.check_gradient()!r}")
    if settings.dry_run:
        from .dryrun import report

        return say("\n".join([*lines, *report(run)]), root)
    execution = Execution(words, configuration, run, notes)
    with contextlib.closing(execution.output):
        return execution.execute(lines)


@contextlib.contextmanager
def _refusing(kinds: Errors = REFUSALS) -> Iterator[None]:
    """Errors of these kinds are one line about the input."""
    try:
        yield
    except kinds as error:
        raise InputError(one_line(error)) from error


def _check_early(settings: RunSettings, communicator: Communicator) -> None:
    """Raise unless the settings pass all checks that need no problem."""
    if settings.spread_samples is None:
        ranks = communicator.size
        if settings.agents == 1 < ranks:
            raise InputError(
                f"{ranks} ranks for one agent: start one rank, or spread its samples over them "
                f"with --spread-samples {ranks} or more"
            )
        even_bounds(settings.agents, ranks)
    if not communicator.root:
        return
    if settings.out is not None and not settings.dry_run:
        if not (settings.overwrite or settings.continues):
            refuse_existing(settings.out)
        refuse_foreign(settings.out)
    for place in settings.record:
        check_recorder(place)
    if settings.plot:
        check_matplotlib(", or leave --plot out")


class Execution:
    """A run of the command line, from its first line to its last file; every rank has one."""

    def __init__(
        self, words: Sequence[str], configuration: Configuration, run: Run, notes: Notes
    ) -> None:
        self._notes = notes
        self.configuration = configuration
        self.settings = configuration.run
        self.run = run
        self.output = RunOutput(configuration, run)
        self.resumed: Resumed | None = None
        self.facts: dict[str, object] = {
            "algorithm": values(run.algorithm),
            "command": shlex.join(["python", "-m", "decentorth.run", *words]),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "resumed_from": None,
        }

    def execute(self, lines: list[str]) -> int:
        """Solve the run, print ``lines`` before it and how it ends after it, and save it; the exit
        code."""
        output = self.output
        communicator = self.run.collective.communicator
        if self.settings.resume is not None:
            lines += self._resume(self.settings.resume)
        by_root(communicator, lambda: output.open(self.resumed))
        say("\n".join(lines), communicator.root and not self.settings.quiet)
        try:
            return self._solve()
        except KeyboardInterrupt:
            raise KeyboardInterrupt(*output.left()) from None
        except CheckpointError as error:
            if output.active:
                complain(f"decentorth: {one_line(error)}")
        except LostError as error:
            if error.first:
                complain(f"decentorth: {one_line(error)}")
        return FAULT

    def _resume(self, path: str) -> Iterator[str]:
        """Read the checkpoint in ``path``; lines about it."""
        communicator = self.run.collective.communicator
        settings = self.settings
        if settings.continues:
            by_root(communicator, self.output.hold)
        prints = communicator.root and not settings.quiet
        with _refusing((CheckpointError,)), SettingUp(prints):
            self.resumed = resumed = self.run.resume(path)
        if resumed.state.k > settings.iterations:
            raise InputError(
                f"{resumed.path} is beyond --{Declared.of(self.configuration.algorithm).counts} "
                f"{settings.iterations}: give more than {resumed.state.k}"
            )
        self.facts["resumed_from"] = str(resumed.path)
        yield f"resumed     from {resumed.path}"
        yield from (f"lost        {Loss(*loss)}" for loss in resumed.losses)

    def _solve(self) -> int:
        output = self.output
        steps = Steps(self.configuration.algorithm, self.output.prints)
        if self.resumed is not None:
            steps.ranges = self.resumed.notes.get("steps")
        checkpoints = self._checkpoints(steps)
        with contextlib.ExitStack() as signals:
            if checkpoints is not None:
                signals.enter_context(checkpoints.signals)
            with contextlib.ExitStack() as stack:  # recorders are closed when the results are saved
                safe = map(SafeRecorder, self.settings.record)
                recorders = [stack.enter_context(one) for one in safe]
                result = self._iterated(steps, checkpoints, recorders)
                self.facts["steps"] = steps.ranges
                summary, code = self._concluded(result, checkpoints)
            troubles = (*(recorder.trouble for recorder in recorders), result.unwritten)
            failures = list(filter(None, troubles))
            if any(result.collective.ours(b"failed" * bool(failures))):
                output.restate({**summary, "failures": failures})
                return FAULT
        return code

    def _checkpoints(self, steps: Steps) -> Checkpoints | None:
        settings = self.settings
        if settings.out is None or settings.checkpoint_every is None:
            return None
        every = settings.checkpoint_every
        keep = settings.keep_checkpoints
        given = self.configuration.mapping()
        given |= {"checkpoint_every": every, "keep_checkpoints": keep}

        def notes() -> Values:
            return {"settings": given, "steps": steps.ranges, **self._notes()}

        return Checkpoints(Path(settings.out) / FOLDER, every, keep, notes)

    def _iterated(self, steps: Steps, kept: Checkpoints | None, recorders: Recorders) -> Result:
        """The result of the run, whose rows are recorded and shown."""
        given = self.settings
        run = self.run
        output = self.output
        with contextlib.ExitStack() as stack:
            output.begin(stack)
            if run.collective.root and self.resumed is not None:
                for row, one in product(self.resumed.history.rows, recorders):
                    one.record(row)
            metrics: list[Metric] = [steps]
            if given.record_agents:
                metrics.append(AgentErrors(run.parts.problem.n_agents, run.problem.shape))
            options = Options(
                **shared(given, RunLimits),
                stopping=stopping_rule(given),
                rows=given.history_rows,
                recorders=[output, *recorders],
                metrics=metrics,
                checkpoints=kept,
                resume=self.resumed,
            )
            return run.solve(options)

    def _concluded(self, result: Result, kept: Checkpoints | None) -> tuple[Summary, int]:
        """Save the results and print how the run has ended; the summary and the exit code."""
        settings = self.settings
        output = self.output
        certificate = ""
        if settings.split == "features" and result.status != "diverged":
            from ...api.certificate import certify

            try:
                result, found = certify(result)
                self.facts["certificate"] = found.plain()
                certificate = str(found)
            except ValueError as error:
                certificate = f"none: {one_line(error)}"
        signals = PendingSignals()
        if kept is not None:
            signals = kept.signals
        with signals:  # whatever comes now waits until the files are whole on rank 0
            saved = True
            summary = {}
            if settings.out is not None:
                summary = summarize(self.configuration, result, self.facts)
                saved = output.save(result, summary)
            if output.prints:
                output.conclude(result, certificate)
            ended_by = int(result.collective.max(float(max(signals.seen & ENDINGS, default=0))))
            signals.take()
        if not saved:
            return summary, FAULT
        return summary, exit_code(result, settings.require_converged, ended_by)


def shared(given: RunSettings, base: type[Settings]) -> Values:
    """The settings that Python has too, whose class ``base`` declares them."""
    return {name: value for name, value in vars(given).items() if name in settings(base)}


def made(configuration: Configuration, comm: Communicator, sized: bool = False) -> tuple[Run, str]:
    """The run, and where its network comes from; ``sized`` takes a few random samples where the
    sizes of the data are known."""
    given = configuration.run
    problem = together(comm, lambda: _problem(configuration))
    with _refusing():
        check_data(problem, comm)
    sites = getattr(problem, "sites", ())
    W, origin = wiring.share(given, by_root(comm, lambda: wiring.make(given, sites)), comm, sites)
    if sized and isinstance(problem, Deferred | Spread):
        problem = together(comm, problem.stand_in)
    x0 = None
    if given.start is not None:
        x0 = together(comm, partial(read_start, given.start))
    method = configuration.algorithm
    place = shared(given, PlacementSettings)
    channel = given.bad_channel
    with _refusing():
        run = set_up(problem, method, W, **place, x0=x0, comm=comm, channel=channel)
    run.about = configuration.mapping()
    return run, origin


def exit_code(result: Result, require_converged: bool, ended_by: int) -> int:
    """The exit code of a run that has ended; ``ended_by`` is the signal that ended it, 0 for
    none."""
    if result.status in ("diverged", "left_safe_region"):
        return RUNAWAY
    if ended_by == signal.SIGINT:
        return INTERRUPTED
    if ended_by:
        return TERMINATED
    if require_converged and not result.converged:
        return NOT_CONVERGED
    return 0


def stopping_rule(settings: RunSettings) -> Rule | None:
    """All tolerances that are given must hold; the time limit and the objective's floor each end a
    run by themselves."""
    tolerances: dict[Callable[[float], Rule], float | None] = {
        stopping.GradientNorm: settings.gradient_tolerance,
        partial(stopping.GradientNorm, relative=True): settings.relative_gradient_tolerance,
        stopping.Stationarity: settings.stationarity_tolerance,
        stopping.Consensus: settings.consensus_tolerance,
        stopping.Feasibility: settings.feasibility_tolerance,
    }
    limits: dict[Callable[[float], Rule], float | None] = {
        stopping.Time: settings.time_limit,
        stopping.ObjectiveBelow: settings.objective_below,
    }
    rules = [kind(value) for kind, value in tolerances.items() if value is not None]
    if settings.local_rule is not None:
        rules.append(settings.local_rule)
    if rules:
        rules = [reduce(and_, rules)]
    rules += [kind(value) for kind, value in limits.items() if value is not None]
    if not rules:
        return None
    return reduce(or_, rules)


def _problem(configuration: Configuration) -> object:
    """The problem, or that of one agent whose samples are spread over the ranks."""
    settings = configuration.run
    made = configuration.problem
    blocks = settings.spread_samples
    if settings.split == "features":
        if not hasattr(made, "features"):
            raise InputError(
                f"{settings.problem} cannot split features: take --problem pca, lda or cca"
            )
        return made.features(settings.agents, settings.seed)
    if blocks is None:
        return made.problem(settings.agents, settings.seed)
    try:
        return Spread(getattr(made, "in_blocks", made.problem)(blocks, settings.seed))
    except ValueError as error:
        raise InputError(
            f"{settings.problem} cannot be had in {blocks} blocks, as if of {blocks} agents: "
            f"{error}"
        ) from error
