"""The requirements of a method, compared with the problem and the network of a run before it
starts.

A capability is a protocol of `decentorth.protocols`. Sets and problems have it by its methods;
methods declare what they need (`protocols.Declared`). `lacking` compares the two, and nothing else
does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .. import protocols
from ..network import Network
from ..network.masks import MOST_AGENTS
from ..numerics.definite import SINGULAR
from ..protocols import (
    Array,
    ConstraintSet,
    Declared,
    Judged,
    Landing,
    Problem,
    Projection,
    SplitFeatures,
)
from ..registry import algorithms
from ..running.metrics import composite, nonsmooth, projects, splits_features
from ..running.parts import Method
from ..stopping import GradientNorm, Rule, Stationarity, rules_of
from .steps import grows

AnyProblem = Problem[ConstraintSet]
NAMED = 6
"""The most methods that a refusal names."""
FAR_OFF = 1e-2
"""The feasibility up to which a start is taken to be on the set; methods that approach the set end
nearer."""
ALONG = {protocols.Retractable, protocols.Signature, protocols.Signatures}
"""The capabilities of sets along which points move."""
LANDS = {Landing, protocols.ProductLanding}
"""The capabilities of sets that points approach."""


def lacking(problem: AnyProblem, declared: Declared) -> tuple[object, type] | None:
    """The problem or its set with the first capability that it lacks; None if it has all that the
    method declares."""
    for thing, needs in ((problem, declared.requires), (problem.constraint, declared.requires_set)):
        for need in needs:
            if not isinstance(thing, need):
                return thing, need
    return None


def check_capabilities(problem: AnyProblem, algorithm: Method) -> None:
    """Raise a TypeError that names the capability that the problem or its constraint set lacks, or
    a ValueError for features split over agents and a method of whole points."""
    name = type(algorithm).__name__
    declared = Declared.of(algorithm)
    if (found := lacking(problem, declared)) is not None:
        thing = type(found[0]).__name__
        need = found[1].__name__
        meaning = " ".join((found[1].__doc__ or "").partition("\n\n")[0].split())
        raise TypeError(f"{name} needs {need} of its problem; {thing} has none. {need}: {meaning}")
    if splits_features(problem) and SplitFeatures not in declared.requires:
        raise ValueError(
            f"{name} is for agents that each hold a whole point, but those of "
            f"{type(problem).__name__} hold features, rows of one point"
        )


def check_fits(problem: AnyProblem, algorithm: Method, network: Network) -> None:
    """As `check_capabilities`, with the names of methods that fit, if there are any, in the
    message."""
    try:
        check_capabilities(problem, algorithm)
    except (TypeError, ValueError) as error:
        words = str(error)
        names = fitting(problem, network, algorithm, algorithms.defaults())[:NAMED]
        if names:
            words = (
                f"{words.rstrip('.')}. Algorithms that fit with their default settings: "
                f"{', '.join(names)}"
            )
        raise type(error)(words) from None


def fitting(
    problem: AnyProblem, network: Network, algorithm: Method, known: Mapping[str, Method]
) -> list[str]:
    """The names of the ``known`` methods that fit the problem and the network, those nearest to
    ``algorithm`` first.

    Before them come, for a single agent, its own methods, and methods that need what few problems
    have. Controls without a constraint, which require nothing, do not count as fitting.
    """
    given = Declared.of(algorithm)
    bases = {*type(algorithm).__mro__}
    exact = isinstance(algorithm, Judged)
    found = []
    for name, method in known.items():
        declared = Declared.of(method)
        needs = declared.requires or declared.requires_set
        if needs and declared.nonsmooth == nonsmooth(problem) and fits(problem, method, network):
            other_kind = (method.network == "single-agent") != (problem.n_agents == 1)
            other_counts = declared.counts != given.counts
            other_steps = isinstance(method, Judged) != exact
            common = len(bases & {*type(method).__mro__})
            needed = len(declared.requires)
            found.append((other_kind, other_counts, -needed, other_steps, -common, name))
    return [name for *_, name in sorted(found)]


def fits(problem: AnyProblem, method: Method, network: Network) -> bool:
    """True if the problem and the network have what the method needs."""
    try:
        check_capabilities(problem, method)
        check_network(method, network)
        Declared.of(method).for_network(network)
    except (TypeError, ValueError):
        return False
    return True


def check_stopping(problem: AnyProblem, stopping: Rule | None) -> None:
    """Raise ValueError for tolerances of the gradient norm, or of stationarity, that the problem
    does not have."""
    unmet: list[GradientNorm | Stationarity] = []
    if nonsmooth(problem):
        unmet += rules_of(GradientNorm, stopping)
    if not composite(problem):
        unmet += rules_of(Stationarity, stopping)
    if unmet:
        raise ValueError(unmet[0].unmet)


def _off(problem: AnyProblem, x0: Array) -> float:
    """The feasibility of a start that all agents have."""
    if splits_features(problem):
        return 0.0
    return float(problem.constraint.feasibility(x0[None])[0])


def check_met(problem: AnyProblem, stopping: Rule | None, start: Array) -> None:
    """Raise ValueError for tolerances that the common start meets, whatever the objective."""
    if stopping is not None and stopping.met_at_start(_off(problem, start)):
        beside = "an error tolerance" if nonsmooth(problem) else "a gradient tolerance"
        raise ValueError(
            "all agents start at one point, so a tolerance of consensus or feasibility alone is "
            f"met before the first iteration: also give {beside}, or leave it out"
        )


def check_start(problem: AnyProblem, algorithm: Method, x0: Array) -> None:
    """Raise ValueError for a start from which the method would not come to the set, or not move."""
    declared = Declared.of(algorithm)
    name = type(algorithm).__name__
    constraint: object = problem.constraint
    needs = {*declared.requires_set}
    off = _off(problem, x0)
    leave_out = "leave x0 out"
    if projects(problem):
        leave_out = "give problem.constraint.project(x0[None])[0], or leave x0 out"
    if needs & ALONG and declared.penalty is None and not off <= FAR_OFF:
        raise ValueError(
            f"{name} moves along {constraint!r}, so it must start there, with feasibility 0; "
            f"that of x0 is {off:.3g}: {leave_out}"
        )
    if Projection in needs and not x0.any() and off > 0.0:
        raise ValueError(
            f"{name} projects to {constraint!r}, and x0 = 0 lacks a unique nearest point there: "
            "leave it out"
        )
    if needs & LANDS and _flat(constraint, x0):
        raise ValueError(
            f"{name} never brings x0 to {constraint!r}: its columns are linearly dependent (x0 = "
            "0, or equal columns), and the landing field keeps them so: give an x0 of full rank, "
            "or leave it out"
        )
    judged = isinstance(algorithm, Judged)
    if declared.safe and judged and not off <= declared.eps:
        raise ValueError(
            f"safe steps keep every agent within eps = {declared.eps:g} of the manifold, so it "
            f"must start there: ||x0^T x0 - I||_F is {off:.3g}; project x0 first, or enlarge eps "
            "(below 3/4)"
        )
    if declared.safe and Landing in needs and _trapped(constraint, x0, declared.eps):
        raise ValueError(
            f"safe steps of {name} do not leave x0, whose feasibility is {off:.3g}: "
            f"{leave_out.replace('leave x0', 'leave safe or x0')}"
        )


def _flat(constraint: object, x0: Array) -> bool:
    """True if small changes of x0 move its projection far, because its columns are linearly
    dependent."""
    if not isinstance(constraint, Projection):
        return False
    length = float(np.abs(x0).max()) or 1.0
    moved = x0 + 1e-12 * length * np.random.default_rng(0).standard_normal(x0.shape)
    with np.errstate(all="ignore"):
        point = constraint.project(x0[None])
        change = constraint.project(moved[None]) - point
    if np.isfinite(change).all():
        return bool(np.abs(change).max() > 0.01 * np.abs(point).max())
    return bool(np.linalg.matrix_rank(x0, rtol=SINGULAR) < x0.shape[-1])


def _trapped(constraint: Any, x0: Array, eps: float) -> bool:
    """True if the safe step from x0 along the penalty's field, towards the set, is zero."""
    one = np.ones(1)
    x = x0[None]
    direction = constraint.landing(x, np.zeros_like(x), one)
    return bool(constraint.safe_step(x, direction, one, eps)[0] <= 0.0)


