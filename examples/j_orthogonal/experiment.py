"""What the tables and figure 1 of paper 001 share: methods, and how far each
comes from the same start.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np

import decentorth as do
from decentorth.problems import HEVPSettings

Form = Literal["as-printed", "well-posed"]

FEASIBLE = 1e-6
"""A larger (1/n^2) sum |x^T J x - J| counts as nothing reached."""
ROWS = 0.03
"""Objectives are looked at in iterations by this share apart."""


@dataclass(frozen=True, kw_only=True)
class Then:
    """One method after another, which goes on from where the first one is: the
    paper's CSDM + GS-JOBCD.

    Parameters
    ----------
    first, second The methods. iterations Of the first.
    """

    first: Any
    second: Any
    iterations: int

    network = "single-agent"

    @property
    def requires(self) -> tuple[type, ...]:
        return (*self.first.requires, *self.second.requires)

    @property
    def requires_set(self) -> tuple[type, ...]:
        return (*self.first.requires_set, *self.second.requires_set)

    def for_network(self, network: Any) -> Then:
        made = [
            one.for_network(network) if hasattr(one, "for_network") else one
            for one in (self.first, self.second)
        ]
        return replace(self, first=made[0], second=made[1])

    def init(self, problem: Any, network: Any, streams: Any, x0: Any) -> Any:
        return self.first.init(problem, network, streams, x0)

    def step(self, problem: Any, network: Any, streams: Any, state: Any) -> Any:
        if state.k == self.iterations:
            begun = self.second.init(problem, network, streams, state.x)
            state = begun._replace(
                k=state.k, gradients=state.gradients + begun.gradients
            )
        return (self.first if state.k < self.iterations else self.second).step(
            problem, network, streams, state
        )

    def ending(self, problem: Any, state: Any) -> Any:
        return (
            self.second.ending(problem, state)
            if state.k > self.iterations
            else None
        )


PENALTIES = (1e2, 1e5)
"""The ends of the range of first betas that the paper gives UMCM and ADMM."""


def methods(form: Form, warm: int) -> dict[str, Any]:
    """The methods by what they are called; J-JOBCD and GS-JOBCD with a
    majoriser where the exact subproblem has no minimum.

    "from 1e2": the published rival, whose beta grows from that.
    """
    gs = do.GSJOBCD() if form == "well-posed" else do.GSJOBCD(varsigma="pair")
    growing: Any = {"schedule": "published"}
    rivals: dict[str, Any] = {"CSDM, published": do.CSDM(step_size=5e-3)}
    for beta in PENALTIES:
        words = f"from 1e{math.log10(beta):.0f}"
        rivals[f"UMCM, published, {words}"] = do.UMCM(
            optimizer="adagrad", penalty=beta, **growing
        )
        rivals[f"ADMM, published, {words}"] = do.JADMM(penalty=beta, **growing)
    found = {
        **rivals,
        "UMCM": do.UMCM(),
        "ADMM": do.JADMM(),
        "CSDM": do.CSDM(),
        "RGD, Barzilai-Borwein": do.RGD(step_size="bb"),
        "GS-JOBCD": gs,
        "J-JOBCD": do.JJOBCD(),
        **{
            f"{name}, then GS-JOBCD": Then(
                first=rival, second=gs, iterations=warm
            )
            for name, rival in rivals.items()
        },
    }
    return found | (
        {"hyperbolic Jacobi": do.HyperbolicJacobi()}
        if form == "well-posed"
        else {}
    )


def loaded(problem: Any, method: Any, seed: int = 0) -> Any:
    """The problem with its data, ready for a method."""
    return do.solve(
        problem, method, iterations=0, seed=seed, comm="serial"
    ).problem


def states_of(
    problem: Any, method: Any, seed: int, start: str
) -> Iterator[Any]:
    """The states of a method on a loaded problem, from the identity, or from a
    random J-orthogonal matrix of the seed.
    """
    x0 = None
    if start == "random":
        x0 = problem.constraint.random(np.random.default_rng(seed))
    return do.iterate(problem, method, x0=x0, seed=seed, comm="serial")


def start_value(
    settings: HEVPSettings, seed: int, start: str = "identity"
) -> float:
    """f where all methods start."""
    method = do.CSDM()
    problem = loaded(settings.problem(1, seed), method, seed)
    first = next(states_of(problem, method, seed, start))
    return float(problem.value(first.x)[0])


class Row(NamedTuple):
    """What a method had reached at a feasible point: the metric's value, and
    gradients of all samples.
    """

    seconds: float
    iteration: int
    gradients: float
    value: float
    feasibility: float


def followed(
    problem: Any,
    method: Any,
    options: Any,
    metric: str = "objective",
    goal: float = -math.inf,
) -> tuple[list[Row], str]:
    """What a method reaches in the seconds of the processor and iterations that
    it has, or until it is below the goal, and how it ended.

    Looked at in iterations a few percent apart; on a machine with other work
    the processor's time says more than the clock.
    """
    problem = loaded(problem, method, options.seed)
    states = states_of(problem, method, options.seed, options.start)
    if options.iterations is not None:
        states = islice(states, options.iterations + 1)
    ending = getattr(method, "ending", None)
    spent = 0.0
    due = 0
    rows = list[Row]()
    with np.errstate(over="ignore", invalid="ignore"):
        while spent < options.seconds:
            begun = time.process_time()
            state = next(states, None)
            spent += time.process_time() - begun
            if state is None:
                return rows, "iterations"
            if not np.abs(state.x).max() < 1e50:
                return rows, "diverged"
            stop = None if ending is None else ending(problem, state)
            if state.k >= due or stop is not None:
                due = max(state.k + 1, int((1.0 + ROWS) * state.k))
                value = (
                    problem.error(state.x[0])
                    if metric == "error"
                    else float(problem.value(state.x)[0])
                )
                feasibility = float(problem.constraint.feasibility(state.x)[0])
                if feasibility <= FEASIBLE:
                    gradients = (
                        getattr(state, "samples", 0) / problem.n_samples[0]
                        or state.gradients
                    )
                    rows.append(
                        Row(spent, state.k, gradients, value, feasibility)
                    )
                    if value <= goal:
                        return rows, "reached"
            if stop is not None:
                return rows, stop.status
    return rows, "time_limit"


class Task(NamedTuple):
    """A method on a problem, by their settings, so that it can be sent to
    another process.
    """

    settings: HEVPSettings
    seed: int
    method: Any
    options: Any
    metric: str
    goal: float


def follow(task: Task) -> tuple[list[Row], str]:
    """What `followed` says of a task."""
    options = argparse.Namespace(**{**vars(task.options), "seed": task.seed})
    return followed(
        task.settings.problem(1, task.seed),
        task.method,
        options,
        task.metric,
        task.goal,
    )


def mapped(
    function: Callable[[Any], Any], tasks: Iterable[Any], jobs: int
) -> Iterator[Any]:
    """The function of each task, in their order, in ``jobs`` processes.
    Processor times stay those of one process.
    """
    if jobs == 1:
        yield from map(function, tasks)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(function, tasks)


def settings_of(
    data: str,
    form: Form,
    positive: int | None,
    ridge: float,
    options: Any = None,
) -> HEVPSettings:
    """The settings of a data set; of a file with the subset that the options
    ask for.
    """
    chosen = {}
    if options is not None and not data.startswith("randn"):
        chosen = drawn(options)
    return HEVPSettings(
        form=form, data=data, positive=positive, ridge=ridge, **chosen
    )


def drawn(options: Any) -> dict[str, Any]:
    """The settings of `add_drawing`."""
    names = ("draw_rows", "draw_columns", "divide_by")
    return {name: vars(options)[name] for name in names}


def add_start(parser: argparse.ArgumentParser) -> None:
    """Add --start to a command line."""
    parser.add_argument(
        "--start",
        choices=("identity", "random"),
        default="identity",
        help="where all methods start; random: a J-orthogonal matrix from a "
        "random hyperbolic CS decomposition, for each seed another",
    )


def add_drawing(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the samples of a file to a command line."""
    parser.add_argument(
        "--draw-rows",
        type=int,
        help="draw this many rows of a file, by default all",
    )
    parser.add_argument(
        "--draw-columns",
        type=int,
        help="draw this many columns of a file, by default all",
    )
    parser.add_argument(
        "--divide-by",
        type=float,
        default=1.0,
        help="divide the samples of a file, 255 for bytes",
    )


def arguments(
    what: str, data: Sequence[str], seconds: float
) -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--data",
        nargs="+",
        default=list(data),
        help="randn10 and so on, or files with a sample a row",
    )
    parser.add_argument(
        "--seconds", type=float, default=seconds, help="for each method"
    )
    parser.add_argument(
        "--iterations",
        type=int,
        help="the most for each method, by default any number",
    )
    parser.add_argument(
        "--positive", type=int, help="signs +1 of J, by default half"
    )
    parser.add_argument(
        "--ridge",
        type=float,
        default=0.0,
        help="added to the diagonal of D^T D",
    )
    add_drawing(parser)
    parser.add_argument(
        "--warm",
        type=int,
        default=30,
        help="iterations of a rival before GS-JOBCD goes on",
    )
    parser.add_argument("--seed", type=int, default=0)
    add_start(parser)
    parser.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="methods run at the same time, each in a process of one thread",
    )
    return parser
