"""The core works without the families: a copy that has none of them lists its methods and solves
with DRFGT."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.architecture.test_imports import NAMES, imports
from tests.support.source import ROOT, modules

PROGRAM = """
import decentorth as do
problem = do.problems.PCASettings(data="synthetic", rank=3).problem(10, seed=0)
print(do.solve(problem, do.DRFGT(), "ring", iterations=20).status)
"""


def copy(folder: Path) -> None:
    for package in ("decentorth", "topologies"):
        shutil.copytree(
            ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    for family in (folder / "decentorth/families").glob("*/"):
        shutil.rmtree(family)


@pytest.mark.parametrize("words", [["-c", PROGRAM], ["-m", "decentorth", "list", "algorithms"]])
def test_the_core_runs_without_families(tmp_path: Path, words: list[str]) -> None:
    copy(tmp_path)
    ran = subprocess.run(
        [sys.executable, *words],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_family_imports_at_most_one_other() -> None:
    for family in {
        source.name.split(".")[2]
        for source in modules()
        if source.name.startswith("decentorth.families.")
    }:
        others = {
            name.split(".")[2]
            for source in modules()
            if f"{source.name}.".startswith(f"decentorth.families.{family}.")
            for _, name in imports(source, NAMES)
            if name.startswith("decentorth.families.")
        }
        assert len(others - {family}) <= 1, (family, others)
