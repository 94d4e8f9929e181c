"""A run from the settings of a command line: it is set up, solved and recorded, its results are saved, and its end is reported."""

from __future__ import annotations

import contextlib
import shlex
import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial, reduce
from itertools import product
from operator import and_, or_
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...api import Options, set_up
from ...api.rank_loss import Loss, LostError
from ...api.sizes import check_data
from ...problems import Deferred, Spread
from ...process.printing import FAULT, complain, say
from ...protocols import Declared
from ...records.progress import SettingUp, Steps
from ...records.saved_runs import read_start
from ...running.checkpoint import ENDINGS, FOLDER, CheckpointError, Checkpoints, PendingSignals
from ...running.metrics import AgentErrors
from ...settings import values
from ...stopping import Consensus, Feasibility, GradientNorm, ObjectiveBelow, Rule, Stationarity, Time
from ..line import wiring
from ..line.config import Configuration
from ..line.flags import InputError
from ..line.settings import CHECKPOINTS, RunSettings
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


def execute(words: Sequence[str], configuration: Configuration, run: Run, output: RunOutput, lines: list[str]) -> int:
    """Solve the run, print ``lines`` before it and how it ends after it, and save it; the exit code."""
    settings, communicator = configuration.run, run.collective.communicator
    root = communicator.rank == 0
    resumed = None
    if settings.resume is not None:

        def hold() -> None:
            if settings.continues:
                output.hold()

        by_root(communicator, hold)
        try:
            with SettingUp(root and not settings.quiet):
                resumed = run.resume(settings.resume)
        except CheckpointError as error:
            raise InputError(one_line(error)) from error
        if resumed.state.k > settings.iterations:
            limit = f"--{Declared.of(configuration.algorithm).counts} {settings.iterations}"
            raise InputError(f"{resumed.path} is beyond {limit}: give more than {resumed.state.k}")
        lines.append(f"goes on     from {resumed.path}")
        lines += [f"lost        {Loss(*loss)}" for loss in resumed.losses]
    by_root(communicator, lambda: output.open(resumed))
    if root and not settings.quiet:
        say("\n".join(lines))
    try:
        return _solve(words, configuration, run, output, resumed)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*output.left()) from None
    except CheckpointError as error:
        if output.active:
            complain(f"decentorth: {one_line(error)}")
    except LostError as error:
        if error.first:
            complain(f"decentorth: {one_line(error)}")
    return FAULT


def made(configuration: Configuration, communicator: Communicator, sized: bool = False) -> tuple[Run, str]:
    """The run, and where its network comes from; ``sized`` takes a few random samples where the sizes of the data are known."""
    settings = configuration.run
    problem = together(communicator, lambda: _problem(configuration))
    try:
        check_data(problem, communicator)
    except REFUSALS as error:
        raise InputError(one_line(error)) from error
    made = by_root(communicator, lambda: wiring.make(settings))
    W, origin = wiring.share(settings, made, communicator)
    if sized and isinstance(problem, Deferred | Spread):
        problem = together(communicator, problem.stand_in)
    x0 = None
    if settings.start is not None:
        x0 = together(communicator, partial(read_start, settings.start))
    try:
        run = set_up(
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
            device=settings.device,
        )
    except REFUSALS as error:
        raise InputError(one_line(error)) from error
    run.about = configuration.mapping()
    return run, origin


def _solve(words: Sequence[str], configuration: Configuration, run: Run, output: RunOutput, resumed: Resumed | None) -> int:
    settings = configuration.run
    facts = {
        "algorithm": values(run.algorithm),
        "command": shlex.join(["python", "-m", "decentorth.run", *words]),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "resumed_from": None,
    }
    steps = Steps(configuration.algorithm, output.prints)
    if resumed is not None:
        facts["resumed_from"] = str(resumed.path)
        steps = Steps(configuration.algorithm, output.prints, resumed.notes.get("steps"))
    checkpoints = _checkpoints(configuration, steps)
    with contextlib.ExitStack() as signals:
        if checkpoints is not None:
            signals.enter_context(checkpoints.signals)
        with contextlib.ExitStack() as stack:  # recorders are closed when the results are saved
            recorders = [stack.enter_context(SafeRecorder(place)) for place in settings.record]
            result = _iterated(configuration, run, output, resumed, steps, checkpoints, recorders)
            facts["steps"] = steps.ranges
            summary, code = _concluded(configuration, result, output, facts, checkpoints)
        troubles = (*(recorder.trouble for recorder in recorders), result.unwritten)
        failures = list(filter(None, troubles))
        if result.collective.decide(bool(failures)):
            output.restate({**summary, "failures": failures})
            return FAULT
    return code


