"""The base class of the estimators of nonsmooth problems, and their stopping rule.

A subgradient does not vanish at a minimiser, but the steps do: a run ends when they are the share ``tol`` of the first step. Where
the minimum is sharp, as for subspaces and dictionaries, the error is then of the order of ``tol`` times the initial error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..protocols import Collective, Metric, Observed, Row, Stop
from ..stopping import Rule
from .base import ComponentEstimator


class StepShare:
    """The largest ratio of an agent's step to its first step, a column of the history."""

    columns = ("step_share",)

    def __call__(self, problem: object, state: Observed, collective: Collective) -> tuple[float, ...]:
        """The ratio, the same on every rank."""
        return (collective.max(float((state.step_size / state.base).max())),)


@dataclass(frozen=True)
class StepsBelow(Rule):
    """Convergence when ``step_share`` is at or below a tolerance."""

    tolerance: float

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        share = row.values["step_share"]
        return Stop("converged", True, f"steps {share:.2e} <= {self.tolerance:g} of the first") if share <= self.tolerance else None


@dataclass(eq=False, repr=False, kw_only=True)
class SubgradientEstimator(ComponentEstimator):
    """An estimator whose methods are subgradient methods."""

    tol: float = 1e-6

    _alone: ClassVar[str] = "drsm"
    _together: ClassVar[str] = "drsm"
    _slope: ClassVar[str] = "step_share"
    _metrics: ClassVar[tuple[Metric, ...]] = (StepShare(),)

    def _rule(self) -> Rule:
        if not 0.0 < self.tol < 1.0:
            raise ValueError(f"tol must be above 0 and below 1, got {self.tol}")
        return StepsBelow(self.tol)
