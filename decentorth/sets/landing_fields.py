"""Fields and safe steps on the sets {x : x^T B x = I}.

Augmented Lagrangians. Their multiplier has a closed form near the set. With B = I the fields are
those of PLAM and PCAL (Gao, Liu, Yuan, "Parallelizable algorithms for optimization problems with
orthogonality constraints", SIAM Journal on Scientific Computing 2019); with B they are given for
PLAM in paper 003 (Vary, Ablin, Gao, Absil, "Optimization without retraction on the random
generalized Stiefel manifold", ICML 2024), after Gao, Hu, Kuang, Liu 2022.

Tracked products. These fields use given products B x, mainly from trackers. If B is the mean of
matrices that different agents know, no agent can multiply with it, and ``bx`` is an agent's
estimate of B x. With e = x^T bx - I, made symmetric, and the Euclidean gradient G:

    A(x) = x (I - e/2)                                                  dissolving: fixes the set, flattens normal directions
    G(A) (I - e/2) - bx sym(x^T G(A)) + beta bx e                       the gradient of f(A(x)) + beta/4 ||x^T B x - I||_F^2
    G (x^T bx) - bx (G^T x) + 2 omega bx (x^T bx - I)                   B times landing along psi-br

The second is from Wang, Xiao, Liu, "A double tracking method for optimization with decentralized
generalized orthogonality constraints", 2024, after Xiao, Liu, Toh, "Dissolving constraints for
Riemannian optimization", 2023. In the third, B^{-1} of the first two terms is the direction psi-br
of paper 003 (Vary, Ablin, Gao, Absil, "Optimization without retraction on the random generalized
Stiefel manifold", ICML 2024), (12), and that of the last is 2 omega x (x^T B x - I), the gradient
of omega/2 ||x^T B x - I||_F^2 in the metric tr(u^T B v). All vanish, on the set, where G = B x S
with a symmetric S.

Safe steps. The largest safe step replaces the bound of paper 003's Lemma 2.4.

Along a field F the gap is h(t) = (x - t F)^T B (x - t F) - I = E - t C + t^2 D, with E = x^T B x -
I, C = 2 sym(F^T B x) and D = F^T B F, so that its square ||h(t)||_F^2 is a polynomial of degree
four in t, whose coefficients are inner products of these matrices of order p. The step from inside
the region is the first t at which ||h(t)||_F = eps: every shorter step is safe, and no longer one
just behind it. From outside it is the first minimum of ||h(t)||_F.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from ..numerics.devices import on_host
from ..numerics.ordered_sums import norms, sums
from ..protocols import Array, Known, Two
from .retractions import gap_with, plus, sym

_BORDER = 1e-12
"""Points with ||h||_F^2 up to eps^2 and this times eps are on the border of the region, and not
outside."""
_UNBOUNDED = 1e300
"""The step where nothing moves."""


class ClosedMultiplier(ABC):
    """A set {x : x^T B x = I} known through products with B."""

    @abstractmethod
    def product(self, x: Array) -> Array:
        """The product B x."""

    def _image(self, x: Array, bx: Known) -> Array:
        """The product B x, if the caller has it; else it is computed."""
        if bx is None:
            return self.product(x)
        return bx

    def distance(self, x: Array) -> Array:
        """The distance ||B^{1/2} (x - project(x))||_F, ``(n_local,)``.

        It is the norm of s - 1 = (s^2 - 1) / (s + 1) for the singular values s of B^{1/2} x.
        """
        squares = np.linalg.eigvalsh(x.swapaxes(-1, -2) @ self.product(x))
        return norms((squares - 1.0) / (np.sqrt(np.maximum(squares, 0.0)) + 1.0))

    def multiplier_norm(self, x: Array, g: Array) -> Array:
        """The constraint's contribution ||sym(x^T G)||_2 to the curvature of the Lagrangian,
        ``(n_local,)``."""
        values = np.linalg.eigvalsh(sym(x.swapaxes(-1, -2) @ g))
        return np.abs(values[:, [0, -1]]).max(-1)

    def augmented_gradient(self, x: Array, g: Array, penalty: Array, bx: Known = None) -> Array:
        """The field G - B x sym(x^T G) + penalty B x (x^T B x - I), at any x; ``penalty`` is
        ``(n_local,)``.

        It is the gradient in x of f - <S, x^T B x - I>/2 + penalty/4 ||x^T B x - I||_F^2 at the
        multiplier S = sym(x^T G). ``bx`` is the product B x, if the caller has it.
        """
        bx = self._image(x, bx)
        xt = x.swapaxes(-1, -2)
        inner: Array = xt @ bx
        inner *= penalty[:, None, None]
        inner -= sym(xt @ g)
        field: Array = bx @ plus(inner, -penalty[:, None])
        field += g
        return field

    def column_tangent(self, x: Array, field: Array, bx: Known = None) -> Array:
        """The part of a field that keeps each x_j^T B x_j: every column is made orthogonal to that
        of B x."""
        bx = self._image(x, bx)
        lengths = (bx * bx).sum(-2, keepdims=True)
        share = (bx * field).sum(-2, keepdims=True) / np.maximum(lengths, np.finfo(np.float64).tiny)
        return field - bx * share

    def normalized(self, y: Array) -> Two:
        """Return x, the columns of y scaled so that each x_j^T B x_j = 1, and B x, in new
        arrays."""
        by = self.product(y)
        length = np.sqrt((y * by).sum(-2, keepdims=True))
        return y / length, by / length


class TrackedFields:
    """The fields of a set {x : x^T B x = I} that do not use its B."""

    def dissolve_with(self, x: Array, bx: Array) -> Array:
        """Return the point A(x) = x (3 I - x^T B x)/2 in a new array."""
        return x @ _half(gap_with(x, bx))

    def dissolved_with(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """The gradient of f(A(x)) + penalty/4 ||x^T B x - I||_F^2, ``g`` being that of f at A(x);
        ``penalty`` is ``(n_local,)``."""
        e = gap_with(x, bx)
        field: Array = g @ _half(e)
        field += bx @ (penalty[:, None, None] * e - sym(x.swapaxes(-1, -2) @ g))
        return field

    def landing_image(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """The field B (Psi + 2 penalty x (x^T B x - I)) with the direction psi-br for Psi;
        ``penalty`` is ``(n_local,)``."""
        s: Array = x.swapaxes(-1, -2) @ bx
        field: Array = g @ s
        inner = plus(2.0 * penalty[:, None, None] * s, -2.0 * penalty[:, None])
        inner -= g.swapaxes(-1, -2) @ x
        field += bx @ inner
        return field


def _half(e: Array) -> Array:
    """The matrix I - e/2."""
    return plus(-0.5 * e, 1.0)


def squares(x: Array, field: Array, bx: Array, image: Array) -> Array:
    """The coefficients ``(n_local, 5)`` of ||h(t)||_F^2, the constant first, from ``bx`` = B x and
    ``image`` = B F."""
    gap = gap_with(x, bx)
    along = 2.0 * sym(field.swapaxes(-1, -2) @ bx)
    bend = sym(field.swapaxes(-1, -2) @ image)
    second = sums(along * along) + 2.0 * sums(gap * bend)
    first = -2.0 * sums(gap * along)
    third = -2.0 * sums(along * bend)
    return np.stack((sums(gap * gap), first, second, third, sums(bend * bend)), axis=-1)


class WithSquares(Protocol):
    """A set whose infeasibility along a field is known as a polynomial."""

    def gap_squares(self, x: Array, field: Array, bx: Known = None, image: Known = None) -> Array:
        """The coefficients ``(n_local, 5)`` of ||h(t)||_F^2, the constant first; ``image`` is the
        product of B with the field."""


def safe_step(
    self: WithSquares,
    x: Array,
    direction: Array,
    penalty: Array,
    eps: float | Array,
    bx: Known = None,
    image: Known = None,
) -> Array:
    """The largest step ``(n_local,)`` along minus any field that keeps ||h||_F <= eps all the way.

    From outside the region it is the step to the first minimum of ||h||_F. Where the field is zero
    it is 1e300, and NaN where the field is not finite. ``image`` is the product of B with
    ``direction``; ``penalty`` is not used.
    """
    # Lengths along the field are in units of this power of two.
    size = on_host(np.frexp(np.abs(direction).max((-2, -1)))[1])
    scale = np.ldexp(1.0, -size)[:, None, None]
    if image is not None:
        image = scale * image
    polynomials = on_host(self.gap_squares(x, scale * direction, bx, image))
    bounds = np.broadcast_to(np.square(eps), len(x))
    return np.ldexp([_largest(*own) for own in zip(polynomials, bounds, strict=True)], -size)


def _largest(polynomial: Array, bound: float) -> float:
    """The largest safe step, where ||h||_F^2 is the polynomial and at most the bound."""
    if not np.isfinite(polynomial).all(-1):
        return np.nan
    length = float(polynomial[4] ** 0.25)
    if length == 0.0:
        return _UNBOUNDED
    polynomial = polynomial / length ** np.arange(5.0)  # in units of 1 / ||D||_F^{1/2}
    polynomial[0] -= bound
    border = _BORDER * bound**0.5
    if polynomial[0] > border:
        polynomial = polynomial[1:] * np.arange(1.0, 5.0)
    else:
        # Below 0, so that the first root is one where it rises.
        polynomial[0] = min(polynomial[0], -0.001 * border)
    roots = np.asarray(np.roots(polynomial[::-1]))
    positive = roots.real[(roots.imag == 0.0) & (roots.real > 0.0)]
    if not polynomial[0] < 0.0:
        return 0.0
    return float(positive.min(-1, initial=np.inf)) / length
