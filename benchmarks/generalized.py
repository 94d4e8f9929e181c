"""Methods on {x : x^T B x = I}: an iteration against its products, and the time to an answer.

    python benchmarks/generalized.py                           # all of it, about a quarter of an hour on a free core
    python benchmarks/generalized.py procrustes answers        # or some of its parts

iterations GEVP, n = 1000: an iteration of every method at p = 100 and 500 against the floor: the
multiplications of its products
            of order n^2 p (with A, with B, solves with B) and n p^2 at the rate of this machine's
            product of an n x n and an n x p matrix. Matrices of order p, which are factored or
            multiplied, are not in it.
answers     GEVP, n = 1000, p = 100, condition 100 (paper 003's matrices): seconds until the objective at the projection is within
            1e-6 of the optimum, beside scipy.linalg.eigh and pymanopt, which has no such set and
            works with y = U x, U^T U = B, on St(n, p) and the Grassmann manifold, the
            transformation's time included.
large       GEVP, n = 1000, p = 500, paper 003's own size: seconds until the gap is 1e-2, 1e-4 and 1e-6, 40 seconds for each method.
devices     milliseconds of an iteration with NumPy on one thread, on a GPU in double precision and in single precision (seconds of
            the clock there), n = p = 500, 1000, 2000 and n = 1000, p = 500; not among the parts
            that run by themselves.
procrustes A 2000 x 500 on St(500, 100): seconds until the Riemannian gradient is 1e-6 of that at
the start, beside pymanopt's
            conjugate gradients and trust regions, and geoopt's RiemannianSGD and RiemannianAdam
            with the best of a grid of steps. All have the same start, A^T A and A^T B formed
            beforehand, and gradients by hand rather than by autodiff; pymanopt's objective keeps
            its last product for the gradient.

Times are of the processor (one thread), so that other work on the machine counts little; metrics
are not in them.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

from decentorth import PCAL, PLAM, RGD, GeneralizedLanding, Landing
from decentorth.api import Run, set_up
from decentorth.numerics.devices import open_device
from decentorth.numerics.states import mapped
from decentorth.problems import GEVP, Procrustes, pencil
from decentorth.sets import Stiefel

N, CONDITION = 1000, 100.0
LIMIT = 40.0
"""Processor seconds of a method in the part large."""


class Unsolved(GEVP):
    """Without the answer, which takes longer than some of what is measured."""

    def prepare(self, collective: Any) -> None:
        """Nothing."""


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
    (
        "landing riemannian",
        GeneralizedLanding(step_size=1e-3, direction="riemannian", safe=False),
        2,
        7,
    ),
    ("rgd natural, cholesky-qr", RGD(step_size=1e-3, retraction="cholesky-qr"), 2, 10),
    ("rgd natural, polar", RGD(step_size=1e-3), 2, 10),
    (
        "rgd euclidean, cholesky-qr",
        RGD(step_size=1e-2, metric="euclidean", retraction="cholesky-qr"),
        2,
        11,
    ),
    ("rgd euclidean, polar", RGD(step_size=1e-2, metric="euclidean"), 2, 11),
    ("plam", PLAM(step_size=1e-3, penalty=50.0), 2, 6),
    ("pcal", PCAL(step_size=1e-3, penalty=50.0), 2, 6),
]
"""Name, method, products of order 2 n^2 p and of order n p^2 in an iteration."""


def iterations(A: np.ndarray, B: np.ndarray) -> None:
    for p, repeats in ((100, 15), (500, 7)):
        problem = Unsolved(A, B, p)
        x = np.random.default_rng(1).standard_normal((1, N, p))
        product = least(lambda x=x: B @ x, repeats)
        print(f"p = {p}: a product {product:.2f} ms ({2e-6 * N * N * p / product:.0f} Gflop/s)")
        for name, method, large, small in METHODS:
            states = set_up(problem, method, comm="serial").states()
            for _ in range(3):
                next(states)
            found = least(lambda states=states: next(states), repeats)
            floor = product * (large + small * p / (2 * N))
            print(
                f"  {name:28s} {found:8.2f} ms   floor {floor:7.2f} ms   ratio {found / floor:.2f}"
            )
            states.close()


DEVICES: tuple[str | None, ...] = (None, "cuda", "cuda:float32")
SIZES = ((500, 500), (1000, 500), (1000, 1000), (2000, 2000))
ITERATED = [METHODS[place] for place in (0, 2, 4, 6, 7, 8)]


def devices(
    names: Sequence[str | None] = DEVICES, sizes: Sequence[tuple[int, int]] = SIZES
) -> None:
    for n, p in sizes:
        problem = Unsolved(*pencil(n, CONDITION, 0), p)
        x0 = problem.constraint.random(np.random.default_rng(1))
        run = set_up(problem, PLAM(step_size=1e-3, penalty=50.0), comm="serial", x0=x0)
        for device in names:
            placed, start, repeats, now = problem, x0[None], 2 if n > 1000 else 5, time.process_time
            if device is not None:
                put, repeats, now = (
                    open_device(device).put,
                    10 if n > 1000 else 30,
                    time.perf_counter,
                )
                placed, start = problem.on(put), put(start)
            for name, method, _, _ in ITERATED:
                state = method.init(placed, run.network, run.streams, start)
                if device is not None:
                    state = mapped(state, "", lambda _, entry, put=put: put(entry))
                for warm in (True, False):
                    begun = now()
                    for _ in range(2 if warm else repeats):
                        state = method.step(placed, run.network, run.streams, state)
                    float(state.x[0, 0, 0])
                    spent = 1e3 * (now() - begun) / repeats
                print(
                    f"n = {n}, p = {p}, {device or 'NumPy'}: {name:28s} {spent:9.3f} ms", flush=True
                )


def timed(run: Run, every: int = 1) -> Iterator[tuple[Any, float]]:
    """The states of a run, and the processor seconds of the method alone so far.

    As in a run that records one in ``every`` iterations, only these are sure to have their points.
    """
    spent, parts = 0.0, run.parts
    states = parts.steps()
    while True:
        begun = time.process_time()
        state = next(states)
        if state.k % every == 0:
            state = parts.completed(state)
        spent += time.process_time() - begun
        yield state, spent


def until(run: Run, reached: Callable[[Any], bool], every: int, most: int) -> tuple[int, float]:
    """Iterations and seconds until a state will do; -1 where none does."""
    for state, spent in timed(run, every):
        if state.k % every == 0 and reached(state):
            return state.k, spent
        if state.k == most:
            return -1, spent
    raise AssertionError("a run has no end")


def least_value(A: np.ndarray, B: np.ndarray, p: int) -> float:
    """The optimum, and the line of scipy's eigenvectors."""
    begun = time.process_time()
    values, _ = scipy.linalg.eigh(A, B, subset_by_index=[N - p, N - 1])
    spent = time.process_time() - begun
    print(f"  scipy.linalg.eigh, to the last digit {spent:.2f} s")
    return -0.5 * float(values.sum())


