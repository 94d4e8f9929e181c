"""Linear discriminant analysis as a generalized eigenvalue problem, against scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
from sklearn.datasets import load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from decentorth import RGD, solve
from decentorth.api import set_up
from decentorth.data import Labels, digits
from decentorth.problems import GEVP, LDASettings, scatters, subspace_distance
from decentorth.protocols import Array
from decentorth.stopping import Consensus, Error, GradientNorm


def informative() -> tuple[Array, Labels]:
    """The pixels of the digits that differ within some class, and the classes."""
    X, y = digits()
    varies = np.diag(scatters(X, y)[1]) > 0
    return np.ascontiguousarray(X[:, varies]), y


def test_scatters_are_the_definitions_and_add_up_to_the_covariance() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), np.array(["a", "b", "c"])[rng.integers(0, 3, 30)]
    between, within = scatters(X, y)
    expected = sum(np.cov(X[y == c].T, bias=True) * np.mean(y == c) for c in "abc")
    np.testing.assert_allclose(within, expected, atol=1e-14)
    np.testing.assert_allclose(between + within, np.cov(X.T, bias=True), atol=1e-14)
    assert np.linalg.matrix_rank(between, tol=1e-10) == 2


def test_the_directions_are_scikit_learns() -> None:
    """The same subspace, the same share of variance between the classes, and the same transform up to a rotation."""
    X, y = informative()
    judge = LinearDiscriminantAnalysis(solver="eigen", n_components=9).fit(X, y)
    between, within = scatters(X, y)
    result = solve(GEVP(between, within, 9), RGD(step_size="bb"), iterations=2000, stopping=Error(1e-9))
    assert result.converged
    x = result.x[0]
    root = np.linalg.cholesky(within).T
    assert subspace_distance(root @ x, np.linalg.qr(root @ judge.scalings_[:, :9])[0]) < 1e-8
    values = np.linalg.eigvalsh(x.T @ between @ x)[::-1]
    np.testing.assert_allclose(values / values.sum(), judge.explained_variance_ratio_, rtol=1e-8)
    ours, theirs = (X - X.mean(0)) @ x, judge.transform(X) - judge.transform(X).mean(0)
    turn = np.linalg.lstsq(theirs, ours, rcond=None)[0]
    np.testing.assert_allclose(ours, theirs @ turn, atol=1e-7 * np.abs(ours).max())
    np.testing.assert_allclose(turn.T @ turn, np.eye(9), atol=1e-7)


def test_the_ridge_is_relative_to_the_mean_eigenvalue() -> None:
    problem = set_up(LDASettings(ridge=0.25).problem(1, 0), RGD()).problem
    X, y = digits()
    within = scatters(X, y)[1]
    ridge = 0.25 * np.linalg.eigvalsh(within).mean()
    np.testing.assert_allclose(
        problem.constraint.product(np.eye(64)[None, :, :9])[0], (within + ridge * np.eye(64))[:, :9], atol=1e-10
    )
    assert problem.shape == (64, 9)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cdadt", "generalized_drfgt"])
def test_agents_find_the_directions_of_the_pooled_scatters(method: str) -> None:
    """Their shares of both scatters have the pooled ones as means, and the answer is SciPy's."""
    X, y = digits()
    between, within = scatters(X, y)
    within += 1e-2 * np.trace(within) / 64 * np.eye(64)
    rule = GradientNorm(1e-10) & Consensus(1e-10)
    result = solve(LDASettings(partition="by-label").problem(5, 0), method, "ring", iterations=10_000, stopping=rule)
    assert result.converged
    np.testing.assert_allclose(result.problem.constraint.product(np.eye(64)[None])[0], within, atol=1e-12)
    values, vectors = scipy.linalg.eigh(between, within)
    root = np.linalg.cholesky(within).T
    for x in result.x:
        assert subspace_distance(root @ x, root @ vectors[:, :-10:-1]) < 1e-8
        np.testing.assert_allclose(np.linalg.eigvalsh(x.T @ between @ x)[::-1], values[:-10:-1], rtol=1e-8)


def test_sites_bring_their_labels(tmp_path: Path) -> None:
    """Files with another order of columns and other classes at each site: the pooled scatters, whatever the division."""
    X, y = load_wine(return_X_y=True)
    for site, part in (("north", slice(0, 70)), ("south", slice(70, 178))):
        frame = pd.DataFrame(X[part], columns=[f"c{i:02}" for i in range(13)]).assign(
            kind=np.array(["red", "rose", "white"])[y[part]]
        )
        frame[frame.columns[:: 1 if site == "north" else -1]].to_csv(tmp_path / f"{site}.csv", index=False)
    settings = LDASettings(data=str(tmp_path), label_column="kind")
    problem: Any = set_up(settings.problem(2, 0), "cdadt", "complete").problem
    between, within = scatters(X, y)
    ridge = 1e-2 * np.trace(within) / 13
    np.testing.assert_allclose(-problem.hessian().mean(0), between, rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(problem.constraint.product(np.eye(13)[None])[0], within + ridge * np.eye(13), rtol=1e-10, atol=1e-9)
    with pytest.raises(ValueError, match=r"labels are of one file, not of sites: give label_column='NAME'"):
        set_up(LDASettings(data=str(tmp_path), label_column="kind", labels="y.npy").problem(2, 0), "cdadt", "complete")


def test_files_with_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), rng.integers(0, 3, 40)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    settings = LDASettings(data=str(tmp_path / "X.npy"), labels=str(tmp_path / "y.npy"), ridge=0.0)
    problem: Any = set_up(settings.problem(1, 0), RGD()).problem
    assert problem.shape == (5, 2)
    np.testing.assert_allclose(-problem.hessian()[0], scatters(X, y)[0], atol=1e-15)
    with pytest.raises(ValueError, match="brings no labels: give labels"):
        set_up(LDASettings(data=str(tmp_path / "X.npy")).problem(1, 0), RGD())
    with pytest.raises(ValueError, match="has 1797 samples, but there are 40 labels"):
        set_up(LDASettings(labels=str(tmp_path / "y.npy")).problem(1, 0), RGD())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: set_up(LDASettings(rank=10).problem(1, 0), RGD()), r"10 classes have at most 9 .*, got rank 10"),
        (lambda: set_up(LDASettings(ridge=0.0).problem(1, 0), RGD()), "B must be positive definite; .* add a ridge"),
    ],
)
def test_errors(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
