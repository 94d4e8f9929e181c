"""
Paper 001: UltraE with another score and loss
=============================================

J-JOBCD, VR-J-JOBCD and CSDM on UltraE with the signed score and softmax, which
are not paper 001's, over seeds. ::

    # two seeds, 6 epochs: half a minute
    python examples/j_orthogonal/signed.py signed.png
    # ten seeds, 12 epochs: some minutes
    python examples/j_orthogonal/signed.py signed.png --full

Two sizes of graphs, those of the paper's batches of FB15k and WN18RR, planted
by a hyperbolic model, with relations in pairs of inverse ones; a graph and a
start for each seed, and as many triples as test triples for validation. The
score is the signed one and the loss the softmax over all entities, which go
beyond the paper. All methods draw the same mini-batches of 72 triples, each of
which makes one step: entities and biases by Adam along the mini-batch's
gradient, relations ::

    J-JOBCD       by 5 rounds of pairs of rows along the mini-batch's gradient
    VR-J-JOBCD    by the same along the estimate (9), b = N, b' = 72 samples
                  drawn for it, p' = b' / (N + b')
    CSDM          by Adagrad on the hyperbolic CS decomposition, along the
                  mini-batch's gradient

at the best of the steps that were tried, or all of them (--tried). They are
Adagrad's rate for CSDM, of which 0.005 is the largest published and the best on
seed 0, too, and for the others the size of a typical rotation, which gives
varsigma as L lambda_max of the pair, L = rms of the skew slopes, averaged over
the steps so far, over twice that size. An epoch is N gradients of single
triples, all counted: for VR-J-JOBCD the mini-batches', both in each difference
and those of restarts, so that it makes about a quarter of the steps of the
others. Seconds are of the processor, without ranking.

The table has medians over the seeds of MRR, filtered, of heads and tails;
"chosen" is the test MRR at the mark with the best MRR of the validation
triples, which also choose the step of each method that is drawn. Beside the
figure a .csv has all medians.

All numbers: ``docs/papers/001.md``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import csv
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from decentorth import CSDM, JJOBCD
from decentorth.authoring import CounterStreams
from decentorth.data import hold_out, planted_triples
from decentorth.figures import band, legend_below, panels, publish, style
from decentorth.problems import KnowledgeGraph, UltraE, rank_measures
from decentorth.sets import JOrthogonal

SIZES = {"as FB15k": (719, 308, 135, 22), "as WN18RR": (545, 233, 208, 5)}
"""Training triples, test triples, entities and relations of the paper's
batches.
"""
BEST = {"J-JOBCD": (0.005,), "VR-J-JOBCD": (0.005,), "CSDM": (0.005,)}
TRIED = {
    "J-JOBCD": (0.005, 0.02),
    "VR-J-JOBCD": (0.005, 0.02, 0.1),
    "CSDM": (0.005, 0.02, 0.05, 0.2),
}
PUBLISHED = ("CSDM", 0.005)
DIMENSION = 36
BATCH = 72
RATE = 0.02
ROUNDS = 5
MARKS = (0, 1, 2, 4, 8, 12, 16, 24)
"""The epochs after which loss and ranks are computed."""


class Row(NamedTuple):
    """The state of a run at a mark: gradients of all triples so far, seconds,
    loss, and MRR of validation and test triples.
    """

    epochs: float
    seconds: float
    loss: float
    valid: float
    test: float


def graph_of(size: tuple[int, int, int, int], seed: int) -> KnowledgeGraph:
    """A planted graph whose relations 2i and 2i + 1 are each other's inverses;
    the last of an odd number is its own.
    """
    train, test, entities, relations = size
    rng = np.random.default_rng(seed)
    total = train + 2 * test
    h, r, t = planted_triples(
        rng, JOrthogonal(2, 1), entities, -(-relations // 2), total // 2
    ).T
    mirror = np.stack((t, np.minimum(2 * r + 1, relations - 1), h), axis=1)
    both = np.stack((np.stack((h, 2 * r, t), axis=1), mirror), axis=1).reshape(
        -1, 3
    )
    drawn = both[np.sort(np.unique(both, axis=0, return_index=True)[1])][:total]
    others, tested = hold_out(drawn, test / total, entities, relations, rng)
    trained, valid = hold_out(
        others, test / len(others), entities, relations, rng
    )
    return KnowledgeGraph(trained, valid, tested, entities, relations)


def problem_of(size: tuple[int, int, int, int], seed: int) -> UltraE:
    """UltraE with the signed score and softmax on a planted graph."""
    return UltraE(
        graph_of(size, seed),
        JOrthogonal(DIMENSION // 2, DIMENSION // 2).signs,
        score="signed",
        loss="softmax",
    )


def path(
    problem: UltraE, name: str, step: float, marks: list[int], seed: int
) -> list[Row]:
    """The rows of a method, one for each mark."""
    mover = (Turns if name == "CSDM" else Pairs)(problem, name, step, seed)
    total = len(problem.graph.train)
    rng = np.random.default_rng(seed)
    rows = list[Row]()
    seconds = 0.0
    order = np.empty(0, dtype=np.int64)
    while True:
        if mover.samples >= marks[len(rows)] * total:
            x = mover.state.x
            mrr = [
                rank_measures(problem.ranks(x[0], part).reshape(-1))[0]
                for part in (problem.graph.valid, problem.graph.test)
            ]
            rows.append(
                Row(
                    mover.samples / total,
                    seconds,
                    float(problem.value(x)[0]),
                    *mrr,
                )
            )
            if len(rows) == len(marks):
                return rows
        if len(order) < BATCH:
            order = rng.permutation(total)
        batch = order[None, :BATCH]
        order = order[BATCH:]
        begun = time.process_time()
        mover.move(problem.gradient_on(mover.state.x, batch))
        mover.samples += BATCH
        seconds += time.process_time() - begun


def along(problem: UltraE, gradient: Any) -> Any:
    """What a method sees of the problem: the set, and this gradient."""
    return SimpleNamespace(
        constraint=problem.constraint, gradient=lambda x: gradient
    )


class Turns:
    """Relations by CSDM."""

    def __init__(
        self, problem: UltraE, name: str, step: float, seed: int
    ) -> None:
        self.problem = problem
        self.method = CSDM(step_size=step, learning_rate=RATE)
        self.samples = 0
        self.state: Any = self.method.init(
            problem, None, None, problem.start(seed)[None]
        )

    def move(self, gradient: Any) -> None:
        """Move relations, entities and biases along a mini-batch's gradient."""
        seen = along(self.problem, gradient)
        self.state = self.method.step(seen, None, None, self.state)


