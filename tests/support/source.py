"""The packages' own source as syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("decentorth", "topologies")


class Module(NamedTuple):
    """A source file."""

    name: str
    """Dotted, a package by its own name."""
    path: str
    """Relative to the repository."""
    tree: ast.Module


@cache
def modules() -> tuple[Module, ...]:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found.append(
                Module(
                    name, str(path.relative_to(ROOT)), ast.parse(path.read_text(encoding="utf-8"))
                )
            )
    return tuple(found)


def module(name: str, source: str, package: bool = False) -> Module:
    """A module made up for a test of the tests."""
    return Module(
        name, name.replace(".", "/") + ("/__init__.py" if package else ".py"), ast.parse(source)
    )


def with_places(tree: ast.AST, place: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Every node with the function or class around it, as in ``Class.method``; the module itself is
    the empty place."""
    for node in ast.iter_child_nodes(tree):
        yield place, node
        inner = place
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{place}.{node.name}".lstrip(".")
        yield from with_places(node, inner)


def dotted(node: ast.AST) -> str:
    """``np.linalg.norm`` of such an expression; what is not a name stands as ``?``."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"
