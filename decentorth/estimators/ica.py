"""Independent component analysis of data in one place, in a stream of batches, or held by agents that exchange only points.

The samples are whitened by the covariance of all of them, and a method of the package minimises the mean of sum_k log cosh(s_k)
over the rotations s of the whitened samples (`problems.ICA`). That finds sources with heavier tails than Gaussian ones, while
FastICA, whose contrast has the same stationary points, also finds sources with lighter tails.

In batches the covariance B of the samples seen is kept, as large as the rotation, and each piece of 10 d samples makes one step of
Riemannian gradient descent in the natural metric of {x : x^T B x = I}: the online method of paper 003 (Vary, Ablin, Gao, Absil,
ICML 2024) with a rolling covariance, as landing would save no memory here, where x is as large as B. There B^{-1} = x x^T, and the
gradient is x skew(x^T G). After n samples the step is 4 (1 + n / (100 d))^{-1/2}; the points are averaged, each with three times
the weight of its piece, which favours the last ones
(Polyak & Juditsky, "Acceleration of stochastic approximation by averaging", SIAM Journal on Control and Optimization 1992).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from .. import problems
from ..problems.common import pooled
from ..protocols import Array, Collective
from .base import ComponentEstimator, RunningCovariance, check_components, signs

PIECE = 10
"""The number of samples in a piece of a batch, for each feature."""
STEP, DECAY = 4.0, 100
"""The first step, and the number of samples for each feature after which steps are shorter by the root of two."""
AVERAGED = 3.0
"""The weight of a piece's point in the average, relative to the piece's share of the samples."""


class Stream(NamedTuple):
    """The state of a stream of batches: the samples seen, the last point and the average of the last ones."""

    seen: RunningCovariance
    point: Array
    average: Array


@dataclass(eq=False, repr=False)
class ICA(ComponentEstimator):
    """Independent component analysis of sources with heavy tails.

    Agents' samples are whitened in advance, which takes the sum of their second moments over all agents.

    Parameters
    ----------
    n_components
        The number of sources and of principal components; by default the number of directions in which the samples vary.
    tol
        The gradient norm, and for agents their distance from one another too, to be reached, where the sources have variance 1.
    algorithm, step_size, max_iter, random_state
        As in all of `decentorth.estimators`; the default is RGD for data in one place, DRFGT for agents.

    Attributes
    ----------
    components_
        ``(n_components, d)``: from centred samples to sources of variance 1, those that explain most of the samples first.
    mixing_
        ``(d, n_components)``: its pseudo-inverse, from sources to centred samples; the largest entry of each column is positive.
    mean_
        ``(d,)``.
    n_samples_seen_
        The number of samples of all batches.
    """

    _own_samples = True

    n_components: int | None = None

    def _fit(self, agents: list[Array], W: Any) -> Self:
        n, counts = len(agents), np.array(self._counts, dtype=np.float64)
        rank = self.n_components
        check_components(rank, min(int(counts.sum()), self.n_features_in_), "the fewer of samples and features")

        def build(own: slice, collective: Collective) -> problems.ICA:
            mean = pooled.mean(agents[own], collective)
            mine = [x - mean for x in agents[own]]
            whiten = pooled.whitening(mine, rank, collective)
            self.mean_, self._whiten = mean, whiten
            white, weights = [x @ whiten for x in mine], (counts / counts.mean())[own]
            return problems.ICA(white, weights=weights, n_agents=n, first_agent=own.start)

        point, _ = self._solve(n, build, W)
        self._keep(int(counts.sum()), self.mean_, self._whiten @ point)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the fit with a batch of samples, ``(m, d)``, also after `fit`; there are as many sources as features.

        No samples are kept, only their mean, their covariance and two points, O(d^2) numbers. The first batch must vary in all
        directions.
        """
        first = "components_" not in vars(self)
        X = validate_data(self, X, dtype=np.float64, reset=first)
        d = X.shape[1]
        if (self.n_components if first else self.n_components_) not in (None, d):
            raise ValueError(
                f"in batches there must be as many sources as features, {d}, but n_components is {self.n_components}: leave it "
                "out, or reduce the features first (PCA has partial_fit too)"
            )
        if first:
            start = check_random_state(self.random_state).standard_normal((d, d))
            self._stream, self.n_iter_ = Stream(RunningCovariance.empty(d), start, start), 0
        stream = self._stream
        for rows in np.array_split(X, max(1, len(X) // (PIECE * d))):
            stream = _taken_in(stream, rows)
        seen = stream.seen
        self._keep(seen.samples, seen.mean, _projected(stream.average, seen.covariance))
        self._stream = stream
        self.n_iter_ += 1
        return self

    def _keep(self, samples: int, mean: Array, unmixing: Array) -> None:
        """Sort the columns of the unmixing matrix, ``(d, n_components)``, choose their signs, and set the attributes."""
        mixing = np.linalg.pinv(unmixing.T)
        order = np.argsort(-(mixing * mixing).sum(axis=0), kind="stable")
        flip = signs(mixing.T)[order]
        self.mean_, self.n_samples_seen_ = mean, samples
        self.mixing_ = mixing[:, order] * flip
        self.components_ = np.ascontiguousarray((unmixing[:, order] * flip).T)
        self.n_components_ = len(self.components_)
        seen = RunningCovariance(samples, mean, self.mixing_ @ self.mixing_.T)
        self._stream = Stream(seen, self.components_.T, self.components_.T)

    @property
    def _axes(self) -> Array:
        return self.mixing_.T


def _taken_in(stream: Stream, rows: Array) -> Stream:
    """The state after one step with a piece of a batch, ``(b, d)``."""
    before, d = stream.seen.samples, rows.shape[1]
    seen = stream.seen.joined(rows)
    if before == 0:
        pooled.root_inverse(seen.covariance, d)  # refused here where it is singular
    x, centred = _projected(stream.point, seen.covariance), rows - seen.mean
    along = x.T @ (centred.T @ np.tanh(centred @ x)) / len(rows)
    step = STEP * (1.0 + before / (DECAY * d)) ** -0.5
    point = _projected(x - x @ (0.5 * step * (along - along.T)), seen.covariance)
    weight = min(1.0, AVERAGED * len(rows) / seen.samples)
    return Stream(seen, point, stream.average + weight * (point - stream.average))


def _projected(x: Array, covariance: Array) -> Array:
    """The polar factor x (x^T B x)^{-1/2}, where x x^T is the inverse of B."""
    values, vectors = np.linalg.eigh(x.T @ covariance @ x)
    return x @ ((vectors / np.sqrt(values)) @ vectors.T)
