"""Arguments as people give them: a name, a graph or a class becomes a mixing matrix, a channel, a
method or a starting point."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import topologies as tp
from topologies.line.words import normal_name, partners

from .. import network as networks
from ..numerics.ordered_sums import Csr
from ..protocols import Array, Problem
from ..registry import algorithms
from ..running.metrics import RUNAWAY, splits_features

Labels = tuple[str, ...] | None
"""The names of all agents, None where they have none."""


def network(W: Any, n_agents: int, seed: int, sites: Sequence[str] = ()) -> tuple[Any, Labels]:
    """The mixing matrix, or the sequence, that is given, and the names of its agents.

    Nodes that have names are joined to the sites of their names.

    Parameters
    ----------
    W
        A matrix, also as plain arrays, or a sequence, taken as it is; the name of a graph or of a
        sequence, with the weights of the command line; or a networkx graph, with Metropolis
        weights, or `topologies.directed_weights` where it is directed; None for a single agent.
    n_agents
        The number of agents of the problem, for a name that leaves it open.
    sites
        The names of the agents' sites, if they have names.

    Raises
    ------
    ValueError, TypeError
        There is no such network; the message says what to give.
    """
    given: Any = W
    match given:
        case None if n_agents == 1:
            return np.ones((1, 1)), None
        case None:
            raise ValueError(
                f"the problem has {n_agents} agents, so W is needed: a name such as 'ring', a "
                "networkx graph, or a matrix such as topologies.metropolis_weights(graph)"
            )
        case str():
            return _named(W, n_agents, seed, sites), None
        case object(adjacency=_, nodes=_):
            graph, labels = tp.named_graph(W, sites)
            weights = {True: tp.directed_weights, False: tp.metropolis_weights}
            return weights[graph.is_directed()](graph), labels
        case object(index=_, columns=_, iloc=_):
            return _of_frame(W, sites)
        case list() | tuple() if any(np.ndim(one) == 2 or hasattr(one, "nodes") for one in W):
            raise TypeError(_SEVERAL)
    if callable(W) or (not isinstance(W, Csr) and np.ndim(W) == 3):
        raise TypeError(_SEVERAL)
    return W, None


_SEVERAL = (
    "W must be one matrix, a graph or a name; for a network that changes over time give a "
    "sequence of matrices such as topologies.metropolis_weights(graph): "
    "topologies.PeriodicSequence([W0, W1]), or 'link_failures:p=0.2@ring'"
)


def _of_frame(W: Any, sites: Sequence[str]) -> tuple[Any, Labels]:
    """The mixing matrix in a frame of pandas, whose rows and columns are named after the agents,
    and these names; numbers are no names."""
    columns = list(W.columns)
    rows = list(W.index)
    order = partners(columns, sites)
    if any(isinstance(label, str) for label in columns):
        names = [str(columns[place]) for place in order]
        return W.to_numpy()[partners(rows, names)][:, order], tuple(names)
    return W.to_numpy(), None


def _named(name: str, n_agents: int, seed: int, sites: Sequence[str]) -> Any:
    """The mixing matrix, both of a directed graph, or the sequence of a name."""
    fixed = tp.agents_from_name(name, seed)
    if fixed not in (None, n_agents):
        raise ValueError(f"{name!r} has {fixed} agents, but the problem has {n_agents}")
    if tp.is_sequence_name(name):
        return tp.sequence_from_name(name, n_agents, seed, names=sites)
    if tp.is_digraph_name(name):
        return tp.directed_weights(tp.digraph_from_name(name, n_agents, seed, sites))
    return tp.weights_from_name(tp.adjacency_from_name(name, n_agents, seed, sites))


def problem(problem: object) -> object:
    """The problem; a TypeError for what is none, such as the name of one or its settings."""
    if not hasattr(problem, "n_agents"):
        got = " ".join(repr(problem).split())
        raise TypeError(
            "the problem must be an object such as do.problems.Procrustes(A, B), or of settings "
            f"do.problems.PCASettings(rank=5).problem(n_agents, seed), got {got:.200}"
        )
    return problem


def callback(function: object) -> object:
    """The function of a row, or None; a TypeError for anything else."""
    if function is not None and not callable(function):
        raise TypeError(f"callback must be a function of a row, such as print, got {function!r}")
    return function


def channel(faults: networks.Channel | str | None) -> networks.Channel | None:
    """The channel that a text such as ``"loss:p=0.1"`` describes, None for none; a ValueError for
    an unknown fault, a TypeError for other objects."""
    if isinstance(faults, str):
        return networks.Channel(faults)
    if faults is not None and not isinstance(faults, networks.Channel):
        raise TypeError(
            "channel must be a fault such as 'loss:p=0.1', or several as in "
            f"do.Channel('loss:p=0.1', 'topk:share=0.1'), got {faults!r:.80}"
        )
    return faults


def method(algorithm: Any) -> object:
    """The method that is given as an object, a class with its default settings, or a name such as
    ``"drfgt:penalty=10"``."""
    if isinstance(algorithm, str):
        if _names_network(algorithm):
            raise ValueError(f"{algorithm!r} is a network, not an algorithm: give W={algorithm!r}")
        return algorithms.read(algorithm)
    if isinstance(algorithm, np.ndarray) or hasattr(algorithm, "adjacency"):
        raise TypeError(
            f"{type(algorithm).__name__} is a network, not an algorithm: give it as W=..."
        )
    if not hasattr(algorithm, "step"):
        raise TypeError(
            "the algorithm must be a method such as do.DRFGT(), or a name such as 'drfgt' or "
            f"'drfgt:penalty=10', got {algorithm!r}"
        )
    if not isinstance(algorithm, type):
        return algorithm
    try:
        return algorithm()
    except TypeError as error:
        name = algorithm.__name__
        raise TypeError(f"{name} needs settings, as in do.{name}(...): {error}") from None


def _names_network(name: str) -> bool:
    """True for the name of a graph or a sequence, such as ``"torus:2x5"``."""
    word = normal_name(name.partition(":")[0])
    return word in tp.available() or tp.is_digraph_name(name) or tp.is_sequence_name(name)


def start(x0: Array | None, problem: Problem[object], seed: int) -> Array:
    """``shape``: the starting point of all agents, by default random and feasible; given ones must
    be finite."""
    if x0 is None:
        drawn: Array = problem.start(seed)
        return drawn
    if splits_features(problem):
        raise ValueError(
            "x0 is a point that every agent has, and here each holds rows of one: leave x0 out"
        )
    given = np.asarray(x0)
    shape = tuple(problem.shape)
    if not np.can_cast(given.dtype, np.float64, "same_kind"):
        raise TypeError(f"x0 must hold real numbers, got dtype {given.dtype}")
    with np.errstate(over="ignore", invalid="ignore"):
        point = np.array(given, dtype=np.float64, order="C")
    if point.shape != shape:
        raise ValueError(
            f"x0 must have the shape of one agent's point, {shape}, got {point.shape}: all "
            "agents start from it"
        )
    if not np.isfinite(point).all():
        raise ValueError(
            "x0 must be finite, and it has NaN or infinite entries: compute it again, or leave "
            "x0 out"
        )
    if not (np.abs(point) <= RUNAWAY).all():
        raise ValueError(
            f"x0 must have no entry beyond {RUNAWAY:g}, where a run counts as diverged: scale it "
            "down"
        )
    return point


def adds(weights: Any) -> bool:
    """True if agents with these weights can add exactly along a tree: they stay, and edges go both
    ways."""
    changes = isinstance(weights, tp.DirectedWeights | tp.WeightSequence)
    return not changes and getattr(weights, "push", None) is None
