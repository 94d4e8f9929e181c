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
    loader = import_module(package).__loader__
    source: str = loader.get_source(package)  # type: ignore[union-attr]
    found: dict[str, str] = {}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ImportFrom(module=None, names=names):
                found |= {alias.name: f"{package}.{alias.name}" for alias in names}
            case ast.ImportFrom(module=module, names=[ast.alias("*")], level=1):
                found |= exports(f"{package}.{module}")
            case ast.ImportFrom(module=module, names=names, level=1):
                found |= dict.fromkeys([alias.name for alias in names], f"{package}.{module}")
    return found


def lazily(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package."""

    def get(name: str) -> object:
        if name not in (modules := exports(package)):
            from .settings import missing

            missing(package, modules)(name)
        value = import_module(modules[name])
        if modules[name] != f"{package}.{name}":
            value = getattr(value, name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        own = [name for name in vars(sys.modules[package]) if name.startswith("_")]
        return sorted({*own, *exports(package)})

    return get, listed
