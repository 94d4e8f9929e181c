"""Linear discriminant analysis as a generalized eigenvalue problem, against scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from decentorth import RGD, solve
from decentorth.api import set_up
from decentorth.data import Labels, digits
from decentorth.problems import GEVP, LDASettings, scatters, subspace_distance
from decentorth.protocols import Array
from decentorth.stopping import Error


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


def test_files_with_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), rng.integers(0, 3, 40)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y)
    settings = LDASettings(data=str(tmp_path / "X.npy"), labels=str(tmp_path / "y.npy"), ridge=0.0)
    problem: Any = set_up(settings.problem(1, 0), RGD()).problem
    assert problem.shape == (5, 2)
    np.testing.assert_allclose(-problem.hessian()[0], scatters(X, y)[0], atol=1e-15)
    with pytest.raises(ValueError, match="brings no labels: give a file with one for each sample"):
        set_up(LDASettings(data=str(tmp_path / "X.npy")).problem(1, 0), RGD())
    with pytest.raises(ValueError, match="has 1797 samples, but there are 40 labels"):
        set_up(LDASettings(labels=str(tmp_path / "y.npy")).problem(1, 0), RGD())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LDASettings().problem(2, 0), r"n_agents must be 1, got 2"),
        (lambda: set_up(LDASettings(rank=10).problem(1, 0), RGD()), r"10 classes have at most 9 .*, got rank 10"),
        (lambda: set_up(LDASettings(ridge=0.0).problem(1, 0), RGD()), "B must be positive definite; .* add a ridge"),
    ],
)
def test_errors(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
