"""Scripts that open several communicators: each is what was asked for, and the job ends."""

from __future__ import annotations

import pytest

from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks


@pytest.mark.parametrize("ranks", [4, *(pytest.param(ranks, marks=pytest.mark.slow) for ranks in (2, 3))])
def test_a_job_with_several_communicators_ends(ranks: int) -> None:
    job = run_ranks(ranks, ["-m", "tests.mpi.communicators", "leave"])
    assert job.returncode == 0, job.report()
    assert job.stderr == "", job.report()


def test_a_communicator_is_not_taken_for_one_that_was_freed() -> None:
    job = run_ranks(2, ["-m", "tests.mpi.communicators", "free"])
    assert job.returncode == 0, job.report()
    assert job.stdout.splitlines() == ["True True False"] * 2
