"""Loops over pairs of rows. Without numba (the extra ``fast``) Python runs them itself."""

from __future__ import annotations

import warnings
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from decentorth.numerics.kernels import load
from decentorth.protocols import SETUP

from .subproblem import Sweep, isotropic, linear_term


@cache
def pair_kernels() -> Any:
    """The module `compiled`, with its code compiled: for good if numba can cache it on disk, else
    for this process."""
    module = import_module(".compiled", __name__)
    if not module.COMPILES:
        warnings.warn(
            "the methods on pairs of rows are some hundred times slower without numba: pip "
            "install numba",
            stacklevel=2,
        )
        return module
    SETUP.info("the compiled kernels")
    load(lambda: _run_all(module), module.gauss_seidel)
    return module


def _run_all(kernels: Any) -> None:
    """Run every kernel once, on one pair."""
    first = np.zeros(1, dtype=np.int64)
    second = np.ones(1, dtype=np.int64)
    one = np.eye(2)
    signs = np.array([1.0, -1.0])
    curvature = isotropic(np.ones(1))
    v = kernels.minimise(signs[:1] != signs[1:], linear_term(one[None], curvature), curvature).v
    for turn in (kernels.turn_rows, kernels.congruence):
        turn(one.copy(), v, first, second)
    kernels.blocks(one, one, first, second)
    sweep = Sweep(0.0, True, 0.0, 0.0, np.inf)
    kernels.gauss_seidel(one.copy(), one.copy(), one, signs, first, second, sweep)
    kernels.jacobi_sweep(one.copy(), one.copy(), signs)
