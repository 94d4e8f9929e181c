"""Preconditioners that agents agree on for a matrix B = (1/n) sum_i B_i of which each knows its own
B_i.

Methods that move along P times a field need P to be symmetric and positive definite, and the nearer
P B comes to a multiple of I, the fewer iterations they take. The quantities averaged over the
network, once before the start, are:

    none         nothing                            P = I
    diagonal     d numbers, the diagonal of B       P = R^2,  R = diag(B)^{-1/2}
    sketch       B Omega, s columns, and diag(B)    P = R (U (1/L - 1/l) U^T + I/l) R, U L U^T the Nystrom approximation of R B R
                                                    from R^{-1} Omega and l the smallest eigenvalue in L
    covariance   B itself                           P = B^{-1}

Omega is orthonormal, from random signs, the same for all agents. The sketch is that of Frangella,
Tropp, Udell, "Randomized Nystrom preconditioning", 2023, on top of the diagonal; the s largest
eigenvalues no longer count in the condition of P B. With the remainder E = R B R - U L U^T, which
is positive semidefinite, and the smallest eigenvalue e of R B R,

    condition of P B <= (1 + ||E||_2 / l) (1 + l / e).

With as many columns as B has, Omega is I and it is the covariance.

The agents' preconditioners agree to about 1e-8. No fixed point depends on that: a method that
multiplies its tracked field by P (`double_tracking`) has the same fixed points with any P, even if
the agents' P differ.

Each agent keeps w ``(d,)`` and V ``(d, s)`` with P = diag(w) - V V^T, where V^T y sums over the
rows of each factor of a product of sets separately, so that P is block diagonal.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ...protocols import Array, Streams

Kind = Literal["sketch", "diagonal", "covariance", "none"]

_NEGLIGIBLE = 1e-12
"""Eigenvalues below this share of the largest are taken for rounding errors."""


class Preconditioner(NamedTuple):
    """The matrices P = diag(weights) - basis basis^T of the agents: ``(n_local, d)`` and
    ``(n_local, d, s)``."""

    weights: Array
    basis: Array

    def apply(self, rows: tuple[slice, ...], y: Array) -> Array:
        """The product P y, fresh."""
        image: Array = self.weights[:, :, None] * y
        if self.basis.shape[-1]:
            for part in rows:
                v = self.basis[:, part]
                image[:, part] -= v @ (v.swapaxes(-1, -2) @ y[:, part])
        return image


def probe(
    kind: Kind, columns: int | None, rows: tuple[slice, ...], p: int, streams: Streams
) -> Array:
    """The matrix Omega ``(d, s)``, the same for all agents; no columns unless B is sketched.

    By default s is 12 p, as many columns as the products of twelve iterations with points of p, and
    at most half of those of B.
    """
    d = rows[-1].stop
    orders = [part.stop - part.start for part in rows]
    if kind not in ("sketch", "covariance"):
        return np.empty((d, 0))
    if kind == "covariance":
        columns = max(orders)
    elif columns is None:
        columns = min(12 * p, *[max(1, n // 2) for n in orders])
    out = np.zeros((d, columns))
    for number, (part, n) in enumerate(zip(rows, orders, strict=True)):
        if columns >= n:
            out[part, :n] = np.eye(n)
        else:
            signs = 2.0 * (streams.permutation("start", number, n * columns) % 2) - 1.0
            out[part] = np.linalg.qr(signs.reshape(n, columns)).Q
    return out


def preconditioner(
    kind: Kind, rows: tuple[slice, ...], diagonal: Array, omega: Array, images: Array
) -> Preconditioner:
    """The preconditioner from averages: ``diagonal`` ``(n_local, d)`` of B, and ``images``
    ``(n_local, d, s)`` = B ``omega``."""
    basis = np.zeros(images.shape)
    if kind == "none":
        return Preconditioner(np.ones(diagonal.shape), basis)
    weights: Array = 1.0 / diagonal
    if images.shape[-1]:
        roots = np.sqrt(weights)[:, :, None]
        for part in rows:
            least, vectors = _tail(omega[part], images[:, part], roots[:, part])
            weights[:, part] /= least[:, None]
            basis[:, part, : vectors.shape[-1]] = roots[:, part] * vectors
    return Preconditioner(weights, basis)


def _tail(omega: Array, images: Array, roots: Array) -> tuple[Array, Array]:
    """The terms l ``(n_local,)`` and U (1/l - 1/L)^{1/2} ``(n_local, n, s)`` of the Nystrom
    approximation."""
    core: Array = omega.T @ images
    values, vectors = np.linalg.eigh(0.5 * (core + core.swapaxes(-1, -2)))
    seen = values > _NEGLIGIBLE * values[:, -1:]
    factor = (roots * images) @ (
        vectors * np.where(seen, 1.0 / np.sqrt(np.where(seen, values, 1.0)), 0.0)[:, None, :]
    )
    u, singular, _ = np.linalg.svd(factor, full_matrices=False)
    squares = singular * singular
    seen = squares > _NEGLIGIBLE * squares[:, :1]
    least = np.where(seen, squares, squares[:, :1]).min(-1)
    share = np.where(seen, 1.0 / least[:, None] - 1.0 / np.where(seen, squares, 1.0), 0.0)
    return least, u * np.sqrt(share)[:, None, :]
