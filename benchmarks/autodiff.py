"""The time of a loop over agents, in units of one call for all of them: gradients of 10 agents of
64 x 10.

python benchmarks/autodiff.py jax | torch
"""

import sys
import time

import numpy as np

import decentorth as do

library = sys.argv[1]
if library == "jax":
    import jax.numpy as xp
else:
    import torch as xp

samples = np.random.default_rng(0).standard_normal((10, 20, 64))
problem = do.problems.from_function(
    lambda a, x: xp.tanh(a @ x).sum(), do.sets.Stiefel(64, 10), data=samples, backend=library
)
x = np.repeat(problem.start(0)[None], 10, axis=0)
alone = [problem.restrict(slice(i, i + 1)) for i in range(10)]


def together() -> object:
    return problem.gradient(x)


def loop() -> object:
    return [one.gradient(x[i : i + 1]) for i, one in enumerate(alone)]


seconds = {}
for name, work in (("one call", together), ("loop", loop)):
    work()
    times = []
    for _ in range(200):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    seconds[name] = float(np.median(times))
    print(f"{library}, {name}: {1e6 * seconds[name]:.0f} us")
print(f"ratio {seconds['loop'] / seconds['one call']:.1f}")
