"""One BLAS thread, on whose number the bits of products and factors depend."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


def one_thread() -> AbstractContextManager[object]:
    """A context with one thread in every loaded library of linear algebra.

    ``threadpoolctl.threadpool_limits(1)`` looks for these libraries each time, which takes some milliseconds; this function looks
    again only when a module has been imported since.
    """
    limited: AbstractContextManager[object] = _controller(len(sys.modules)).limit(limits=1)
    return limited


@lru_cache(maxsize=1)
def _controller(modules: int) -> ThreadpoolController:
    """The libraries that are loaded, with so many modules."""
    return ThreadpoolController()