def answers(A: np.ndarray, B: np.ndarray) -> None:
    p = 100
    problem = Unsolved(A, B, p)
    print(f"GEVP, n = {N}, p = {p}, condition {CONDITION:g}, to a relative gap of 1e-6")
    optimum = least_value(A, B, p)
    runs = [
        (RGD(step_size="bb"), 300),
        (RGD(step_size="bb", retraction="cholesky-qr"), 300),
        (RGD(step_size="bb", metric="euclidean"), 1500),
        (GeneralizedLanding(step_size="bb", direction="psi-br"), 1000),
        (GeneralizedLanding(step_size="bb"), 1500),
        (PLAM(step_size="bb"), 1500),
        (PCAL(step_size="bb"), 1500),
    ]

    def close(state: Any) -> bool:
        value = problem.value(problem.constraint.project(state.x))[0]
        return bool(abs(value - optimum) < 1e-6 * abs(optimum))

    for method, most in runs:
        run = set_up(problem, method, comm="serial", seed=1)
        report(method, *until(run, close, 5, most))
    pymanopt_gevp(A, B, run.x0[0], optimum)


def large(A: np.ndarray, B: np.ndarray) -> None:
    p, tolerances = 500, (1e-2, 1e-4, 1e-6)
    problem = Unsolved(A, B, p)
    print(
        f"GEVP, n = {N}, p = {p}, condition {CONDITION:g}: seconds to a relative gap of "
        f"{', '.join(f'{t:g}' for t in tolerances)}"
    )
    optimum = least_value(A, B, p)
    for method in (
        RGD(step_size="bb", retraction="cholesky-qr"),
        RGD(step_size="bb", metric="euclidean", retraction="cholesky-qr"),
        GeneralizedLanding(step_size="bb", safe=False),
        GeneralizedLanding(step_size="bb"),
        GeneralizedLanding(step_size="bb", direction="psi-br"),
        PLAM(step_size="bb"),
    ):
        first: dict[float, float] = {}
        gap = 1.0
        for state, spent in timed(set_up(problem, method, comm="serial", seed=1)):
            if state.k % 5 == 0:
                value = problem.value(problem.constraint.project(state.x))[0]
                gap = float((value - optimum) / abs(optimum))
                first |= {
                    tolerance: spent
                    for tolerance in tolerances
                    if gap < tolerance and tolerance not in first
                }
            if len(first) == len(tolerances) or spent > LIMIT or not np.isfinite(gap):
                break
        found = " ".join(
            f"{first[tolerance]:6.1f}" if tolerance in first else "     -"
            for tolerance in tolerances
        )
        each = 1e3 * spent / max(state.k, 1)
        print(
            f"  {told(method):44s} {found}   {each:6.1f} ms an iteration, gap {gap:.0e} after "
            f"{spent:.0f} s",
            flush=True,
        )


