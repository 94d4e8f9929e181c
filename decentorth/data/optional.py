"""scikit-learn, the optional extra ``data``: imported where it is used, with the way to install it when it is missing."""

from __future__ import annotations

from typing import Any


def sklearn_datasets(what: str) -> Any:
    """The module ``sklearn.datasets``, which ``what`` needs.

    Raises
    ------
    ModuleNotFoundError
        Naming the command that installs it.
    """
    try:
        import sklearn.datasets  # it ships no types
    except ModuleNotFoundError as error:
        repair = 'pip install "decentorth[data]"'
        raise ModuleNotFoundError(f"{what} needs scikit-learn ({error}): {repair}", name=error.name) from error
    return sklearn.datasets
