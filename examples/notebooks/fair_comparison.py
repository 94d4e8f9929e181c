"""
A comparison: which method sends least?
=======================================

Ten agents, one problem, three methods. Which one should you take? The answer
depends on what you count. This notebook compares by iterations and by bytes,
says what makes a comparison fair, and shows where the winner changes.

It needs ``pip install ".[plot]"`` in a checkout.

Explained in ``docs/comparing.md``.
"""

# %%
# The case
# --------
#
# Principal components of samples whose distribution differs between agents. A
# comparison needs a function that makes the problem of a seed: every method
# gets the same data, the same graph and the same start, for each of three
# seeds.

import decentorth as do
from decentorth.compare import Rules, compare

settings = do.problems.PCASettings(
    data="synthetic", dimension=20, rank=3, gap=0.6, heterogeneity=0.3
)


def problem(seed):
    """The problem of a trial."""
    return settings.problem(10, seed)


# %%
# The rules
# ---------
#
# A method is as good as its step size. A comparison with default steps says
# more about the defaults than about the methods. With ``tune=True`` each method
# tries the same number of steps on seeds that are not used later. A tolerance
# counts as reached if the agents also agree to it: a good mean of points that
# disagree is of no use, since no agent has it.

rules = Rules(
    trials=3,
    iterations=2000,
    tolerances=(1e-2, 1e-4, 1e-6),
    tune=True,
    grid=4,
)
found = compare(problem, "drfgt,rfextra,deepca", "ring", rules)
found

# %%
# The numbers
# -----------
#
# For each method and tolerance: on how many trials it was reached, and the
# medians over the trials.

for line in found.lines:
    counts = line.counts
    print(
        f"{line.algorithm:8} {line.tolerance:6g} {line.reached}/{line.trials} "
        f"{counts['iterations'].median:7.0f} iterations "
        f"{counts['bytes'].median / 1e6:7.2f} MB"
    )

# %%
# The figure
# ----------
#
# Bands are ranges over the trials. Read the panels one after the other: the
# method that is first against iterations need not be first against bytes,
# since one method sends two matrices in an iteration where another sends one.

figure = found.plot()

# %%
# What the numbers say
# --------------------
#
# DeEPCA is made for principal components: it is a power iteration, has no step
# to tune, and wins here. It solves no other problem. DRFGT and RF-EXTRA take
# any smooth objective. RF-EXTRA sends its point, and DRFGT its point and a
# tracker of the gradient. An iteration of RF-EXTRA therefore sends half as
# much.
#
# Exercises
# ---------
#
# 1. Replace ``"ring"`` by ``"complete"``, then by ``"path"``. Which method
#    suffers most from a bad graph?
# 2. Set ``heterogeneity=0.0``: all agents have the same distribution. Which
#    method gains most?
# 3. Set ``tune=False``. Does the order of the methods change?
# 4. Add ``networks="wan"`` to ``compare``: what is the time on a slow network?
