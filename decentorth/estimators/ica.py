"""Independent component analysis of data in one place, in a stream of batches, or held by agents
that exchange only points.

The samples are whitened by the covariance of all of them, and a method of the package minimises the
mean of sum_k c_k log cosh(s_k) over the rotations s of the whitened samples (`problems.ICA`). The
sign c_k of each component is chosen from the samples as in extended Infomax: 1 for tails heavier
than Gaussian ones, -1 for lighter ones. A run starts at the basis at which `problems.ICA` chooses
them; in one place a fixed-point iteration goes before it, which a run of RGD certifies. If the signs at the answer differ, another run continues from there with the new ones.

In batches the covariance B of the samples seen is kept, as large as the rotation, and each piece of
10 d samples makes one step of Riemannian gradient descent in the natural metric of {x : x^T B x =
I}: the online method of paper 003 (Vary, Ablin, Gao, Absil, ICML 2024) with a rolling covariance,
as landing would save no memory here, where x is as large as B. There B^{-1} = x x^T, and the
gradient is x skew(x^T G). After n samples the step is 4 (1 + n / (100 d))^{-1/2}; the points are
averaged, each with three times the weight of its piece, which favours the last ones, and so are the
moments that give the signs (Polyak & Juditsky, "Acceleration of stochastic approximation by
averaging", SIAM Journal on Control and Optimization 1992).
"""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from .. import problems
from ..api.ledger_table import Sent
from ..families.generalized.problems.ica import kinds, moments, switching
from ..numerics.threads import one_thread
from ..problems.common import pooled_rows
from ..protocols import Array, Collective
from .components import ComponentEstimator
from .estimator import Directions, check_components, signs
from .streams import RunningCovariance

PIECE = 10
"""The number of samples in a piece of a batch, for each feature."""
STEP, DECAY = 4.0, 100
"""The first step, and the number of samples for each feature after which steps are shorter by the
root of two."""
AVERAGED = 3.0
"""The weight of a piece's point in the average, relative to the piece's share of the samples."""
BLOCK = 2048
"""The number of samples that are transformed at once, in cache."""
PATIENCE = 5
"""The number of fixed-point steps without a smaller gradient norm after which they end."""
TRIES = 5
"""The most runs with different signs."""
NEARLY = 0.01
"""The switching moment below which a component is nearly Gaussian; that of a logistic source is
0.06, of a uniform one -0.13."""
NOISE = 1.5
"""Three standard deviations of the running switching moment after n Gaussian samples, times the
root of n."""


