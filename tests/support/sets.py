"""A set that can do nothing but be one."""

from __future__ import annotations

import numpy as np

from decentorth.numerics.ordered_sums import norms
from decentorth.protocols import Array


class Box:
    """{x : |x_jk| <= 1}, of shape (3, 1), with what every constraint has and none of the capabilities that methods ask for."""

    shape = (3, 1)

    def feasibility(self, x: Array) -> Array:
        """``(n_local,)``: the distance from the nearest point."""
        return norms(x - np.clip(x, -1.0, 1.0))

    def random(self, rng: np.random.Generator) -> Array:
        """Uniform."""
        return rng.uniform(-1.0, 1.0, self.shape)
