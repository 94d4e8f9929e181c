"""Tables and drawings of graphs, of their mixing matrices and of sequences of them, for the command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from topologies.canonical import Weights
from topologies.directed.spectra import directed_spectrum, push_pull_spectrum
from topologies.directed.weights import directed_weights
from topologies.drawing import draw_graph, draw_spectrum
from topologies.measures import graph_measures, kemeny_constant, mixing_time
from topologies.names import digraph_from_name
from topologies.progress import LOG
from topologies.sequences.flooding import flooding_rounds
from topologies.sequences.names import sequence_from_name
from topologies.sequences.sequences import joint_contraction
from topologies.spectra.eigenvalues import eigenvalues, spectrum
from topologies.spectra.tracking_rate import Order, TrackingScore, tracking_score
from topologies.weights.rules import available_weights, resolve_weights_name, weights_from_name
from topologies.weights.tracking_optimal import tracking_weights

SCORED = 100
"""The most agents of a graph that is scored for gradient tracking: the score takes eigenvalues of dense matrices."""
_SMALL = 1000
_OPTIMISED = "tracking"


class Case(NamedTuple):
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
            return resolve_weights_name(self.edges, name), weights_from_name(self.edges, name, self.self_weight)
        return _OPTIMISED, tracking_weights(self.edges, self.spaced(), self.order).W

    def spaced(self) -> Any:
        """The agents' curvatures: 1 for all, or evenly spaced, shape (n,)."""
        return 1.0 if self.curvatures is None else np.linspace(*self.curvatures, self.edges.shape[0])

    def score(self, W: Weights) -> TrackingScore | None:
        """The score for gradient tracking; None for too many agents."""
        LOG.info("the rate of gradient tracking")
        return tracking_score(W, self.spaced(), self.order) if W.shape[0] <= SCORED else None


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], left: Collection[int]) -> Iterator[str]:
    """The lines of a table. Columns but ``left`` end at the right; the last one, if it is of ``left``, is wrapped to the terminal.

    No number is cut, however narrow the terminal is, and nothing is cut in a file or a pipe.
    """
    yield title
    *widths, longest = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    room = longest
    if len(widths) in left:
        room = max(get_terminal_size().columns - sum(widths) - 2 * len(widths), 20)
    for *cells, end in (heads, *rows):
        padded = zip(cells, widths, strict=True)
        begin = "  ".join(cell.ljust(width) if n in left else cell.rjust(width) for n, (cell, width) in enumerate(padded))
        for line in wrap(end, room, break_on_hyphens=False, break_long_words=False) or [""]:
            yield f"{begin}  {line if len(widths) in left else line.rjust(longest)}"
            begin = " " * len(begin)


def _rows() -> tuple[list[tuple[str, str, str]], Callable[[str, object, str], None]]:
    """An empty list of measures, and the function that adds one."""
    found: list[tuple[str, str, str]] = []

    def row(name: str, value: object, meaning: str) -> None:
        found.append((name, f"{value:.9g}" if isinstance(value, float) else str(value), meaning))

    return found, row


_MEASURES, _LEFT = ("measure", "value", "what it says"), (0, 2)


def measures(case: Case, rule: str, W: Weights) -> Iterator[str]:
    """The measures of a graph and its weights."""
    n = W.shape[0]
    rows, row = _rows()
    row("edges", case.edges.nnz // 2, "pairs of neighbours; twice as many messages per round")
    if n <= _SMALL:
        graph = graph_measures(case.edges)
        degrees = f"{graph.smallest_degree} to {graph.largest_degree}"
        row("degrees", degrees, f"neighbours per agent, {graph.mean_degree:.3g} on average")
        row("diameter", graph.diameter, "rounds until every agent can have received from every other")
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


def comparison(case: Case) -> Iterator[str]:
    """A table over the rules, whose columns fit 80 characters, and a foot-note for each rule without a matrix."""
    n = case.edges.shape[0]
    names = [name for name in available_weights() if "auto" not in name]
    rows, notes = [], []
    for name in [*names, *([_OPTIMISED] if n <= SCORED else [])]:
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


def sequence_table(specification: str, agents: int | None, seed: int, weights: str | None) -> Iterator[str]:
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


def directed_table(specification: str, agents: int | None, seed: int) -> Iterator[str]:

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
    row("diameter", flooding_rounds(weights), "rounds until every agent can have received from every other")
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


def draw(graph: Any, W: Weights | None, path: Path) -> str:
    """Draw the graph and the spectrum into a file, a .png unless the name says otherwise, and return a line with its path.

    A directed graph has its own weights.
    """
    from topologies.pictures import Picture, save

    if W is None:
        W = directed_weights(graph).A
        found = directed_spectrum(W)
        values, sigma = found.eigenvalues, found.sigma
    else:
        values, sigma = eigenvalues(W), spectrum(W).sigma
    figure = Picture(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_graph(graph, W, quantity=W.diagonal(), label="own weight", axes=left)
    draw_spectrum(values, sigma, axes=right)
    path = path if path.suffix else path.with_name(f"{path.name}.png")
    try:
        save(figure, path, dpi=150)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from None
    return f"drawn into {path}"
