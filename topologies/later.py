"""Packages that are loaded when first used: many commands build their graphs from arrays and start without them."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Later:
    """The names of a package."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self._package), name)


cp, nx, pyamg = map(_Later, ("cvxpy", "networkx", "pyamg"))
sparse, optimize, spatial = map(_Later, ("scipy.sparse", "scipy.optimize", "scipy.spatial"))
