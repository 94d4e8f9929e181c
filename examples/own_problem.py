"""
How do I write my own problem?
==============================

A problem of one's own from two functions: each agent's value and Euclidean
gradient.

Here f_i(x) = -sum_j (a_ij^T x)^4 / 4 over unit vectors' r-frames: a
heavy-tailed cousin of PCA. ::

    python examples/own_problem.py

Explained in ``docs/own_method.md``.
"""

import numpy as np

import decentorth as do
import topologies as tp

# %%
# Value and gradient of each agent
# --------------------------------

samples = [
    np.random.default_rng(agent).standard_normal((40, 8)) for agent in range(6)
]


def value(agent: int, x: np.ndarray) -> float:
    return float(-((samples[agent] @ x) ** 4).mean(axis=0).sum() / 4)


def gradient(agent: int, x: np.ndarray) -> np.ndarray:
    a = samples[agent]
    return -a.T @ (a @ x) ** 3 / len(a)


# %%
# The run
# -------

problem = do.problems.FunctionProblem(
    value, gradient, do.sets.Stiefel(8, 2), n_agents=6
)
result = do.solve(
    problem, do.DRFGT(), tp.metropolis_weights(tp.star(6)), iterations=5000
)
start, end = (result.history["gradient_norm"][i] for i in (0, -1))
print(
    f"gradient norm {start:.1e} -> {end:.1e}, consensus "
    f"{result.row.values['consensus_rms']:.1e}"
)
