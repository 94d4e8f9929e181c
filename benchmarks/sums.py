"""Rounds, messages and bytes to a tolerance: methods that add exactly along a tree, and methods of
gossip.

    python benchmarks/sums.py
    python benchmarks/sums.py --cells pca-wine,gevp --graphs ring10 --methods lbfgs,direct,deepca
    python benchmarks/sums.py --all
    python benchmarks/sums.py --ratios --graphs complete10,er10,ring10,grid50,ring50
    python benchmarks/sums.py --secure

A cell is a problem on a graph, with the default start and Metropolis weights. A run has arrived
where the Riemannian gradient norm at the projected mean has fallen by the tolerance and the agents'
deviation from it, over the root of the number of columns, is below the tolerance. For a method by
sums the last column is its rounds over those of the same method on sums written naively: the same
set-up, one sum for every point or product that the method asks for, and none for rows.

With ``--ratios`` a row has what ``auto`` takes in a cell, the fewest rounds, messages and megabytes
of the methods of gossip, each with its method, and the ratios; the last line has the largest ratio.

With ``--secure`` the table has the processor time of whole runs by clear and by secure sums, all
agents in one process and in turn, so that the ratio does not depend on the machine's load.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import networkx as nx
import numpy as np
from rich.console import Console
from rich.table import Table

import decentorth as do
import topologies as tp
from decentorth.api import set_up
from decentorth.network import Network
from decentorth.problems import Spread
from decentorth.stopping import Consensus, GradientNorm

SUMS = ("direct", "block_krylov", "lbfgs", "conjugate_gradients")
GOSSIP = (
    *("drfgt", "destiny", "rfextra", "rextra", "drgta", "dprgt", "drcgd:tracked=true"),
    *("rmtracking", "ddrs", "deepca", "cdadt", "generalized_drfgt"),
)
QUICK = ("rfextra", "deepca", "drfgt", "cdadt")
"""The gossip methods that are run without ``--all``: the best of the catalogue, and the default."""
MOST = 4000
"""The iterations after which a run is given up, without ``--all``."""


def table_of(name: str) -> np.ndarray[Any, Any]:
    """The standardised columns of one of scikit-learn's tables."""
    from sklearn import datasets

    rows = getattr(datasets, f"load_{name}")().data
    rows = rows[:, rows.std(axis=0) > 0.0]
    found: np.ndarray[Any, Any] = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    return found


def pca(name: str, rank: int) -> Callable[[int], Any]:
    return lambda n: do.problems.PCA(np.array_split(table_of(name), n), rank)


def drawn(name: str, **settings: Any) -> Callable[[int], Any]:
    return lambda n: getattr(do.problems, f"{name}Settings")(**settings).problem(n, seed=0)


CELLS: dict[str, Callable[[int], Any]] = {
    "pca-wine": pca("wine", 3),
    "pca-cancer": pca("breast_cancer", 5),
    "pca-digits": pca("digits", 5),
    "pca-diabetes": pca("diabetes", 3),
    "procrustes": drawn("Procrustes"),
    "ica": drawn("ICA"),
    "completion": drawn("MatrixCompletion", dimension=40, rank=3, columns=40),
    "gevp": drawn("GEVP", dimension=50, rank=4),
    "cca": drawn("CCA", rank=2),
    "lda": drawn("LDA", rank=2),
}
GRAPHS: dict[str, Callable[[], nx.Graph[int]]] = {
    "ring10": lambda: tp.ring(10),
    "er10": lambda: tp.erdos_renyi(10, 0.4, seed=3),
    "complete10": lambda: tp.complete(10),
    "grid50": lambda: nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 10)),
    "ring50": lambda: tp.ring(50),
}


