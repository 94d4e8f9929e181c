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
    column = " " * 25
    lines = []
    for what, state, found, remedy in findings:
        lines += textwrap.wrap(found, width, initial_indent=f"{state:9}{what:16}", subsequent_indent=column)
        arrow = f"{column}-> "
        lines += textwrap.wrap(remedy, width, initial_indent=arrow, subsequent_indent=column, break_on_hyphens=False)
    verdict = {True: "The main job works", False: "The main job does not work"}[works(findings)]
    return "\n".join([*lines, f"{verdict}: {command}"])
