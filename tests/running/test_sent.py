"""What leaves a site: the counts of `Result.sent` are those of the history, on every kind of network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies
from tests.support.threads import on_ranks

N = 5
QUANTITIES = {"drfgt": {"x", "tracker", "averages"}, "push_pull": {"x", "tracker", "averages"}, "deepca": {"tracker"}}


def problem() -> Any:
    sites = np.random.default_rng(0).normal(size=(N, 40, 6))
    return do.problems.PCA(list(sites), 2)


def bytes_of(result: Any) -> int:
    return sum(row.bytes for row in result.sent())


@pytest.mark.parametrize("method", QUANTITIES)
def test_the_bytes_add_up_to_those_of_the_history(method: str) -> None:
    result = do.solve(problem(), method, "ring", iterations=12)
    assert bytes_of(result) == result.history["bytes"][-1] > 0
    assert {row.quantity for row in result.sent()} <= QUANTITIES[method]
    assert all(row.bytes == 8 * row.numbers for row in result.sent())


def test_each_number_goes_to_the_neighbours_only() -> None:
    """Known by hand: 12 iterations send x and the tracker, 6 x 2 numbers each, over every edge of a path."""
    method = do.DRFGT(step_size=0.1, penalty=1.0)
    result = do.solve(problem(), method, "path", iterations=12)
    edges = {(f"agent {i}", f"agent {j}") for i in range(N) for j in range(N) if abs(i - j) == 1}
    expected = {(*edge, name): 144 for edge in edges for name in ("x", "tracker")}
    assert {row[:3]: row.numbers for row in result.sent()} == expected


@pytest.mark.parametrize("faults", ["loss:p=0.3", "topk:share=0.5", "delay:rounds=1", "quantize"])
def test_faulty_networks_add_up(faults: str) -> None:
    result = do.solve(problem(), do.DRFGT(step_size=0.01, penalty=1.0), "ring", iterations=12, channel=faults)
    assert bytes_of(result) == result.row.bytes > 0
    assert "all sites" not in {row.site for row in result.sent()}


def test_networks_that_change_and_directed_ones_add_up() -> None:
    for mixing in ("directed_ring", topologies.RandomMatching(N, seed=1)):
        result = do.solve(problem(), do.PushPull(step_size=0.01, penalty=1.0), mixing, iterations=100)
        assert bytes_of(result) == result.row.bytes > 0
        assert {row.quantity for row in result.sent()} == {"x", "tracker"}


def test_the_rest_of_a_resumed_run_is_said(tmp_path: Path) -> None:
    method = do.DRFGT(step_size=0.01, penalty=1.0)
    kept = do.Checkpoints(str(tmp_path), every=10)
    do.solve(problem(), method, "ring", iterations=10, checkpoints=kept)
    result = do.solve(problem(), method, "ring", iterations=20, resume=tmp_path)
    rest = result.sent()[-1]
    assert bytes_of(result) == result.row.bytes == 2 * rest.bytes
    assert rest.site == "all sites"


def test_exact_sums_and_agreements_add_up() -> None:
    rule = do.stopping.LocalMaximum(1e-9, every=5)
    result = do.solve(problem(), "drfgt", "ring", iterations=20, stopping=rule)
    assert bytes_of(result) == result.row.bytes
    assert "maxima" in {row.quantity for row in result.sent()}


def test_exact_sums_go_along_a_tree_that_has_two_messages_for_each_edge() -> None:
    parts = np.random.default_rng(0).normal(size=(N, 40, 2))
    split = do.problems.SplitPCA(list(parts), 2)
    result = do.solve(split, "lobpcg", "complete", iterations=5)
    assert bytes_of(result) == result.row.bytes > 0
    assert {row.quantity for row in result.sent()} == {"sums over the tree"}
    assert len(result.sent()) == 2 * (N - 1)


def test_the_table_is_the_same_on_any_number_of_ranks() -> None:
    def table(communicator: Any) -> Any:
        return do.solve(problem(), "drfgt", "ring", iterations=8, comm=communicator).sent()

    assert on_ranks(3, table) == [table("serial")] * 3


@pytest.mark.filterwarnings("ignore:diverged")
def test_iterations_made_again_to_explain_a_divergence_do_not_count() -> None:
    method = do.DRFGT(step_size=1e3, penalty=1e3)
    result = do.solve(problem(), method, "ring", iterations=200)
    assert result.status == "diverged"
    assert bytes_of(result) == result.network.bytes
    assert "all sites" not in {row.site for row in result.sent()}
