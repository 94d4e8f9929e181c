"""Ranks that are given different arguments all say which, and none waits."""

from __future__ import annotations

import dataclasses
import json

import pytest

import decentorth as do
from decentorth.api import Arguments
from decentorth.api.rank_agreement import OF_A_RANK
from tests.mpi import differing
from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks
END = "must be the same on every rank; it differs from rank 0's on rank 1"


def test_whatever_a_rank_is_given_differently_is_named_on_every_rank() -> None:
    """One job makes all calls: a rank that was out of step would spoil the next one."""
    job = run_ranks(3, ["-m", "tests.mpi.differing"])
    assert job.returncode == 0, job.report()
    found, facts = json.loads(job.stdout)
    for call, messages in found.items():
        what = call.partition(" ")[2]
        (said,) = {*messages}
        assert said.endswith(END), call
        assert what in said or what == "problem", (call, said)
    alone = do.solve(differing.pca(), "drfgt", "ring", iterations=5)
    assert facts == [[alone.iterates_sha256, []]] * 3  # a callback of another rank is not called


def test_every_argument_is_tried() -> None:
    fields = {field.name for field in dataclasses.fields(Arguments)}
    assert differing.ARGUMENTS.keys() == fields - {*OF_A_RANK}
