"""The smallest eigenvalues of a large, sparse, diagonally dominant matrix: LOBPCG with a multigrid
preconditioner.

SciPy has LOBPCG (Knyazev, "Toward the optimal preconditioned eigensolver", 2001), pyamg the
multigrid by smoothed aggregation. It needs no geometry and fills little in, so meshes of a million
agents take less than a gigabyte, where Lanczos alone takes hours.
"""

from __future__ import annotations

import math
import warnings
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import lobpcg

from topologies.canonical import Weights
from topologies.line.later import pyamg

_COARSEST = 500
_BLOCK = 4
_ITERATIONS, _RESTARTS = 20, 25
_ERROR = 1e-12
_CLUSTER = 1e-3


def smallest_eigenvalue(matrix: Weights, without_constant: bool = False) -> float | None:
    """The smallest eigenvalue of a symmetric, diagonally dominant array; None without pyamg or
    convergence in 500 iterations.

    The error of a Ritz value is about the squared residual over the distance to the rest of the
    spectrum, which the block estimates; it is brought to a relative 1e-12, but not below the
    rounding of the matrix. ``without_constant`` leaves out the eigenvector of ones.
    """
    if find_spec("pyamg") is None:
        return None
    n = matrix.shape[0]
    known = np.ones((n, 1)) if without_constant else None
    X = np.random.default_rng(0).standard_normal((n, _BLOCK))
    floor = 100 * np.finfo(float).eps * float(np.abs(matrix.diagonal()).max())
    levels = {"max_coarse": _COARSEST, "coarse_solver": "pinv"}
    multigrid = pyamg.smoothed_aggregation_solver(sparse.csr_matrix(matrix), **levels)
    settings: Any = {"M": multigrid.aspreconditioner(), "tol": floor, "largest": False}
    for _ in range(_RESTARTS):
        with warnings.catch_warnings(action="ignore"):  # it warns where it stops before the floor
            values, X = lobpcg(matrix, X, Y=known, maxiter=_ITERATIONS, **settings)
        least = float(values[0])
        distance = max(float(values[-1]) - least, _CLUSTER * least)
        residual = float(np.linalg.norm(matrix @ X[:, 0] - least * X[:, 0]))
        if residual <= math.sqrt(max(0.0, _ERROR * least * distance)) + floor:
            return least
    return None
