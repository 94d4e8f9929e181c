"""
Your own objective: how do I find independent sources, in JAX?
==============================================================

Six microphones hear six talkers at once. Each of five rooms has a recording of
its own, and the mixture is the same in all rooms. Which linear combinations of
the microphones are single talkers? This is independent component analysis, and
here it is an example of a wider question:

    I have an objective as a Python function. How do agents minimise the sum of
    it over their data, without a formula for the gradient?

It needs ``pip install ".[plot,jax]"`` in a checkout.

Explained in ``docs/own_objective.md``.
"""

# %%
# Recordings
# ----------
#
# Speech is mostly silence with a few loud moments: it has heavy tails. Laplace
# samples have them too. After whitening the mixture is a rotation.

import jax.numpy as jnp
import numpy as np

import decentorth as do

rng = np.random.default_rng(0)
talkers = 6
rooms = 5
length = 800
rotation = np.linalg.qr(rng.standard_normal((talkers, talkers)))[0]
sources = rng.laplace(size=(rooms, length, talkers)) / np.sqrt(2)
recordings = sources @ rotation.T

# %%
# The objective
# -------------
#
# A sum of many talkers is nearly Gaussian, a single talker is not. The fourth
# power measures this: it is large for heavy tails. So we look for the
# orthonormal x with the largest mean fourth power of ``recordings @ x``. A
# method minimises, hence the sign.


def objective(recording, x):
    """Minus the mean fourth power of the outputs."""
    return -jnp.mean((recording @ x) ** 4)


# %%
# The agents
# ----------
#
# ``from_function`` takes the function, the set of x, and the data: entry i
# belongs to agent i. JAX finds the gradients, all of them in one compiled call.
# ``check=True`` compares them with differences of the objective before the run
# begins, and refuses a wrong one.

problem = do.problems.from_function(
    objective,
    do.sets.Stiefel(talkers, talkers),
    data=recordings,
    backend="jax",
)
result = do.solve(
    problem,
    do.DRFGT(),
    "ring",
    iterations=2000,
    stopping=do.stopping.GradientNorm(1e-6, relative=True),
    check=True,
)
result

# %%
# Did it work?
# ------------
#
# Each column of x should be a column of the rotation, up to its sign. The
# table has the absolute products of the two: one number near 1 in each row and
# column, and otherwise numbers near 0.

x = result.x.mean(axis=0)
print(np.abs(rotation.T @ x).round(2))

# %%
# And the picture of the run:

figure = result.plot(width="page")

# %%
# One room alone has few samples. Its answer is less exact than the common one.


def purity(x):
    """The mean of the largest product in each column; 1 is perfect."""
    return np.abs(rotation.T @ x).max(axis=0).mean()


one = do.problems.from_function(
    objective,
    do.sets.Stiefel(talkers, talkers),
    data=recordings[:1, :80],
    backend="jax",
)
alone = do.solve(one, do.RGD(), iterations=1000)
print(f"a tenth of one room: {purity(alone.x[0]):.3f}")
print(f"all rooms together:  {purity(x):.3f}")

# %%
# Exercises
# ---------
#
# 1. Replace the fourth power by ``jnp.logaddexp(y, -y)``, the logarithm of the
#    hyperbolic cosine, and the sign by plus. Outliers count for less in it.
# 2. Give the agents different numbers of samples, as a list of arrays. What
#    changes in the objective that they minimise?
# 3. Make a mistake: return the vector in place of its mean, or forget
#    ``return``. Read what ``solve`` says.
