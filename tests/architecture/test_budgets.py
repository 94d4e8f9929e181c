"""Budgets of the code: they may fall, and rise only with a reason in the commit. Print where they stand:

python -m tests.architecture.test_budgets
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

from tests.architecture.test_imports import NAMES, imports
from tests.support.source import ROOT, Module, modules

BUDGETS = {
    "code lines": 31_510,
    "code lines above 100 characters, in 1,000": 14.8,
    "conditional expressions in 1,000 code lines": 13.8,
    "Any in 1,000 lines": 11.8,
    "getattr, hasattr, setattr": 34,
    "isinstance": 178,
    "functions that import": 54,
    "functions above 45 code lines": 0,
    "modules above 300 code lines": 0,
    "class names used twice": 11,
    "rooms": 27,
    "arrows between rooms": 139,
    "lines of tests": 36_189,
}
"""The highest permitted value of each measure of decentorth and topologies. A room is a module or a folder right below decentorth,
or topologies; an arrow is a pair of rooms of which one imports from the other."""
NO_CODE = frozenset(
    (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.ENCODING)
)


def code_lines(text: str, tree: ast.Module) -> set[int]:
    """The numbers of the lines that have code: no blank lines, comments or docstrings."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            found.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def counts(source: Module) -> Counter[str]:
    text = (ROOT / source.path).read_text(encoding="utf-8")
    lines, code = text.splitlines(), code_lines(text, source.tree)
    found = Counter(
        {
            "lines": len(lines),
            "code lines": len(code),
            "long": sum(len(lines[number - 1]) > 100 for number in code),
            "modules above 300 code lines": int(len(code) > 300),
        }
    )
    for node in ast.walk(source.tree):
        match node:
            case ast.IfExp():
                found["conditional"] += 1
            case ast.Name(id="Any"):
                found["Any"] += 1
            case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr")):
                found["getattr, hasattr, setattr"] += 1
            case ast.Call(func=ast.Name(id="isinstance")):
                found["isinstance"] += 1
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                inner = range(node.lineno, (node.end_lineno or node.lineno) + 1)
                found["functions above 45 code lines"] += len(code.intersection(inner)) > 45
                found["functions that import"] += any(isinstance(one, ast.Import | ast.ImportFrom) for one in ast.walk(node))
    return found


def room(name: str) -> str:
    top, _, rest = name.partition(".")
    return rest.partition(".")[0] or top if top == "decentorth" else top


def arrows() -> Iterator[tuple[str, str]]:
    """The pairs of rooms of which the first imports from the second."""
    for source in modules():
        for _, name in imports(source, NAMES):
            if name.partition(".")[0] in ("decentorth", "topologies") and room(name) != room(source.name):
                yield room(source.name), room(name)


@cache
def measured() -> dict[str, float]:
    total: Counter[str] = sum((counts(source) for source in modules()), Counter())
    classes = Counter(node.name for source in modules() for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))
    rooms = nx.DiGraph(set(arrows()))
    return total | {
        "code lines above 100 characters, in 1,000": 1000 * total["long"] / total["code lines"],
        "conditional expressions in 1,000 code lines": 1000 * total["conditional"] / total["code lines"],
        "Any in 1,000 lines": 1000 * total["Any"] / total["lines"],
        "class names used twice": sum(times > 1 for times in classes.values()),
        "rooms": len(rooms),
        "arrows between rooms": rooms.number_of_edges(),
        "lines of tests": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in Path(ROOT, "tests").rglob("*.py")),
    }


@pytest.mark.parametrize("measure", BUDGETS)
def test_no_budget_is_exceeded(measure: str) -> None:
    assert measured().get(measure, 0) <= BUDGETS[measure]


def test_rooms_import_in_no_circle() -> None:
    circles = [one for one in nx.strongly_connected_components(nx.DiGraph(set(arrows()))) if len(one) > 1]
    assert circles == []


if __name__ == "__main__":
    for measure, budget in BUDGETS.items():
        print(f"{measure:45}{measured().get(measure, 0):10,.1f} of {budget:,}")
