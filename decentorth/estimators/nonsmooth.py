"""What the estimators of nonsmooth problems share: their methods, and when these stop.

A subgradient does not vanish at a minimiser, but the steps do: a run ends when they are the share ``tol`` of the first. Where the
minimum is sharp, as those of subspaces and dictionaries are, the error is then of the order of ``tol`` times the first one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..protocols import Collective, Metric, Row, Stop
from ..stopping import Rule
from .base import ComponentEstimator


class StepShare:
    """A column of the history: the largest share of its first step at which an agent's step is."""

    columns = ("step_share",)

    def __call__(self, problem: object, state: Any, collective: Collective) -> tuple[float, ...]:
        """The same on every rank."""
        return (collective.max(float((state.step_size / state.base).max())),)


@dataclass(frozen=True)
class StepsBelow(Rule):
    """``step_share`` at or below a tolerance: convergence."""

    tolerance: float

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        share = row.values["step_share"]
        return Stop("converged", True, f"steps {share:.2e} <= {self.tolerance:g} of the first") if share <= self.tolerance else None


class SubgradientEstimator(ComponentEstimator):
    """An estimator whose methods are subgradient methods."""

    _alone: ClassVar[str] = "drsm"
    _together: ClassVar[str] = "drsm"
    _slope: ClassVar[str] = "step_share"
    _metrics: ClassVar[tuple[Metric, ...]] = (StepShare(),)

    def _rule(self) -> Rule:
        if not 0.0 < self.tol < 1.0:
            raise ValueError(f"tol must be above 0 and below 1, got {self.tol}")
        return StepsBelow(self.tol)
