"""A module name and a class name stand for one thing each: a second one has its reason here."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import PurePath

from tests.support.source import ROOT, Module, modules

FILES = {
    "__init__": "a package",
    "__main__": "`python -m` of a package",
    "command": "the command of its folder",
    **dict.fromkeys(("algorithms", "data", "kinds"), "the list of a family's names"),
    "problems": "the list of a family's names, and the protocols of problems",
    **dict.fromkeys(("network", "run"), "the protocols of what has this name"),
    **dict.fromkeys(("cca", "ica", "lda", "pca"), "a problem, and the estimator that solves it"),
    "recorders": "recorders, and the public list of their names",
}
CLASSES = {
    **dict.fromkeys(("CCA", "ICA", "PCA"), "a problem, and the estimator that solves it"),
    **dict.fromkeys(("DRFGT", "GradientTracking"), "a method, and its optimizer of PyTorch"),
    "Landing": "a method, its optimizer of PyTorch, and the protocol of its sets",
    **dict.fromkeys(
        ("JointSpectrum", "Network", "PushPullSpectrum"), "a class, and the protocol that it has"
    ),
    "Loss": "ranks that are lost, and the fault `loss` of a channel, named by its class",
}
"""The names that stand more than once, all of them public or in files, with the reason."""


def repeated(names: Iterable[str]) -> set[str]:
    """The names that occur more than once."""
    every = list(names)
    return {name for name in every if every.count(name) > 1}


def classes(sources: Iterable[Module]) -> list[str]:
    """The names of all classes."""
    return [
        node.name
        for source in sources
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef)
    ]


def test_a_name_of_a_module_is_used_once() -> None:
    new = repeated(PurePath(source.path).stem for source in modules()) - {*FILES}
    assert new == set(), "name the later one by what it adds, such as checkpoint_files"


def test_a_name_of_a_class_is_used_once() -> None:
    assert repeated(classes(modules())) - {*CLASSES} == set()


def test_every_exception_is_one() -> None:
    files = repeated(PurePath(source.path).stem for source in modules())
    assert {*FILES} - files <= {"data", "kinds"}  # lists that one family has today
    assert {*CLASSES} == repeated(classes(modules()))


def test_the_glossary_names_classes_and_files_that_exist() -> None:
    page = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Words")[2]
    words = set(re.findall(r"`([A-Z]\w+)`", page))
    assert len(words) > 10
    assert words - {*classes(modules())} == set()
    paths = [source.path for source in modules()]
    for name in re.findall(r"`([\w/]+\.py)`", page):
        assert any(path.endswith(f"/{name}") or path == name for path in paths), name
