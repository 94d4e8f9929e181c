"""The contents of ``summary.json``: the end of a run, its costs and its environment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import topologies

from ...api import Result
from ...api.ledger_table import Sent
from ...display import size
from ...network import Network
from ...records.machine import environment
from ...running.local_stopping import Agreement
from ...running.metrics import error_name
from ..line.config import Configuration

LARGEST_DENSE = 1000


Facts = dict[str, object]


def summarize(configuration: Configuration, result: Result, facts: Facts) -> Facts:
    """Return the contents of ``summary.json``; every rank calls it."""
    network = result.network
    found = result.summary()
    found |= {"iterations": result.state.k, "gradients": result.state.gradients}
    found |= {"rounds": network.rounds, "messages": network.messages, "bytes": network.bytes}
    found |= {"transport": dict(result.transport), "error_name": error_name(result.problem) or None}
    found |= _channel(configuration, result) | _agreement(result.agreement)
    if result.losses:
        found["losses"] = [loss._asdict() for loss in result.losses]
    found["W"] = {"sha256": network.digest().hex(), **_mixing(network)}
    return {**found, **facts, "config": configuration.mapping(), **environment()}


def _channel(configuration: Configuration, result: Result) -> Facts:
    """The faulty channel, and its effect on the mean of the trackers: kept equal to the mean of the
    tracked fields, or drifted."""
    channel = configuration.run.bad_channel
    if channel is None:
        return {}
    tracking = {None: "nothing is tracked", True: "drifted", False: "kept"}[result.drifted]
    facts = {"faults": channel.written, "repair": channel.repair, "correction": channel.correction}
    return {"channel": {**facts, "tracking": tracking}}


def _agreement(agreement: Agreement | None) -> Facts:
    """The result and the cost of the agents' max-consensus; the cost is contained in the counts of
    the run."""
    if agreement is None:
        return {}
    facts: Facts = {"every": agreement.every, "rounds_each": agreement.exchanges}
    facts |= agreement.tally._asdict()
    if agreement.latest is not None:
        facts |= {"iteration": agreement.latest.iteration, "maxima": agreement.latest.maxima}
    return {"agreement": facts}


def in_words(agreement: Agreement) -> str:
    """Describe the rule by which the agents decide to stop, for the opening lines."""
    return (
        f"agents agree on their largest {', '.join(agreement.quantities)}: {agreement.exchanges} "
        f"rounds every {agreement.every} iterations"
    )


def taken(result: Result) -> str:
    """Describe the communication used for the agents' decision to stop, for the last line."""
    if result.agreement is None or result.agreement.exchanges == 0:
        return "no message"
    tally = result.agreement.tally
    network = result.network
    return (
        f"{tally.rounds} of {network.rounds} rounds, {tally.messages} of {network.messages} "
        f"messages, {size(tally.bytes)} of {size(network.bytes)}"
    )


def sent_in_words(rows: Sequence[Sent]) -> Iterator[tuple[str, str]]:
    """Yield for each site the name of its line and the communication it has sent."""
    for site in dict.fromkeys(row.site for row in rows):
        amounts: Counter[str] = Counter()
        for row in (own := [row for row in rows if row.site == site]):
            amounts[row.quantity] += row.bytes
        words = [f"{name} {part // 8} numbers, {size(part)}" for name, part in amounts.items()]
        receivers = ", ".join(dict.fromkeys(row.to for row in own))
        yield f"sent by {site}", f"to {receivers}: {'; '.join(words)}"


def filled_in_words(filled: Mapping[str, int]) -> str:
    """Describe the missing cells that were filled with the mean of their column."""
    cells = ", ".join(f"{site} {count}" for site, count in filled.items())
    return f"missing cells, with the mean of their column: {cells}"


def mixing_words(network: Network) -> str:
    """Describe the averaging speed of the network, for the opening lines."""
    facts = _mixing(network)
    if "sigma_W" in facts:
        return f"spectral gap {facts['gap']:.3g}"
    words = [f"{name.replace('_', ' ')} {value:.3g}" for name, value in facts.items()]
    return ", ".join(words) or "no eigenvalues"


def _mixing(network: Network) -> dict[str, float]:
    """Eigenvalues of W, those and the gain of directed weights, or the factor by which one period
    of a sequence reduces the consensus error; nothing where they take too long."""
    if network.sequence is None and not network.directed:
        second, smallest = network.spectrum
        sigma = max(second, -smallest)
        gap = min(1.0 - second, 1.0 + smallest)
        return {"sigma_W": sigma, "gap": gap, "lambda_2": second, "lambda_min": smallest}
    if network.n_agents > LARGEST_DENSE:
        return {}
    if network.directed:
        return {"sigma": network.push_pull_spectrum.sigma, "gain": network.push_pull_spectrum.gain}
    if network.sequence is None or network.sequence.period is None:
        return {}
    return {"contraction_per_period": topologies.joint_contraction(network.sequence)}
