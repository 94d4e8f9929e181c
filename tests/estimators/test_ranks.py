"""Estimators fitted to agents' data under mpirun: every rank gets what one process gets, bit for bit."""

from __future__ import annotations

import json

import pytest

from tests.estimators.fitted import fitted
from tests.support.mpi import run_ranks


@pytest.mark.slow
@pytest.mark.ranks
def test_every_rank_finds_what_one_process_does() -> None:
    job = run_ranks(3, ["-m", "tests.estimators.fitted"])
    assert job.returncode == 0, job.report()
    assert json.loads(job.stdout) == [fitted()] * 3
