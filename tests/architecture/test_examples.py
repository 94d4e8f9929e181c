"""Examples use public names only, as a user does, in short functions with one assignment a line."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from tests.architecture.test_public_names import MODULES
from tests.support.source import ROOT

PUBLIC = {*MODULES, "decentorth.algorithms", "decentorth.run", "decentorth.training"}
"""The modules whose listed names an example may use."""
LONGEST = 45
"""Lines of code in a function."""
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))


def is_public(name: str) -> bool:
    """True for a public module, and for a name that one lists."""
    module, _, own = name.rpartition(".")
    if name in PUBLIC or name == "decentorth.__version__":
        return True
    return module in PUBLIC and own in listed(module)


def listed(module: str) -> list[str]:
    """The names that a module lists; read, not imported, where it needs PyTorch."""
    if module != "decentorth.training":
        names: list[str] = import_module(module).__all__
        return names
    source = (ROOT / "decentorth" / "training" / "__init__.py").read_text(encoding="utf-8")
    (value,) = (
        node.value
        for node in ast.parse(source).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return ast.literal_eval(value)


def used(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Each imported name of the packages, and each attribute of a module that is one."""
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
        elif isinstance(node, ast.Import):
            names = {alias.asname or alias.name: alias.name for alias in node.names}
        else:
            continue
        for short, name in names.items():
            if name.split(".")[0] in ("decentorth", "topologies"):
                yield node.lineno, name
                if name in PUBLIC:
                    modules[short] = name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            short, *rest = ast.unparse(node).split(".")
            if short in modules and all(part.isidentifier() for part in rest):
                yield from attributes(node.lineno, modules[short], rest)


def attributes(line: int, module: str, rest: list[str]) -> Iterator[tuple[int, str]]:
    """The name after a public module, and the one after that if it is such a module too."""
    name = f"{module}.{rest[0]}"
    yield line, name
    if name in PUBLIC and rest[1:]:
        yield from attributes(line, name, rest[1:])


def code_lines(function: ast.FunctionDef, source: list[str]) -> int:
    """The lines of a function's body, without its docstring, comments and blank lines."""
    body = function.body
    if ast.get_docstring(function, clean=False) is not None:
        body = body[1:]
    if not body:
        return 0
    lines = source[body[0].lineno - 1 : function.end_lineno]
    return sum(bool(line.strip()) and not line.strip().startswith("#") for line in lines)


def is_pair(node: ast.Assign) -> bool:
    """True for ``a, b = c, d``, but for an exchange of values."""
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return False
    return {*map(ast.unparse, target.elts)} != {*map(ast.unparse, node.value.elts)}


def faults(text: str) -> list[str]:
    """What is wrong with an example."""
    tree = ast.parse(text)
    source = text.splitlines()
    found = [
        f"line {line}: {name} is not public" for line, name in used(tree) if not is_public(name)
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and (lines := code_lines(node, source)) > LONGEST:
            found.append(f"line {node.lineno}: {node.name} has {lines} lines of code")
        if isinstance(node, ast.Assign) and is_pair(node):
            found.append(f"line {node.lineno}: several assignments")
    return found


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT)))
def test_an_example_is_what_a_user_would_write(path: Path) -> None:
    pytest.importorskip("sklearn")
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("from decentorth.api import set_up", "decentorth.api.set_up is not public"),
        ("import decentorth as do\ndo.lab.plot", "decentorth.lab is not public"),
        ("import decentorth as do\ndo.problems.base", "decentorth.problems.base is not public"),
        ("a, b = 1, 2", "several assignments"),
        ("def f():\n" + "    a = 1\n" * (LONGEST + 1), f"f has {LONGEST + 1} lines of code"),
        ("import decentorth as do\ndo.problems.PCA.from_sites\na, b = b, a", ""),
    ],
)
def test_the_checker_sees(text: str, fault: str) -> None:
    found = faults(text)
    assert bool(found) is bool(fault)
    assert all(fault in one for one in found)
