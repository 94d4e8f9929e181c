"""Tables and drawings of graphs, of their mixing matrices and of sequences of them, for the
command."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from topologies.canonical import Weights
from topologies.directed.spectra import directed_spectrum, push_pull_spectrum
from topologies.directed.weights import directed_weights
from topologies.drawing import draw_graph, draw_spectrum
from topologies.graphs.graph_families import Labelled
from topologies.line.later import nx
from topologies.line.progress import LOG
from topologies.measures import graph_measures, kemeny_constant, mixing_time
from topologies.sequences.flooding import flooding_rounds
from topologies.sequences.sequence_names import sequence_from_name
from topologies.sequences.sequences import WeightSequence, joint_contraction
from topologies.spectra.eigenvalues import eigenvalues, spectrum
from topologies.spectra.tracking_rate import Order, TrackingScore, tracking_score
from topologies.weights.rules import available_weights, resolve_weights_name, weights_from_name
from topologies.weights.tracking_optimal import tracking_weights

SCORED = 100
"""The most agents of a graph that is scored for gradient tracking: the score takes eigenvalues of
dense matrices."""
UNSCORED = f"more than {SCORED} agents, which are not scored"
_SMALL = 1000
_OPTIMISED = "tracking"
_HEADS = ("measure", "value", "what it says")
_RULE_HEADS = ("weights", "sigma", "min", "rounds", "rate", "step", "iterations")
_NOTES = (
    "min: the smallest eigenvalue of W.",
    "rounds: of plain averaging, to reduce the consensus error a million times.",
    "rate, step: of gradient tracking, and the step that attains it.",
    "iterations: of gradient tracking, to reduce its error a million times.",
)


class Case(NamedTuple):
    """A graph, and the settings of its weights and its score."""

    edges: Weights
    self_weight: float | None
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
        if name == _OPTIMISED:
            return name, tracking_weights(self.edges, self.spaced(), self.order).W
        self_weight = 0.8 if self.self_weight is None else self.self_weight
        W = weights_from_name(self.edges, name, self_weight)
        return resolve_weights_name(name), W

    def spaced(self) -> NDArray[np.float64]:
        """The agents' curvatures: 1 for all, or evenly spaced, shape (n,)."""
        return np.linspace(*(self.curvatures or (1.0, 1.0)), self.edges.shape[0])

    def score(self, W: Weights) -> TrackingScore | None:
        """The score for gradient tracking; None for too many agents."""
        LOG.info("the rate of gradient tracking")
        if W.shape[0] > SCORED:
            return None
        return tracking_score(W, self.spaced(), self.order)


Row: TypeAlias = Sequence[object]
Rows: TypeAlias = Iterable[Row]


def _wrapped(text: str, width: int) -> list[str]:
    return wrap(text, width, break_on_hyphens=False, break_long_words=False) or [""]


def _table(title: str, heads: Sequence[str], rows: Rows, left: Collection[int]) -> Iterator[str]:
    """The lines of a table. Columns but ``left`` end at the right; the last one, if it is of
    ``left``, is wrapped to the terminal.

    No number is cut, however narrow the terminal is, and nothing is cut in a file or a pipe.
    """
    yield title
    texts = [
        [f"{cell:.9g}" if isinstance(cell, float) else str(cell) for cell in row]
        for row in (heads, *rows)
    ]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    last = len(widths) - 1
    room = widths[last]
    if last in left:
        room = max(get_terminal_size().columns - sum(widths[:-1]) - 2 * last, 20)
    for row in texts:
        padded = [f"{cell:{'<' if n in left else '>'}{widths[n]}}" for n, cell in enumerate(row)]
        begin = "  ".join(padded[:-1])
        for line in _wrapped(padded[last].rstrip(), room):
            yield f"{begin}  {line}"
            begin = " " * len(begin)


def _measures(title: str, rows: Rows) -> Iterator[str]:
    return _table(title, _HEADS, rows, (0, 2))


def measures(case: Case, rule: str, W: Weights) -> Iterator[str]:
    """Yield lines with the measures of a graph and its weights."""
    return _measures(f"{W.shape[0]} agents, {rule} weights", _of_weights(case, W))


def _of_weights(case: Case, W: Weights) -> Iterator[Row]:
    n = W.shape[0]
    found = spectrum(W)
    yield "edges", case.edges.nnz // 2, "pairs of neighbours; twice as many messages per round"
    if n <= _SMALL:
        graph = graph_measures(case.edges)
        degrees = f"{graph.smallest_degree} to {graph.largest_degree}"
        connectivity = graph.algebraic_connectivity
        yield "degrees", degrees, f"neighbours per agent, {graph.mean_degree:.3g} on average"
        yield "diameter", graph.diameter, "rounds until every agent can have received from all"
        unweighted = "second smallest eigenvalue of the Laplacian, all edges counting the same"
        yield "algebraic connectivity", connectivity, unweighted
    yield "lambda_2", found.lambda_2, "second largest eigenvalue of W"
    yield "lambda_min", found.lambda_min, "smallest eigenvalue of W; near -1, steps must be tiny"
    yield "sigma", found.sigma, "the consensus error shrinks by this factor per round"
    yield "gap", found.gap, "1 - sigma"
    rounds = found.rounds_for(1e-6)
    yield "rounds per 1e-6", rounds, "of averaging, per factor 1e-6 of the consensus error"
    if n <= _SMALL and W.data.min() >= 0:
        yield (
            "Kemeny constant",
            kemeny_constant(W),
            "expected rounds of the walk W to a random agent",
        )
        yield "mixing time", mixing_time(W), "rounds of the walk W to a total variation of 1/4"
    if score := case.score(W):
        iterations = f"{score.iterations_for(1e-6):.0f}"
        yield "tracking rate", score.rate, f"gradient tracking, error per iteration; {case}"
        yield "best step", score.step, "the step that attains it"
        yield "largest step", score.largest_step, "every step below it converges"
        yield (
            "iterations per 1e-6",
            iterations,
            "of gradient tracking, per factor 1e-6 of its error",
        )


