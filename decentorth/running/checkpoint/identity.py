"""The identity of a run: facts and quantities that must be the same for it to continue from a
checkpoint."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...numerics.ordered_sums import norms
from ...protocols import Array, Declared, Problem
from . import checkpoint_files


@dataclass(frozen=True)
class Identity:
    """The facts and arrays that must be the same for a run to continue as if it had never
    stopped."""

    facts: Mapping[str, checkpoint_files.Json]
    """The facts of the problem, the algorithm, the seed and W, by group and name, as JSON can hold
    them."""
    start: Array
    """``shape``: the common starting point."""
    probes: Mapping[str, Array]
    """Quantities of the agents' data at the start, ``(n_local,)`` each."""


def identity(
    problem: Problem[Any],
    algorithm: object,
    network: Any,
    channel: object,
    seed: int,
    x0: Array,
    losses: Sequence[object],
) -> Identity:
    """Return the identity of the run of this problem with this method from ``x0``.

    ``losses`` are the losses of ranks so far. ``channel`` is None if no faults are simulated.
    """
    probes = {name: np.empty(len(x0)) for name in ("objective", "slope", "feasibility")}
    with np.errstate(all="ignore"):
        for block, part in problem.blocks():
            x = x0[block]
            probes["objective"][block] = part.value(x)
            probes["slope"][block] = norms(part.gradient(x))
            probes["feasibility"][block] = part.constraint.feasibility(x)
    own = network.W.diagonal()
    kind = type(problem).__name__
    facts: dict[str, dict[str, object]] = {
        "problem": {"type": kind, "agents": network.n_agents, "shape": list(problem.shape)},
        "W": {
            "directed edges": int(network.W.nnz) - network.n_agents,
            "least and largest self weight": [float(own.min()), float(own.max())],
            "sha256": network.digest().hex(),
        },
        "algorithm": {"type": type(algorithm).__name__, **_settings(algorithm)},
        "seed": {"seed": seed},
        "network": {"channel": str(channel or "reliable")},
    }
    if network.masks is not None:
        facts["network"]["sums"] = "masked"
    if losses:
        facts["lost"] = {"losses": json.loads(json.dumps(losses))}
    return Identity(facts, x0[0], probes)


def printed(value: object) -> str:
    """Return the text that a value prints as, without memory addresses."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _settings(algorithm: object) -> dict[str, str]:
    """The settings of a method that must stay as they are, as text."""
    if not dataclasses.is_dataclass(algorithm):
        return {"settings": printed(algorithm)}
    changing = Declared.of(algorithm).resumable
    given = {field.name: vars(algorithm)[field.name] for field in dataclasses.fields(algorithm)}
    return {name: printed(value) for name, value in given.items() if name not in changing}
