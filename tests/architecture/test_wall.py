"""The core works alone: a copy without families, laboratory and estimators lists its methods and
runs the published experiment."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.architecture.test_imports import NAMES, imports
from tests.support.mpi import run_ranks
from tests.support.source import ROOT, modules

BEHIND_THE_WALL = ("families", "lab", "estimators")


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages without what the core does not need."""
    folder = tmp_path_factory.mktemp("core")
    without = shutil.ignore_patterns("__pycache__", *BEHIND_THE_WALL)
    shutil.copytree(ROOT / "topologies", folder / "topologies")
    shutil.copytree(ROOT / "decentorth", folder / "decentorth", ignore=without)
    return folder


def run_core(core: Path, ranks: int, *words: str) -> str:
    # -P: the repository's root, in which the tests run, is not searched for modules
    job = run_ranks(ranks, ["-P", "-m", *words], settings={"PYTHONPATH": str(core)})
    assert (job.returncode, job.stderr) == (0, ""), job.report()
    return job.stdout


def test_the_core_lists_its_methods(core: Path) -> None:
    listed = run_core(core, 0, "decentorth", "list", "algorithms", "--all")
    assert "drfgt" in listed
    assert "asynchronous_drfgt" not in listed


@pytest.mark.parametrize("ranks", [0, pytest.param(2, marks=pytest.mark.ranks)])
def test_the_core_runs_the_published_experiment(core: Path, ranks: int) -> None:
    printed = run_core(core, ranks, "decentorth.run", "--iterations", "300")
    assert "Stopped at the limit of 300 iterations" in printed


def test_no_module_of_the_core_imports_what_is_behind_the_wall() -> None:
    walled = tuple(f"decentorth.{name}." for name in BEHIND_THE_WALL)
    core = [source for source in modules() if not f"{source.name}.".startswith(walled)]
    assert [
        (source.name, name)
        for source in core
        for _, name in imports(source, NAMES)
        if f"{name}.".startswith(walled)
    ] == []


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
