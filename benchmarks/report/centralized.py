"""Row b: the seconds of the processor from the data to an answer, on one core.

The answer is a Riemannian gradient of 1e-6 of that at the start, unless the case says another;
pymanopt, geoopt and cdopt have the same start, objective and gradient. Eigenvalue problems have
``x^T B x = I`` by the change of variables y = U x, B = U^T U.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from decentorth import GSJOBCD, LBFGS, RGD, RSM, RSSM, ConjugateGradients, HyperbolicJacobi
from decentorth.api import Run, set_up
from decentorth.problems import (
    CCA,
    ICA,
    PCA,
    HEVPSettings,
    ODLSettings,
    Procrustes,
    RSRSettings,
    pencil,
)

from ..generalized import Quadratic, Reached, Unsolved, until
from .peers import FOLDER, Peers
from .rows import Case, Unmeasured, Works, printed, processor

TOLERANCE = 1e-6
SECONDS = {True: 20.0, False: 60.0}
"""The most processor seconds of a peer in another environment, quick or not."""
SUBGRADIENT_SECONDS = 5.0
"""The most processor seconds of pymanopt on a problem that is not smooth."""
SMOOTH = {
    "L-BFGS": LBFGS(retraction="cholesky-qr"),
    "conjugate gradients": ConjugateGradients(retraction="cholesky-qr"),
    "RGD": RGD(step_size="bb", retraction="cholesky-qr"),
}
Work = Callable[[], float]
Starts = Callable[[], tuple[Any, Any]]
"""A function from the data to an objective for pymanopt, with the start."""


def solved(
    make: Callable[[], Any],
    method: Any,
    reached: Callable[[Any, Any], bool] | None = None,
    most: int = 3000,
) -> Work:
    """The work of one of our methods from the data until ``reached(problem, state)``, by default
    until `TOLERANCE`."""

    def work() -> float:
        begun = time.process_time()
        problem = make()
        spent = time.process_time() - begun
        run = set_up(problem, method, comm="serial", seed=1)
        if reached is None:
            first = _size(run.problem, run.x0)
            k, seconds = until(
                run, lambda state: _size(run.problem, state.x) < TOLERANCE * first, 5, most
            )
        else:
            k, seconds = until(run, lambda state: reached(run.problem, state), 1, most)
        if k < 0:
            raise Unmeasured(f"not there after {most} iterations and {seconds:.1f} s")
        return spent + seconds

    return work


def _size(problem: Any, x: np.ndarray) -> float:
    g, known = problem.gradient(x), problem.constraint
    if not hasattr(known, "natural_gradient"):
        return float(np.linalg.norm(known.tangent(x, g)))
    z, image = known.natural_gradient(x, g)
    return float(np.sqrt((z * image).sum()))


def smooth(make: Callable[[], Any]) -> dict[str, Work]:
    """The works of our smooth methods."""
    return {name: solved(make, method) for name, method in SMOOTH.items()}


def start(problem: Any) -> np.ndarray:
    """Our methods' start."""
    found: np.ndarray = set_up(problem, RGD(), comm="serial", seed=1).x0[0]
    return found


class Objective:
    """A problem of ours for pymanopt: values, gradients, and an end where the value is enough or
    the seconds are over."""

    def __init__(self, problem: Any, enough: float = -np.inf, seconds: float = np.inf) -> None:
        self.problem, self.enough = problem, enough
        self.end = time.process_time() + seconds

    def value(self, x: np.ndarray) -> float:
        value = float(self.problem.value(x[None])[0])
        if value <= self.enough:
            raise Reached
        if time.process_time() > self.end:
            raise Unmeasured(
                f"not there in the time given; the objective is {value / self.enough - 1.0:.0e} "
                "above the answer's"
            )
        return value

    def pymanopt(self, manifold: Any) -> Any:
        import pymanopt

        make = pymanopt.function.numpy(manifold)
        return pymanopt.Problem(
            manifold,
            make(self.value),
            euclidean_gradient=make(lambda x: self.problem.gradient(x[None])[0]),
        )