def told(method: Any) -> str:
    """A method by what it does and its steps."""
    names = [
        getattr(method, name)
        for name in ("direction", "metric", "retraction")
        if hasattr(method, name)
    ]
    unsafe = ["not safe"] if vars(method).get("safe") is False else []
    return (
        " ".join([type(method).__name__, *names, *unsafe])
        + f", {str(method.step_size).partition(':')[0]}"
    )


def report(method: Any, k: int, seconds: float) -> None:
    result(told(method), k if k > 0 else None, seconds)


def result(name: str, k: int | None, seconds: float) -> None:
    reached = (
        f"not reached in {seconds:.2f} s" if k is None else f"{k:5d} iterations {seconds:7.2f} s"
    )
    print(f"  {name:44s} {reached}", flush=True)


class Reached(Exception):
    """Of a tolerance, from within an objective."""


class Quadratic:
    """f(x) = <x, H x> / 2 - <x, K>, its gradient, and the product H x kept for whoever asks at the
    same point next."""

    def __init__(self, H: np.ndarray, K: np.ndarray | float, enough: float = -np.inf) -> None:
        self.H, self.K, self.enough = H, K, enough
        self.x: np.ndarray | None = None
        self.image = H

    def product(self, x: np.ndarray) -> np.ndarray:
        if x is not self.x:
            self.x, self.image = x, self.H @ x
        return self.image

    def value(self, x: np.ndarray) -> float:
        value = float((x * (0.5 * self.product(x) - self.K)).sum())
        if value < self.enough:
            raise Reached
        return value

    def gradient(self, x: np.ndarray) -> np.ndarray:
        return self.product(x) - self.K

    def pymanopt(self, manifold: Any) -> Any:
        import pymanopt

        cost, gradient = (
            pymanopt.function.numpy(manifold)(one) for one in (self.value, self.gradient)
        )
        hessian = pymanopt.function.numpy(manifold)(lambda x, v: self.H @ v)
        return pymanopt.Problem(
            manifold, cost, euclidean_gradient=gradient, euclidean_hessian=hessian
        )


def pymanopt_gevp(A: np.ndarray, B: np.ndarray, x0: np.ndarray, optimum: float) -> None:
    """pymanopt until the gap is reached; its line search's trial points count too."""
    from pymanopt.manifolds import Grassmann, Stiefel
    from pymanopt.optimizers import ConjugateGradient, TrustRegions

    for manifold in (Stiefel(*x0.shape), Grassmann(*x0.shape)):
        for optimizer in (ConjugateGradient, TrustRegions):
            begun = time.process_time()
            upper = scipy.linalg.cholesky(B)
            half = scipy.linalg.solve_triangular(upper, A, trans=1)
            whitened = scipy.linalg.solve_triangular(upper, half.T, trans=1)
            objective = Quadratic(-(whitened + whitened.T) / 2, 0.0, optimum + 1e-6 * abs(optimum))
            run = optimizer(verbosity=0, max_time=60, min_gradient_norm=0.0)
            try:
                run.run(objective.pymanopt(manifold), initial_point=upper @ x0)
                found = "not reached in "
            except Reached:
                found = ""
            name = f"pymanopt {optimizer.__name__}, {type(manifold).__name__}"
            print(f"  {name:44s} {found}{time.process_time() - begun:7.2f} s", flush=True)


