"""Robust subspaces of data in one place, or held by agents that exchange only points.

The inliers, an unknown part of the samples, lie near a subspace through a location; the outliers are anywhere. The samples minus
the location, divided by their norms, lie on the unit sphere, and a subgradient method finds the directions orthogonal to the
subspace (`problems.RobustSubspaceRecovery`). They minimise the sum of the samples' distances from it, not of squared distances as
in principal component analysis. On the sphere distant samples have no more weight than others.

The location is the median of each feature; for agents, the mean of their medians, weighted by their numbers of samples.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from .. import problems
from ..numerics.threads import one_thread
from ..protocols import Array, Collective
from .base import check_components
from .nonsmooth import SubgradientEstimator


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
        The share of the first step to which steps shrink. Where inliers are near the subspace, and many enough, its error shrinks
        as they do.
    algorithm, step_size, max_iter, random_state
        As in all of `decentorth.estimators`; the default is DRSM, which is RSM for data in one place.

    Attributes
    ----------
    components_
        ``(n_components, d)``, orthonormal: the subspace's principal axes of the samples on the sphere, the longest first; the
        largest entry of each is positive.
    location_
        ``(d,)``.
    """

    _least_features = 2

    n_components: int | None = None
    _: KW_ONLY
    center: bool = True

    def _fit(self, agents: list[Array], W: Any) -> Self:
        n, d = len(agents), agents[0].shape[1]
        counts = np.array([len(x) for x in agents], dtype=np.float64)
        if self.n_components is None and d < 2:
            raise ValueError("a subspace needs samples with at least 2 features, got 1")
        rank = d - 1 if self.n_components is None else check_components(self.n_components, d - 1, "one less than the features")

        def build(own: slice, collective: Collective) -> tuple[problems.RobustSubspaceRecovery, Array]:
            location = np.zeros(d)
            if self.center:
                (medians,) = collective.sum(np.stack([len(x) * np.median(x, axis=0) for x in agents[own]]))
                location = medians / counts.sum()
            rows = [problems.on_sphere(x - location) for x in agents[own]]
            weights = (counts / counts.mean())[own]
            return problems.RobustSubspaceRecovery(rows, rank, weights=weights, n_agents=n, first_agent=own.start), location

        across, result, self.location_ = self._solve(n, build, W)
        with one_thread():
            basis = np.linalg.qr(across, mode="complete")[0][:, d - rank :]
            order = np.linalg.eigh(basis.T @ result.problem.moments @ basis)[1][:, ::-1]
            self._set_components((basis @ order).T)
        return self

    @property
    def _origin(self) -> Any:
        return self.location_

    def score_samples(self, X: Any) -> Array:
        """``(m,)``: minus the sine of the angle between a sample, seen from the location, and the subspace.

        The score is 0 for samples in the subspace and -1 for samples orthogonal to it: low scores mark outliers.
        """
        along = self.transform(X)
        seen = np.asarray(X, dtype=np.float64) - self.location_
        away = seen - along @ self.components_
        distances, lengths = np.linalg.norm(away, axis=1), np.linalg.norm(seen, axis=1)
        return -distances / np.where(lengths > 0.0, lengths, 1.0)
