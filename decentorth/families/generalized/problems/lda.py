"""Linear discriminant analysis as a generalized eigenvalue problem.

Fisher's discriminant directions of N labelled samples are the leading eigenvectors of S_b v = w B
v, where with N_c samples of class c, their mean m_c and the mean m of all

    S_b = sum_c (N_c / N) (m_c - m) (m_c - m)^T,    S_w = (1/N) sum_c sum_{i in c} (a_i - m_c) (a_i - m_c)^T,
    B = S_w + ridge (tr S_w / n) I

A feature that is constant within every class makes S_w singular, and the ridge, which is relative
to the mean eigenvalue, makes B positive definite. S_b has at most as many nonzero eigenvalues as
classes, minus one. Both are sums over all samples, hence means over the n agents of n times the
sums over their own: a `PooledGEVP`, for which agents add up counts and sums of each class once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decentorth.families.features.own_files import among, check_alike, features_of
from decentorth.families.features.split import (
    Among,
    SplitGEVP,
    by_features,
    random_features,
    split_features,
)
from decentorth.numerics.ordered_sums import sums
from decentorth.numerics.threads import one_thread
from decentorth.problems.common.division import (
    DividedSettings,
    Division,
    SampleFile,
    files_of_features,
    placed,
)
from decentorth.problems.common.pooled_rows import (
    HERE,
    Units,
    Wanted,
    centred,
    in_units,
    symmetric_total,
    total,
)
from decentorth.problems.deferred import Deferred, Outline, on_each_rank
from decentorth.protocols import Array, Collective, Index
from decentorth.settings import Count, NotNegative

from .gevp import GEVP, PooledGEVP

Classes = NDArray[Any]
"""The class of each sample, a number or a text."""
_SINGULAR = 1e-13
"""The share of the largest eigenvalue of correlations up to which one may be a rounding error."""
_ROUNDING = 8.0 * float(np.finfo(np.float64).eps)
"""The share of a feature's means up to which its deviation may be a rounding error."""


def scatters(samples: Array, classes: Classes) -> tuple[Array, Array]:
    """The scatters S_b and S_w, each ``(n, n)``, of the samples ``(N, n)`` with class labels
    ``(N,)`` of any kind."""
    n_samples, n = samples.shape
    samples = samples - samples.mean(axis=-2)  # far from 0 class means would lose digits
    mean = samples.mean(axis=-2)
    between = np.zeros((n, n))
    within = np.zeros((n, n))
    for label in np.unique(classes):
        own = samples[classes == label]
        centre = own.mean(axis=-2)
        own = own - centre
        within += own.T @ own
        away = (centre - mean)[:, None]
        between += len(own) * (away @ away.T)
    return between / n_samples, within / n_samples


def scatter_factors(samples: Array, classes: Classes) -> tuple[Array, Array]:
    """Y, ``(classes, n)``, and Z, ``(N, n)``, with S_b = Y^T Y and S_w = Z^T Z: each column is of
    one feature alone."""
    around = samples - samples.mean(axis=-2)  # far from 0 class means would lose digits
    samples = around.copy()
    mean = around.mean(axis=-2)
    away = []
    for label in np.unique(classes):
        own = classes == label
        centre = samples[own].mean(axis=-2)
        around[own] -= centre
        away.append(np.sqrt(np.count_nonzero(own) / len(samples)) * (centre - mean))
    return np.stack(away), around / np.sqrt(len(samples))


def class_means(
    samples: Sequence[Array], numbers: Sequence[Index], k: int, collective: Collective
) -> tuple[Array, Array]:
    """The number of samples ``(k,)`` and the mean ``(k, d)`` of each class, over all agents.

    ``samples`` are ``(m_i, d)`` of each agent here, ``numbers`` the classes of their rows,
    ``(m_i,)`` integers below k.
    """
    found = class_sums(samples, numbers, k, collective)
    return found[:, 0].copy(), found[:, 1:] / found[:, :1]


