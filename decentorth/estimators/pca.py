"""Principal component analysis of data in one place, in a stream of batches, or held by agents that
exchange only points.

The components are the leading eigenvectors of the covariance of all samples. A method of the
package finds their span, as the minimiser of -1/2 tr(x^T C x) over St(d, r); the eigenvectors of
x^T C x, a matrix of order r, turn it into components. For data in one place exact solvers are
faster, and are taken unless a method is named: LAPACK, or, of more than `DIRECT` samples and
features, ARPACK for a few components and LAPACK on the Gram matrix for `SEVERAL`. Sparse samples
are never made dense.

Batches need no method. The estimator keeps the number n of samples seen, their mean, and their k =
2 r + 10 leading directions V with singular values S; a batch of m samples, centred to A, whose mean
lies at a distance g from the other, makes the singular value decomposition of the rows S V^T, A and
sqrt(n m / (n + m)) g^T (Ross, Lim, Lin, Yang, "Incremental learning for robust visual tracking",
International Journal of Computer Vision 2008, with k = r). That is exact while the samples' rank is
at most k. Otherwise the t-th batch is a gradient step of length 1 / (t lambda_i) for component i,
so that any error in its direction falls as t^-(1 - lambda_{k+1} / lambda_i): this is why more than
r directions are kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import scipy.linalg
import sklearn.decomposition
from scipy.sparse import issparse
from sklearn.utils.validation import check_is_fitted, validate_data

from .. import problems
from ..api import Result
from ..families.features.split import Among
from ..numerics.definite import SINGULAR
from ..numerics.threads import one_thread
from ..problems.common import pooled_rows
from ..problems.common.checks import Rows
from ..problems.common.pooled_rows import HERE, Units
from ..problems.common.sparse_rows import SparseRows
from ..problems.stiefel.pca import Weights
from ..protocols import Array, Collective
from .estimator import FLOATS, Directions, by_features, check_components, signs
from .streams import StreamEstimator, Streams

DIRECT = 1000
"""The least number of samples or features above which ARPACK finds a few components faster than
LAPACK finds all."""
SEVERAL = 100
"""The number of components from which LAPACK on the Gram matrix is faster than ARPACK on the
samples, whatever their spectrum."""
SMALL = 1e-6
"""The share of the first variance below which a Gram matrix gives at most ten digits of a
variance."""
FEW = 10
"""The ratio of all components to a few."""
FEWER = "the fewer of samples and features"
TALL = 10
"""The ratio of samples to features from which the covariance is formed."""


class Components(problems.PCA):
    """The problem without its answer, the eigenvectors of the whole covariance, whose computation
    would cost most."""

    offsets: Array | None = None
    """``(n_local, d, r)``: added to the products C_i x; the sum over all agents is 0."""

    def _take(self, local: Any) -> None:
        super()._take(local)
        if self.offsets is not None:
            self.offsets = self.offsets[local]

    def product(self, x: Array) -> Array:
        found = super().product(x)
        if self.offsets is not None:
            found += self.offsets
        return found

    def find_answer(self, collective: Collective) -> None:
        """The answer is left unknown."""


class SplitParts(problems.SplitPCA):
    """The problem of agents that hold features, without its answer."""

    def find_answer(self, collective: Collective) -> None:
        """The answer is left unknown."""


class Variation(NamedTuple):
    """The variation of all samples together, in the units of the method."""

    mean: Array
    """``(d,)``: the mean of the samples."""
    samples: int
    squares: float
    """The sum of the squares of the centred entries."""


@dataclass(eq=False, repr=False)
class PCA(StreamEstimator):
    """Principal component analysis.

    Parameters
    ----------
    n_components
        Number of components, or the share in (0, 1) of the variance that they must explain. By
        default the smaller of the numbers of samples and features.
    whiten
        True for coordinates of variance 1.
    weights
        Weight of agents' samples: ``"samples"`` counts every sample equally, ``"agents"`` every
        agent.
    tol
        Tolerance of the gradient norm, and for agents of their disagreement, for data of total
        variance 1. The angle to the answer is about tol over the gap of the explained variance
        ratios.
    algorithm
        Name or instance of a method. By default that which fits the data and the network.
    step_size
        Step size or schedule of the method. By default found from the data.
    max_iter
        Largest number of iterations.
    random_state
        Seed of the random start. An eigensolver ignores it.

    Attributes
    ----------
    components_
        ``(n_components, d)``, orthonormal, by falling variance; the largest entry of each is
        positive.
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

    _centers = True

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
            A share of the variance, or sparse samples, with a method or a size for which there are
            none.
        """
        accepted = {"accept_sparse": ("csr", "csc"), "ensure_min_samples": 2, "dtype": FLOATS}
        X = validate_data(self, X, **self._accepted | accepted)
        if issparse(X) and self.algorithm != "auto":
            raise ValueError(
                f"sparse samples need algorithm='auto', got {self.algorithm!r}: or give X.toarray()"
            )
        if issparse(X) and (self.scale or self._wanted.fill):
            raise ValueError(
                "sparse samples are neither scaled nor filled: leave scale and missing out, or "
                "give X.toarray()"
            )
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
            X_i, ``(m_i, d)``, of each agent, dense or sparse; with ``split="features"`` ``(m,
            d_i)``, each agent's features of the same samples, of which the components then have the
            order. Every sample has the same weight.
        W
            As for `solve`.
        split
            What is divided over the agents. For features the method is LOBPCG, and ``certificate_``
            says how good the answer is (`decentorth.Certificate`).
        warm_start
            Start from the components of the last fit, for samples that have changed little; with
            samples divided. DeEPCA then has the momentum that suits the convergence of the last fit
            from a random start.

        Raises
        ------
        ValueError
            When dimensions differ, an entry is not finite, or W does not fit; names the agent.
        """
        entries = self._entries(agents, W=W, split=split, warm_start=warm_start)
        if not by_features(split, warm_start):
            checked = self._agents("X", entries, sparse=True)
            return self._fit(checked, W, self._last(warm_start))
        if self.weights != "samples":
            raise ValueError(
                "agents that hold features have the same samples, so weights must be 'samples', "
                f"got {self.weights!r}"
            )
        if self._share:
            raise ValueError(
                f"a share of the variance, n_components={self.n_components}, needs all "
                "eigenvalues, which agents that hold features do not find: give the number of "
                "components"
            )
        parts = self._features("X", entries)
        found = [pooled_rows.units([part], HERE, scale=self.scale) for part in parts]
        if self.scale:
            pooled_rows.refuse_constant(np.concatenate([one.constant for one in found]))
        m = len(parts[0])
        centred = [one.standard(part) for one, part in zip(found, parts, strict=True)]
        squares = float(sum(entries.joined([float((part * part).sum()) for part in centred])))
        units = Units.side_by_side(entries.joined([one.listed() for one in found]))
        self._keep_units(units)
        self.n_features_in_: int = len(units.mean)
        rank = check_components(self.n_components, min(m, self.n_features_in_), FEWER)
        among = Among(entries.own.start, entries.joined([(part.shape[1],) for part in parts]))
        with one_thread():
            scaled = [part * np.sqrt(m / (squares or 1.0)) for part in centred]
            whole, _ = self._solve_features(SplitParts(scaled, rank, among=among), W)
        singular = np.sqrt(np.maximum(self.certificate_.values, 0.0) * squares)
        self._keep(Variation(np.zeros(self.n_features_in_), m, squares), whole.T, singular)
        return self

    def _fit_directly(self, X: Any) -> Self:
        """Fit to the samples, dense or sparse, by one of scikit-learn's exact solvers."""
        (m, d), most = X.shape, min(X.shape)
        sparse = issparse(X)
        rank: Any = self.n_components
        if not self._share:
            rank = check_components(rank, most, FEWER)
        if not sparse:
            X = self._sized("X", X)
        elif X.nnz:
            self._sized("X", X.data[None])
        if sparse:
            X, units = _near_zero(X)
            self._keep_units(units)
        elif self.scale or self._wanted.fill:
            (X,) = self._in_units([X], HERE)
        else:
            X, units = pooled_rows.centred(X)
            self._keep_units(units)
        mean = np.asarray(X.mean(axis=0)).ravel()
        entries = X.data if sparse else X
        squares = float(np.vdot(entries, entries) - m * (mean @ mean))
        solver = "covariance_eigh" if sparse or m >= TALL * d else "full"
        if sparse and d > DIRECT:
            if self._share or rank == most:
                raise ValueError(
                    f"sparse samples of more than {DIRECT} features need a number of components "
                    f"below {most}"
                )
            solver = "arpack"
        elif most > DIRECT and not self._share and FEW * rank <= most:
            solver = "arpack"
        found = None
        if most > DIRECT and not sparse and not self._share and rank >= SEVERAL:
            found = _leading(X, rank)
        if found is None:
            seed = self.random_state
            exact = sklearn.decomposition.PCA(
                rank, copy=False, svd_solver=solver, random_state=seed
            )
            with np.errstate(divide="ignore", invalid="ignore"):  # shares of no variance
                exact.fit(X)
            found = exact.components_, exact.singular_values_
        for name in ("history_", "communication_", "sent_"):
            self.__dict__.pop(name, None)
        self.n_iter_ = 1
        self._keep(Variation(mean, m, squares), *found)
        return self

    @property
    def _share(self) -> bool:
        """True if n_components is a share of the variance."""
        return isinstance(self.n_components, float) and 0.0 < self.n_components < 1.0

    def _fit(
        self, agents: list[Any], W: Any, last: Directions = None, streams: Streams = None
    ) -> Self:
        if self.weights not in get_args(Weights):
            raise ValueError(f"weights must be 'agents' or 'samples', got {self.weights!r}")
        n = len(agents)
        count = sum(self._counts)
        before: list[Array] = [] if last is None else self._answers[-3:]
        share: Any = self.n_components if self._share else None
        most = min(count, self.n_features_in_)
        fixed = None if share else check_components(self.n_components, most, FEWER)

        def build(own: slice, collective: Collective) -> Components:
            mine = self._rows(agents[own], collective, streams, last is not None)
            if self.weights == "agents":
                for x, m in zip(mine, self._counts[own], strict=True):
                    x *= np.sqrt(count / (n * m))
            squares = pooled_rows.squares(mine, collective)
            for x in mine:  # so that they weigh the same, and have the total variance 1
                x *= np.sqrt(n * len(x) / (squares or 1.0))
            self._moments = Variation(np.zeros(self.n_features_in_), count, squares)
            rank = _explaining(share, mine, most, collective) if fixed is None else fixed
            problem = Components(mine, rank, weights="agents", n_agents=n, first_agent=own.start)
            known = self._offsets
            if before and known is not None and known.shape == (problem.n_local, *problem.shape):
                problem.offsets = known
            return problem

        method = self._method(n)
        if before:
            last = forecast(before).T
            if self.algorithm == "deepca":
                method = replace(method, momentum=vars(self).get("_ratio", 0.0))
        point, result = self._solve(n, build, W, last=last, method=method)
        if not before:
            self._ratio = _contraction(self.history_)
        with one_thread():
            points = np.repeat(point[None], result.problem.n_local, axis=0)
            (gradient,) = result.collective.sum(result.problem.gradient(points))
            values, vectors = np.linalg.eigh(-point.T @ gradient / n)
            turn = vectors[:, ::-1] * signs((point @ vectors[:, ::-1]).T)
            components = (point @ turn).T
            offsets = _offsets(result, turn)
        variance = np.maximum(values[::-1], 0.0)
        self._keep(self._moments, components, np.sqrt(variance * self._moments.squares))
        self._answers = [*before, self.components_.T]
        self._offsets = offsets
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Update the fit with a batch of samples, ``(m, d)``, also after `fit`.

        No samples are kept, only ``2 n_components + 10`` directions and the mean, O(d n_components)
        numbers. The first batch must have at least ``n_components`` samples.
        """
        first = "components_" not in vars(self)
        X = validate_data(self, X, reset=first, **self._accepted)
        batch, d = X.shape
        if first:
            fewer = "the fewer of features and samples of the first batch"
            rank = check_components(self.n_components, min(batch, d), fewer)
            before = Variation(np.zeros(d), 0, 0.0)
            kept = np.empty((0, d))
            self.n_iter_ = 0
        else:
            before = self._moments
            kept = self._kept
            rank = self.n_components_
        X = self._batch(X, before.samples, before.mean)
        mean = X.mean(axis=0)
        count = before.samples + batch
        gap = mean - before.mean
        both = before.samples * batch / count
        rows = np.concatenate((kept, X - mean, np.sqrt(both) * gap[None]))
        squares = ((X - mean) ** 2).sum(axis=0) + both * gap**2
        total = before.squares + float(squares.sum())
        moments = Variation(before.mean + gap * (batch / count), count, total)
        if self.scale:
            rows /= self._rescaled(moments.mean, (before.samples + squares) / count)
            moments = Variation(np.zeros(d), count, float(count * d))
        _, singular, directions = np.linalg.svd(rows, full_matrices=False)
        self._keep(moments, directions[:rank], singular[:rank])
        most = 2 * rank + 10
        self._kept: Array = singular[:most, None] * directions[:most]
        self.n_iter_ += 1
        return self

    def _keep(self, moments: Variation, components: Array, singular: Array) -> None:
        self._set_components(components)
        self._moments = moments
        self._streams, self._answers, self._offsets = None, [self.components_.T], None
        self._origin = moments.mean
        self.mean_ = self._pooled(moments.mean)
        self.n_samples_seen_ = moments.samples
        self.singular_values_ = singular
        self.explained_variance_ = singular**2 / max(moments.samples - 1, 1)
        self.explained_variance_ratio_ = singular**2 / (moments.squares or 1.0)
        rest = min(moments.samples, len(moments.mean)) - len(singular)
        whole = moments.squares / max(moments.samples - 1, 1)
        beyond = max(whole - float(self.explained_variance_.sum()), 0.0)
        self.noise_variance_ = beyond / rest if rest > 0 else 0.0
        self._kept = singular[:, None] * self.components_

    @property
    def _lengths(self) -> Any:
        if not self.whiten:
            return 1.0
        return np.maximum(np.sqrt(self.explained_variance_), np.finfo(np.float64).eps)

    def score_samples(self, X: Any) -> Array:
        """``(m,)``: the log-likelihoods of samples under the Gaussian model of probabilistic
        principal component analysis.

        The covariance is that of the components, and ``noise_variance_`` in every other direction
        (Tipping & Bishop, Journal of the Royal Statistical Society B 1999).

        Raises
        ------
        ValueError
            Nothing varies in the other directions, or along a component: there is no density.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, **self._accepted)
        d = X.shape[1]
        r = self.n_components_
        values = self.explained_variance_
        noise = self.noise_variance_
        least = values.min() if r == d else min(values.min(), noise)
        if least <= SINGULAR * values.max():
            raise ValueError(
                "there is no density where samples do not vary in some direction: ask for fewer "
                "components"
            )
        centred = self._centred(X)
        along = (centred @ self.components_.T) ** 2
        constant = d * np.log(2.0 * np.pi) + np.log(values).sum()
        scores: Array = -0.5 * (constant + (along / values).sum(axis=1))
        if r < d:
            beyond = (centred**2).sum(axis=1) - along.sum(axis=1)
            scores = scores - 0.5 * ((d - r) * np.log(noise) + beyond / noise)
        return scores

    def score(self, X: object, y: object = None) -> float:
        """The mean of `score_samples`; y is ignored."""
        return float(self.score_samples(X).mean())


