"""The errors of imports of libraries that come with an extra, which name the command to install
it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def needing(library: str, what: str, extra: str) -> Iterator[None]:
    """Return a context for an import that names the installing command on failure.

    ``what`` needs ``library``, which ``extra`` installs. Raises ModuleNotFoundError if it is
    missing.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        wrong = f'{what} needs {library} ({error}): pip install "decentorth[{extra}]"'
        raise ModuleNotFoundError(wrong, name=error.name) from error
