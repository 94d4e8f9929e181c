"""The same bits on any number of ranks, under the real mpirun; counts against an independent count
from the graph."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from decentorth import DRFGT
from decentorth.algorithms.common.step_sizes import schedule
from tests.mpi.cases import CASES, Case
from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks
RANKS = (1, 2, 3, 10)
SAME = ("iterates_sha256", "history", "status", "message", "step_size")
COUNTED = (
    "procrustes-ring procrustes-random pca-random fewer-cuts safe-ring safe-adapt drgta destiny"
).split()
TALL = ("tall-procrustes", "tall-loader")
LOADED = [("procrustes-random", "procrustes-loader"), ("pca-ring", "pca-loader")]
FEW = {
    "push-pull",
    "one-peer",
    "sparse-samples",
    "secure-lbfgs",
    "sums-krylov",
    "sums-lbfgs",
    "sums-rssm",
    *COUNTED,
    *(name for pair in LOADED for name in pair),
}
"""The cases that the quick tests have for other numbers of ranks than three."""
LARGE = {name for name, case in CASES.items() if case.shape[0] >= 300}
SMALL = CASES.keys() - LARGE


@cache
def run(ranks: int, names: frozenset[str]) -> dict[str, Any]:
    """The cases, from one job; 0 ranks is one process without a launcher."""
    job = run_ranks(ranks, ["-m", "tests.mpi.cases", *sorted(names)])
    assert job.returncode == 0, job.report()
    assert job.stderr == "", job.report()
    result: dict[str, Any] = json.loads(job.stdout)
    assert result.keys() == names
    return result


def outcomes(ranks: int, large: bool = False) -> dict[str, Any]:
    """What the quick tests have for that number of ranks, or the large cases."""
    return run(ranks, frozenset(LARGE if large else SMALL if ranks in (0, 3) else FEW))


def check_same_bits(one: dict[str, Any], many: dict[str, Any], ranks: int) -> None:
    different = {
        name: [part for part in SAME if one[name][part] != many[name][part]] for name in many
    }
    assert not {name: parts for name, parts in different.items() if parts}
    assert {outcome["transport"]["ranks"] for outcome in many.values()} == {ranks}


@pytest.mark.parametrize("ranks", RANKS)
def test_same_bits_as_one_process(ranks: int) -> None:
    check_same_bits(outcomes(0), outcomes(ranks), ranks)


@pytest.mark.slow
def test_same_bits_of_all_cases_with_one_agent_on_each_rank() -> None:
    check_same_bits(outcomes(0), run(10, frozenset(SMALL - FEW)), 10)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [3, 10])
def test_same_bits_of_large_cases(ranks: int) -> None:
    check_same_bits(outcomes(0, large=True), outcomes(ranks, large=True), ranks)
    digests = {
        outcomes(count, large=True)[name]["iterates_sha256"]
        for count in (0, ranks)
        for name in TALL
    }
    assert len(digests) == 1


@pytest.mark.parametrize(("given", "loaded"), LOADED)
def test_same_bits_when_each_rank_loads_its_own_agents(given: str, loaded: str) -> None:
    for ranks in (0, *RANKS):
        assert (
            outcomes(ranks)[given]["iterates_sha256"] == outcomes(ranks)[loaded]["iterates_sha256"]
        )


def test_the_bits_are_those_of_different_runs() -> None:
    """Guards the comparisons above against comparing nothing: cases with different data have
    different hashes."""
    one = outcomes(0)
    hashes = [
        outcome["iterates_sha256"] for name, outcome in one.items() if not name.endswith("loader")
    ]
    assert len(set(hashes)) == len(hashes)
    for name in ("stops", "agents-stop", "agents-stop-lossy"):
        assert one[name]["status"] == "converged"
    assert one["diverges"]["status"] == "diverged"
    assert "agent 8 " in one["diverges"]["message"]
    assert one["leaves-region"]["status"] == "left_safe_region"
    assert int(one["leaves-region"]["history"]["iteration"][-1]) > 1


@pytest.mark.slow
def test_same_bits_with_two_blas_threads() -> None:
    """Threads of BLAS split products differently; an iteration is limited to one, whatever the
    environment says."""
    threads = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "2")
    job = run_ranks(0, ["-m", "tests.mpi.cases", "wide", *TALL], settings=threads)
    assert job.returncode == 0, job.report()
    for name, outcome in json.loads(job.stdout).items():
        assert {part: outcome[part] for part in SAME} == {
            part: outcomes(0, large=True)[name][part] for part in SAME
        }


def averaging_rounds(case: Case) -> int:
    """Exchanges before an automatic step: the least degree of a Chebyshev polynomial that damps
    below 0.05 / n."""
    if schedule(case.algorithm.step_size).initial != "auto":
        return 0
    eigenvalues = np.linalg.eigvalsh(case.weights().toarray())
    low, high = eigenvalues[0], eigenvalues[-2]
    at_one = (2.0 - high - low) / (high - low)
    return math.ceil(math.acosh(20.0 * len(case.rows)) / math.acosh(at_one))


def averaged(case: Case) -> int:
    """Doubles per agent of each of these exchanges, five for DRFGT's Lhat, ten for L and the
    largest multiplier of the others."""
    return 5 if isinstance(case.algorithm, DRFGT) else 10


def per_iteration(case: Case) -> list[int]:
    """Doubles per agent of each exchange of one iteration: x and y together, or one after the
    other; with safe, a label too."""
    size, label = case.shape[0] * case.shape[1], int(getattr(case.algorithm, "safe", False))
    if getattr(case.algorithm, "order", "auto") == "adapt-then-combine":
        return [size + label, size + label]
    return [2 * size + label] * getattr(case.algorithm, "rounds", 1)


@pytest.mark.parametrize("ranks", RANKS[1:])
@pytest.mark.parametrize("name", COUNTED)
def test_transport_counts_are_those_of_the_cut(name: str, ranks: int) -> None:
    """Each exchange sends one message to each rank that holds a neighbour; in it, once, every agent
    that has a neighbour there."""
    case, transport = CASES[name], outcomes(ranks)[name]["transport"]
    bounds = transport["bounds"]
    assert bounds[0] == 0
    assert bounds[-1] == len(case.rows)
    assert len(bounds) == ranks + 1
    owner = {
        agent: rank for rank in range(ranks) for agent in range(bounds[rank], bounds[rank + 1])
    }
    edges = [(i, j) for edge in case.graph().edges for i, j in (edge, edge[::-1])]
    pairs = {(owner[i], owner[j]) for i, j in edges if owner[i] != owner[j]}
    sent = {(i, owner[j]) for i, j in edges if owner[i] != owner[j]}
    averaging, exchanges = averaging_rounds(case), per_iteration(case)
    assert transport["messages"] == len(pairs) * (averaging + len(exchanges) * case.iterations)
    assert transport["bytes"] == len(sent) * 8 * (
        averaging * averaged(case) + sum(exchanges) * case.iterations
    )


def test_one_process_and_one_rank_send_nothing() -> None:
    for ranks in (0, 1):
        assert {
            (o["transport"]["messages"], o["transport"]["bytes"]) for o in outcomes(ranks).values()
        } == {(0, 0)}


def test_fewer_cuts_moves_the_borders() -> None:
    """The one edge between the clusters of 18 and 22 is where two ranks divide them."""
    assert outcomes(2)["fewer-cuts"]["transport"]["bounds"] == [0, 18, 40]