def class_sums(
    samples: Sequence[Array], numbers: Sequence[Index], k: int, collective: Collective
) -> Array:
    """``(k, 1 + d)``: the number and the sum of the samples of each class, over all agents."""
    d = samples[0].shape[1]

    def sums_of(own: tuple[Array, Index]) -> Array:
        member = (own[1] == np.arange(k)[:, None]).astype(np.float64)
        return np.column_stack((member.sum(-1), member @ own[0])).reshape(-1)

    with one_thread():  # the bits of products depend on the number of BLAS threads
        pairs = zip(samples, numbers, strict=True)
        return total(pairs, k * (d + 1), sums_of, collective).reshape(k, d + 1)


def agent_scatters(
    samples: Sequence[Array],
    numbers: Sequence[Index],
    moments: tuple[Array, Array],
    ridge: float,
    n_agents: int,
    collective: Collective,
) -> tuple[list[Array], list[Array]]:
    """The matrices ``(d, d)`` of each agent here whose means over all agents are S_b and S_w with
    its ridge.

    ``samples`` and ``numbers`` are those of `class_means`, which returned ``moments``.
    """
    counts, means = moments
    count = counts.sum(-1)
    d = means.shape[1]
    away = means - counts @ means / count
    weight = n_agents / count
    with one_thread():  # the bits of products depend on the number of BLAS threads
        apart = [away[own] for own in numbers]
        around = [a - means[own] for a, own in zip(samples, numbers, strict=True)]
        between, within = [[weight * (a.T @ a) for a in part] for part in (apart, around)]
    pooled = symmetric_total(within, d, np.asarray, collective) / n_agents
    added = ridge * np.trace(pooled) / d
    for own in (*within, pooled):
        own[np.diag_indices(d)] += added
    check_within(pooled, np.abs(means).max(-2))
    return between, within


def check_within(within: Array, size: Array) -> None:
    """Raise ValueError unless samples vary within their classes in every direction.

    ``within`` is S_w, ``(d, d)``, with its ridge; ``size`` the largest mean of each feature.
    """
    d = len(within)
    deviation = np.sqrt(np.diagonal(within))
    varies = deviation > _ROUNDING * size
    if not varies.any():
        raise ValueError(
            "all samples of a class are equal, so every direction between the means of the classes "
            "separates them, and no ridge= helps: give samples that vary within their classes"
        )
    known = np.where(varies, deviation, np.inf)
    with one_thread():
        values = np.linalg.eigvalsh(within / known / known[:, None])
    found = np.count_nonzero(values > _SINGULAR * values[-1])
    if found < d:
        raise ValueError(
            f"within their classes the samples vary in only {found} of {d} directions: give "
            "ridge=1e-2, or leave out features that are constant in each class or follow from "
            "others"
        )