class Correlations:
    """-tr(x^T M y) for pymanopt, the points being pairs."""

    def __init__(self, M: np.ndarray) -> None:
        self.M = M

    def pymanopt(self, manifold: Any) -> Any:
        import pymanopt

        make = pymanopt.function.numpy(manifold)
        return pymanopt.Problem(
            manifold,
            make(lambda x, y: -float((x * (self.M @ y)).sum())),
            euclidean_gradient=make(lambda x, y: (-self.M @ y, -self.M.T @ x)),
            euclidean_hessian=make(lambda x, y, u, v: (-self.M @ v, -self.M.T @ u)),
        )


def by_pymanopt(make: Starts, manifold: Any, optimizer: str, most: int = 3000) -> Work:
    """The work of pymanopt from the data to `TOLERANCE`, or to where the objective ends it."""
    import pymanopt.optimizers

    def work() -> float:
        begun = time.process_time()
        objective, x0 = make()
        problem = objective.pymanopt(manifold)
        spent = time.process_time() - begun
        gradient = problem.riemannian_gradient(x0)
        least = TOLERANCE * float(manifold.norm(x0, gradient))
        begun = time.process_time()
        run = getattr(pymanopt.optimizers, optimizer)(
            verbosity=0,
            min_gradient_norm=least,
            max_iterations=most,
            max_time=600,
            min_step_size=0.0,
        )
        try:
            found = run.run(problem, initial_point=x0)
        except Reached:
            return spent + time.process_time() - begun
        if not found.gradient_norm < least:
            raise Unmeasured(f"ends before the answer: {found.stopping_criterion}")
        return spent + time.process_time() - begun

    return work


SOLVERS = ("ConjugateGradient", "TrustRegions")


def elsewhere(
    make: Callable[[], tuple[Quadratic, np.ndarray]], quick: bool, peers: Peers
) -> dict[str, Work]:
    """The works of geoopt and cdopt on <x, H x> / 2 - <x, K>, the time of H and K included, where
    they are here."""

    def work(name: str, python: Path) -> float:
        begun = time.process_time()
        objective, x0 = make()
        spent = time.process_time() - begun
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "problem.npz")
            K = np.broadcast_to(objective.K, x0.shape)
            np.savez(file, H=objective.H, K=K, x0=x0, tolerance=TOLERANCE, seconds=SECONDS[quick])
            return spent + printed(python, FOLDER / f"run_{name}.py", file)()

    named = {
        "geoopt": "geoopt RiemannianSGD, momentum 0.9, best of 4 steps",
        "cdopt": "cdopt with SciPy's L-BFGS-B",
    }
    return {
        named[name]: partial(work, name, python)
        for name in named
        if isinstance(python := peers[name], Path)
    }


def procrustes(quick: bool, peers: Peers) -> Works:
    """Procrustes on St(500, 100)."""
    from pymanopt.manifolds import Stiefel

    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((2000, 500)), rng.standard_normal((100, 2000))
    x0 = start(Procrustes([A], [B]))

    def make() -> tuple[Quadratic, np.ndarray]:
        return Quadratic(2.0 * A.T @ A, 2.0 * A.T @ B.T), x0

    works = smooth(lambda: Procrustes([A], [B]))
    works |= {f"pymanopt {name}": by_pymanopt(make, Stiefel(500, 100), name) for name in SOLVERS}
    return works | elsewhere(make, quick, peers)


def gevp(quick: bool, peers: Peers) -> Works:
    """The largest eigenvalues of a pencil."""
    from pymanopt.manifolds import Grassmann, Stiefel

    C, D = pencil(1000, 100.0, 0)
    x0 = start(Unsolved(C, D, 100))

    def whitened() -> tuple[Quadratic, np.ndarray]:
        upper = scipy.linalg.cholesky(D)
        both = from_both_sides(upper, C, upper)
        return Quadratic(-(both + both.T) / 2, 0.0), upper @ x0

    works = smooth(lambda: Unsolved(C, D, 100))
    # on which each is faster
    for name, manifold in zip(SOLVERS, (Stiefel(1000, 100), Grassmann(1000, 100)), strict=True):
        works[f"pymanopt {name}, {type(manifold).__name__}"] = by_pymanopt(whitened, manifold, name)
    works["scipy eigh"] = processor(lambda: scipy.linalg.eigh(C, D, subset_by_index=[900, 999]))
    return works if quick else works | elsewhere(whitened, quick, peers)


