"""Every command that a message, a docstring or a page tells its reader to type can be typed.

Messages of the package name libraries as pip knows them, since the package itself is on no index.
Pages name extras, for a checkout.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Iterator

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from decentorth.__main__ import COMMANDS, main
from decentorth.lab.recorders import KINDS
from decentorth.problems.autodiff.libraries import LIBRARIES
from tests.support.mpi import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
BOUNDS = {
    canonicalize_name(one.name): one
    for listed in [PROJECT["dependencies"], *EXTRAS.values()]
    for one in map(Requirement, listed)
}
"""The libraries that the package uses, by their names for pip."""
NOT_OURS = {"build", "geoopt", "pytest", "twine", "uv"}
"""Libraries of releases, of comparisons with others, and of a template's tests."""
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.py")),
]
INSTALL = re.compile(r"""pip install (?:-[eqU] )*("[^"]+"|'[^']+'|[A-Za-z][\w.\[\],-]*)""")
COMMAND = re.compile(rf"decentorth[ .]({'|'.join(COMMANDS)})\b([^;:`\n]*)")


def strings() -> Iterator[str]:
    """The strings of the package; {} stands for what is put into one."""
    for path in sorted(
        [*(ROOT / "decentorth").rglob("*.py"), *(ROOT / "topologies").rglob("*.py")]
    ):
        inside: set[ast.AST] = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                inside |= set(ast.walk(node))
                parts = [getattr(part, "value", None) for part in node.values]
                yield "".join(one if isinstance(one, str) else "{}" for one in parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield from [node.value] * (node not in inside)


def installed(texts: Iterable[str]) -> set[str]:
    """What the texts tell pip to install, without quotes."""
    return {found.strip("\"'").rstrip(",.") for text in texts for found in INSTALL.findall(text)}


def test_the_package_names_libraries_that_it_declares() -> None:
    """By name, with the bound that pyproject.toml has where a message has one."""
    named = installed(strings())
    assert len(named) > 8
    for one in named | {kind.distribution for kind in KINDS.values()} | LIBRARIES.keys():
        asked = Requirement(one)
        declared = BOUNDS[canonicalize_name(asked.name)]
        assert not asked.extras
        assert not asked.specifier or asked.specifier == declared.specifier, one


def test_pages_name_extras_that_exist() -> None:
    named = installed(page.read_text() for page in PAGES)
    of_a_checkout = {one for one in named if one.startswith(".")}
    assert len(of_a_checkout) > 8
    for one in of_a_checkout:
        assert Requirement(f"decentorth{one[1:]}").extras <= EXTRAS.keys(), one
    for one in named - of_a_checkout:
        assert canonicalize_name(Requirement(one).name) in BOUNDS.keys() | NOT_OURS, one


def test_the_package_names_commands_and_flags_that_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = {found for text in strings() for found in COMMAND.findall(text)}
    assert len(named) > 8
    for command in COMMANDS:
        main([command, "--help", "all"])
        known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) | {"--help"}
        asked = {
            flag
            for name, words in named
            if name == command
            for flag in re.findall(r"--[a-z-]+", words)
        }
        assert asked <= known, command
