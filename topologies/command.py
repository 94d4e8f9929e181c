"""The command ``python -m topologies``: measures of a graph and its weights, as a table or a
drawing."""

from __future__ import annotations

import errno
import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from topologies.line.flags import HELP, InputError, call, function_help
from topologies.line.progress import LOG, Telling

if TYPE_CHECKING:
    from topologies import reports
    from topologies.canonical import Weights

Order = Literal["combine-then-adapt", "adapt-then-combine"]

_SUMMARY = "Measure a graph and its mixing matrix, for consensus and for gradient tracking."


def main(
    graph: str,
    /,
    *,
    weights: str | None = None,
    self_weight: float | None = None,
    edge_weight: str | None = None,
    agents: int | None = None,
    seed: int = 0,
    curvatures: tuple[float, float] | None = None,
    order: Order | None = None,
    compare: bool = False,
    plot: str | Path | None = None,
) -> int:
    """Print the measures of GRAPH.

    Parameters
    ----------
    graph
        For example ring:10, torus:4x5, erdos_renyi:n=20,p=0.3, karate_club, file:my.graphml; a
        directed graph, for example directed_ring:10,chords=3, digraph:my.txt; or a time-varying
        sequence, for example one_peer_exponential:16, link_failures:p=0.2@ring:10.
    weights
        The rule for the mixing matrix: auto (the default), uniform, metropolis, max-degree,
        local-degree, best-constant, fmmc, fdla, each also as lazy-RULE; or tracking, optimised for
        gradient tracking.
    self_weight
        W_ii of uniform weights; by default 0.8.
    edge_weight
        The attribute of a file's edges to use as conductances in Metropolis weights: large values
        give large weights. 1/NAME uses reciprocals, as 1/km of lengths.
    agents
        Number of agents, where GRAPH leaves it open; also -n.
    seed
        For random graphs and sequences.
    curvatures
        Smallest and largest curvature of the agents, evenly spaced over them in the order of their
        numbers, for the gradient-tracking score; by default all agents have curvature 1, and the
        order does not count.
    order
        The mixing order of gradient tracking: combine-then-adapt, the default, or
        adapt-then-combine.
    compare
        Print a table over all rules instead.
    plot
        Draw the graph and its spectrum into this file (.png, .pdf, .svg); not with compare, and not
        a sequence.
    """
    from topologies import names, reports
    from topologies.sequences.sequence_names import is_sequence_name
    from topologies.weights.rules import conductance_weights
    from topologies.weights.weight_checks import adjacency

    scored = {"self-weight": self_weight, "curvatures": curvatures, "order": order}
    unused: dict[str, object]

    try:
        _require_matplotlib(plot)
        if names.is_digraph_name(graph):
            unused = {**scored, "weights": weights, "edge-weight": edge_weight}
            _refuse({**unused, "compare": compare or None}, "a directed graph")
            digraph = names.digraph_from_name(graph, agents, seed)
            lines = [*reports.directed_table(graph, digraph)]
            lines += reports.draw(lambda: digraph, None, plot)
        elif is_sequence_name(graph):
            unused = {**scored, "edge-weight": edge_weight, "plot": plot}
            _refuse({**unused, "compare": compare or None}, "a sequence of graphs")
            lines = [*reports.sequence_table(graph, agents, seed, weights)]
        elif compare:
            unused = {"weights": weights, "edge-weight": edge_weight, "plot": plot}
            _refuse(unused, "compare, which is about every rule")
            edges = names.adjacency_from_name(graph, agents, seed)
            lines = [*reports.comparison(_case(edges, scored))]
        elif edge_weight is not None:
            unused = {"weights": weights, "self-weight": self_weight}
            _refuse(unused, "edge-weight, which gives Metropolis weights")
            network = names.graph_from_name(graph, agents, seed)
            one = _case(adjacency(network), scored)
            W = conductance_weights(network, edge_weight)
            lines = [*reports.measures(one, f"metropolis (conductance {edge_weight})", W)]
            lines += reports.draw(lambda: network, W, plot)
        else:
            one = _case(names.adjacency_from_name(graph, agents, seed), scored)
            rule, W = one.weights(weights or "auto")
            if not rule.endswith("uniform"):
                _refuse({"self-weight": self_weight}, f"{rule} weights")
            lines = [*reports.measures(one, rule, W)]
            lines += reports.draw(lambda: names.graph_from_name(graph, agents, seed), W, plot)
        for name in names.unread_in_file(graph, edge_weight or ""):
            lines.append(f"edge attribute {name} is not read: all edges count the same")
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        return _refused(error)
    _say(lines)
    return 0


def _case(edges: Weights, scored: Mapping[str, Any]) -> reports.Case:
    """A graph, and the settings of its weights and its score."""
    from topologies import reports

    self_weight, curvatures, order = scored.values()
    if edges.shape[0] > reports.SCORED:
        _refuse({"curvatures": curvatures, "order": order}, reports.UNSCORED)
    return reports.Case(edges, self_weight, curvatures, order or "combine-then-adapt")


def command(tokens: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of this process, and return the exit
    code: 0, 2 with the reason on standard error, or 141 where the reader of the output has closed
    it."""
    words = list(sys.argv[1:] if tokens is None else tokens)
    try:
        if HELP & set(words):
            _say([function_help(main, "decentorth graph GRAPH", _SUMMARY)])
            return 0
        with Telling("computing", "the measures", (LOG,), True, sys.stderr):
            words = ["--agents" if word == "-n" else word for word in words]
            return call(main, words, "give a graph, as in: decentorth graph ring:10")
    except InputError as error:
        return _refused(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except OSError as error:
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"decentorth graph: cannot write to standard output ({error.strerror})\n")
        return 1
    except MemoryError as error:
        return _refused(MemoryError(f"not enough memory: {error or 'none is left'}"))


def _say(lines: Iterable[str]) -> None:
    if sys.stdout is None:  # it is closed
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))
    sys.stdout.flush()


def _require_matplotlib(plot: object) -> None:
    if plot is not None and importlib.util.find_spec("matplotlib") is None:
        raise ImportError("figures need matplotlib: pip install matplotlib, or leave --plot out")


def _refused(error: Exception) -> int:
    """Print an error in one line and return the exit code of bad input."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"cannot use {error.filename}: {error.strerror}"
    sys.stderr.write(f"decentorth graph: {' '.join(text.split())}\n")
    return 2


def _refuse(given: Mapping[str, object], what: str) -> None:
    """Raise unless every given option has an effect with ``what``."""
    if names := [f"--{name}" for name, value in given.items() if value is not None]:
        raise ValueError(f"{names[0]} has no effect with {what}: leave it out")