def forecast(answers: Sequence[Array]) -> Array:
    """``(d, r)``: the next of a series of orthonormal bases, from the last three.

    It is the last one plus the share of its last change that the change before predicts: 1 for a
    steady drift. Where answers only scatter around one place it is negative, and the forecast is
    nearer to their mean.
    """
    last = answers[-1]
    turned = [basis @ scipy.linalg.polar(basis.T @ last)[0] for basis in answers]
    if len(turned) < 3:
        return last
    before = turned[1] - turned[0]
    change = turned[2] - turned[1]
    share = float((before * change).sum() / max((before * before).sum(), np.finfo(np.float64).tiny))
    return last + min(max(share, -0.5), 1.0) * change


def _offsets(result: Result, turn: Array) -> Array | None:
    """The agents' trackers minus their own products, for the next start of DeEPCA; None for other
    methods."""
    state = result.state
    problem = result.problem
    if not hasattr(state, "behind"):
        return None
    found = state.tracker - state.field
    if problem.offsets is not None:
        found += problem.offsets
    return found @ turn


def _contraction(history: Mapping[str, Array]) -> float:
    """The factor by which the gradient norm fell in an iteration, over the second half of a run; 0
    for fewer than 4 rows."""
    norms = history["gradient_norm"]
    iterations = history["iteration"]
    half = len(norms) // 2
    if half < 2 or not 0.0 < norms[-1] < norms[half]:
        return 0.0
    return float((norms[-1] / norms[half]) ** (1.0 / (iterations[-1] - iterations[half])))


