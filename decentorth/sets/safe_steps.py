"""The largest safe step on {x : x^T B x = I}, which replaces the bound of paper 003's Lemma 2.4.

Along a field F the gap is h(t) = (x - t F)^T B (x - t F) - I = E - t C + t^2 D, with E = x^T B x - I, C = 2 sym(F^T B x) and
D = F^T B F, so that its square ||h(t)||_F^2 is a polynomial of degree four in t, whose coefficients are inner products of these
matrices of order p. The step from inside the region is the first t at which ||h(t)||_F = eps: every shorter step is safe, and no
longer one just behind it. From outside it is the first minimum of ||h(t)||_F.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ..numerics.ordered_sums import sums
from ..protocols import Array
from .retractions import plus, sym

_BORDER = 1e-12
"""Points with ||h||_F^2 up to eps^2 and this times eps are on the border of the region, and not outside."""
_UNBOUNDED = 1e300
"""The step where nothing moves."""


def squares(x: Array, field: Array, bx: Array, image: Array) -> Array:
    """The coefficients ``(n_local, 5)`` of ||h(t)||_F^2, the constant first, from ``bx`` = B x and ``image`` = B F."""
    gap = plus(sym(x.swapaxes(-1, -2) @ bx), -1.0)
    along = 2.0 * sym(field.swapaxes(-1, -2) @ bx)
    bend = sym(field.swapaxes(-1, -2) @ image)
    second = sums(along * along) + 2.0 * sums(gap * bend)
    return np.stack((sums(gap * gap), -2.0 * sums(gap * along), second, -2.0 * sums(along * bend), sums(bend * bend)), axis=-1)


class WithSquares(Protocol):
    """A set whose infeasibility along a field is known as a polynomial."""

    def gap_squares(self, x: Array, field: Array, bx: Array | None = None, image: Array | None = None) -> Array:
        """The coefficients ``(n_local, 5)`` of ||h(t)||_F^2, the constant first; ``image`` is the product of B with the field."""


def safe_step(
    self: WithSquares,
    x: Array,
    direction: Array,
    penalty: Array,
    eps: float | Array,
    bx: Array | None = None,
    image: Array | None = None,
) -> Array:
    """The largest step ``(n_local,)`` along minus any field that keeps ||h||_F <= eps all the way.

    From outside the region it is the step to the first minimum of ||h||_F. Where the field is zero it is 1e300, and NaN where
    the field is not finite. ``image`` is the product of B with ``direction``; ``penalty`` is not used.
    """
    size = np.frexp(np.abs(direction).max((-2, -1)))[1]  # lengths along the field are in units of this power of two
    scale = np.ldexp(1.0, -size)[:, None, None]
    polynomials = self.gap_squares(x, scale * direction, bx, None if image is None else scale * image)
    bounds = np.broadcast_to(np.square(eps), len(x))
    steps = np.array([_largest(own, bound) for own, bound in zip(polynomials, bounds, strict=True)])
    return np.ldexp(steps, -size)


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
        polynomial[0] = min(polynomial[0], -0.001 * border)  # below 0, so that the first root is one where it rises
    roots = np.asarray(np.roots(polynomial[::-1]))
    positive = roots.real[(roots.imag == 0.0) & (roots.real > 0.0)]
    return float(positive.min(-1, initial=np.inf)) / length if polynomial[0] < 0.0 else 0.0
