"""The spectrum of row- and column-stochastic weights: the speed at which agents agree, and the
factor for one round.

For row-stochastic A with Perron vector pi, A^k x tends to 1 pi^T x at the rate of the second
largest modulus of an eigenvalue; the contraction is the factor of one round in the norm
||x||_pi^2 = sum_i pi_i x_i^2, the second singular value of D A D^-1 with D = diag(sqrt(pi)).
Column-stochastic B is the same for B^T, in the dual norm.

Gradient tracking with both, ``x+ = A (x - a y)``, ``y+ = B y + h (x+ - x)`` where all agents have
the curvature h, moves the common point by ``a h n pi^T v``. It is stable up to a limit that
eigenvalues which are not real bring down: for an eigenvalue w that A and B would share, ``z^2 -
(2 - c) w z + w^2 - c w`` must have its roots in the unit disc, c = a h; for ``x+ = A x - a y`` that
is ``z^2 - (2 w - c) z + w^2 - c``. The limits here are over all eigenvalues of A and of B: exact
where the two commute (one-way rings, exponential graphs), and within a factor 2 of the exact ones
on the rings with chords and random graphs of the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from topologies.canonical import WeightsLike
from topologies.directed.weights import DirectedWeights, perron_vector, pushing

Vector: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

LARGEST_DENSE = 1500
"""The largest number of agents with a spectrum: eigenvalues of large matrices that are not
symmetric are found too unreliably."""


@dataclass(frozen=True)
class DirectedSpectrum:
    """The speed of averaging, or of pushing, with the weights of a directed graph. For one agent
    both factors are 0.

    Examples
    --------
    >>> import topologies as tp
    >>> found = tp.directed_spectrum(tp.row_stochastic(tp.directed_ring(6)))
    >>> round(found.sigma, 4), found.perron.round(3)
    (0.866, array([0.167, 0.167, 0.167, 0.167, 0.167, 0.167]))
    """

    n: int
    """Number of agents."""
    sigma: float
    """Second largest modulus of an eigenvalue: the error shrinks by this factor per round in the
    long run."""
    contraction: float
    """The largest factor for a single round in the norm of the Perron vector; at least
    ``sigma``."""
    perron: Vector
    """The Perron vector, ``(n,)``: pi of row-stochastic A, v of column-stochastic B."""
    eigenvalues: Vector
    """``(n,)``, complex: all eigenvalues, with 0 in the place of 1."""


def directed_spectrum(M: WeightsLike) -> DirectedSpectrum:
    """The spectrum of row- or column-stochastic ``M``, ``(n, n)``: dense, O(n^3).

    Raises the errors of `perron_vector`, and ValueError for more than 1500 agents.
    """
    B = pushing(M)
    v = perron_vector(M)
    n = len(v)
    if n == 1:
        return DirectedSpectrum(1, 0.0, 0.0, v, np.zeros(1, dtype=np.complex128))
    if n > LARGEST_DENSE:
        raise ValueError(
            f"the spectrum of directed weights is for up to {LARGEST_DENSE} agents, got {n}"
        )
    rest = B.toarray() - np.outer(v, np.ones(n))
    root = np.sqrt(v)
    values = np.linalg.eigvals(rest).astype(np.complex128)
    sigma = float(np.abs(values).max())
    contraction = float(np.linalg.norm(rest / root[:, None] * root, 2))
    return DirectedSpectrum(n, sigma, max(sigma, contraction), v, values)


class PushPullSpectrum(NamedTuple):
    """Facts on pulling with A and pushing with B; of a symmetric W, A = B = W.

    Examples
    --------
    >>> import topologies as tp
    >>> weights = tp.directed_weights(tp.directed_ring(6))
    >>> found = tp.push_pull_spectrum(weights)
    >>> bool(found.sigma < 1)
    True
    """

    sigma: float
    """The largest modulus of an eigenvalue of A or B, the eigenvalue 1 left out."""
    gain: float
    """``n pi^T v``: by this factor the agents' common step is longer than their own."""
    limit: float
    """The product of common step and curvature, at most 2, up to which ``x+ = A (x - a y)`` is
    stable (see above)."""
    late_limit: float
    """The same for ``x+ = A x - a y``."""


def push_pull_spectrum(weights: DirectedWeights) -> PushPullSpectrum:
    """The facts on both matrices of a directed network. Raises the errors of
    `directed_spectrum`."""
    A = directed_spectrum(weights.A)
    B = directed_spectrum(weights.B)
    values = np.concatenate([A.eigenvalues, B.eigenvalues])
    gain = A.n * float(A.perron @ B.perron)
    return PushPullSpectrum(max(A.sigma, B.sigma), gain, *limits(values))


def limits(eigenvalues: Vector) -> tuple[float, float]:
    """`PushPullSpectrum.limit` and ``late_limit`` for these eigenvalues other than 1, by
    bisection."""
    w = np.asarray(eigenvalues, dtype=np.complex128)
    return _limit(w, w), _limit(w, np.ones_like(w))


def _limit(w: Vector, late: Vector) -> float:
    low, high = 0.0, 2.0
    while high - low > 1e-6 * high:
        c = 0.5 * (low + high)
        trace = 2 * w - c * late
        determinant = w * w - c * late
        root = np.sqrt(trace * trace - 4 * determinant)
        stable = np.all(np.maximum(np.abs(trace + root), np.abs(trace - root)) < 2)
        low, high = (c, high) if stable else (low, c)
    return low
