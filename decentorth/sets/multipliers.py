"""The sets {x : x^T B x = I} and fields of augmented Lagrangians on them, whose multiplier has a closed form near the set.

With B = I these fields are those of PLAM and PCAL (Gao, Liu, Yuan, "Parallelizable algorithms for optimization problems with
orthogonality constraints", SIAM Journal on Scientific Computing 2019); with B they are given for PLAM in paper 003 (Vary, Ablin,
Gao, Absil, "Optimization without retraction on the random generalized Stiefel manifold", ICML 2024), after Gao, Hu, Kuang, Liu
2022.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..numerics.ordered_sums import norms
from ..protocols import Array
from .retractions import plus, sym


class AugmentedLagrangian(ABC):
    """A set {x : x^T B x = I} known through products with B."""

    @abstractmethod
    def product(self, x: Array) -> Array:
        """The product B x."""

    def distance(self, x: Array) -> Array:
        """The distance ||B^{1/2} (x - project(x))||_F, ``(n_local,)``.

        It is the norm of s - 1 = (s^2 - 1) / (s + 1) for the singular values s of B^{1/2} x.
        """
        squares = np.linalg.eigvalsh(x.swapaxes(-1, -2) @ self.product(x))
        return norms((squares - 1.0) / (np.sqrt(np.maximum(squares, 0.0)) + 1.0))

    def multiplier_norm(self, x: Array, g: Array) -> Array:
        """The constraint's contribution ||sym(x^T G)||_2 to the curvature of the Lagrangian, ``(n_local,)``."""
        values = np.linalg.eigvalsh(sym(x.swapaxes(-1, -2) @ g))
        return np.abs(values[:, [0, -1]]).max(-1)

    def augmented_gradient(self, x: Array, g: Array, penalty: Array, bx: Array | None = None) -> Array:
        """The field G - B x sym(x^T G) + penalty B x (x^T B x - I), at any x; ``penalty`` is ``(n_local,)``.

        It is the gradient in x of f - <S, x^T B x - I>/2 + penalty/4 ||x^T B x - I||_F^2 at the multiplier S = sym(x^T G).
        ``bx`` is the product B x, if the caller has it.
        """
        bx = self.product(x) if bx is None else bx
        xt = x.swapaxes(-1, -2)
        inner: Array = xt @ bx
        inner *= penalty[:, None, None]
        inner -= sym(xt @ g)
        field: Array = bx @ plus(inner, -penalty[:, None])
        field += g
        return field

    def column_tangent(self, x: Array, field: Array, bx: Array | None = None) -> Array:
        """The part of a field that keeps each x_j^T B x_j: every column is made orthogonal to that of B x."""
        bx = self.product(x) if bx is None else bx
        share = (bx * field).sum(-2, keepdims=True) / np.maximum((bx * bx).sum(-2, keepdims=True), np.finfo(np.float64).tiny)
        return field - bx * share

    def normalized(self, y: Array) -> tuple[Array, Array]:
        """The point x, the columns of y scaled so that each x_j^T B x_j = 1, and B x; fresh."""
        by = self.product(y)
        length = np.sqrt((y * by).sum(-2, keepdims=True))
        return y / length, by / length
