"""What arrives is what was sent, for messages from 8 bytes to 8 MB: mixing on ranks against SciPy's
product in one process."""

from __future__ import annotations

import hashlib
import json
from functools import cache

import numpy as np
import pytest

from tests.mpi.exchanges import AGENTS, EXCHANGES, Exchange
from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks


@cache
def expected(exchange: Exchange) -> list[list[str]]:
    """Hashes of ``W @ X`` with SciPy's operator and the arrays of all agents in one process."""
    W = exchange.weights()
    hashes = []
    for repeat in range(exchange.repeats):
        mixed = []
        for x in exchange.arrays(repeat, slice(0, AGENTS)):
            flat = x.reshape(AGENTS, -1)
            for _ in range(exchange.rounds):
                flat = W @ flat
            mixed.append(hashlib.sha256(np.ascontiguousarray(flat).tobytes()).hexdigest())
        hashes.append(mixed)
    return hashes


@pytest.mark.parametrize("ranks", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_mixing_on_ranks_is_the_product(ranks: int) -> None:
    job = run_ranks(ranks, ["-m", "tests.mpi.exchanges"])
    assert job.returncode == 0, job.report()
    hashes = json.loads(job.stdout)
    assert hashes.keys() == EXCHANGES.keys()
    assert [name for name in EXCHANGES if hashes[name] != expected(EXCHANGES[name])] == []
