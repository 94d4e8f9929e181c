"""The command ``decentorth list``: the names that commands take, each with a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from shutil import get_terminal_size
from textwrap import TextWrapper

from topologies.line.flags import arguments, unknown

from .. import registry
from .line.shell import of_function

_COLUMN = 24
FIRST = {
    "auto": "Take this first. It chooses by problem, network and faults.",
    "direct": "Few numbers describe the data: PCA, CCA, LDA. The pooled answer in one sum.",
    "block_krylov": "Principal components of long or sparse rows.",
    "lbfgs": "Any smooth objective, on a network that does not change.",
    "rsm": "An objective that is not differentiable.",
    "drfgt": "Neighbours only, also on changing and lossy networks (paper 004).",
    "push_pull": "Directed links.",
    "asynchronous_drfgt": "Agents that do not wait for each other.",
}
"""The methods that the list names first, with the reason to take each."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Print the names of a kind, or without one the kinds: 0, or 2 with the reason on standard
    error.

    The arguments are those of this process by default.
    """
    words = arguments(tokens) or ["kinds"]
    return of_function(words, listed, f"decentorth list {'|'.join(KINDS)}")


def listed(kind: str, /, *, all: bool = False) -> str:
    """Print the names of a kind, each with a sentence.

    Parameters
    ----------
    kind
        What to list; "kinds" lists the kinds.
    all
        Also print the algorithms that are not first choices.
    """
    if kind.lower() == "kinds":
        return "\n".join(f"decentorth list {known}" for known in KINDS)
    if kind.lower() not in KINDS:
        raise unknown(f"unexpected {kind!r:.80} (kinds: {', '.join(KINDS)})", kind, KINDS, "")
    width = max(60, min(get_terminal_size().columns, 120))
    wrapper = TextWrapper(width, break_on_hyphens=False, break_long_words=False)
    wrapper.subsequent_indent = " " * _COLUMN
    if kind.lower() == "algorithms" and not all:
        known = registry.algorithms.names()
        rows = [(name, words) for name, words in FIRST.items() if name in known]
        rest = len(known) - len(rows)
        more = f"\n{rest} more: decentorth list algorithms --all"
    else:
        entries = sorted(KINDS[kind.lower()]().items())
        rows = [(name, sentence(entry)) for name, entry in entries]
        more = ""
    lines = [f"{name:<{_COLUMN}}{words}" for name, words in rows]
    return "\n".join(map(wrapper.fill, lines)) + more


def sentence(entry: object) -> str:
    """The first sentence of an object's documentation, without markup."""
    paragraph = " ".join(cleandoc(entry.__doc__ or "").split("\n\n")[0].split())
    first = re.split(r"(?<=[^A-Z])\. (?=[A-Z])", paragraph)[0]
    return re.sub(r"`+", "", first).rstrip(".:") + "."


def _graphs() -> Mapping[str, object]:
    from topologies.graphs.real import graph_from_file
    from topologies.names import DIGRAPHS, GRAPHS
    from topologies.sequences.sequence_names import SEQUENCES

    return {**GRAPHS, **DIGRAPHS, **SEQUENCES, "file:PATH": graph_from_file}


def _weights() -> Mapping[str, object]:
    from topologies.weights.rules import RULES

    return RULES


def _faults() -> Mapping[str, object]:
    from ..network.unreliable.faults import FAULTS

    return FAULTS


KINDS: Mapping[str, Callable[[], Mapping[str, object]]] = {
    "problems": registry.problems.entries,
    "algorithms": registry.algorithms.entries,
    "graphs": _graphs,
    "weights": _weights,
    "faults": _faults,
}
"""The entries of each kind by name."""
