"""The J-orthogonal matrices {x in R^{n x n} : x^T J x = J}, J a diagonal of signs: a group that is
not compact.

Paper 001, "Block coordinate descent methods for optimization under J-orthogonality constraints with
applications"; the hyperbolic CS decomposition is its Proposition 2.2, the first-order condition, x
G^T J symmetric, its Lemma 3.1. There is no nearest-point projection. The signs may have any order.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from decentorth.numerics.ordered_sums import norms, sums
from decentorth.protocols import Array, Retraction
from decentorth.sets.retractions import plus
from decentorth.settings import check


class JOrthogonal:
    """The set {x : x^T J x = J} with p signs +1, then q signs -1.

    Parameters
    ----------
    p, q
        The numbers of signs +1 and -1; x is (p + q) x (p + q).

    Raises
    ------
    ValueError
        Unless neither is negative and one is positive.
    TypeError
        For a number that is not whole.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.sets import JOrthogonal
    >>> x = JOrthogonal(2, 1).random(np.random.default_rng(0))
    >>> J = np.diag([1.0, 1.0, -1.0])
    >>> np.allclose(x.T @ J @ x, J)
    True
    """

    copies = 1
    """The number of matrices in a point (`protocols.Signatures`)."""

    def __init__(self, p: int, q: int) -> None:
        p = check("p", int, p)
        q = check("q", int, q)
        if p < 0 or q < 0 or p + q < 1:
            raise ValueError(
                "a signature needs p >= 0 signs +1 and q >= 0 signs -1, one of them at least, "
                f"got p = {p} and q = {q}"
            )
        self.signs = np.concatenate((np.ones(p), -np.ones(q)))
        """The diagonal of J, ``(n,)``."""

    @classmethod
    def with_signs(cls, signs: ArrayLike) -> Self:
        """The set of a signature ``(n,)``, +1 and -1 in any order; a ValueError names the first
        other entry."""
        given = np.asarray(signs, dtype=np.float64)
        if given.ndim != 1 or not len(given):
            raise ValueError(f"signs must be a vector of +1 and -1, got shape {given.shape}")
        wrong = np.flatnonzero(np.abs(given) != 1.0)
        if len(wrong):
            raise ValueError(
                f"signs must be +1 and -1, but entry {wrong[0]} is {given[wrong[0]]:g}"
            )
        made = cls(len(np.flatnonzero(given > 0.0)), len(np.flatnonzero(given < 0.0)))
        made.signs = given.copy()
        return made

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, n) of a point."""
        return len(self.signs), len(self.signs)

    @property
    def each(self) -> Self:
        """This set."""
        return self

    def __repr__(self) -> str:
        p = len(np.flatnonzero(self.signs > 0.0))
        order = ", in another order" if len(np.flatnonzero(self.signs[:p] < 0.0)) else ""
        return f"J({p}, {len(self.signs) - p}{order})"

    def _gap(self, x: Array) -> Array:
        """The gap x^T J x - J, ``(n_local, n, n)``."""
        return plus(x.swapaxes(-1, -2) @ (self.signs[:, None] * x), -self.signs)

    def feasibility(self, x: Array) -> Array:
        """The mean entry (1/n^2) sum_ij |x^T J x - J|_ij, ``(n_local,)``, as paper 001 reports
        it."""
        return sums(np.abs(self._gap(x))) / float(x.shape[-1] ** 2)

    def violation(self, x: Array) -> Array:
        """The largest entry of |x^T J x - J|, ``(n_local,)``."""
        return np.abs(self._gap(x)).reshape(len(x), -1).max(-1)

    def random(self, rng: np.random.Generator, spread: float = 1.0) -> Array:
        """A feasible point ``(n, n)`` from a random hyperbolic CS decomposition.

        It is diag(U1, U2) [[C, 0, S], [0, I, 0], [S, 0, C]] diag(V1, V2)^T with uniformly
        distributed orthogonal factors, C = cosh(mu), S = sinh(mu) and Gaussian mu of standard
        deviation ``spread``.
        """
        p = len(np.flatnonzero(self.signs > 0.0))
        n = len(self.signs)
        least = min(p, len(self.signs) - p)
        mu = spread * rng.standard_normal(least)
        middle = np.eye(n)
        first = np.arange(least)
        last = np.arange(n - least, n)
        middle[first, first] = middle[last, last] = np.cosh(mu)
        middle[first, last] = middle[last, first] = np.sinh(mu)
        left = np.zeros((n, n))
        right = np.zeros((n, n))
        for factor in (left, right):
            factor[:p, :p], factor[p:, p:] = _orthogonal(rng, p), _orthogonal(rng, n - p)
        point = np.empty((n, n))
        order = np.argsort(-self.signs, kind="stable")
        point[order[:, None], order] = left @ middle @ right.T
        return point

    def tangent(self, x: Array, g: Array) -> Array:
        """The Riemannian gradient skew(g x^T J) J x of the metric <a x, b x> = tr(a^T b), invariant
        under right translations.

        It vanishes exactly where Lemma 3.1 of paper 001 holds.
        """
        w = g @ x.swapaxes(-1, -2) * self.signs
        w = 0.5 * (w - w.swapaxes(-1, -2))
        return w @ (self.signs[:, None] * x)

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """The Cayley retraction (I - a/2)^{-1} (I + a/2) x along the tangent v = a x, for any
        ``retraction``.

        The result is feasible to rounding, of second order, and fresh. It is NaN where I - a/2 is
        singular to rounding.
        """
        # This is v x^{-1}: the inverse is J x^T J.
        left: Array = v @ (self.signs[:, None] * x.swapaxes(-1, -2) * self.signs)
        left *= -0.5
        try:
            return np.linalg.solve(plus(left, 1.0), x + 0.5 * v).astype(np.float64, copy=False)
        except np.linalg.LinAlgError:
            if len(x) > 1:  # the other agents' points do not depend on the one that fails
                return np.concatenate([self.retract(x[[i]], v[[i]]) for i in range(len(x))])
            return np.full_like(x, np.nan)

    def corrected(self, x: Array) -> Array:
        """The Newton-Schulz step x (3 I - J x^T J x) / 2 towards the set, which squares the order
        of the distance from it.

        A ValueError names the agent where it does not converge: it needs ||J x^T J x - I||_2 < 1.
        """
        excess = self.signs[:, None] * self._gap(x)  # J x^T J x - I
        # The Frobenius norm is cheap and bounds the other.
        for agent in np.flatnonzero(~(norms(excess) < 1.0)):
            size = np.inf
            if np.isfinite(excess[agent]).all(axis=(-2, -1)):
                size = np.linalg.svd(excess[agent], compute_uv=False)[0]
            if not size < 1.0:
                raise ValueError(
                    "the Newton-Schulz correction needs ||J x^T J x - I||_2 < 1, but it is "
                    f"{size:.3g} at local agent {agent}: correct more often, or start again from a "
                    "feasible point"
                )
        return x - 0.5 * (x @ excess)


def _orthogonal(rng: np.random.Generator, n: int) -> Array:
    """A uniformly distributed orthogonal matrix, ``(n, n)``."""
    q, r = np.linalg.qr(rng.standard_normal((n, n)))
    return q * np.where(np.diagonal(r) < 0.0, -1.0, 1.0)