def from_both_sides(left: np.ndarray, M: np.ndarray, right: np.ndarray) -> np.ndarray:
    """U^{-T} M V^{-1} for upper triangular U and V."""
    half = scipy.linalg.solve_triangular(left, M, trans=1)
    found: np.ndarray = scipy.linalg.solve_triangular(right, half.T, trans=1).T
    return found


def pca(quick: bool, peers: Peers) -> Works:
    """Ten components of 10,000 samples."""
    from pymanopt.manifolds import Grassmann
    from sklearn.decomposition import PCA as SklearnPCA

    X = np.random.default_rng(0).standard_normal((10_000, 784)) * 0.98 ** np.arange(784)
    X -= X.mean(0)
    x0 = start(PCA([X], 10))

    def make() -> tuple[Quadratic, np.ndarray]:
        return Quadratic(-(X.T @ X) / len(X), 0.0), x0

    works = smooth(lambda: PCA([X], 10))
    works |= {
        f"pymanopt {name}, Grassmann": by_pymanopt(make, Grassmann(784, 10), name)
        for name in SOLVERS
    }
    for solver in ("covariance_eigh", "randomized"):
        works[f"scikit-learn {solver}"] = processor(
            partial(SklearnPCA(10, svd_solver=solver).fit, X)
        )
    return works if quick else works | elsewhere(make, quick, peers)


def views() -> tuple[np.ndarray, np.ndarray]:
    """5,000 samples of two views of 200 columns that have ten common factors."""
    rng = np.random.default_rng(0)
    common = rng.standard_normal((5000, 10)) * 0.9 ** np.arange(10)
    first, second = (
        common @ rng.standard_normal((10, 200)) + 3.0 * rng.standard_normal((5000, 200))
        for _ in range(2)
    )
    return first - first.mean(0), second - second.mean(0)


def cca(quick: bool, peers: Peers) -> Works:
    """Ten pairs of canonical directions."""
    from pymanopt.manifolds import Product, Stiefel
    from sklearn.cross_decomposition import CCA as SklearnCCA

    A, B = views()
    problem = CCA([A], [B], 10)
    first, second = problem.constraint.split(start(problem))

    def whitened() -> tuple[Any, ...]:
        upper = [scipy.linalg.cholesky(view.T @ view / len(view)) for view in (A, B)]
        return *upper, from_both_sides(upper[0], A.T @ B / len(A), upper[1])

    def make() -> tuple[Correlations, list[np.ndarray]]:
        left, right, M = whitened()
        return Correlations(M), [left @ first, right @ second]

    def directly() -> None:
        left, right, M = whitened()
        u, _, vt = scipy.linalg.svd(M)
        (
            scipy.linalg.solve_triangular(left, u[:, :10]),
            scipy.linalg.solve_triangular(right, vt[:10].T),
        )

    def by_scikit_learn() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of too few iterations
            SklearnCCA(10, scale=False, max_iter=10_000).fit(A, B)

    works = smooth(lambda: CCA([A], [B], 10))
    manifold = Product([Stiefel(200, 10), Stiefel(200, 10)])
    works |= {f"pymanopt {name}": by_pymanopt(make, manifold, name) for name in SOLVERS}
    return works | {
        "scipy svd": processor(directly),
        "scikit-learn CCA, one pair after the other": processor(by_scikit_learn),
    }


def ica(quick: bool, peers: Peers) -> Works:
    """Twenty sources from 10,000 whitened samples, with log cosh."""
    from pymanopt.manifolds import Stiefel
    from sklearn.decomposition import FastICA

    rng = np.random.default_rng(0)
    mixed = rng.laplace(size=(10_000, 20)) @ rng.standard_normal((20, 20))
    mixed -= mixed.mean(0)
    u, _, vt = np.linalg.svd(mixed, full_matrices=False)
    Z = np.sqrt(len(mixed)) * u @ vt
    x0 = start(ICA([Z]))

    def by_scikit_learn() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            # the tolerance is of a squared angle
            FastICA(whiten=False, w_init=x0.T, tol=TOLERANCE**2, max_iter=1000).fit(Z)

    works = smooth(lambda: ICA([Z]))
    for name in SOLVERS[:1]:
        works[f"pymanopt {name}"] = by_pymanopt(
            lambda: (Objective(ICA([Z])), x0), Stiefel(20, 20), name
        )
    return works | {"scikit-learn FastICA, parallel": processor(by_scikit_learn)}


