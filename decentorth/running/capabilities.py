"""The requirements of a method, checked against the problem and the network of a run before it starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..protocols import (
    Algorithm,
    Array,
    Declared,
    Landing,
    Nonsmooth,
    Problem,
    ProductLanding,
    Projection,
    Resolved,
    Retractable,
    Signature,
    Signatures,
    SplitFeatures,
    StoppingRule,
    Suited,
    Wrapped,
)
from ..registry import algorithms
from ..stopping import GradientNorm, Rule, rules_of

NAMED = 6
"""The most methods that a refusal names."""
FAR_OFF = 1e-2
"""The feasibility up to which a start is taken to be on the set; methods that approach the set end nearer."""


def check_capabilities(problem: Problem[Any], algorithm: Algorithm[Any, Any]) -> None:
    """Raise a TypeError that names the capability that the problem or its constraint set lacks, or a ValueError for a single-agent
    method with several agents."""
    name, declared = type(algorithm).__name__, Declared.of(algorithm)
    for thing, needs in ((problem, declared.requires), (problem.constraint, declared.requires_set)):
        for need in needs:
            if not isinstance(thing, need):
                meaning = (need.__doc__ or "").partition("\n")[0]
                raise TypeError(
                    f"{name} needs {need.__name__} of its problem; {type(thing).__name__} has none. {need.__name__}: {meaning}"
                )
    if isinstance(problem, SplitFeatures) and SplitFeatures not in declared.requires:
        raise ValueError(
            f"{name} is for agents that each hold a whole point, but those of {type(problem).__name__} hold features, rows of one "
            "point"
        )
    if algorithm.network == "single-agent" and problem.n_agents > 1:
        raise ValueError(
            f"{name} is a centralized method for one agent, but the problem has {problem.n_agents}: "
            "use a decentralized method, or one agent (n_agents 1, problem.pooled())"
        )


def check_fits(problem: Problem[Any], algorithm: Any, network: Any) -> None:
    """As `check_capabilities`, with the names of methods that fit, if there are any, in the message."""
    try:
        check_capabilities(problem, algorithm)
    except (TypeError, ValueError) as error:
        names = fitting(problem, network, algorithm, algorithms.defaults())[:NAMED]
        fit = f". Algorithms that fit with their default settings: {', '.join(names)}" if names else ""
        raise type(error)(f"{str(error).rstrip('.')}{fit}") from None


def fitting(problem: Problem[Any], network: Any, algorithm: Any, known: Mapping[str, Any]) -> list[str]:
    """The names of the ``known`` methods that fit the problem and the network, those nearest to ``algorithm`` first.

    Before them come, for a single agent, its own methods, and methods that need what few problems have. Controls without a
    constraint, which require nothing, do not count as fitting.
    """
    alone, nonsmooth = problem.n_agents == 1, isinstance(problem, Nonsmooth) and problem.nonsmooth

    def fits(method: Any) -> bool:
        try:
            check_capabilities(problem, method)
            check_network(method, network)
        except (TypeError, ValueError):
            return False
        declared = Declared.of(method)
        return bool(declared.requires or declared.requires_set) and declared.nonsmooth == nonsmooth

    def distance(name: str) -> tuple[Any, ...]:
        method = known[name]
        common = {*type(method).__mro__} & {*type(algorithm).__mro__}
        return (
            (method.network == "single-agent") != alone,
            Declared.of(method).counts != Declared.of(algorithm).counts,
            -len(Declared.of(method).requires),
            -len(common),
            name,
        )

    return sorted((name for name, method in known.items() if fits(method)), key=distance)


def check_stopping(problem: Problem[Any], stopping: StoppingRule | None) -> None:
    """Raise ValueError for a tolerance of the gradient norm of a problem that is not differentiable."""
    if isinstance(problem, Nonsmooth) and problem.nonsmooth:
        for rule in rules_of(GradientNorm, stopping):
            raise ValueError(rule.unmet)


def check_met(problem: Problem[Any], stopping: StoppingRule | None, start: Array) -> None:
    """Raise ValueError for tolerances that the common start meets, whatever the objective."""
    if not isinstance(stopping, Rule):
        return
    off = 0.0 if isinstance(problem, SplitFeatures) else float(problem.constraint.feasibility(start[None])[0])
    if stopping.met_at_start(off):
        nonsmooth = isinstance(problem, Nonsmooth) and problem.nonsmooth
        beside = "an error tolerance" if nonsmooth else "a gradient tolerance"
        raise ValueError(
            "all agents start at one point, so a tolerance of consensus or feasibility alone is met before the first iteration: "
            f"give {beside} beside it, or leave it out"
        )


def check_start(problem: Problem[Any], algorithm: Algorithm[Any, Any], x0: Array) -> None:
    """Raise ValueError for a start from which the method would not come to the set, or not move."""
    declared, name = Declared.of(algorithm), type(algorithm).__name__
    constraint: Any = problem.constraint
    eps = getattr(algorithm, "eps", 0.0)
    along = {Retractable, Signature, Signatures} & {*declared.requires_set} and declared.penalty is None
    lands = not {Landing, ProductLanding}.isdisjoint(declared.requires_set)
    projects = Projection in declared.requires_set and len(np.flatnonzero(x0)) == 0
    if not (along or lands or projects or declared.safe):
        return
    off = float(constraint.feasibility(x0[None])[0])
    project = "give problem.constraint.project(x0[None])[0], or " if isinstance(constraint, Projection) else ""
    if along and not off <= FAR_OFF:
        raise ValueError(
            f"{name} moves along {constraint!r}, so it must start there, with feasibility 0; that of x0 is "
            f"{off:.3g}: {project}leave x0 out"
        )
    if projects and off > 0.0:
        raise ValueError(f"{name} projects to {constraint!r}, and x0 = 0 has no nearest point there: leave it out")
    if lands and _flat(constraint, x0):
        raise ValueError(
            f"{name} never brings x0 to {constraint!r}: its columns are linearly dependent (x0 = 0, or equal columns), and the "
            "landing field keeps them so: give an x0 of full rank, or leave it out"
        )
    if declared.safe and running(algorithm) is not algorithm and not off <= eps:
        raise ValueError(
            f"safe steps keep every agent within eps = {eps:g} of the manifold, so it must start there: "
            f"||x0^T x0 - I||_F is {off:.3g}; project x0 first, or enlarge eps (below 3/4)"
        )
    if declared.safe and Landing in declared.requires_set and _trapped(constraint, x0, eps):
        raise ValueError(f"safe steps of {name} do not leave x0, whose feasibility is {off:.3g}: {project}leave safe or x0 out")


def _flat(constraint: Any, x0: Array) -> bool:
    """True if x0 has no projection that small changes leave where it is, as its columns are linearly dependent."""
    if not isinstance(constraint, Projection):
        return False
    length = float(np.abs(x0).max()) or 1.0
    moved = x0 + 1e-12 * length * np.random.default_rng(0).standard_normal(x0.shape)
    with np.errstate(all="ignore"):
        point = constraint.project(x0[None])
        change = constraint.project(moved[None]) - point
    if np.isfinite(change).all():
        return bool(np.abs(change).max() > 0.01 * np.abs(point).max())
    return bool(np.linalg.matrix_rank(x0) < x0.shape[-1])


def _trapped(constraint: Any, x0: Array, eps: float) -> bool:
    """True if the safe step from x0 along the penalty's field, towards the set, is zero."""
    one, x = np.ones(1), x0[None]
    return bool(constraint.safe_step(x, constraint.landing(x, np.zeros_like(x), one), one, eps)[0] <= 0.0)


