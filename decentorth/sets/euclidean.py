"""The whole space R^{d x r} as a constraint set: every point is feasible, and the landing field is the gradient.

With it DRFGT is gradient tracking in Euclidean space, the unconstrained case that linear theory describes exactly.
"""

from __future__ import annotations

import numpy as np

from ..protocols import Array, Retraction


class Euclidean:
    """R^{d x r}.

    Parameters
    ----------
    d, r
        Rows and columns of a point.

    Raises
    ------
    ValueError
        Unless both are at least 1.
    """

    def __init__(self, d: int, r: int) -> None:
        if d < 1 or r < 1:
            raise ValueError(f"a point needs at least one row and one column, got d = {d} and r = {r}")
        self.shape: tuple[int, ...] = (d, r)

    def __repr__(self) -> str:
        return f"R({self.shape[0]}, {self.shape[1]})"

    def feasibility(self, x: Array) -> Array:
        """``(n_local,)``: zeros."""
        return np.zeros(len(x))

    def project(self, y: Array, method: str = "polar-svd") -> Array:
        """``y`` itself, copied."""
        return y.copy()

    def distance(self, x: Array) -> Array:
        """``(n_local,)``: zeros."""
        return np.zeros(len(x))

    def random(self, rng: np.random.Generator) -> Array:
        """``(d, r)``: Gaussian."""
        return rng.standard_normal(self.shape)

    def tangent(self, x: Array, g: Array) -> Array:
        """``g`` itself, copied."""
        return g.copy()

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """``x + v``, whatever the retraction."""
        return x + v

    def relative_gradient(self, x: Array, g: Array) -> Array:
        """``g`` itself, copied."""
        return g.copy()

    def landing(self, x: Array, g: Array, penalty: Array) -> Array:
        """``g`` itself, copied; there is nothing to penalise."""
        return g.copy()

    def penalised(self, x: Array, g: Array, penalty: Array) -> Array:
        """``g`` itself, copied; there is nothing to penalise."""
        return g.copy()

    def dissolve(self, x: Array) -> Array:
        """``x`` itself, copied."""
        return x.copy()

    def dissolved(self, x: Array, g: Array, penalty: Array) -> Array:
        """``g`` itself, copied; there is nothing to dissolve."""
        return g.copy()

    def safe_step(self, x: Array, direction: Array, penalty: Array, eps: float) -> Array:
        """``(n_local,)``: infinite, since no step leaves the set."""
        return np.full(len(x), np.inf)

    def multiplier_norm(self, x: Array, g: Array) -> Array:
        """``(n_local,)``: zeros, since there is no multiplier."""
        return np.zeros(len(x))
