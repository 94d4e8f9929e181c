"""The Stiefel manifold St(d, r) = {x in R^{d x r} : x^T x = I_r}.

The metric is Euclidean for ``tangent``, canonical (its half) for the landing field, as in paper 004
(Sun, Chen, Garcia, Shahrampour, "Global convergence of decentralized retraction-free optimization
on the Stiefel manifold"), equations (3)-(6). Stacked arrays have shape ``(n_local, d, r)``; no d x
d matrix is ever formed.
"""

from __future__ import annotations

from typing import ClassVar, get_args

import numpy as np

from ..numerics.ordered_sums import norms, subtract_scaled
from ..protocols import Array, Index, Polar, Retraction, Two
from ..settings import check
from .landing_fields import ClosedMultiplier
from .retractions import factor, gap, gram, in_blocks, matrix_sign, named, plus, qr, sym

LONG = 0.5
"""The norm ||Y||_F above which a step of some columns is long; see `move_columns`."""


class Stiefel(ClosedMultiplier):
    """The Stiefel manifold St(d, r).

    Parameters
    ----------
    d, r
        Rows and columns of a point.

    Raises
    ------
    ValueError
        Unless ``1 <= r <= d``.
    TypeError
        For a number that is not whole.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.sets import Stiefel
    >>> manifold = Stiefel(4, 2)
    >>> x = manifold.project(np.random.default_rng(0).standard_normal((4, 2)))
    >>> np.allclose(x.T @ x, np.eye(2))
    True
    """

    on_devices: ClassVar[bool] = True
    orthonormal: ClassVar[bool] = True

    def __init__(self, d: int, r: int) -> None:
        d = check("dimension d", int, d)
        r = check("rank r", int, r)
        if not 1 <= r <= d:
            raise ValueError(
                f"St(d, r) needs 1 <= r <= d orthonormal columns, got d = {d} and r = {r}: ask for "
                "fewer columns (rank) or give data of a larger dimension"
            )
        self.shape = (d, r)

    def __repr__(self) -> str:
        return f"St({self.shape[0]}, {self.shape[1]})"

    def product(self, x: Array) -> Array:
        """The array ``x`` itself, not copied: B = I."""
        return x

    def feasibility(self, x: Array) -> Array:
        """The infeasibility ||x^T x - I||_F, ``(n_local,)``."""
        return norms(gap(x))

    def project(self, y: Array, method: Polar = "polar-svd") -> Array:
        """The polar factor U V^T of y = U S V^T: the nearest point of St(d, r) in Frobenius norm,
        for any method.

        NaN for agents where ``y`` is not finite; a ValueError for an unknown method.
        """
        return in_blocks(named("method", method, get_args(Polar)), y)

    @property
    def singular_values(self) -> int:
        """The number of singular values of a point."""
        return self.shape[1]

    def matrix_sign(self, v: Array) -> Array:
        """The matrix sign U V^T of v = U S V^T, of the singular values that are not zero."""
        return matrix_sign(v)

    def random(self, rng: np.random.Generator) -> Array:
        """A uniformly distributed point ``(d, r)`` (QR of a Gaussian matrix, signs fixed)."""
        return qr(rng.standard_normal((1, *self.shape)))[0]

    def tangent(self, x: Array, g: Array) -> Array:
        """The Riemannian gradient P_x(g) = g - x sym(x^T g) of the Euclidean metric at a feasible
        x."""
        return g - x @ sym(x.swapaxes(-1, -2) @ g)

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """The feasible point reached from a feasible x along the tangent v: the polar factor of x +
        v, or its orthonormal factor.

        NaN for agents where ``x + v`` is not finite; a ValueError for an unknown retraction.
        """
        back = named("retraction", retraction, get_args(Retraction))
        with np.errstate(over="ignore", invalid="ignore"):
            return in_blocks(lambda x, v: back(x + v), x, v)

    def retract_both(self, y: Array, other: Array, retraction: Retraction = "polar") -> Two | None:
        """The point y S to which a retraction brings y = x + v, v tangent at a feasible x, and
        ``other`` S; both fresh.

        For methods of a single agent. S, of order r, comes from y^T y = I + v^T v; None where ||v^T
        v||_F is above 127 or not a number.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            s = factor(retraction, gap(y))
            return None if s is None else (y @ s, other @ s)

    def move_columns(self, x: Array, columns: Index, v: Array) -> Array:
        """The columns C = ``columns``, ``(c,)``, of a feasible x, moved along P(v) to polar(x_C +
        P(v)), ``(n, d, c)``.

        P(v) = x_C skew(x_C^T v) + (I - x x^T) v is the part of v, ``(n, d, c)``, along which they
        stay orthonormal and orthogonal to the others (paper 000 (15), Lemma 3.2). With w = x_C + v
        and Y = x^T w, whose rows C are replaced by sym(x_C^T w) - I, x_C + P(v) = w - x Y: two
        products with x, 4 d r c flops. This also removes the component of x_C along the other
        columns, so that rounding errors do not accumulate; if ||Y||_F is above `LONG`, so that they
        could grow, the rest is removed from the result once more. NaN for agents where x or v is
        not finite.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            w = np.take(x, columns, axis=-1)
            w += v
            # Y^T, (n, c, r): for few columns three times as fast as Y.
            y: Array = w.swapaxes(-1, -2) @ x
            y[:, :, columns] = plus(sym(np.take(y, columns, axis=-1)), -1.0)
            w -= x @ y.swapaxes(-1, -2)
            far = np.flatnonzero(norms(y) > LONG)
            if len(far):
                rest: Array = w[far].swapaxes(-1, -2) @ x[far]
                rest[:, :, columns] = 0.0
                w[far] -= x[far] @ rest.swapaxes(-1, -2)
        return self.project(w, "polar")

    def relative_gradient(self, x: Array, g: Array) -> Array:
        """The field grad f(x) = skew(g x^T) x = (g (x^T x) - x (g^T x)) / 2, for any x (paper 004
        (3))."""
        xt = x.swapaxes(-1, -2)
        return 0.5 * (g @ (xt @ x) - x @ (g.swapaxes(-1, -2) @ x))

    def landing(self, x: Array, g: Array, penalty: Array) -> Array:
        """The landing field skew(g x^T) x + penalty x (x^T x - I) (paper 004 (5)); ``penalty`` is
        ``(n_local,)``.

        With S = x^T x and T = g^T x this is g S/2 - x (T/2 - penalty (S - I)): four products, 8 d
        r^2 flops.
        """
        s = gram(x)
        t: Array = g.swapaxes(-1, -2) @ x
        t *= 0.5
        subtract_scaled(penalty, s, t)
        s *= 0.5
        field: Array = g @ s
        field -= x @ plus(t, penalty[:, None])
        return field

    def penalised(self, x: Array, g: Array, penalty: Array) -> Array:
        """The gradient g + penalty x (x^T x - I) of f + penalty/4 ||x^T x - I||_F^2; ``penalty`` is
        ``(n_local,)``."""
        s = gap(x)
        s *= penalty[:, None, None]
        field: Array = x @ s
        field += g
        return field

    def dissolve(self, x: Array) -> Array:
        """The Newton-Schulz step A(x) = x (3I - x^T x)/2, whose distance from the manifold is of
        the order of the square of x's."""
        return x @ plus(-0.5 * gram(x), 1.5)

    def dissolved(self, x: Array, g: Array, penalty: Array) -> Array:
        """The field g (3I - x^T x)/2 - x sym(x^T g) + penalty x (x^T x - I); ``penalty`` is
        ``(n_local,)``.

        With g taken at `dissolve` of x it is the gradient of f(A(x)) + penalty/4 ||x^T x - I||_F^2
        (Xiao, Liu & Toh, "Dissolving constraints for Riemannian optimization", 2023); with g taken
        at x, that of f(x) - <sym(x^T g), x^T x - I>/2 + penalty/4
        ||x^T x - I||_F^2 without the term that has the Hessian of f. It takes four products, like `landing`.
        """
        e = gap(x)
        t = sym(x.swapaxes(-1, -2) @ g)
        t -= penalty[:, None, None] * e
        e *= -0.5
        field: Array = g @ plus(e, 1.0)
        field -= x @ t
        return field

    def safe_step(self, x: Array, direction: Array, penalty: Array, eps: float) -> Array:
        """The largest step ``(n_local,)`` proved to keep ``||x^T x - I||_F <= eps`` along minus the
        landing field.

        With d the infeasibility at x and g the norm of the field it is ``(lam d (1 - d) +
        sqrt(lam^2 d^2 (1 - d)^2 + g^2 max(eps - d, 0))) / g^2``, at most ``1 / (2 lam)`` (Ablin &
        Peyre 2022, Lemma 6; sound for a single agent, not for agents that mix).
        """
        d = self.feasibility(x)
        g2 = np.maximum(norms(direction) ** 2, np.finfo(np.float64).tiny)
        pull = penalty * d * (1.0 - d)
        root = np.sqrt(pull * pull + g2 * np.maximum(eps - d, 0.0))
        return np.minimum((pull + root) / g2, 0.5 / penalty)
