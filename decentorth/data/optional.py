"""The import of libraries that come with an extra, with an error that names the command to install it."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def optional(module: str, what: str, extra: str) -> Any:
    """The ``module``, which ``what`` needs; the ModuleNotFoundError names the command that installs it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = {"sklearn": "scikit-learn"}.get(package := module.partition(".")[0], package)
        wrong = f"{what} needs {library} ({error})"
        repair = f'pip install "decentorth[{extra}]"'
        raise ModuleNotFoundError(f"{wrong}: {repair}", name=error.name) from error
