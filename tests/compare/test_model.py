"""The model of a network: the wall time is the sum of its three parts, and networks have names and parameters."""

from __future__ import annotations

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.commands.line.flags import InputError
from decentorth.compare.model import NETWORKS, NetworkModel, wall_time
from tests.support import problems


@pytest.mark.parametrize("compute", [None, 0.7])
def test_the_wall_time_of_a_run_is_the_sum_of_its_parts(compute: float | None) -> None:
    """On a ring an agent sends two messages in a round: set-up rounds of five numbers, then two rounds of 36 in an iteration."""
    W = tp.metropolis_weights(tp.ring(5))
    result = do.solve(problems.procrustes().problem, do.DRFGT(order="adapt-then-combine"), W, iterations=30, record_every=1)
    history, model = result.history, NetworkModel(latency=0.01, bandwidth=1e5, compute=compute)
    before, k = int(history["rounds"][0]), history["iteration"]
    assert before > 0
    assert (history["rounds"] == before + 2 * k).all()
    computing = history["seconds"] / 5
    if compute is not None:
        computing = compute * (k + 1.0)
    communicating = before * (0.01 + 2 * 8 * 5 / 1e5) + k * 2 * (0.01 + 2 * 8 * 36 / 1e5)
    np.testing.assert_allclose(wall_time(model, 5, history), computing + communicating, rtol=1e-12)


def test_a_run_of_one_agent_computes_alone() -> None:
    result = do.solve(problems.procrustes(rows=(12,)).problem, do.Landing(), iterations=20)
    found = wall_time(NetworkModel(latency=1.0, compute=0.5), 1, result.history)
    np.testing.assert_allclose(found, 0.5 * (1 + result.history["iteration"]), rtol=1e-12)


def test_names_and_parameters() -> None:
    assert NetworkModel.named("wan") == NETWORKS["wan"]
    assert NetworkModel.named("wan:latency=0.1,compute=1e-3") == NetworkModel(latency=0.1, bandwidth=1.25e7, compute=1e-3)
    assert NetworkModel.named("latency=1e-3,bandwidth=1e8") == NetworkModel(latency=1e-3, bandwidth=1e8)
    assert str(NETWORKS["wan"]) == "latency 0.04, bandwidth 1.25e+07"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wam", "unknown network 'wam'; did you mean 'wan'?"),
        ("wan:latncy=1", "network 'wan:latncy=1': wan has no parameter 'latncy'; did you mean 'latency'?"),
        ("latency=slow", "network 'latency=slow': latency must be"),
        ("bandwidth=0", "network 'bandwidth=0': bandwidth must be"),
    ],
)
def test_what_is_no_network(name: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        NetworkModel.named(name)
    assert words in str(caught.value)
