"""A run from the settings of a command line: it is set up, solved and recorded, its results are saved, and its end is reported."""

from __future__ import annotations

import contextlib
import shlex
import signal
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import product
from operator import and_, or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.flags import InputError

from ...api import Options, set_up
from ...api.losses import Loss, LostError
from ...api.sizes import check_data
from ...problems import Deferred, Spread
from ...process.printing import FAULT, complain, say
from ...protocols import Declared, Metric
from ...records.progress import SettingUp, Steps
from ...records.saved_runs import read_start
from ...running.checkpoint import ENDINGS, FOLDER, CheckpointError, Checkpoints, PendingSignals
from ...running.metrics import AgentErrors
from ...running.options import Limits, Place
from ...settings import Settings, settings, values
from ...stopping import Consensus, Feasibility, GradientNorm, ObjectiveBelow, Rule, Stationarity, Time
from ..line import wiring
from ..line.config import Configuration
from ..line.settings import RunSettings
from ..line.shell import INTERRUPTED, REFUSALS, by_root, one_line, together
from .output import SafeRecorder
from .summary import summarize

if TYPE_CHECKING:
    from ...api import Result, Run
    from ...network.transport.communicator import Communicator
    from ...protocols import StoppingRule
    from ...running.checkpoint import Resumed
    from .output import RunOutput

RUNAWAY, NOT_CONVERGED, TERMINATED = 3, 4, 143


class Execution:
    """A run of the command line, from its first line to its last file; every rank has one."""

    def __init__(self, words: Sequence[str], configuration: Configuration, run: Run, output: RunOutput) -> None:
        self.configuration, self.settings, self.run, self.output = configuration, configuration.run, run, output
        self.resumed: Resumed | None = None
        self.facts: dict[str, object] = {
            "algorithm": values(run.algorithm),
            "command": shlex.join(["python", "-m", "decentorth.run", *words]),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "resumed_from": None,
        }

    def execute(self, lines: list[str]) -> int:
        """Solve the run, print ``lines`` before it and how it ends after it, and save it; the exit code."""
        output, communicator = self.output, self.run.collective.communicator
        if self.settings.resume is not None:
            lines += self._resume(self.settings.resume)
        by_root(communicator, lambda: output.open(self.resumed))
        say("\n".join(lines), communicator.rank == 0 and not self.settings.quiet)
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
        communicator, settings = self.run.collective.communicator, self.settings
        if settings.continues:
            by_root(communicator, self.output.hold)
        try:
            with SettingUp(communicator.rank == 0 and not settings.quiet):
                self.resumed = resumed = self.run.resume(path)
        except CheckpointError as error:
            raise InputError(one_line(error)) from error
        if resumed.state.k > settings.iterations:
            limit = f"--{Declared.of(self.configuration.algorithm).counts} {settings.iterations}"
            raise InputError(f"{resumed.path} is beyond {limit}: give more than {resumed.state.k}")
        self.facts["resumed_from"] = str(resumed.path)
        yield f"resumed     from {resumed.path}"
        yield from (f"lost        {Loss(*loss)}" for loss in resumed.losses)

    def _solve(self) -> int:
        output, steps = self.output, Steps(self.configuration.algorithm, self.output.prints)
        if self.resumed is not None:
            steps.ranges = self.resumed.notes.get("steps")
        checkpoints = self._checkpoints(steps)
        with contextlib.ExitStack() as signals:
            if checkpoints is not None:
                signals.enter_context(checkpoints.signals)
            with contextlib.ExitStack() as stack:  # recorders are closed when the results are saved
                recorders = [stack.enter_context(SafeRecorder(place)) for place in self.settings.record]
                result = self._iterated(steps, checkpoints, recorders)
                self.facts["steps"] = steps.ranges
                summary, code = self._concluded(result, checkpoints)
            troubles = (*(recorder.trouble for recorder in recorders), result.unwritten)
            failures = list(filter(None, troubles))
            if result.collective.decide(bool(failures)):
                output.restate({**summary, "failures": failures})
                return FAULT
        return code

    def _checkpoints(self, steps: Steps) -> Checkpoints | None:
        settings = self.settings
        if settings.out is None or settings.checkpoint_every is None:
            return None
        given = self.configuration.mapping()
        given |= {"checkpoint_every": settings.checkpoint_every, "keep_checkpoints": settings.keep_checkpoints}

        def notes() -> dict[str, Any]:
            return {"settings": given, "steps": steps.ranges}

        folder = Path(settings.out) / FOLDER
        return Checkpoints(folder, settings.checkpoint_every, settings.keep_checkpoints, notes)

    def _iterated(self, steps: Steps, kept: Checkpoints | None, recorders: Sequence[SafeRecorder]) -> Result:
        """The result of the run, whose rows are recorded and shown."""
        given, run, output = self.settings, self.run, self.output
        with contextlib.ExitStack() as stack:
            output.begin(stack)
            if run.collective.rank == 0 and self.resumed is not None:
                for row, one in product(self.resumed.history.rows, recorders):
                    one.record(row)
            metrics: list[Metric] = [steps]
            if given.record_agents:
                metrics.append(AgentErrors(run.problem.n_agents, run.problem.shape))
            options = Options(
                **shared(given, Limits),
                stopping=stopping_rule(given),
                rows=given.history_rows,
                recorders=[output, *recorders],
                metrics=metrics,
                checkpoints=kept,
                resume=self.resumed,
            )
            return run.solve(options)

    def _concluded(self, result: Result, checkpoints: Checkpoints | None) -> tuple[dict[str, object], int]:
        """Save the results and print how the run has ended; the summary and the exit code."""
        settings, output, certificate = self.settings, self.output, ""
        if settings.split == "features" and result.status != "diverged":
            from ...api.certificate import certify

            try:
                result, found = certify(result)
                self.facts["certificate"] = found.plain()
                certificate = str(found)
            except ValueError as error:
                certificate = f"none: {one_line(error)}"
        signals = PendingSignals()
        if checkpoints is not None:
            signals = checkpoints.signals
        with signals:  # whatever comes now waits until the files are whole on rank 0
            saved, summary = True, {}
            if settings.out is not None:
                summary = summarize(self.configuration, result, self.facts)
                saved = output.save(result, summary)
            if output.prints:
                output.conclude(result, certificate)
            ended_by = int(result.collective.max(float(max(signals.seen & ENDINGS, default=0))))
            signals.take()
        if not saved:
            return summary, FAULT
        return summary, exit_code(result.status, result.converged, settings.require_converged, ended_by)


