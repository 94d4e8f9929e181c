"""Docstrings open with a noun phrase or a verb, not with a pronoun or a question word.

The library's messages name no flags.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.source import Module, module, modules

OPENINGS = ("What", "Whether", "Who", "Those", "That")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the text of the docstrings of the module, its classes and functions, and of strings after an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for place, statement in enumerate(node.body):
                documents = place == 0 or isinstance(node.body[place - 1], ast.Assign | ast.AnnAssign)
                if (
                    documents
                    and isinstance(statement, ast.Expr)
                    and isinstance(statement.value, ast.Constant)
                    and isinstance(statement.value.value, str)
                ):
                    yield statement.lineno, statement.value.value


def riddles(source: Module) -> list[str]:
    """File, line and first words of each docstring that opens with one of `OPENINGS`."""
    return [
        f"{source.path}:{line}: {' '.join(text.split()[:6])}"
        for line, text in docstrings(source.tree)
        if text.split()[:1] and text.split()[0] in OPENINGS
    ]


def test_no_docstring_opens_with_a_pronoun() -> None:
    found = [place for source in modules() for place in riddles(source)]
    assert not found, "\n".join([f"{len(found)} docstrings open with one of {', '.join(OPENINGS)}:", *found])


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ('"""What is here."""', True),
        ('def f():\n    """Whether x holds."""', True),
        ('class A:\n    """A point."""\n    x: int\n    """Those of x."""', True),
        ('X = 1\n"""\nThat of x."""', True),
        ('class A:\n    async def f(self):\n        r"""Who sends."""', True),
        ('"""The state of x; that is what it is."""', False),
        ('"""Whatever."""', False),
        ('X = "What"', False),
    ],
)
def test_the_checker_sees_openings(text: str, caught: bool) -> None:
    assert bool(riddles(module("decentorth.new", text))) is caught


COMMANDS = (
    *("commands", "compare", "records", "run", "__main__"),
    *("network.transport.ulfm", "registry"),
)
"""Modules of the package that may write flags: commands, a line for a launcher, and a message that has both forms."""


def flags(source: Module) -> list[str]:
    """File, line and text of each string with a flag, but for docstrings."""
    documented = {line for line, _ in docstrings(source.tree)}
    return [
        f"{source.path}:{node.lineno}: {node.value}"
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno not in documented
        if re.search(r"(?<![\w-])--[a-z]", node.value)
    ]


def test_messages_of_the_library_name_arguments_of_python() -> None:
    """The command line adds flags where their names differ."""
    commands = tuple(f"decentorth.{name}" for name in COMMANDS)
    library = [source for source in modules() if not f"{source.name}.".startswith(tuple(f"{name}." for name in commands))]
    found = [
        place for source in library if source.name not in ("topologies.command", "topologies.flags") for place in flags(source)
    ]
    assert not found, "\n".join(["these messages name flags:", *found])
    assert flags(module("decentorth.new", 'raise ValueError("leave x0 out (--start)")'))
