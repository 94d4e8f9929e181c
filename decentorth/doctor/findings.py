"""The findings of the doctor: one for each subject, with its remedy."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["works", "note", "warning", "fault"]


@dataclass(frozen=True)
class Finding:
    """The finding on one subject.

    Attributes
    ----------
    what
        The subject.
    state
        works; note: worth knowing; warning: slow, or unexpected; fault: the main job does not work.
    found
        The description of what was found.
    remedy
        The remedy; empty where none is needed.
    """

    what: str
    state: State
    found: str
    remedy: str = ""


def works(findings: Iterable[Finding]) -> bool:
    """True if no finding is a fault."""
    return all(finding.state != "fault" for finding in findings)


def text(findings: Sequence[Finding], command: str, width: int = 120) -> str:
    """The findings as text for a terminal, with a conclusion on ``command``, the main job."""
    column = max(len(finding.what) for finding in findings)
    lines = []
    for finding in findings:
        lines += textwrap.wrap(
            finding.found,
            width,
            initial_indent=f"{finding.state:7s}  {finding.what:{column}s}  ",
            subsequent_indent=" " * (column + 11),
        )
        if finding.remedy:
            lines += textwrap.wrap(
                finding.remedy,
                width,
                initial_indent=f"{'':{column + 11}s}-> ",
                subsequent_indent=" " * (column + 14),
                break_on_hyphens=False,
                break_long_words=False,
            )
    verdict = "The main job works" if works(findings) else "The main job does not work"
    return "\n".join([*lines, f"{verdict}: {command}"])
