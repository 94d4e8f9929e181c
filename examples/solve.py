"""
How does a run look, from the graph to the result?
==================================================

The programming interface: a problem, a graph, a method, a result. Runs alone,
or unchanged under mpirun::

    python examples/solve.py
    mpirun -n 3 python examples/solve.py

Explained in ``docs/using.md``.
"""

import numpy as np

import decentorth as do
import topologies as tp

# %%
# The problem and the graph
# -------------------------
#
# Ten agents on a ring. Agent i holds A_i and B_i, and its objective is
# ``f_i(x) = |A_i x - B_i^T|^2``.

rng = np.random.default_rng(0)
n = 10
d = 20
r = 5
A = rng.standard_normal((n, 30, d))
B = rng.standard_normal((n, r, 30))

W = tp.uniform_weights(tp.ring(n), self_weight=0.8)
problem = do.problems.Procrustes(A, B)
# %%
# The run
# -------
#
# It ends at a small gradient and small disagreement.

stopping = do.stopping.GradientNorm(
    1e-7, relative=True
) & do.stopping.Consensus(1e-6)
result = do.solve(
    problem, do.DRFGT(), W, iterations=20_000, stopping=stopping, seed=0
)

# %%
# The result
# ----------

x = result.gather()  # all agents' points on rank 0, None on the others
if x is not None:
    print(
        f"{result.status} after {result.row.iteration} iterations: "
        f"{result.message}"
    )
    print(
        f"x has shape {x.shape}; the agents agree to "
        f"{np.ptp(x, axis=0).max():.1e}"
    )
