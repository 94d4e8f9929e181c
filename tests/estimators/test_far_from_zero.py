"""Second moments do not depend on an offset of the samples."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_iris

from decentorth.api import set_up
from decentorth.estimators import CCA, ICA, LDA, PCA, MultiviewCCA
from decentorth.families.generalized.problems.lda import scatter_factors, scatters
from decentorth.problems import LDASettings
from decentorth.protocols import Array

SEED: dict[str, Any] = {"random_state": 0, "tol": 1e-10}
samples, kinds = load_iris(return_X_y=True)
# multiples of 2^-10, which stay exact beside an offset of 1e8
X = np.round(samples * 1024.0) / 1024.0
OFFSETS = (1e5, 1e6, 1e7, 1e8)


def thirds(rows: Array) -> list[Array]:
    return [rows[i::3] for i in range(3)]


def pairs(first: Array, second: Array) -> list[tuple[Array, Array]]:
    return list(zip(thirds(first), thirds(second), strict=True))


def joined(pca: PCA) -> Array:
    return np.append(pca.explained_variance_, pca.noise_variance_)


MOMENTS: dict[str, Callable[[Array], Any]] = {
    "pca": lambda a: joined(PCA(2).fit(a)),
    "pca, all components": lambda a: PCA(4).fit(a).explained_variance_,
    "pca, few samples": lambda a: PCA(2).fit(a[::5]).explained_variance_,
    "pca, a share": lambda a: PCA(0.9).fit(a).explained_variance_,
    "pca, sparse": lambda a: joined(PCA(2).fit(csr_array(a))),
    "pca, coordinates": lambda a: PCA(2).fit(a).transform(a),
    "pca, likelihood": lambda a: PCA(2).fit(a).score(a),
    "pca, scaled": lambda a: PCA(2, scale=True).fit(a).explained_variance_,
    "pca, agents": lambda a: PCA(2, **SEED).fit_agents(thirds(a), "ring").explained_variance_,
    "pca, batches": lambda a: PCA(4).partial_fit(a[:70]).partial_fit(a[70:]).explained_variance_,
    "lda": lambda a: LDA(2, **SEED).fit(a, kinds).eigenvalues_,
    "lda, agents": lambda a: LDA(2, **SEED).fit_agents(pairs(a, kinds), "ring").eigenvalues_,
    "scatters": lambda a: np.stack(scatters(a, kinds)),
    "factors of scatters": lambda a: [one.T @ one for one in scatter_factors(a, kinds)],
    "cca": lambda a: CCA(2, **SEED).fit(a[:, :2], a[:, 2:]).correlations_,
    "cca, agents": lambda a: (
        CCA(2, **SEED).fit_agents(pairs(a[:, :2], a[:, 2:]), "ring").correlations_
    ),
    "cca, batches": lambda a: (
        CCA(2).partial_fit(a[:70, :2], a[:70, 2:]).partial_fit(a[70:, :2], a[70:, 2:]).correlations_
    ),
    "multiview": lambda a: MultiviewCCA(2, views=(2, 2), **SEED).fit(a).eigenvalues_,
    "ica": lambda a: (ICA(random_state=0).fit(a).mixing_ ** 2).sum(0),
}


@pytest.mark.filterwarnings("ignore:ICA cannot separate")
@pytest.mark.parametrize("moments", MOMENTS.values(), ids=MOMENTS)
def test_moments_are_those_of_samples_near_zero(moments: Callable[[Array], Any]) -> None:
    near = moments(X)
    for offset in OFFSETS:
        # The mean of the first batch is rounded to 1e-8 at an offset of 1e8.
        np.testing.assert_allclose(moments(X + offset), near, rtol=1e-8, atol=2e-8)


@pytest.mark.parametrize("n", [1, 3])
def test_scatters_of_files_are_those_near_zero(n: int, tmp_path: Path) -> None:
    found = []
    for offset in (0.0, 1e8):
        np.save(tmp_path / "samples.npy", X + offset)
        np.save(tmp_path / "kinds.npy", kinds)
        settings = LDASettings(
            rank=2, data=f"{tmp_path}/samples.npy", labels=f"{tmp_path}/kinds.npy"
        )
        problem = settings.problem(n, seed=0)
        run = set_up(problem, "rgd" if n == 1 else "cdadt", None if n == 1 else "ring")
        found.append(run.problem.gradient(np.stack([np.eye(4)[:, :2]] * n)))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_sparse_columns_with_zeros_keep_their_zeros() -> None:
    """Beside a column without zeros, from whose samples the mean is subtracted."""
    rows = X.copy()
    rows[::3, 0] = rows[::4, 1] = 0.0
    rows[:, 2] += 1e8
    dense, sparse = PCA(3).fit(rows), PCA(3).fit(csr_array(rows))
    np.testing.assert_allclose(sparse.explained_variance_, dense.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(sparse.mean_, rows.mean(0), rtol=1e-14)
    scaled = PCA(3, scale=True).fit(rows)
    np.testing.assert_allclose(scaled.transform(csr_array(rows)), scaled.transform(rows), atol=1e-6)
