"""The mixing matrix of a run from its settings: made on rank 0, where SciPy and networkx are
loaded, and sent to the others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import topologies
from topologies.line.flags import InputError
from topologies.line.matrix_files import read_square

from ...network.transport.communicator import Communicator
from ...numerics.ordered_sums import Csr, plain
from ...protocols import SETUP
from .run_settings import SELF_WEIGHT, CaseSettings

if TYPE_CHECKING:
    from topologies import DirectedWeights, WeightSequence
    from topologies.canonical import Weights


class Wiring(NamedTuple):
    """A mixing matrix and its origin."""

    W: Weights | DirectedWeights | WeightSequence | Csr
    """The checked mixing matrix, shape (n, n), both of a directed graph, or a sequence with one for
    every round; once it is shared, a matrix is plain arrays, for which no rank loads SciPy."""
    origin: str
    """The graph and the rule, in words."""


def make(settings: CaseSettings, sites: Sequence[str] = ()) -> Wiring:
    """The mixing matrix that the settings describe; nodes of a file that have names are joined to
    the ``sites`` of their names.

    Raises
    ------
    ValueError
        The graph, the rule or the file gives no mixing matrix.
    """
    file = settings.weights_file
    topology = settings.topology
    agents = settings.agents
    SETUP.info("the mixing matrix: %s", file or f"{settings.weights} weights of {topology}")
    if file is not None:
        W = read_weights(file)
        if W.shape[0] != agents:
            raise InputError(
                f"{file} is for {W.shape[0]} agents: leave --agents out (now {agents})"
            )
        return Wiring(W, f"weights of {file}")
    if settings.edge_weight is not None:
        return _of_conductances(settings, sites)
    if topologies.is_sequence_name(topology):
        return _sequence(settings, sites)
    if topologies.is_digraph_name(topology):
        for flag, given in (
            ("--weights", settings.weights),
            ("--self-weight", settings.self_weight),
        ):
            if given not in ("auto", None):
                raise InputError(
                    f"{flag} is for undirected graphs, and {topology} is directed: leave it out"
                )
        digraph = topologies.digraph_from_name(topology, agents, settings.seed, sites)
        words = f"{_graph(settings)} (directed), row- and column-stochastic weights"
        return Wiring(topologies.directed_weights(digraph), words)
    graph = topologies.adjacency_from_name(topology, agents, settings.seed, sites)
    rule = topologies.resolve_weights_name(settings.weights)
    own = settings.self_weight or SELF_WEIGHT
    words = f"{_graph(settings)}, {rule} weights"
    if rule.endswith("uniform"):
        words += f" (self weight {own:g})"
    elif settings.self_weight is not None:
        raise InputError(
            f"--self-weight is for uniform weights, and those of {topology} are {rule}: add "
            "--weights uniform, or leave it out"
        )
    return Wiring(topologies.check_weights(topologies.weights_from_name(graph, rule, own)), words)


def _of_conductances(settings: CaseSettings, sites: Sequence[str]) -> Wiring:
    """Metropolis weights of a graph whose edges have conductances."""
    topology = settings.topology
    edge_weight = settings.edge_weight or ""
    if topologies.is_sequence_name(topology) or topologies.is_digraph_name(topology):
        raise InputError(
            f"--edge-weight is for the edges of an undirected graph, and {topology} is none: "
            "leave it out"
        )
    graph = topologies.graph_from_name(topology, settings.agents, settings.seed, sites)
    words = f"{_graph(settings)}, metropolis weights of conductances {edge_weight}"
    return Wiring(topologies.conductance_weights(graph, edge_weight), words)


def _graph(settings: CaseSettings) -> str:
    """The graph in words, with the attributes of edges in its file that have no effect."""
    from topologies.names import unread_in_file

    unread = ", ".join(unread_in_file(settings.topology, settings.edge_weight or ""))
    if unread:
        return f"{settings.topology} ({unread} of the edges not read)"
    return settings.topology


def fixed_agents(settings: CaseSettings) -> int | None:
    """Return the number of agents fixed by the weights file or the graph, or None.

    Raises the errors of `make`.
    """
    if settings.weights_file is not None:
        return read_weights(settings.weights_file).shape[0]
    return topologies.agents_from_name(settings.topology, settings.seed)


def _sequence(settings: CaseSettings, sites: Sequence[str]) -> Wiring:
    """A time-varying network; the weight rule is used by sequences that are made from a graph."""
    if settings.self_weight is not None:
        raise InputError(
            f"--self-weight is for uniform weights of a graph, and {settings.topology} changes "
            "over time: leave it out"
        )
    rule = {"auto": None}.get(settings.weights, settings.weights)
    sequence = topologies.sequence_from_name(
        settings.topology, settings.agents, settings.seed, rule, sites
    )
    period = "no period"
    if sequence.period is not None:
        period = f"period {sequence.period}"
    return Wiring(sequence, f"{settings.topology} (time-varying, {period})")


def share(
    settings: CaseSettings,
    wiring: Wiring | None,
    communicator: Communicator,
    sites: Sequence[str] = (),
) -> Wiring:
    """Return the wiring of rank 0 on every rank; the other ranks pass None.

    Each rank makes a sequence again from its name. A site keeps its own, whose words name its files.
    """
    if communicator.sites and wiring is not None:
        return wiring
    parts = [b"", b"", b"", b"", b""]
    if wiring is not None:
        parts = _parts(wiring)
    header, indptr, indices, data, push = [communicator.bcast_bytes(part) for part in parts]
    changes, origin = json.loads(header)
    if changes:
        return Wiring(_sequence(settings, sites).W, origin)
    starts, columns = [np.frombuffer(part, np.int64).copy() for part in (indptr, indices)]
    values, pushed = [np.frombuffer(part).copy() for part in (data, push)]
    n = len(starts) - 1
    rows = Csr(n, n, starts, columns, values)
    if push:
        rows = rows._replace(push=pushed)
    return Wiring(rows, origin)


def _parts(wiring: Wiring) -> list[bytes]:
    """A wiring as bytes: whether it changes and its origin, then its arrays."""
    W: Any = wiring.W
    push = np.zeros(0)
    match W:
        case topologies.WeightSequence():  # each rank makes it again
            return [json.dumps([True, wiring.origin]).encode(), b"", b"", b"", b""]
        case topologies.DirectedWeights():
            W, push = W.A, W.B.data
    header = json.dumps([False, wiring.origin]).encode()
    rows = plain(W)
    return [header, *(array.tobytes() for array in (rows.indptr, rows.indices, rows.data, push))]


def read_weights(path: str) -> Weights:
    """A checked matrix from a .npy, .npz (one array, or scipy's sparse format), .mtx or .mtx.gz
    file; nothing is unpickled."""
    try:
        given = read_square(path)
    except OSError as error:
        raise InputError(f"cannot read weights_file {path}: {error.strerror or error}") from None
    except (ValueError, TypeError) as error:
        raise InputError(f"weights_file cannot be used: {error}") from None
    try:
        return topologies.check_weights(given)
    except ValueError as error:
        raise InputError(f"weights_file {path} cannot be used: {error}") from None
