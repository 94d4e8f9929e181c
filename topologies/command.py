"""The command ``python -m topologies``: measures of a graph and its weights, as a table or a drawing."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from topologies.flags import HELP, InputError, call, function_help
from topologies.progress import LOG, Telling

if TYPE_CHECKING:
    from topologies.canonical import Weights
    from topologies.spectra.tracking_rate import TrackingScore

Order = Literal["combine-then-adapt", "adapt-then-combine"]
_SMALL = 1000
_SCORED = 100
_OPTIMISED = "tracking"

_SUMMARY = "Measure a communication graph and its mixing matrix, for consensus and for gradient tracking."


def main(
    graph: str,
    /,
    *,
    weights: str | None = None,
    self_weight: float | None = None,
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
        For example ring:10, torus:4x5, erdos_renyi:n=20,p=0.3, karate_club, file:my.graphml; a directed graph, for example
        directed_ring:10,chords=3, digraph:my.txt; or a time-varying sequence, for example one_peer_exponential:16,
        link_failures:p=0.2@ring:10.
    weights
        The rule for the mixing matrix: auto (the default), uniform, metropolis, max-degree, local-degree, best-constant, fmmc,
        fdla, each also as lazy-RULE; or tracking, optimised for gradient tracking.
    self_weight
        The own weight of uniform weights; by default 0.8.
    agents
        Number of agents, where GRAPH leaves it open; also -n.
    seed
        For random graphs and sequences.
    curvatures
        Smallest and largest curvature of the agents, evenly spaced over them in the order of their numbers, for the
        gradient-tracking score; by default all agents have curvature 1, and the order does not count.
    order
        The mixing order of gradient tracking: combine-then-adapt, the default, or adapt-then-combine.
    compare
        Print a table over all rules instead.
    plot
        Draw the graph and its spectrum into this file (.png, .pdf, .svg); not with compare, and not a sequence.
    """
    from topologies.names import adjacency_from_name, graph_from_name, is_digraph_name, unread_in_file
    from topologies.sequences.names import is_sequence_name

    try:
        if plot is not None and importlib.util.find_spec("matplotlib") is None:
            raise ImportError('figures need matplotlib: pip install "decentorth[plot]", or leave --plot out')
        scored = {"self-weight": self_weight, "curvatures": curvatures, "order": order}
        if is_digraph_name(graph):
            _refuse({**scored, "weights": weights, "compare": compare or None, "plot": plot}, "a directed graph")
            _say([*_directed_table(graph, agents, seed), *_unread(unread_in_file(graph))])
            return 0
        if is_sequence_name(graph):
            _refuse({**scored, "compare": compare or None, "plot": plot}, "a sequence of graphs")
            _say(_sequence_table(graph, agents, seed, weights))
            return 0
        if compare:
            _refuse({"weights": weights, "plot": plot}, "compare, which is about every rule")
        edges = adjacency_from_name(graph, agents, seed)
        if edges.shape[0] > _SCORED:
            _refuse({"curvatures": curvatures, "order": order}, f"more than {_SCORED} agents, which are not scored")
        case = _Case(edges, 0.8 if self_weight is None else self_weight, curvatures, order or "combine-then-adapt")
        unread = _unread(unread_in_file(graph))
        if compare:
            _say([*_comparison(case), *unread])
            return 0
        rule, W = case.weights(weights or "auto")
        if not rule.endswith("uniform"):
            _refuse({"self-weight": self_weight}, f"{rule} weights")
        measures = [*_measures(case, rule, W), *unread]
        if plot is not None:
            measures.append(f"drawn into {_draw(graph_from_name(graph, agents, seed), W, Path(plot))}")
        _say(measures)
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, ImportError, OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.filename is None:  # of the output, not of a file
            raise
        return _refused(error)
    return 0


def command(tokens: Sequence[str] | None = None) -> int:
    """Run the command with these arguments, by default those of this process, and return the exit code: 0, 2 with the reason on
    standard error, or 141 where the reader of the output has closed it."""
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"error: cannot write to standard output ({error.strerror})\n")
        return 1
    except MemoryError as error:
        return _refused(MemoryError(f"there is not enough memory for this: {error or 'it is used up'}"))


def _say(lines: Iterable[str]) -> None:
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))
    sys.stdout.flush()


def _unread(names: Sequence[str]) -> list[str]:
    """A line about the attributes of edges that have no effect."""
    return [f"edge attribute {name} is not read: all edges count the same" for name in names]


def _refused(error: Exception) -> int:
    """Print an error in one line and return the exit code of bad input."""
    text = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        text = f"cannot use {error.filename}: {error.strerror}"
    sys.stderr.write(f"error: {' '.join(text.split())}\n")
    return 2


def _refuse(given: Mapping[str, object], what: str) -> None:
    """Raise unless every given option has an effect with ``what``."""
    if names := [f"--{name}" for name, value in given.items() if value is not None]:
        raise ValueError(f"{names[0]} has no effect with {what}: leave it out")


