"""Estimators over agents beside scikit-learn's and SciPy's answers for all samples in one place.

    python benchmarks/estimators.py [answers] [streams] [large]

answers: the largest difference of the directions, five agents on a ring. streams: rounds of `PCA`
from the last answer, as a share of those from random starts, over ten windows of fresh samples or
ten batches. large: processor seconds of `PCA.fit` for 2000 x 2000 samples beside scikit-learn's
default, in turn, with one BLAS thread, and the distance of both subspaces from that of LAPACK.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import scipy.linalg
import sklearn.cross_decomposition
import sklearn.decomposition
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import topologies as tp
from decentorth.estimators import CCA, ICA, LDA, PCA, MultiviewCCA
from decentorth.protocols import Array

RING = tp.metropolis_weights(tp.ring(5))


def parts(*arrays: Array) -> list[tuple[Array, ...]]:
    """Five agents' rows."""
    return [tuple(a[i::5] for a in arrays) for i in range(5)]


def apart(found: Array, expected: Array) -> float:
    """The largest difference of the rows, up to signs."""
    turned = found * np.sign((found * expected).sum(1))[:, None]
    return float(np.abs(turned - expected).max())


def answers() -> None:
    X, _ = load_digits(return_X_y=True)
    judge = sklearn.decomposition.PCA(5, svd_solver="full").fit(X)
    found = PCA(5, tol=1e-11, random_state=0).fit_agents([x for (x,) in parts(X)], RING)
    print(f"PCA of the digits{apart(found.components_, judge.components_):41.1e}")

    rng = np.random.default_rng(0)
    kinds, numbers = rng.integers(0, 4, 600), rng.standard_normal((600, 2))
    A = np.column_stack((np.eye(4)[kinds], numbers, numbers.sum(1)))
    B = np.column_stack(
        (numbers[:, 0] + rng.standard_normal(600), kinds + rng.standard_normal(600))
    )
    pairs = CCA(2, tol=1e-10, random_state=0).fit_agents(parts(A, B), RING)
    scores = sklearn.cross_decomposition.CCA(2, max_iter=5000, tol=1e-14).fit(A, B).transform(A, B)
    expected = [np.corrcoef(u, v)[0, 1] for u, v in zip(scores[0].T, scores[1].T, strict=True)]
    print(
        f"correlations of one-hot columns, CCA{np.abs(pairs.correlations_ - expected).max():22.1e}"
    )

    for name, load in (("wine", load_wine), ("iris", load_iris)):
        X, y = load(return_X_y=True)
        directions = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :2].T
        for method in ("generalized_drfgt", "cdadt"):
            found = LDA(algorithm=method, tol=1e-10, random_state=0).fit_agents(parts(X, y), RING)
            print(f"{f'LDA of {name}, {method}':35}{apart(found.components_, directions):23.1e}")

    X, views = load_wine(return_X_y=True)[0], (4, 4, 5)
    C, cuts = np.cov(X.T, bias=True), (slice(0, 4), slice(4, 8), slice(8, 13))
    vectors = scipy.linalg.eigh(C, scipy.linalg.block_diag(*[C[cut, cut] for cut in cuts]))[1]
    for method in ("generalized_drfgt", "cdadt"):
        found = MultiviewCCA(
            2, views=views, algorithm=method, tol=1e-10, random_state=0
        ).fit_agents([x for (x,) in parts(X)], RING)
        difference = apart(found.components_ * X.std(0), vectors[:, :-3:-1].T * X.std(0))
        print(f"{f'three views of wine, {method}':39}{difference:19.1e}")

    heavy = (
        rng.laplace(size=(40_000, 3)),
        rng.exponential(size=(40_000, 1)),
        rng.standard_t(5, (40_000, 1)),
    )
    light = (
        rng.uniform(size=(40_000, 3)),
        np.sign(rng.standard_normal((40_000, 1))),
        np.sin(6.3 * rng.random((40_000, 1))),
    )
    sources = np.concatenate((*heavy, *light), axis=1)
    mixed = sources @ rng.standard_normal((10, 10))
    found = ICA(random_state=0).fit_agents([x for (x,) in parts(mixed)], RING)
    match = np.abs(np.corrcoef(found.transform(mixed).T, sources.T))[:10, 10:]
    print(f"least |correlation| of ten sources, ICA{match.max(0).min():19.5f}")