def comparison(case: Case) -> Iterator[str]:
    """Yield the lines of a table over the rules, with a footnote for each rule without a matrix.

    The columns fit 80 characters.
    """
    n = case.edges.shape[0]
    names = [name for name in available_weights() if "auto" not in name]
    if n <= SCORED:
        names.append(_OPTIMISED)
    rows = []
    notes = []
    for name in names:
        try:
            _, W = case.weights(name)
        except (ValueError, ImportError) as error:
            notes.append(f"{name}: {str(error).partition(';')[0].partition(':')[0]}")
            rows.append((name, *["-"] * 6))
            continue
        found = spectrum(W)
        score = case.score(W)
        tracked = ["-"] * 3
        if score is not None:
            iterations = f"{score.iterations_for(1e-6):.0f}"
            tracked = [f"{score.rate:.6f}", f"{score.step:.4g}", iterations]
        ends = f"{found.sigma:.6f}", f"{found.lambda_min:.6f}"
        rows.append((name, *ends, str(found.rounds_for(1e-6)), *tracked))
    yield from _table(f"{n} agents, {case}", _RULE_HEADS, rows, (0,))
    yield ""
    for note in (*_NOTES, *notes):
        yield from _wrapped(note, max(get_terminal_size().columns, 40))


def sequence_table(name: str, agents: int | None, seed: int, weights: str | None) -> Iterator[str]:
    """Yield lines with the measures of a time-varying sequence."""
    sequence = sequence_from_name(name, agents, seed, weights)
    return _measures(f"{name}: {sequence.n} agents", _of_sequence(sequence))


def _of_sequence(sequence: WeightSequence) -> Iterator[Row]:
    window = sequence.period or sequence.n
    distinct = len({sequence.distinct(k) for k in range(window)})
    degrees = np.mean([np.diff(sequence.at(k).indptr).mean() - 1 for k in range(window)])
    yield "period", sequence.period or "none", "iterations after which the matrices repeat"
    yield "distinct matrices", distinct, f"in {window} iterations"
    yield "mean degree", f"{degrees:.4g}", "neighbours an agent talks to per iteration"
    for windows, whose in ((1, "one window leaves"), (4, "four windows leave")):
        contraction = f"{joint_contraction(sequence, window=windows * window):.6g}"
        yield f"contraction over {windows * window}", contraction, f"what {whose} of the error"


def directed_table(name: str, graph: nx.DiGraph[int]) -> Iterator[str]:
    """Yield lines with the measures of a directed graph and its weights."""
    return _measures(f"{name}: {len(graph)} agents", _of_directed(graph))


def _of_directed(graph: nx.DiGraph[int]) -> Iterator[Row]:
    weights = directed_weights(graph)
    far = "rounds until every agent can have received from all"
    heard, hearers = (
        sorted(dict(degree).values()) for degree in (graph.in_degree, graph.out_degree)
    )
    yield "edges", graph.number_of_edges(), "directed; a message along each of them per round"
    yield "heard", f"{heard[0]} to {heard[-1]}", "agents that an agent hears"
    yield "hearers", f"{hearers[0]} to {hearers[-1]}", "agents that hear an agent"
    yield "diameter", flooding_rounds(weights), far
    for which, M, use in (("A", weights.A, "pulling, rows"), ("B", weights.B, "pushing, columns")):
        found = directed_spectrum(M)
        perron = f"{found.perron.min():.3g} to {found.perron.max():.3g}"
        yield f"sigma of {which}", found.sigma, f"second largest modulus: {use} sum to 1"
        norm = "of a round, in the norm of the Perron vector"
        yield f"contraction of {which}", found.contraction, norm
        yield f"Perron vector of {which}", perron, "1/n each, were it doubly stochastic"
    both = push_pull_spectrum(weights)
    yield "gain", both.gain, "push-pull: the common step over the agents' own"
    yield "limit", both.limit, "push-pull: common step times curvature must be below, nearly"


def draw(make: Callable[[], Labelled], W: Weights | None, plot: str | Path | None) -> list[str]:
    """Draw a graph and the spectrum into a file, a .png unless the name says otherwise, and return
    a line with its path.

    A directed graph has its own weights.
    """
    if plot is None:
        return []
    from topologies.pictures import Picture, save

    graph = make()
    path = Path(plot)
    if W is None:
        W = directed_weights(graph).A
        found = directed_spectrum(W)
        values = found.eigenvalues
        sigma = found.sigma
    else:
        values = eigenvalues(W)
        sigma = spectrum(W).sigma
    figure = Picture(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_graph(graph, W, quantity=W.diagonal(), label="own weight", axes=left)
    draw_spectrum(values, sigma, axes=right)
    if not path.suffix:
        path = path.with_name(f"{path.name}.png")
    try:
        save(figure, path, dpi=150)
    except OSError as error:
        raise ValueError(f"cannot write {path}: {error.strerror or error}") from None
    return [f"drawn into {path}"]
