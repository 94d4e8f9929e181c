"""What ``summary.json`` says of a run: how it ended, what it cost, and where it took place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from topologies import joint_contraction

from .environment import environment

if TYPE_CHECKING:
    from ..api import Result
    from ..network import Network
    from .config import Configuration


LARGEST_DENSE = 1000


def summarize(configuration: Configuration, result: Result, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What ``summary.json`` holds; called by every rank."""
    network = result.network
    return {
        "status": result.status,
        "converged": result.converged,
        "message": result.message,
        "iterations": result.state.k,
        "rounds": network.rounds,
        "messages": network.messages,
        "bytes": network.bytes,
        "gradients": result.state.gradients,
        "seconds": dict(result.seconds),
        "transport": dict(result.transport),
        "metrics": dict(result.row.values),
        **_channel(configuration, result),
        "error_name": getattr(result.problem, "error_name", None) or None,
        "iterates_sha256": result.iterates_sha256,
        "agents": network.n_agents,
        "ranks": result.collective.size,
        **({"losses": [loss._asdict() for loss in result.losses]} if result.losses else {}),
        "W": {"sha256": network.digest().hex(), **_mixing(network)},
        **facts,
        "config": configuration.mapping(),
        **environment(),
    }


def _channel(configuration: Configuration, result: Result) -> dict[str, Any]:
    """A bad channel, and whether the mean of the trackers stayed that of what they track."""
    channel = configuration.run.bad_channel
    if channel is None:
        return {}
    drifted = result.drifted
    tracking = "nothing is tracked" if drifted is None else "drifted" if drifted else "kept"
    return {"channel": {"faults": channel.written, "repair": channel.repair, "tracking": tracking}}


def mixing_words(network: Network) -> str:
    """How fast the network averages, for the opening lines."""
    facts = _mixing(network)
    if "sigma_W" in facts:
        return f"sigma_W {facts['sigma_W']:.6g}, gap {facts['gap']:.4g}"
    return ", ".join(f"{name.replace('_', ' ')} {value:.3g}" for name, value in facts.items()) or "no eigenvalues"


def _mixing(network: Network) -> dict[str, float]:
    """Eigenvalues of W, or what one period of a sequence leaves of the consensus error."""
    if network.sequence is None:
        second, smallest = network.spectrum
        sigma, gap = max(second, -smallest), min(1.0 - second, 1.0 + smallest)
        return {"sigma_W": sigma, "gap": gap, "lambda_2": second, "lambda_min": smallest}
    if network.sequence.period is None or network.n_agents > LARGEST_DENSE:
        return {}
    return {"contraction_per_period": joint_contraction(network.sequence)}
