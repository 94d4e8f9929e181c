"""The generalized Stiefel manifold St_B(p, n) = {x in R^{n x p} : x^T B x = I_p}, B symmetric
positive definite.

Vary, Ablin, Gao, Absil, "Optimization without retraction on the random generalized Stiefel
manifold", ICML 2024 (paper 003). With h(x) = x^T B x - I, N = ||h||_F^2 / 2 and grad N(x) = 2 B x
h(x), the landing field is Psi(x) + omega grad N(x). Here omega is called penalty; it is half of
`Stiefel.landing`'s, which multiplies the gradient of ||x^T x - I||_F^2 / 4. Psi is orthogonal to
grad N, for any x, in each of the directions (G the Euclidean gradient)

    psi-b        2 skew(G x^T B) B x       = G (Bx)^T (Bx) - (Bx) G^T (Bx)                                    (11)
    psi-br       2 skew(B^{-1} G x^T) B x  = H (x^T B x) - x (G^T x),  H = B^{-1} G                           (12)
    riemannian   G - B x S,  M S + S M = x^T B G + G^T B x,  M = (Bx)^T (Bx)                                  (7)

Beyond the paper, the direction natural is psi-br with the gradient of N in its own metric tr(u^T B
v), B^{-1} grad N = 2 x h(x), whose pull to the set does not depend on the condition of B.

They descend: <Psi, G> >= rho ||Psi||_F^2 with rho = 1 / (2 beta_1 (1 + eps)) for psi-b, beta_n / (2
(1 + eps)) for psi-br and 1 for riemannian, where ||h||_F <= eps and beta_1, beta_n are the largest
and the smallest eigenvalue of B (the paper's rho do not scale with B; psi-b's fails for 100 B).

Stacked arrays have shape ``(n_local, n, p)``, and B is the same for all agents. Beside B and its
factor, nothing of order n is formed. Methods take ``bx``, the product B x, if the caller has it;
otherwise they compute it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, cast, get_args

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from decentorth.numerics.definite import ROUNDING
from decentorth.numerics.devices import is_on_device
from decentorth.numerics.ordered_sums import norms
from decentorth.protocols import Array, Direction, Index, Known, MetricName, Polar, Retraction, Two
from decentorth.sets.landing_fields import ClosedMultiplier, TrackedFields, safe_step, squares
from decentorth.sets.retractions import CONDITION, gap_with, gram, plus, sym, times_root
from decentorth.settings import check

from .operators import Matrices, Operator, operator

_DIRECTIONS = ", ".join(get_args(Direction))
NEAR = 0.9
"""The largest ||y^T B y - I||_F, hence cond(y^T B y) <= 19, where one Cholesky factor is
accurate."""


class GeneralizedStiefel(ClosedMultiplier, TrackedFields):
    """The generalized Stiefel manifold St_B(p, n).

    Parameters
    ----------
    B
        ``(n, n)``, symmetric positive definite: an array, a SciPy sparse matrix, or a
        ``LinearOperator`` (which may bring a method ``solve``, B^{-1} g); or a `SampleCovariance`,
        which is never formed.
    p
        Columns of a point.

    Raises
    ------
    ValueError
        Not ``1 <= p <= n``, or B is not square, symmetric, finite or, as far as this can be
        checked, positive definite.
    TypeError
        B is none of these kinds, or p is not a whole number.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.sets import GeneralizedStiefel
    >>> B = np.diag([1.0, 2.0, 3.0])
    >>> x = GeneralizedStiefel(B, 2).random(np.random.default_rng(0))
    >>> np.allclose(x.T @ B @ x, np.eye(2))
    True
    """

    def __init__(self, B: Any, p: int) -> None:
        self._build(operator(B), check("rank p", int, p))

    def _build(self, B: Operator, p: int) -> None:
        if not 1 <= p <= B.n:
            raise ValueError(
                "St_B(p, n) needs 1 <= p <= n columns that are orthonormal under B, got n = "
                f"{B.n} and p = {p}"
            )
        self.shape: tuple[int, ...] = (B.n, p)
        self.rows: tuple[slice, ...] = (slice(0, B.n),)
        self.operator = B
        self.solvable = B.solvable

    def with_matrices(self, matrices: Array) -> GeneralizedStiefel:
        """The set with other B, ``(n_local, n, n)``, one for each agent, not checked: running means
        of the samples' B."""
        other = object.__new__(GeneralizedStiefel)
        other._build(Matrices(matrices), self.shape[1])
        return other

    def on(self, put: Callable[[Array], Array]) -> GeneralizedStiefel:
        """The set for points on a device, to which ``put`` brings a dense B; a ValueError for
        another B."""
        other = object.__new__(GeneralizedStiefel)
        other._build(self.operator.on(put), self.shape[1])
        return other

    def __repr__(self) -> str:
        return f"St_B({self.shape[1]}, {self.shape[0]})"

    def product(self, x: Array) -> Array:
        """Return the product B x in a new array."""
        return self.operator.product(x)

    def solve(self, g: Array) -> Array:
        """Return the solution B^{-1} g in a new array.

        Raises TypeError if B lacks an inverse map; the message names the kinds of B that have
        one.
        """
        return self.operator.solve(g)

    @property
    def largest(self) -> float:
        """The largest eigenvalue beta_1, or a close upper bound on it."""
        return self.operator.largest

    def landing_scale(self) -> float:
        """Return 2 beta_1, the largest ratio of the field psi-b to half the Riemannian gradient.

        Half the Riemannian gradient has the length of `Stiefel.landing`.
        """
        return 2.0 * self.largest

    def feasibility(self, x: Array, bx: Known = None) -> Array:
        """The infeasibility ||x^T B x - I||_F, ``(n_local,)``."""
        return norms(gap_with(x, self._image(x, bx)))

    def project(self, y: Array, method: Polar = "polar") -> Array:
        """The B-polar factor y (y^T B y)^{-1/2}: the nearest point of the set in the norm ||B^{1/2}
        .||_F.

        NaN for agents where y^T B y is not finite or, to machine precision, not positive definite.
        ``method`` as in `retract_with`.
        """
        return self.retract_with(y, self.product(y), method)[0]

    def random(self, rng: np.random.Generator) -> Array:
        """The projection of a Gaussian matrix, ``(n, p)``."""
        return self.project(rng.standard_normal((1, *self.shape)))[0]

    def tangent(self, x: Array, g: Array, bx: Known = None) -> Array:
        """The Riemannian gradient of the Euclidean metric, from the Euclidean gradient g: the
        direction riemannian, at any x."""
        bx = self._image(x, bx)
        return g - bx @ _multiplier(g, bx)

    def natural_gradient(self, x: Array, g: Array, bx: Known = None) -> Two:
        """The Riemannian gradient z = B^{-1} G - x sym(x^T G) of the metric tr(u^T B v) at a
        feasible x, and B z; both fresh.

        It is as in Sato & Aihara, "Cholesky QR-based retraction on the generalized Stiefel
        manifold", 2019. It is computed as z = B^{-1} (G - B x sym(x^T G)), so that B z belongs to z
        despite an error in ``bx``, which therefore does not grow when products are carried from
        iteration to iteration.
        """
        bx = self._image(x, bx)
        image = bx @ sym(x.swapaxes(-1, -2) @ g)
        np.subtract(g, image, out=image)
        return self.solve(image), image

    @staticmethod
    def natural_projection(x: Array, v: Array, bv: Array, bx: Array) -> Two:
        """Return the tangent v - x sym(x^T B v) and its product with B, in new arrays.

        It is the tangent at a feasible x that is nearest to v in the norm tr(v^T B v)^{1/2}.
        ``bv`` is B v, and ``bx`` is B x.
        """
        s = sym(x.swapaxes(-1, -2) @ bv)
        return v - x @ s, bv - bx @ s

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """The feasible point reached from a feasible x along the tangent v: see `retract_with` of
        y = x + v."""
        with np.errstate(over="ignore", invalid="ignore"):
            y = x + v
        return self.retract_with(y, self.product(y), retraction)[0]

    def retract_with(self, y: Array, by: Array, retraction: Retraction = "polar") -> Two:
        """The point to which a retraction brings y, and its product with B, from y and B y; both
        fresh.

        ===========  =============================================================================================
        polar        y (y^T B y)^{-1/2}, in the fastest way that is accurate (Yger, Berar, Gasso, Rakotomamonjy 2012)
        polar-eigh   the same from the eigenvectors of y^T B y: the SVD-like form U V^T of y = U S V^T, U^T B U = I
                     (Mishra & Sepulchre 2016)
        polar-svd    the same from an orthonormal factor and an SVD of order p, for y of any condition
        cholesky-qr  y R^{-1}, R^T R = y^T B y (Sato & Aihara 2019); a second time where y^T B y is far from I
        qr           the same, always twice
        ===========  =============================================================================================

        Only matrices of order p are factored. NaN for agents where y^T B y is not finite or not
        positive definite. The length of y does not matter: y and B y are first divided by the same
        power of two. A ValueError for an unknown retraction.
        """
        if retraction not in _WAYS:
            known = ", ".join(get_args(Retraction))
            raise ValueError(f"retraction must be one of {known}, got {retraction!r}")
        both = np.concatenate((y, by), axis=1)
        n = self.shape[0]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            mean = (y * by).sum((-2, -1)) / self.shape[1]
            np.ldexp(both, -_nearest(mean)[:, None, None], out=both)
            e = gap_with(both[:, :n], both[:, n:])
            far = partial(_each, _WAYS[retraction])
            both = times_root(both, e, far) if retraction == "polar" else far(both, e)
        if is_on_device(both):
            return both[:, :n], both[:, n:]
        return np.ascontiguousarray(both[:, :n]), np.ascontiguousarray(both[:, n:])

    def relative_gradient(self, x: Array, g: Array, direction: Direction = "psi-b") -> Array:
        """The direction Psi(x) for any x."""
        return self.landing(x, g, np.zeros(len(x)), direction)

    def landing(
        self, x: Array, g: Array, penalty: Array, direction: Direction = "psi-b", bx: Known = None
    ) -> Array:
        """Return the landing field Psi(x) + penalty grad N(x) for any x.

        ``penalty`` is ``(n_local,)``. The direction natural uses B^{-1} grad N. The direction
        psi-b, (13), takes one product with B and five products of order n p^2. psi-br and
        natural also solve with B once.

        Raises ValueError for an unknown direction. Raises TypeError if psi-br or natural is used
        and B lacks an inverse map.
        """
        bx = self._image(x, bx)
        if direction == "psi-b":
            return self.landing_from_products(x, g, bx, bx, penalty)
        xt = x.swapaxes(-1, -2)
        double = 2.0 * penalty
        s: Array = xt @ bx
        if direction == "psi-br":
            field: Array = self.solve(g) @ s
            field -= x @ (g.swapaxes(-1, -2) @ x)
            field += bx @ _penalised(s, double)
            return field
        if direction == "riemannian":
            return g - bx @ (_multiplier(g, bx) - _penalised(s, double))
        if direction == "natural":
            return self.natural_landing(x, g, penalty, bx)[0]
        raise ValueError(f"direction must be one of {_DIRECTIONS}, got {direction!r}")

    def natural_landing(self, x: Array, g: Array, penalty: Array, bx: Known = None) -> Two:
        """The field natural, psi-br + 2 penalty x (x^T B x - I), at any x, and its product with B;
        both fresh.

        Like `natural_gradient` it is computed from its product with B, by one solve and no product.
        """
        bx = self._image(x, bx)
        xt = x.swapaxes(-1, -2)
        s: Array = xt @ bx
        image: Array = g @ s
        image -= bx @ (g.swapaxes(-1, -2) @ x - _penalised(s, 2.0 * penalty))
        return self.solve(image), image

    @staticmethod
    def landing_from_products(x: Array, g: Array, bx: Array, bx2: Array, penalty: Array) -> Array:
        """The field psi-b from products alone, for B that is sampled, averaged or tracked;
        ``penalty`` is ``(n_local,)``.

        It is 2 skew(G x^T B) B' x + 2 penalty B x (x^T B' x - I) (2)-(3) with ``bx`` = B x and
        ``bx2`` = B' x, an unbiased estimate of the field if G, B and B' come from independent
        samples, and a biased one if any two share samples.
        """
        right: Array = gram(bx) if bx2 is bx else bx.swapaxes(-1, -2) @ bx2
        inner = _penalised(x.swapaxes(-1, -2) @ bx2, 2.0 * penalty)
        inner -= g.swapaxes(-1, -2) @ bx2
        field: Array = g @ right
        field += bx @ inner
        return field

    def multiplier_norm(self, x: Array, g: Array, metric: MetricName = "euclidean") -> Array:
        """The constraint's contribution beta_1 ||sym(x^T G)||_2 to the curvature, ``(n_local,)``;
        natural without beta_1."""
        largest = super().multiplier_norm(x, g)
        if metric == "natural":
            return largest
        return self.largest * largest

    safe_step = safe_step

    def gap_squares(self, x: Array, field: Array, bx: Known = None, image: Known = None) -> Array:
        """The coefficients ``(n_local, 5)`` of ||(x - t F)^T B (x - t F) - I||_F^2 as a polynomial
        in t, the constant first."""
        return squares(x, field, self._image(x, bx), self._image(field, image))


