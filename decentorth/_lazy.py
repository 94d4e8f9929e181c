"""Packages whose names are imported when first used (PEP 562).

Their imports under ``if TYPE_CHECKING`` are the list of the names.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module


@cache
def exports(package: str) -> dict[str, str]:
    """The module of each name that the source of a package imports from its own modules."""
    loader = sys.modules[package].__loader__
    source: str = loader.get_source(package)  # type: ignore[union-attr]
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for alias in node.names:
                found[alias.name] = f"{package}.{node.module}"
    return found


def lazily(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package."""

    def get(name: str) -> object:
        if name not in (modules := exports(package)):
            from .settings import missing

            missing(package, modules)(name)
        value = getattr(import_module(modules[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *exports(package)})

    return get, listed
