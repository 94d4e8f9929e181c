"""Ranks of Open MPI that are killed: the others go on, as one process does from which the same
agents leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from decentorth.api import set_up
from decentorth.api.losses import Loss
from decentorth.commands.line import wiring
from decentorth.commands.line.config import Command
from tests.support.losses import killed, replayed, sha256, started
from tests.support.mpi import HUNG, run_ranks

pytestmark = pytest.mark.slow
FLAGS = [
    "--iterations",
    "1000000",
    "--record-every",
    "20",
    "--time-limit",
    "4",
    "--checkpoint-every",
    "100",
]


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def in_one_process(flags: list[str], losses: list[Loss], iterations: int) -> str:
    """SHA-256 of the points of those that are left."""
    configuration = Command(flags).resolve()
    settings = configuration.run
    problem = configuration.problem.problem(settings.agents, settings.seed)
    run = set_up(
        problem, configuration.algorithm, wiring.make(settings).W, seed=settings.seed, comm="serial"
    )
    return sha256(replayed(run, losses, iterations).x)


@pytest.mark.parametrize(
    ("ranks", "victims"), [(4, (1,)), (4, (0,)), (10, (3,)), (10, (0, 1)), (2, (0,))]
)
def test_the_others_go_on_with_the_bits_of_one_process(
    ranks: int, victims: tuple[int, ...], openmpi: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a"
    job = killed(openmpi, ranks, FLAGS, out, victims, [0.3] * len(victims))
    assert job.returncode == 0, job.report()
    found = summary(out)
    losses = [
        Loss(loss["iteration"], tuple(loss["ranks"]), tuple(loss["agents"]))
        for loss in found["losses"]
    ]
    assert sorted(rank for loss in losses for rank in loss.ranks) == list(victims)
    assert found["agents"] == 10 - sum(len(loss.agents) for loss in losses)
    assert (found["ranks"], found["status"]) == (ranks - len(victims), "time_limit")
    assert found["iterates_sha256"] == in_one_process(FLAGS[:4], losses, found["iterations"])
    rows = [int(line.partition(",")[0]) for line in (out / "history.csv").read_text().split()[1:]]
    # the last is due when the time is over
    assert rows == [*range(0, found["iterations"], 20), found["iterations"]]
    assert all(f"lost        {loss}; the others continue" in job.stdout for loss in losses)
    assert str(losses[-1]) in job.stdout.partition("objective   ")[2]

    further = str(found["iterations"] + 100)
    again = run_ranks(
        0,
        [
            "-m",
            "decentorth.run",
            "--resume",
            str(out),
            "--iterations",
            further,
            "--time-limit",
            "1000",
        ],
    )
    assert again.returncode == 0, again.report()
    assert summary(out)["losses"] == found["losses"]
    assert summary(out)["iterates_sha256"] == in_one_process(FLAGS[:4], losses, int(further))


def test_others_that_fall_apart_end_with_the_last_checkpoint(openmpi: Path, tmp_path: Path) -> None:
    out = tmp_path / "a"
    # written before the rows that are waited for
    flags = [*FLAGS[:-1], "10", "--topology", "path", "--step-size", "1e-3"]
    job = killed(openmpi, 4, flags, out, [1], [0.3])
    assert job.returncode == 1, job.report()
    assert "without agents 3 to 5 the others are not connected (2 components)" in job.stderr
    assert "0 to 2; 6 to 9" in job.stderr
    newest = max(int(path.name) for path in (out / "checkpoints").glob("[0-9]*"))
    assert f"the last checkpoint is {out}/checkpoints/{newest:09d}" in job.stderr
    assert not (out / "summary.json").exists()


def test_without_the_flag_of_the_launcher_it_says_so(openmpi: Path, tmp_path: Path) -> None:
    job = started(openmpi, 2, ["--on-rank-loss", "shrink"], tolerant=False)
    out, err = job.communicate(timeout=HUNG)
    assert (job.returncode, out) == (2, "")
    assert "it was started without it. Start with mpirun --with-ft ulfm -n 4" in err


ASYNCHRONOUS = (
    "--problem pca --data synthetic --dimension 6 --rank 2 --samples 40 --gap 0.5 --agents 6 "
    "--channel loss:p=0.3"
)
ASYNCHRONOUS += (
    " --algorithm asynchronous_drfgt --activations 1000000 --end-tolerance 1e-8 "
    "--checkpoint-every 300"
)


@pytest.mark.parametrize(("ranks", "victim"), [(3, 1), (3, 0), (2, 1)])
def test_asynchronous_agents_of_a_killed_rank_begin_again_elsewhere(
    ranks: int, victim: int, openmpi: Path, tmp_path: Path
) -> None:
    """And all converge to the same limit."""
    out = tmp_path / "a"
    own = out / "checkpoints/000000000/agents"

    def ready() -> bool:
        return all((own / f"agent-{agent:05d}").exists() for agent in range(6))

    job = killed(openmpi, ranks, ASYNCHRONOUS.split(), out, [victim], [0.3], "restart", ready)
    assert job.returncode == 0, job.report()
    found = summary(out)
    assert (found["agents"], found["ranks"], found["status"]) == (6, ranks - 1, "converged")
    assert found["metrics"]["gradient_norm"] < 1e-7
    assert found["metrics"]["error"] < 1e-6
    assert f"lost        rank {victim}, whose agents begin again" in job.stdout