class Sources(problems.ICA):
    """The problem with its start: the basis at which the signs were chosen.

    With a tolerance, for samples in one place, steps of a fixed-point iteration first bring the
    basis to a gradient norm of ``tol``. Around x the contrast of independent sources is

        f(x exp(E)) = f(x) + <S, E> + sum_{i<k} (c_i + c_k) E_ik^2 / 2

    with S the skew part of x^T G(x) and c the sizes of the switching moments, if the signs are
    theirs. Its minimum is E_ik = -2 S_ik / (c_i + c_k), as in FastICA.
    """

    tol: float | None = None
    steps = 0
    """The number of fixed-point steps."""

    def prepare(self, collective: Collective) -> None:
        super().prepare(collective)
        if self.basis is not None and self.tol is not None:
            with one_thread():
                self._improve(self.basis, self.tol)

    def start(self, seed: int) -> Array:
        return super().start(seed) if self.basis is None else self.basis

    def _improve(self, x: Array, tol: float) -> None:
        """Keep the basis of the least gradient norm and its signs; the norm may grow in the first
        steps."""
        least = np.inf
        since = 0
        while least > tol and since < PATIENCE:
            signs, skew, curvature = self._quadratic(x)
            norm = float(np.linalg.norm(skew))
            since += 1
            if norm < least:
                self.basis = x
                self.signs = signs
                least = norm
                since = 0
            pairs = np.maximum(curvature[:, None] + curvature, NEARLY)
            (x,) = self.constraint.project((x - x @ (2.0 * skew / pairs))[None])
            self.steps += 1

    def _quadratic(self, x: Array) -> tuple[Array, Array, Array]:
        """The signs at x, S, ``(n, n)``, and c, ``(n,)``."""
        product = np.zeros_like(x)
        square = np.zeros(len(x))
        for weight, z in self._weighted():
            for rows in np.array_split(z, 1 + len(z) // BLOCK):
                y = rows @ x
                bent = np.tanh(y)
                product += weight * (y.T @ bent)
                bent *= bent
                square += weight * (np.ones(len(bent)) @ bent)
        switch = 1.0 - square - np.diagonal(product)
        signs = kinds(switch)
        product *= signs
        return signs, 0.5 * (product - product.T), np.abs(switch)


class Stream(NamedTuple):
    """The state of a stream of batches: the samples seen, the last point, the average of the last
    ones, and their moments."""

    seen: RunningCovariance
    point: Array
    average: Array
    moments: Array
    """``(3, n)``: the means of `decentorth.families.generalized.problems.ica.moments`."""

    def rescaled(self, mean: Array, deviations: Array) -> Stream:
        """Return the state for samples after subtracting ``mean`` and dividing by
        ``deviations``."""
        seen = self.seen.rescaled(mean, deviations)
        factors = deviations[:, None]
        return Stream(seen, self.point * factors, self.average * factors, self.moments)


@dataclass(eq=False, repr=False)
class ICA(ComponentEstimator):
    """Independent component analysis of sources with heavier or lighter tails than Gaussian ones.

    A Gaussian or nearly Gaussian component is named in a warning, because its direction is not
    determined. The samples of agents are first whitened, which takes the sum of their second
    moments over all agents. Their signs take the sum of their fourth moments.

    Parameters
    ----------
    n_components
        The number of sources and of principal components; by default the number of directions in
        which the samples vary.
    tol
        Tolerance of the gradient norm, and for agents of their disagreement, for sources of
        variance 1.
    algorithm
        Name or instance of a method. By default that which fits the data and the network.
    step_size
        Step size or schedule of the method. By default found from the data.
    max_iter
        Largest number of iterations.
    random_state
        Seed of the random start.

    Attributes
    ----------
    components_
        ``(n_components, d)``: from centred samples to sources of variance 1, in decreasing order of
        the explained variance.
    mixing_
        ``(d, n_components)``: its pseudo-inverse, from sources to centred samples; the largest
        entry of each column is positive.
    signs_
        ``(n_components,)``: 1 for a source with heavier tails than Gaussian ones, -1 for lighter
        ones.
    mean_
        ``(d,)``: the mean of the samples.
    n_samples_seen_
        The number of samples of all batches.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import ICA
    >>> sources = np.random.default_rng(0).laplace(size=(500, 2))
    >>> X = sources @ [[1.0, 0.5], [0.3, 1.0]]
    >>> ICA(random_state=0).fit_transform(X).shape
    (500, 2)
    """

    _centers = True

    n_components: int | None = None

    def _fit(self, agents: list[Array], W: Any, last: Directions = None) -> Self:
        n = len(agents)
        counts = np.array(self._counts, dtype=np.float64)
        rank = self.n_components
        most = min(int(counts.sum()), self.n_features_in_)
        check_components(rank, most, "the fewer of samples and features")

        signs: Any = "data"
        basis: Array | None = None

        def build(own: slice, collective: Collective) -> Sources:
            mine = self._in_units(agents[own], collective, last is not None)
            self._whiten = pooled_rows.whitening(mine, rank, collective)
            white = [x @ self._whiten for x in mine]
            weights = (counts / counts.mean())[own]
            made = Sources(white, weights=weights, n_agents=n, first_agent=own.start, signs=signs)
            if W is None and self.algorithm == self.step_size == "auto":
                made.tol = self.tol
            made.basis = basis
            return made

        iterations = 0
        counts_sent = Counter[str]()
        bytes_sent = Counter[tuple[str, str, str]]()
        for _ in range(TRIES):
            point, result = self._solve(n, build, W, last=last)
            unmixing: Any = self._whiten @ point
            basis = point
            last = None
            iterations += self.n_iter_ + result.problem.steps
            counts_sent.update(self.communication_)
            bytes_sent.update({row[:3]: row.bytes for row in self.sent_})
            with one_thread():
                found = result.problem.moments(point, result.collective)
            signs = kinds(switching(found))
            if not result.converged or (signs == result.problem.signs).all():
                break
        self.n_iter_ = iterations
        self.communication_ = dict(counts_sent)
        self.sent_ = [Sent(*key, count // 8, count) for key, count in bytes_sent.items()]
        self._keep(int(counts.sum()), np.zeros(self.n_features_in_), unmixing, found)
        self._name_gaussian(level=4)
        return self

    def _point(self, last: Array, problem: object) -> Array:
        return np.linalg.pinv(self._whiten) @ last.T

    def _name_gaussian(self, level: int) -> None:
        """Warn of the components whose switching moment is that of a Gaussian one, or nearly so,
        from the caller at ``level``."""
        least = max(NEARLY, NOISE / np.sqrt(self.n_samples_seen_))
        found = np.flatnonzero(np.abs(switching(self._stream.moments)) < least).tolist()
        if found:
            names = ", ".join(f"ica{k}" for k in found)
            warnings.warn(
                (
                    f"ICA cannot separate nearly Gaussian sources: treat {names} as noise, or "
                    "give more samples"
                ),
                stacklevel=level,
            )

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the fit with a batch of samples, ``(m, d)``, also after `fit`; there are as many
        sources as features.

        No samples are kept, only their mean, their covariance and two points, O(d^2) numbers. The
        first batch must vary in all directions. Nearly Gaussian components are named once 22,500
        samples are seen.
        """
        first = "components_" not in vars(self)
        X = validate_data(self, X, reset=first, **self._accepted)
        d = X.shape[1]
        if (self.n_components if first else self.n_components_) not in (None, d):
            raise ValueError(
                f"in batches there must be as many sources as features, {d}, but n_components is "
                f"{self.n_components}: leave it out, or reduce the features first by PCA"
            )
        if first:
            start = check_random_state(self.random_state).standard_normal((d, d))
            self._stream = Stream(RunningCovariance.empty(d), start, start, np.zeros((3, d)))
            self.n_iter_ = 0
        stream = self._stream
        X = self._batch(X, stream.seen.samples, stream.seen.mean)
        for rows in np.array_split(X, max(1, len(X) // (PIECE * d))):
            stream = _taken_in(stream, rows)
        if self.scale:
            _, mean, covariance = stream.seen
            stream = stream.rescaled(mean, self._rescaled(mean, np.diagonal(covariance)))
        seen = stream.seen
        unmixing = _projected(stream.average, seen.covariance)
        self._keep(seen.samples, seen.mean, unmixing, stream.moments)
        if np.sqrt(seen.samples) * NEARLY >= NOISE:
            self._name_gaussian(level=3)
        self._stream = stream
        self.n_iter_ += 1
        return self

    def _keep(self, samples: int, mean: Array, unmixing: Array, found: Array) -> None:
        """Sort the columns of the unmixing matrix, ``(d, n_components)``, and their moments, and
        set the attributes."""
        mixing = np.linalg.pinv(unmixing.T)
        order = np.argsort(-(mixing * mixing).sum(axis=0), kind="stable")
        flip = signs(mixing.T)[order]
        self._origin = mean
        self.mean_ = self._pooled(mean)
        self.n_samples_seen_ = samples
        self.mixing_ = mixing[:, order] * flip
        self.components_ = np.ascontiguousarray((unmixing[:, order] * flip).T)
        self.n_components_ = len(self.components_)
        found = found[:, order]
        self.signs_ = kinds(switching(found))
        seen = RunningCovariance(samples, mean, self.mixing_ @ self.mixing_.T)
        self._stream = Stream(seen, self.components_.T, self.components_.T, found)

    @property
    def _axes(self) -> Array:
        return self.mixing_.T


def _taken_in(stream: Stream, rows: Array) -> Stream:
    """The state after one step with a piece of a batch, ``(b, d)``."""
    before = stream.seen.samples
    d = rows.shape[1]
    seen = stream.seen.joined(rows)
    if before == 0:
        pooled_rows.root_inverse(seen.covariance, d)  # refused here where it is singular
    x = _projected(stream.point, seen.covariance)
    centred = rows - seen.mean
    y = centred @ x
    weight = min(1.0, AVERAGED * len(rows) / seen.samples)
    found = stream.moments + weight * (moments(y) - stream.moments)
    along = x.T @ (centred.T @ (np.tanh(y) * kinds(switching(found)))) / len(rows)
    step = STEP * (1.0 + before / (DECAY * d)) ** -0.5
    point = _projected(x - x @ (0.5 * step * (along - along.T)), seen.covariance)
    return Stream(seen, point, stream.average + weight * (point - stream.average), found)


def _projected(x: Array, covariance: Array) -> Array:
    """The polar factor x (x^T B x)^{-1/2}, where x x^T is the inverse of B."""
    values, vectors = np.linalg.eigh(x.T @ covariance @ x)
    return x @ ((vectors / np.sqrt(values)) @ vectors.T)