class _Case(NamedTuple):
    """A graph, and the settings of its weights and its score."""

    edges: Weights
    self_weight: float
    curvatures: tuple[float, float] | None
    order: Order

    def __str__(self) -> str:
        """The curvatures and the order in words."""
        spaced = "equal curvatures"
        if self.curvatures is not None:
            spaced = "curvatures {:g} to {:g} by the agents' numbers".format(*self.curvatures)
        return f"{spaced}, {self.order}"

    def weights(self, name: str) -> tuple[str, Weights]:
        """The rule that a name stands for, and its mixing matrix."""
        if name != _OPTIMISED:
            from topologies.weights.rules import resolve_weights_name, weights_from_name

            return resolve_weights_name(self.edges, name), weights_from_name(self.edges, name, self.self_weight)
        from topologies.weights.tracking_optimal import tracking_weights

        return _OPTIMISED, tracking_weights(self.edges, self.spaced(), self.order).W

    def spaced(self) -> Any:
        """The agents' curvatures: 1 for all, or evenly spaced, shape (n,)."""
        import numpy as np

        return 1.0 if self.curvatures is None else np.linspace(*self.curvatures, self.edges.shape[0])

    def score(self, W: Weights) -> TrackingScore | None:
        """The score for gradient tracking; None for too many agents."""
        from topologies.spectra.tracking_rate import tracking_score

        LOG.info("the rate of gradient tracking")
        return tracking_score(W, self.spaced(), self.order) if W.shape[0] <= _SCORED else None


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int]) -> Iterator[str]:
    """The lines of a table. Columns but ``left`` end at the right; the last one, if it is of ``left``, is wrapped to the terminal.

    No number is cut, however narrow the terminal is, and nothing is cut in a file or a pipe.
    """
    yield title
    last = len(heads) - 1
    cells = [heads, *rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(heads))]
    room = max(get_terminal_size().columns - sum(widths[:last]) - 2 * last, 20)
    for row in cells:
        ends = (
            wrap(row[last], room, break_on_hyphens=False, break_long_words=False)
            if last in left
            else [row[last].rjust(widths[last])]
        )
        begin = "  ".join(
            cell.ljust(width) if n in left else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(row[:last], widths, strict=False))
        )
        for number, end in enumerate(ends or [""]):
            yield f"{begin if number == 0 else ' ' * len(begin)}  {end}"


def _rows() -> tuple[list[tuple[str, str, str]], Callable[[str, object, str], None]]:
    """An empty list of measures, and the function that adds one."""
    found: list[tuple[str, str, str]] = []

    def row(name: str, value: object, meaning: str) -> None:
        found.append((name, f"{value:.9g}" if isinstance(value, float) else str(value), meaning))

    return found, row


_MEASURES, _LEFT = ("measure", "value", "what it says"), (0, 2)


