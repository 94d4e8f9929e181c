"""Every retraction of St(d, r), 10 agents, against the polar factor by singular value
decomposition.

    python benchmarks/retractions.py [LENGTH ...]

One BLAS thread. For each shape and each length of the tangent step (0.01 unless others are given),
all retractions are timed in turn, in blocks, in one process; the medians of a call's time are
printed, and of its ratio to polar-svd in the same block. The floor is what no polar factor from the
Gram matrix can do without: x + v and two products. A large array is freed first: from then on the C
library keeps the memory of freed arrays, where page faults could cost more than the arithmetic.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import get_args

import numpy as np

from decentorth.protocols import Retraction
from decentorth.sets import Stiefel
from decentorth.sets.retractions import gram

N, BLOCKS, SECONDS = 10, 15, 0.02
SHAPES = [(50, 20), (784, 10), (500, 100)]


def floor(x: np.ndarray, v: np.ndarray, spare: np.ndarray) -> np.ndarray:
    y = x + v
    return np.matmul(y, gram(y, spare), out=spare)


def seconds(call: Callable[[], object], repeats: int) -> float:
    begun = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - begun) / repeats


def main() -> None:
    lengths = [float(word) for word in sys.argv[1:]] or [0.01]
    np.empty(3_900_000)
    rng = np.random.default_rng(0)
    for shape in SHAPES:
        manifold = Stiefel(*shape)
        x = np.stack([manifold.random(rng) for _ in range(N)])
        direction = manifold.tangent(x, rng.standard_normal(x.shape))
        direction /= np.sqrt((direction * direction).sum((-2, -1), keepdims=True))
        for length in lengths:
            v = length * direction
            calls: dict[str, Callable[[], object]] = {"floor": partial(floor, x, v, x.copy())}
            calls |= {name: partial(manifold.retract, x, v, name) for name in get_args(Retraction)}
            repeats = {
                name: max(1, int(SECONDS / seconds(call, 3))) for name, call in calls.items()
            }
            times: dict[str, list[float]] = {name: [] for name in calls}
            for _ in range(BLOCKS):
                for name, call in calls.items():
                    times[name].append(seconds(call, repeats[name]))
            print(f"{N} agents of {shape[0]} x {shape[1]}, steps of length {length:g}")
            for name, each in times.items():
                ratio = statistics.median(
                    ours / theirs for ours, theirs in zip(each, times["polar-svd"], strict=True)
                )
                print(
                    f"  {name:12s} {statistics.median(each) * 1e6:9.1f} us a call   {ratio:6.3f} "
                    "of polar-svd"
                )


if __name__ == "__main__":
    main()
