"""Problems under J-orthogonality."""

from __future__ import annotations

import numpy as np

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
    return HEVP(np.ascontiguousarray(left * np.logspace(0.0, -0.5 * np.log10(condition), n) @ right), signs(n, seed))


class LogCosh(AgentProblem[JOrthogonal]):
    """f(x) = (1/N) sum_samples sum_k log cosh(a^T x)_k: convex and coercive, not quadratic, and smooth with L = ||A||_2^2 / N.

    Parameters
    ----------
    A
        ``(N, n)``.
    """

    def __init__(self, A: Array, signs: Array) -> None:
        super().__init__(1, slice(0, 1), JOrthogonal.with_signs(signs))
        self.A = A
        self.n_samples = np.array([len(A)], dtype=np.int64)
        self.lipschitz = np.array([float(np.linalg.norm(A, 2)) ** 2 / len(A)])

    def _take(self, local: slice) -> None:
        """There is one agent."""

    def value(self, x: Array) -> Array:
        s = np.abs(self.A @ x)
        value: Array = (s + np.log1p(np.exp(-2.0 * s)) - np.log(2.0)).sum((-2, -1)) / len(self.A)
        return value

    def gradient(self, x: Array) -> Array:
        gradient: Array = self.A.T @ np.tanh(self.A @ x) / len(self.A)
        return gradient

    def gradient_on(self, x: Array, batch: Index) -> Array:
        rows = self.A[batch[0]]
        gradient: Array = rows.T @ np.tanh(rows @ x) / len(rows)
        return gradient

    def hessian_product(self, x: Array, v: Array) -> Array:
        product: Array = self.A.T @ ((1.0 - np.tanh(self.A @ x) ** 2) * (self.A @ v)) / len(self.A)
        return product


class Rough(LogCosh):
    """The same, with a Lipschitz constant that nobody knows."""

    def __init__(self, A: Array, signs: Array) -> None:
        super().__init__(A, signs)
        del self.lipschitz


def log_cosh(n: int, samples: int = 40, seed: int = 0, known: bool = True) -> LogCosh:
    A = np.random.default_rng(seed).standard_normal((samples, n))
    return (LogCosh if known else Rough)(A, signs(n, seed))
