"""On every rank: estimators of a rank's own samples find the bits of those of all samples, or fail
on all ranks together."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from mpi4py import MPI

import decentorth as do
from decentorth.estimators import (
    CCA,
    ICA,
    LDA,
    PCA,
    MultiviewCCA,
    OrthogonalDictionary,
    RobustSubspace,
)
from decentorth.protocols import Array

FOUND: dict[Any, str] = {CCA: "x_weights_", ICA: "components_", LDA: "components_"}


def matrices(rng: np.random.Generator) -> tuple[Array, Array]:
    """A pair of a site, of which only the sums over sites make an eigenvalue problem with a
    positive definite B."""
    a, b = rng.standard_normal((2, 2, 4))
    return a.T @ a, b.T @ b


def same_bits(estimator: Any, sites: dict[str, Any], rank: int, **more: Any) -> None:
    """A fit to all sites has the components of those to a rank's own, alone or in a list."""
    name = FOUND.get(type(estimator), "components_")
    whole = getattr(estimator.fit_agents(sites, "ring", **more), name)
    assert estimator.sites_ == ("a", "b", "c")
    mine = list(sites.values())[rank]
    for given in ([mine if i == rank else None for i in range(3)], mine):
        np.testing.assert_array_equal(
            getattr(estimator.fit_agents(given, "ring", **more), name), whole
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # few iterations are enough here
    rank = MPI.COMM_WORLD.rank
    sites: dict[str, Any] = {
        name: np.random.default_rng(i).laplace(size=(400 + i, 3)) * (1, 2, 3)
        for i, name in enumerate("abc")
    }
    brief: dict[str, Any] = {"random_state": 0, "max_iter": 60}
    mine = sites["abc"[rank]]
    for estimator in (PCA(2, **brief), ICA(3, **brief), MultiviewCCA(1, views=(2, 1), **brief)):
        same_bits(estimator, sites, rank)
    gaps = {name: 1e3 + x * (1e-3, 1, 1e3) for name, x in sites.items()}
    gaps["b"][:5, 2] = np.nan
    for estimator in (PCA(2, **brief), ICA(3, **brief)):
        same_bits(estimator.set_params(scale=True, missing="mean"), gaps, rank)
        assert estimator.filled_ == (0, 5, 0)
    for estimator in (RobustSubspace(1, **brief), OrthogonalDictionary(**brief)):
        same_bits(estimator, sites, rank)
    streams = [
        PCA(2, **brief).partial_fit_agents(sites, "ring").partial_fit_agents(given, "ring")
        for given in (sites, mine)
    ]
    np.testing.assert_array_equal(streams[0].components_, streams[1].components_)
    again = [stream.partial_fit_agents(sites, "ring") for stream in streams]
    np.testing.assert_array_equal(again[0].components_, again[1].components_)
    assert again[0].n_samples_seen_ == again[1].n_samples_seen_ == 3 * 1203
    same_bits(
        CCA(1, **brief), {name: (x[:, :2], x[:, 2] + x[:, 0]) for name, x in sites.items()}, rank
    )
    every = np.concatenate(
        [sites["a"] @ np.diag([s, s, 1.0]) + sites["b"][:400] for s in (1.0, 2.0, 3.0)], axis=1
    )
    parts = {"a": every[:, :2], "b": every[:, 2:6], "c": every[:, 6:]}
    for estimator in (PCA(2, scale=True, **brief), PCA(2, **brief)):
        same_bits(estimator, parts, rank, split="features")
        np.testing.assert_allclose(
            estimator.transform(every),
            PCA(2, scale=estimator.scale).fit(every).transform(every),
            atol=1e-6,
        )
    same_bits(
        CCA(1, ridge=1e-2, **brief),
        {name: (x[:, :1], x[:, 1:]) for name, x in parts.items()},
        rank,
        split="features",
    )

    kinds = np.array(["low", "middle", "high"])
    classes = {"a": np.arange(400) % 2, "b": np.arange(401) % 3, "c": np.full(402, 2)}
    pairs = {name: (x + classes[name][:, None], kinds[classes[name]]) for name, x in sites.items()}
    same_bits(LDA(**brief), pairs, rank)

    stacks = [matrices(np.random.default_rng(i)) for i in range(3)]
    every_site = do.problems.PooledGEVP.from_sites(stacks, 2)
    whole = do.solve(every_site, "cdadt", "ring", iterations=20).x
    given = [pair if i == rank else None for i, pair in enumerate(stacks)]
    np.testing.assert_array_equal(
        do.solve(do.problems.PooledGEVP.from_sites(given, 2), "cdadt", "ring", iterations=20).x,
        whole,
    )

    own = [mine if i == rank else None for i in range(3)]
    for wrong in (None, mine[:, :2], mine * np.nan):
        with pytest.raises(ValueError):  # noqa: PT011  # the others' message names the rank
            PCA(2, random_state=0).fit_agents(
                [wrong if i == rank == 1 else one for i, one in enumerate(own)], "ring"
            )
    x, y = pairs["abc"[rank]]
    with pytest.raises(ValueError):  # noqa: PT011
        LDA().fit_agents((x, y[: 300 + 100 * rank]), "ring")
    with pytest.raises(ValueError):  # noqa: PT011
        CCA(1).fit_agents((x[:390, :1], np.ones((390, rank % 2))), "ring", split="features")
    with pytest.raises(ValueError):  # noqa: PT011
        PCA(1).fit_agents(x[: 300 + 100 * rank], "ring", split="features")
    with pytest.raises(ValueError):  # noqa: PT011
        CCA(1).fit_agents((x, x[:, : 1 + rank // 2]), "ring")
