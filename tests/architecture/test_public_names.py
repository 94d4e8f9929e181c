"""The public names do not change by accident, the version is the same everywhere, and what git
knows is packed.

The registries name methods and the settings of problems; the tables of `test_contract` and of the
pages have them all.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
import yaml

import decentorth
from decentorth import registry
from tests.support.source import ROOT

LIST = Path(__file__).with_name("public_names.txt")
ENTERED = {"decentorth": registry.algorithms, "decentorth.problems": registry.problems}
"""The registries of modules, whose classes follow from the files that there are."""
MODULES = (
    "decentorth",
    *(
        f"decentorth.{name}"
        for name in "authoring compare data estimators figures network problems protocols recorders sets".split()
    ),
    *("decentorth.stopping", "decentorth.theory", "topologies"),
)


def public(name: str) -> list[str]:
    """The names that a module lists, without registered classes."""
    names = import_module(name).__all__
    entered = {
        entry.__name__ for entry in ENTERED.get(name, registry.Registry("none")).entries().values()
    }
    return sorted(
        f"{name}.{one}" for one in names if not one.startswith("_") and one not in entered
    )


def listed() -> str:
    """The public names of all modules, one a line."""
    return "".join(f"{one}\n" for name in MODULES for one in public(name))


def test_public_names_change_only_with_their_list() -> None:
    pytest.importorskip("sklearn")
    kept, now = set(LIST.read_text(encoding="utf-8").split()), set(listed().split())
    assert now == kept, (
        f"gone: {sorted(kept - now)}, new: {sorted(now - kept)}; where that is meant: python -m "
        "tests.architecture.test_public_names > tests/architecture/public_names.txt, and a line "
        "in CHANGELOG.md"
    )


@pytest.mark.parametrize("name", MODULES)
def test_names_that_a_module_lists_are_in_it(name: str) -> None:
    pytest.importorskip("sklearn")
    module = import_module(name)
    assert len({*module.__all__}) == len(module.__all__)
    assert all(hasattr(module, one) for one in module.__all__)
    assert not any(one.startswith("_") for one in module.__all__)


def test_packages_are_typed_and_have_one_version_everywhere() -> None:
    """In the package, the citation and the changelog's newest section of a release."""
    assert all((ROOT / package / "py.typed").is_file() for package in ("decentorth", "topologies"))
    version = decentorth.__version__
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == version
    newest = re.search(r"^## (\d\S*)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert newest is not None
    assert newest[1] == version


def test_condas_recipe_needs_what_the_package_needs() -> None:
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert recipe["context"]["version"] == decentorth.__version__
    needs = [line.replace(" ", "") for line in recipe["requirements"]["run"]]
    assert needs[1:] == project["dependencies"]


STRAYS = (
    *(
        "decentorth/STRAY.key",
        "topologies/.env",
        "tests/.env",
        "docs/id_rsa",
        "examples/a.npz",
        "stray.py",
    ),
    *(
        "benchmarks/results/a.json",
        "docs/api/generated/a.rst",
        "docs/gallery/a.rst",
        "docs/sg_execution_times.rst",
    ),
)


@pytest.mark.slow
def test_nothing_stray_is_packed(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs the repository, which knows its own files")
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    tree, tools = tmp_path / "tree", tmp_path / "tools"
    for name in tracked:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, tree / name)
    for name in STRAYS:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("secret")
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(tools), *needed]
    subprocess.run(install, check=True, timeout=300)
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / "built")]
    subprocess.run(
        build, cwd=tree, env={**os.environ, "PYTHONPATH": str(tools)}, check=True, timeout=300
    )

    (wheel,) = (tmp_path / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        installed = {name for name in archive.namelist() if ".dist-info/" not in name}
    scripts = {f"decentorth/{name}" for name in tracked if name.startswith("launch/")}
    assert installed == scripts | {
        name for name in tracked if name.startswith(("decentorth/", "topologies/"))
    }
    (source,) = (tmp_path / "built").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert packed - {"PKG-INFO"} <= tracked
    assert {
        name for name in tracked if not name.startswith((".ci/", ".github/", ".pre-commit"))
    } <= packed


if __name__ == "__main__":
    print(listed(), end="")
