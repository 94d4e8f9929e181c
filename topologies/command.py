"""The command ``python -m topologies``: measures of a graph and its weights, as a table or a drawing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from cyclopts import App, Parameter
from rich.console import Console
from rich.table import Table

from topologies.canonical import Weights
from topologies.measures import graph_measures, kemeny_constant, mixing_time
from topologies.names import adjacency_from_name, graph_from_name
from topologies.sequences.names import is_sequence_name, sequence_from_name
from topologies.sequences.sequences import joint_contraction
from topologies.spectra.eigenvalues import eigenvalues, spectrum
from topologies.spectra.tracking_rate import Order, TrackingScore, tracking_score
from topologies.weights.rules import available_weights, resolve_weights_name, weights_from_name

_SMALL = 1000
_SCORED = 100
_OPTIMISED = "tracking"

app = App(
    name="python -m topologies",
    help="Measure a communication graph and its mixing matrix, for consensus and for gradient tracking.",
)


@app.default
def main(
    graph: str,
    /,
    *,
    weights: str | None = None,
    self_weight: float | None = None,
    agents: Annotated[int | None, Parameter(name=["--agents", "-n"])] = None,
    seed: int = 0,
    curvatures: tuple[float, float] | None = None,
    order: Order | None = None,
    compare: Annotated[bool, Parameter(negative=())] = False,
    plot: Path | None = None,
) -> int:
    """Print the measures of GRAPH.

    Parameters
    ----------
    graph
        For example ring:10, torus:4x5, erdos_renyi:n=20,p=0.3, karate_club, file:my.graphml; or a time-varying sequence, for
        example one_peer_exponential:16, link_failures:p=0.2@ring:10.
    weights
        The rule for the mixing matrix: auto (the default), uniform, metropolis, max-degree, local-degree, best-constant, fmmc,
        fdla, each also as lazy-RULE; or tracking, optimised for gradient tracking.
    self_weight
        The own weight of uniform weights; by default 0.8.
    agents
        Number of agents, where GRAPH leaves it open.
    seed
        For random graphs and sequences.
    curvatures
        Smallest and largest curvature of the agents, evenly spaced over them, for the gradient-tracking score; by default 0.2 and
        1.8.
    order
        The mixing order of gradient tracking: combine-then-adapt, the default, or adapt-then-combine.
    compare
        Print a table over all rules instead.
    plot
        Draw the graph and its spectrum into this file (.png, .pdf, .svg); not with compare, and not a sequence.
    """
    console = Console()
    try:
        if is_sequence_name(graph):
            scored = {"self-weight": self_weight, "curvatures": curvatures, "order": order}
            _refuse({**scored, "compare": compare or None, "plot": plot}, "a sequence of graphs")
            console.print(_sequence_table(graph, agents, seed, weights))
            return 0
        if compare:
            _refuse({"weights": weights, "plot": plot}, "compare, which is about every rule")
        edges = adjacency_from_name(graph, agents, seed)
        if edges.shape[0] > _SCORED:
            _refuse({"curvatures": curvatures, "order": order}, f"more than {_SCORED} agents, which are not scored")
        case = _Case(edges, 0.8 if self_weight is None else self_weight, curvatures or (0.2, 1.8), order or "combine-then-adapt")
        if compare:
            console.print(_comparison(case))
            return 0
        rule, W = case.weights(weights or "auto")
        if not rule.endswith("uniform"):
            _refuse({"self-weight": self_weight}, f"{rule} weights")
        console.print(_measures(case, rule, W))
        if plot is not None:
            _draw(graph_from_name(graph, agents, seed), W, plot)
            console.print(f"drawn into {plot}")
    except (ValueError, TypeError, ImportError, OSError) as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False, soft_wrap=True)
        return 2
    return 0


def _refuse(given: Mapping[str, object], what: str) -> None:
    """Raise unless every given option has an effect with ``what``."""
    if names := [f"--{name}" for name, value in given.items() if value is not None]:
        raise ValueError(f"{names[0]} has no effect with {what}: leave it out")


class _Case(NamedTuple):
    """A graph, and the settings of its weights and its score."""

    edges: Weights
    self_weight: float
    curvatures: tuple[float, float]
    order: Order

    def weights(self, name: str) -> tuple[str, Weights]:
        """The rule that a name stands for, and its mixing matrix."""
        if name != _OPTIMISED:
            return resolve_weights_name(self.edges, name), weights_from_name(self.edges, name, self.self_weight)
        from topologies.weights.tracking_optimal import tracking_weights

        return _OPTIMISED, tracking_weights(self.edges, np.linspace(*self.curvatures, self.edges.shape[0]), self.order).W

    def score(self, W: Weights) -> TrackingScore | None:
        """The score for gradient tracking; None for too many agents."""
        n = W.shape[0]
        return tracking_score(W, np.linspace(*self.curvatures, n), self.order) if n <= _SCORED else None


def _rows(title: str) -> tuple[Table, Callable[[str, object, str], None]]:
    """An empty table of measures, and the function that adds a row."""
    table = Table("measure", "value", "what it says", title=title)
    table.columns[1].justify = "right"

    def row(name: str, value: object, meaning: str) -> None:
        table.add_row(name, f"{value:.9g}" if isinstance(value, float) else str(value), meaning)

    return table, row


def _measures(case: _Case, rule: str, W: Weights) -> Table:
    n = W.shape[0]
    table, row = _rows(f"{n} agents, {rule} weights")
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
        bounds = f"curvatures {case.curvatures[0]:g} to {case.curvatures[1]:g}, {case.order}"
        row("tracking rate", score.rate, f"gradient tracking's error per iteration, best step; {bounds}")
        row("best step", score.step, "the step that attains it")
        row("largest step", score.largest_step, "every step below it converges")
        row("iterations per 1e-6", score.iterations_for(1e-6), "of gradient tracking, to reduce its error a million times")
    return table


def _comparison(case: _Case) -> Table:
    n = case.edges.shape[0]
    table = Table(title=f"{n} agents, curvatures {case.curvatures[0]:g} to {case.curvatures[1]:g}, {case.order}")
    table.add_column("weights", no_wrap=True)
    for heading in ("sigma", "lambda_min", "rounds 1e-6", "rate", "best step", "largest step", "iterations 1e-6"):
        table.add_column(heading, justify="right")
    table.add_column("remark")
    names = [name for name in available_weights() if "auto" not in name]
    for name in [*names, *([_OPTIMISED] if n <= _SCORED else [])]:
        try:
            _, W = case.weights(name)
        except (ValueError, ImportError) as error:
            table.add_row(name, *["-"] * 7, str(error).partition(";")[0].partition(":")[0])
            continue
        found, score = spectrum(W), case.score(W)
        tracked = ["-"] * 4
        if score is not None:
            tracked = [f"{score.rate:.6f}", f"{score.step:.4g}", f"{score.largest_step:.4g}", f"{score.iterations_for(1e-6):.0f}"]
        table.add_row(name, f"{found.sigma:.6f}", f"{found.lambda_min:.6f}", str(found.rounds_for(1e-6)), *tracked)
    return table


def _sequence_table(specification: str, agents: int | None, seed: int, weights: str | None) -> Table:
    sequence = sequence_from_name(specification, agents, seed, weights)
    window = sequence.period or sequence.n
    table, row = _rows(f"{specification}: {sequence.n} agents")
    row("period", sequence.period or "none", "iterations after which the matrices repeat")
    row("distinct matrices", len({sequence.distinct(k) for k in range(window)}), f"in {window} iterations")
    degrees = np.mean([np.diff(sequence.at(k).indptr).mean() - 1 for k in range(window)])
    row("mean degree", f"{degrees:.4g}", "neighbours an agent talks to per iteration")
    for windows, meaning in ((1, "what one window leaves of the consensus error"), (4, "what four windows leave")):
        row(f"contraction over {windows * window}", f"{joint_contraction(sequence, window=windows * window):.6g}", meaning)
    return table


def _draw(graph: Any, W: Weights, path: Path) -> None:
    from matplotlib.figure import Figure

    from topologies.drawing import draw_graph, draw_spectrum

    figure = Figure(figsize=(11, 5.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_graph(graph, W, quantity=W.diagonal(), label="own weight", axes=left)
    draw_spectrum(eigenvalues(W), spectrum(W).sigma, axes=right)
    figure.savefig(path, dpi=150)