def check_agents(network: Any, n_agents: int) -> None:
    """Raise ValueError unless the network has as many agents as the problem."""
    if network.n_agents != n_agents:
        raise ValueError(f"W is for {network.n_agents} agents, but the problem has {n_agents}")


def check_network(algorithm: Algorithm[Any, Any], network: Any) -> None:
    """Raise ValueError unless the method is for this network, which is directed or changes over time."""
    declared = Declared.of(algorithm)
    if network.directed:
        _check_directed(algorithm, declared)
        if "auto" in (declared.first_step, declared.penalty):
            _ = network.push_pull_spectrum  # raises where there is none
    if network.sequence is not None and declared.first_step == "auto":
        _ = network.spectrum  # raises where there is none


def _check_directed(algorithm: Algorithm[Any, Any], declared: Declared) -> None:
    name = type(algorithm).__name__
    if SplitFeatures in declared.requires:
        raise ValueError(f"{name}, as features split over agents, needs an undirected graph: take ring, or another")
    if not declared.directed:
        raise ValueError(
            f"{name} needs doubly stochastic weights, and this graph is directed: take push_pull, or drgta, "
            "which retracts; or an undirected graph"
        )
    if declared.chebyshev:
        raise ValueError("chebyshev needs the eigenvalues of a symmetric W, and this graph is directed: leave it out")
    if running(algorithm) is not algorithm:
        raise ValueError("growing steps are for undirected graphs: take step size auto")


def resolved(algorithm: Any, network: Any) -> Any:
    """The method with the settings chosen that it leaves to the network's design."""
    return algorithm.resolved(network) if isinstance(algorithm, Resolved) else algorithm


def suited(algorithm: Any, problem: Problem[Any]) -> Any:
    """The method with the settings chosen that it leaves to the problem."""
    return algorithm.suited(problem) if isinstance(algorithm, Suited) else algorithm


def running(algorithm: Any) -> Any:
    """The method that runs: this one, or that around it which changes its steps, such as `algorithms.Safe`."""
    return algorithm.running() if isinstance(algorithm, Wrapped) else algorithm
