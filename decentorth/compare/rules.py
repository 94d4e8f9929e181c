"""The rules of a comparison, the same for every method."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..cli.settings import at_least
from ..history import schedule
from ..protocols import StoppingRule
from ..stopping import Consensus, Error, Feasibility, GradientNorm, ObjectiveBelow, Rule, Time

Metric = Literal["gradient_norm", "error", "objective"]
_GOALS: dict[str, Callable[[float], Rule]] = {"gradient_norm": GradientNorm, "error": Error, "objective": ObjectiveBelow}
_MOST_ROWS = 20_000
"""The maximum number of rows that a history in memory keeps."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The rules of a comparison.

    Parameters
    ----------
    trials : int
        Trials of each method, with the seeds seed, seed + 1, ...: each has its own data, start and random graph, the same for
        every method.
    iterations : int
        The most iterations of a trial.
    tolerances : tuple of float
        The values of the metric to which costs are counted: positive, except for objectives.
    metric : str
        The quantity that must come below a tolerance: the gradient norm at the projected mean, its distance from a known answer, or
        the objective there (any values; for objectives without a minimum too).
    consensus_factor : float
        Also ask that consensus_rms is at most so many times the tolerance, so that the agents are where the metric is measured;
        none asks nothing. An objective is no distance, so nothing is asked with it.
    feasibility : float
        Also ask that feasibility is at most this: for sets without a projection, on which methods that become feasible only as
        they converge have objectives below the least one.
    time_limit : float
        The most seconds that the iterations of a trial may take.
    tune : bool
        Try steps for each method, on seeds that no trial uses, and compare the methods at their best.
    grid : int
        The number of steps to try: the method's own (automatic or given) and multiples of it, factors of two apart.
    tune_seeds : int
        Seeds on which steps are tried: those after the seeds of the trials.
    tune_iterations : int
        The most iterations of a trial of a step; by default those of a trial.
    step_size : float
        One step size for all instead. Not a fair comparison: the landing direction is half the Riemannian gradient.
    resolution : float
        Counts are at most by this share too high: metrics are looked at in iterations so far apart. 0 looks at every iteration.
    """

    trials: int = 5
    seed: int = 0
    iterations: int = 3000
    tolerances: tuple[float, ...] = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
    metric: Metric = "gradient_norm"
    consensus_factor: float | None = 1.0
    feasibility: float | None = None
    time_limit: float | None = None
    tune: bool = False
    grid: int = 8
    tune_seeds: int = 1
    tune_iterations: int | None = None
    step_size: float | None = None
    resolution: float = 0.01

    def __post_init__(self) -> None:
        """Raise unless the rules describe a comparison.

        Raises
        ------
        ValueError
            A value out of range, or two that do not fit together.
        """
        at_least(self, trials=1, seed=0, iterations=1, grid=2, tune_seeds=1, tune_iterations=1)
        if self.metric not in _GOALS:
            raise ValueError(f"metric must be {', '.join(list(_GOALS)[:-1])} or {list(_GOALS)[-1]}, got {self.metric!r}")
        lowest = -math.inf if self.metric == "objective" else 0.0
        if not self.tolerances or not all(lowest < tolerance < math.inf for tolerance in self.tolerances):
            kind = "finite" if self.metric == "objective" else "positive"
            raise ValueError(f"tolerances must be {kind} numbers, at least one, got {list(self.tolerances)}")
        if self.metric == "objective":
            object.__setattr__(self, "consensus_factor", None)
        for name in ("consensus_factor", "step_size", "feasibility", "time_limit"):
            value = getattr(self, name)
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value}")
        if self.tune and self.step_size is not None:
            raise ValueError("step_size is one step for all methods, and tune finds each its own: give one of the two")
        if not 0.0 <= self.resolution < 1.0:
            raise ValueError(f"resolution must be at least 0 and below 1, got {self.resolution}")
        if self.rows(self.iterations) > _MOST_ROWS:
            raise ValueError(
                f"resolution {self.resolution:g} looks at {self.rows(self.iterations)} of {self.iterations} iterations, and a "
                f"history holds {_MOST_ROWS}: take a coarser one"
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
        """The factors of the steps to try: powers of two about 1, one more above than below if their number is even."""
        below = (self.grid - 1) // 2
        return tuple(2.0**power for power in range(-below, self.grid - below))

    def rows(self, iterations: int) -> int:
        """The number of rows that a history needs for the resolution."""
        return iterations + 1 if self.resolution == 0.0 else _rows(iterations, self.resolution)

    def stop(self) -> StoppingRule:
        """The rule that stops a run once the smallest tolerance is reached."""
        smallest = self.tolerances[-1]
        rule = _GOALS[self.metric](smallest)
        if self.consensus_factor is not None:
            rule &= Consensus(self.consensus_factor * smallest)
        if self.feasibility is not None:
            rule &= Feasibility(self.feasibility)
        return rule if self.time_limit is None else rule | Time(self.time_limit)

    def reached(self, history: Mapping[str, NDArray[Any]], tolerance: float) -> int | None:
        """The first row of a history that is within a tolerance."""
        within = history[self.metric] <= tolerance
        if self.consensus_factor is not None:
            within &= history["consensus_rms"] <= self.consensus_factor * tolerance
        if self.feasibility is not None:
            within &= history["feasibility"] <= self.feasibility
        return int(np.argmax(within)) if within.any() else None


@lru_cache
def _rows(iterations: int, resolution: float) -> int:
    """About the least number of rows with which an event of iteration k is recorded by iteration (1 + resolution) k."""
    points = 1 + math.ceil(math.log(iterations) / math.log1p(resolution))
    rows = 2 + len(np.unique(np.geomspace(1, iterations, points).round()))
    while True:
        recorded = np.fromiter(schedule(iterations, rows, None), dtype=np.float64)[1:]
        first = recorded[:-1] + 1.0  # the first iteration that is seen at the next row
        if (recorded[1:] <= (1.0 + resolution) * first).all():
            return rows
        rows += max(1, rows // 20)
