"""Principal component analysis of data in one place, in a stream of batches, or held by agents that exchange only points.

The components are the leading eigenvectors of the covariance of all samples. A method of the package finds their span, as the
minimiser of -1/2 tr(x^T C x) over St(d, r); the eigenvectors of x^T C x, a matrix of order r, turn it into components.

Batches need no method. The estimator keeps the number n of samples seen, their mean, and their k = 2 r + 10 leading directions V
with singular values S; a batch of m samples, centred to A, whose mean lies at a distance g from the other, makes the singular value
decomposition of the rows S V^T, A and sqrt(n m / (n + m)) g^T (Ross, Lim, Lin, Yang, "Incremental learning for robust visual
tracking", International Journal of Computer Vision 2008, with k = r). That is exact while the samples' rank is at most k. Otherwise
the t-th batch is a gradient step of length 1 / (t lambda_i) for component i, so that any error in its direction falls as
t^-(1 - lambda_{k+1} / lambda_i): this is why more than r directions are kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits

from .. import problems
from ..problems.common import pooled
from ..protocols import Array, Collective
from .base import ComponentEstimator, check_components


class Components(problems.PCA):
    """The problem without its answer, the eigenvectors of the whole covariance, whose computation would cost most."""

    def prepare(self, collective: Collective) -> None:
        """The answer is left unknown."""


class Moments(NamedTuple):
    """The mean and the sum of squares of all samples together."""

    mean: Array
    """``(d,)``: the mean of the samples."""
    samples: int
    squares: float
    """The sum of the squares of the centred entries."""


@dataclass(eq=False, repr=False)
class PCA(ComponentEstimator):
    """Principal component analysis.

    Parameters
    ----------
    n_components
        The number of components; by default the smaller of the numbers of samples and features.
    tol
        The gradient norm, and for agents their distance from one another too, to be reached, where the samples have a total
        variance of 1: the angle to the answer is about tol over the gap of the explained variance ratios.
    algorithm, step_size, max_iter, random_state
        As in all of `decentorth.estimators`; the default is RGD for data in one place, DeEPCA for agents.

    Attributes
    ----------
    components_
        ``(n_components, d)``, orthonormal, by falling variance; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_, singular_values_
        ``(n_components,)``.
    mean_
        ``(d,)``.
    n_samples_seen_
        The number of samples of all batches.
    """

    _together = "deepca"

    n_components: int | None = None

    def _fit(self, agents: list[Array], W: Any) -> Self:
        n, count = len(agents), sum([len(x) for x in agents])
        rank = check_components(self.n_components, min(count, agents[0].shape[1]), "the fewer of samples and features")

        def build(own: slice, collective: Collective) -> tuple[Components, Moments]:
            mean = pooled.mean(agents[own], collective)
            mine = [x - mean for x in agents[own]]
            squares = pooled.squares(mine, collective)
            for x in mine:
                x *= np.sqrt(n * len(x) / (squares or 1.0))  # so that samples weigh the same, and have the total variance 1
            return Components(mine, rank, n_agents=n, first_agent=own.start), Moments(mean, count, squares)

        point, result, moments = self._solve(n, build, W)
        with threadpool_limits(1):
            (gradient,) = result.collective.sum(result.problem.gradient(np.repeat(point[None], result.problem.n_local, axis=0)))
            values, vectors = np.linalg.eigh(-point.T @ gradient / n)
            components = (point @ vectors[:, ::-1]).T
        variance = np.maximum(values[::-1], 0.0)
        self._keep(moments, components, np.sqrt(variance * moments.squares))
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the fit with a batch of samples, ``(m, d)``, also after `fit`.

        No samples are kept, only ``2 n_components + 10`` directions and the mean, O(d n_components) numbers. The first batch must
        have at least ``n_components`` samples.
        """
        first = not hasattr(self, "components_")
        X = validate_data(self, X, dtype=np.float64, reset=first)
        batch, d = X.shape
        if first:
            rank = check_components(self.n_components, min(batch, d), "the fewer of features and samples of the first batch")
            before, kept, self.n_iter_ = Moments(np.zeros(d), 0, 0.0), np.empty((0, d)), 0
        else:
            before, kept, rank = self._moments, self._kept, self.n_components_
        mean = X.mean(axis=0)
        count, gap = before.samples + batch, mean - before.mean
        both = before.samples * batch / count
        rows = np.concatenate((kept, X - mean, np.sqrt(both) * gap[None]))
        _, singular, directions = np.linalg.svd(rows, full_matrices=False)
        squares = before.squares + float(((X - mean) ** 2).sum() + both * (gap @ gap))
        moments = Moments(before.mean + gap * (batch / count), count, squares)
        self._keep(moments, directions[:rank], singular[:rank])
        most = 2 * rank + 10
        self._kept: Array = singular[:most, None] * directions[:most]
        self.n_iter_ += 1
        return self

    def _keep(self, moments: Moments, components: Array, singular: Array) -> None:
        self._set_components(components)
        self._moments = moments
        self.mean_, self.n_samples_seen_, _ = moments
        self.singular_values_ = singular
        self.explained_variance_ = singular**2 / max(moments.samples - 1, 1)
        self.explained_variance_ratio_ = singular**2 / (moments.squares or 1.0)
        self._kept = singular[:, None] * self.components_