def procrustes() -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2000, 500)), rng.standard_normal((100, 2000))
    problem, manifold = Procrustes([A], [B]), Stiefel(500, 100)
    print("Procrustes, A 2000 x 500, St(500, 100), to a relative gradient of 1e-6")

    def size(x: np.ndarray) -> float:
        x = manifold.project(x, "polar")
        return float(np.linalg.norm(manifold.tangent(x, problem.gradient(x))))

    x0 = set_up(problem, RGD(), comm="serial", seed=3).x0
    first = size(x0)
    for method in (
        RGD(step_size="bb"),
        RGD(step_size="bb", retraction="cholesky-qr"),
        PLAM(step_size="bb"),
        PCAL(step_size="bb"),
        Landing(step_size="bb"),
    ):
        run = set_up(problem, method, comm="serial", x0=x0[0])
        report(method, *until(run, lambda state: size(state.x) < 1e-6 * first, 5, 1500))
    objective = Quadratic(2.0 * A.T @ A, 2.0 * A.T @ B.T)
    pymanopt_procrustes(objective, x0[0], 1e-6 * first)
    geoopt_procrustes(objective, x0[0], lambda x: size(x[None]))


def pymanopt_procrustes(objective: Quadratic, x0: np.ndarray, tolerance: float) -> None:
    from pymanopt.manifolds import Stiefel
    from pymanopt.optimizers import ConjugateGradient, TrustRegions

    for optimizer in (ConjugateGradient, TrustRegions):
        for retraction in ("qr", "polar"):
            problem = objective.pymanopt(Stiefel(*x0.shape, retraction=retraction))
            begun = time.process_time()
            found = optimizer(verbosity=0, min_gradient_norm=tolerance, max_iterations=5000).run(
                problem, initial_point=x0
            )
            reached = found.gradient_norm < tolerance
            name = f"pymanopt {optimizer.__name__}, {retraction}"
            result(name, found.iterations if reached else None, time.process_time() - begun)


def geoopt_procrustes(
    objective: Quadratic, x0: np.ndarray, size: Callable[[np.ndarray], float]
) -> None:
    """geoopt with each kind's step that has come closest after 200 iterations."""
    try:
        import geoopt
        import torch
    except ImportError as error:
        print(f"  geoopt is left out ({error}): pip install geoopt torch")
        return
    torch.set_num_threads(1)
    H, K = torch.from_numpy(objective.H), torch.from_numpy(objective.K)
    manifold = geoopt.EuclideanStiefel()
    steepest = float(np.linalg.eigvalsh(objective.H)[-1])
    kinds: dict[str, tuple[Callable[..., Any], Sequence[float]]] = {
        "RiemannianSGD": (
            geoopt.optim.RiemannianSGD,
            [c / steepest for c in (0.25, 0.5, 1.0, 2.0)],
        ),
        "RiemannianSGD, momentum 0.9": (
            lambda *given, **more: geoopt.optim.RiemannianSGD(*given, momentum=0.9, **more),
            [c / steepest for c in (0.05, 0.1, 0.2, 0.4)],
        ),
        "RiemannianAdam": (geoopt.optim.RiemannianAdam, [1e-3, 3e-3, 1e-2, 3e-2]),
    }
    start = size(x0)

    def descend(kind: Callable[..., Any], step: float, most: int) -> tuple[int, float, float]:
        """Iterations, seconds and the relative gradient in the end."""
        x = geoopt.ManifoldParameter(torch.from_numpy(x0.copy()), manifold=manifold)
        optimizer = kind([x], lr=step)
        spent, left = 0.0, 1.0
        for k in range(1, most + 1):
            begun = time.process_time()
            with torch.no_grad():
                x.grad = H @ x - K
            optimizer.step()
            spent += time.process_time() - begun
            if k % 5 == 0:
                left = size(x.detach().numpy()) / start
                if not left >= 1e-6:
                    break
        return k, spent, left if np.isfinite(left) else np.inf

    for name, (kind, rates) in kinds.items():
        best = min(rates, key=lambda step, kind=kind: descend(kind, step, 200)[2])
        k, spent, left = descend(kind, best, 6000)
        result(
            f"geoopt {name}, lr {best:.2g}, best of {len(rates)}", k if left < 1e-6 else None, spent
        )


def main(*parts: str) -> None:
    with threadpool_limits(1):
        A, B = pencil(N, CONDITION, 0)
        given: dict[str, Callable[[], None]] = {
            "iterations": lambda: iterations(A, B),
            "answers": lambda: answers(A, B),
            "large": lambda: large(A, B),
            "procrustes": procrustes,
            "devices": devices,
        }
        for part in parts or [name for name in given if name != "devices"]:
            given[part]()


if __name__ == "__main__":
    main(*sys.argv[1:])
