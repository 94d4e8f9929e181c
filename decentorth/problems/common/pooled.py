"""Quantities of the rows of all agents together, from the collective and in agent order; no rank holds all rows.

A_i denotes the ``(m_i, d)`` rows of an agent, and ``A`` a list of these for the agents of this process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from ...numerics.ordered_sums import sums
from ...protocols import Array, Collective

T = TypeVar("T")

Fold = Callable[[int, Callable[[Array], None]], Array]
"""A sum over all agents: `Collective.fold`, or `here`."""

_SINGULAR = 1e-10
"""The share of the largest eigenvalue below which whitening treats an eigenvalue as zero."""


def here(size: int, add: Callable[[Array], None]) -> Array:
    """`Collective.fold` where all agents are in this process."""
    total = np.zeros(size)
    add(total)
    return total


class _Here:
    """A collective of one process with all data: sums need nobody else."""

    fold = staticmethod(here)
    together = staticmethod(contextlib.nullcontext)

    @staticmethod
    def everyone(data: bytes) -> list[bytes]:
        """`Collective.everyone`."""
        return [data]


HERE: Any = _Here()


def triangle(A: Sequence[Array], fold: Fold) -> Array:
    """``(d, d)``: an upper triangular R with R^T R = sum_i A_i^T A_i, which is not formed: no digits are lost to squaring."""
    d = A[0].shape[1]

    def add(total: Array) -> None:
        found = total.reshape(d, d)
        for a in A:
            found[:] = np.linalg.qr(np.concatenate((found, a)))[1]

    return fold(d * d, add).reshape(d, d)


def total(items: Iterable[T], size: int, of: Callable[[T], Array | float], fold: Fold) -> Array:
    """``(size,)``: the sum of ``of(item)`` over the items of all agents."""

    def add(out: Array) -> None:
        for item in items:
            out += of(item)

    return fold(size, add)


def gram(A: Sequence[Array], collective: Collective) -> Array:
    """``(d, d)``: sum_i A_i^T A_i."""
    d = A[0].shape[1]
    return total(A, d * d, lambda a: (a.T @ a).reshape(-1), collective.fold).reshape(d, d)


def rows(A: Sequence[Array], collective: Collective) -> int:
    """The number of rows of all agents."""
    return int(total(A, 1, len, collective.fold)[0])


def mean(A: Sequence[Array], collective: Collective) -> Array:
    """``(d,)``: the mean of all rows."""
    return total(A, A[0].shape[1], lambda a: np.ones(len(a)) @ a, collective.fold) / rows(A, collective)


def centered(A: Sequence[Array], collective: Collective) -> list[Array]:
    """The rows of the local agents minus the mean of all rows."""
    center = mean(A, collective)
    return [a - center for a in A]


def squares(A: Sequence[Array], collective: Collective) -> float:
    """The sum of the squares of all entries."""
    return float(total(A, 1, lambda a: sums(a[None] * a), collective.fold)[0])


def normalized(A: Sequence[Array], collective: Collective) -> list[Array]:
    """The rows divided by the root mean square of all entries, unchanged where all entries are 0."""
    scale = np.sqrt(squares(A, collective) / (A[0].shape[1] * rows(A, collective))) or 1.0
    return [a / scale for a in A]


def with_spectrum(A: Sequence[Array], decay: float, largest: float | None, collective: Collective) -> list[Array]:
    """Replace the eigenvalues of sum_i A_i^T A_i by ``largest * decay^j``.

    A_i <- A_i V diag(sqrt(target_j / actual_j)) V^T with V the eigenvectors of the pooled Gram matrix. ``largest`` None keeps the
    data's own largest eigenvalue.
    """
    values, vectors = np.linalg.eigh(gram(A, collective))
    values, vectors = values[::-1], vectors[:, ::-1]
    target = (values[0] if largest is None else largest) * decay ** np.arange(len(values))
    change = (vectors * np.sqrt(target / values)) @ vectors.T
    return [a @ change for a in A]


def mean_squares(A: Sequence[Array], collective: Collective) -> Array:
    """``(d,)``: the mean square of each column over all rows."""
    return total(A, A[0].shape[1], lambda a: np.ones(len(a)) @ (a * a), collective.fold) / rows(A, collective)


def whitening(A: Sequence[Array], components: int | None, collective: Collective) -> Array:
    """``(d, components)``: the T that gives the rows A_i T of all agents second moments ``(1/m) sum_i T^T A_i^T A_i T = I``."""
    return root_inverse(gram(A, collective) / rows(A, collective), components)


def root_inverse(covariance: Array, components: int | None) -> Array:
    """``(d, components)``: a matrix T with T^T C T = I for a covariance C of samples; a ValueError if C has too low a rank.

    T = U diag(s)^{-1/2} with the largest ``components`` eigenvalues s of C and their eigenvectors U; None takes all nonzero ones.
    """
    d = len(covariance)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    found = sum(value > _SINGULAR * values[0] for value in values.tolist())
    components = max(found, 1) if components is None else components
    if found < components:
        raise ValueError(
            f"whitening to {components} components needs samples that vary in as many directions, but those of all agents vary in "
            f"only {found} of {d} (an eigenvalue of their covariance counts above {_SINGULAR:g} of the largest): ask for at most "
            f"{found}, or leave out constant and repeated columns"
        )
    return np.ascontiguousarray(vectors[:, :components] / np.sqrt(values[:components]))
