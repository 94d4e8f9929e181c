"""The whole space R^{d x r} as a constraint set: every point is feasible, and the landing field is
the gradient.

With it DRFGT is gradient tracking in Euclidean space, the unconstrained case that linear theory
describes exactly.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..protocols import Array, Retraction
from ..settings import check
from .retractions import matrix_sign


class Euclidean:
    """The Euclidean space R^{d x r}.

    Parameters
    ----------
    d, r
        Rows and columns of a point.

    Raises
    ------
    ValueError
        Unless both are at least 1.
    TypeError
        For a number that is not whole.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.sets import Euclidean
    >>> x = np.random.default_rng(0).standard_normal((4, 2))
    >>> float(Euclidean(4, 2).feasibility(x[None])[0])
    0.0
    """

    on_devices: ClassVar[bool] = True

    def __init__(self, d: int, r: int) -> None:
        d = check("d, the number of rows,", int, d)
        r = check("r, the number of columns,", int, r)
        if d < 1 or r < 1:
            raise ValueError(f"a point needs at least one row and column, got d = {d} and r = {r}")
        self.shape: tuple[int, ...] = (d, r)

    def __repr__(self) -> str:
        return f"R({self.shape[0]}, {self.shape[1]})"

    def feasibility(self, x: Array) -> Array:
        """Zeros, ``(n_local,)``."""
        return np.zeros(len(x))

    distance = feasibility

    def project(self, y: Array, method: str = "polar-svd") -> Array:
        """A copy of ``y``."""
        return y.copy()

    @property
    def singular_values(self) -> int:
        """The number of singular values of a point."""
        return min(self.shape)

    def matrix_sign(self, v: Array) -> Array:
        """The matrix sign U V^T of v = U S V^T, of the singular values that are not zero."""
        return matrix_sign(v)

    def random(self, rng: np.random.Generator) -> Array:
        """A Gaussian matrix ``(d, r)``."""
        return rng.standard_normal(self.shape)

    def tangent(self, x: Array, g: Array) -> Array:
        """A copy of ``g``: there is no constraint to penalise or dissolve."""
        return g.copy()

    relative_gradient = tangent

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """Return the point ``x + v``, for any value of ``retraction``."""
        return x + v

    def landing(self, x: Array, g: Array, penalty: Array) -> Array:
        """A copy of ``g``."""
        return g.copy()

    penalised = dissolved = landing

    def dissolve(self, x: Array) -> Array:
        """A copy of ``x``."""
        return x.copy()

    def safe_step(self, x: Array, direction: Array, penalty: Array, eps: float) -> Array:
        """Infinity, ``(n_local,)``, since no step leaves the set."""
        return np.full(len(x), np.inf)

    def multiplier_norm(self, x: Array, g: Array) -> Array:
        """Zeros, ``(n_local,)``, since there is no multiplier."""
        return np.zeros(len(x))
