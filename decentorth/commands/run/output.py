"""Rank 0's output of a run: the run folder, and the lines that it prints."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import IO, Any, Self

import numpy as np

from topologies.line.flags import InputError

from ...api import Result, Run
from ...display import aligned, size
from ...figures.canvas import save
from ...figures.histories import plot_histories
from ...process.printing import complain, say
from ...protocols import Followed, Row
from ...records.progress_bar import (
    CheckpointLines,
    Lines,
    SettingUp,
    Show,
    headline,
    progress,
    results,
    show_row,
)
from ...records.run_files import (
    FIGURE,
    HISTORY,
    HistoryWriter,
    RunFolder,
    hold,
    variables,
    write_final,
)
from ...running.checkpoint import Resumed
from ...running.metrics import error_name
from ...settings import Values
from ..line.config import Configuration
from ..line.config_files import with_flags
from ..line.shell import one_line
from .summary import filled_in_words, sent_in_words, taken

_LARGEST_TABLE = 20
"""The most sites whose messages are printed one by one; summary.json has them all."""
_SOLVED = 1e-9
"""The share of the first gradient norm up to which a run has been solved in any case."""
_STYLES = {"diverged": "bold red", "left_safe_region": "bold red"}
"""The styles of the last line for ends that leave no answer."""


class RunOutput:
    """The output of a run, written by rank 0.

    If rank 0 is lost, the first remaining rank writes it. Objects of the other ranks write
    nothing.
    """

    def __init__(self, configuration: Configuration, run: Run) -> None:
        self._configuration = configuration
        self._run = run
        self._settings = configuration.run
        self._lock: IO[bytes] | None = None
        self._history: HistoryWriter | None = None
        self._progress: Show | None = None
        self._places = self._others()
        self._full = False
        self._setup: SettingUp | None = None
        self.folder: RunFolder | None = None
        self.active = False

    @property
    def prints(self) -> bool:
        """True if this rank prints."""
        return self.active and not self._settings.quiet

    def hold(self, insist: bool = True) -> None:
        """Lock the run folder against other runs.

        If another run holds the lock, this raises an error, or warns if ``insist`` is false.
        """
        if self._settings.out is not None and self._lock is None:
            self._lock = hold(self._settings.out, insist)

    def open(self, resumed: Resumed | None) -> None:
        """Create the run folder and its history."""
        self.active = True
        self.hold()
        self.folder = self._folder(self._settings.continues)
        if resumed is None:
            self._begin()
        else:
            self._begin(resumed.history.rows, resumed.path and resumed.path.parent.parent)

    def begin(self, stack: contextlib.ExitStack) -> None:
        """Start the progress display; closing ``stack`` ends it."""
        if self.prints:
            self._setup = stack.enter_context(SettingUp(True))
            self._progress = stack.enter_context(progress(self._settings.iterations))
            stack.enter_context(CheckpointLines())

    def follow(self, run: Followed) -> None:
        """Show the run between two rows (`protocols.Follower`)."""
        if isinstance(self._progress, Lines):
            self._progress.follow(run)

    def record(self, row: Row) -> None:
        """Write and show a row (`protocols.Recorder`)."""
        if self._setup is not None:
            self._setup.__exit__(None, None, None)
        if self._history is not None:
            try:
                self._history.record(row)
            except OSError as error:
                if not self._full:
                    self._full = True
                    complain(
                        f"decentorth: {one_line(error)}; the run continues, and its rows wait "
                        "for room on the disk"
                    )
        if self._progress is not None:
            show_row(self._progress, row)

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """Go back to these rows after a loss of ranks (`protocols.Rewound`)."""
        if not self.active:
            self.active = True
            self.hold(insist=False)
            self.folder = self._folder(True)
            if self.prints:
                self._progress = Lines(self._settings.iterations)
        if self._history is not None:
            self._history.close()
        self._begin(rows, None if self.folder is None else self.folder.path)
        say(f"lost        {lost}; the others continue from there", self.prints)

    def save(self, result: Result, summary: Mapping[str, object]) -> bool:
        """Write the results to the run folder, or to another folder if that fails.

        Returns True, on every rank, if they are in the run folder.
        """
        troubles = []
        while any(result.collective.ours((trouble := self._write(result, summary)).encode())):
            troubles.append(trouble)
            if self.folder is not None:
                self.folder = next(self._places, None)
        if troubles and self.active:
            end = "the results are lost"
            if self.folder is not None:
                end = f"all files of the run are in {self.folder.path}"
            complain(f"decentorth: {'; '.join(troubles)}; {end}")
        return not troubles

    def _write(self, result: Result, summary: Mapping[str, object]) -> str:
        """Write all results; the reason, where that fails."""
        folder = self.folder
        if folder is not None and folder.removed:
            folder = None
        try:
            arrays = variables(result.problem, result.x)
            write_final(folder, arrays, result.collective)
            if folder is not None and self._history is not None:
                self._history.finish(folder.path / HISTORY)
                folder.write_summary(summary)
                if self._settings.plot:
                    save(plot_histories({str(folder.path): result.history}), folder.path / FIGURE)
            elif self.folder is not None:
                return f"{self.folder.path} was removed during the run"
        except (OSError, InputError) as error:
            return one_line(error)
        return ""

    def _others(self) -> Iterator[RunFolder]:
        """The folders that are tried next: one at the same path if it was removed, then one for
        temporary files."""
        path = str(self._settings.out)
        config = self._configuration.yaml()
        checkpoints = self._settings.checkpoint_every is not None
        if self.folder is not None and self.folder.removed:
            with contextlib.suppress(InputError):
                yield RunFolder(path, config, continues=checkpoints, lock=hold(path))
        with contextlib.suppress(InputError, OSError):
            yield RunFolder(tempfile.mkdtemp(prefix="decentorth-"), config)

    def restate(self, summary: Mapping[str, object]) -> None:
        """Write the summary again."""
        if self.folder is not None:
            try:
                self.folder.write_summary(summary)
            except OSError as error:
                complain(f"decentorth: {one_line(error)}")

    def left(self) -> list[str]:
        """A message about the files that an interrupted run leaves, if any."""
        if self._history is None:
            return []
        path = self._history.path
        if not path.exists() or not path.stat().st_size:
            return []
        return [f"the history so far is in {path}"]

    def conclude(self, result: Result, certificate: str) -> None:
        """Print the results, and how the run has ended."""
        network = result.network
        row = result.row
        facts = [*results(result.history.rows[0], row, error_name(result.problem))]
        if "error" not in row.values and result.error is not None:
            facts.append((error_name(result.problem).replace("_", " "), f"{result.error:.3g}"))
        if network.messages:
            sent = f"{network.messages} messages, {size(network.bytes)} in {network.rounds} rounds"
            facts.append(("sent", sent))
        if result.sites and len(result.sites) <= _LARGEST_TABLE:
            facts += sent_in_words(result.sent())
        if result.filled and len(result.filled) <= _LARGEST_TABLE:
            facts.append(("filled", filled_in_words(result.filled)))
        if result.agreement is not None:
            facts.append(("agreeing", taken(result)))
        if result.drifted:
            facts.append(
                (
                    "drift",
                    f"the mean of the trackers drifted by {row.values['tracking_error']:.2g} "
                    "(tracking_error)",
                )
            )
        if result.losses:
            facts.append(("lost", "; ".join(map(str, result.losses))))
        facts += [("certificate", certificate)] * bool(certificate)
        if result.advice:
            facts.append(("advice", with_flags(result.advice)))
        if words := self._late(result):
            facts.append(("advice", words))
        facts.append(("time", f"{row.seconds:.2f} s"))
        if self.folder is not None:
            facts.append(("files", str(self.folder.path)))
        say(aligned(facts))
        reason = result.message[:1].upper() + result.message[1:]
        if result.status == "terminated" and self.folder is not None:
            reason += f": continue with --resume {self.folder.path}"
        if result.converged:
            reason = f"Converged at iteration {result.state.k} ({result.message})"
        style = "bold green"
        if not result.converged:
            style = _STYLES.get(result.status, "bold yellow")
        headline(f"{with_flags(reason)}.", style)

    def _late(self, result: Result) -> str:
        """The advice for a run without a tolerance that continued long after it was solved."""
        given = self._settings
        tolerances = (given.gradient_tolerance, given.relative_gradient_tolerance)
        norms = result.history.get("gradient_norm")
        if norms is None or result.converged or any(tolerances):
            return ""
        solved = np.flatnonzero(norms <= _SOLVED * norms[0])
        if not len(solved) or 2 * len(solved) < len(norms):
            return ""
        first = result.history.rows[int(solved[0])]
        return (
            f"the gradient norm was {first.values['gradient_norm']:.2g} at iteration "
            f"{first.iteration}: --relative-gradient-tolerance {_SOLVED:g} or --gradient-tolerance "
            "ends a run there"
        )

    def close(self) -> None:
        """Close the files, and let other runs use the folder."""
        for file in (self._history, self.folder, self._lock):
            if file is not None:
                file.close()

    def _begin(self, earlier: Sequence[Row] = (), source: Path | None = None) -> None:
        if self.folder is not None:
            self._history = self.folder.history(earlier, source)

    def _folder(self, continues: bool) -> RunFolder | None:
        settings = self._settings
        run = self._run
        if settings.out is None:
            return None
        per_agent = sum(array[0].nbytes for array in variables(run.problem, run.x0).values())
        needed = run.problem.n_agents * per_agent
        config = self._configuration.yaml()
        given: Values = {"overwrite": settings.overwrite, "continues": continues}
        return RunFolder(settings.out, config, needed=needed, lock=self._lock, **given)


class SafeRecorder:
    """A recorder of the command line whose failure does not stop the run.

    Its first error is printed. It is not called again.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._recorder = _recorder(place)
        self.trouble = ""

    def record(self, row: Row) -> None:
        """Record a row (`protocols.Recorder`)."""
        self._attempt(self._recorder.record, row)

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """Go back to these rows after a loss of ranks (`protocols.Rewound`)."""
        self._attempt(self._recorder.rewound, rows, lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._attempt(self._recorder.close)

    def _attempt(self, work: Callable[..., None], *given: object) -> None:
        if self.trouble:
            return
        try:
            work(*given)
        except Exception as error:  # each library raises errors of its own
            self.trouble = f"--record {self._place} failed: {one_line(error)}"
            complain(f"decentorth: {self.trouble}; the run and its results do not depend on it")


def _recorder(place: str) -> Any:
    """Return the recorder of the laboratory that ``place`` names, as "parquet:rows.parquet"."""
    return resolve_name("decentorth.lab.recorders:recorder")(place)


def check_recorder(place: str) -> None:
    """Raise InputError unless there is such a recorder, and its place can be written to."""
    one = _recorder(place)
    try:
        one.check()
    except Exception as error:  # each library raises errors of its own
        raise InputError(f"--record {place} cannot be used: {one_line(error)}") from error
