"""One agent whose samples are spread over the ranks: the same bits on any number of them, under the
real mpirun."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

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
    assert {outcome.pop("ranks") for outcome in (dict(outcome) for outcome in many.values())} == {
        ranks
    }
    for name in CASES:
        assert {**many[name], "ranks": 0} == {**one[name], "ranks": 0}, name
        assert one[name]["gathered"][0] == 1
    assert len({outcome["iterates_sha256"] for outcome in one.values()}) == len(CASES)


PCA = "-m decentorth.run --problem pca --rank 3 --algorithm rgd --agents 1".split()
SPREAD = [*PCA, "--spread-samples", "5", "--iterations", "15"]
HEVP = (
    "-m decentorth.run --problem hevp --dimension 10 --agents 1 --algorithm j_jobcd "
    "--spread-samples 12 --iterations 30"
).split()


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


@pytest.mark.parametrize(
    ("words", "blocks"), [(SPREAD, 5), pytest.param(HEVP, 12, marks=pytest.mark.slow)]
)
def test_the_command_spreads_samples(words: list[str], blocks: int, tmp_path: Path) -> None:
    """Also those of the hyperbolic eigenvalue problem, which is for one agent, in blocks that are
    not agents."""
    for ranks, where in ((1, "in this process"), (3, "over 3 ranks")):
        job = run_ranks(ranks, [*words, "--out", str(tmp_path / str(ranks))])
        assert job.returncode == 0, job.report()
        assert f"its samples in {blocks} blocks {where}" in job.stdout
    one, three = summary(tmp_path / "1"), summary(tmp_path / "3")
    assert one["iterates_sha256"] == three["iterates_sha256"]
    assert one["metrics"] == three["metrics"]
    assert (one["ranks"], three["ranks"]) == (1, 3)


@pytest.mark.slow
def test_a_saved_run_goes_on_on_other_ranks(tmp_path: Path) -> None:
    """To the bits of one that was not interrupted."""
    whole, out = tmp_path / "whole", tmp_path / "saved"
    for ranks, words in (
        (1, [*SPREAD, "--out", str(whole)]),
        (2, [*SPREAD[:-1], "9", "--checkpoint-every", "3", "--out", str(out)]),
        (3, ["-m", "decentorth.run", "--resume", str(out), "--iterations", "15"]),
    ):
        job = run_ranks(ranks, words)
        assert job.returncode == 0, job.report()
    assert summary(whole)["iterates_sha256"] == summary(out)["iterates_sha256"]
    assert summary(whole)["metrics"] == summary(out)["metrics"]


def test_a_dry_run_counts_the_shares_of_the_ranks() -> None:
    job = run_ranks(2, [*SPREAD, "--dry-run"])
    assert job.returncode == 0, job.report()
    assert job.stdout.count("a share of the samples") == 2
    assert "sends a sum of 1.54 kB for each gradient" in job.stdout


def test_the_data_of_all_ranks_of_a_host_are_compared_with_its_memory() -> None:
    flags = [
        "-m",
        "decentorth.run",
        "--problem",
        "pca",
        "--data",
        "synthetic",
        "--samples",
        "1000000000",
        "--agents",
        "100",
    ]
    job = run_ranks(2, flags)
    assert job.returncode == 2, job.report()
    assert "the data and the agents' points would take 16 TB on this host, and" in job.stderr


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            [],
            "2 ranks for one agent: start one rank, or spread its samples over them with "
            "--spread-samples 2 or more",
        ),
        pytest.param(
            ["--spread-samples", "1"],
            "2 ranks for 1 blocks of samples: every rank must hold one",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_ranks_without_blocks_are_refused(more: list[str], said: str) -> None:
    job = run_ranks(2, [*PCA, *more])
    assert job.returncode == 2, job.report()
    assert said in job.stderr
    assert job.stderr.count("decentorth:") == 1
