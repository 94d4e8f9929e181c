"""Mixes of random arrays, from 8 B to 8 MB a message: ``python -m tests.mpi.exchanges`` prints one
hash per mix on rank 0."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import topologies as tp
from decentorth.network import Network
from decentorth.network.collective import AgentCollective
from decentorth.protocols import Array

AGENTS = 10


class Exchange(NamedTuple):
    """Arrays of these trailing shapes, mixed together ``rounds`` times, ``repeats`` times in a row
    with different numbers."""

    graph: Callable[[int], Any]
    shapes: tuple[tuple[int, ...], ...]
    rounds: int = 1
    repeats: int = 3

    def weights(self) -> Any:
        return tp.metropolis_weights(self.graph(AGENTS))

    def arrays(self, repeat: int, agents: slice) -> list[Array]:
        """The arrays of some agents: each agent has its own numbers, whichever rank draws them."""
        generators = [
            np.random.default_rng((17, agent, repeat)) for agent in range(agents.start, agents.stop)
        ]
        return [
            np.stack([generator.standard_normal(shape) for generator in generators])
            for shape in self.shapes
        ]


def random_graph(n: int) -> Any:
    return tp.erdos_renyi(n, 0.4, seed=3)


EXCHANGES: dict[str, Exchange] = {
    **{f"path-{8 * 8**k}-bytes": Exchange(tp.path, ((8**k,),)) for k in range(6)},
    "path-just-over-8-kB": Exchange(tp.path, ((1025,),), repeats=20),
    "path-just-over-64-kB": Exchange(tp.path, ((8193,),), repeats=20),
    "path-1-MB": Exchange(tp.path, ((1 << 17,),)),
    "path-8-MB": Exchange(tp.path, ((1 << 20,),), repeats=1),
    "ring-8-MB-in-three": Exchange(tp.ring, ((1000, 1000), (40, 50), (46_575,)), repeats=1),
    "widths": Exchange(random_graph, ((1,), (3, 4), (50, 20), (1,), (2, 2, 2)), repeats=20),
    "scalars": Exchange(random_graph, ((),), rounds=7, repeats=20),
    "rounds": Exchange(random_graph, ((50, 20), (50, 20)), rounds=5, repeats=5),
    "complete": Exchange(tp.complete, ((500, 20), (3,)), rounds=2),
    "star": Exchange(tp.star, ((100, 100),), repeats=5),
}


def main() -> None:
    """All exchanges; the ranks dawdle by turns, so that messages also arrive before they are
    expected."""
    hashes: dict[str, list[list[str]]] = {}
    rank = 0
    for name, exchange in EXCHANGES.items():
        network = Network(exchange.weights())
        collective = AgentCollective(network.communicator, network.bounds)
        rank = collective.rank
        kept = []
        for repeat in range(exchange.repeats):
            given = exchange.arrays(repeat, network.agents)
            untouched = [x.copy() for x in given]
            if (repeat + rank) % 3 == 0:
                time.sleep(0.003)
            kept.append(network.mix(*given, rounds=exchange.rounds))
            if any(
                x.tobytes() != before.tobytes() for x, before in zip(given, untouched, strict=True)
            ):
                raise AssertionError(f"{name}: mix changed what it was given")
        hashes[name] = [[collective.sha256(x) for x in mixed] for mixed in kept]
    if rank == 0:
        sys.stdout.write(json.dumps(hashes) + "\n")


if __name__ == "__main__":
    main()
