"""Time-varying sequences by name: ``one_peer_exponential:16``, ``random_matching:n=16,seed=3``,
``random_gossip@torus:4x5``, ``link_failures:p=0.2,weights=lazy-metropolis@ring:10``,
``periodic@ring:10|star:10``.

A specification is a name; after a colon, parameters separated by commas; after an at sign, the
graphs it runs on (see `topologies.names`), separated by bars.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from topologies.line.text import Hints, divided, values
from topologies.line.words import normal_name
from topologies.names import adjacency_from_name, check_size, fixed_agents
from topologies.sequences import sequences
from topologies.sequences.sequences import WeightSequence
from topologies.weights.rules import weights_from_name

_PARAMETERS: dict[str, Hints] = {
    "link_failures": {"p": float, "weights": str, "seed": int},
    "one_peer_exponential": {"n": int},
    "periodic": {"weights": str},
    "random_gossip": {"seed": int},
    "random_matching": {"n": int, "seed": int},
}
SEQUENCES = {
    "link_failures": sequences.LinkFailures,
    "one_peer_exponential": sequences.OnePeerExponential,
    "periodic": sequences.PeriodicSequence,
    "random_gossip": sequences.RandomGossip,
    "random_matching": sequences.RandomMatching,
}
"""The classes that names of sequences stand for."""
_ON_GRAPHS = ("link_failures", "periodic", "random_gossip")


def is_sequence_name(specification: str) -> bool:
    """True where the specification names a sequence rather than a graph."""
    return normal_name(specification.partition("@")[0].partition(":")[0]) in _PARAMETERS


def agents_from_name(specification: str, seed: int = 0) -> int | None:
    """The number of agents that the specification of a graph or a sequence fixes; None where it
    leaves it open.

    Raises the errors of `topologies.graph_from_name` and `sequence_from_name`.
    """
    if not is_sequence_name(specification):
        return fixed_agents(specification, seed)
    name, values, graphs = _parts(specification)
    if name in _ON_GRAPHS:
        return next((n for graph in graphs if (n := fixed_agents(graph, seed)) is not None), None)
    return values.get("n")


def sequence_from_name(
    specification: str,
    n_agents: int | None = None,
    seed: int = 0,
    weights: str | None = None,
    names: Sequence[str] = (),
) -> WeightSequence:
    """Return the sequence that ``specification`` describes.

    Raises ValueError if the name or a parameter is unknown, a value cannot be read, or graphs or
    the number of agents are missing or too many. It is also raised if ``weights`` are given for
    a sequence with weights of its own. Other errors are those of the graphs, the weights and the
    sequence.

    Parameters
    ----------
    specification : str
        For example ``"one_peer_exponential:16"``, ``"link_failures:p=0.2@torus:4x5"``,
        ``"periodic@ring:10|star:10"``.
    n_agents : int, optional
        Number of agents, needed where the specification leaves it open.
    seed : int
        Seed of the random parts whose specification gives no seed.
    weights : str, optional
        The rule for the matrices of ``link_failures`` and ``periodic``; by default the
        specification's, or ``metropolis``.
    names : sequence of str
        The names of the agents, by which the nodes of a file are joined to them.
    """
    name, values, graphs = _parts(specification)
    if weights is not None and ("weights" in values or "weights" not in _PARAMETERS[name]):
        raise ValueError(
            f"{specification} has its own weights, and not {weights!r}: leave them out"
        )
    own_seed = values.get("seed", seed)
    if name in _ON_GRAPHS:
        edges = [adjacency_from_name(graph, n_agents, seed, names) for graph in graphs]
        rule = weights or values.get("weights", "metropolis")
        if name == "periodic":
            return sequences.PeriodicSequence([weights_from_name(graph, rule) for graph in edges])
        if len(edges) != 1:
            raise ValueError(
                f"{name} runs on one graph, got {len(edges)}; use periodic for several in turn"
            )
        if name == "random_gossip":
            return sequences.RandomGossip(edges[0], own_seed)
        return sequences.LinkFailures(
            weights_from_name(edges[0], rule), values.get("p", 0.1), own_seed
        )
    n = values.get("n", n_agents)
    if n is None:
        raise ValueError(
            f"{specification!r} leaves the number of agents open: write '{name}:16', or give "
            "n_agents in Python"
        )
    check_size(specification, n, n_agents)
    return (
        sequences.OnePeerExponential(n)
        if name == "one_peer_exponential"
        else sequences.RandomMatching(n, own_seed)
    )


def _parts(specification: str) -> tuple[str, dict[str, Any], list[str]]:
    """The name of a sequence, its parameters, and the graphs it runs on."""
    head, at, graphs_text = specification.partition("@")
    name, written = divided("sequence", head, _PARAMETERS)
    if bool(at) != (name in _ON_GRAPHS):
        wrong = f"needs a graph; write {name}@ring:10"
        if at:
            wrong = f"takes no graph; write {name}:16"
        raise ValueError(f"{specification!r}: {name} {wrong}")
    found = values(repr(specification), name, _PARAMETERS[name], written)
    return name, found, [graph.strip() for graph in graphs_text.split("|")]