def _explaining(share: float, scaled: Sequence[Rows], most: int, collective: Collective) -> int:
    """The least number of components that explain more than this share of the variance of all
    agents' samples."""
    d = scaled[0].shape[1]
    with collective.together():
        if d > DIRECT and any(isinstance(x, SparseRows) for x in scaled):
            raise ValueError(
                f"sparse samples of more than {DIRECT} features need a number of components, got "
                f"the share n_components={share} of the variance of {d}"
            )
    weighted = [x / np.sqrt(len(x)) for x in scaled]
    values = np.maximum(
        np.linalg.eigvalsh(pooled_rows.gram(weighted, collective))[::-1], 0.0
    ).cumsum()
    return min(int(np.searchsorted(values, share * values[-1], side="right")) + 1, most)


def _leading(centred: Array, rank: int) -> tuple[Array, Array] | None:
    """The leading components ``(rank, d)`` of centred samples and their singular values, by LAPACK,
    from the smaller Gram matrix.

    None where the last variance is so small beside the first that the squares have lost its digits.
    """
    wide = centred.shape[0] < centred.shape[1]
    gram = centred @ centred.T if wide else centred.T @ centred
    n = len(gram)
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=[n - rank, n - 1], overwrite_a=True)
    if values[0] <= SMALL * values[-1]:
        return None
    singular = np.sqrt(values[::-1])
    found = vectors[:, ::-1].T
    if wide:
        found = found @ centred / singular[:, None]
    return found, singular


def _near_zero(X: Any) -> tuple[Any, Units]:
    """Sparse samples minus the means of the columns without zeros, and these units.

    Second moments then keep their digits far from 0: the square of the mean of any other column is
    at most its variance times the number of samples.
    """
    X = X.tocsc(copy=True)
    X.sum_duplicates()
    m, d = X.shape
    shift = np.where(np.diff(X.indptr) == m, np.asarray(X.mean(axis=0)).ravel(), 0.0)
    X.data -= np.repeat(shift, np.diff(X.indptr))
    return X, Units(shift, np.zeros(d), np.ones(d), ())
