"""The error of a missing optional library, which names the command to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needing(library: str, what: str) -> Iterator[None]:
    """Return a context for an import that names the installing command on failure.

    ``what`` needs ``library``, by its name for pip. Raises ModuleNotFoundError if it is missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{what} needs {library} ({error}): pip install {library}", name=error.name
        ) from error