def _nearest(squares: Array) -> Index:
    """The exponents ``(n_local,)`` of the powers of 256 nearest to the roots; 0 for roots from 1/16
    to 16."""
    return 8 * np.rint(np.frexp(squares)[1] / 16.0).astype(np.int64)


def _penalised(s: Array, penalty: Array) -> Array:
    """The matrix penalty (s - I), in place."""
    s *= penalty[:, None, None]
    return plus(s, -penalty[:, None])


def _multiplier(g: Array, bx: Array) -> Array:
    """The symmetric S with M S + S M = (Bx)^T G + G^T Bx, M = (Bx)^T Bx, which makes (Bx)^T (G - Bx
    S) skew."""
    m = gram(bx)
    usable = np.isfinite(np.abs(m).max((-2, -1)))[:, None, None]
    values, vectors = np.linalg.eigh(np.where(usable, m, np.eye(m.shape[-1])))
    right = vectors.swapaxes(-1, -2) @ (2.0 * sym(bx.swapaxes(-1, -2) @ g)) @ vectors
    right /= values[:, :, None] + values[:, None, :]
    return vectors @ right @ vectors.swapaxes(-1, -2)


def _each(way: Any, both: Array, e: Array, _: Array | None = None) -> Array:
    """The value ``way(both_i, I + e_i)`` for each agent, NaN if the Gram matrix I + e_i is not
    finite."""
    out = np.empty_like(both)
    for i, square in enumerate(plus(e.copy(), 1.0)):
        out[i] = way(both[i], square) if np.isfinite(np.abs(square).max((-2, -1))) else np.nan
    return out