def windows(seed: int, speed: float) -> Iterator[list[Array]]:
    """Eleven windows of 500 fresh samples in 12 dimensions of each of ten agents, each turned by
    ``speed``."""
    rng = np.random.default_rng(seed)
    basis, turn = np.linalg.qr(rng.standard_normal((12, 12)))[0], rng.standard_normal((12, 12))
    turn -= turn.T.copy()
    turn /= np.linalg.norm(turn, 2)
    for window in range(11):
        axes = scipy.linalg.expm(speed * window * turn) @ basis
        yield [(rng.standard_normal((500, 12)) * 0.8 ** np.arange(12)) @ axes.T for _ in range(10)]


def share(seed: int, tol: float, batches: bool) -> float:
    """The rounds from the last answer over those from random starts."""
    W, stream, seen = (
        tp.metropolis_weights(tp.ring(10)),
        PCA(3, tol=tol, random_state=0),
        [np.empty((0, 12))] * 10,
    )
    rounds = np.zeros(2)
    for number, agents in enumerate(windows(seed, 0.0 if batches else 0.003)):
        seen = (
            [np.concatenate(both) for both in zip(seen, agents, strict=True)] if batches else agents
        )
        cold = PCA(3, tol=tol, random_state=0).fit_agents(seen, W)
        warm = (
            stream.partial_fit_agents(agents, W)
            if batches
            else stream.fit_agents(agents, W, warm_start=number > 0)
        )
        if number > 0:
            rounds += warm.communication_["rounds"], cold.communication_["rounds"]
    return float(rounds[0] / rounds[1])


def streams() -> None:
    for batches in (False, True):
        for tol in (1e-4, 1e-6, 1e-8):
            shares = ", ".join(f"{share(seed, tol, batches):.2f}" for seed in (0, 1, 7))
            print(f"{'batches' if batches else 'windows'}, tol {tol:g}: {shares} of the rounds")


def large() -> None:
    rng = np.random.default_rng(0)
    turn = np.linalg.qr(rng.standard_normal((2000, 2000)))[0]
    spectra = {
        "falls by 1 %": 0.99 ** np.arange(2000),
        "1 / sqrt(k)": np.arange(1, 2001.0) ** -0.5,
        "white": np.ones(2000),
    }
    for name, deviations in spectra.items():
        X = (rng.standard_normal((2000, 2000)) * deviations) @ turn
        exact = sklearn.decomposition.PCA(200, svd_solver="covariance_eigh").fit(X).components_
        for k in (2, 10, 50, 200):
            makes: Sequence[Callable[..., object]] = (PCA, sklearn.decomposition.PCA)
            seconds, away = np.empty((2, 3)), []
            for turn_number in range(3):
                for which, make in enumerate(makes):
                    start = time.process_time()
                    found = make(k, random_state=0).fit(X)  # type: ignore[attr-defined]  # an estimator
                    seconds[which, turn_number] = time.process_time() - start
                    if turn_number == 0:
                        rest = found.components_ - found.components_ @ exact[:k].T @ exact[:k]
                        away.append(float(np.linalg.norm(rest)))
            ours, theirs = np.median(seconds, axis=1)
            times = f"{ours:.2f} s, scikit-learn's {theirs:.2f} s ({ours / theirs:.1f})"
            print(f"{name:13}{k:4} components: {times}; off by {away[0]:.0e} and {away[1]:.0e}")


def main() -> None:
    warnings.simplefilter("error")
    for name in sys.argv[1:] or ("answers", "streams", "large"):
        {"answers": answers, "streams": streams, "large": large}[name]()


if __name__ == "__main__":
    main()