def _iterated(
    configuration: Configuration,
    run: Run,
    output: RunOutput,
    resumed: Resumed | None,
    steps: Steps,
    checkpoints: Checkpoints | None,
    recorders: Sequence[SafeRecorder],
) -> Result:
    """The result of the run, whose rows are recorded and shown."""
    settings = configuration.run
    with contextlib.ExitStack() as stack:
        output.begin(stack)
        if run.collective.communicator.rank == 0 and resumed is not None:
            for row, one in product(resumed.history.rows, recorders):
                one.record(row)
        metrics: list[Any] = [steps]
        if settings.record_agents:
            metrics.append(AgentErrors(run.problem.n_agents, run.problem.shape))
        options = Options(
            iterations=settings.iterations,
            stopping=stopping_rule(settings),
            rows=settings.history_rows,
            record_every=settings.record_every,
            recorders=[output, *recorders],
            metrics=metrics,
            safety_region=settings.safety_region,
            checkpoints=checkpoints,
            resume=resumed,
            compute_timeout=settings.compute_timeout,
        )
        return run.solve(options)


def _concluded(
    configuration: Configuration, result: Result, output: RunOutput, facts: dict[str, Any], checkpoints: Checkpoints | None
) -> tuple[dict[str, Any], int]:
    """Save the results and print how the run has ended; the summary and the exit code."""
    settings, certificate, uncertain = configuration.run, None, ""
    certifies = settings.split == "features" and result.status != "diverged"
    if certifies:
        from ...api.certificate import certify

        try:
            result, certificate = certify(result)
            facts["certificate"] = certificate.plain()
        except ValueError as error:
            uncertain = one_line(error)
    signals = PendingSignals()
    if checkpoints is not None:
        signals = checkpoints.signals
    with signals:  # whatever comes now waits until the files are whole on rank 0
        saved, summary = True, {}
        if settings.out is not None:
            summary = summarize(configuration, result, facts)
            saved = output.save(result, summary)
        if output.prints:
            output.conclude(result)
            if certifies:
                say(f"certificate {certificate or f'none: {uncertain}'}")
        ended_by = int(result.collective.max(float(max(signals.seen & ENDINGS, default=0))))
        signals.take()
    if not saved:
        return summary, FAULT
    return summary, exit_code(result.status, result.converged, settings.require_converged, ended_by)


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
    limits: dict[Callable[[float], Rule], float | None] = {Time: settings.time_limit, ObjectiveBelow: settings.objective_below}
    rules: list[Rule] = [kind(value) for kind, value in tolerances.items() if value is not None]
    if settings.local_rule is not None:
        rules.append(settings.local_rule)
    if rules:
        rules = [reduce(and_, rules)]
    rules += [kind(value) for kind, value in limits.items() if value is not None]
    if not rules:
        return None
    return reduce(or_, rules)


def _checkpoints(configuration: Configuration, steps: Steps) -> Checkpoints | None:
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


def _problem(configuration: Configuration) -> Any:
    """The problem, or that of one agent whose samples are spread over the ranks."""
    settings, made = configuration.run, configuration.problem
    blocks = settings.spread_samples
    if settings.split == "features":
        if not hasattr(made, "features"):
            raise InputError(f"{settings.problem} cannot split features: take --problem pca, lda or cca")
        return made.features(settings.agents, settings.seed)
    if blocks is None:
        return made.problem(settings.agents, settings.seed)
    try:
        return Spread(getattr(made, "in_blocks", made.problem)(blocks, settings.seed))
    except ValueError as error:
        raise InputError(f"{settings.problem} cannot be had in {blocks} blocks, as if of {blocks} agents: {error}") from error
