"""Canonical correlations of several views against SciPy's eigenvectors of the pooled pencil."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.linalg

from decentorth import solve
from decentorth.api import set_up
from decentorth.data import digits
from decentorth.problems import CCA, MAXVAR, MAXVARSettings, subspace_distance
from decentorth.protocols import Array
from decentorth.stopping import Consensus, GradientNorm
from tests.support.marks import first_is_quick


def pencil(X: Array, views: tuple[int, ...], ridge: float) -> tuple[Array, Array]:
    """The covariance of all columns, and its blocks with the ridge."""
    C = X.T @ X / len(X)
    parts = [slice(end - d, end) for d, end in zip(views, np.cumsum(views), strict=True)]
    blocks = [C[part, part] + ridge * np.diagonal(C)[part].mean() * np.eye(d) for part, d in zip(parts, views, strict=True)]
    return C, scipy.linalg.block_diag(*blocks)


@pytest.mark.parametrize("method", first_is_quick(["cdadt", "generalized_drfgt"]))
def test_agents_find_the_eigenvectors_of_the_pooled_pencil(method: str) -> None:
    """Of four bands of the digits, each agent seeing few digits, to 1e-8 of SciPy's."""
    X, _ = digits()
    C, D = pencil(X - X.mean(0), (16, 16, 16, 16), 1e-2)
    rule = GradientNorm(1e-9) & Consensus(1e-9)
    result = solve(MAXVARSettings(partition="by-label").problem(5, 0), method, "ring", iterations=10_000, stopping=rule)
    assert result.converged
    values, vectors = scipy.linalg.eigh(C, D)
    root = np.linalg.cholesky(D).T
    for x in result.x:
        assert subspace_distance(root @ x, root @ vectors[:, :-4:-1]) < 1e-8
        np.testing.assert_allclose(np.linalg.eigvalsh(x.T @ C @ x)[::-1], values[:-4:-1], rtol=1e-10)
    assert [part.shape for part in result.unpacked().values()] == [(5, 16, 3)] * 4


def test_two_views_have_one_plus_their_canonical_correlations() -> None:
    rng = np.random.default_rng(0)
    A, B = rng.standard_normal((5, 30, 3)), rng.standard_normal((5, 30, 4))
    B[..., :3] += A
    whole: Any = MAXVAR(np.concatenate((A, B), axis=2), (3, 4), 3)
    C, D = -whole.hessian().mean(0), whole.constraint.product(np.eye(7)[None])[0]
    np.testing.assert_allclose(scipy.linalg.eigvalsh(C, D)[:-4:-1], 1.0 + CCA(A, B, 3).optimum.correlations, rtol=1e-12)


def test_sites_bring_their_columns_in_any_order(tmp_path: Path) -> None:
    X, _ = digits()
    X = X[:200, 18:24]
    for site, part in (("north", slice(0, 70)), ("south", slice(70, 200))):
        frame = pd.DataFrame(X[part], columns=[*"abcdef"])
        frame[frame.columns[:: 1 if site == "north" else -1]].to_csv(tmp_path / f"{site}.csv", index=False)
    settings = MAXVARSettings(data=str(tmp_path), columns=("d", "a", "b"), views=(1, 2), rank=1, center=False, ridge=0.5)
    problem: Any = set_up(settings.problem(2, 0), "cdadt", "complete").problem
    C, D = pencil(X[:, [3, 0, 1]], (1, 2), 0.5)
    np.testing.assert_allclose(-problem.hessian().mean(0), C, rtol=1e-12)
    np.testing.assert_allclose(problem.constraint.product(np.eye(3)[None])[0], D, rtol=1e-12)


@pytest.mark.parametrize(("views", "given"), [((3, 3), "3, 3"), ((), "none"), ((8, -1), "8, -1")])
def test_views_that_are_not_those_of_the_columns_are_refused(views: tuple[int, ...], given: str) -> None:
    with pytest.raises(ValueError, match=f"views must be the columns of each view, 7 in all, got {given}"):
        MAXVAR(np.ones((2, 5, 7)), views, 1)
