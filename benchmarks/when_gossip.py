"""When gossip wins: exact sums along a tree against gossip, on networks that get worse.

    python benchmarks/when_gossip.py when_gossip.png      # two minutes
    python benchmarks/when_gossip.py --quick              # fewer points, no figure

Twenty sites, to an accuracy of 1e-4: the gradient norm at the projected mean has fallen to this
share of its start, and the sites agree to it. Each panel makes one thing harder. Its lines are
printed, and where gossip takes less than sums. Gossip has the best of a few steps at each place.

- Accuracy: independent components on a 4 x 5 grid that stays. All runs are measured.
- A graph that changes: principal components of 178 wines, on random graphs of degree three, each
  for T rounds. DRFGT is measured. A sum has to find a tree after each change, which takes its depth
  in rounds, and then goes up and down: it needs T of at least three depths.
- Lost messages: the same on the first of these graphs. DeEPCA and DRFGT are measured. A message of
  a sum is sent again until it arrives; the waiting is drawn.
- One slow site: the same, in periods of a fast site. Asynchronous DRFGT is measured. A sum waits
  for the slow site, and for two messages along each edge of the longest path of the tree.

The sums of ``direct`` and ``lbfgs`` are counted by their runs on the graph that stays. On the other
networks the package refuses them, and their waiting is computed as described.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import decentorth as do
import topologies as tp
from benchmarks.sums import table_of
from decentorth.network.tree import Tree, spanning_tree
from decentorth.protocols import Array
from decentorth.stopping import Consensus, GradientNorm

SITES, ACCURACY, MOST = 20, 1e-4, 6000
STEPS = (0.02, 0.05, 0.1)
"""The steps of DRFGT, beside the automatic one; with a penalty of 1."""
LONG = 0.1
"""That of asynchronous DRFGT."""
RIVALS: dict[str, tuple[str, ...]] = {"direct": ("deepca", "drfgt", "asynchronous_drfgt")}
RIVALS["lbfgs"] = RIVALS["direct"][1:]
"""The methods of gossip for the problems of a method by sums; the first that a panel has counts."""
GRAPHS = 64
"""The random graphs, which come again after the last."""
DELAY = 0.5
"""The periods of a fast site that a message takes at most."""
DRAWS = 200
"""The sums whose waiting is drawn."""


class Panel(NamedTuple):
    """A panel of the figure."""

    title: str
    across: str
    up: str
    places: Sequence[float]
    lines: Mapping[str, Sequence[float]]
    """The cost of each method at each place; infinite where it does not arrive."""


def graph(number: int) -> Any:
    """Metropolis weights of a random graph of degree three."""
    return tp.metropolis_weights(nx.random_regular_graph(3, SITES, seed=number))


def wines() -> Any:
    """Three principal components of 178 wines."""
    return do.problems.PCA(np.array_split(table_of("wine"), SITES), 3)


def run(problem: Any, method: Any, W: Any, accuracy: float = ACCURACY, **options: Any) -> Any:
    """A run to an accuracy; its counts are exact to five iterations."""
    share = accuracy * math.sqrt(problem.shape[1])
    rule = GradientNorm(accuracy, relative=True) & Consensus(share)
    given = {"iterations": MOST, "record_every": 5} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # steps that are too long diverge
        return do.solve(problem, method, W, stopping=rule, **given)


def rounds(result: Any) -> float:
    """The rounds of a run; infinite if it did not arrive."""
    return float(result.row.rounds) if result.converged else math.inf


def best_rounds(W: Any, **options: Any) -> float:
    """The fewest rounds of DRFGT on the wines, over its steps."""
    methods = [do.DRFGT(step_size=step, penalty=1.0) for step in STEPS]
    if not isinstance(W, tp.WeightSequence):
        methods.append(do.DRFGT())
    return min(rounds(run(wines(), method, W, **options)) for method in methods)


def best_periods(slow: float) -> float:
    """The fewest periods of asynchronous DRFGT on the wines, over its steps."""
    activations = 1 / slow + SITES - 1  # of all sites in a period
    given: dict[str, Any] = {"delay": DELAY, "slow_agents": 1, "slowness": slow}
    given["activations"] = round(MOST * activations)
    found = []
    for method in (
        do.AsynchronousDRFGT(**given),
        do.AsynchronousDRFGT(**given, step_size=LONG, penalty=1.0),
    ):
        result = run(wines(), method, graph(0), record_every=500)
        found.append(result.row.iteration / activations if result.converged else math.inf)
    return min(found)


def n_sums(tree: Tree) -> dict[str, int]:
    """The sums that ``direct`` and ``lbfgs`` take on the graph that stays."""
    found = {}
    for method in ("direct", "lbfgs"):
        result = run(wines(), method, graph(0), record_every=1)
        found[method] = round(result.row.rounds / (2 * tree.depth))
    return found


def accuracies(quick: bool) -> Panel:
    """Rounds on a grid that stays, for independent components, against the accuracy."""
    places = [1e-1, 1e-2, 1e-4, 1e-6] if quick else [10.0**-power for power in range(1, 9)]
    drawn = do.problems.ICASettings(sources=5).problem(SITES, seed=0)
    problem = do.api.set_up(drawn, "drfgt", "ring").problem
    W = tp.metropolis_weights(nx.convert_node_labels_to_integers(nx.grid_2d_graph(4, 5)))
    lines = {
        method: [rounds(run(problem, method, W, place, record_every=1)) for place in places]
        for method in ("lbfgs", "drfgt")
    }
    return Panel("a grid that stays", "accuracy", "rounds", places, lines)


def changes(quick: bool, tree: Tree) -> Panel:
    """Rounds on graphs that stay for T rounds, against T."""
    places = (1, 14, 20) if quick else (1, 2, 4, 8, 14, 20, 30, 60)
    lines: dict[str, list[float]] = {
        method: [between_changes(count, stay, tree.depth) for stay in places]
        for method, count in n_sums(tree).items()
    }
    lines["drfgt"] = []
    for stay in places:
        repeated = [graph(number) for number in range(GRAPHS) for _ in range(stay)]
        lines["drfgt"].append(best_rounds(tp.PeriodicSequence(repeated)))
    return Panel("a graph that changes", "rounds that a graph stays", "rounds", places, lines)


def between_changes(count: int, stay: int, depth: int) -> float:
    """The rounds of sums that fit between two changes, each after a search for a tree."""
    fitting = (stay - depth) // (2 * depth)
    if fitting < 1:
        return math.inf
    whole = (count - 1) // fitting
    return stay * whole + depth + 2 * depth * (count - fitting * whole)


def losses(quick: bool, tree: Tree) -> Panel:
    """Rounds with lost messages, against the share that is lost."""
    places = (0.0, 0.5) if quick else (0.0, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8)
    lines: dict[str, list[float]] = {
        method: [count * waiting(tree, place) for place in places]
        for method, count in n_sums(tree).items()
    }
    lossy = [f"loss:p={place}" for place in places]
    lines["deepca"] = [rounds(run(wines(), "deepca", graph(0), channel=one)) for one in lossy]
    lines["drfgt"] = [best_rounds(graph(0), channel=one) for one in lossy]
    return Panel("lost messages", "share of messages that are lost", "rounds", places, lines)


def waiting(tree: Tree, loss: float) -> float:
    """The mean rounds of a sum each of whose messages is sent until it arrives."""
    rng = np.random.default_rng(0)
    shape = DRAWS, len(tree.order)
    up, down = rng.geometric(1.0 - loss, size=(2, *shape))
    ready: Array = np.zeros(shape)
    for child in tree.order[:0:-1]:
        parent = tree.parents[child]
        ready[:, parent] = np.maximum(ready[:, parent], ready[:, child] + up[:, child])
    got: Array = np.zeros(shape)
    root = tree.order[0]
    got[:, root] = ready[:, root]
    for child in tree.order[1:]:
        got[:, child] = got[:, tree.parents[child]] + down[:, child]
    return float(got.max(axis=1).mean())


def slowness(quick: bool, tree: Tree) -> Panel:
    """Periods of a fast site with one slow site, against the slow site's period."""
    places = (1, 10) if quick else (1, 3, 10, 30)
    path = 2 * tree.depth * DELAY
    lines: dict[str, list[float]] = {
        method: [count * (place + path) for place in places]
        for method, count in n_sums(tree).items()
    }
    lines["asynchronous_drfgt"] = [best_periods(place) for place in places]
    return Panel("one slow site", "period of the slow site", "periods", places, lines)


