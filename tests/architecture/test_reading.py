"""The page that follows a run names files and functions that exist."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.source import ROOT

PAGE = (ROOT / "docs/read_drfgt.md").read_text(encoding="utf-8")
STOPS = re.findall(r"^\d+\. `([\w/]+\.py)`: (.*?)\.\s", PAGE, re.M | re.S)


def definitions(path: str) -> set[str]:
    """Return the functions, classes and methods of a file of decentorth."""
    tree = ast.parse((ROOT / "decentorth" / path).read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            methods = [inner for inner in node.body if isinstance(inner, ast.FunctionDef)]
            found.update(f"{node.name}.{method.name}" for method in methods)
    return found


@pytest.mark.parametrize(("path", "words"), STOPS)
def test_the_page_names_functions_that_exist(path: str, words: str) -> None:
    assert {*re.findall(r"`([\w.]+)`", words)} <= definitions(path)


def test_every_stop_of_the_page_is_checked() -> None:
    assert len(STOPS) == len(re.findall(r"^\d+\. ", PAGE, re.M)) == 18
