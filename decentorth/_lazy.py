"""Packages whose names are imported when first used (PEP 562).

Their imports under ``if TYPE_CHECKING`` are the list of the names.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec, resolve_name
from typing import Any


@cache
def exports(name: str) -> dict[str, str]:
    """The module of each public name that a package or a module imports from its package, or a
    module defines."""
    module: Any = import_module(name)
    package = module.__package__
    found = {}
    tree = ast.parse(module.__loader__.get_source(name))
    for node in tree.body * (package != name):
        match node:
            case ast.ClassDef(name=own) | ast.FunctionDef(name=own):
                found[own] = name
            case ast.Assign(targets=[ast.Name(id=own)]):
                found[own] = name
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=None, names=names):
                found |= {alias.name: f"{package}.{alias.name}" for alias in names}
            case ast.ImportFrom(module=str(source), names=[ast.alias("*")], level=level):
                listed = resolve_name("." * level + source, package)
                if _exists(listed):
                    found |= exports(listed)
            case ast.ImportFrom(module=source, names=names, level=1):
                found |= dict.fromkeys([alias.name for alias in names], f"{package}.{source}")
    return {one: place for one, place in found.items() if not one.startswith("_")}


def _exists(module: str) -> bool:
    """True unless the folder of the module was removed, as a family or the laboratory may be."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def families(name: str) -> dict[str, str]:
    """The public names of a package that families have, with their modules."""
    return {
        one: module
        for one, module in exports(name).items()
        if module.startswith("decentorth.families.")
    }


def lazily(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__``, which gives ``__all__`` too, and ``__dir__`` of a package."""
    names = vars(sys.modules[package])

    def get(name: str) -> object:
        if name == "__all__":
            return sorted(exports(package))
        if name not in (modules := exports(package)):
            from .settings import missing

            missing(package, modules)(name)
        value: object = import_module(modules[name])
        if modules[name] != f"{package}.{name}":
            value = getattr(value, name)
        names[name] = value
        return value

    def listed() -> list[str]:
        own = [name for name in names if name.startswith("_")]
        return sorted({*own, *exports(package)})

    return get, listed
