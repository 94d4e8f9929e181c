"""One agent whose samples are spread over the ranks: the same bits on any number of them, under the real mpirun."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from decentorth.commands.run.command import main
from tests.mpi.spread import BLOCKS, CASES
from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks


@cache
def outcomes(ranks: int) -> dict[str, Any]:
    """Every case, from one job; 0 ranks is one process without a launcher."""
    job = run_ranks(ranks, ["-m", "tests.mpi.spread"])
    assert job.returncode == 0, job.report()
    assert job.stderr == "", job.report()
    result: dict[str, Any] = json.loads(job.stdout)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, len(BLOCKS)])
def test_same_bits_as_one_process(ranks: int) -> None:
    one, many = outcomes(0), outcomes(ranks)
    assert one.keys() == many.keys() == CASES.keys()
    assert {outcome.pop("ranks") for outcome in (dict(outcome) for outcome in many.values())} == {ranks}
    for name in CASES:
        assert {**many[name], "ranks": 0} == {**one[name], "ranks": 0}, name
        assert one[name]["gathered"][0] == 1
    assert len({outcome["iterates_sha256"] for outcome in one.values()}) == len(CASES)


ARGUMENTS = "-m decentorth.run --problem pca --rank 3 --algorithm rgd".split()


def test_the_command_spreads_samples(tmp_path: Path) -> None:
    for ranks in (1, 3):
        job = run_ranks(
            ranks, [*ARGUMENTS, "--agents", "1", "--spread-samples", "5", "--iterations", "15", "--out", str(tmp_path / str(ranks))]
        )
        assert job.returncode == 0, job.report()
        where = "in this process" if ranks == 1 else "over 3 ranks"
        assert f"its samples in 5 blocks {where}" in job.stdout
    one, three = (json.loads((tmp_path / name / "summary.json").read_text()) for name in "13")
    assert one["iterates_sha256"] == three["iterates_sha256"]
    assert one["metrics"] == three["metrics"]
    assert (one["ranks"], three["ranks"]) == (1, 3)


@pytest.mark.slow
def test_the_command_spreads_the_hyperbolic_eigenvalue_problem(tmp_path: Path) -> None:
    """Which is for one agent, in blocks that are not agents."""
    arguments = "--problem hevp --dimension 10 --agents 1 --algorithm j_jobcd --spread-samples 12 --iterations 30 --out".split()
    job = run_ranks(3, ["-m", "decentorth.run", *arguments, str(tmp_path / "3")])
    assert job.returncode == 0, job.report()
    assert "its samples in 12 blocks over 3 ranks" in job.stdout
    assert main([*arguments, str(tmp_path / "1"), "--quiet"]) == 0
    one, three = (json.loads((tmp_path / name / "summary.json").read_text()) for name in "13")
    assert one["iterates_sha256"] == three["iterates_sha256"]
    assert one["metrics"] == three["metrics"]
    assert one["metrics"]["error"] < 0.5


@pytest.mark.slow
def test_a_saved_run_goes_on_on_other_ranks(tmp_path: Path) -> None:
    """To the bits of one that was not interrupted."""
    spread, out = ["--agents", "1", "--spread-samples", "5"], tmp_path / "saved"
    whole = run_ranks(1, [*ARGUMENTS, *spread, "--iterations", "15", "--out", str(tmp_path / "whole")])
    assert whole.returncode == 0, whole.report()
    job = run_ranks(2, [*ARGUMENTS, *spread, "--iterations", "9", "--checkpoint-every", "3", "--out", str(out)])
    assert job.returncode == 0, job.report()
    job = run_ranks(3, ["-m", "decentorth.run", "--resume", str(out), "--iterations", "15"])
    assert job.returncode == 0, job.report()
    one, other = (json.loads((path / "summary.json").read_text()) for path in (tmp_path / "whole", out))
    assert one["iterates_sha256"] == other["iterates_sha256"]
    assert one["metrics"] == other["metrics"]


def test_a_dry_run_counts_the_shares_of_the_ranks() -> None:
    job = run_ranks(2, [*ARGUMENTS, "--agents", "1", "--spread-samples", "5", "--dry-run"])
    assert job.returncode == 0, job.report()
    assert job.stdout.count("a share of the samples") == 2
    assert "sends a sum of 1.54 kB for each gradient" in job.stdout


def test_the_data_of_all_ranks_of_a_host_are_compared_with_its_memory() -> None:
    flags = ["-m", "decentorth.run", "--problem", "pca", "--data", "synthetic", "--samples", "1000000000", "--agents", "100"]
    job = run_ranks(2, flags)
    assert job.returncode == 2, job.report()
    assert "the data and the agents' points would take 16 TB on this host, and" in job.stderr


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            ["--agents", "1"],
            "2 ranks for one agent: start one rank, or spread its samples over them with --spread-samples 2 or more",
        ),
        pytest.param(
            ["--agents", "1", "--spread-samples", "1"],
            "2 ranks for 1 blocks of samples: every rank must hold one at least",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            ["--spread-samples", "5", "--agents", "2"],
            "spread_samples is for a single agent, not 2: give --agents 1",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_what_cannot_be_spread_is_refused(more: list[str], message: str) -> None:
    job = run_ranks(2, [*ARGUMENTS, *more])
    assert job.returncode == 2, job.report()
    assert message in job.stderr
    assert job.stderr.count("decentorth:") == 1
