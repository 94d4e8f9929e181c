"""Fields of augmented Lagrangians on the sets {x : x^T B x = I}, whose multiplier has a closed form near the set.

With B = I they are those of PLAM and PCAL (Gao, Liu, Yuan, "Parallelizable algorithms for optimization problems with orthogonality
constraints", SIAM Journal on Scientific Computing 2019); with B they are given for PLAM in paper 003 (Vary, Ablin, Gao, Absil,
"Optimization without retraction on the random generalized Stiefel manifold", ICML 2024), after Gao, Hu, Kuang, Liu 2022.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from ..protocols import Array


class AugmentedLagrangian(ABC):
    """The fields of a set {x : x^T B x = I} known through products with B."""

    @abstractmethod
    def product(self, x: Array) -> Array:
        """The product B x."""

    def augmented_gradient(self, x: Array, g: Array, penalty: Array, bx: Array | None = None) -> Array:
        """The field G - B x sym(x^T G) + penalty B x (x^T B x - I), at any x; ``penalty`` is ``(n_local,)``.

        It is the gradient in x of f - <S, x^T B x - I>/2 + penalty/4 ||x^T B x - I||_F^2 at the multiplier S = sym(x^T G).

        Parameters
        ----------
        bx
            The product B x, if the caller has it.
        """
        bx = self.product(x) if bx is None else bx
        xt = x.swapaxes(-1, -2)
        t: Array = xt @ g
        inner: Array = xt @ bx
        inner *= penalty[:, None, None]
        inner -= 0.5 * (t + t.swapaxes(-1, -2))
        diagonals = inner.reshape(len(x), -1)[:, :: x.shape[-1] + 1]
        diagonals -= penalty[:, None]
        field: Array = bx @ inner
        field += g
        return field

    def column_tangent(self, x: Array, field: Array, bx: Array | None = None) -> Array:
        """The part of a field that keeps each x_j^T B x_j: every column is made orthogonal to that of B x."""
        bx = self.product(x) if bx is None else bx
        share = (bx * field).sum(-2, keepdims=True) / np.maximum((bx * bx).sum(-2, keepdims=True), np.finfo(np.float64).tiny)
        tangent: Array = field - bx * share
        return tangent

    def normalized(self, y: Array) -> tuple[Array, Array]:
        """The point x, the columns of y scaled so that each x_j^T B x_j = 1, and B x; fresh."""
        by = self.product(y)
        length = np.sqrt((y * by).sum(-2, keepdims=True))
        return y / length, by / length
