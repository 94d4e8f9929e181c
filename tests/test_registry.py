"""A method or a problem that is imported in its package is entered everywhere."""

from __future__ import annotations

import inspect
import pkgutil
import re
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, ClassVar

import pytest

import decentorth as do
from decentorth import algorithms, families, problems, registry
from decentorth.commands.listing import FIRST
from decentorth.settings import Settings
from tests.algorithms.test_contract import METHODS
from tests.support.mpi import ROOT

NAMED = {name: registry.algorithms.get(name) for name in registry.algorithms.names()}


def defined(package: ModuleType, method: str) -> set[type[Settings]]:
    """The settings with ``method``, without abstract classes, that the modules of a package
    define."""
    modules = [
        import_module(found.name)
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]
    return {
        entry
        for module in modules
        for entry in vars(module).values()
        if isinstance(entry, type)
        and issubclass(entry, Settings)
        and entry.__module__ == module.__name__
        if hasattr(entry, method) and not inspect.isabstract(entry)
    }


def test_every_method_and_problem_has_a_name() -> None:
    assert set(NAMED.values()) == defined(algorithms, "step") | defined(families, "step")
    assert {registry.problems.get(name) for name in registry.problems.names()} == defined(
        problems, "problem"
    ) | defined(families, "problem")


@pytest.mark.parametrize("name", NAMED)
def test_every_method_can_be_imported_from_the_package(name: str) -> None:
    entry = NAMED[name]
    assert getattr(do, entry.__name__) is entry
    assert entry.__name__ in dir(do)


def test_every_method_is_in_the_contract_suite_and_in_the_tables() -> None:
    """The page of a method is made of its rows in both tables."""
    # other agents, or no iterations: other tests
    elsewhere = {do.AsynchronousDRFGT, do.LOBPCG, do.TrackedLanding, do.Direct, do.AutoMethod}
    assert {type(method.algorithm()) for method in METHODS} | elsewhere >= set(NAMED.values())
    page = (ROOT / "docs/methods.md").read_text()
    for section in ("All methods in groups", "Which method when"):
        part = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
        assert sorted(re.findall(r"^\| \**`(\w+)`\** \|", part, re.MULTILINE)) == sorted(NAMED)


def test_the_tables_recommend_what_the_list_recommends() -> None:
    page = (ROOT / "docs/methods.md").read_text()
    assert {*re.findall(r"^\| \*\*`(\w+)`\*\* \|", page, re.MULTILINE)} == {*FIRST}


def test_every_problem_has_its_formula_on_the_site() -> None:
    page = (ROOT / "docs/api/problems.md").read_text()
    rows = re.findall(r"^\| `\w+`, `(\w+)` \| \$.*\$ over \$.*\$ \|$", page, re.MULTILINE)
    assert sorted(rows) == sorted(registry.problems.names())


def test_what_is_no_method_is_not_in_the_package() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = do.Nothing


def test_a_field_takes_no_default_from_a_name_of_a_base() -> None:
    fields: dict[str, object] = {"__annotations__": {"momentum": "float"}}
    with pytest.raises(
        TypeError, match=r"momentum is a name of Method .* call the field otherwise"
    ):
        type("Mine", (do.authoring.Method,), fields)
    own = type("Own", (do.authoring.Method,), {"limits": lambda self, spectrum: None})
    with pytest.raises(TypeError, match="limits is a name of Own"):
        type("Mine", (own,), {"__annotations__": {"limits": float}})
    fields["momentum"] = 0.5
    made: Any = dataclass(type("Mine", (do.authoring.Method,), fields))
    assert made().momentum == 0.5


def test_a_class_variable_of_a_base_may_be_declared_again() -> None:
    class Mine(do.authoring.Method):
        sends: ClassVar[tuple[str, ...]]

    assert Mine.sends == do.authoring.Method.sends
