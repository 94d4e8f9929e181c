"""One in-process DRFGT iteration (10 agents, 50 x 20, ring) against the same iteration written as
straight NumPy.

    python benchmarks/iteration.py

Both are timed in turn, in blocks, in one process; the ratio of each pair of neighbouring blocks is
taken, and its median printed. The runner's own overhead is what is left of an iteration when the
algorithm does nothing. Last, what agents that decide about the end themselves
(`stopping.LocalMaximum`) add to an iteration of 10 and of 1,000 agents.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

import topologies as tp
from decentorth import DRFGT
from decentorth.api import set_up
from decentorth.problems.stiefel.procrustes import Procrustes, published_rows
from decentorth.running.checkpoint import Snapshot
from decentorth.stopping import LocalMaximum

BLOCKS, PER_BLOCK = 60, 200


class Straight:
    """DRFGT on Procrustes with nothing around it: the arrays of all agents, plain NumPy, one sparse
    product per array."""

    def __init__(
        self, A: np.ndarray, Bt: np.ndarray, W: csr_array, x0: np.ndarray, alpha: float, lam: float
    ) -> None:
        self.A, self.Bt, self.W, self.alpha, self.lam = A, Bt, W, alpha, lam
        self.x = np.repeat(x0[None], len(A), axis=0)
        self.field = self.landing(self.x)
        self.y = self.field.copy()

    def landing(self, x: np.ndarray) -> np.ndarray:
        residual = self.A @ x - self.Bt
        g = self.A.swapaxes(1, 2) @ (2.0 * residual)
        xt = x.swapaxes(1, 2)
        s, t = xt @ x, g.swapaxes(1, 2) @ x
        eye = np.eye(x.shape[2])
        return (0.5 * g + self.lam * x) @ s - x @ (0.5 * t + self.lam * eye)

    def step(self) -> None:
        shape = self.x.shape
        n = shape[0]
        x = (self.W @ self.x.reshape(n, -1)).reshape(shape) - self.alpha * self.y
        field = self.landing(x)
        self.y = (self.W @ self.y.reshape(n, -1)).reshape(shape) + field - self.field
        self.x, self.field = x, field


class StraightFused(Straight):
    """The same with the landing field in two products instead of four, as the package computes
    it."""

    def landing(self, x: np.ndarray) -> np.ndarray:
        r = x.shape[2]
        residual = self.A @ x - self.Bt
        g = self.A.swapaxes(1, 2) @ (2.0 * residual)
        both = np.concatenate((x, g), axis=2)
        products = both.swapaxes(1, 2) @ x
        s, t = products[:, :r], products[:, r:]
        return both @ np.concatenate((self.lam * (s - np.eye(r)) - 0.5 * t, 0.5 * s), axis=1)


class _IdleState(NamedTuple):
    x: np.ndarray
    k: int
    gradients: int


@dataclass(frozen=True)
class _Idle:
    """A method that does nothing: what is left is the runner."""

    requires: ClassVar[tuple[type, ...]] = ()
    requires_set: ClassVar[tuple[type, ...]] = ()
    network: ClassVar[str] = "decentralized"

    def init(self, problem: Any, network: Any, streams: Any, x0: np.ndarray) -> _IdleState:
        return _IdleState(x0, 0, 0)

    def step(self, problem: Any, network: Any, streams: Any, state: _IdleState) -> _IdleState:
        return _IdleState(state.x, state.k + 1, 0)


def deciding(W: Any, rows: int, blocks: int) -> str:
    """An attempt of agents to agree about the end, its share of the iterations between two
    attempts, and of their bytes."""
    n = W.shape[0]
    a, b = published_rows(slice(0, n), n, 50, 20, 0) if n == 10 else _drawn(n, rows)
    run = set_up(
        Procrustes(a, b),
        DRFGT(step_size=1e-4, penalty=10.0, order="combine-then-adapt"),
        W,
        comm="serial",
    )
    agreement = run.agreement(LocalMaximum(1e-9))
    if agreement is None:
        raise ValueError("agents decide")
    states, iterations, attempts = run.states(), [], []
    state = next(states)
    for _ in range(blocks):
        begun = time.perf_counter()
        for _ in range(5):
            state = next(states)
        iterations.append((time.perf_counter() - begun) / 5)
        begun = time.perf_counter()
        agreement.latest = None
        agreement.look(Snapshot(state._replace(k=0), (0, 0, 0), {}, {}))
        attempts.append(time.perf_counter() - begun)
    one, attempt = statistics.median(iterations), statistics.median(attempts)
    each = agreement.tally.bytes / agreement.tally.attempts / agreement.every
    share = each / ((run.network.bytes - agreement.tally.bytes) / state.k)
    return (
        f"agents that decide, {n:5d}: {attempt * 1e6:8.0f} us every {agreement.every} iterations "
        f"of {one * 1e6:.0f} us: {attempt / agreement.every * 1e6:.2f} us an iteration, "
        f"{attempt / agreement.every / one:.2%} of its time, {share:.2%} of its bytes"
    )


def _drawn(n: int, rows: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal((rows, 50)) for _ in range(n)], [
        rng.standard_normal((20, rows)) for _ in range(n)
    ]


def main() -> None:
    n, alpha, lam = 10, 1e-3, 10.0
    a, b = published_rows(slice(0, n), 10, 50, 20, 0)
    W = tp.uniform_weights(tp.ring(n))
    problem = Procrustes(a, b)
    run = set_up(
        problem, DRFGT(step_size=alpha, penalty=lam, order="combine-then-adapt"), W, comm="serial"
    )
    x0 = run.x0[0]
    targets = np.stack([m.T for m in b]).copy()
    plain = {
        "straight NumPy, four products": Straight(np.stack(a), targets, W, x0, alpha, lam),
        "straight NumPy, two products": StraightFused(np.stack(a), targets, W, x0, alpha, lam),
    }
    from decentorth.running.loop import run as run_loop
    from decentorth.running.options import Options
    from decentorth.running.parts import Parts

    states = run.parts.states()
    next(states)
    times: dict[str, list[float]] = {"decentorth": [], **{name: [] for name in plain}}
    with threadpool_limits(1), np.errstate(over="ignore", invalid="ignore"):
        for _ in range(BLOCKS):
            begun = time.perf_counter()
            for _ in range(PER_BLOCK):
                state = next(states)
            times["decentorth"].append(time.perf_counter() - begun)
            for name, other in plain.items():
                begun = time.perf_counter()
                for _ in range(PER_BLOCK):
                    other.step()
                times[name].append(time.perf_counter() - begun)
        gap = max(np.abs(state.x - other.x).max() for other in plain.values())
        idle = set_up(problem, _Idle(), W, comm="serial")
        begun = time.perf_counter()
        parts = Parts(
            idle.problem, _Idle(), idle.network, idle.collective, idle.streams, idle.start, _Idle()
        )
        run_loop(parts, Options(iterations=100_000, rows=2))
        overhead = (time.perf_counter() - begun) / 100_000
    print(f"largest difference of the iterates after {BLOCKS * PER_BLOCK} iterations: {gap:.1e}")
    for name, seconds in times.items():
        print(f"{name:32s} {statistics.median(seconds) / PER_BLOCK * 1e6:8.1f} us an iteration")
    for name in plain:
        ratio = statistics.median(
            ours / theirs for ours, theirs in zip(times["decentorth"], times[name], strict=True)
        )
        print(f"ratio decentorth / {name}: {ratio:.3f}")
    print(f"runner overhead without metrics: {overhead * 1e6:.2f} us an iteration")
    print(deciding(tp.uniform_weights(tp.ring(10)), 10, 200))
    print(deciding(tp.metropolis_weights(tp.torus(25, 40)), 10, 20))


if __name__ == "__main__":
    main()
