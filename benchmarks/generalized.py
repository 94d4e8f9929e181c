"""Methods on the generalized Stiefel manifold: an iteration against its products, and the time to an answer.

    python benchmarks/generalized.py

1. GEVP, n = 1000: an iteration of every method at p = 100 and 500 against the floor: the multiplications of its products of order
   n^2 p (with A, with B, solves with B) and n p^2 at the rate of this machine's product of an n x n and an n x p matrix. Matrices
   of order p, which are factored or multiplied, are not in it.
2. GEVP, n = 1000, p = 100, condition 100 (paper 003's matrices): seconds until the objective at the projection is within 1e-6 of
   the optimum, beside scipy.linalg.eigh.
3. Procrustes, A 2000 x 500 on St(500, 100): seconds until the Riemannian gradient is 1e-6 of that at the start.

Times are of the processor (one thread), so that other work on the machine counts little; metrics are not in them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from decentorth import PCAL, PLAM, RGD, GeneralizedLanding, Landing
from decentorth.api import Run
from decentorth.problems import FunctionProblem, Procrustes
from decentorth.sets import GeneralizedStiefel, Stiefel

N, CONDITION = 1000, 100.0


def spectral(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    q, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    matrix = (q * values) @ q.T
    return (matrix + matrix.T) / 2


def matrices() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return (
        spectral(np.linspace(1 / CONDITION, 1.0, N), rng),
        spectral(np.geomspace(1 / CONDITION, 1.0, N), rng),
    )


def gevp(A: np.ndarray, B: np.ndarray, p: int) -> FunctionProblem:
    def value(_: np.ndarray, x: np.ndarray) -> np.ndarray:
        return -0.5 * (x * (A @ x)).sum((-2, -1))

    def gradient(_: np.ndarray, x: np.ndarray) -> np.ndarray:
        image = A @ x
        image *= -1.0
        return image

    return FunctionProblem(value, gradient, GeneralizedStiefel(B, p), 1, stacked=True)


def least(function: Callable[[], Any], repeats: int) -> float:
    """Median milliseconds of the processor."""
    function()
    times = []
    for _ in range(repeats):
        begun = time.process_time()
        function()
        times.append(time.process_time() - begun)
    return 1e3 * statistics.median(times)


METHODS: list[tuple[str, Any, int, int]] = [
    ("landing psi-b", GeneralizedLanding(step_size=1e-3, safe=False), 2, 9),
    ("landing psi-b, safe", GeneralizedLanding(step_size=1e-3), 2, 13),
    ("landing psi-br", GeneralizedLanding(step_size=1e-4, direction="psi-br", safe=False), 3, 10),
    ("landing riemannian", GeneralizedLanding(step_size=1e-3, direction="riemannian", safe=False), 2, 7),
    ("rgd natural, cholesky-qr", RGD(step_size=1e-3, retraction="cholesky-qr"), 2, 10),
    ("rgd natural, polar", RGD(step_size=1e-3), 2, 10),
    ("rgd euclidean, cholesky-qr", RGD(step_size=1e-2, metric="euclidean", retraction="cholesky-qr"), 2, 11),
    ("rgd euclidean, polar", RGD(step_size=1e-2, metric="euclidean"), 2, 11),
    ("plam", PLAM(step_size=1e-3, penalty=50.0), 2, 6),
    ("pcal", PCAL(step_size=1e-3, penalty=50.0), 2, 6),
]
"""Name, method, products of order 2 n^2 p and of order n p^2 in an iteration."""


def iterations(A: np.ndarray, B: np.ndarray) -> None:
    for p, repeats in ((100, 15), (500, 7)):
        problem = gevp(A, B, p)
        x = np.random.default_rng(1).standard_normal((1, N, p))
        product = least(lambda x=x: B @ x, repeats)
        print(f"p = {p}: a product {product:.2f} ms ({2e-6 * N * N * p / product:.0f} Gflop/s)")
        for name, method, large, small in METHODS:
            states = Run(problem, method, comm="serial").states()
            for _ in range(3):
                next(states)
            found = least(lambda states=states: next(states), repeats)
            floor = product * (large + small * p / (2 * N))
            print(f"  {name:28s} {found:8.2f} ms   floor {floor:7.2f} ms   ratio {found / floor:.2f}")
            states.close()


def until(run: Run, reached: Callable[[Any], bool], every: int, most: int) -> tuple[int, float]:
    """Iterations and processor seconds of the method alone until a state will do; -1 where none does."""
    begun = time.process_time()
    states = run.states()
    state = next(states)
    spent = time.process_time() - begun
    for k in range(1, most + 1):
        begun = time.process_time()
        state = next(states)
        spent += time.process_time() - begun
        if k % every == 0 and reached(state):
            return k, spent
    return -1, spent


def answers(A: np.ndarray, B: np.ndarray) -> None:
    p = 100
    problem = gevp(A, B, p)
    begun = time.process_time()
    optimum = -0.5 * scipy.linalg.eigh(A, B, eigvals_only=True, subset_by_index=[N - p, N - 1]).sum()
    print(f"GEVP, n = {N}, p = {p}, condition {CONDITION:g}, to 1e-6: eigh {time.process_time() - begun:.2f} s")

    def close(state: Any) -> bool:
        value = problem.value(problem.constraint.project(state.x))[0]
        return bool(abs(value - optimum) < 1e-6 * abs(optimum))

    for method, most in (
        (RGD(step_size="bb:cap=inf"), 300),
        (RGD(step_size="bb:cap=inf", retraction="cholesky-qr"), 300),
        (RGD(step_size="bb:cap=inf", metric="euclidean"), 1500),
        (GeneralizedLanding(step_size="bb:cap=inf", direction="psi-br"), 1000),
        (GeneralizedLanding(step_size="bb:cap=inf"), 1500),
        (PLAM(step_size="bb:cap=inf"), 1500),
        (PCAL(step_size="bb:cap=inf"), 1500),
    ):
        report(method, *until(Run(problem, method, comm="serial", seed=1), close, 5, most))


def report(method: Any, k: int, seconds: float) -> None:
    told = {name: getattr(method, name) for name in ("direction", "metric", "retraction") if hasattr(method, name)}
    name = f"{type(method).__name__} {' '.join(told.values())}"
    print(f"  {name:34s} " + (f"{k:5d} iterations {seconds:7.2f} s" if k > 0 else f"not reached in {seconds:.2f} s"))


def procrustes() -> None:
    rng = np.random.default_rng(0)
    problem = Procrustes([rng.standard_normal((2000, 500))], [rng.standard_normal((100, 2000))])
    manifold = Stiefel(500, 100)
    print("Procrustes, A 2000 x 500, St(500, 100), to a relative gradient of 1e-6")

    def size(x: np.ndarray) -> float:
        x = manifold.project(x, "polar")
        return float(np.linalg.norm(manifold.tangent(x, problem.gradient(x))))

    for method in (
        RGD(step_size="bb:cap=inf"),
        RGD(step_size="bb:cap=inf", retraction="cholesky-qr"),
        PLAM(step_size="bb:cap=inf"),
        PCAL(step_size="bb:cap=inf"),
        Landing(step_size="bb:cap=inf"),
    ):
        run = Run(problem, method, comm="serial", seed=3)
        first = size(run.x0)
        report(method, *until(run, lambda state, first=first: size(state.x) < 1e-6 * first, 5, 1500))


def main() -> None:
    with threadpool_limits(1):
        A, B = matrices()
        iterations(A, B)
        answers(A, B)
        procrustes()


if __name__ == "__main__":
    main()
