"""On every rank: an estimator of a rank's own samples in common units has the bits of that of all samples."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpi4py import MPI

from decentorth.estimators import ICA, PCA

if __name__ == "__main__":
    sites = {name: 1e3 + np.random.default_rng(i).laplace(size=(400 + i, 3)) * (1e-3, 2, 3e3) for i, name in enumerate("abc")}
    sites["b"][:5, 2] = np.nan
    rank = MPI.COMM_WORLD.rank
    own: list[Any] = [None, None, None]
    own[rank] = sites["abc"[rank]]
    units: dict[str, Any] = {"scale": True, "missing": "mean", "random_state": 0}
    for estimator in (PCA(2, tol=1e-8, **units), ICA(3, tol=1e-4, **units)):
        whole = estimator.fit_agents(sites, "ring").components_
        assert estimator.filled_ == (0, 5, 0)
        np.testing.assert_array_equal(estimator.fit_agents(own, "ring").components_, whole)