def _measures(case: _Case, rule: str, W: Weights) -> Iterator[str]:
    from topologies.measures import graph_measures, kemeny_constant, mixing_time
    from topologies.spectra.eigenvalues import spectrum

    n = W.shape[0]
    rows, row = _rows()
    row("edges", case.edges.nnz // 2, "pairs of neighbours; twice as many messages per round")
    if n <= _SMALL:
        graph = graph_measures(case.edges)
        degrees = f"{graph.smallest_degree} to {graph.largest_degree}"
        row("degrees", degrees, f"neighbours per agent, {graph.mean_degree:.3g} on average")
        row("diameter", graph.diameter, "rounds until everybody can have heard of everybody")
        row("algebraic connectivity", graph.algebraic_connectivity, "second smallest eigenvalue of the Laplacian")
    found = spectrum(W)
    row("lambda_2", found.lambda_2, "second largest eigenvalue of W")
    row("lambda_min", found.lambda_min, "smallest eigenvalue of W; near -1, gradient tracking needs tiny steps")
    row("sigma", found.sigma, "the consensus error shrinks by this factor per round")
    row("gap", found.gap, "1 - sigma")
    row("rounds per 1e-6", found.rounds_for(1e-6), "of plain averaging, to reduce the consensus error a million times")
    if n <= _SMALL and W.data.min() >= 0:
        row("Kemeny constant", kemeny_constant(W), "expected rounds of the random walk W to a random agent")
        row("mixing time", mixing_time(W), "rounds of the random walk W to a total variation of 1/4")
    score = case.score(W)
    if score is not None:
        row("tracking rate", score.rate, f"gradient tracking's error per iteration, best step; {case}")
        row("best step", score.step, "the step that attains it")
        row("largest step", score.largest_step, "every step below it converges")
        row("iterations per 1e-6", f"{score.iterations_for(1e-6):.0f}", "of gradient tracking, to reduce its error a million times")
    return _table(f"{n} agents, {rule} weights", _MEASURES, rows, _LEFT)


def _comparison(case: _Case) -> Iterator[str]:
    """A table over the rules, whose columns fit 80 characters, and a foot-note for each rule without a matrix."""
    from topologies.spectra.eigenvalues import spectrum
    from topologies.weights.rules import available_weights

    n = case.edges.shape[0]
    names = [name for name in available_weights() if "auto" not in name]
    rows, notes = [], []
    for name in [*names, *([_OPTIMISED] if n <= _SCORED else [])]:
        try:
            _, W = case.weights(name)
        except (ValueError, ImportError) as error:
            notes.append(f"{name}: {str(error).partition(';')[0].partition(':')[0]}")
            rows.append((name, *["-"] * 6))
            continue
        found, score = spectrum(W), case.score(W)
        tracked = ["-"] * 3
        if score is not None:
            tracked = [f"{score.rate:.6f}", f"{score.step:.4g}", f"{score.iterations_for(1e-6):.0f}"]
        rows.append((name, f"{found.sigma:.6f}", f"{found.lambda_min:.6f}", str(found.rounds_for(1e-6)), *tracked))
    heads = ("weights", "sigma", "min", "rounds", "rate", "step", "iterations")
    yield from _table(f"{n} agents, {case}", heads, rows, (0,))
    yield ""
    notes.insert(0, "min: the smallest eigenvalue of W. rounds: of plain averaging, to reduce the consensus error a million times.")
    notes.insert(
        1, "rate, step: of gradient tracking, and the step that attains it. iterations: of it, to reduce its error a million times."
    )
    for note in notes:
        yield from wrap(note, max(get_terminal_size().columns, 40), break_on_hyphens=False, break_long_words=False)


def _sequence_table(specification: str, agents: int | None, seed: int, weights: str | None) -> Iterator[str]:
    import numpy as np

    from topologies.sequences.names import sequence_from_name
    from topologies.sequences.sequences import joint_contraction

    sequence = sequence_from_name(specification, agents, seed, weights)
    window = sequence.period or sequence.n
    rows, row = _rows()
    row("period", sequence.period or "none", "iterations after which the matrices repeat")
    row("distinct matrices", len({sequence.distinct(k) for k in range(window)}), f"in {window} iterations")
    degrees = np.mean([np.diff(sequence.at(k).indptr).mean() - 1 for k in range(window)])
    row("mean degree", f"{degrees:.4g}", "neighbours an agent talks to per iteration")
    for windows, meaning in ((1, "what one window leaves of the consensus error"), (4, "what four windows leave")):
        row(f"contraction over {windows * window}", f"{joint_contraction(sequence, window=windows * window):.6g}", meaning)
    return _table(f"{specification}: {sequence.n} agents", _MEASURES, rows, _LEFT)


def _directed_table(specification: str, agents: int | None, seed: int) -> Iterator[str]:
    from topologies.directed.spectra import directed_spectrum, push_pull_spectrum
    from topologies.directed.weights import directed_weights
    from topologies.names import digraph_from_name
    from topologies.sequences.flooding import flooding_rounds

    graph = digraph_from_name(specification, agents, seed)
    weights = directed_weights(graph)
    rows, row = _rows()
    row("edges", graph.number_of_edges(), "directed; a message along each of them per round")
    for name, degrees in (("heard", graph.in_degree), ("hearers", graph.out_degree)):
        counts = [degree for _, degree in degrees]
        row(
            name,
            f"{min(counts)} to {max(counts)}",
            "agents that an agent hears" if name == "heard" else "agents that hear an agent",
        )
    row("diameter", flooding_rounds(weights), "rounds until everybody can have heard of everybody")
    for matrix, M, meaning in (("A", weights.A, "pulling, rows sum to 1"), ("B", weights.B, "pushing, columns sum to 1")):
        found = directed_spectrum(M)
        row(f"sigma of {matrix}", found.sigma, f"second largest modulus of an eigenvalue: {meaning}")
        row(f"contraction of {matrix}", found.contraction, "factor for one round in the norm of the Perron vector")
        row(
            f"Perron vector of {matrix}",
            f"{found.perron.min():.3g} to {found.perron.max():.3g}",
            "1/n each, were it doubly stochastic",
        )
    found_both = push_pull_spectrum(weights)
    row("gain", found_both.gain, "push-pull: the agents' common step is so much longer than their own")
    row("limit", found_both.limit, "push-pull: common step times curvature up to which it is stable, nearly")
    return _table(f"{specification}: {weights.shape[0]} agents", _MEASURES, rows, _LEFT)


def _draw(graph: Any, W: Weights, path: Path) -> Path:
    """Draw the graph and the spectrum into a file, a .png unless the name says otherwise, and return its path."""
    from topologies.drawing import draw_graph, draw_spectrum
    from topologies.pictures import Picture, save
    from topologies.spectra.eigenvalues import eigenvalues, spectrum

    figure = Picture(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_graph(graph, W, quantity=W.diagonal(), label="own weight", axes=left)
    draw_spectrum(eigenvalues(W), spectrum(W).sigma, axes=right)
    path = path if path.suffix else path.with_name(f"{path.name}.png")
    try:
        save(figure, path, dpi=150)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from None
    return path
