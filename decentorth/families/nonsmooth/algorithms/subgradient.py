"""The common parts of subgradient methods on the Stiefel manifold: the steps, and the cost of an
iteration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from decentorth.algorithms.common import SingleAgentMethod, StepSize, start
from decentorth.numerics.ordered_sums import norms
from decentorth.protocols import Array, Counted, Problem, Recommends, WeaklyConvex

UNKNOWN = "diminishing"
"""The default steps if a problem recommends none: those of paper 000, Theorem 4.9 (b)."""


@dataclass(frozen=True, kw_only=True)
class Subgradient(SingleAgentMethod):
    """A subgradient method of a single agent.

    Parameters
    ----------
    step_size
        gamma_0 > 0; auto: the schedule that suits the problem; or a schedule: geometric,
        square-summable, annealed, diminishing, horizon, piecewise.
    """

    nonsmooth: ClassVar[bool] = True
    auto: ClassVar[tuple[str, ...]] = ("step_size",)
    """The settings that a problem can recommend."""

    step_size: StepSize = "auto"

    @property
    def n_blocks(self) -> int:
        """The number of blocks of columns; 1 where all move."""
        return 1

    def for_problem(self, problem: Problem[object]) -> Self:
        """This method with its ``auto`` settings resolved to the problem's recommendations for this
        number of blocks."""
        auto = [name for name in self.auto if vars(self)[name] == "auto"]
        if not auto:
            return self
        recommended = {"step_size": UNKNOWN, "block_partition": "fixed"}
        if isinstance(problem, Recommends):
            recommended = problem.subgradient_settings(self.n_blocks)._asdict()
        return replace(self, **{name: recommended[name] for name in auto})

    def first_steps(self, problem: Problem[object], x0: Array) -> tuple[Array, Array, int]:
        """The first step and the base step Delta ``(n_local,)``, given or 1 / L (see `steepness`),
        and the gradients spent."""

        def automatic() -> tuple[Array, int]:
            steep, spent = steepness(problem, x0)
            return 1.0 / steep, spent

        return start(self.step_size, len(x0), automatic)


def steepness(problem: Problem[object], x0: Array) -> tuple[Array, int]:
    """The problem's Lipschitz constant L of f ``(n_local,)``, or, without one, its subgradient's
    norm at x0; and the gradients spent."""
    if isinstance(problem, WeaklyConvex):
        return problem.lipschitz_value, 0
    steep = norms(problem.gradient(x0))
    return np.where(steep > 0.0, steep, 1.0), 1


def iteration_flops(problem: Problem[object], columns: int) -> Array:
    """The floating-point operations ``(n_local,)`` of an iteration that moves ``columns`` = c of
    the r columns of a point.

    They are 4 d r c for the tangent part, 4 d c^2 + 10 c^3 for the polar factor from its Gram
    matrix (10 c^3 stands for its inverse root), 3 d c for the step, and the oracle's own if the
    problem counts them.
    """
    d, r = problem.shape
    c = columns
    own = 4.0 * d * r * c + 4.0 * d * c * c + 10.0 * c**3 + 3.0 * d * c
    oracle = problem.flops(c) if isinstance(problem, Counted) else 0.0
    return np.full(problem.agents.stop - problem.agents.start, own) + oracle