def check_agents(network: Network, n_agents: int) -> None:
    """Raise ValueError unless the network has as many agents as the problem."""
    if network.n_agents != n_agents:
        raise ValueError(f"W is for {network.n_agents} agents, but the problem has {n_agents}")


def check_sites(network: Network) -> None:
    """Raise ValueError unless ranks that are sites can run on the network: one agent each, and sums
    along its edges."""
    sites = network.communicator.sites
    if not sites:
        return
    if network.n_agents != len(sites):
        raise ValueError(
            f"W is for {network.n_agents} agents, and there are {len(sites)} sites: each is one "
            "agent"
        )
    if network.directed or network.sequence is not None:
        raise ValueError(
            "sites add along the edges of their graph: give a W that is undirected and does not "
            "change"
        )


def check_sums(name: str, network: Network, arrives: bool) -> None:
    """Raise ValueError unless agents can add exactly, for a method of one agent on several.

    ``arrives`` is True if every message arrives as it was sent.
    """
    if network.directed:
        raise ValueError(
            f"{name} on several agents adds exactly along a tree, with messages both ways, and "
            "this graph is directed: take push_pull, or drgta, which retracts; or an undirected "
            "graph"
        )
    if network.sequence is not None:
        raise ValueError(
            f"{name} on several agents adds exactly along a tree, and this network changes over "
            "time: take drfgt, or a graph that stays"
        )
    if not arrives:
        raise ValueError(
            f"{name} on several agents adds exactly along a tree, and this network loses or "
            "changes messages: take drfgt, or leave channel out"
        )


