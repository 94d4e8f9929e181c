"""The findings of the doctor: one for each subject, with its remedy."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from functools import partial
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
    wrap = partial(textwrap.wrap, width=width, subsequent_indent=column, break_on_hyphens=False)
    for what, state, found, remedy in findings:
        lines += wrap(found, initial_indent=f"{state:9}{what:16}")
        lines += wrap(remedy, initial_indent=f"{column}-> ")
    if works(findings):
        return "\n".join([*lines, f"The main job works: {command}"])
    lines.append(f"The main job does not work: {command}")
    if any((one.what, one.state) == ("one process", "works") for one in findings):
        lines.append("Runs in one process work: decentorth run")
    return "\n".join(lines)
