"""Ranks of Open MPI with asynchronous agents that are killed: their agents begin again on the other ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.launch import openmpi
from tests.support.losses import killed

pytestmark = pytest.mark.slow
FLAGS = "--problem pca --data synthetic --dimension 6 --rank 2 --samples 40 --gap 0.5 --agents 6 --channel loss:p=0.3"
FLAGS += " --algorithm asynchronous_drfgt --activations 1000000 --end-tolerance 1e-8 --checkpoint-every 300"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return openmpi.installed(tmp_path_factory.mktemp("openmpi"))


@pytest.mark.parametrize(("ranks", "victim"), [(3, 1), (3, 0), (2, 1)])
def test_the_agents_of_a_killed_rank_go_on_elsewhere_to_the_same_limit(
    ranks: int, victim: int, programs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a"
    own = out / "checkpoints/000000000/agents"

    def ready() -> bool:
        return all((own / f"agent-{agent:05d}").exists() for agent in range(6))

    job = killed(programs, ranks, FLAGS.split(), out, [victim], [0.3], "restart", ready)
    assert job.returncode == 0, job.report()
    found = json.loads((out / "summary.json").read_text())
    assert (found["agents"], found["ranks"], found["status"]) == (6, ranks - 1, "converged")
    assert found["metrics"]["gradient_norm"] < 1e-7
    assert found["metrics"]["error"] < 1e-6
    assert f"lost        rank {victim}, whose agents begin again" in job.stdout
