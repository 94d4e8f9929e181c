"""The import of scikit-learn, the optional extra ``data``, with an error that names the command to install it."""

from __future__ import annotations

from typing import Any


def sklearn_datasets(what: str) -> Any:
    """The module ``sklearn.datasets``, which ``what`` needs; the ModuleNotFoundError names the command that installs it."""
    try:
        import sklearn.datasets  # scikit-learn ships no types
    except ModuleNotFoundError as error:
        repair = 'pip install "decentorth[data]"'
        raise ModuleNotFoundError(f"{what} needs scikit-learn ({error}): {repair}", name=error.name) from error
    return sklearn.datasets
