"""The table of what leaves a site: the numbers and bytes that each agent has sent to each neighbour, by quantity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..network import Network
from ..network.ledger import Contents

_REST = "messages before a resume or a loss, or of asynchronous agents"


class Sent(NamedTuple):
    """The numbers and bytes of one quantity that a site has sent to another one in a whole run."""

    site: str
    to: str
    quantity: str
    numbers: int
    bytes: int


def sent(network: Network, entries: Mapping[str, int], names: Sequence[str]) -> list[Sent]:
    """The rows of `Result.sent`.

    Parameters
    ----------
    entries
        The numbers per agent of the state's entries that are sent, in the order of messages.
    names
        The names of all agents.
    """
    totals: dict[tuple[int, int, str], int] = {}
    ledger = network.ledger()
    for contents in ledger:
        parts = _parts(contents, entries)
        together = " + ".join(name for name, _ in parts)
        for sender, receiver, messages, amount in ledger.table(contents).tolist():
            shares = [(name, 8 * messages * width) for name, width in parts]
            if amount != 8 * messages * sum(contents.widths):
                shares = [(f"{together} (coded)", amount)]
            for name, part in shares:
                key = (sender, receiver, name)
                totals[key] = totals.get(key, 0) + part
    rows = [
        Sent(names[sender], names[receiver], name, part // 8, part)
        for (sender, receiver, name), part in sorted(totals.items())
        if part
    ]
    rest = network.bytes - sum(totals.values())
    if rest:
        rows.append(Sent("all sites", "their neighbours", _REST, rest // 8, rest))
    return rows


def _parts(contents: Contents, entries: Mapping[str, int]) -> list[tuple[str, int]]:
    """The name and the numbers of each array in a message."""
    use, widths = contents
    first: list[tuple[str, int]] = []
    if use in ("total", "sent again", "back"):
        words = {"total": "sums over the tree", "back": "points for agents that are back"}
        return [(words.get(use, use), sum(widths))]
    if use == "mix_and_max" and len(widths) == 1:
        return [("maxima", widths[0])]
    if use in ("mix_alike", "mix_and_max"):
        word = {"mix_alike": "labels", "mix_and_max": "verdicts"}[use]
        first, widths = [(word, widths[0])], widths[1:]
    if widths == tuple(entries.values()):
        return first + list(entries.items())
    fitting = [name for name, width in entries.items() if widths == (width,)]
    return [*first, (" or ".join(fitting) or "averages", sum(widths))]
