"""The spectrum of row- and column-stochastic weights: the speed at which agents agree, and the factor for one round.

For row-stochastic A with Perron vector pi, A^k x tends to 1 pi^T x at the rate of the second largest modulus of an eigenvalue; the
contraction is the factor of one round in the norm ||x||_pi^2 = sum_i pi_i x_i^2, the second singular value of D A D^-1 with
D = diag(sqrt(pi)). Column-stochastic B is the same for B^T, in the dual norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from topologies.canonical import WeightsLike
from topologies.directed.weights import perron_vector, pushing

LARGEST_DENSE = 1500
"""The largest number of agents with a spectrum: eigenvalues of large matrices that are not symmetric are found too unreliably."""


@dataclass(frozen=True)
class DirectedSpectrum:
    """The speed of averaging, or of pushing, with the weights of a directed graph. For one agent both factors are 0."""

    n: int
    """Number of agents."""
    sigma: float
    """Second largest modulus of an eigenvalue: the error shrinks by this factor per round in the long run."""
    contraction: float
    """The largest factor for a single round in the norm of the Perron vector; at least ``sigma``."""
    perron: np.ndarray[Any, np.dtype[np.float64]]
    """The Perron vector, ``(n,)``: pi of row-stochastic A, v of column-stochastic B."""


def directed_spectrum(M: WeightsLike) -> DirectedSpectrum:
    """The spectrum of row- or column-stochastic ``M``, ``(n, n)``: dense, O(n^3).

    Errors as `perron_vector`; ValueError for more than 1500 agents.
    """
    B, v = pushing(M), perron_vector(M)
    n = len(v)
    if n == 1:
        return DirectedSpectrum(1, 0.0, 0.0, v)
    if n > LARGEST_DENSE:
        raise ValueError(f"the spectrum of directed weights is computed densely, for up to {LARGEST_DENSE} agents, got {n}")
    rest = B.toarray() - np.outer(v, np.ones(n))
    root = np.sqrt(v)
    sigma = float(np.abs(np.linalg.eigvals(rest)).max())
    return DirectedSpectrum(n, sigma, max(sigma, float(np.linalg.norm(rest / root[:, None] * root, 2))), v)
