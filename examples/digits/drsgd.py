"""
DRSGD on the digits
===================

DRSGD: mini-batches of 16 images from each agent's own stream, steps that shrink like 1/sqrt(k).

Five principal components of the digits, each agent holding one digit's images (the hardest division)::

    python examples/digits/drsgd.py
    mpirun -n 10 python examples/digits/drsgd.py
"""

import decentorth as do
import topologies as tp

problem = do.problems.PCASettings(rank=5, partition="by-label").problem(10, seed=0)
W = tp.metropolis_weights(tp.erdos_renyi(10, 0.4, seed=0))
result = do.solve(problem, do.DRSGD(step_size="diminishing", batch_size=16), W, iterations=2000)
if result.collective.rank == 0:
    row, seen = result.row, result.row.values
    print(f"{result.status}: distance {seen['error']:.1e}, consensus {seen['consensus_rms']:.1e}, {row.bytes / 1e6:.0f} MB")
