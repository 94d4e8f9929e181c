"""Eigenvalues of graph Laplacians known in closed form, smallest first; any W = I - a L has 1 - a
times them.

Source: Brouwer and Haemers, "Spectra of Graphs" (2012), section 1.4.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from numpy.typing import NDArray

Eigenvalues = NDArray[np.float64]


def ring(n: int) -> Eigenvalues:
    """2 - 2 cos(2 pi k / n), shape (n,), for n >= 3."""
    return _one_minus_cosine(2 * np.pi * np.arange(n) / n)


def path(n: int) -> Eigenvalues:
    """2 - 2 cos(pi k / n), shape (n,)."""
    return _one_minus_cosine(np.pi * np.arange(n) / n)


def complete(n: int) -> Eigenvalues:
    """0 once, n otherwise, shape (n,)."""
    return np.concatenate([[0.0], np.full(n - 1, float(n))])


def star(n: int) -> Eigenvalues:
    """0, 1 (n - 2 times) and n, shape (n,), for n >= 2."""
    return np.concatenate([[0.0], np.ones(n - 2), [float(n)]])


def complete_bipartite(p: int, q: int) -> Eigenvalues:
    """0, p (q - 1 times), q (p - 1 times) and p + q, shape (p + q,)."""
    return np.sort(
        np.concatenate([[0.0], np.full(q - 1, float(p)), np.full(p - 1, float(q)), [float(p + q)]])
    )


def hypercube(n: int) -> Eigenvalues:
    """2 k, as often as numbers below n = 2^d have k ones, shape (n,)."""
    return np.sort([2.0 * i.bit_count() for i in range(n)])


def grid(*sides: int) -> Eigenvalues:
    """All sums of one eigenvalue of each side's path, shape (product of the sides,)."""
    return _sums([path(side) for side in sides])


def torus(*sides: int) -> Eigenvalues:
    """All sums of one eigenvalue of each side's ring, shape (product of the sides,)."""
    return _sums([ring(side) for side in sides])


def circulant(n: int, offsets: tuple[int, ...]) -> Eigenvalues:
    """sum_s 2 - 2 cos(2 pi k s / n) over the offsets, of which none may be n / 2 or repeat modulo n
    and sign; shape (n,)."""
    return np.sort(
        sum((_unsorted(2 * np.pi * np.arange(n) * offset / n) for offset in offsets), np.zeros(n))
    )


def _one_minus_cosine(angles: NDArray[np.float64]) -> Eigenvalues:
    return np.sort(_unsorted(angles))


def _unsorted(angles: NDArray[np.float64]) -> Eigenvalues:
    """2 - 2 cos without cancellation."""
    return 4 * np.sin(angles / 2) ** 2


def _sums(terms: list[Eigenvalues]) -> Eigenvalues:
    return np.sort(reduce(lambda total, term: np.add.outer(total, term).ravel(), terms))
