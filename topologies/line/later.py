"""Packages that are loaded when first used: many commands build their graphs from arrays and start
without them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["collections", "cp", "nx", "optimize", "pandas", "patches", "patheffects"]
__all__ += ["pyamg", "sparse", "spatial", "yaml"]


class _Later:
    """The names of a package."""

    def __init__(self, package: str) -> None:
        self._package = package

    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self._package), name)


if TYPE_CHECKING:
    import cvxpy as cp
    import networkx as nx
    import pandas
    import pyamg
    import yaml
    from matplotlib import collections, patches, patheffects
    from scipy import optimize, sparse, spatial
else:
    cp, nx, pyamg = map(_Later, ("cvxpy", "networkx", "pyamg"))
    pandas, yaml = map(_Later, ("pandas", "yaml"))
    sparse, optimize, spatial = map(_Later, ("scipy.sparse", "scipy.optimize", "scipy.spatial"))
    drawing = ("matplotlib.collections", "matplotlib.patches", "matplotlib.patheffects")
    collections, patches, patheffects = map(_Later, drawing)
