"""Linear discriminant analysis as a generalized eigenvalue problem.

Fisher's discriminant directions of N labelled samples are the leading eigenvectors of S_b v = w B v, where with N_c samples of
class c, their mean m_c and the mean m of all

    S_b = sum_c (N_c / N) (m_c - m) (m_c - m)^T,    S_w = (1/N) sum_c sum_{i in c} (a_i - m_c) (a_i - m_c)^T,
    B = S_w + ridge (tr S_w / n) I

A feature that is constant within every class makes S_w singular, and the ridge, which is relative to the mean eigenvalue, makes B
positive definite. S_b has at most as many nonzero eigenvalues as classes, minus one. As S_b and S_w are sums over all samples, the
problem is that of a single agent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...protocols import Array
from ...settings import Count, NotNegative
from ..base import Deferred, Outline, on_each_rank
from ..common.division import SampleFile, Tabular
from ..features.split import SplitGEVP, by_features, split_features
from .gevp import GEVP


def scatters(samples: Array, classes: NDArray[Any]) -> tuple[Array, Array]:
    """The scatters S_b and S_w, each ``(n, n)``, of the samples ``(N, n)`` with class labels ``(N,)`` of any kind."""
    n_samples, n = samples.shape
    mean = samples.mean(axis=-2)
    between, within = np.zeros((n, n)), np.zeros((n, n))
    for label in np.unique(classes):
        own = samples[classes == label]
        centre = own.mean(axis=-2)
        own = own - centre
        within += own.T @ own
        away = (centre - mean)[:, None]
        between += len(own) * (away @ away.T)
    return between / n_samples, within / n_samples


def scatter_factors(samples: Array, classes: NDArray[Any]) -> tuple[Array, Array]:
    """Y, ``(classes, n)``, and Z, ``(N, n)``, with S_b = Y^T Y and S_w = Z^T Z: each column is of one feature alone."""
    mean, away, around = samples.mean(axis=-2), [], samples.copy()
    for label in np.unique(classes):
        own = classes == label
        centre = samples[own].mean(axis=-2)
        around[own] -= centre
        away.append(np.sqrt(np.count_nonzero(own) / len(samples)) * (centre - mean))
    return np.stack(away), around / np.sqrt(len(samples))


@dataclass(frozen=True, kw_only=True)
class LDASettings(Tabular):
    """Linear discriminant analysis: the directions that separate the classes of labelled samples best.

    Parameters
    ----------
    labels
        File with one label per sample; bundled data, svmlight files and tables with label_column bring their own.
    rank
        How many directions; by default as many as there are, one less than classes.
    ridge
        Added to every eigenvalue of the within-class scatter, as a multiple of their mean.
    """

    data: SampleFile = "digits"
    labels: str | None = None
    rank: Count | None = None
    ridge: NotNegative = 1e-2

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed has no effect."""
        if n_agents > 1:
            raise ValueError(f"the scatter matrices of lda are sums over all samples, so n_agents must be 1, got {n_agents}")

        def outline() -> Outline:
            m, n = self._source().shape
            return Outline([m], n, more=lambda own: 2 * n * n)

        return on_each_rank(1, lambda agents: self._made(), outline)

    def features(self, n_agents: int, seed: int) -> Deferred:
        """The problem of agents that hold features, consecutive columns, of all samples; each rank reads all data."""

        def build() -> SplitGEVP:
            samples, classes, rank = self._loaded()
            away, around = scatter_factors(samples, classes)
            ridge = self.ridge * float((around * around).sum()) / samples.shape[1]
            return SplitGEVP(by_features(away, n_agents), by_features(around, n_agents), rank, ridge)

        def numbers() -> int:
            m, n = self._source().shape
            return int(m * n)

        return split_features(n_agents, build, numbers)

    def _source(self) -> Any:
        from ...data import Columns, resolve

        return resolve(self.data, Columns(*self.selected()))

    def _loaded(self) -> tuple[Array, NDArray[Any], int]:
        """The samples, their classes, and the number of directions."""
        from ...data import load_labels

        source = self._source()
        classes = source.labels if self.labels is None else load_labels(self.labels)
        if classes is None:
            raise ValueError(f"{self.data} brings no labels: give a file with one for each sample as labels, or label_column")
        if len(classes) != source.shape[0]:
            raise ValueError(f"{self.data} has {source.shape[0]} samples, but there are {len(classes)} labels")
        most = len(np.unique(classes)) - 1
        rank = self.rank or most
        if not 1 <= rank <= most:
            raise ValueError(f"{most + 1} classes have at most {most} discriminant directions, got rank {rank}")
        return source.rows(np.arange(source.shape[0])), np.asarray(classes), rank

    def _made(self) -> GEVP:
        samples, classes, rank = self._loaded()
        between, within = scatters(samples, classes)
        n = len(within)
        return GEVP(between, within + self.ridge * (np.trace(within) / n) * np.eye(n), rank)
