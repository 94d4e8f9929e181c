"""The command ``python -m decentorth study spectral|consensus|drfgt``: a study from the command
line.

Exit codes: 0 done, 1 a trial failed, 2 bad input, 130 interrupted (start it again to continue).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from topologies.line.flags import HELP, InputError, Parser, take, unknown

from ...commands.line.shell import alone
from ...figures.canvas import check_matplotlib, save
from ...process.printing import say
from ...records.progress_bar import trial_progress
from ...settings import Count, Quiet, Seed, Settings, settings
from ..compare.workers import processes
from . import consensus, drfgt_study, spectral
from .sweep import Study, kept, named, sweep

STUDIES = {study.name: study for study in (spectral.STUDY, consensus.STUDY, drfgt_study.STUDY)}


@dataclass(frozen=True)
class StudySettings(Settings):
    """The settings of every study.

    Parameters
    ----------
    out : str
        Folder for the CSV file and the figure. Trials already in the file are not repeated.
    full : bool
        The large version, in files of its own.
    workers : int
        Number of processes; by default one per processor.
    """

    out: str = "studies"
    full: bool = False
    seed: Seed = 0
    workers: Count | None = None
    quiet: Quiet = False


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    failed = (RuntimeError, OSError)
    return alone(tokens, _study, name="decentorth study", refused=(ValueError,), failed=failed)


def _study(words: Sequence[str]) -> int:
    if not words or HELP & set(words):
        lines = "\n\n".join(f"{study.name}: {study.summary}" for study in STUDIES.values())
        usage = f"decentorth study {'|'.join(STUDIES)}"
        return say(Parser({"Settings": settings(StudySettings)}, usage, lines).format_help())
    name, *flags = words
    if name.startswith("-"):
        raise InputError(f"name a study first, as in: decentorth study spectral {name}")
    asked, _ = take(StudySettings, flags, alone=True)
    if name not in STUDIES:
        what = f"no study is called {name!r} (there are {', '.join(STUDIES)})"
        raise unknown(what, name, STUDIES, "")
    try:
        _make(STUDIES[name], asked)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command continues where it stopped") from None
    return 0


def _make(study: Study, asked: StudySettings) -> None:
    workers = processes(asked.workers)
    check_matplotlib()
    from topologies import pictures

    if importlib.util.find_spec("pandas") is None:
        raise InputError("the tables of a study need pandas: pip install pandas")
    folder = Path(asked.out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot use {folder}: {error.strerror}") from None
    path = folder / f"{study.name}{'-full' * asked.full}.csv"
    picture = path.with_suffix(".png")
    pictures.check_place(picture)
    trials = study.trials(asked.full, asked.seed)
    done = len(kept(path, list(trials[0])))
    if done and not asked.quiet:
        say(f"{path} holds {done} of {len(trials)} trials already")
    with trial_progress(len(trials), done, asked.quiet) as advance:
        rows = sweep(study, trials, path, workers, lambda trial: advance(" ".join(named(trial))))
    try:
        save(study.figure(rows), picture)
        lines = [*study.conclusions(rows), str(path), str(picture)]
    except KeyError as error:
        raise InputError(
            f"{path} lacks the column {error}: choose another --out, or remove it"
        ) from None
    if not asked.quiet:
        say("\n".join(lines))