class Pairs:
    """Relations by pairs of rows: J-JOBCD, or VR-J-JOBCD."""

    method = JJOBCD(varsigma="pair", rounds=ROUNDS, learning_rate=RATE)

    def __init__(
        self, problem: UltraE, name: str, step: float, seed: int
    ) -> None:
        self.problem = problem
        self.reduced = name == "VR-J-JOBCD"
        self.step = step
        self.rms = 0.0
        self.samples = 0
        self.streams = CounterStreams(seed, slice(0, 1))
        self.rng = np.random.default_rng([seed, 1])
        x = problem.start(seed)[None]
        first = JJOBCD(varsigma=1.0)
        self.state: Any = first.init(problem, None, self.streams, x)
        self.estimate = self._afresh(x) if self.reduced else x

    def _afresh(self, x: Any) -> Any:
        self.samples += len(self.problem.graph.train)
        return self.problem.gradient(x)

    def move(self, gradient: Any) -> None:
        """Move relations along the estimate or the gradient, entities and
        biases along a mini-batch's gradient.
        """
        constraint = self.problem.constraint
        bound = constraint.copies * len(constraint.each.signs)
        before = self.state.x.copy()
        both = gradient.copy()
        if self.reduced:
            both[:, :bound] = self.estimate[:, :bound]
        state = self.state._replace(varsigma=self._varsigma(both))
        seen = along(self.problem, both)
        self.state = self.method.step(seen, None, self.streams, state)
        if self.reduced:
            self._estimate_again(before)

    def _varsigma(self, gradient: Any) -> Any:
        """L for which a typical rotation has the size of the step."""
        slopes, relations = (
            self.problem.unpack(part)["relations"][0]
            for part in (gradient, self.state.x)
        )
        signs = self.problem.constraint.each.signs
        w = slopes @ relations.swapaxes(-1, -2) * signs
        self.rms += float(np.sqrt(np.mean((w - w.swapaxes(-1, -2)) ** 2)))
        return np.full(1, self.rms / (self.state.k + 1) / (2.0 * self.step))

    def _estimate_again(self, before: Any) -> None:
        """The estimate (9) at the point after a step."""
        problem = self.problem
        total = len(problem.graph.train)
        if self.rng.random() < BATCH / (total + BATCH):
            self.estimate = self._afresh(self.state.x)
            return
        batch = self.rng.integers(total, size=(1, BATCH))
        self.estimate = (
            self.estimate
            + problem.gradient_on(self.state.x, batch)
            - problem.gradient_on(before, batch)
        )
        self.samples += 2 * BATCH


