"""Problems whose constraint is distributed: each agent has its own A_i and its own B_i, and B is
the mean of these."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg

from decentorth.protocols import Array
from decentorth.sets import GeneralizedStiefel, Product
from tests.reference import naive
from tests.support.generalized import TraceProblem


class OwnMatrices(TraceProblem):
    """f_i(x) = -1/2 tr(x^T A_i x) over {x : x^T B x = I}, B the mean of the B_i; each x has its
    factors' rows one below the other.

    Parameters
    ----------
    A, B
        ``(n, d, d)``; the B_i block-diagonal.
    p
        Columns of a point.
    orders
        Rows of the factors of a product of sets; by default one.
    """

    constraint: Any

    def __init__(self, A: Array, B: Array, p: int, orders: Sequence[int] = ()) -> None:
        self.A, self.B, mean = A, B, naive.mean(B)
        bounds = np.cumsum([0, *orders])
        blocks = [mean[a:b, a:b] for a, b in pairwise(bounds.tolist())] or [mean]
        parts = [GeneralizedStiefel(block, p) for block in blocks]
        super().__init__(len(A), slice(0, len(A)), Product(*parts) if len(parts) > 1 else parts[0])
        self.lipschitz = np.abs(np.linalg.eigvalsh(A)).max(-1)

    def _take(self, local: slice) -> None:
        self.A, self.B, self.lipschitz = self.A[local], self.B[local], self.lipschitz[local]

    def local_product(self, x: Array) -> Array:
        return self.B @ x

    def local_diagonal(self) -> Array:
        return np.diagonal(self.B, axis1=-2, axis2=-1).copy()

    def naive_gradients(self) -> list[naive.Gradient]:
        """Each agent's, as functions of its point."""
        return [partial(np.matmul, -a) for a in self.A]

    def optimum(self) -> Array:
        """``(d, p)``: the leading eigenvectors of the pencil of the means, for one factor."""
        n = self.shape[0]
        return scipy.linalg.eigh(
            naive.mean(self.A), naive.mean(self.B), subset_by_index=[n - self.shape[1], n - 1]
        )[1]


def gram(rows: Array) -> Array:
    """rows^T rows / len(rows)."""
    return rows.T @ rows / len(rows)


def own_pencils(
    n: int = 5, d: int = 9, p: int = 2, condition: float = 30.0, seed: int = 0
) -> OwnMatrices:
    """Samples whose second moments A_i and B_i are, few and different for each agent: no B_i alone
    is regular.

    The samples of B have variances that fall geometrically from 1 to 1 / condition in random
    directions, those of A stand out in p.
    """
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    mixing = (turn * np.geomspace(1.0, condition**-0.5, d)) @ turn.T
    loud = np.where(np.arange(d) < p, 2.0, 0.7)
    few = max(2, d // 2)
    A = [
        gram(rng.standard_normal((3 * d, d)) * loud @ mixing * rng.uniform(0.7, 1.3))
        for _ in range(n)
    ]
    B = [gram(rng.standard_normal((few, d)) @ mixing) for _ in range(n)]
    return OwnMatrices(np.array(A), np.array(B), p)


def own_views(
    n: int = 5, orders: tuple[int, int] = (6, 5), p: int = 2, seed: int = 0
) -> OwnMatrices:
    """Canonical correlations: A_i has the covariances of an agent's two views, B_i those of each
    view."""
    rng = np.random.default_rng(seed)
    first = slice(0, orders[0])
    A, B = [], []
    for _ in range(n):
        common = rng.standard_normal((4, 3)) * np.array([2.0, 1.5, 0.5])
        rows = common @ np.random.default_rng(seed + 1).standard_normal(
            (3, sum(orders))
        ) + rng.standard_normal((4, sum(orders)))
        whole = gram(rows)
        own = whole.copy()
        own[first, orders[0] :] = own[orders[0] :, first] = 0.0
        A.append(whole - own)
        B.append(own)
    return OwnMatrices(np.array(A), np.array(B), p, orders)


class _Shares:
    """B_i = (1 + c_i) I, the c_i adding up to zero."""

    agents: slice
    n_agents: int
    shape: tuple[int, int]

    def _own(self) -> Array:
        share: Array = 1.0 + 0.5 * np.cos(2 * np.pi * np.arange(self.n_agents) / self.n_agents)
        return share[self.agents]

    def local_product(self, x: Array) -> Array:
        return self._own()[:, None, None] * x

    def local_diagonal(self) -> Array:
        return np.repeat(self._own()[:, None], self.shape[0], axis=1)


def sharing_the_identity(problem: Any) -> Any:
    """A problem on St(d, r) with B = I, which is the mean of what its agents know."""
    shared: Any = object.__new__(type("Sharing", (_Shares, type(problem)), {}))
    vars(shared).update(
        vars(problem), constraint=GeneralizedStiefel(np.eye(problem.shape[0]), problem.shape[1])
    )
    return shared
