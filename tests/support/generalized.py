"""Generalized eigenvalue problems and canonical correlations for one agent, exact and from samples,
with their answers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from decentorth.problems import AgentProblem
from decentorth.protocols import Array, Index
from decentorth.sets import GeneralizedStiefel, Product, SampleCovariance


def spectral(values: Array, rng: np.random.Generator) -> Array:
    """A symmetric matrix with these eigenvalues and random eigenvectors."""
    q, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    matrix: Array = (q * values) @ q.T
    return (matrix + matrix.T) / 2


def pencil(n: int, condition: float = 100.0, seed: int = 0) -> tuple[Array, Array]:
    """A and B of paper 003: eigenvalues equidistant and geometric in [1/condition, 1], random
    eigenvectors."""
    rng = np.random.default_rng(seed)
    return (
        spectral(np.linspace(1 / condition, 1.0, n), rng),
        spectral(np.geomspace(1 / condition, 1.0, n), rng),
    )


class TraceProblem(AgentProblem[Any]):
    """f_i(x) = -1/2 tr(x^T A_i x), where a subclass has A."""

    A: Array

    def value(self, x: Array) -> Array:
        return -0.5 * (x * (self.A @ x)).sum((-2, -1))

    def gradient(self, x: Array) -> Array:
        gradient: Array = self.A @ x
        gradient *= -1.0
        return gradient


class GEVP(TraceProblem):
    """f(x) = -1/2 tr(x^T A x) over a set {x : x^T B x = I}; the answer is minus half the sum of the
    p largest eigenvalues."""

    def __init__(self, A: Array, constraint: Any) -> None:
        super().__init__(1, slice(0, 1), constraint)
        self.A = A
        self.lipschitz = np.array([np.linalg.eigvalsh(A)[-1]])

    def _take(self, local: slice) -> None:
        """There is one agent."""


def gevp(n: int, p: int, condition: float = 100.0, seed: int = 0) -> GEVP:
    """A dense generalized eigenvalue problem."""
    A, B = pencil(n, condition, seed)
    return GEVP(A, GeneralizedStiefel(B, p))


def optimum(A: Array, B: Array, p: int) -> float:
    n = len(A)
    return -0.5 * float(
        scipy.linalg.eigh(A, B, eigvals_only=True, subset_by_index=[n - p, n - 1]).sum()
    )


class SampledGEVP(GEVP):
    """The same with A = C^T C / N and B = D^T D / N + ridge I, from the rows of C and D."""

    def __init__(self, C: Array, D: Array, p: int, ridge: float = 0.0) -> None:
        self.C, self.covariance = C, SampleCovariance(D, ridge)
        self.n_samples: Index = np.array([len(C)], dtype=np.int64)
        super().__init__(C.T @ C / len(C), GeneralizedStiefel(self.covariance, p))

    @cached_property
    def B(self) -> Array:
        rows = self.covariance.rows
        return np.asarray(rows.T @ rows / len(rows) + self.covariance.ridge * np.eye(rows.shape[1]))

    def gradient_on(self, x: Array, batch: Index) -> Array:
        rows = self.C[batch]
        return -(rows.swapaxes(-1, -2) @ (rows @ x)) / batch.shape[1]

    def product_on(self, x: Array, batch: Index) -> Array:
        return self.covariance.product_on(x, batch)

    def matrices_on(self, batch: Index) -> Array:
        return self.covariance.matrix_on(batch)


def sampled_gevp(n: int, p: int, samples: int, seed: int = 0, ridge: float = 0.0) -> SampledGEVP:
    """Gaussian samples; the p leading directions of A stand out."""
    rng = np.random.default_rng(seed)
    scales = np.where(np.arange(n) < p, 1.0, 0.4)
    return SampledGEVP(
        rng.standard_normal((samples, n)) * scales,
        rng.standard_normal((samples, n)) + 0.3,
        p,
        ridge,
    )


class CCA(TraceProblem):
    """f(x, y) = -tr(x^T C12 y) over St_{C11} x St_{C22}; the answer is minus the sum of the p
    largest canonical correlations."""

    def __init__(self, first: Array, second: Array, p: int, ridge: float = 0.0) -> None:
        n1, n2, N = first.shape[1], second.shape[1], len(first)
        self.B = [a.T @ a / N + ridge * np.eye(a.shape[1]) for a in (first, second)]
        super().__init__(
            1,
            slice(0, 1),
            Product(GeneralizedStiefel(self.B[0], p), GeneralizedStiefel(self.B[1], p)),
        )
        self.A = np.zeros((n1 + n2, n1 + n2))
        self.A[:n1, n1:] = first.T @ second / N
        self.A[n1:, :n1] = self.A[:n1, n1:].T
        self.first = n1
        self.lipschitz = np.array([np.linalg.norm(self.A, ord=2)])
        self.rows, self.ridge = np.concatenate((first, second), axis=1), ridge
        self.n_samples: Index = np.array([N], dtype=np.int64)

    def _take(self, local: slice) -> None:
        """There is one agent."""

    def unpack(self, x: Array) -> Mapping[str, Array]:
        return {"x": x[..., : self.first, :], "y": x[..., self.first :, :]}

    def optimum(self) -> float:
        roots = [scipy.linalg.sqrtm(b).real for b in self.B]
        whitened = np.linalg.solve(roots[0], self.A[: self.first, self.first :]) @ np.linalg.inv(
            roots[1]
        )
        return -float(np.linalg.svd(whitened, compute_uv=False)[: self.shape[1]].sum())


def cca(n1: int = 6, n2: int = 5, p: int = 2, samples: int = 60, seed: int = 0) -> CCA:
    """Gaussian data with some common factors."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((samples, 4)) * np.array([2.0, 1.5, 0.5, 0.2])
    first = common @ rng.standard_normal((4, n1)) + rng.standard_normal((samples, n1))
    second = common @ rng.standard_normal((4, n2)) + rng.standard_normal((samples, n2))
    return CCA(first, second, p)
