"""The ultrahyperbolic manifold {q : <q, q>_q = -alpha^2}, <x, y>_q = sum of x_i y_i over signs +1
minus that over signs -1.

Paper 001, Appendix F.1, prints the map with slips. With s the entries of y at signs +1 and t the
entries at signs -1,

    phi(y) = (s; sqrt(alpha^2 + ||s||^2) t / ||t||),   t != 0,
    d(x, y) = alpha arccosh(u) for u = |<x, y>_q| / alpha^2 >= 1,   alpha arccos(u) below.

At u = 1 d has infinite slope from both sides. Smoothed by s > 0 it is sqrt(d^2 + s^2 alpha^2) - s
alpha: 0 where d is 0, near d where d is large, and of slope 1 / (s alpha) at most. J-orthogonal
matrices leave <., .>_q and so d unchanged.

The signed score, which goes beyond the paper, is alpha^2 z(u) for u = -<x, y>_q / alpha^2, without
the absolute value:

    z(u) = -arccosh(u)^2, u >= 1;    arccos(u)^2, 0 <= u < 1;    pi^2/4 - pi u, u < 0.

It is -d^2 where u >= 1. There -arccosh(u)^2 continues analytically to arccos(u)^2, with slope -2 at
u = 1; the tangent at u = 0 avoids the infinite slope at u = -1. So z is continuously differentiable
and strictly decreasing.
"""

from __future__ import annotations

import numpy as np

from decentorth.protocols import Array

ROUNDING = 64.0 * float(np.finfo(np.float64).eps)
"""The difference of u from 1, relative to the points' sizes, below which two points count as being
at distance zero."""
PIECE = 1 << 14
"""The number of signed scores that are computed at a time, in the processor's cache."""
NEAR = 1e-4
"""The difference of u from 1 below which the signed score is its Taylor polynomial; the next term
is below 1e-17."""


class Ultrahyperbolic:
    """The manifold of a signature ``(n,)``, +1 and -1 in any order, at least one -1.

    ``alpha`` is the radius of curvature, positive, and ``smoothing`` the smoothing s of distances,
    0 for none.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.problems import Ultrahyperbolic
    >>> manifold = Ultrahyperbolic(np.array([1.0, -1.0]), 1.0)
    >>> manifold.points(np.array([[0.0, 3.0]])).tolist()
    [[0.0, 1.0]]
    """

    def __init__(self, signs: Array, alpha: float, smoothing: float = 0.0) -> None:
        if len(np.flatnonzero(signs < 0.0)) == 0:
            raise ValueError("the ultrahyperbolic manifold needs a sign -1, got signs +1 only")
        if not 0.0 < alpha < np.inf:
            raise ValueError(f"alpha must be positive and finite, got {alpha}")
        if not 0.0 <= smoothing < np.inf:
            raise ValueError(f"smoothing must be finite and not negative, got {smoothing}")
        self.signs = signs
        self.alpha = alpha
        self.smoothing = smoothing
        self._plus = (signs > 0.0).astype(np.float64)

    def _stretch(self, y: Array) -> tuple[Array, Array, Array]:
        """The numbers alpha^2 + ||s||^2, ||t||^2 and the root of their ratio, ``(m, 1)`` each."""
        squares = y * y
        s = self.alpha**2 + (squares * self._plus).sum(-1, keepdims=True)
        t = (squares * (1.0 - self._plus)).sum(-1, keepdims=True)
        return s, t, np.sqrt(s / t)

    def points(self, y: Array) -> Array:
        """``(m, n)``: phi of each row of y; NaN where t = 0."""
        return y * np.where(self._plus, 1.0, self._stretch(y)[2])

    def pulled_back(self, y: Array, g: Array) -> Array:
        """``(m, n)``: the gradient in y of a function whose gradient at phi(y) is g."""
        s, t, ratio = self._stretch(y)
        along = ratio * (g * y * (1.0 - self._plus)).sum(-1, keepdims=True)
        return np.where(self._plus, g + along / s * y, ratio * g - along / t * y)

    def sizes(self, q: Array) -> Array:
        """``(m,)``: the norms ||q|| / alpha, to which the rounding of products with q is
        proportional."""
        return np.sqrt((q * q).sum(-1)) / self.alpha

    def cosines(self, products: Array, sizes: Array) -> tuple[Array, Array]:
        """The u of the products <x, y>_q, exactly 1 where rounding hides the difference, and its
        slope; both like ``products``.

        ``sizes`` holds the product of the two points' `sizes`.
        """
        u = np.abs(products)
        u /= self.alpha**2
        u[np.abs(u - 1.0) <= ROUNDING * sizes] = 1.0
        return u, np.sign(products) / self.alpha**2

    def distances(self, u: Array) -> Array:
        """The distances d, smoothed if s > 0, like ``u``."""
        d = self._angles(u)
        if self.smoothing > 0.0:
            d = np.hypot(d, self.smoothing) - self.smoothing
        d *= self.alpha
        return d

    def _angles(self, u: Array) -> Array:
        """The angles arccosh(u), or arccos(u) for u below 1."""
        angles = np.arccosh(np.maximum(u, 1.0))
        angles += np.arccos(np.minimum(u, 1.0))  # one of the two is zero
        return angles

    def steepness(self, u: Array) -> Array:
        """The slope of `distances` in u, like ``u``; 0 at u = 1, where it does not exist."""
        squared = (u - 1.0) * (u + 1.0)
        squared[squared == 0.0] = np.inf
        steep: Array = np.copysign(self.alpha / np.sqrt(np.abs(squared)), squared)
        if self.smoothing > 0.0:
            angles = self._angles(u)
            steep *= angles / np.hypot(angles, self.smoothing)
        return steep

    def signed_scores(self, products: Array) -> tuple[Array, Array]:
        """The signed scores of the products <x, y>_q, and their slopes in the products: like
        ``products``, in its precision."""
        flat = products.reshape(-1)
        z = np.empty(products.shape, products.dtype)
        slope = np.empty_like(z)
        for start in range(0, len(flat), PIECE):
            piece = slice(start, start + PIECE)
            z.reshape(-1)[piece], slope.reshape(-1)[piece] = self._signed(flat[piece])
        return z, slope

    def _signed(self, products: Array) -> tuple[Array, Array]:
        """The signed scores of ``(m,)`` products and their slopes."""
        u = products / -(self.alpha**2)
        off = u - 1.0
        root = np.sqrt(np.abs(off * (u + 1.0)))
        angles = np.log1p(np.maximum(off, 0.0) + root)
        z = -angles * angles
        circular = np.flatnonzero(off < 0.0)
        angles[circular] = np.arctan2(root[circular], u[circular])
        z[circular] = angles[circular] ** 2
        slope = 2.0 * angles / np.maximum(root, NEAR)  # -z'(u), which is positive
        near = np.flatnonzero(np.abs(off) < NEAR)
        e = off[near]
        z[near] = e * (-2.0 + e * (1.0 / 3.0 - e * 4.0 / 45.0))
        slope[near] = 2.0 - e * (2.0 / 3.0 - e * 4.0 / 15.0)
        straight = np.flatnonzero(u < 0.0)
        z[straight] = np.pi**2 / 4.0 - np.pi * u[straight]
        slope[straight] = np.pi
        z *= self.alpha**2
        return z, slope
