"""One BLAS thread, on whose number the bits of products and factors depend."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController

_Before = dict[str, tuple[Any, int]]
"""Libraries by their files, with their numbers of threads before the limit."""
_lock = threading.RLock()
_shared: _Before = {}
_open = 0
"""The number of contexts that want one thread, in all threads of Python."""
if sys.platform != "win32":  # a child by os.fork has no thread that would release the lock
    _free = _lock.release
    os.register_at_fork(before=_lock.acquire, after_in_parent=_free, after_in_child=_free)


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A context with one thread in every loaded library of linear algebra.

    Most libraries have one number for the whole process. The first context that is entered sets it,
    in whatever thread of Python, and the last one that ends sets it back. OpenMP has a number for
    each thread of Python, which each context sets back.
    """
    global _open
    own: _Before = {}
    with _lock:
        for library in _libraries(len(sys.modules)):
            before = own if _is_openmp(library) else _shared
            before.setdefault(library.filepath, (library, library.num_threads))
            _set(library, 1)
        _open += 1
    try:
        yield
    finally:
        with _lock:
            _open -= 1
            _set_back(own)
            if _open == 0:
                _set_back(_shared)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> list[Any]:
    """The loaded libraries, looked for once per number of modules, as that takes milliseconds."""
    return ThreadpoolController().lib_controllers


def _is_openmp(library: Any) -> bool:
    """True for OpenMP itself, and for OpenBLAS on top of it."""
    layer = getattr(library, "threading_layer", None)
    return library.user_api == "openmp" or (library.internal_api, layer) == ("openblas", "openmp")


def _set(library: Any, number: int) -> None:
    """Set a library's number of threads.

    Without the release threadpoolctl 3.7 and 3.8 ignore all threads of Python but the first one.
    """
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


def _set_back(before: _Before) -> None:
    for library, number in before.values():
        _set(library, number)
    before.clear()