class Asked:
    """A problem of one agent that counts what a method asks of it: distinct points, products."""

    def __init__(self, problem: Any) -> None:
        self._problem, self.sums = problem, 0
        self._last: list[bytes] = []
        for name in ("hessian_product", "product"):
            if hasattr(problem, name):
                setattr(self, name, self._counted(getattr(problem, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._problem, name)

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*given: Any) -> Any:
            self.sums += 1
            return function(*given)

        return called

    def _at(self, x: Any) -> None:
        if x.tobytes() not in self._last:
            self.sums += 1
            self._last = [x.tobytes(), *self._last[:1]]

    def value(self, x: Any) -> Any:
        self._at(x)
        return self._problem.value(x)

    def gradient(self, x: Any) -> Any:
        self._at(x)
        return self._problem.gradient(x)


def naive_sums(problem: Any, method: str, iterations: int) -> int:
    """The sums of a method's first iterations on the mean objective, without rows."""
    run = set_up(Spread(problem), method, seed=0)
    asked, parts = Asked(run.problem), run.parts
    state = parts.algorithm.init(asked, parts.network, parts.streams, parts.x0)
    for _ in range(iterations):
        state = parts.algorithm.step(asked, parts.network, parts.streams, state)
    return asked.sums


def arriving(problem: Any, W: Any, method: str, tolerance: float, most: int) -> Any:
    """The result of a run to the tolerance, in at most ``most`` iterations."""
    columns = np.sqrt(problem.shape[1]) if hasattr(problem, "shape") else 1.0
    rule = GradientNorm(tolerance, relative=True) & Consensus(tolerance * columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return do.solve(problem, method, W, iterations=most, stopping=rule, record_every=1)


def row(problem: Any, W: Any, method: str, tolerance: float, most: int) -> list[str]:
    """Iterations, rounds, messages and megabytes to the tolerance; a reason where there are
    none."""
    try:
        result = arriving(problem, W, method, tolerance, most)
    except (TypeError, ValueError) as error:
        return ["does not fit", "", "", "", str(error).partition(":")[0][:40]]
    if not result.converged:
        norm = result.row.values.get("gradient_norm", np.nan)
        share = norm / result.history["gradient_norm"][0]
        return [f"{result.status}, {share:.0e}", "", "", "", ""]
    ratio = ""
    last = result.row
    if method in SUMS and last.rounds > set_up(problem, method, W).network.rounds:
        network = Network(W, "serial")
        network.total(np.zeros((network.n_local, 1)))
        naive = naive_sums(problem, method, last.iteration) * network.rounds
        naive += set_up(problem, method, W).network.rounds
        ratio = f"{last.rounds / naive:.2f}"
    counts = [f"{last.iteration}", f"{last.rounds}", f"{last.messages}", f"{last.bytes / 1e6:.3g}"]
    return [*counts, ratio]


def ratios(
    problem: Any, W: Any, methods: Sequence[str], tolerance: float, most: int
) -> tuple[list[str], float]:
    """The cells of auto and of the best method of gossip for each count, and their largest
    ratio."""
    own = arriving(problem, W, "auto", tolerance, most)
    others = {}
    for method in methods:
        with suppress(TypeError, ValueError):  # it does not fit the problem
            result = arriving(problem, W, method, tolerance, most)
            if result.converged:
                others[method] = result.row
    cells = [type(own.algorithm).__name__]
    found = []
    for count, unit in (("rounds", 1), ("messages", 1), ("bytes", 1e6)):
        taken = getattr(own.row, count)
        words = f"{taken / unit:.3g}" if unit > 1 else f"{taken}"
        if others:
            best = min(others, key=lambda name: getattr(others[name], count))
            least = getattr(others[best], count)
            found.append(taken / least)
            words += f" / {least / unit:.3g} {best}" if unit > 1 else f" / {least} {best}"
        cells.append(words)
    return [*cells, " ".join(f"{one:.2g}" for one in found) or "none arrives"], max(
        found, default=0.0
    )


def timed(problem: Any, W: Any, method: str, secure: bool) -> tuple[float, Any]:
    """The processor seconds of a run of at most 100 iterations, and its result."""
    rule = GradientNorm(1e-9, relative=True)
    begun = time.process_time()
    result = do.solve(problem, method, W, secure=secure, iterations=100, stopping=rule)
    return time.process_time() - begun, result


def secure_row(problem: Any, W: Any, method: str, repeats: int = 7) -> list[str]:
    """Milliseconds by clear and by secure sums, the ratio of the medians, megabytes, and the
    largest difference of the points."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            timed(problem, W, method, True)
        except (TypeError, ValueError) as error:
            return ["does not fit", "", "", "", str(error).partition(":")[0][:40]]
        pairs = [[timed(problem, W, method, one) for one in (False, True)] for _ in range(repeats)]
    clear, secure = (float(np.median([pair[k][0] for pair in pairs])) for k in (0, 1))
    first, last = (pairs[0][k][1] for k in (0, 1))
    sizes = [f"{one.row.bytes / 1e6:.3g}" for one in (first, last)]
    gap = np.abs(first.x - last.x).max() / np.abs(first.x).max()
    times = [f"{1e3 * clear:.1f}", f"{1e3 * secure:.1f}", f"{secure / clear:.2f}"]
    return [*times, " / ".join(sizes), f"{gap:.0e}"]


def print_ratios(given: argparse.Namespace, most: int, console: Console) -> None:
    """Print a table of auto and gossip for each graph, and the largest ratio."""
    largest = 0.0
    rivals = GOSSIP if given.all else QUICK
    for name in given.graphs.split(","):
        graph = GRAPHS[name]()
        W = tp.metropolis_weights(graph)
        table = Table(title=f"{name}, to {given.tolerance:g}", title_justify="left")
        for head in ("cell", "auto", "rounds", "messages", "MB", "ratios"):
            table.add_column(head)
        for cell in given.cells.split(","):
            cells, ratio = ratios(CELLS[cell](len(graph)), W, rivals, given.tolerance, most)
            table.add_row(cell, *cells)
            largest = max(largest, ratio)
        console.print(table)
    console.print(f"largest ratio {largest:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", default=",".join(CELLS))
    parser.add_argument("--graphs", default="ring10")
    parser.add_argument("--methods", default=",".join(("auto", *SUMS, *QUICK)))
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--all", action="store_true", help="all methods, to 12,000 iterations")
    parser.add_argument("--ratios", action="store_true", help="auto over the best of gossip")
    parser.add_argument("--secure", action="store_true", help="clear and secure sums in turn")
    given = parser.parse_args()
    methods = ("auto", *SUMS, *GOSSIP) if given.all else given.methods.split(",")
    if given.secure:
        methods = (*SUMS, "rgd:step_size=1e-3,batch_size=20")
    most = 12_000 if given.all else MOST
    console = Console(width=110)
    if given.ratios:
        print_ratios(given, most, console)
        return
    for name in given.graphs.split(","):
        graph = GRAPHS[name]()
        W = tp.metropolis_weights(graph)
        for cell in given.cells.split(","):
            title = f"{cell} on {name}, to {given.tolerance:g}"
            heads = ("method", "iterations", "rounds", "messages", "MB", "over naive sums")
            if given.secure:
                title = f"{cell} on {name}"
                heads = ("method", "clear ms", "secure ms", "ratio", "MB", "difference")
            table = Table(title=title, title_justify="left")
            for head in heads:
                table.add_column(head, justify="left" if head == "method" else "right")
            problem = CELLS[cell](len(graph))
            for method in methods:
                if given.secure:
                    table.add_row(method, *secure_row(problem, W, method))
                else:
                    table.add_row(method, *row(problem, W, method, given.tolerance, most))
            console.print(table)


if __name__ == "__main__":
    main()
