"""The seconds of an iteration of disropt's gradient tracking, 10 agents on a ring, 1,000 doubles:
run by mpirun -n 10."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
from disropt.agents import Agent
from disropt.algorithms.gradient_tracking import GradientTracking
from mpi4py import MPI

ITERATIONS = 100


def main() -> None:
    """Print the seconds of an iteration on rank 0."""
    rank, size = MPI.COMM_WORLD.Get_rank(), MPI.COMM_WORLD.Get_size()
    neighbours = sorted({(rank - 1) % size, (rank + 1) % size})
    weights = np.zeros(size)
    weights[[rank, *neighbours]] = 1 / 3
    agent = Agent(in_neighbors=neighbours, out_neighbors=neighbours, in_weights=weights.tolist())
    target = np.random.default_rng(rank).standard_normal((1000, 1))
    agent.problem = SimpleNamespace(
        objective_function=SimpleNamespace(subgradient=lambda x: x - target)
    )
    method = GradientTracking(agent=agent, initial_condition=np.zeros((1000, 1)))
    method.run(iterations=5, stepsize=0.05)
    MPI.COMM_WORLD.Barrier()
    begun = time.perf_counter()
    method.run(iterations=ITERATIONS, stepsize=0.05)
    if rank == 0:
        print((time.perf_counter() - begun) / ITERATIONS)


if __name__ == "__main__":
    main()
