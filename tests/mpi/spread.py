"""Single-agent methods whose samples are spread over ranks: ``python -m tests.mpi.spread`` prints
what must not depend on them."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import decentorth as do
from decentorth.problems import (
    CCASettings,
    FunctionProblem,
    HEVPSettings,
    HSPPSettings,
    RSRSettings,
    Spread,
)
from decentorth.protocols import Array, Index
from decentorth.sets import GeneralizedStiefel, JOrthogonal
from tests.support.problems import pca, procrustes

BLOCKS = (3, 30, 4, 9, 20, 5, 11)
"""Samples of each."""


def log_cosh_blocks(n: int = 6, blocks: tuple[int, ...] = BLOCKS) -> Any:
    """f_i(x) = (1/m_i) sum_samples sum_k log cosh(a^T x)_k over the J-orthogonal matrices; nobody
    knows a Lipschitz constant."""
    rng = np.random.default_rng(0)
    data = [rng.standard_normal((m, n)) for m in blocks]

    def value(agent: int, x: Array) -> float:
        return float(np.log(np.cosh(data[agent] @ x)).sum() / len(data[agent]))

    def gradient(agent: int, x: Array) -> Array:
        a = data[agent]
        return np.asarray(a.T @ np.tanh(a @ x) / len(a))

    def gradient_on(agent: int, x: Array, batch: Index) -> Array:
        a = data[agent][batch]
        return np.asarray(a.T @ np.tanh(a @ x) / len(a))

    return FunctionProblem(
        value,
        gradient,
        JOrthogonal(3, n - 3),
        len(blocks),
        gradient_on=gradient_on,
        n_samples=blocks,
    )


def ellipsoid(rows: tuple[int, ...] = BLOCKS) -> Any:
    case = pca(rows)
    B = np.diag(np.linspace(0.5, 2.0, 12))
    return FunctionProblem(
        lambda agent, x: case.values[agent](x),
        lambda agent, x: case.gradients[agent](x),
        GeneralizedStiefel(B, 3),
        len(rows),
    )


def loaded(rows: tuple[int, ...]) -> Any:
    """PCA whose ranks load their own blocks."""
    data = [np.random.default_rng(agent).standard_normal((m, 12)) for agent, m in enumerate(rows)]
    return do.problems.PCA.from_loader(lambda agent: data[agent], len(rows), 3)


hevp = HEVPSettings(dimension=6, samples=25, ridge=1e-3)
hspp = HSPPSettings(points=20, dimension=6, smoothing=0.5)
cca = CCASettings(data="synthetic", rank=2)
rsr = RSRSettings(dimension=8, rank=4, inliers=60, outliers=30)
n = len(BLOCKS)

CASES: dict[str, tuple[Any, Any]] = {
    "rgd": (pca(BLOCKS).problem, do.RGD()),
    "rgd-batches": (pca(BLOCKS).problem, do.RGD(step_size=1e-2, batch_size=8)),
    "rgd-loader": (loaded(BLOCKS), do.RGD(step_size="bb")),
    "landing": (procrustes(BLOCKS).problem, do.Landing()),
    "landing-safe": (pca(BLOCKS).problem, do.Landing(safe=True)),
    "generalized-landing": (ellipsoid(), do.GeneralizedLanding()),
    "plam": (ellipsoid(), do.PLAM()),
    "pcal": (ellipsoid(), do.PCAL()),
    "j-jobcd": (log_cosh_blocks(), do.JJOBCD()),
    "gs-jobcd": (log_cosh_blocks(), do.GSJOBCD(pairs=5)),
    "vr-j-jobcd": (log_cosh_blocks(), do.VRJJOBCD(batch_size=9)),
    "hevp-jacobi": (hevp.in_blocks(n, 0), do.HyperbolicJacobi()),
    "hevp-umcm": (hevp.in_blocks(n, 0), do.UMCM()),
    "hevp-jadmm": (hevp.in_blocks(n, 0), do.JADMM()),
    "hspp-vr": (hspp.in_blocks(n, 0), do.VRJJOBCD(varsigma=300.0)),
    "hspp-csdm": (hspp.in_blocks(n, 0), do.CSDM()),
    "rsr-rssm": (rsr.problem(n, 0), do.RSSM(blocks=3)),
    "cca-sampled": (
        cca.problem(n, 0),
        do.GeneralizedLanding(step_size=1e-3, penalty=1.0, batch_size=8, covariance="sampled"),
    ),
    "cca-rolling": (cca.problem(n, 0), do.RGD(step_size=1e-3, batch_size=8, covariance="rolling")),
}


def main() -> None:
    outcomes = {}
    for name, (problem, algorithm) in CASES.items():
        result = do.solve(Spread(problem), algorithm, iterations=60, rows=6, seed=3)
        columns = [column for column in result.history.columns if column != "seconds"]
        outcomes[name] = {
            "iterates_sha256": result.iterates_sha256,
            "history": {
                column: [repr(value) for value in result.history[column].tolist()]
                for column in columns
            },
            "status": result.status,
            "gathered": None if (x := result.gather()) is None else list(x.shape),
            "ranks": result.transport["ranks"],
        }
    if do.connect().rank == 0:
        sys.stdout.write(json.dumps(outcomes) + "\n")


if __name__ == "__main__":
    main()
