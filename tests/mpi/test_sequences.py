"""A time-varying network from the command line: the same hash in one process and on ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks
FLAGS = "-m decentorth.run --agents 16 --step-size 1e-2 --penalty 10 --iterations 300 --quiet"


def sha256(topology: str, ranks: int, folder: Path) -> str:
    out = folder / f"{ranks}"
    job = run_ranks(ranks, [*FLAGS.split(), "--topology", topology, "--out", str(out)])
    assert job.returncode == 0, job.report()
    return str(json.loads((out / "summary.json").read_text())["iterates_sha256"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "topology", ["one_peer_exponential", pytest.param("link_failures:p=0.3@torus:4x4", marks=pytest.mark.slow)]
)
def test_same_bits_on_ranks(topology: str, tmp_path: Path) -> None:
    assert len({sha256(topology, ranks, tmp_path) for ranks in (0, 2, 3)}) == 1
