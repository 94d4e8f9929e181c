"""Principal component analysis of data in one place, in a stream of batches, or held by agents that exchange only points.

The components are the leading eigenvectors of the covariance of all samples. A method of the package finds their span, as the
minimiser of -1/2 tr(x^T C x) over St(d, r); the eigenvectors of x^T C x, a matrix of order r, turn it into components. For data in
one place scikit-learn's exact solvers are faster, and are taken unless a method is named: LAPACK, or ARPACK for a few components
of more than `DIRECT` samples and features. Sparse samples are never made dense.

Batches need no method. The estimator keeps the number n of samples seen, their mean, and their k = 2 r + 10 leading directions V
with singular values S; a batch of m samples, centred to A, whose mean lies at a distance g from the other, makes the singular value
decomposition of the rows S V^T, A and sqrt(n m / (n + m)) g^T (Ross, Lim, Lin, Yang, "Incremental learning for robust visual
tracking", International Journal of Computer Vision 2008, with k = r). That is exact while the samples' rank is at most k. Otherwise
the t-th batch is a gradient step of length 1 / (t lambda_i) for component i, so that any error in its direction falls as
t^-(1 - lambda_{k+1} / lambda_i): this is why more than r directions are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import sklearn.decomposition
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import problems
from ..numerics.threads import one_thread
from ..problems.common import pooled
from ..problems.common.pooled import HERE
from ..problems.features.split import same_samples
from ..problems.stiefel.pca import Weights
from ..protocols import Array, Collective
from .base import FLOATS, RunningCovariance, ScaledEstimator, by_features, check_components

DIRECT = 1000
"""The least number of samples or features above which ARPACK finds a few components faster than LAPACK finds all."""
FEW = 10
"""The ratio of all components to a few."""
TALL = 10
"""The ratio of samples to features from which the covariance is formed."""


class Components(problems.PCA):
    """The problem without its answer, the eigenvectors of the whole covariance, whose computation would cost most."""

    def prepare(self, collective: Collective) -> None:
        """The answer is left unknown."""


class SplitParts(problems.SplitPCA):
    """The problem of agents that hold features, without its answer."""

    def prepare(self, collective: Collective) -> None:
        """The answer is left unknown."""


class Variation(NamedTuple):
    """The mean and the sum of squares of all samples together."""

    mean: Array
    """``(d,)``: the mean of the samples."""
    samples: int
    squares: float
    """The sum of the squares of the centred entries."""


@dataclass(eq=False, repr=False)
class PCA(ScaledEstimator):
    """Principal component analysis.

    Parameters
    ----------
    n_components
        Number of components, or the share in (0, 1) of the variance that they must explain. By default the smaller of the
        numbers of samples and features.
    whiten
        True for coordinates of variance 1.
    weights
        Weight of agents' samples: ``"samples"`` counts every sample equally, ``"agents"`` every agent.
    tol
        Tolerance of the gradient norm, and for agents of their disagreement, for data of total variance 1. The angle to the answer
        is about tol over the gap of the explained variance ratios.
    algorithm
        Name or instance of a method. By default an eigensolver (LAPACK or ARPACK) for data in one place, and DeEPCA for
        agents.
    step_size
        Step size or schedule of the method. By default found from the data.
    max_iter
        Largest number of iterations.
    random_state
        Seed of the random start. An eigensolver ignores it.

    Attributes
    ----------
    components_
        ``(n_components, d)``, orthonormal, by falling variance; the largest entry of each is positive.
    explained_variance_, explained_variance_ratio_, singular_values_
        ``(n_components,)``.
    mean_
        ``(d,)``.
    noise_variance_
        The mean of the variances along the other directions in which samples can vary.
    n_samples_seen_
        The number of samples of all batches.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import PCA
    >>> X = np.random.default_rng(0).standard_normal((90, 6)) * np.arange(1, 7)
    >>> agents = np.array_split(X, 3)
    >>> pca = PCA(n_components=2, random_state=0).fit_agents(agents, "ring")
    >>> pooled = PCA(n_components=2).fit(X)
    >>> np.allclose(pca.explained_variance_, pooled.explained_variance_)
    True
    """

    _together = "deepca"

    n_components: int | float | None = None
    _: KW_ONLY
    whiten: bool = False
    weights: Weights = "samples"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the samples X, ``(m, d)``, dense or sparse; y is ignored.

        Raises
        ------
        ValueError
            A share of the variance, or sparse samples, with a method or a size for which there are none.
        """
        accepted = {"accept_sparse": ("csr", "csc"), "ensure_all_finite": self._finite, "ensure_min_samples": 2}
        X = validate_data(self, X, dtype=FLOATS, **accepted)
        if issparse(X) and self.algorithm != "auto":
            raise ValueError(f"sparse samples need algorithm='auto', got {self.algorithm!r}: or give X.toarray()")
        if issparse(X) and self._wanted.any:
            raise ValueError("sparse samples are neither scaled nor filled: leave scale and missing out, or give X.toarray()")
        X = X.astype(np.float64, copy=False)
        if self.algorithm == "auto":
            return self._fit_directly(X)
        self._counts = [len(X)]
        return self._fit([X], None)

    def fit_agents(
        self,
        agents: Iterable[Any],
        W: Any,
        split: Literal["samples", "features"] = "samples",
        *,
        warm_start: bool = False,
    ) -> Self:
        """Find the components of the samples that agents hold, by exchanges between neighbours.

        Parameters
        ----------
        agents
            X_i, ``(m_i, d)``, of each agent; with ``split="features"`` ``(m, d_i)``, each agent's features of the same samples, of
            which the components then have the order. Every sample has the same weight.
        W
            As for `solve`.
        split
            What is divided over the agents. For features the method is LOBPCG, and ``certificate_`` says how good the answer is
            (`decentorth.Certificate`).
        warm_start
            Start from the components of the last fit, for samples that have changed little; with samples divided. DeEPCA then
            has the momentum that suits the convergence of the last fit from a random start.

        Raises
        ------
        ValueError
            When dimensions differ, an entry is not finite, or W does not fit; names the agent.
        """
        if not by_features(split):
            checked = self._agents("X", self._entries(agents))
            return self._fit(checked, W, self._last(self.n_features_in_) if warm_start else None)
        if warm_start:
            raise ValueError("warm_start is for agents that hold samples, but split is 'features': leave it out")
        if self.weights != "samples":
            raise ValueError(f"agents that hold features have the same samples, so weights must be 'samples', got {self.weights!r}")
        if isinstance(self.n_components, float):
            raise ValueError(
                f"a share of the variance, n_components={self.n_components}, needs all eigenvalues, which agents that hold "
                "features do not find: give the number of components"
            )
        parts = same_samples("X", [*agents], missing=self._wanted.fill)
        self._units = None
        if self._wanted.any:
            cuts = np.cumsum([part.shape[1] for part in parts])[:-1]
            (whole,) = self._in_units([np.concatenate(parts, axis=1)], HERE)
            parts = list(map(np.ascontiguousarray, np.split(whole, cuts, axis=1)))
        m, d = len(parts[0]), sum([part.shape[1] for part in parts])
        rank = check_components(self.n_components, min(m, d), "the fewer of samples and features")
        means = [part.mean(axis=0) for part in parts]
        centred = [part - mean for part, mean in zip(parts, means, strict=True)]
        squares = sum([float((part * part).sum()) for part in centred])
        with one_thread():
            whole, certificate = self._solve_features(SplitParts([a * np.sqrt(m / (squares or 1.0)) for a in centred], rank), W)
        self.n_features_in_: int = d
        self._keep(Variation(np.concatenate(means), m, squares), whole.T, np.sqrt(np.maximum(certificate.values, 0.0) * squares))
        return self

    def partial_fit_agents(self, agents: Iterable[object], W: Any) -> Self:
        """Update the fit with a batch of each agent's samples: the answer is that for all samples seen.

        Each agent keeps the number, the mean and the covariance of its own samples, O(d^2) numbers. The run starts from the last
        components, as with ``warm_start``. The first call, and a call after another fit, starts a stream.

        Parameters
        ----------
        agents, W
            As for `fit_agents`; the agents are those of the last call.
        """
        self._no_batches()
        entries = self._entries(agents)
        batches, before, d = self._agents("X", entries), vars(self).get("_streams"), self.n_features_in_
        streams = before or [RunningCovariance.empty(d)] * len(batches)
        own = entries.collective.own
        known = len(streams), len(streams[own][0].mean)
        if known != (len(batches), d):
            raise ValueError(
                f"the stream has {known[0]} agents with {known[1]} features, got {len(batches)} with {d}: "
                "give the same, or start again with fit_agents"
            )
        joined: list[Any] = [None] * len(batches)
        with one_thread():  # the bits of products depend on the number of BLAS threads
            joined[own] = [seen.joined(rows) for seen, rows in zip(streams[own], batches[own], strict=True)]
        self._counts = entries._replace(own=own).joined([seen.samples for seen in joined[own]])
        self._fit(joined, W, self._last(d) if before else None, streams=True)
        self._streams: object = joined
        return self

    def _last(self, features: int) -> Array:
        """``(d, n_components)``: the components of the last fit, to start from; ValueError if they do not fit."""
        check_is_fitted(self)
        rank, d = self.components_.shape
        if d != features:
            raise ValueError(f"warm_start needs samples of {d} features, as in the last fit, got {features}: leave it out")
        if self.n_components != rank and not (self.n_components is None and rank == d):
            raise ValueError(
                f"warm_start continues from {rank} components, but n_components is {self.n_components}: set n_components={rank}, "
                "or leave warm_start out"
            )
        return np.ascontiguousarray(self.components_.T)

    def _fit_directly(self, X: Any) -> Self:
        """Fit to the samples, dense or sparse, by one of scikit-learn's exact solvers."""
        (m, d), most = X.shape, min(X.shape)
        rank: Any = self.n_components
        if not self._share:
            rank = check_components(rank, most, "the fewer of samples and features")
        self._units = None
        if not issparse(X):
            (X,) = self._in_units([X], HERE)
        mean = np.asarray(X.mean(axis=0)).ravel()
        solver = "covariance_eigh" if issparse(X) or m >= TALL * d else "full"
        if issparse(X) and d > DIRECT:
            if self._share or rank == most:
                raise ValueError(f"sparse samples of more than {DIRECT} features need a number of components below {most}")
            solver = "arpack"
        elif most > DIRECT and not self._share and FEW * rank <= most:
            solver = "arpack"
        with np.errstate(divide="ignore", invalid="ignore"):  # shares of no variance
            found = sklearn.decomposition.PCA(rank, svd_solver=solver, random_state=self.random_state).fit(X)
        for name in ("history_", "communication_"):
            self.__dict__.pop(name, None)
        self.n_iter_ = 1
        self._keep(Variation(mean, m, _squares(X, mean, issparse(X))), found.components_, found.singular_values_)
        return self

    @property
    def _share(self) -> bool:
        """True if n_components is a share of the variance."""
        return isinstance(self.n_components, float) and 0.0 < self.n_components < 1.0

    def _fit(self, agents: list[Any], W: Any, start: Array | None = None, streams: bool = False) -> Self:
        if self.weights not in get_args(Weights):
            raise ValueError(f"weights must be 'agents' or 'samples', got {self.weights!r}")
        n, count = len(agents), sum(self._counts)
        share: Any = self.n_components if self._share else None
        most = min(count, self.n_features_in_)
        fixed = None if share else check_components(self.n_components, most, "the fewer of samples and features")

        def build(own: slice, collective: Collective) -> Components:
            if streams:
                self._units = None
                mean, mine = _of_streams(agents[own], count, collective)
            else:
                mine = self._in_units(agents[own], collective)
                mean = pooled.mean(mine, collective)
                mine = [x - mean for x in mine]
            if self.weights == "agents":
                for x, m in zip(mine, self._counts[own], strict=True):
                    x *= np.sqrt(count / (n * m))
            squares = pooled.squares(mine, collective)
            for x in mine:
                x *= np.sqrt(n * len(x) / (squares or 1.0))  # so that they weigh the same, and have the total variance 1
            self._moments = Variation(mean, count, squares)
            rank = _explaining(share, mine, most, collective) if fixed is None else fixed
            return Components(mine, rank, weights="agents", n_agents=n, first_agent=own.start)

        method = self._method(n)
        if start is not None and self.algorithm == "auto":
            method = replace(method, momentum=vars(self).get("_ratio", 0.0))
        point, result = self._solve(n, build, W, start=start, method=method)
        if start is None:
            self._ratio = _contraction(self.history_)
        with one_thread():
            (gradient,) = result.collective.sum(result.problem.gradient(np.repeat(point[None], result.problem.n_local, axis=0)))
            values, vectors = np.linalg.eigh(-point.T @ gradient / n)
            components = (point @ vectors[:, ::-1]).T
        variance = np.maximum(values[::-1], 0.0)
        self._keep(self._moments, components, np.sqrt(variance * self._moments.squares))
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the fit with a batch of samples, ``(m, d)``, also after `fit`.

        No samples are kept, only ``2 n_components + 10`` directions and the mean, O(d n_components) numbers. The first batch must
        have at least ``n_components`` samples.
        """
        self._no_batches()
        first = "components_" not in vars(self)
        X = validate_data(self, X, dtype=np.float64, reset=first)
        batch, d = X.shape
        if first:
            rank = check_components(self.n_components, min(batch, d), "the fewer of features and samples of the first batch")
            before, kept, self.n_iter_ = Variation(np.zeros(d), 0, 0.0), np.empty((0, d)), 0
        else:
            before, kept, rank = self._moments, self._kept, self.n_components_
        mean = X.mean(axis=0)
        count, gap = before.samples + batch, mean - before.mean
        both = before.samples * batch / count
        rows = np.concatenate((kept, X - mean, np.sqrt(both) * gap[None]))
        _, singular, directions = np.linalg.svd(rows, full_matrices=False)
        squares = before.squares + float(((X - mean) ** 2).sum() + both * (gap @ gap))
        moments = Variation(before.mean + gap * (batch / count), count, squares)
        self._keep(moments, directions[:rank], singular[:rank])
        most = 2 * rank + 10
        self._kept: Array = singular[:most, None] * directions[:most]
        self.n_iter_ += 1
        return self

    def _keep(self, moments: Variation, components: Array, singular: Array) -> None:
        self._set_components(components)
        self._moments = moments
        self._streams = None
        self.mean_, self.n_samples_seen_ = self._pooled(moments.mean), moments.samples
        self.singular_values_ = singular
        self.explained_variance_ = singular**2 / max(moments.samples - 1, 1)
        self.explained_variance_ratio_ = singular**2 / (moments.squares or 1.0)
        rest = min(moments.samples, len(moments.mean)) - len(singular)
        beyond = max(moments.squares / max(moments.samples - 1, 1) - float(self.explained_variance_.sum()), 0.0)
        self.noise_variance_ = beyond / rest if rest > 0 else 0.0
        self._kept = singular[:, None] * self.components_

    @property
    def _lengths(self) -> Any:
        return np.maximum(np.sqrt(self.explained_variance_), np.finfo(np.float64).eps) if self.whiten else 1.0

    def score_samples(self, X: Any) -> Array:
        """``(m,)``: the log-likelihoods of samples under the Gaussian model of probabilistic principal component analysis.

        The covariance is that of the components, and ``noise_variance_`` in every other direction (Tipping & Bishop, Journal of the
        Royal Statistical Society B 1999).

        Raises
        ------
        ValueError
            Nothing varies in the other directions, or along a component: there is no density.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite=self._finite, reset=False)
        d, r, values, noise = X.shape[1], self.n_components_, self.explained_variance_, self.noise_variance_
        if values.min() <= 0.0 or (noise <= 0.0 and r < d):
            raise ValueError("there is no density where samples do not vary in some direction: ask for fewer components")
        centred = self._centred(X)
        along = (centred @ self.components_.T) ** 2
        scores: Array = -0.5 * (d * np.log(2.0 * np.pi) + np.log(values).sum() + (along / values).sum(axis=1))
        if r < d:
            scores = scores - 0.5 * ((d - r) * np.log(noise) + ((centred**2).sum(axis=1) - along.sum(axis=1)) / noise)
        return scores

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`; y is ignored."""
        return float(self.score_samples(X).mean())


def _of_streams(agents: Sequence[RunningCovariance], count: int, collective: Collective) -> tuple[Array, list[Array]]:
    """The mean of all ``count`` samples, and for each agent here rows with the products of its samples minus that mean."""
    mean = pooled.total(agents, len(agents[0].mean), lambda seen: seen.samples * seen.mean, collective.fold) / count
    mine = []
    for samples, own, covariance in agents:
        values, vectors = np.linalg.eigh(covariance)
        rows = np.vstack((np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, own - mean))
        mine.append(rows * np.sqrt(samples))
    return mean, mine


def _contraction(history: Mapping[str, Array]) -> float:
    """The factor by which the gradient norm fell in an iteration, over the second half of a run; 0 for fewer than 4 rows."""
    norms, iterations = history["gradient_norm"], history["iteration"]
    half = len(norms) // 2
    if half < 2 or not 0.0 < norms[-1] < norms[half]:
        return 0.0
    return float((norms[-1] / norms[half]) ** (1.0 / (iterations[-1] - iterations[half])))


def _explaining(share: float, scaled: Sequence[Array], most: int, collective: Collective) -> int:
    """The least number of components that explain more than this share of the variance of all agents' samples."""
    weighted = [x / np.sqrt(len(x)) for x in scaled]
    values = np.maximum(np.linalg.eigvalsh(pooled.gram(weighted, collective))[::-1], 0.0).cumsum()
    return min(int(np.searchsorted(values, share * values[-1], side="right")) + 1, most)


def _squares(X: Any, mean: Array, sparse: bool) -> float:
    """The sum of the squares of the centred entries."""
    if sparse:
        return float(X.multiply(X).sum() - X.shape[0] * (mean @ mean))
    return float(np.square(X - mean).sum())
