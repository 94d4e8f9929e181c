"""Loops that numba compiles: `compiled` for pairs of rows, `tracking` for DRFGT.

Both need numba (the extra ``fast``). Without it Python runs the loops over pairs of rows itself.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from ...protocols import SETUP
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
    _load(lambda: _run_all(module), module.gauss_seidel)
    return module


@cache
def compiled_tracking() -> Any:
    """The module `tracking` with its code compiled; an ImportError says how to install numba where
    it is missing."""
    if importlib.util.find_spec("numba") is None:
        raise ImportError(
            "the kernel numba needs numba: pip install numba, or take the kernel numpy"
        )
    SETUP.info("the compiled kernels")
    module = import_module(".tracking", __name__)
    _load(module.prepare, module.accumulate)
    return module


def _load(work: Callable[[], None], compiled: Any) -> None:
    """Do the work, which compiles or reads what numba has cached beside the function ``compiled``.

    Raises
    ------
    ImportError
        The cache is damaged; says what to remove.
    """
    try:
        work()
    except Exception as error:  # numba unpickles its cache, and a damaged pickle may raise anything
        if (folder := compiled.stats.cache_path) is None:
            raise
        raise ImportError(
            f"numba cannot load its compiled code ({type(error).__name__}: {error}): remove the "
            f"folder {folder}, where it is kept, and start again"
        ) from error


def _run_all(kernels: Any) -> None:
    """Run every kernel once, on one pair."""
    first, second = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    one, signs = np.eye(2), np.array([1.0, -1.0])
    curvature = isotropic(np.ones(1))
    v = kernels.minimise(signs[:1] != signs[1:], linear_term(one[None], curvature), curvature).v
    for turn in (kernels.turn_rows, kernels.congruence):
        turn(one.copy(), v, first, second)
    kernels.blocks(one, one, first, second)
    sweep = Sweep(0.0, True, 0.0, 0.0, np.inf)
    kernels.gauss_seidel(one.copy(), one.copy(), one, signs, first, second, sweep)
    kernels.jacobi_sweep(one.copy(), one.copy(), signs)
