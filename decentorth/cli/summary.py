"""What ``summary.json`` says of a run: how it ended, what it cost, and where it took place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..protocols import Spectrum
from .environment import environment
from .outputs import weights_sha256

if TYPE_CHECKING:
    from ..api import Result
    from .config import Configuration


def summarize(configuration: Configuration, result: Result, facts: Mapping[str, Any]) -> dict[str, Any]:
    """What ``summary.json`` holds; called by every rank."""
    network = result.network
    sigma, gap = sigma_and_gap(network.spectrum)
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
        "error_name": getattr(result.problem, "error_name", None) or None,
        "iterates_sha256": result.iterates_sha256,
        "agents": network.n_agents,
        "ranks": network.communicator.size,
        "W": {
            "sha256": weights_sha256(network.W),
            "sigma_W": sigma,
            "gap": gap,
            **network.spectrum._asdict(),
        },
        **facts,
        "config": configuration.mapping(),
        **environment(),
    }


def sigma_and_gap(spectrum: Spectrum) -> tuple[float, float]:
    """The second largest singular value of W, and 1 minus it."""
    return max(spectrum.lambda_2, -spectrum.lambda_min), min(1.0 - spectrum.lambda_2, 1.0 + spectrum.lambda_min)
