"""The report of the constants as lines: symbol, number and meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from topologies import is_sequence_name
from topologies.line.flags import InputError

from ...algorithms import DRFGT
from ...api import Run, set_up
from ...commands.line import wiring
from ...commands.line.config import Configuration
from ...network.collective import AgentCollective
from ...network.transport.communicator import SerialCommunicator
from ...numerics.threads import one_thread
from ...problems import Deferred
from ...records.progress_bar import SettingUp
from .constants import Constants, check_problem, constants
from .meanings import MEANINGS
from .measured import Measured, measure

_KINDS = {
    "exact": "are exact",
    "bound": "are proved bounds",
    "sampled": "and L are sampled, perhaps too small",
}


def table(c: Constants, step: float, name: str) -> Iterator[str]:
    """The lines on the constants, and on a practical step called ``name``."""
    for field, (symbol, meaning) in MEANINGS.items():
        if field != "smoothness_quadratic" or c.kind != "sampled":
            yield f"{symbol:<15} {getattr(c, field):<10.4g} {meaning}"
    guaranteed = step / c.guaranteed
    stable = step / c.stable
    yield (
        f"{'practical':<15} {step:<10.4g} {name}: {guaranteed:.2g} times the guaranteed, "
        f"{stable:.2g} times alpha_stable"
    )
    yield f"(sup ||G|| and s {_KINDS[c.kind]})"


def beside(measured: Measured, step: float, *, guaranteed: bool) -> Iterator[str]:
    """The lines on a measured run; the bounds hold only for a guaranteed step."""
    bounded = "" if guaranteed else ", for which no bound holds"
    yield f"a run of {measured.iterations} iterations with step {step:.3g}{bounded}:"
    means = {"||Lambda(xbar)||^2": (measured.field, measured.field_bound)}
    means["||x - xbar||^2"] = measured.consensus, measured.consensus_bound
    for name, (mean, bound) in means.items():
        words = ""
        if guaranteed:
            words = f", bound {bound:.4g}: {bound / mean:.2g} times as much"
        yield f"  mean {name:<22} {mean:.4g}{words}"
    change = measured.merit[-1] - measured.merit[0]
    yield f"  merit function              {measured.merit[0]:.10g}, changed by {change:.4g}"
    yield f"  largest ||x_i^T x_i - I||_F {measured.feasibility:.4g}"


def report(configuration: Configuration, iterations: int | None) -> Iterator[str]:
    """The lines for one configuration; ValueError for an algorithm other than DRFGT, and a problem
    that is not the paper's."""
    settings = configuration.run
    method = configuration.algorithm
    n = settings.agents
    seed = settings.seed
    if type(method) is not DRFGT:
        raise InputError(
            f"paper 004 is about drfgt, not {settings.algorithm}; leave --algorithm out"
        )
    if method.order == "auto":
        method = replace(method, order="combine-then-adapt")  # the paper's
    if is_sequence_name(settings.topology):
        raise InputError(
            "paper 004 is not about a time-varying network: take a graph, such as --topology ring"
        )
    with SettingUp(True):
        W, origin = wiring.make(settings)

    def run(algorithm: Any) -> Run:
        return set_up(problem, algorithm, W, seed=seed, comm=SerialCommunicator())

    with SettingUp(True):
        problem = _problem(configuration)
        practical: Any = run(method)
        state = next(practical.states())
        step = float(state.step_size.mean())
        penalty = float(state.penalty.mean())
        second, smallest = practical.network.spectrum
        sigma = max(second, -smallest)
        found = constants(practical.problem, sigma, smallest, penalty, method.eps, seed=seed)
    name = "the given step"
    if method.step_size == "auto":
        name = "the auto step"
    if configuration.published:
        name = "the published step"
    shape = " x ".join(map(str, practical.problem.shape))
    yield f"{settings.problem}, x is {shape}, {n} agents, {origin}"
    yield from table(found, step, name)
    order = practical.algorithm.order
    if order != "combine-then-adapt":
        yield f"(the practical step is for {order}; the paper's order is combine-then-adapt)"
    if iterations is not None:
        own = replace(practical.algorithm, step_size=step, penalty=penalty)
        least = replace(own, step_size=found.guaranteed, order="combine-then-adapt")
        for one in (own, least):
            measured = measure(run(one), found, iterations)
            yield from beside(measured, one.step_size, guaranteed=one.step_size <= found.guaranteed)


def _problem(configuration: Configuration) -> object:
    """The problem with the data of all agents, which must be one of the paper's."""
    n = configuration.run.agents
    problem = configuration.problem.problem(n, configuration.run.seed)
    if isinstance(problem, Deferred):
        collective = AgentCollective(SerialCommunicator(), np.array([0, n]))
        with one_thread():
            problem = problem.build(slice(0, n), collective)
    check_problem(problem)
    return problem
