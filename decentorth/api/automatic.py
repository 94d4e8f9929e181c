"""The choice of ``auto``: the first method of a table that the problem, the network and its faults
admit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from ..algorithms import AutoMethod
from ..network import Network
from ..problems.spread import FEW
from ..protocols import Declared, Moments
from ..registry import algorithms
from ..running.history import History
from ..running.metrics import nonsmooth, splits_features
from ..running.parts import Method
from . import capabilities, conversions
from .arguments import AnySetup


class Choice(NamedTuple):
    """A row of the table: a method, and what it is for."""

    name: str
    why: str


TABLE = (
    Choice("direct", "linear algebra solves it"),
    Choice("block_krylov", "an eigenproblem"),
    Choice("rsm", "not differentiable"),
    Choice("lbfgs", "smooth"),
    Choice("hyperbolic_jacobi", "a trace on x^T J x = J"),
    Choice("csdm", "smooth on x^T J x = J"),
    Choice("generalized_landing", "smooth, and B is known by its products"),
    Choice("rgd", "smooth"),
    Choice("lobpcg", "features are split over agents"),
    Choice("deepca", "an eigenproblem"),
    Choice("cdadt", "smooth, with a part of B at each agent"),
    Choice("drfgt", "smooth"),
    Choice("push_pull", "smooth, with directed edges"),
    Choice("drgta", "smooth"),
    Choice("drsm", "not differentiable"),
)
"""The methods in the order in which they are preferred: those of one agent, which several agents
run by exact sums, and those of gossip. What a method needs is in its class."""
SOLVED = 1e-6
"""The share of the first gradient norm down to which a run at its limit has an answer."""
NAMED = {True: 3, False: 2}
"""The most methods of one agent, and of gossip, that are named as alternatives."""


def by_sums(arguments: AnySetup) -> bool:
    """True if several agents run a method of one agent, by exact sums along a tree."""
    problem = arguments.problem
    method = arguments.method
    if problem.n_agents == 1:
        return False
    if not isinstance(method, AutoMethod):
        return method.network == "single-agent"
    faultless = arguments.channel is None and arguments.on_rank_loss == "abort"
    at_home = faultless and arguments.device is None and not splits_features(problem)
    return at_home and conversions.adds(arguments.mixing[0])


def few(problem: Any) -> bool:
    """True if the moments of a problem are no more numbers than `FEW` points."""
    size: int = math.prod(problem.shape)
    return isinstance(problem, Moments) and problem.n_moments <= FEW * size


def candidates(problem: Any, network: Network, single: bool) -> Iterator[tuple[Choice, Method]]:
    """The rows that fit a problem and a network, in order, with their methods: those of a
    ``single`` agent, or those of gossip."""
    for row in TABLE:
        with suppress(ValueError):  # a family whose folder was removed
            method: Method = algorithms.get(row.name)()
            declared = Declared.of(method)
            kind = method.network == "single-agent"
            smooth = declared.nonsmooth == nonsmooth(problem)
            small = few(problem) or not declared.by_moments
            if kind == single and smooth and small and capabilities.fits(problem, method, network):
                yield row, method


def fitting(run: Any) -> list[str]:
    """The names of the first methods in the table that a run's problem and network admit: some of
    one agent, or by sums, and some of gossip."""
    given = run.arguments
    adds = run.network.steady and given.on_rank_loss == "abort" and given.channel is None
    gossip = run.network.n_agents > 1 and not run.secure
    kinds = [True] * (run.single or adds) + [False] * gossip
    rows = [islice(candidates(run.problem, run.network, kind), NAMED[kind]) for kind in kinds]
    return [row.name for fits in rows for row, _ in fits]


def in_words(run: Any) -> str:
    """The choice of ``auto``: the method, its reason, the numbers that leave an agent, and other
    methods; empty for a method that was named."""
    if run.choice is None:
        return ""
    others = [name for name in fitting(run) if name != run.choice.name]
    why = run.choice.why
    if cautious(run):
        why += ", with a cautious constant step, beside which a given step_size may be faster"
    words = f"{run.choice.name}: {why}; {run.leaves}"
    if others:
        words += f"; or algorithm {', '.join(others)}"
    return words


def cautious(run: Any) -> bool:
    """True if the step is automatic, and constant since the network changes or loses messages."""
    declared = Declared.of(run.algorithm)
    network: Network = run.network
    return network.varies and declared.on_changing and declared.first_step == "auto"


def advice(run: Any, status: str, history: History) -> str:
    """Name what arrives for a run that ends at its limit far from an answer: the method that ``auto``
    would take, or more iterations of this one; else empty."""
    norms: Any = history.get("gradient_norm", ())
    if status != "iterations" or len(norms) < 2 or norms[-1] <= SOLVED * norms[0]:
        return ""
    best = next(iter(fitting(run)), None)
    if best is None:
        return ""
    if type(run.algorithm) is algorithms.get(best):
        return f"{best} needs more iterations"
    return f"auto would take algorithm={best!r} here"