def nonsmooth(
    problem: Callable[[], Any], answer: Callable[[Any], np.ndarray], share: float, methods: Any
) -> Works:
    """Our subgradient methods, and pymanopt with subgradients, until the objective is ``share``
    above that of the answer."""
    from pymanopt.manifolds import Stiefel

    made = set_up(problem(), methods["RSM"], comm="serial", seed=0)
    enough = (1.0 + share) * float(made.problem.value(answer(made.problem)[None])[0])

    def reached(problem: Any, state: Any) -> bool:
        return bool(problem.value(state.x)[0] <= enough)

    works = {name: solved(problem, method, reached) for name, method in methods.items()}
    for name in ("ConjugateGradient", "SteepestDescent"):
        make = partial(_limited, made, enough)
        works[f"pymanopt {name}, subgradients"] = by_pymanopt(
            make, Stiefel(*made.x0.shape[1:]), name, 100_000
        )
    return works


def _limited(run: Run, enough: float) -> tuple[Objective, np.ndarray]:
    return Objective(run.problem, enough, SUBGRADIENT_SECONDS), run.x0[0]


def rsr(quick: bool, peers: Peers) -> Works:
    """A subspace of dimension 10 in R^100 from 1,500 inliers and 3,500 outliers."""

    def complement(problem: Any) -> np.ndarray:
        found: np.ndarray = scipy.linalg.null_space(problem.subspace.T)
        return found

    methods = {"RSM": RSM(), "RSSM, 3 blocks": RSSM(blocks=3)}
    return nonsmooth(lambda: RSRSettings().problem(1, 0), complement, 1e-3, methods)


def odl(quick: bool, peers: Peers) -> Works:
    """An orthogonal dictionary of 60 atoms from 4,648 samples."""
    methods = {
        "RSM": RSM(step_size="geometric:initial=8e-3,ratio=0.84"),
        "RSSM, 3 blocks": RSSM(
            blocks=3, step_size="geometric:initial=4e-3,ratio=0.94", block_partition="redraw"
        ),
    }
    return nonsmooth(
        lambda: ODLSettings().problem(1, 0), lambda problem: problem.dictionary, 1e-3, methods
    )


def hevp(quick: bool, peers: Peers) -> Works:
    """The hyperbolic eigenvalue problem of order 100, condition 1000, to a gap of 1e-3;
    `scipy.linalg.eigh` is exact."""
    problem = set_up(HEVPSettings(dimension=100).problem(1, 0), GSJOBCD(), comm="serial").problem
    C, signs = problem.trace_form()[0] / 2.0, problem.constraint.signs

    def directly() -> None:
        values, x = scipy.linalg.eigh(np.diag(signs), C)
        x /= np.sqrt(np.abs(values))

    def reached(problem: Any, state: Any) -> bool:
        return bool(problem.error(state.x[0]) < 1e-3)

    methods = {"GS-JOBCD": GSJOBCD(), "hyperbolic Jacobi": HyperbolicJacobi()}
    works = {
        name: solved(lambda: problem, method, reached, 100_000) for name, method in methods.items()
    }
    return works | {"scipy eigh": processor(directly)}


CASES = {
    "Procrustes, St(500, 100)": (procrustes, 3, 1.0),
    "GEVP, 1000 x 100, condition 100": (gevp, 3, 1.0),
    "PCA, 10,000 x 784, 10 components": (pca, 3, 1.0),
    "CCA, 5,000 x (200 + 200), 10 pairs": (cca, 3, 1.0),
    "ICA, 10,000 x 20": (ica, 3, 1.0),
    "RSR, 5,000 x 100, objective within 1e-3": (rsr, 1, 1.0),
    "ODL, 4,648 x 60, objective within 1e-3": (odl, 1, 1.0),
    "HEVP, n = 100, gap 1e-3": (hevp, 2, None),
}
"""Their works, the number of ours that are compared, and the goal against pymanopt."""


def cases(quick: bool, peers: Peers) -> list[Case]:
    """The section's cases."""
    blocks = 1 if quick else 3
    return [
        Case(name, partial(make, quick, peers), blocks, own, goal, "pymanopt")
        for name, (make, own, goal) in CASES.items()
    ]
