"""
Paper 001: the structural probe
===============================

The hyperbolic structural probe: table 5 and figures 2, 7 and 8 of paper 001,
from the same start. ::

    # 100 points, n = 20, a second for each method: a minute in all
    python examples/j_orthogonal/hspp.py hspp.png
    # 1000 points, n = 50, 30 seconds each: twenty minutes
    python examples/j_orthogonal/hspp.py hspp.png --full
    python examples/j_orthogonal/hspp.py hspp.png --points 300 \\
        --dimension 30 --seconds 5 --kinds tree
    # randn5000: 5000 points, n = 100, p = 50, 75, 85; half an hour
    python examples/j_orthogonal/hspp.py table5.png --table5
    # T_ij the squared Euclidean distances, from a random start
    python examples/j_orthogonal/hspp.py --kinds squared --start random
    # a row of table 5: distances and squared distances of a file's rows
    python examples/j_orthogonal/hspp.py w1a.png --data w1a \\
        --draw-columns 100 --positive 50 --seconds 30

First the form that paper 001 prints: its objective does not change, whatever
the J-orthogonal x. Then three kinds of distances: those of a tree, Euclidean
ones of Gaussian points, and planted ones, whose least value is 0. The kind
squared has squared distances T_ij: objectives of Euclidean distances are too
small for the differences that table 5 prints. Shown are the
least objectives at points with feasibility below 1e-6 after a tenth, three
tenths and all of the time, and the time and gradients (VR-J-JOBCD: in gradients
of all pairs) to shares of the start's objective; drawn are the objectives
against gradients and against time. Times are of the processor, one thread.

Exact slopes are infinite at distance 0, so distances are smoothed; --smoothing
0 leaves them as they are. VR-J-JOBCD has a constant varsigma, UMCM second
derivatives by differences of gradients (two more, not counted). There are local
minima: try other seeds.

All numbers: ``docs/papers/001.md``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from experiment import (
    Then,
    add_drawing,
    add_start,
    drawn,
    followed,
    loaded,
    mapped,
    states_of,
)

import decentorth as do
from decentorth.figures import (
    legend_below,
    logarithmic,
    look,
    panels,
    publish,
    style,
)
from decentorth.problems import HSPPSettings

CSDM = do.CSDM(step_size=5e-3)
METHODS = {
    "UMCM, published": do.UMCM(optimizer="adagrad", penalty=1e3),
    "UMCM": do.UMCM(),
    "ADMM, published": do.JADMM(schedule="published"),
    "ADMM": do.JADMM(),
    "CSDM, published": CSDM,
    "CSDM": do.CSDM(),
    "RGD, Barzilai-Borwein": do.RGD(step_size="bb"),
    "GS-JOBCD": do.GSJOBCD(),
    "J-JOBCD": do.JJOBCD(),
    "VR-J-JOBCD": do.VRJJOBCD(varsigma=100.0),
    "CSDM, published, then J-JOBCD": Then(
        first=CSDM, second=do.JJOBCD(), iterations=30
    ),
}
PUBLISHED = {"points": 5000, "dimension": 100, "seconds": 30.0}
KINDS = {
    "tree": {},
    "gaussian": {"data": "gaussian"},
    "planted": {"data": "gaussian", "distances": "planted"},
    "squared": {"data": "gaussian", "distances": "squared"},
}
THREE = ("tree", "gaussian", "planted")
OF_A_FILE = {"distances": {}, "squared distances": {"distances": "squared"}}
SHARES = (0.95, 0.85, 0.75, 0.01)
"""Of the objective at the start, to which time is counted."""
TIMES = (0.1, 0.3, 1.0)
"""Of the time that a method has."""


def printed_form(problem: Any, seeds: int) -> float:
    """How far (1/m^2) sum (T_ij - d(q_i, q_j))^2 with q_i = x^T phi(d_i) is
    from its value at x = I, at random x.
    """
    q = problem.manifold.points(problem.rows)
    signs = problem.constraint.signs

    def value(points: np.ndarray) -> float:
        sizes = problem.manifold.sizes(points)
        u, _ = problem.manifold.cosines(
            points * signs @ points.T, sizes[:, None] * sizes
        )
        return float(
            np.mean((problem.wanted[0] - problem.manifold.distances(u)) ** 2)
        )

    at_identity = value(q)
    return max(
        abs(value(q @ problem.start(seed)) / at_identity - 1.0)
        for seed in range(seeds)
    )


def difference(
    gradient: Callable[[np.ndarray], np.ndarray], x: np.ndarray, v: np.ndarray
) -> np.ndarray:
    """The derivative of a gradient at x along v, by a central difference."""
    step = (
        1e-5
        * np.linalg.norm(x)
        / max(np.linalg.norm(v), np.finfo(np.float64).tiny)
    )
    return (gradient(x + step * v) - gradient(x - step * v)) / (2.0 * step)


def probe(settings: HSPPSettings, seed: int) -> Any:
    """The problem, with second derivatives by differences."""
    problem = loaded(settings.problem(1, seed), CSDM)
    problem.hessian_product = partial(difference, problem.gradient)
    return problem


def follow(task: tuple[HSPPSettings, str, Any]) -> Any:
    """What a method reaches on one kind of distances."""
    settings, name, options = task
    return followed(probe(settings, options.seed), METHODS[name], options)


def cells(rows: Any, start: float, seconds: float) -> list[str]:
    """The least objectives in shares of the time, and the time and gradients to
    shares of the objective at the start.
    """
    found = []
    for share in TIMES:
        values = [
            row.value
            for row in rows
            if row.seconds <= share * seconds or share == 1.0
        ]
        found.append(f"{min([start, *values]):.4g}")
    for share in SHARES:
        first = next((row for row in rows if row.value <= share * start), None)
        found.append("-")
        if first is not None:
            found[-1] = f"{first.seconds:.2g} s, {first.gradients:.0f}"
    return found


def table(
    kind: str,
    settings: HSPPSettings,
    options: Any,
    columns: Any,
    found: Iterator[Any],
) -> None:
    """Print and draw what every method reaches on one kind of distances,
    against gradients and against time.
    """
    seconds = options.seconds
    seed = options.seed
    problem = probe(settings, seed)
    first = next(states_of(problem, CSDM, seed, options.start))
    start = float(problem.value(first.x)[0])
    names = [f"{seconds * share:g} s" for share in TIMES]
    names += [f"to {share:.0%}" for share in SHARES]
    print(f"{kind}: {start:.4g} at the start")
    print(f"{'method':30s}" + "".join(f"{name:>16s}" for name in names))
    by_gradients, by_seconds = columns
    for place, name in enumerate(METHODS):
        rows, ending = next(found)
        line = "".join(f"{one:>16s}" for one in cells(rows, start, seconds))
        print(f"{name:30s}{line}  {ending}".rstrip(), flush=True)
        looks: Any = {**look(place), "linewidth": 1.0}
        values = [row.value for row in rows[1:]]
        gradients = [row.gradients for row in rows[1:]]
        by_gradients.loglog(gradients, values, label=name, **looks)
        spent = [row.seconds for row in rows[1:]]
        by_seconds.loglog(spent, values, label=name, **looks)
    logarithmic(by_gradients, "gradients", "objective")
    logarithmic(by_seconds, "processor seconds", "objective")
    for panel in columns:
        panel.set_title(kind.replace(", ", "\n"))
        low, high = panel.get_ylim()
        if high < 10.0 * low:
            panel.set_yscale("linear")


def add_file(parser: argparse.ArgumentParser) -> None:
    """Add the flags of a file of points to a command line."""
    parser.add_argument(
        "--data", help="a file with a point a row, in place of the kinds"
    )
    add_drawing(parser)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=str(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", nargs="?", default="hspp.png")
    parser.add_argument(
        "--full",
        action="store_true",
        help="1000 points, dimension 50, 30 seconds for each method",
    )
    parser.add_argument(
        "--table5",
        action="store_true",
        help="5000 Gaussian points, dimension 100, 30 seconds: table 5's "
        "randn5000",
    )
    parser.add_argument(
        "--positive",
        type=int,
        nargs="+",
        default=[None],
        help="signs +1 of J, by default half; several in turn",
    )
    for name, default in (("points", 100), ("dimension", 20), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument(
        "--iterations",
        type=int,
        help="the most for each method, by default any number",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="methods run at the same time, each in a process of one thread",
    )
    for name, number in (("seconds", 1.0), ("smoothing", 0.5)):
        parser.add_argument(f"--{name}", type=float, default=number)
    add_start(parser)
    parser.add_argument(
        "--kinds", nargs="+", choices=list(KINDS), default=list(THREE)
    )
    add_file(parser)
    return parser.parse_args()


def settings_of(given: argparse.Namespace, **more: Any) -> HSPPSettings:
    """The settings of the sizes that are given, and more."""
    return HSPPSettings(
        points=given.points,
        dimension=given.dimension,
        smoothing=given.smoothing,
        **more,
    )


def published_sizes(given: argparse.Namespace) -> None:
    """Set the sizes and times that --full and --table5 stand for."""
    if given.full:
        given.points = 1000
        given.dimension = 50
        given.seconds = 30.0
    if given.table5:
        given.kinds = ["gaussian"]
        given.positive = [50, 75, 85]
        for name, value in PUBLISHED.items():
            setattr(given, name, value)


def data_sets(given: argparse.Namespace) -> dict[str, HSPPSettings]:
    """The settings of each kind of distances and number of signs, by name."""
    kinds = {kind: KINDS[kind] for kind in given.kinds}
    if given.data:
        own = {"data": given.data, **drawn(given)}
        kinds = {kind: {**own, **more} for kind, more in OF_A_FILE.items()}
    every = {}
    for kind, more in kinds.items():
        for positive in given.positive:
            words = kind if positive is None else f"{kind}, p = {positive}"
            every[words] = settings_of(given, **more, positive=positive)
    return every


@style()
def main() -> None:
    given = arguments()
    published_sizes(given)
    every = data_sets(given)
    problem = loaded(next(iter(every.values())).problem(1, 0), do.JJOBCD())
    if not given.data:
        print(
            f"printed form: changes by {printed_form(problem, 5):.0e} of "
            f"itself at five random x"
        )
    number = len(every)
    width = max(3.5, min(7.16, 2.4 * number))
    figure, axes = panels(2, number, (width, 5.4))
    found = mapped(
        follow,
        [
            (settings, name, given)
            for settings in every.values()
            for name in METHODS
        ],
        given.jobs,
    )
    columns = zip(*axes, strict=True)
    for (words, settings), own in zip(every.items(), columns, strict=True):
        table(words, settings, given, own, found)
    m, n = problem.rows.shape
    legend_below(figure, axes[0], 3 if number > 1 else 2)
    publish(
        figure,
        given.figure,
        f"""The hyperbolic structural probe with q_i = phi(x^T d_i): m =
        {m}, n = {n}, smoothing {given.smoothing:g},
        {given.seconds:g} processor seconds for each method, {given.start}
        start, seed {given.seed}, one data set of a kind, no band. Made by
        examples/j_orthogonal/hspp.py.""",
    )


if __name__ == "__main__":
    main()
