"""The table of what leaves a site: the numbers and bytes that each agent has sent to each
neighbour, by quantity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from topologies.line.flags import InputError

from ..network import Network
from ..network.ledger import Contents

_REST = "messages before a resume or a loss, or of asynchronous agents"
_LEADING = {"mix": (), "mix_alike": ("labels",), "mix_and_max": ("verdicts",)}
"""The names of the arrays that come before the entries of the state."""


class Sent(NamedTuple):
    """The numbers and bytes of one quantity that a site has sent to another one in a whole run."""

    site: str
    to: str
    quantity: str
    numbers: int
    bytes: int


def sent_of(summary: Mapping[str, Any], place: str) -> tuple[Sent, ...]:
    """The rows that `Result.summary` has written, if any.

    Raises
    ------
    InputError
        They are damaged; names ``place``.
    """
    try:
        rows = [Sent(**row) for row in summary.get("sent") or []]
    except TypeError:
        rows = [Sent("", "", "", -1, -1)]
    for row in rows:
        kinds = [*map(type, row)]
        if kinds != [str, str, str, int, int] or min(row.numbers, row.bytes) < 0:
            raise InputError(
                f"{place}: sent must hold rows of site, to, quantity, numbers and bytes"
            )
    return tuple(rows)


def sent(network: Network, entries: Mapping[str, int], names: Sequence[str]) -> list[Sent]:
    """The rows of `Result.sent`.

    Parameters
    ----------
    entries
        The numbers per agent of the state's entries that are sent, in the order of messages.
    names
        The names of all agents.
    """
    totals: Counter[tuple[int, int, str]] = Counter()
    ledger = network.ledger()
    for contents in ledger:
        parts = _parts(contents, entries)
        for sender, receiver, messages, amount in ledger.table(contents).tolist():
            shares = [(name, 8 * messages * width) for name, width in parts]
            if amount != 8 * messages * sum(contents.widths):
                shares = [(" + ".join(name for name, _ in parts) + " (coded)", amount)]
            for name, part in shares:
                totals[sender, receiver, name] += part
    ordered = sorted((key, part) for key, part in totals.items() if part)
    rows = [Sent(names[i], names[j], name, part // 8, part) for (i, j, name), part in ordered]
    rest = network.bytes - sum(totals.values())
    if rest:
        rows.append(Sent("all sites", "their neighbours", _REST, rest // 8, rest))
    return rows


def _parts(contents: Contents, entries: Mapping[str, int]) -> list[tuple[str, int]]:
    """The name and the numbers of each array in a message."""
    use, widths = contents
    if use == "mix_and_max" and len(widths) == 1:
        return [("maxima", widths[0])]
    if use not in _LEADING:
        return [(use, sum(widths))]
    leading = _LEADING[use]
    names = tuple(entries)
    first = widths[: len(leading)]
    rest = widths[len(leading) :]
    if rest != tuple(entries.values()):
        alike = [name for name, width in entries.items() if rest == (width,)]
        names = (" or ".join(alike) or "averages",)
        rest = (sum(rest),)
    return list(zip(leading + names, first + rest, strict=True))