def _polar(both: Array, square: Array) -> Array:
    """The product ``both square^{-1/2}`` from the eigenvectors of the Gram matrix, where they are
    accurate enough."""
    w, u = np.linalg.eigh(square)
    if not w[0] * CONDITION >= w[-1]:
        return _polar_svd(both, square)
    return both @ ((u / np.sqrt(w)) @ u.T)


def _polar_svd(both: Array, square: Array) -> Array:
    return _factored(both, square, polar=True)


def _cholesky_qr(both: Array, square: Array) -> Array:
    excess = plus(square.copy()[None], -1.0)
    return _factored(both, square, twice=not norms(excess)[0] <= NEAR)


def _factored(both: Array, square: Array, polar: bool = False, twice: bool = True) -> Array:
    """The product ``both R^{-1}``, R the Cholesky factor of ``square``, or ``both square^{-1/2}``;
    for any condition if ``twice``.

    With y R^{-1} = q, y the first half of ``both``, and U = R^{-1} = P S V^T, the polar factor y (P
    S P^T) is q (V P^T).
    """
    first = _inverse_factor(square)
    q: Array = both @ first
    if not twice:
        return q
    n = len(both) // 2
    second = _inverse_factor(q[:n].T @ q[n:])
    if polar and np.isfinite(second[0, 0]):
        p, _, vt = np.linalg.svd(first @ second)
        second = second @ (p @ vt).T
    return q @ second


def _inverse_factor(square: Array) -> Array:
    """The upper triangular U with U^T square U = I; NaN where ``square`` is not positive
    definite, or only by a rounding error."""
    if is_on_device(square):
        return cast(Any, square).inverse_factor()
    factor, info = dpotrf(square, lower=0, clean=1)
    if info == 0:
        pivots = np.diagonal(factor)
        if (pivots * pivots > ROUNDING * len(square) * np.diagonal(square)).all(-1):
            return dtrtri(factor, lower=0)[0]
    return np.full_like(square, np.nan)


_POLAR = {"polar": _polar, "polar-eigh": _polar, "polar-svd": _polar_svd}
_WAYS = {**_POLAR, "cholesky-qr": _cholesky_qr, "qr": _factored}
