"""numba's decorators, and what stands for them where numba is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

try:
    import numba
except ImportError:
    COMPILES = False
else:
    COMPILES = True

F = TypeVar("F", bound=Callable[..., Any])


def _compiled(**options: Any) -> Callable[[F], F]:
    """Compile at the first call; division by zero gives infinity or NaN, as in NumPy."""
    if not COMPILES:
        return np.errstate(all="ignore")

    def compile(function: F) -> F:
        try:
            made: F = numba.njit(cache=True, error_model="numpy", **options)(function)
        except RuntimeError:  # no folder for the cache
            made = numba.njit(error_model="numpy", **options)(function)
        return made

    return compile


exact = _compiled()
"""Compile without reordering the arithmetic, whose accuracy depends on the order of additions."""
fast = _compiled(fastmath={"reassoc", "contract", "nsz"})
"""Compile with reordered sums and fused products, so that long loops use vector registers."""
