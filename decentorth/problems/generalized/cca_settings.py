"""The settings of canonical correlation analysis: two views of samples, from files or generated."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Literal, NamedTuple, Self

import numpy as np

from ...numerics.ordered_sums import sums
from ...protocols import Array, Collective
from ...settings import Condition, Count, NotNegative, Range, Share
from ..base import Deferred, Outline, stream
from ..common.division import DIVIDED, AgentSamples, Centred, Division, Generated, Named, SampleSource, even_counts, idle_data
from ..common.pooled import HERE, Units, Wanted, refuse_constant, units
from ..features.split import Among, SplitCCA, by_features, random_features, split_features
from .cca import CCA, forms_moments


class View(NamedTuple):
    """A view of the samples of some agents, the names or numbers of its columns, and its units."""

    rows: list[Array]
    columns: list[object]
    units: Units


@dataclass(frozen=True, kw_only=True)
class TwoViews(Centred, ABC):
    """Two views of real data, its samples divided over the agents, or of generated data.

    Parameters
    ----------
    data
        Images, whose left and right halves are the two views: the name of bundled data (digits) or a file with one image per row
        (idx and others). With data_y the first view itself. Or synthetic: Gaussian views with shared factors.
    data_y
        A file with the second view, row for row the samples of data.
    columns_y
        The names of the columns of the second view, in the table whose columns make the first.
    rank
        How many pairs of canonical directions.
    width
        Pixels in a row of an image; by default images are square.
    drop_constant
        Columns whose variance is at most this share of their view's mean variance are left out.
    scale
        Divide by standard deviations over all samples: columns, each column by its own; view, a view by the root of its columns'
        mean variance; or none. Without a word, as in other problems: each column by its own before any is left out.
    dimension, dimension_y
        Columns of the two views (synthetic data).
    correlation, decay
        The canonical correlations of the distribution are correlation decay^k, k = 0, 1, ... (synthetic data).
    condition
        Of the covariances of the distribution, whose eigenvalues fall geometrically (synthetic data).
    heterogeneity
        Standard deviation of the logarithms by which each agent stretches each pair of factors; the correlations of the
        distribution of all samples are the same in any case (synthetic data).

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

    data: str = "digits"
    data_y: str | None = None
    columns_y: tuple[str, ...] = ()
    rank: Count = 5
    width: Annotated[int, Range(least=2)] | None = None
    drop_constant: NotNegative = 1e-3
    scale: bool | Literal["columns", "view", "none"] = "columns"  # type: ignore[assignment]  # true means the same
    samples: AgentSamples = 1000
    dimension: Count = 10
    dimension_y: Count = 10
    correlation: Share = 0.9
    decay: Share = 0.8
    condition: Condition = 10.0
    heterogeneity: NotNegative = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data_y is not None and (self.data == "synthetic" or self.width is not None):
            raise ValueError(
                "data_y goes with a file in data, whose rows are then the first view: not with synthetic data, nor width"
            )
        if self.columns_y and (not self.columns or self.data_y is not None or self.width is not None):
            raise ValueError(
                "columns_y are the second view in the table of the first: give columns too, and neither data_y nor width"
            )
        if self.data == "synthetic" and self.rank > min(self.dimension, self.dimension_y):
            raise ValueError(
                f"rank must be at most dimension and dimension_y, {self.dimension} and {self.dimension_y}, got {self.rank}"
            )

    def selected(self) -> tuple[tuple[str, ...], str | None, bool, tuple[str, ...], bool]:
        columns, label, drop_missing, exclude, keep_missing = super().selected()
        return (*columns, *self.columns_y), label, drop_missing, exclude, keep_missing

    def idle(self) -> dict[str, str]:
        return super().idle() | idle_data(
            self.data != "synthetic",
            ("samples", "dimension", "dimension_y", "correlation", "decay", "condition", "heterogeneity"),
            (*[name for name in DIVIDED if name != "scale"], "columns_y"),
            "data synthetic",
        )

    def problem(self, n_agents: int, seed: int) -> Deferred:
        source = self._source(n_agents, seed)

        def build(agents: slice, collective: Collective) -> object:
            first, second = self._both(source, agents, collective)
            source.units = first.units, second.units
            return self._made(first, second, n_agents, agents.start, collective)

        def outline() -> Outline:
            widths = n1, n2 = self._widths(source)

            def made(rows: list[Array], agents: slice, collective: Collective) -> object:
                parts = ([np.ascontiguousarray(a[:, part]) for a in rows] for part in (slice(n1), slice(n1, None)))
                first, second = (View(part, [*range(d)], Units.none(d)) for part, d in zip(parts, widths, strict=True))
                return self._stand_in()._made(first, second, n_agents, agents.start, collective)

            def beside(own: Sequence[int]) -> int:
                return self._beside(own, n1, n2)

            return Outline(source.counts, n1 + n2, 2.0, beside, made, (n1 + n2) * self.rank, views=widths)

        return source.deferred(n_agents, build, outline)

    @abstractmethod
    def _made(self, first: View, second: View, n_agents: int, first_agent: int, collective: Collective) -> object:
        """The problem of the two views."""

    def _stand_in(self) -> Self:
        """The settings with which random samples make a problem of the same size."""
        return self

    def _beside(self, counts: Sequence[int], n1: int, n2: int) -> int:
        """The numbers that agents with these counts of samples hold beside them."""
        return 0

    def _source(self, n_agents: int, seed: int) -> SampleSource:
        """The samples of the file, or files, or generated ones."""
        if self.data == "synthetic":
            return Generated([self.samples] * n_agents, self.dimension + self.dimension_y, self._drawing(seed), self.wanted)
        files = [name for name in (self.data, self.data_y) if name is not None]
        return Division(files, self, n_agents, seed)

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
            return left[0].shape[1], right[0].shape[1]
        first = Division([self.data], self, 1, 0).width
        return first, source.width - first

    def _views(self, source: SampleSource, agents: slice, collective: Collective) -> list[Named]:
        """The two views of the agents' samples as they are, and the names of their columns."""
        views = source.found(agents, collective)
        with collective.together():
            if self.columns_y:
                own, names = len(self.columns), (self.columns, self.columns_y)
                parts = [[np.ascontiguousarray(a[:, part]) for a in views[0][0]] for part in (slice(own), slice(own, None))]
                return list(zip(parts, names, strict=True))
            if len(views) == 1:
                return [(half, ()) for half in _halves(views[0][0], self.width)]
        return views

    def _both(self, source: SampleSource, agents: slice, collective: Collective) -> list[View]:
        """Both views in their units, without constant columns."""
        views = zip(("first", "second"), self._views(source, agents, collective), strict=True)
        return [self._in_units(name, *view, collective) for name, view in views]

    def _in_units(self, name: str, view: list[Array], names: tuple[str, ...], collective: Collective) -> View:
        found = units(view, collective, names=names)
        variances = found.scale**2
        mean = float(sums(variances[None])[0]) / len(variances)
        if not mean > 0.0:
            raise ValueError(f"the {name} view is constant: all its {len(variances)} columns are the same in all samples")
        kept = variances > self.drop_constant * mean
        if self.scale is True:
            refuse_constant(found.constant, names)
            kept = ~found.constant
        whole, none = np.full(len(kept), np.sqrt(mean)), np.ones(len(kept))
        divisor = {"view": whole, "none": none, False: none}.get(self.scale, found.scale)
        found = found._replace(mean=found.mean[kept], rest=found.rest[kept], scale=divisor[kept])
        change = found.standard if self.center else lambda a: found.completed(a) / found.scale
        used = np.flatnonzero(kept).tolist()
        return View([np.ascontiguousarray(change(a[:, kept])) for a in view], [names[k] if names else k for k in used], found)

    def _drawing(self, seed: int) -> Callable[[int], list[Array]]:
        """An agent's Gaussian views: u_k = sqrt(c_k) z_k + sqrt(1 - c_k) e_k, v_k = sqrt(c_k) z_k + sqrt(1 - c_k) e'_k, mixed."""
        k = min(self.dimension, self.dimension_y)
        share = np.sqrt(self.correlation * self.decay ** np.arange(k))
        rest = np.sqrt(1.0 - share * share)

        @cache
        def mixings() -> list[Array]:
            shared = stream(seed)
            return [_mixing(n, self.condition, shared) for n in (self.dimension, self.dimension_y)]

        def draw(agent: int) -> list[Array]:
            rng, views = stream(seed, agent), []
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
    """Canonical correlations of two views of real data, its samples divided over the agents, or of generated data.

    Parameters
    ----------
    ridge
        Added to the diagonals of the covariances, as a share of their mean eigenvalue: it bounds their condition.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.CCASettings(data="synthetic", ridge=0.1)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(problem, do.CDADT(), "ring", iterations=200)
    >>> error = result.history["error"]
    >>> bool(error[-1] < error[0])
    True
    """

    ridge: NotNegative = 0.01

    def _made(self, first: View, second: View, n_agents: int, first_agent: int, collective: Collective) -> CCA:
        return CCA(
            first[0],
            second[0],
            self.rank,
            ridge=self.ridge,
            names={"the first view": first[1], "the second view": second[1]},
            n_agents=n_agents,
            first_agent=first_agent,
            collective=collective,
        )

    def _stand_in(self) -> Self:
        return replace(self, ridge=1.0)

    def _beside(self, counts: Sequence[int], n1: int, n2: int) -> int:
        return (n1 * n1 + n1 * n2 + n2 * n2) * sum(forms_moments(m, n1, n2) for m in counts)

    def features(self, n_agents: int, seed: int) -> Deferred:
        """The problem of agents that hold features, consecutive columns of each view, of all samples; each rank reads all data."""
        source = self._source(1, seed)

        def build() -> SplitCCA:
            ((a,), _, x), ((b,), _, y) = self._both(source, slice(0, 1), HERE)
            first, second = [self.ridge * float((view * view).mean()) for view in (a, b)]
            left, right = [by_features(view, n_agents) for view in (a, b)]
            return SplitCCA(left, right, self.rank, (first, second)).with_units((x, y))

        def made(agents: slice) -> SplitCCA:
            widths = [even_counts(d, n_agents) for d in self._widths(source)]
            first, second = (random_features(source.counts[0], own, agents) for own in widths)
            problem = SplitCCA(first, second, self.rank, (1.0, 1.0), among=Among(agents.start, list(zip(*widths, strict=True))))
            return problem.with_units(tuple(map(Units.none, self._widths(source))))

        return split_features(n_agents, build, source.numbers, made, self.partition)


def _mixing(n: int, condition: float, rng: np.random.Generator) -> Array:
    """``(n, n)``: a random rotation, a geometric diagonal from 1 to condition^{-1/2}, and another rotation."""
    first, second = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    return (first * np.geomspace(1.0, condition**-0.5, n)) @ second


def _halves(images: list[Array], width: int | None) -> list[list[Array]]:
    """The left and the right halves of images, flattened; for an odd width the middle column goes to the right."""
    pixels = images[0].shape[1]
    across = width or math.isqrt(pixels)
    if pixels % across or (width is None and across * across != pixels) or across < 2:
        shape = f"made of rows of {width} pixels" if width else "square"
        raise ValueError(
            f"images of {pixels} pixels are not {shape}: give their width, or data_y with the second view in a file of its own"
        )
    grids = [image.reshape(len(image), -1, across) for image in images]
    halves = slice(across // 2), slice(across // 2, None)
    return [[np.ascontiguousarray(grid[:, :, half].reshape(len(grid), -1)) for grid in grids] for half in halves]
