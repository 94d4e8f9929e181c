"""Orthogonal dictionaries of data in one place, or held by agents that exchange only points.

For samples x = D s with an orthogonal dictionary D and sparse coefficients s, a subgradient method finds the orthonormal basis in
which the coefficients of all samples have the least l1 norm (`problems.OrthogonalDictionaryLearning`). From a random start it finds
D, up to the order and the signs of its atoms, with enough samples: about 10 n^1.5 for n features.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from .. import problems
from ..problems import Deferred, pooled
from ..protocols import Array, Collective
from .base import signs
from .nonsmooth import SubgradientEstimator


class OrthogonalDictionary(SubgradientEstimator):
    """The orthonormal basis in which samples are sparsest.

    Nothing is centred: the coefficients' mean should be about 0. For a dictionary that is not orthogonal, whiten first, or see
    `ICA`.

    Parameters
    ----------
    algorithm
        The name of a method, or one such as ``RSSM(blocks=3)``; auto: DRSM, which is RSM for data in one place.
    step_size
        The method's, where it is given by name; auto: the method's own.
    tol
        The share of the first step to which steps shrink; where there is a dictionary, the error shrinks as they do.
    max_iter
        The most iterations; a ConvergenceWarning says when they were too few.
    random_state
        The seed of the start. Under ``mpirun`` it must be a number.

    Attributes
    ----------
    components_
        ``(d, d)``, orthogonal: the atoms, those with the largest coefficients in the mean first; the largest entry of each is
        positive.
    sizes_
        ``(d,)``: the mean size of each atom's coefficients.
    n_components_, n_features_in_
        Numbers.
    n_iter_
        Iterations of the method.
    feature_names_in_
        Where the data had names.
    """

    def __init__(
        self,
        *,
        algorithm: Any = "auto",
        step_size: Any = "auto",
        tol: float = 1e-6,
        max_iter: int = 10_000,
        random_state: Any = None,
    ) -> None:
        super().__init__(algorithm=algorithm, step_size=step_size, tol=tol, max_iter=max_iter, random_state=random_state)

    def _fit(self, agents: list[Array], W: Any) -> Self:
        n, samples = len(agents), sum([len(x) for x in agents])

        def build(own: slice, collective: Collective) -> problems.OrthogonalDictionaryLearning:
            rows = pooled.normalized(agents[own], collective)
            return problems.OrthogonalDictionaryLearning(rows, n_agents=n, first_agent=own.start)

        solution = self._solve(Deferred(n, build), W)
        atoms = solution.point.T
        (sizes,) = solution.result.collective.sum(
            np.stack([np.abs(x @ atoms.T).sum(axis=0) for x in agents[solution.result.problem.agents]])
        )
        order = np.argsort(-sizes, kind="stable")
        self.sizes_ = sizes[order] / samples
        self.components_ = np.ascontiguousarray(atoms[order] * signs(atoms[order])[:, None])
        self.n_components_ = len(atoms)
        self.n_iter_ = solution.iterations
        return self

    @property
    def _origin(self) -> float:
        return 0.0
