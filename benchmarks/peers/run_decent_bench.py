"""The seconds of an iteration of decent-bench's SimpleGT: its arguments are ring or torus, and the
numbers of an agent."""

from __future__ import annotations

import sys
import time
from typing import Any

import decent_array.interoperability as iop
import networkx as nx
import numpy as np
from decent_bench.agents import Agent
from decent_bench.algorithms.p2p import SimpleGT
from decent_bench.costs import ZeroCost
from decent_bench.networks import P2PNetwork


class Distance(ZeroCost):
    """||x - target||^2 / 2."""

    def __init__(self, target: np.ndarray) -> None:
        super().__init__(target.shape)
        self.target = iop.from_numpy(target)

    def gradient(self, x: Any, **more: object) -> Any:
        return x - self.target


def main(graph: str, width: int) -> None:
    """Print the seconds of an iteration of the processor."""
    iop.set_backend("numpy")
    edges = nx.cycle_graph(10) if graph == "ring" else nx.grid_2d_graph(25, 40, periodic=True)
    rng = np.random.default_rng(0)
    agents = [
        Agent(Distance(rng.standard_normal(width)), state_snapshot_period=10**6) for _ in edges
    ]
    network, method = P2PNetwork(edges, agents), SimpleGT(step_size=0.05)
    method.initialize(network)
    iterations = 200 if graph == "ring" else 5
    begun = 0.0
    for k in range(iterations + 2):
        if k == 2:
            begun = time.process_time()
        network._step(k)
        method.step(network, k)
    print((time.process_time() - begun) / iterations)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
