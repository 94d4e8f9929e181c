"""The rules of a comparison, the same for every method."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from ...protocols import StoppingRule
from ...running.history import Columns
from ...settings import Count, Finite, Positive, Probability, Range, Seconds, Seed, Settings, check
from ...stopping import (
    Consensus,
    Error,
    Feasibility,
    GradientNorm,
    ObjectiveBelow,
    Rule,
    Stationarity,
    Time,
)

Goal = Literal["gradient_norm", "stationarity", "error", "objective"]
_STOPPING: dict[str, Callable[[float], Rule]] = {
    "gradient_norm": GradientNorm,
    "stationarity": Stationarity,
    "error": Error,
    "objective": ObjectiveBelow,
}
_MOST_ROWS = 20_000
"""The maximum number of rows that a history in memory keeps."""
_MOST_TOLERANCES = 100
"""The maximum number of tolerances: a table has a column for each, a search of every run behind it."""
_FINER = 0.9
"""The share of the resolution by which rows are apart, so that their rounding does not matter."""


@dataclass(frozen=True, kw_only=True)
class Rules(Settings):
    """The rules of a comparison.

    Parameters
    ----------
    trials : int
        Trials of each method, with the seeds seed, seed + 1, ... Each has its own data, start and
        random graph, the same for every method.
    iterations : int
        The largest number of iterations of a trial.
    tolerances : tuple of float
        Values of the metric to which costs are counted, at most 100. Positive, unless the metric is the
        objective.
    metric : str
        The quantity that must fall below a tolerance: the gradient norm at the projected mean, for
        an objective plus a nonsmooth term the stationarity there, the error (distance from a known
        answer), or the objective, where tolerances may be negative.
    consensus_factor : float
        Also require the agents' disagreement (consensus_rms) to be at most this multiple of the
        tolerance. none turns it off. Not used with --metric objective.
    feasibility : float
        Also require feasibility to be at most this. For sets without a projection, where infeasible
        points may have objectives below the minimum.
    time_limit : float
        The largest time of a trial's iterations: 90, 30s, 10m, 2h.
    tune : bool
        Try steps for each method, on seeds that no trial uses, and compare the methods at their
        best steps.
    grid : int
        Number of steps to try: the method's own and its multiples by powers of two. While the best
        one is the smallest or the largest, another is tried beyond it, at most as many again.
    tune_seeds : int
        Number of seeds on which steps are tried, after the seeds of the trials.
    resolution : float
        Metrics are checked at steps of this fraction; counts may be too high by as much. 0 checks
        every iteration.

    Examples
    --------
    >>> from decentorth.lab.compare import Rules
    >>> rules = Rules(trials=3, seed=7, tolerances=(1e-2, 1e-4))
    >>> list(rules.seeds)
    [7, 8, 9]
    """

    trials: Count = 5
    seed: Seed = 0
    iterations: Count = 3000
    tolerances: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
    metric: Goal = "gradient_norm"
    consensus_factor: Positive | None = 1.0
    feasibility: Positive | None = None
    time_limit: Annotated[Seconds, Range(above=0)] | None = None
    tune: bool = False
    grid: Annotated[int, Range(least=2)] = 8
    tune_seeds: Count = 3
    resolution: Probability = 0.01

    def __post_init__(self) -> None:
        """Raise a ValueError for a value out of range, and for two that do not fit together."""
        super().__post_init__()
        if np.ndim(self.tolerances) != 1 or not len(self.tolerances):
            raise ValueError("tolerances must be at least one number, such as (1e-3,)")
        if len(self.tolerances) > _MOST_TOLERANCES:
            raise ValueError(
                f"tolerances must be at most {_MOST_TOLERANCES} numbers, got {len(self.tolerances)}"
            )
        bound = Positive
        if self.metric == "objective":
            bound = Finite
            object.__setattr__(self, "consensus_factor", None)
        for tolerance in self.tolerances:
            check("tolerances", bound, tolerance)
        if (rows := self.rows(self.iterations)) > _MOST_ROWS:
            raise ValueError(
                f"resolution {self.resolution:g} checks {rows} of {self.iterations} iterations, "
                f"and a history holds {_MOST_ROWS}: take a coarser one"
            )
        object.__setattr__(self, "tolerances", tuple(sorted(set(self.tolerances), reverse=True)))

    @property
    def seeds(self) -> range:
        """The seeds of the trials."""
        return range(self.seed, self.seed + self.trials)

    @property
    def tuning_seeds(self) -> range:
        """The seeds on which steps are tried; none is the seed of a trial."""
        return range(self.seeds.stop, self.seeds.stop + self.tune_seeds) if self.tune else range(0)

    @property
    def factors(self) -> tuple[float, ...]:
        """The factors of the steps to try: powers of two about 1, one more above than below if
        their number is even."""
        below = (self.grid - 1) // 2
        return tuple(2.0**power for power in range(-below, self.grid - below))

    def rows(self, iterations: int) -> int:
        """The number of log-spaced rows with which an event of iteration k is recorded by iteration
        (1 + resolution) k."""
        if self.resolution == 0.0:
            return iterations + 1
        points = 1 + math.ceil(math.log(iterations) / math.log1p(_FINER * self.resolution))
        return 2 + len(np.unique(np.geomspace(1, iterations, points).round()))

    def stop(self) -> StoppingRule:
        """The rule that stops a run once the smallest tolerance is reached."""
        smallest = self.tolerances[-1]
        rule = _STOPPING[self.metric](smallest)
        if self.consensus_factor is not None:
            rule &= Consensus(self.consensus_factor * smallest)
        elif self.metric != "objective":
            rule &= Consensus(sys.float_info.max)  # the agents need not agree
        if self.feasibility is not None:
            rule &= Feasibility(self.feasibility)
        if self.time_limit is not None:
            rule |= Time(self.time_limit)
        return rule

    def reached(self, history: Columns, tolerance: float) -> int | None:
        """The first row of a history that is within a tolerance."""
        within = history[self.metric] <= tolerance
        if self.consensus_factor is not None:
            within &= history["consensus_rms"] <= self.consensus_factor * tolerance
        if self.feasibility is not None:
            within &= history["feasibility"] <= self.feasibility
        return next(iter(np.flatnonzero(within).tolist()), None)
