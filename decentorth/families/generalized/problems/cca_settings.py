"""The settings of canonical correlation analysis: two views of samples, from files or generated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from decentorth.families.features.own_files import among, features_of
from decentorth.families.features.split import (
    Among,
    SplitCCA,
    by_features,
    no_units,
    random_features,
    split_features,
)
from decentorth.numerics.ordered_sums import sums
from decentorth.problems.base import AgentProblem, stream
from decentorth.problems.base import View as Given
from decentorth.problems.common import division
from decentorth.problems.common.division import (
    Centred,
    Division,
    PooledPlace,
    SampleSource,
    files_of_features,
    placed,
    samples_of,
)
from decentorth.problems.common.once import ComputedOnce
from decentorth.problems.common.pooled_rows import HERE, Units, Wanted, refuse_constant, units
from decentorth.problems.deferred import Deferred, Outline
from decentorth.protocols import Array, Collective
from decentorth.settings import Condition, Count, NotNegative, Range, Share

from .cca import CCA, forms_moments

_LISTED = 10
"""The most columns of a view that a line names."""
_LITTLE = "they vary little beside the others (drop_constant=0 keeps them)"


class View(NamedTuple):
    """A view of the samples of some agents, the names or numbers of its columns, and its units."""

    rows: list[Array]
    columns: Sequence[object]
    units: Units
    left_out: Mapping[str, str] = MappingProxyType({})
    """The columns that were left out, by the reason."""

    @property
    def names(self) -> list[str]:
        """The names of the columns; empty if these have numbers."""
        return [name for name in self.columns if isinstance(name, str)]


Make = Callable[[View, View, PooledPlace], AgentProblem[Any]]
"""The problem of the two views of some agents."""


@dataclass(frozen=True, kw_only=True)
class TwoViews(Centred):
    """Two views of real data, its samples divided over the agents, or of generated data.

    Parameters
    ----------
    data
        Images, whose left and right halves are the two views: the name of bundled data (digits) or
        a file with one image per row (idx and others). With data_y the first view itself. Or
        synthetic: Gaussian views with shared factors.
    data_y
        A file with the second view, row for row the samples of data.
    columns_y
        The names of the columns of the second view, in the table whose columns make the first.
    rank
        How many pairs of canonical directions.
    width
        Pixels in a row of an image; by default images are square.
    drop_constant
        Columns whose variance is at most this share of their view's mean variance are left out, as
        constant ones are. By default 1e-3 for images, whose pixels share one unit, and 0 for
        others.
    scale
        Divide by standard deviations over all samples: columns, each column by its own; view, a
        view by the root of its columns' mean variance; or none. Without a word, as in other
        problems: each column by its own before any is left out.
    dimension, dimension_y
        Columns of the two views (synthetic data).
    correlation, decay
        The canonical correlations of the distribution are correlation decay^k, k = 0, 1, ...
        (synthetic data).
    condition
        Of the covariances of the distribution, whose eigenvalues fall geometrically (synthetic
        data).
    heterogeneity
        Standard deviation of the logarithms by which each agent stretches each pair of factors; the
        correlations of the distribution of all samples are the same in any case (synthetic data).
    """

    data: str = "digits"
    data_y: str | None = None
    columns_y: tuple[str, ...] = ()
    rank: Count = 5
    width: Annotated[int, Range(least=2)] | None = None
    drop_constant: NotNegative | None = None
    scale: bool | Literal["columns", "view", "none"] = "columns"  # type: ignore[assignment]  # true means the same
    samples: division.AgentSamples = 1000
    dimension: Count = 10
    dimension_y: Count = 10
    correlation: Share = 0.9
    decay: Share = 0.8
    condition: Condition = 10.0
    heterogeneity: NotNegative = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        halves = self.data_y is None and self.width is None
        if self.data_y is not None and (self.data == "synthetic" or self.width is not None):
            raise ValueError("data_y goes with a file in data, not with synthetic data, nor width")
        if self.columns_y and not (self.columns and halves):
            raise ValueError("columns_y go with columns of the same table, not data_y or width")
        least = min(self.dimension, self.dimension_y)
        if self.data == "synthetic" and self.rank > least:
            raise ValueError(
                f"rank must be at most {least}, the smaller dimension, got {self.rank}"
            )

    def selected(self) -> tuple[tuple[str, ...], str | None, bool, tuple[str, ...], bool]:
        columns, label, drop_missing, exclude, fill = super().selected()
        return (*columns, *self.columns_y), label, drop_missing, exclude, fill

    _generators = ("synthetic",)
    _for_generated = (
        "samples",
        "dimension",
        "dimension_y",
        "correlation",
        "decay",
        "condition",
        "heterogeneity",
    )
    _for_files = (*[name for name in division.DIVIDED if name != "scale"], "columns_y")

    def _of_both(
        self,
        n_agents: int,
        seed: int,
        make: Make,
        make_of_few: Make,
        more: Callable[[int, int, int], int],
    ) -> Deferred:
        """The problem that ``make`` gives of both views, and ``make_of_few`` of a few random
        samples; beside m samples of n1 and n2 columns an agent holds ``more(m, n1, n2)``
        numbers."""
        source = self._source(n_agents, seed)

        def build(agents: slice, collective: Collective) -> AgentProblem[Any]:
            first, second = self._both(source, agents, collective)
            source.units = first.units, second.units
            source.column_names = [view.names for view in (first, second)]
            source.about_columns = left_out(first, second)
            return make(first, second, placed(n_agents, agents, collective))

        def outline() -> Outline:
            widths = n1, n2 = self._widths(source)

            def made(rows: list[Array], agents: slice, pool: Collective) -> AgentProblem[Any]:
                parts = zip(_cut(rows, n1), widths, strict=True)
                first, second = [View(part, [*range(d)], Units.none(d)) for part, d in parts]
                return make_of_few(first, second, placed(n_agents, agents, pool))

            return Outline(
                copies=2.0,
                more=lambda counts: sum(more(m, n1, n2) for m in counts),
                made=made,
                point=(n1 + n2) * self.rank,
                views=widths,
            )

        return source.deferred(build, outline)

    def _source(self, n_agents: int, seed: int) -> SampleSource:
        if self.data_y is None:
            return samples_of(self, n_agents, seed, self._drawn)
        return Division([self.data, self.data_y], self, n_agents, seed)

    def _drawn(self, n_agents: int, seed: int) -> division.Generated:
        counts = [self.samples] * n_agents
        width = self.dimension + self.dimension_y
        return division.Generated(counts, width, self._drawing(seed), self.wanted)

    @property
    def wanted(self) -> Wanted:
        return super().wanted._replace(scale=True)  # which also finds columns that vary little

    def _widths(self, source: SampleSource) -> tuple[int, int]:
        """The numbers of columns of both views."""
        if self.columns_y:
            return len(self.columns), len(self.columns_y)
        if self.data == "synthetic":
            return self.dimension, self.dimension_y
        if self.data_y is None:
            left, right = _halves([np.empty((1, source.width))], self.width)
            return left[0].size, right[0].size
        first = Division([self.data], self, 1, 0).width
        return first, source.width - first

    def _views(self, source: SampleSource, agents: slice, collective: Collective) -> list[Given]:
        """The two views of the agents' samples as they are, and the names of their columns."""
        views = source.found(agents, collective)
        with collective.together():
            if self.columns_y:
                names = (self.columns, self.columns_y)
                parts = _cut(views[0][0], len(self.columns))
                return list(zip(parts, names, strict=True))
            if len(views) == 1:
                return [(half, ()) for half in _halves(views[0][0], self.width)]
        return views

    def _both(self, source: SampleSource, agents: slice, collective: Collective) -> list[View]:
        """Both views in their units, without constant columns."""
        views = zip(("first", "second"), self._views(source, agents, collective), strict=True)
        found = [self._in_units(name, *view, collective) for name, view in views]
        with collective.together():
            self._check_rank(found)
        return found

    def _check_rank(self, views: Sequence[View]) -> None:
        """Raise ValueError unless each view has as many columns as pairs of directions are asked
        for."""
        least = min(len(view.columns) for view in views)
        if self.rank > least:
            out = "".join(f"; left out: {words}" for words in left_out(*views).values())
            raise ValueError(
                f"rank must be at most {least}, the number of columns of the smaller view, got "
                f"{self.rank}{out}"
            )

    @property
    def _share(self) -> float:
        """The share of the mean variance up to which columns are left out."""
        if self.drop_constant is not None:
            return self.drop_constant
        images = self.from_file and self.data_y is None and not self.columns_y
        return 1e-3 if images else 0.0

    def _in_units(
        self, name: str, view: Sequence[Array], names: Sequence[str], collective: Collective
    ) -> View:
        found = units(view, collective, names=names)
        variances = found.scale**2
        mean = float(sums(variances[None])[0]) / len(variances)
        return self._kept(name, view, names, found, mean)

    def _kept(
        self, name: str, view: Sequence[Array], names: Sequence[str], found: Units, mean: float
    ) -> View:
        """The view in its units, without the columns whose variance is small beside the ``mean``
        variance of all."""
        variances = found.scale**2
        if not mean > 0.0:
            raise ValueError(f"the {name} view is constant: all samples have the same entries")
        constant = found.constant
        small = ~constant & (variances <= self._share * mean)
        if self.scale is True:
            refuse_constant(constant, names)
            small = constant
        out = {"constant": _listed(name, names, constant), _LITTLE: _listed(name, names, small)}
        kept = ~constant & ~small
        whole = np.full(len(kept), np.sqrt(mean))
        none = np.ones(len(kept))
        divisor = {"view": whole, "none": none, False: none}.get(self.scale, found.scale)
        found = found._replace(mean=found.mean[kept], rest=found.rest[kept], scale=divisor[kept])
        change = found.standard if self.center else lambda a: found.completed(a) / found.scale
        used = np.flatnonzero(kept).tolist()
        columns = [names[k] if names else k for k in used]
        rows = [np.ascontiguousarray(change(a[:, kept])) for a in view]
        return View(rows, columns, found, out)

    def _drawing(self, seed: int) -> Callable[[int], list[Array]]:
        """An agent's Gaussian views: u_k = sqrt(c_k) z_k + sqrt(1 - c_k) e_k, v_k = sqrt(c_k) z_k +
        sqrt(1 - c_k) e'_k, mixed."""
        k = min(self.dimension, self.dimension_y)
        share = np.sqrt(self.correlation * self.decay ** np.arange(k))
        rest = np.sqrt(1.0 - share * share)

        @ComputedOnce
        def mixings() -> list[Array]:
            shared = stream(seed)
            return [_mixing(n, self.condition, shared) for n in (self.dimension, self.dimension_y)]

        def draw(agent: int) -> list[Array]:
            rng = stream(seed, agent)
            views = []
            stretch = np.exp(self.heterogeneity * rng.standard_normal(k))
            common = share * rng.standard_normal((self.samples, k))
            for mixing in mixings():
                factors = rng.standard_normal((self.samples, len(mixing)))
                factors[:, :k] *= rest
                factors[:, :k] += common
                factors[:, :k] *= stretch
                views.append(factors @ mixing)
            return views

        return draw


