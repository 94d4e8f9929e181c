"""Agents on ranks that wait for nobody: an agreed end, and a log that repeats the run in one
process."""

from __future__ import annotations

from pathlib import Path

import pytest

from decentorth.__main__ import main
from decentorth.records.saved_runs import read_summary
from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks

PROBLEM = "--problem pca --data synthetic --dimension 6 --rank 2 --gap 0.5 --samples 20 --agents 4"
METHOD = (
    "--algorithm asynchronous_drfgt --slow-agents 1 --slowness 3 --end-tolerance 1e-5 "
    "--activations 100000 --channel loss:p=0.3"
)


def test_a_live_run_agrees_on_its_end_and_is_repeated_in_one_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log", tmp_path / "run"
    job = run_ranks(
        3,
        [
            "-m",
            "decentorth.run",
            *PROBLEM.split(),
            *METHOD.split(),
            "--log",
            str(log),
            "--out",
            str(out),
            "--quiet",
        ],
    )
    assert (job.returncode, job.left) == (0, 0), job.report()
    summary = read_summary(str(out))
    assert summary["status"] == "converged"
    assert summary["metrics"]["gradient_norm"] < 1e-4
    assert summary["metrics"]["consensus_rms"] < 1e-4
    assert summary["messages"] >= 2 * summary["iterations"]
    assert main(["replay", str(log)]) == 0
    assert f"iterates_sha256 {summary['iterates_sha256']}, as in the log" in capsys.readouterr().out


def test_a_dry_run_counts_a_message_and_activates_nobody() -> None:
    job = run_ranks(
        2,
        [
            "-m",
            "decentorth.run",
            *PROBLEM.split(),
            *METHOD.replace("100000", "1000000000").split(),
            "--dry-run",
        ],
    )
    assert job.returncode == 0, job.report()
    # the version, a point, a mass and what the sender knows of each agent
    words = 1 + 6 * 2 + 6 * 2 + 2 * 4
    assert (
        f"activation  no round, 2 messages on average, {8 * words} B to each neighbour"
        in job.stdout
    )
    assert f"sends {16 * words} B to rank 1" in job.stdout  # of both agents, each at the border