def chosen(rows: Any, part: int = Row._fields.index("test")) -> Any:
    """``(seeds,)``: a part of the rows ``(seeds, marks, parts)`` at the mark
    with the best validation MRR of each seed.
    """
    best = rows[:, :, Row._fields.index("valid")].argmax(-1)
    return rows[np.arange(len(rows)), best, part]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=str(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("figure", nargs="?", default="signed.png")
    parser.add_argument(
        "--full", action="store_true", help="ten seeds, 12 epochs"
    )
    parser.add_argument(
        "--tried",
        action="store_true",
        help="at all steps that were tried, not the best ones only",
    )
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--epochs", type=int)
    return parser.parse_args()


Found = dict[tuple[str, float], Any]
"""The rows ``(seeds, marks, parts)`` of each method and step."""


def row_of(name: str, step: float, rows: Any) -> str:
    """Medians over the seeds as a row of the table."""
    middle = np.median(rows, axis=0)
    best = chosen(rows)
    when = np.median(chosen(rows, 0))
    return (
        f"{name:20s}{step:10g} "
        + "".join(f"{line[4]:7.3f}" for line in middle)
        + f"  {np.median(best):.3f} ({best.min():.3f} to "
        f"{best.max():.3f}), {when:.2g}; {middle[-1, 2]:.2g}, "
        f"{middle[-1, 1]:.2g}"
    )


def table(
    title: str,
    problems: list[UltraE],
    all_steps: dict[str, tuple[float, ...]],
    marks: list[int],
) -> Found:
    """Run all methods at all steps on one size of graphs, and print a row for
    each.
    """
    print(
        f"{title}: {SIZES[title]}\n{'':20s}{'MRR after':>10s} "
        + "".join(f"{mark:7d}" for mark in marks)
        + "  chosen (range), epochs; end: loss, s"
    )
    found: Found = {}
    for name, steps in all_steps.items():
        for step in steps:
            rows = [
                path(problem, name, step, marks, seed)
                for seed, problem in enumerate(problems)
            ]
            found[name, step] = np.array(rows)
            print(row_of(name, step, found[name, step]), flush=True)
    return found


def best_steps(found: Found) -> dict[str, float]:
    """The step of each method with the best MRR of the validation triples."""
    best: dict[str, float] = {}
    scores: dict[str, float] = {}
    for (name, step), rows in found.items():
        score = float(np.median(chosen(rows, 3)))
        if name not in best or score > scores[name]:
            best[name] = step
            scores[name] = score
    return best


def draw(axes: Any, title: str, found: Found, best: dict[str, float]) -> None:
    """Test MRR and loss against epochs and seconds."""
    shown = list(best.items())
    if best["CSDM"] != PUBLISHED[1]:
        shown.append(PUBLISHED)
    columns = ((0, 4), (1, 4), (0, 2), (1, 2))
    for place, (name, step) in enumerate(shown):
        rows = found[name, step]
        middle = np.median(rows, axis=0)
        label = f"{name}, step {step:g}"
        for panel, (across, up) in zip(axes, columns, strict=True):
            band(panel, middle[1:, across], rows[:, 1:, up], place, label)
            panel.set(
                title=title,
                xlabel=("epochs", "processor seconds")[across],
                ylabel="loss" if up == 2 else "test MRR",
            )
    for panel in axes[2:]:
        panel.set_yscale("log")


def compared(found: Found, best: dict[str, float]) -> None:
    """Print on how many seeds VR-J-JOBCD is above the others."""
    own = chosen(found["VR-J-JOBCD", best["VR-J-JOBCD"]])
    for name, step in found:
        if name != "VR-J-JOBCD":
            other = chosen(found[name, step])
            print(
                f"VR-J-JOBCD, step {best['VR-J-JOBCD']:g}, above {name}, "
                f"step {step:g}: {(own > other).sum()} of {len(own)} seeds"
            )


@style()
def main() -> None:
    given = arguments()
    seeds = given.seeds or (10 if given.full else 2)
    epochs = given.epochs or (12 if given.full else 6)
    all_steps = TRIED if given.tried else BEST
    marks = [mark for mark in MARKS if mark <= epochs]
    figure, grid = panels(4, 2, (7.16, 8.4))
    rows = ([*grid[0], *grid[1]], [*grid[2], *grid[3]])
    stored = []
    for (title, size), axes in zip(SIZES.items(), rows, strict=True):
        problems = [problem_of(size, seed) for seed in range(seeds)]
        found = table(title, problems, all_steps, marks)
        for (name, step), runs in found.items():
            for line in np.median(runs, axis=0):
                numbers = [f"{number:.4g}" for number in line]
                stored.append((title, name, step, *numbers))
        best = best_steps(found)
        draw(axes, title, found, best)
        compared(found, best)
    if seeds < 5:
        print("few seeds decide nothing where methods are close: --seeds 10")
    legend_below(figure, [grid[0][0], grid[2][0]], 2)
    publish(
        figure,
        given.figure,
        f"""Test MRR and loss of the signed score with softmax on generated
        graphs of the sizes of FB15k and WN18RR. Medians and ranges of {seeds}
        seeds from 0 on. Seconds are of the processor, one thread. Made by
        examples/j_orthogonal/signed.py.""",
    )
    with Path(given.figure).with_suffix(".csv").open("w", newline="") as file:
        csv.writer(file).writerows(
            [("graph", "method", "step", *Row._fields), *stored]
        )


if __name__ == "__main__":
    main()
