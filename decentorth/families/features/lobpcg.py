"""LOBPCG for agents that hold features: exact sums over the graph, and everything else at home.

Knyazev, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned
conjugate gradient method", SIAM Journal on Scientific Computing 2001, for M v = w B v with M = D^T
J D and B = D^T E D + diag(ridge). Agent i holds the columns D_i of D, and the rows x_i, p_i of the
point and the last direction; all agents hold the same sums T_x = D x and T_p = D p. They repeat

    z_i = B_ii^{-1} (D_i^T (J T_x - E T_x W) - ridge x_i W),    W the Ritz values, B_ii the agent's own block of B           (1)
    T_z = sum_i D_i z_i,    S = sum_i [x_i z_i p_i]^T ridge [x_i z_i p_i]                                                    (2)
    C: the r leading eigenvectors of (T^T J T) C = (T^T E T + S) C W,    T = [T_x T_z T_p]                                   (3)
    x_i <- [x_i z_i p_i] C,   p_i <- [0 z_i p_i] C,   T_x <- T C,   T_p <- [0 T_z T_p] C                                     (4)

The sums (2), k r + 9 r^2 numbers, are the only messages. (1) is the residual, preconditioned by
what an agent knows alone. All agents solve the same problem (3), of order 3 r, with the same bits,
as every sum is made once and handed on (`Network.total`).

    x_i   state.x       p_i   state.direction       T_x   state.image       T_p   state.direction_image       W   state.values

Differences from the paper: z_i is divided by the largest Ritz value, and in (3) columns of a length
below 1e-12 are left out, the others scaled to x^T B x = 1, and combinations whose share in T^T E
T + S is below 1e-12 left out; then p_i <- 0, as errors of its image would grow from iteration to
iteration. T_x and T_p follow x and p by (4), are never recomputed, and do not drift.

With ``rows_per_message`` the sum T_z is made of pieces of N rows, one after the other: the same
bits in smaller messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple, Protocol

import numpy as np

from decentorth.algorithms.common.method import Method
from decentorth.protocols import Array, Network, Problem, SplitFeatures, Streams
from decentorth.settings import Count

RowsPerMessage = Annotated[Count | None, "The most rows of the sums in a message; by default all."]

_DEPENDENT = 1e-12
"""The share of the largest eigenvalue of the scaled x^T B x below which combinations of columns are
left out."""

_NOTHING = 1e-24
"""The share of the largest x^T B x of a column below which another is rounding, and left out:
columns that have converged stay."""


class LOBPCGState(NamedTuple):
    """The rows x and direction (p), ``(n_local, most, r)``, their images, ``(n_local, k, r)``, and
    the Ritz values."""

    x: Array
    direction: Array
    image: Array
    direction_image: Array
    values: Array
    k: int
    gradients: int


class SplitProblem(Problem[object], SplitFeatures, Protocol):
    """A problem whose agents hold features."""


P = SplitProblem
State = LOBPCGState


@dataclass(frozen=True, kw_only=True)
class LOBPCG(Method):
    """Locally optimal block preconditioned conjugate gradients (Knyazev 2001) for features split
    over agents, by exact sums.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((60, 24)) * np.geomspace(1, 0.1, 24)
    >>> problem = do.problems.SplitPCA(np.array_split(samples, 6, axis=1), 3)
    >>> method = do.LOBPCG()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    rows_per_message: RowsPerMessage = None

    requires: ClassVar[tuple[type, ...]] = (SplitFeatures,)
    only_sums: ClassVar[bool] = True

    def for_network(self, network: Network) -> LOBPCG:
        """This method; ValueError for a network without exact sums."""
        if not network.sums_exactly:
            raise ValueError(
                "LOBPCG needs exact sums, and this network changes or loses messages: take "
                "TrackedLanding (tracked_landing)"
            )
        return self

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        return self.begun(problem, network, random_rows(problem, streams))

    def begun(self, problem: P, network: Network, x: Array) -> State:
        """The state at the combination of the columns of x that makes them x^T B x = I and x^T M x
        diagonal."""
        image, gram = summed(
            network, self.rows_per_message, problem.products(x), ridge_products(problem, x)
        )
        c, values, _ = ritz(*forms(problem, image, gram), x.shape[2])
        x = x @ c
        image = image @ c
        return State(x, np.zeros_like(x), image, np.zeros_like(image), values, 0, 0)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        x, direction, image, direction_image, values, k, gradients = state
        r = x.shape[2]
        w = values[:, None, :]
        residual = (
            problem.adjoint(problem.objective_rows(image) - problem.constraint_rows(image) * w)
            - problem.ridge * x * w
        )
        size = np.abs(values).max(axis=1)
        z = problem.precondition(residual) / np.where(size > 0.0, size, 1.0)[:, None, None]  # (1)
        rows = np.concatenate((x, z, direction), axis=2)
        # (2)
        z_image, gram = summed(
            network, self.rows_per_message, problem.products(z), ridge_products(problem, rows)
        )
        images = np.concatenate((image, z_image, direction_image), axis=2)
        c, values, independent = ritz(*forms(problem, images, gram), r)  # (3)
        moved = np.ascontiguousarray(c[:, r:] * independent[:, None, None])
        direction = rows[:, :, r:] @ moved
        direction_image = images[:, :, r:] @ moved
        # (4)
        return State(rows @ c, direction, images @ c, direction_image, values, k + 1, gradients + 1)


