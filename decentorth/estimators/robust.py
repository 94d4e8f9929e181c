"""Estimators by subgradient methods: robust subspaces and orthogonal dictionaries, of data in one
place or held by agents.

A subgradient does not vanish at a minimiser, but the steps do: a run ends when they are the share
``tol`` of the first step. Where the minimum is sharp, as for subspaces and dictionaries, the error
is then of the order of ``tol`` times the initial error.

Robust subspaces. The inliers, an unknown part of the samples, lie near a subspace through a
location; the outliers are anywhere. The samples minus the location, divided by their norms, lie on
the unit sphere, and a subgradient method finds the directions orthogonal to the subspace
(`problems.RobustSubspaceRecovery`). They minimise the sum of the samples' distances from it, not of
squared distances as in principal component analysis. On the sphere distant samples have no more
weight than others. The location is the median of each feature; for agents, the mean of their
medians, weighted by their numbers of samples.

Orthogonal dictionaries. For samples x = D s with an orthogonal dictionary D and sparse coefficients
s, a subgradient method finds the orthonormal basis in which the coefficients of all samples have
the least l1 norm (`problems.OrthogonalDictionaryLearning`). From a random start it finds D, up to
the order and the signs of its atoms, with enough samples: about 10 n^1.5 for n features.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from .. import problems
from ..numerics.threads import one_thread
from ..problems.common import pooled_rows
from ..protocols import Array, Collective, Metric, Observed, Row, Stop
from ..stopping import Rule
from .components import ComponentEstimator
from .estimator import Directions, check_components


class StepShare:
    """The largest ratio of an agent's step to its first step, a column of the history."""

    columns = ("step_share",)

    def __call__(
        self, problem: object, state: Observed, collective: Collective
    ) -> tuple[float, ...]:
        """The ratio, the same on every rank."""
        return (collective.max(float((state.step_size / state.base).max())),)


@dataclass(frozen=True)
class StepsBelow(Rule):
    """Convergence when ``step_share`` is at or below a tolerance."""

    tolerance: float

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        share = row.values["step_share"]
        if not share <= self.tolerance:
            return None
        return Stop("converged", True, f"steps {share:.2e} <= {self.tolerance:g} of the first")


@dataclass(eq=False, repr=False, kw_only=True)
class SubgradientEstimator(ComponentEstimator):
    """An estimator whose methods are subgradient methods.

    A warm start takes as many rounds as another, since the steps decide: it keeps to the last
    answer where there are several.
    """

    tol: float = 1e-6

    _default: ClassVar[str] = "drsm"
    _slope: ClassVar[str] = "step_share"
    _metrics: ClassVar[tuple[Metric, ...]] = (StepShare(),)

    def _rule(self) -> Rule:
        if not 0.0 < self.tol < 1.0:
            raise ValueError(f"tol must be above 0 and below 1, got {self.tol}")
        return StepsBelow(self.tol)


