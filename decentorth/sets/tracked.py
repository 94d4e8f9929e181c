"""Fields on the sets {x : x^T B x = I} from given products B x, mainly from trackers.

If B is the mean of matrices that different agents know, no agent can multiply with it, and ``bx`` is an agent's estimate of B x.
With e = x^T bx - I, made symmetric, and the Euclidean gradient G:

    A(x) = x (I - e/2)                                                  dissolving: fixes the set, flattens normal directions
    G(A) (I - e/2) - bx sym(x^T G(A)) + beta bx e                       the gradient of f(A(x)) + beta/4 ||x^T B x - I||_F^2
    G (x^T bx) - bx (G^T x) + 2 omega bx (x^T bx - I)                   B times landing along psi-br

The second is from Wang, Xiao, Liu, "A double tracking method for optimization with decentralized generalized orthogonality
constraints", 2024, after Xiao, Liu, Toh, "Dissolving constraints for Riemannian optimization", 2023. In the third, B^{-1} of the
first two terms is the direction psi-br of paper 003 (Vary, Ablin, Gao, Absil, "Optimization without retraction on the random
generalized Stiefel manifold", ICML 2024), (12), and that of the last is 2 omega x (x^T B x - I), the gradient of
omega/2 ||x^T B x - I||_F^2 in the metric tr(u^T B v). All vanish, on the set, where G = B x S with a symmetric S.
"""

from __future__ import annotations

from ..protocols import Array
from .retractions import plus, sym


class TrackedFields:
    """The fields of a set {x : x^T B x = I} that do not use its B."""

    def dissolve_with(self, x: Array, bx: Array) -> Array:
        """The point A(x) = x (3 I - x^T B x)/2, fresh."""
        return x @ _half(_excess(x, bx))

    def dissolved_with(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """The gradient of f(A(x)) + penalty/4 ||x^T B x - I||_F^2, ``g`` being that of f at A(x); ``penalty`` is ``(n_local,)``."""
        e = _excess(x, bx)
        field: Array = g @ _half(e)
        field += bx @ (penalty[:, None, None] * e - sym(x.swapaxes(-1, -2) @ g))
        return field

    def landing_image(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """The field B (Psi + 2 penalty x (x^T B x - I)) with the direction psi-br for Psi; ``penalty`` is ``(n_local,)``."""
        s: Array = x.swapaxes(-1, -2) @ bx
        field: Array = g @ s
        inner = plus(2.0 * penalty[:, None, None] * s, -2.0 * penalty[:, None])
        inner -= g.swapaxes(-1, -2) @ x
        field += bx @ inner
        return field


def _excess(x: Array, bx: Array) -> Array:
    """The excess x^T B x - I, made symmetric."""
    return plus(sym(x.swapaxes(-1, -2) @ bx), -1.0)


def _half(e: Array) -> Array:
    """The matrix I - e/2."""
    return plus(-0.5 * e, 1.0)