@dataclass(frozen=True, kw_only=True)
class CCASettings(TwoViews):
    """Canonical correlations of two views of real data, its samples divided over the agents, or of
    generated data.

    Parameters
    ----------
    ridge
        Added to the diagonals of the covariances, as a share of their mean eigenvalue: it bounds
        their condition.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.CCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(problem, do.CDADT(), "ring", iterations=200)
    >>> error = result.history["error"]
    >>> bool(error[-1] < error[0])
    True
    """

    ridge: NotNegative = 0.01

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples, or generates them."""

        def make(first: View, second: View, place: PooledPlace, ridge: float = self.ridge) -> CCA:
            names = {"the first view": first.columns, "the second view": second.columns}
            return CCA(first.rows, second.rows, self.rank, ridge=ridge, names=names, **place)

        def make_of_few(first: View, second: View, place: PooledPlace) -> CCA:
            return make(first, second, place, ridge=1.0)

        def more(m: int, n1: int, n2: int) -> int:
            return (n1 * n1 + n1 * n2 + n2 * n2) * forms_moments(m, n1, n2)

        return self._of_both(n_agents, seed, make, make_of_few, more)

    def features(self, n_agents: int, seed: int) -> Deferred:
        """The problem of agents that hold features of all samples: those of their own files, or
        consecutive columns of each view of one table, which each rank reads whole."""
        if (files := files_of_features(self, n_agents)) is not None:
            return self._own_features(files)
        source = self._source(1, seed)

        def build() -> SplitCCA:
            both = self._both(source, slice(0, 1), HERE)
            ((a,), _, x, _), ((b,), _, y, _) = both
            first, second = [self.ridge * float((view * view).mean()) for view in (a, b)]
            left, right = [by_features(view, n_agents) for view in (a, b)]
            problem = SplitCCA(left, right, self.rank, (first, second)).with_units((x, y))
            problem.about_columns = left_out(*both)
            return problem

        def made(agents: slice) -> SplitCCA:
            widths = self._widths(source)
            m = source.counts[0]
            among = Among.evenly(agents, n_agents, *widths)
            first, second = (random_features(m, among, agents, view) for view in (0, 1))
            problem = SplitCCA(first, second, self.rank, (1.0, 1.0), among=among)
            return problem.with_units(no_units(self, *widths))

        return split_features(n_agents, build, source.numbers, made, self.partition)

    def _own_features(self, files: Division) -> Deferred:
        """The problem of sites with features in files of their own, of one view or of both."""
        if not self.columns_y:
            raise ValueError(
                "with features in a file for each site the views are chosen by the names of their "
                "columns: give columns and columns_y"
            )
        chosen = self.columns, self.columns_y

        def build(agents: slice, collective: Collective) -> SplitCCA:
            found = features_of(files, agents, collective, self.key)
            sites = list(zip(found.samples, found.columns, strict=True))
            sides = [self._own_view(k, sites, chosen[k], collective) for k in (0, 1)]
            left, right = [[view.rows[0] for view in side] for side in sides]
            widths = [(a.shape[1], b.shape[1]) for a, b in zip(left, right, strict=True)]
            place = among(agents, widths, collective)
            squares = [
                [one for own in pair for one in (float(sums((own * own)[None])[0]), own.size)]
                for pair in zip(left, right, strict=True)
            ]
            first, a, second, b = collective.column_sums(np.array(squares)).tolist()
            ridges = self.ridge * first / max(a, 1.0), self.ridge * second / max(b, 1.0)
            with collective.together():
                problem = SplitCCA(left, right, self.rank, ridges, among=place)
                problem.about_columns = left_out(*sides[0], *sides[1])
                return problem

        return Deferred(files.n_agents, build, sites=files.sites, private=True)

    def _own_view(
        self,
        k: int,
        sites: Sequence[tuple[Array, tuple[str, ...]]],
        chosen: Sequence[str],
        collective: Collective,
    ) -> list[View]:
        """The columns of a view at each site here in the units of the view."""
        with collective.together():
            places = [[at for at, name in enumerate(own) if name in chosen] for _, own in sites]
            parts = [rows[:, at] for (rows, _), at in zip(sites, places, strict=True)]
            names = [[own[at] for at in here] for (_, own), here in zip(sites, places, strict=True)]
            each = [units([one], HERE, names=own) for one, own in zip(parts, names, strict=True)]
            squares = np.array(
                [[float(sums(one.scale[None] ** 2)[0]), len(one.scale)] for one in each]
            )
        total, count = collective.column_sums(squares).tolist()
        with collective.together():
            view = ("first", "second")[k]
            mean = total / max(count, 1.0)
            given = zip(parts, names, each, strict=True)
            return [self._kept(view, [one], own, found, mean) for one, own, found in given]


def left_out(*views: View) -> dict[str, str]:
    """The line about the columns that were left out of the views, if any were."""
    columns: dict[str, list[str]] = {}
    for view in views:
        for reason, names in view.left_out.items():
            if names:
                columns.setdefault(reason, []).append(names)
    words = [f"{', '.join(names)}: {reason}" for reason, names in columns.items()]
    return {"left out": "; ".join(words)} if words else {}


def _listed(view: str, names: Sequence[str], chosen: NDArray[np.bool_]) -> str:
    """The columns that are ``chosen``, by their names if they have any; empty for none."""
    places = np.flatnonzero(chosen).tolist()
    if places and not names:
        return f"{len(places)} of {len(chosen)} columns of the {view} view"
    words = [names[place] for place in places[:_LISTED]]
    if len(places) > _LISTED:
        words.append(f"and {len(places) - _LISTED} more")
    return ", ".join(words)


def _mixing(n: int, condition: float, rng: np.random.Generator) -> Array:
    """``(n, n)``: a random rotation, a geometric diagonal from 1 to condition^{-1/2}, and another
    rotation."""
    first, second = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (first * np.geomspace(1.0, condition**-0.5, n)) @ second


def _cut(rows: Sequence[Array], end: int) -> list[list[Array]]:
    """The columns of each agent before ``end``, and the others."""
    parts = slice(end), slice(end, None)
    return [[np.ascontiguousarray(a[:, part]) for a in rows] for part in parts]


def _halves(images: Sequence[Array], width: int | None) -> list[list[Array]]:
    """The left and the right halves of images, flattened; for an odd width the middle column goes
    to the right."""
    pixels = images[0].shape[1]
    across = width or math.isqrt(pixels)
    if pixels % across or (width is None and across * across != pixels) or across < 2:
        shape = f"made of rows of {width} pixels" if width else "square"
        raise ValueError(
            f"images of {pixels} pixels are not {shape}: give their width, or data_y with the "
            "second view"
        )
    grids = [image.reshape(len(image), -1, across) for image in images]
    halves = slice(across // 2), slice(across // 2, None)
    parts = [[grid[:, :, half].reshape(len(grid), -1) for grid in grids] for half in halves]
    return [list(map(np.ascontiguousarray, part)) for part in parts]