@dataclass(eq=False, repr=False)
class RobustSubspace(SubgradientEstimator):
    """A subspace near most of the samples, robust against outliers.

    Agents' medians, and second moments for the start, are summed over all agents in advance.

    Parameters
    ----------
    n_components
        Dimension of the subspace, below the number of features; by default one less, a hyperplane.
    center
        True for a subspace through the samples' median, false for one through 0.
    tol
        The share of the first step to which steps shrink. Where inliers are near the subspace, and
        many enough, its error shrinks as they do.
    algorithm
        Name or instance of a method. By default DRSM, which is RSM for data in one place.
    step_size
        Step size or schedule of the method. By default found from the data.
    max_iter
        Largest number of iterations.
    random_state
        Seed of the random start.

    Attributes
    ----------
    components_
        ``(n_components, d)``, orthonormal: the subspace's principal axes of the samples on the
        sphere, the longest first; the largest entry of each is positive.
    location_
        ``(d,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import RobustSubspace
    >>> rng = np.random.default_rng(0)
    >>> inliers = rng.standard_normal((80, 2)) @ np.eye(2, 5)
    >>> X = np.vstack([inliers, 5 * rng.standard_normal((20, 5))])
    >>> plane = RobustSubspace(n_components=2, center=False, random_state=0).fit(X)
    >>> bool(np.abs(plane.components_[:, 2:]).max() < 0.1)
    True
    """

    _least_features = 2

    n_components: int | None = None
    _: KW_ONLY
    center: bool = True

    def _fit(self, agents: list[Array], W: Any, last: Directions = None) -> Self:
        n = len(agents)
        d = self.n_features_in_
        counts = np.array(self._counts, dtype=np.float64)
        if self.n_components is None and d < 2:
            raise ValueError("a subspace needs samples with at least 2 features, got 1")
        rank = check_components(self.n_components, d - 1, "one less than the features")

        def build(own: slice, collective: Collective) -> problems.RobustSubspaceRecovery:
            mine = self._in_units(agents[own], collective, last is not None)
            self._origin = np.zeros(d)
            if self.center:
                medians = collective.column_sums(np.stack([len(x) * np.median(x, 0) for x in mine]))
                self._origin = medians / counts.sum()
            rows = [problems.on_sphere(x - self._origin) for x in mine]
            weights = (counts / counts.mean())[own]
            self.location_ = self._pooled(self._origin)
            return problems.RobustSubspaceRecovery(
                rows, rank, weights=weights, n_agents=n, first_agent=own.start
            )

        across, result = self._solve(n, build, W, last=last)
        with one_thread():
            basis = np.linalg.qr(across, mode="complete")[0][:, d - rank :]
            order = np.linalg.eigh(basis.T @ result.problem.moments @ basis)[1][:, ::-1]
            self._set_components((basis @ order).T)
        return self

    def _point(self, last: Array, problem: object) -> Array:
        return np.linalg.qr(last.T, mode="complete")[0][:, len(last) :]

    def score_samples(self, X: object) -> Array:
        """``(m,)``: minus the sine of the angle between a sample, seen from the location, and the
        subspace.

        The score is 0 for samples in the subspace and -1 for samples orthogonal to it: low scores
        mark outliers.
        """
        along = self.transform(X)
        seen = self._centred(np.asarray(X, dtype=np.float64))
        away = seen - along @ self.components_
        distances = np.linalg.norm(away, axis=1)
        lengths = np.linalg.norm(seen, axis=1)
        return -distances / np.where(lengths > 0.0, lengths, 1.0)


class OrthogonalDictionary(SubgradientEstimator):
    """The orthonormal basis in which samples are sparsest.

    Nothing is centred without ``scale``: the coefficients' mean should be about 0. For a dictionary
    that is not orthogonal, whiten first, or see `ICA`.

    Parameters
    ----------
    tol
        The share of the first step to which steps shrink; where there is a dictionary, the error
        shrinks as they do.
    algorithm
        Name or instance of a method. By default DRSM, which is RSM for data in one place.
    step_size
        Step size or schedule of the method. By default found from the data.
    max_iter
        Largest number of iterations.
    random_state
        Seed of the random start.

    Attributes
    ----------
    components_
        ``(d, d)``, orthogonal: the atoms, those with the largest coefficients in the mean first;
        the largest entry of each is positive.
    sizes_
        ``(d,)``: the mean size of each atom's coefficients.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.estimators import OrthogonalDictionary
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.standard_normal((200, 4)) * (rng.random((200, 4)) < 0.3)
    >>> dictionary = OrthogonalDictionary(random_state=0).fit(codes).components_
    >>> np.allclose(dictionary @ dictionary.T, np.eye(4))
    True
    """

    def _fit(self, agents: list[Array], W: Any, last: Directions = None) -> Self:
        n = len(agents)
        samples = sum(self._counts)
        mine = list[Array]()

        def build(own: slice, collective: Collective) -> problems.OrthogonalDictionaryLearning:
            mine[:] = self._in_units(agents[own], collective, last is not None)
            rows = pooled_rows.normalized(mine, collective)
            return problems.OrthogonalDictionaryLearning(rows, n_agents=n, first_agent=own.start)

        point, result = self._solve(n, build, W, last=last)
        atoms = point.T
        (sizes,) = result.collective.sum(np.stack([np.abs(x @ point).sum(axis=0) for x in mine]))
        order = np.argsort(-sizes, kind="stable")
        self.sizes_ = sizes[order] / samples
        self._set_components(atoms[order])
        return self
