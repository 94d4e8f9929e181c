"""Problems under J-orthogonality."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np

from decentorth import iterate
from decentorth.problems import HEVP, AgentProblem
from decentorth.protocols import Array, Index
from decentorth.sets import JOrthogonal


def signs(n: int, seed: int = 0) -> Array:
    """About half of each, in random order."""
    rng = np.random.default_rng(seed)
    return np.where(rng.permutation(n) < n // 2, 1.0, -1.0)


def hevp(n: int, condition: float = 100.0, samples: int | None = None, seed: int = 0) -> HEVP:
    """Well posed, with eigenvalues of D^T D from 1 / condition to 1, and signs in random order."""
    rng = np.random.default_rng(seed)
    left, _ = np.linalg.qr(rng.standard_normal((samples or 2 * n, n)))
    right, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return HEVP(
        np.ascontiguousarray(left * np.logspace(0.0, -0.5 * np.log10(condition), n) @ right),
        signs(n, seed),
    )


class LogCosh(AgentProblem[JOrthogonal]):
    """f(x) = (1/N) sum_samples sum_k log cosh(a^T x)_k: convex and coercive, not quadratic, and
    smooth with L = ||A||_2^2 / N."""

    def __init__(self, A: Array, signs: Array) -> None:
        super().__init__(1, slice(0, 1), JOrthogonal.with_signs(signs))
        self.A = A
        self.n_samples = np.array([len(A)], dtype=np.int64)
        self.lipschitz = np.array([float(np.linalg.norm(A, 2)) ** 2 / len(A)])

    def _take(self, local: slice) -> None:
        """There is one agent."""

    def value(self, x: Array) -> Array:
        s = np.abs(self.A @ x)
        return (s + np.log1p(np.exp(-2.0 * s)) - np.log(2.0)).sum((-2, -1)) / len(self.A)

    def gradient(self, x: Array) -> Array:
        return self.A.T @ np.tanh(self.A @ x) / len(self.A)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        rows = self.A[batch[0]]
        return rows.T @ np.tanh(rows @ x) / len(rows)

    def hessian_product(self, x: Array, v: Array) -> Array:
        return self.A.T @ ((1.0 - np.tanh(self.A @ x) ** 2) * (self.A @ v)) / len(self.A)


class Rough(LogCosh):
    """The same, with a Lipschitz constant that nobody knows."""

    def __init__(self, A: Array, signs: Array) -> None:
        super().__init__(A, signs)
        del self.lipschitz


def log_cosh(n: int, samples: int = 40, seed: int = 0, known: bool = True) -> LogCosh:
    A = np.random.default_rng(seed).standard_normal((samples, n))
    return (LogCosh if known else Rough)(A, signs(n, seed))


def states(problem: Any, algorithm: Any, number: int, x0: Array | None = None) -> list[Any]:
    """The states 0, 1, ..., number, copied."""
    made = islice(iterate(problem, algorithm, x0=x0, comm="serial"), number + 1)
    return [
        type(s)(*(part.copy() if isinstance(part, np.ndarray) else part for part in s))
        for s in made
    ]
