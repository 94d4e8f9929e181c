"""Linear discriminant analysis of data in one place, or held by agents that exchange only points
and products with scatters.

With S_b and S_w the scatters between and within classes, a method of the package finds the leading
eigenvectors of S_b v = w (S_b + S_w) v (`problems.PooledGEVP`). They are those of S_b v = w' S_w v,
w' = w / (1 - w), and of
``sklearn.discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen")``; w <= 1 keeps steps
long where classes are far apart. The samples are in units in which the least eigenvalue of S_b +
S_w is 1, so that the error of the directions is about ``tol`` over the gap of the w, whatever the
units and the condition.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import Any, Self

import numpy as np
from sklearn.utils import check_scalar
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from ..data.labels import agreed
from ..families.generalized.problems.gevp import PooledGEVP
from ..families.generalized.problems.lda import agent_scatters, class_means
from ..numerics.threads import one_thread
from ..problems.common.checks import class_cautions
from ..problems.common.division import placed
from ..problems.common.pooled_rows import root_inverse, symmetric_total
from ..protocols import Array, Collective
from .components import ComponentEstimator, pencil_images
from .estimator import Directions, check_components, signs

SINGULAR = 1e-14
"""The share of its largest eigenvalue up to which the least one of a scatter may be rounding."""


@dataclass(eq=False, repr=False)
class LDA(ComponentEstimator):
    """Linear discriminant analysis: the directions that separate the classes of labelled samples
    best.

    Parameters
    ----------
    n_components
        The number of directions; None takes all, one less than there are classes, and at most one
        for each feature.
    ridge
        Added to the scatter within classes, as a share of its mean eigenvalue; needed where
        features are constant within all classes or depend on each other.
    algorithm
        Name or instance of a method. By default that which fits the data and the network.
    step_size
        Step size or schedule of the method. By default found from the data.
    tol
        Tolerance of the gradient norm, and for agents of their disagreement.
    max_iter
        Largest number of iterations.
    random_state
        Seed of the random start.

    Attributes
    ----------
    components_
        ``(n_components, d)``: the directions, the most separating first, along which the variance
        within classes is 1 (with the ridge); the largest entry of each is positive.
    eigenvalues_
        ``(n_components,)``: the variance between classes along each, as a multiple of that within.
    classes_, priors_, means_
        The classes, their shares of the samples ``(k,)``, and their means ``(k, d)``.
    mean_
        ``(d,)``: the mean of all samples.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import LDA
    >>> y = np.repeat([0, 1, 2], 30)
    >>> X = np.random.default_rng(0).standard_normal((90, 4)) + 3 * np.eye(3, 4)[y]
    >>> LDA(n_components=2, random_state=0).fit(X, y).transform(X).shape
    (90, 2)
    """

    _centers = True

    n_components: int | None = None
    _: KW_ONLY
    ridge: float = 0.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def fit(self, X: object, y: object = None) -> Self:
        """Find the directions of the samples X, ``(m, d)``, of the classes y, ``(m,)`` numbers or
        texts."""
        samples, labels = validate_data(self, X, y, ensure_min_samples=2, **self._accepted)
        check_classification_targets(labels)
        samples = self._sized("X", samples)
        self.classes_ = np.unique(labels)
        self._counts = [len(samples)]
        return self._fit([samples], None, None, [labels])

    def fit_agents(self, agents: Iterable[Any], W: Any, *, warm_start: bool = False) -> Self:
        """Find the directions of all agents' samples together, as `PCA.fit_agents` finds
        components.

        ``agents`` holds one pair (X_i, y_i) per agent: ``(m_i, d)`` samples and ``(m_i,)``
        classes.

        Under ``mpirun`` None may stand for the pairs of other ranks. If each rank has one agent,
        its own pair alone is enough. Returns the fitted estimator.
        """
        entries = self._entries(agents, pairs=True, W=W, warm_start=warm_start)
        checked = self._agents("X", entries.part(0))
        own = entries.own
        labels: list[Any] = [None] * len(checked)
        with entries.together():
            labels[own] = [np.asarray(classes) for classes in entries.part(1).given[own]]
            for agent in range(own.start, own.stop):
                shape = labels[agent].shape
                m = len(checked[agent])
                if shape != (m,):
                    raise ValueError(
                        f"y of agent {agent} has shape {shape}, and X has {m} rows: give a class "
                        "for each row"
                    )
            every = np.concatenate(labels[own])
            check_classification_targets(every)
        known = entries.joined(np.unique(every).tolist())
        if len({isinstance(label, str) for label in known}) > 1:  # numbers at some, text at others
            texts = [classes.astype(np.str_) for classes in labels[own]]
            labels[own] = agreed(texts, entries.collective.everyone)
            known = entries.joined(np.unique(np.concatenate(labels[own])).tolist())
        self.classes_ = np.unique(known)
        return self._fit(checked, W, self._last(warm_start), labels)

    def _fit(
        self, agents: list[Array], W: Any, last: Directions = None, labels: Sequence[Any] = ()
    ) -> Self:
        check_scalar(self.ridge, "ridge", Real, min_val=0.0)
        n = len(agents)
        k = len(self.classes_)
        d = self.n_features_in_
        for caution in class_cautions(self.classes_):
            warnings.warn(caution, UserWarning, stacklevel=3)
        if k < 2:
            raise ValueError(
                f"LDA needs samples of 2 classes or more, got 1 class: {self.classes_[0]}"
            )
        most = "one less than classes, and the number of features"
        rank = check_components(self.n_components, min(k - 1, d), most)

        def build(own: slice, collective: Collective) -> PooledGEVP:
            mine = self._in_units(agents[own], collective, last is not None)
            numbers = [np.searchsorted(self.classes_, one) for one in labels[own]]
            moments = class_means(mine, numbers, k, collective)
            self.priors_ = moments[0] / moments[0].sum(-1)
            self.means_ = moments[1]
            between, within = agent_scatters(mine, numbers, moments, self.ridge, n, collective)
            whole = [b + w for b, w in zip(between, within, strict=True)]
            with one_thread():
                mean = symmetric_total(whole, d, np.asarray, collective) / n
                values = np.linalg.eigvalsh(mean)
            self._unit = 1.0
            if values[0] > SINGULAR * values[-1]:
                self._unit = values[0]
            between, whole = [[one / self._unit for one in part] for part in (between, whole)]
            return PooledGEVP(between, whole, rank, **placed(n, own, collective))

        point, result = self._solve(n, build, W, last=last)
        with one_thread():
            between, whole = pencil_images(point, result)
            within = whole - between
            root = root_inverse(point.T @ within, rank)
            values, turn = np.linalg.eigh(root.T @ point.T @ between @ root)
            turn = root @ turn[:, ::-1]
            self._origin = self.priors_ @ self.means_
            self.eigenvalues_ = values[::-1].copy()
            self.mean_, self.means_ = self._pooled(self._origin), self._pooled(self.means_)
            self._across = (within @ turn * signs((point @ turn).T)).T * np.sqrt(self._unit)
            self._set_components((point @ turn).T / np.sqrt(self._unit))
        return self

    @property
    def _axes(self) -> Array:
        return self._across
