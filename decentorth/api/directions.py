"""Directions of the columns of samples, found by a run, as an estimator that transforms new
rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from topologies.line.flags import InputError

from ..problems import AgentProblem
from ..problems.common.pooled_rows import Units
from ..protocols import Array
from ..records.run_files import variables

if TYPE_CHECKING:
    from ..problems.common.coordinates import Coordinates, PairedCoordinates


class SampleView(NamedTuple):
    """The columns of a view of a run's samples."""

    width: int
    """The number of columns."""
    names: tuple[str, ...]
    """Empty where the columns have no names."""
    units: Units | None
    """The units of the samples; None for samples as they are."""
    fill: bool
    """True if missing cells were filled with the means of their columns."""

    @staticmethod
    def of_facts(kept: Mapping[str, Any]) -> SampleView:
        """The view that `facts` has written; a ValueError where it is damaged."""
        names = tuple(kept["names"])
        count = int(kept["count"])
        if not all(isinstance(name, str) for name in names) or len(names) not in (0, count):
            raise ValueError(f"{len(names)} names")
        if kept["mean"] is None:
            return SampleView(count, names, None, False)
        mean, scale = (np.array(kept[one], dtype=np.float64) for one in ("mean", "scale"))
        if mean.shape != (count,) or scale.shape != mean.shape:
            raise ValueError(f"units of {mean.size} and {scale.size} columns")
        if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0.0).all()):
            raise ValueError("units that are no positive numbers")
        units = Units(mean, np.zeros(count), scale, ())
        return SampleView(count, names, units, bool(kept["fill"]))

    def facts(self) -> dict[str, object]:
        """The view as JSON can hold it."""
        units = self.units
        return {
            "count": self.width,
            "names": self.names,
            "mean": None if units is None else units.mean.tolist(),
            "scale": None if units is None else units.scale.tolist(),
            "fill": self.fill,
        }

    def estimator(self, directions: Array) -> Coordinates:
        """The estimator of coordinates along ``directions``, ``(width, r)``."""
        from ..problems.common.coordinates import Coordinates

        units = self.units
        return Coordinates(
            np.ascontiguousarray(directions.T),
            mean=None if units is None else units.mean + units.rest,
            scale=None if units is None else units.scale,
            columns=self.names,
            fill=self.fill,
        )


class SampleColumns(NamedTuple):
    """The columns of a run's samples, along which points have directions."""

    views: tuple[SampleView, ...]
    arrays: tuple[str, ...]
    """The saved variables whose rows are the directions of all columns, view after view."""

    @staticmethod
    def of(problem: object, units: Sequence[Units]) -> SampleColumns | None:
        """The columns of the samples of a problem; None if its points have no directions of
        columns."""
        if not isinstance(problem, AgentProblem) or problem.columns is None:
            return None
        names = problem.columns
        point = np.zeros((1, *problem.shape))
        parts = {name: part.shape[1] for name, part in problem.unpack(point).items()}
        counts = [*parts.values()]
        if len(names) == 1:
            counts = [sum(counts)]
        views = []
        for count, own, one in zip_longest(counts, names, units):
            views.append(SampleView(count, own, one, one is not None and any(one.filled)))
        arrays: tuple[str, ...] = ("x",)
        if sum(counts) != problem.shape[0]:
            arrays = tuple(name for name in variables(problem, point) if name != "x")
        return SampleColumns(tuple(views), arrays)

    @staticmethod
    def of_summary(summary: Mapping[str, Any], place: str) -> SampleColumns | None:
        """The columns that `facts` has written into a summary.

        Raises
        ------
        InputError
            They are damaged; names ``place``.
        """
        kept = summary.get("columns")
        if kept is None:
            return None
        try:
            views = tuple([SampleView.of_facts(one) for one in kept["views"]])
            return SampleColumns(views, tuple(map(str, kept["arrays"])))
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise InputError(
                f"{place}: columns must hold the names and units of the columns of each view "
                f"({error!s:.80})"
            ) from None

    def facts(self) -> dict[str, object]:
        """The columns as JSON can hold them."""
        return {"views": [one.facts() for one in self.views], "arrays": self.arrays}

    def check(self, directions: Array, place: str) -> None:
        """Raise InputError unless the ``directions`` of a run, ``(d, r)``, have a row for each
        column; names ``place``."""
        count = sum(one.width for one in self.views)
        if directions.ndim != 2 or len(directions) != count:
            raise InputError(
                f"{place}: columns must hold the names and units of the columns of each view "
                f"({count} columns, directions of shape {directions.shape})"
            )

    def estimator(self, directions: Array) -> Coordinates | PairedCoordinates:
        """The estimator of coordinates along ``directions``, ``(d, r)``, of one view or of two."""
        from ..problems.common.coordinates import PairedCoordinates

        ends = np.cumsum([one.width for one in self.views])
        parts = np.split(directions, ends[:-1])
        each = [one.estimator(part) for one, part in zip(self.views, parts, strict=True)]
        if len(each) == 1:
            return each[0]
        return PairedCoordinates(*each)
