"""DeEPCA: decentralized power iterations with subspace tracking, for principal components only.

Ye & Zhang, "DeEPCA: decentralized exact PCA with linear convergence rate", JMLR 2021, Algorithm 1.
For f_i(x) = -1/2 tr(x^T C_i x), from a common start x_0, every agent repeats

    S_i <- FastMix_K(S_i + C_i x_i - C_i(x_i of the iteration before))                                (1)
    x_i <- the orthonormal factor Q of S_i = Q R                                                      (2)

The first S_i is FastMix_K(C_i x_0). The mean of the S_i stays the mean of the C_i x_i, so that the
agents together make the power iteration of C = (1/n) sum_i C_i, and converge linearly to its top
eigenspace, however different their C_i are, once the K rounds of mixing make up for the
differences. No step size.

    FastMix_K   mixing.mix, rounds K, chebyshev        S_i   state.tracker
    x_i         state.x                                C_i x_i   problem.product(x), kept in state.field

With a momentum mu > 0, (2) takes S_i - b x R^{-1} in place of S_i, x and R being those of the
iteration before, b = (mu l / 2)^2 and l the agent's own Rayleigh quotient along the last column (De
Sa, He, Mitliagkas, Re & Xu, "Accelerated stochastic power iteration", AISTATS 2018). With mu =
l_{r+1} / l_r, l_k the eigenvalues of C, errors shrink by mu / (1 + sqrt(1 - mu^2)) in an iteration;
without momentum by mu.

Differences from the paper, and the reasons:

- The rounds are those of the Chebyshev polynomial that averages best on the spectrum of W. FastMix
  is another second-order recursion, for a positive semidefinite W.
- The columns of Q have the signs that make R's diagonal positive; the paper turns each column
  towards that of x_0. Either is there to make all agents take the same signs. R's diagonal stays
  about as far from zero as the top eigenvalues of C; a column of Q may pass where it is orthogonal
  to that of x_0, and agents that then turn it differently lose it (in a few of a hundred tried
  runs, for hundreds of iterations).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol, cast

import numpy as np

from ...protocols import Array, Eigenproblem, Network, Problem, Streams
from ...settings import Count, Probability
from ..common import Auto, Chebyshev, Method, blockwise, fewest_rounds, mix


class DeEPCAState(NamedTuple):
    """The point x, tracker (S), field (the product last added to S) and behind (b x R^{-1}), each
    ``(n_local, d, r)``."""

    x: Array
    tracker: Array
    field: Array
    behind: Array
    """``(n_local, 1, 1)`` without momentum."""
    k: int
    gradients: int


class AgentEigenproblem(Problem[object], Eigenproblem, Protocol):
    """An eigenproblem over agents, whatever its constraint."""


P = AgentEigenproblem
State = DeEPCAState


@dataclass(frozen=True, kw_only=True)
class DeEPCA(Method):
    """Decentralized exact PCA by subspace tracking (Ye & Zhang 2021), linearly convergent, without
    a step size.

    Parameters
    ----------
    rounds
        K, exchanges with the neighbours in an iteration; auto: the fewest that leave a twentieth of
        the differences.
    momentum
        mu, best the ratio of the first eigenvalue that is left out to the last that is not; the
        published method has none.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DeEPCA()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    on_time: ClassVar[bool] = True
    sends: ClassVar[tuple[str, ...]] = ("tracker",)
    requires: ClassVar[tuple[type, ...]] = (Eigenproblem,)

    rounds: Count | Auto = "auto"
    chebyshev: Chebyshev = True
    momentum: Probability = 0.0

    def for_network(self, network: Network) -> DeEPCA:
        """This method with the rounds that auto means on this network."""
        if self.rounds != "auto":
            return self
        return replace(self, rounds=fewest_rounds(network.spectrum, 0.05, self.chebyshev))

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        behind = np.zeros((len(x0), 1, 1))
        if self.momentum > 0.0:
            behind = np.zeros_like(x0)
        return State(x0.copy(), np.zeros_like(x0), np.zeros_like(x0), behind, 0, 0)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        product = blockwise(_product, problem, state.x)
        s = state.tracker
        s += product
        s -= state.field
        (s,) = mix(network, cast(int, self.rounds), self.chebyshev, s)  # (1)
        behind = state.behind
        y = s
        if self.momentum > 0.0:
            y = s - behind
        x = blockwise(_orthonormal, problem, y)  # (2)
        if self.momentum > 0.0:
            behind = blockwise(_behind, problem, state.x, x, y, s) * (0.5 * self.momentum) ** 2
        return State(x, s, product, behind, state.k + 1, state.gradients + 1)


def _product(problem: P, x: Array) -> Array:
    """The products C_i x_i."""
    return problem.product(x)


def _orthonormal(problem: object, s: Array) -> Array:
    """The factor Q of s = Q R, R with a positive diagonal (2)."""
    q, r = np.linalg.qr(s)
    signs = np.where(np.diagonal(r, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)
    return np.ascontiguousarray(q * signs[:, None, :])


def _behind(problem: object, x: Array, q: Array, y: Array, s: Array) -> Array:
    """l^2 x R^{-1}, where y = q R, and l is the last entry of the diagonal of q^T s."""
    quotient = (q[..., -1] * s[..., -1]).sum(-1)
    behind: Array = x @ np.linalg.inv(q.swapaxes(-1, -2) @ y)
    behind *= (quotient * quotient)[:, None, None]
    return behind
