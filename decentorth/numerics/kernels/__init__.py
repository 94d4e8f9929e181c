"""Loops that numba compiles: `tracking` for DRFGT, and the kernels of families, which need the
extra ``fast``."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any

from ...protocols import SETUP


@cache
def compiled_tracking() -> Any:
    """The module `tracking_kernels` with its code compiled; an ImportError says how to install numba where
    it is missing."""
    if importlib.util.find_spec("numba") is None:
        raise ImportError(
            "the kernel numba needs numba: pip install numba, or take the kernel numpy"
        )
    SETUP.info("the compiled kernels")
    module = import_module(".tracking_kernels", __name__)
    load(module.prepare, module.accumulate)
    return module


def load(work: Callable[[], None], compiled: Any) -> None:
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
