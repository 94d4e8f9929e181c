"""Rows of the report: works that are done in turn, in blocks, and their ratios."""

from __future__ import annotations

import math
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Works = Mapping[str, Callable[[], float]]
"""By name, functions that do a piece of work and return its seconds, or another number of the
case's unit."""


class Unmeasured(Exception):
    """A work that has no number, with the reason in a line."""


@dataclass(frozen=True)
class Case:
    """Works to compare: the first ``own`` that ``prepare`` makes against all others.

    ``goal`` is what the ratios are to be to the works whose names begin with ``against``.
    """

    name: str
    prepare: Callable[[], Works]
    blocks: int
    own: int = 1
    goal: float | None = None
    against: str = ""
    unit: str = "s"


@dataclass(frozen=True)
class Row:
    """``ours`` against ``other``: the medians of both over the blocks, and the median, least and
    largest of their ratios."""

    section: str
    case: str
    ours: str
    other: str
    unit: str
    value: float
    other_value: float
    ratio: float
    least: float
    largest: float
    goal: float | None


@dataclass(frozen=True)
class Failure:
    """A case, or one of its works, that could not be measured."""

    section: str
    case: str
    work: str
    reason: str


@dataclass
class Measured:
    """The rows so far, and what has none."""

    rows: list[Row] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def add(self, section: str, case: Case) -> None:
        """Measure a case; whatever fails is named and the rest goes on."""
        try:
            works = dict(case.prepare())
        except Exception as error:
            return self._fail(section, case, "all", error)
        names = list(works)
        found: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(case.blocks):
            for name in [name for name in names if name in found]:
                try:
                    found[name].append(_number(works[name]))
                except Exception as error:
                    del found[name]
                    self._fail(section, case, name, error)
        # Python drops a Ctrl-C that comes while a generator is deleted: they are deleted before a
        # row is printed
        del works
        for ours in names[: case.own]:
            for other in names[case.own :]:
                if ours in found and other in found:
                    self._compare(section, case, (ours, other), found)

    def _compare(
        self, section: str, case: Case, names: tuple[str, str], found: Mapping[str, Sequence[float]]
    ) -> None:
        mine, theirs = (found[name] for name in names)
        ratios = [a / b for a, b in zip(mine, theirs, strict=True)]
        goal = case.goal if names[1].startswith(case.against) else None
        middle = statistics.median(mine), statistics.median(theirs), statistics.median(ratios)
        self.rows.append(
            Row(section, case.name, *names, case.unit, *middle, min(ratios), max(ratios), goal)
        )
        print(f"  {case.name}: {names[0]} / {names[1]}: {middle[2]:.3g}", flush=True)

    def _fail(self, section: str, case: Case, work: str, error: Exception) -> None:
        said = str(error).strip().splitlines() or [""]
        reason = said[0] if isinstance(error, Unmeasured) else f"{type(error).__name__}: {said[-1]}"
        self.failures.append(Failure(section, case.name, work, reason))
        print(f"  {case.name}: {work}: not measured: {reason}", flush=True)


def _number(work: Callable[[], float]) -> float:
    found = float(work())
    if not (math.isfinite(found) and found > 0.0):
        raise Unmeasured(f"no positive number: {found}")
    return found


def repeated(step: Callable[[], object], calls: int) -> Callable[[], float]:
    """The work of ``calls`` calls; the processor's seconds of one."""

    def work() -> float:
        begun = time.process_time()
        for _ in range(calls):
            step()
        return (time.process_time() - begun) / calls

    return work


def processor(work: Callable[[], object]) -> Callable[[], float]:
    """The processor's seconds of a piece of work."""
    return repeated(work, 1)


def output(command: Sequence[Any], seconds: float = 600.0) -> str:
    """The output of another program.

    Raises
    ------
    Unmeasured
        When the program fails, with the last line of what it said, or takes longer than that.
    """
    with subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            out, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            _end(process)
            raise Unmeasured(f"not done in {seconds:g} s") from None
        except KeyboardInterrupt:
            _end(process)
            raise
    if process.returncode:
        said = [line for line in (errors or out).splitlines() if line.strip()]
        raise Unmeasured(said[-1].strip() if said else f"exit code {process.returncode}")
    return out


def _end(process: subprocess.Popen[str]) -> None:
    """Ask a program to end, as mpirun must be for its ranks to end too, and kill it where it does
    not."""
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()


def printed(*command: Any) -> Callable[[], float]:
    """The work of another program, which prints its seconds last."""
    return lambda: float(output(command).split()[-1])
