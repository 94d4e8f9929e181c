"""The growing penalty of paper 001's rivals (Algorithm 3): beta doubles every five iterations while
it is at most 1e9."""

from __future__ import annotations

from typing import Literal

import numpy as np

from decentorth.protocols import Array

Growth = Literal["constant", "published"]
"""The schedule of a penalty: constant, or the published one, which starts at 1e2 to 1e5."""

START, DOUBLED, LARGEST = 1e3, 5, 1e9
"""The default first beta of the published schedule, the iterations between doublings, and the
largest beta that is doubled."""


def grown(growth: Growth, penalty: Array, k: int) -> Array:
    """The penalty ``(1,)`` after iteration ``k``."""
    if growth == "constant" or k % DOUBLED != 0:
        return penalty
    return np.where(penalty <= LARGEST, 2.0 * penalty, penalty)