def shared(given: RunSettings, base: type[Settings]) -> dict[str, Any]:
    """The settings that Python has too, whose class ``base`` declares them."""
    return {name: value for name, value in vars(given).items() if name in settings(base)}


def made(configuration: Configuration, communicator: Communicator, sized: bool = False) -> tuple[Run, str]:
    """The run, and where its network comes from; ``sized`` takes a few random samples where the sizes of the data are known."""
    given = configuration.run
    problem = together(communicator, lambda: _problem(configuration))
    try:
        check_data(problem, communicator)
    except REFUSALS as error:
        raise InputError(one_line(error)) from error
    made = by_root(communicator, lambda: wiring.make(given))
    W, origin = wiring.share(given, made, communicator)
    if sized and isinstance(problem, Deferred | Spread):
        problem = together(communicator, problem.stand_in)
    x0 = None
    if given.start is not None:
        x0 = together(communicator, partial(read_start, given.start))
    try:
        run = set_up(
            problem,
            configuration.algorithm,
            W,
            **shared(given, Place),
            x0=x0,
            comm=communicator,
            channel=given.bad_channel,
        )
    except REFUSALS as error:
        raise InputError(one_line(error)) from error
    run.about = configuration.mapping()
    return run, origin


def exit_code(status: str, converged: bool, require_converged: bool, ended_by: int = 0) -> int:
    """The exit code of a run that has ended; ``ended_by`` is the signal that ended it, 0 for none."""
    if status in ("diverged", "left_safe_region"):
        return RUNAWAY
    if ended_by == signal.SIGINT:
        return INTERRUPTED
    if ended_by:
        return TERMINATED
    if require_converged and not converged:
        return NOT_CONVERGED
    return 0


def stopping_rule(settings: RunSettings) -> StoppingRule | None:
    """All tolerances that are given must hold; the time limit and the objective's floor each end a run by themselves."""
    tolerances: dict[Callable[[float], Rule], float | None] = {
        GradientNorm: settings.gradient_tolerance,
        partial(GradientNorm, relative=True): settings.relative_gradient_tolerance,
        Stationarity: settings.stationarity_tolerance,
        Consensus: settings.consensus_tolerance,
        Feasibility: settings.feasibility_tolerance,
    }
    limits: dict[Callable[[float], Rule], float | None] = {Time: settings.time_limit}
    limits |= {ObjectiveBelow: settings.objective_below}
    rules: list[Rule] = [kind(value) for kind, value in tolerances.items() if value is not None]
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
    settings, made = configuration.run, configuration.problem
    blocks = settings.spread_samples
    if settings.split == "features":
        if not hasattr(made, "features"):
            repair = "take --problem pca, lda or cca"
            raise InputError(f"{settings.problem} cannot split features: {repair}")
        return made.features(settings.agents, settings.seed)
    if blocks is None:
        return made.problem(settings.agents, settings.seed)
    try:
        return Spread(getattr(made, "in_blocks", made.problem)(blocks, settings.seed))
    except ValueError as error:
        raise InputError(f"{settings.problem} cannot be had in {blocks} blocks, as if of {blocks} agents: {error}") from error
