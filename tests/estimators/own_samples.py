"""On every rank: estimators of a rank's own samples find the bits of those of all samples, or fail on all ranks together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

from decentorth.estimators import ICA, PCA, RobustSubspace

if __name__ == "__main__":
    sites = {name: np.random.default_rng(i).laplace(size=(400 + i, 3)) * (1, 2, 3) for i, name in enumerate("abc")}
    rank = MPI.COMM_WORLD.rank
    own: list[Any] = [None, None, None]
    own[rank] = sites["abc"[rank]]
    for estimator in (PCA(2, tol=1e-10, random_state=0), ICA(3, tol=1e-4, random_state=0)):
        whole = estimator.fit_agents(sites, "ring").components_
        assert estimator.sites_ == ("a", "b", "c")
        np.testing.assert_array_equal(estimator.fit_agents(own, "ring").components_, whole)
    with pytest.raises(TypeError, match="RobustSubspace needs the samples of every agent"):
        RobustSubspace(1, random_state=0).fit_agents(own, "ring")
    for wrong in (None, own[rank][:, :2], own[rank] * np.nan):
        with pytest.raises(ValueError):  # noqa: PT011  # the others' message names the rank
            PCA(2, random_state=0).fit_agents([wrong if i == rank == 1 else one for i, one in enumerate(own)], "ring")
