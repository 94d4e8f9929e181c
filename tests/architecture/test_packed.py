"""The wheel and the source distribution have the files of the repository, and no others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support.source import ROOT

STRAYS = (
    *("decentorth/STRAY.key", "topologies/.env", "tests/.env", "docs/id_rsa", "examples/a.npz", "stray.py"),
    *("benchmarks/results/a.json", "docs/api/generated/a.rst", "docs/gallery/a.rst", "docs/sg_execution_times.rst"),
)


@pytest.mark.slow
def test_nothing_stray_is_packed(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("needs the repository, which knows its own files")
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
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
    subprocess.run(build, cwd=tree, env={**os.environ, "PYTHONPATH": str(tools)}, check=True, timeout=300)

    (wheel,) = (tmp_path / "built").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        installed = {name for name in archive.namelist() if ".dist-info/" not in name}
    scripts = {f"decentorth/{name}" for name in tracked if name.startswith("launch/")}
    assert installed == scripts | {name for name in tracked if name.startswith(("decentorth/", "topologies/"))}
    (source,) = (tmp_path / "built").glob("*.tar.gz")
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    assert packed - {"PKG-INFO"} <= tracked
    assert {name for name in tracked if not name.startswith((".ci/", ".github/", ".pre-commit"))} <= packed