def random_rows(problem: P, streams: Streams) -> Array:
    """``(n_local, most, r)``: rows of each agent's own start, uniform in (-1, 1); 0 where there is
    no feature."""
    most, r = problem.shape
    drawn = streams.integers("start", 0, most * r, 1 << 31).reshape(-1, most, r)
    return (drawn * 2.0**-30 - 1.0) * problem.present


def summed(network: Network, rows: int | None, image: Array, gram: Array) -> tuple[Array, Array]:
    """The sums over all agents of ``image``, ``(n_local, k, r)``, in blocks of ``rows``, and of
    ``gram``, with the first block."""
    k = image.shape[1]
    most = k if rows is None else rows
    first, total = network.total(image[:, :most], gram)
    others = [network.total(image[:, at : at + most])[0] for at in range(most, k, most)]
    return np.concatenate((first, *others), axis=1), total


def ridge_products(problem: P, x: Array) -> Array:
    """x_i^T diag(ridge) x_i of each agent."""
    return x.transpose(0, 2, 1) @ (problem.ridge * x)


def forms(problem: P, image: Array, gram: Array) -> tuple[Array, Array]:
    """x^T M x and x^T B x, from the sums over all agents."""
    across = image.transpose(0, 2, 1)
    return across @ problem.objective_rows(image), across @ problem.constraint_rows(image) + gram


def ritz(objective: Array, constraint: Array, r: int) -> tuple[Array, Array, Array]:
    """The r leading eigenvectors C, ``(n_local, q, r)``, of two ``(n_local, q, q)`` with C^T
    constraint C = I, their values, and 1 where no combination of columns was left out, else 0."""
    diagonal = np.diagonal(constraint, axis1=1, axis2=2)
    there = diagonal > _NOTHING * diagonal.max(axis=1, keepdims=True)
    scale = np.where(there, 1.0 / np.sqrt(np.where(there, diagonal, 1.0)), 0.0)
    both = scale[:, :, None] * scale[:, None, :]
    sizes, vectors = np.linalg.eigh(both * constraint)
    kept = sizes > _DEPENDENT * sizes[:, -1:]
    independent = (kept.sum(axis=1) == there.sum(axis=1)).astype(np.float64)
    basis = vectors * np.where(kept, 1.0 / np.sqrt(np.where(kept, sizes, 1.0)), 0.0)[:, None, :]
    inner = basis.transpose(0, 2, 1) @ (both * objective) @ basis
    inner = 0.5 * (inner + inner.transpose(0, 2, 1))
    total = np.abs(inner).sum(axis=(1, 2))
    behind = 2.0 * np.where(total > 0.0, total, 1.0)
    inner -= np.where(kept, 0.0, behind[:, None])[:, :, None] * np.eye(inner.shape[1])
    values, turn = np.linalg.eigh(inner)
    leading = np.ascontiguousarray(turn[:, :, ::-1][:, :, :r])
    return (
        scale[:, :, None] * (basis @ leading),
        np.ascontiguousarray(values[:, ::-1][:, :r]),
        independent,
    )