@dataclass(frozen=True, kw_only=True)
class LDASettings(DividedSettings):
    """Linear discriminant analysis: the directions that separate the classes of labelled samples
    best.

    Parameters
    ----------
    rank
        How many directions; by default as many as there are, one less than classes.
    ridge
        Added to every eigenvalue of the within-class scatter, as a multiple of their mean.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.LDASettings(rank=2).problem(4, seed=0)
    >>> result = do.solve(problem, do.CDADT(), "ring", iterations=100)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    data: SampleFile = "digits"
    rank: Count | None = None
    ridge: NotNegative = 1e-2

    def idle(self) -> dict[str, str]:
        found = super().idle()
        return {name: found[name] for name in found if name not in ("labels", "label_column")}

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; with several agents the seed divides the samples."""
        source = Division([self.data], self, n_agents, seed)
        if n_agents > 1:

            def build(agents: slice, collective: Collective) -> PooledGEVP:
                (samples,) = source.read(agents, collective)
                samples, units = self._about_zero(samples, collective)
                source.units = source.units or units
                classes, known = self._agreed(source, agents, collective)
                with collective.together():
                    rank = self._directions(len(known))
                    numbers = [np.searchsorted(known, own) for own in classes]
                moments = class_means(samples, numbers, len(known), collective)
                pair = agent_scatters(samples, numbers, moments, self.ridge, n_agents, collective)
                problem = PooledGEVP(*pair, rank, **placed(n_agents, agents, collective))
                problem.classes = counted(known, moments[0])
                problem.columns = ((),)
                return problem

            def stand_in(rows: list[Array], agents: slice, collective: Collective) -> PooledGEVP:
                k = len(self._agreed(source, agents, collective)[1])
                rows, _ = self._about_zero(rows, collective)
                # added as for the true samples, so that the messages are counted
                class_sums(rows, [np.zeros(len(a), int) for a in rows], k, collective)
                between = [a.T @ a for a in rows]
                symmetric_total(between, rows[0].shape[1], np.asarray, collective)
                return PooledGEVP(
                    between,
                    [np.eye(a.shape[1]) for a in rows],
                    self.rank or k - 1,
                    **placed(n_agents, agents, collective),
                )

            def outline() -> Outline:
                d = source.width
                return Outline(copies=2.0, more=lambda own: 2 * d * d * len(own), made=stand_in)

            return source.deferred(build, outline)

        def one(rows: list[Array], agents: slice, collective: Collective) -> GEVP:
            return GEVP(rows[0].T @ rows[0], np.eye(rows[0].shape[1]), self._loaded_rank())

        def whole() -> Outline:
            m, n, beside = self._file().extent()[:3]
            return Outline([m], n, more=lambda own: 2 * n * n, made=one, beside=beside)

        return on_each_rank(1, lambda agents: self._made(), whole)

    def _agreed(
        self, source: Division, agents: slice, collective: Collective
    ) -> tuple[list[Classes], Classes]:
        """The classes of the samples of each agent in ``agents``, and the different classes of all
        agents, in order."""
        from decentorth.data.labels import agreed

        with collective.together():
            written = self._classes(source, agents)
        classes = agreed(written, collective.everyone)
        return classes, _known(classes, collective)

    def _about_zero(
        self, samples: list[Array], collective: Collective
    ) -> tuple[list[Array], tuple[Units, ...]]:
        """The samples minus their mean, far from 0 of which class means would lose digits, and
        these units; scaled samples stay as they are."""
        if self.wanted.scale:
            return samples, ()
        return in_units(samples, collective, Wanted(center=True))

    def _classes(self, source: Division, agents: slice) -> list[Classes]:
        """The classes of the samples of each agent in ``agents``; those of sites as they are
        written."""
        if not source.sites:
            every = self._labels(self._file())
            return [every[part] for part in source.parts[agents]]
        if self.labels is not None:
            raise ValueError("labels are of one file, not of sites: give label_column='NAME'")
        return [self._labels(self._file(file), True) for file in source.files[0][agents]]

    def features(self, n_agents: int, seed: int) -> Deferred:
        """The problem of agents that hold features of all samples: those of their own files, each
        with the labels, or consecutive columns of one file, which each rank reads whole."""
        if (files := files_of_features(self, n_agents)) is not None:
            return self._own_features(files)

        def build() -> SplitGEVP:
            samples, classes, rank, units = self._loaded()
            away, around = scatter_factors(samples, classes)
            ridge = self.ridge * float((around * around).sum()) / samples.shape[1]
            problem = SplitGEVP(
                by_features(away, n_agents), by_features(around, n_agents), rank, ridge
            ).with_units(units)
            problem.classes = counted(*np.unique(classes, return_counts=True))
            return problem

        def numbers() -> int:
            m, n = self._file().extent()[:2]
            return int(m * n)

        def made(agents: slice) -> SplitGEVP:
            m, n = self._file().extent()[:2]
            among = Among.evenly(agents, n_agents, n)
            rank = self._loaded_rank()
            between, within = (random_features(k, among, agents) for k in (rank + 1, m))
            problem = SplitGEVP(between, within, rank, 1.0, among=among)
            return problem.with_units((Units.none(n),))

        return split_features(n_agents, build, numbers, made)

    def _own_features(self, files: Division) -> Deferred:
        """The problem of sites with features in files of their own."""
        if self.labels is not None or self.label_column is None:
            raise ValueError(
                "with features in a file for each site every file needs the labels of its rows: "
                "give label_column='NAME', and no labels"
            )

        def build(agents: slice, collective: Collective) -> SplitGEVP:
            found = features_of(files, agents, collective, self.key)
            place = among(agents, [(len(a[0]),) for a in found.samples], collective)
            check_alike("labels", [str(own.tolist()) for own in found.labels], files, collective)
            with collective.together():
                samples = found.in_units(self.wanted)
                classes = found.labels[0]
                rank = self._directions(len(np.unique(classes)))
                pairs = [scatter_factors(own, classes) for own in samples]
            away, around = (list(part) for part in zip(*pairs, strict=True))
            squares = [[float(sums((one * one)[None])[0]), one.shape[1]] for one in around]
            trace, features = collective.column_sums(np.array(squares)).tolist()
            with collective.together():
                return SplitGEVP(away, around, rank, self.ridge * trace / features, among=place)

        return Deferred(files.n_agents, build, sites=files.sites, private=True)

    def _file(self, file: str | None = None) -> Any:
        return Division([file or self.data], self, 1, 0).views[0]

    def _loaded_rank(self) -> int:
        """The number of directions; the labels of the file are read for it, not the samples."""
        return self._directions(len(np.unique(self._labels(self._file()))))

    def _loaded(self) -> tuple[Array, Classes, int, tuple[Units, ...]]:
        """The samples, their classes, the number of directions, and the common units."""
        source = self._file()
        classes = self._labels(source)
        rank = self._directions(len(np.unique(classes)))
        every = [source.rows(np.arange(source.shape[0]))]
        (samples,), units = in_units(every, HERE, self.wanted, source.names)
        units = units or (centred(samples)[1],)
        return samples, classes, rank, units

    def _labels(self, source: Any, written: bool = False) -> Classes:
        """The classes of a file's samples, as they are ``written`` or typed."""
        from decentorth.data import load_labels

        classes = source.written if written else source.labels
        if self.labels is not None:
            classes = load_labels(self.labels)
        if classes is None:
            raise ValueError(f"{source.name} brings no labels: give labels, or label_column")
        if len(classes) != source.shape[0]:
            raise ValueError(
                f"{source.name} has {source.shape[0]} samples, but there are {len(classes)} labels"
            )
        return np.asarray(classes)

    def _directions(self, classes: int) -> int:
        """The number of directions; a ValueError where these classes have fewer."""
        most = classes - 1
        rank = self.rank or most
        if not 1 <= rank <= most:
            raise ValueError(f"{classes} classes have at most {most} directions, got rank {rank}")
        return rank

    def _made(self) -> GEVP:
        samples, classes, rank, units = self._loaded()
        between, within = scatters(samples, classes)
        n = len(within)
        whole = within + self.ridge * (np.trace(within) / n) * np.eye(n)
        check_within(whole, np.abs(samples).max(-2))
        problem = GEVP(between, whole, rank)
        problem.columns = ((),)
        problem = problem.with_units(units, [self._file().names])
        problem.classes = counted(*np.unique(classes, return_counts=True))
        return problem


def counted(known: Classes, counts: NDArray[Any]) -> dict[str, int]:
    """The number of samples of each class, by its name."""
    return {str(name): int(count) for name, count in zip(known, counts, strict=True)}


def _known(classes: Sequence[Classes], collective: Collective) -> Classes:
    """The different classes of all agents, in order."""
    own = np.unique(np.concatenate(classes)).tolist()
    every = [json.loads(text) for text in collective.everyone(json.dumps(own).encode())]
    return np.unique(np.array([label for part in every for label in part]))
