"""The command ``decentorth list``: the names that commands take, each with the first sentence of its documentation."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from shutil import get_terminal_size
from textwrap import wrap

from .flags import HELP, arguments, unknown

_COLUMN = 24


def main(tokens: Sequence[str] | None = None) -> int:
    """Print the names of a kind, by default for this process's arguments: 0, or 2 with the reason on standard error."""
    words = arguments(tokens)
    if not words or HELP & set(words):
        sys.stdout.write(f"Usage: decentorth list {'|'.join(KINDS)}\n\nPrint the names of a kind, each with a sentence.\n")
        return 0
    kind, *others = words
    kind = kind.lower()
    error = None
    if kind not in KINDS:
        error = unknown(f"unexpected {words[0]!r:.80}", kind, KINDS, "")
    elif others:
        error = unknown(f"unexpected {others[0]!r:.80}", kind, KINDS, "give one kind")
    if error is not None:
        sys.stderr.write(f"decentorth list: {error} (kinds: {', '.join(KINDS)})\n")
        return 2
    width = max(60, min(get_terminal_size().columns, 120))
    for name, entry in sorted(KINDS[kind]().items()):
        head = f"{name:<{_COLUMN}}"
        text = head + sentence(entry)
        lines = wrap(text, width, subsequent_indent=" " * _COLUMN, break_on_hyphens=False, break_long_words=False)
        sys.stdout.write("\n".join(lines) + "\n")
    return 0


def sentence(entry: object) -> str:
    """The first sentence of an object's documentation, without markup."""
    paragraph = " ".join(cleandoc(entry.__doc__ or "").split("\n\n")[0].split())
    first = re.split(r"(?<=[^A-Z])\. (?=[A-Z])", paragraph)[0]
    return re.sub(r"`+", "", first).rstrip(".:") + "."


def _problems() -> Mapping[str, object]:
    from ..registry import problems

    return {name: problems.get(name) for name in problems.names()}


def _algorithms() -> Mapping[str, object]:
    from ..registry import algorithms

    return {name: algorithms.get(name) for name in algorithms.names()}


def _graphs() -> Mapping[str, object]:
    from topologies.graphs.real import graph_from_file
    from topologies.names import DIGRAPHS, GRAPHS
    from topologies.sequences.names import SEQUENCES

    return {**GRAPHS, **DIGRAPHS, **SEQUENCES, "file:PATH": graph_from_file}


def _weights() -> Mapping[str, object]:
    from topologies.weights.rules import RULES

    return RULES


def _faults() -> Mapping[str, object]:
    from ..network.unreliable.faults import FAULTS

    return FAULTS


KINDS: Mapping[str, Callable[[], Mapping[str, object]]] = {
    "problems": _problems,
    "algorithms": _algorithms,
    "graphs": _graphs,
    "weights": _weights,
    "faults": _faults,
}
"""The entries of each kind by name."""