def crossing(panel: Panel, sums: str) -> str:
    """Where gossip takes less than a method by sums, in words."""
    gossip = next(name for name in RIVALS[sums] if name in panel.lines)
    costs = zip(panel.places, panel.lines[gossip], panel.lines[sums], strict=True)
    ahead = [f"{place:g}" for place, own, other in costs if own < other]
    return f"{gossip} is ahead of {sums} at: {', '.join(ahead) or 'none'}"


def printed(panel: Panel) -> str:
    """The lines of a panel as a table, and its crossings."""
    lines = [f"{panel.title}: {panel.up} against {panel.across}"]
    lines.append(" ".join([f"{'':20s}", *(f"{place:>8g}" for place in panel.places)]))
    for name, costs in panel.lines.items():
        words = [f"{cost:8.0f}" if math.isfinite(cost) else f"{'-':>8s}" for cost in costs]
        lines.append(" ".join([f"{name:20s}", *words]))
    lines += [crossing(panel, name) for name in RIVALS if name in panel.lines]
    return "\n".join(lines) + "\n"


def draw(panels: Sequence[Panel], path: str) -> None:
    """Draw a panel for each network, with sums in one colour and gossip in another."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.style.use("decentorth.paper")
    looks = {
        "direct": {"color": "#004488", "linestyle": "--", "marker": "s"},
        "lbfgs": {"color": "#004488", "linestyle": "-", "marker": "o"},
        "deepca": {"color": "#bb5566", "linestyle": "--", "marker": "D"},
        "drfgt": {"color": "#bb5566", "linestyle": "-", "marker": "^"},
        "asynchronous_drfgt": {"color": "#bb5566", "linestyle": ":", "marker": "v"},
    }
    names = {
        "direct": "direct: one sum",
        "lbfgs": "L-BFGS by sums",
        "deepca": "DeEPCA",
        "drfgt": "DRFGT",
        "asynchronous_drfgt": "asynchronous DRFGT",
    }
    figure, axes = plt.subplots(2, 2, figsize=(7.0, 4.6))
    handles: dict[str, Any] = {}
    for axis, panel in zip(axes.flat, panels, strict=True):
        for name, costs in panel.lines.items():
            shown = np.where(np.isfinite(costs), costs, np.nan)
            (handles[names[name]],) = axis.plot(panel.places, shown, **looks[name])
        axis.set(title=panel.title, xlabel=panel.across, ylabel=panel.up)
        if panel.places[0] > panel.places[-1]:
            axis.set(xscale="log", ylim=(0.0, None))
            axis.invert_xaxis()
        else:
            axis.set(yscale="log", ylim=(5.0, 1.5e4))
        if panel.places[0] == 1:
            axis.set_xscale("log")
            axis.set_xticks(panel.places, [f"{place:g}" for place in panel.places])
        axis.minorticks_off()
        left_out = [
            p
            for p, cost in zip(panel.places, panel.lines["lbfgs"], strict=True)
            if cost == math.inf
        ]
        if left_out:
            axis.axvspan(left_out[0], left_out[-1], color="#eeeeee", zorder=0)
            axis.text(left_out[0], 30.0, " no sum fits")
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=5)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("figure", nargs="?", help="the file of the figure")
    parser.add_argument("--quick", action="store_true", help="fewer points")
    given = parser.parse_args()
    tree = spanning_tree(tp.canonical_weights(graph(0)))
    print(f"{SITES} sites; the tree of the random graph has depth {tree.depth}\n", flush=True)
    panels = [accuracies(given.quick)]
    print(printed(panels[-1]), flush=True)
    for make in (changes, losses, slowness):
        panels.append(make(given.quick, tree))
        print(printed(panels[-1]), flush=True)
    if given.figure:
        draw(panels, given.figure)


if __name__ == "__main__":
    main()