TWO_AGENTS = (
    "secure sums hide nothing between two agents: each computes the other's terms from the totals"
)
"""The note of a run by masked sums of two agents."""


def check_secure(algorithm: Method, n_agents: int, hides: bool) -> None:
    """Raise ValueError unless secure sums hide all that the method sends.

    ``hides`` is True for sums on the host of which every message arrives.
    """
    if n_agents == 1:
        raise ValueError("secure hides the terms of several agents, and this run has one")
    if algorithm.network != "single-agent" and not Declared.of(algorithm).only_sums:
        raise ValueError(
            f"secure sums are for methods by exact sums, and {type(algorithm).__name__} sends "
            "points to neighbours: take direct, block_krylov, lbfgs, conjugate_gradients or "
            "another method for one agent (lobpcg for split features); or send in the clear: at "
            "sites give clear_sums, otherwise leave secure out"
        )
    if not hides:
        raise ValueError(
            "secure sums are made on the host, and need every message: leave device and channel "
            "out; or send in the clear: at sites give clear_sums, otherwise leave secure out"
        )
    if n_agents > MOST_AGENTS:
        raise ValueError(
            f"secure sums are for at most {MOST_AGENTS} agents, as each has a mask with every "
            f"other one, and this run has {n_agents}: send in the clear, at sites by "
            "clear_sums, otherwise without secure"
        )


def check_network(algorithm: Method, network: Network) -> None:
    """Raise ValueError unless the method is for this network, which is directed or changes over
    time."""
    declared = Declared.of(algorithm)
    name = type(algorithm).__name__
    if algorithm.network == "single-agent" and network.n_agents > 1:
        check_sums(name, network, network.sums_exactly)
    if network.changes and declared.first_step == "auto":
        _ = network.joint_spectrum if declared.on_changing else network.spectrum  # may raise
    if not network.directed:
        return
    growing = "growing steps are for undirected graphs: take step size auto"
    refusals = (
        (
            SplitFeatures in declared.requires,
            f"{name}, as features split over agents, needs an undirected graph: take ring, or "
            "another",
        ),
        (
            not declared.directed,
            f"{name} needs doubly stochastic weights, and this graph is directed: take "
            "push_pull, or drgta, which retracts; or an undirected graph",
        ),
        (
            declared.chebyshev,
            "chebyshev needs the eigenvalues of a symmetric W, and this graph is directed: leave "
            "it out",
        ),
        (grows(algorithm), growing),
    )
    for refused, words in refusals:
        if refused:
            raise ValueError(words)
    if "auto" in (declared.first_step, declared.penalty):
        _ = network.push_pull_spectrum  # raises where there is none
