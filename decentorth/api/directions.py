"""Directions of the columns of samples, found by a run, as an estimator that transforms new
rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from topologies.line.flags import InputError

from ..problems import AgentProblem
from ..problems.common.pooled import Units
from ..protocols import Array

if TYPE_CHECKING:
    from ..problems.common.coordinates import Coordinates


class Columns(NamedTuple):
    """The columns along which the columns of a run's points are directions."""

    names: tuple[str, ...]
    """Empty where the columns have no names."""
    units: Units | None
    """The units of the samples; None for samples as they are."""
    fill: bool
    """True if missing cells were filled with the means of their columns."""

    @staticmethod
    def of(problem: object, units: Sequence[Units]) -> Columns | None:
        """The columns of the samples of a problem; None if its points are no directions of
        columns."""
        names = problem.columns if isinstance(problem, AgentProblem) else None
        if names is None:
            return None
        own = units[0] if units else None
        return Columns(names, own, own is not None and any(own.filled))

    @staticmethod
    def of_summary(summary: Mapping[str, Any], shape: Sequence[int], place: str) -> Columns | None:
        """The columns that `facts` has written into a summary; ``shape`` is that of a point.

        Raises
        ------
        InputError
            They are damaged; names ``place``.
        """
        kept = summary.get("columns")
        if kept is None:
            return None
        try:
            names = tuple(kept["names"])
            if not all(isinstance(name, str) for name in names) or len(names) not in (0, shape[0]):
                raise ValueError(f"{len(names)} names")
            if kept["mean"] is None:
                return Columns(names, None, False)
            mean, scale = (np.array(kept[one], dtype=np.float64) for one in ("mean", "scale"))
            if mean.shape != (shape[0],) or scale.shape != mean.shape:
                raise ValueError(f"units of {mean.size} and {scale.size} columns")
            if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0.0).all()):
                raise ValueError("units that are no positive numbers")
            units = Units(mean, np.zeros(len(mean)), scale, ())
            return Columns(names, units, bool(kept["fill"]))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"{place}: columns must hold the names and units of {shape[0]} columns "
                f"({error!s:.80})"
            ) from None

    def facts(self) -> dict[str, object]:
        """The columns as JSON can hold them."""
        units = self.units
        return {
            "names": self.names,
            "mean": None if units is None else units.mean.tolist(),
            "scale": None if units is None else units.scale.tolist(),
            "fill": self.fill,
        }

    def estimator(self, directions: Array) -> Coordinates:
        """The estimator of coordinates along ``directions``, ``(d, r)``."""
        from ..problems.common.coordinates import Coordinates

        units = self.units
        return Coordinates(
            np.ascontiguousarray(directions.T),
            mean=None if units is None else units.mean + units.rest,
            scale=None if units is None else units.scale,
            columns=self.names,
            fill=self.fill,
        )
