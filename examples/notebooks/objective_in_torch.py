"""
Your own objective: how do I train an orthogonal layer, in PyTorch?
===================================================================

A recurrent network forgets less if the matrix between two of its steps is
orthogonal. Five agents train such a matrix together; each has sequences that
the others never see. The loss is written in PyTorch, and has a loop in it.

It needs ``pip install ".[plot,torch]"`` in a checkout.

Explained in ``docs/own_objective.md``.
"""

# %%
# The data
# --------
#
# A hidden rotation moves a point in six dimensions, and each agent observes
# starts and the points eight steps later, with noise.

import numpy as np
import torch

import decentorth as do

rng = np.random.default_rng(0)
width = 6
agents = 5
steps = 8
angles = rng.uniform(0.05, 0.3, width // 2)
truth = np.zeros((width, width))
for k, angle in enumerate(angles):
    c = np.cos(angle)
    s = np.sin(angle)
    truth[2 * k : 2 * k + 2, 2 * k : 2 * k + 2] = [[c, -s], [s, c]]
starts = rng.standard_normal((agents, 40, width))
ends = starts @ np.linalg.matrix_power(truth, steps)
ends += 0.05 * rng.standard_normal(ends.shape)
data = torch.from_numpy(np.stack([starts, ends], axis=1))

# %%
# The loss
# --------
#
# A plain function of an agent's data and of x. PyTorch differentiates through
# the loop.


def loss(pair, x):
    """The mean squared error after all steps."""
    point = pair[0]
    for _ in range(steps):
        point = point @ x
    return ((point - pair[1]) ** 2).mean()


problem = do.problems.from_function(
    loss, do.sets.Stiefel(width, width), data=data, backend="torch"
)
result = do.solve(
    problem,
    do.DRFGT(),
    "ring",
    x0=np.eye(width),
    iterations=1500,
    stopping=1e-7,
    check=True,
)
print(result)

# %%
# What was learnt
# ---------------
#
# The rotation itself, to within the noise:

x = result.x.mean(axis=0)
print(f"distance from the rotation: {np.linalg.norm(x - truth):.3f}")
print(
    f"distance of the identity:   {np.linalg.norm(np.eye(width) - truth):.3f}"
)

figure = result.plot(width="page")
figure.savefig("objective_in_torch.png", dpi=150)

# %%
# Exercises
# ---------
#
# 1. Start from a random orthogonal matrix. Is the answer the same? The loss of
#    a power of x has many minima.
# 2. Use 1 step in place of 8. Why is it easier?
# 3. Whole networks go the same way: ``do.problems.from_module`` takes a
#    ``torch.nn.Module`` and the names of its orthogonal parameters.
