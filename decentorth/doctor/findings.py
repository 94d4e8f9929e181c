"""The findings of the doctor: one for each subject, with its remedy."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """The finding on one subject."""

    what: str
    state: Literal["works", "note", "warning", "fault"]
    """note: worth knowing; warning: slow, or unexpected; fault: the main job does not work."""
    found: str
    remedy: str = ""
    """The remedy; empty where none is needed."""


def works(findings: Iterable[Finding]) -> bool:
    """True if no finding is a fault."""
    return all(finding.state != "fault" for finding in findings)


def text(findings: Sequence[Finding], command: str, width: int = 120) -> str:
    """The findings as text for a terminal, with a conclusion on ``command``, the main job."""
    column = max(len(finding.what) for finding in findings) + 11
    lines = []
    for what, state, found, remedy in findings:
        lines += textwrap.wrap(found, width, initial_indent=f"{state:7s}  {what}".ljust(column), subsequent_indent=" " * column)
        lines += textwrap.wrap(
            remedy,
            width,
            initial_indent=" " * column + "-> ",
            subsequent_indent=" " * (column + 3),
            break_on_hyphens=False,
            break_long_words=False,
        )
    verdict = "The main job works" if works(findings) else "The main job does not work"
    return "\n".join([*lines, f"{verdict}: {command}"])
