"""Docstrings open with a noun phrase or a verb, not with a pronoun or a question word."""

from __future__ import annotations

import ast
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
