"""Points of sets, and a set that can do nothing but be one."""

from __future__ import annotations

from typing import Any

import numpy as np

from decentorth.protocols import Array


def norm(a: Array) -> Array:
    """``(n,)``: Frobenius norms."""
    return np.sqrt((a * a).sum((-2, -1)))


def gaussian(shape: tuple[int, int], seed: int = 0, n: int = 4) -> Array:
    """``(n, *shape)``, away from every manifold."""
    return np.random.default_rng(seed).standard_normal((n, *shape))


def feasible(there: Any, seed: int = 1, n: int = 4) -> Array:
    """``(n, *shape)``: random points of the set."""
    rng = np.random.default_rng(seed)
    return np.stack([there.random(rng) for _ in range(n)])


class Box:
    """{x : |x_jk| <= 1}, of shape (3, 1), with what every constraint has and none of the
    capabilities that methods ask for."""

    shape = (3, 1)

    def feasibility(self, x: Array) -> Array:
        """``(n_local,)``: the distance from the nearest point."""
        return norm(x - np.clip(x, -1.0, 1.0))

    def random(self, rng: np.random.Generator) -> Array:
        """Uniform."""
        return rng.uniform(-1.0, 1.0, self.shape)
