"""Orthogonal dictionaries of data in one place, or held by agents that exchange only points.

For samples x = D s with an orthogonal dictionary D and sparse coefficients s, a subgradient method finds the orthonormal basis in
which the coefficients of all samples have the least l1 norm (`problems.OrthogonalDictionaryLearning`). From a random start it finds
D, up to the order and the signs of its atoms, with enough samples: about 10 n^1.5 for n features.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .. import problems
from ..problems.common import pooled
from ..protocols import Array, Collective
from .nonsmooth import SubgradientEstimator


class OrthogonalDictionary(SubgradientEstimator):
    """The orthonormal basis in which samples are sparsest.

    Nothing is centred: the coefficients' mean should be about 0. For a dictionary that is not orthogonal, whiten first, or see
    `ICA`.

    Parameters
    ----------
    tol
        The share of the first step to which steps shrink; where there is a dictionary, the error shrinks as they do.
    algorithm, step_size, max_iter, random_state
        As in all of `decentorth.estimators`; the default is DRSM, which is RSM for data in one place.

    Attributes
    ----------
    components_
        ``(d, d)``, orthogonal: the atoms, those with the largest coefficients in the mean first; the largest entry of each is
        positive.
    sizes_
        ``(d,)``: the mean size of each atom's coefficients.
    """

    def _fit(self, agents: list[Array], W: Any) -> Self:
        n, samples = len(agents), sum([len(x) for x in agents])

        def build(own: slice, collective: Collective) -> tuple[problems.OrthogonalDictionaryLearning, None]:
            rows = pooled.normalized(agents[own], collective)
            return problems.OrthogonalDictionaryLearning(rows, n_agents=n, first_agent=own.start), None

        point, result, _ = self._solve(n, build, W)
        atoms = point.T
        (sizes,) = result.collective.sum(np.stack([np.abs(x @ point).sum(axis=0) for x in agents[result.problem.agents]]))
        order = np.argsort(-sizes, kind="stable")
        self.sizes_ = sizes[order] / samples
        self._set_components(atoms[order])
        return self

    @property
    def _origin(self) -> Any:
        return 0.0
