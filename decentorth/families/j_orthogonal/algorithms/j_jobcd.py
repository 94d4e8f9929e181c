"""J-JOBCD: block coordinate descent under J-orthogonality, n/2 pairs of rows at once.

Paper 001, Algorithm 2 with N = 1. A random permutation divides the rows into disjoint pairs B (odd
n leave one out), and

    x[B] <- V_B x[B],   V_B a global minimiser of (12), which is (6) with Q = varsigma I                           (12)

for all of them, from one gradient, see `jobcd` for (6) and the symbols. With varsigma = "pair" f
never increases. For f(x) = tr(x^T H x)/2 an iteration costs O(n^2). Of several matrices in one
point all are turned at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from decentorth.protocols import Array, Network, Problem, Signatures, Streams

from . import jobcd
from .jobcd import JacobiMethod, JOBCDState

P = Problem[Signatures]


@dataclass(frozen=True, kw_only=True)
class JJOBCD(JacobiMethod):
    """Block coordinate descent under J-orthogonality, Jacobi (paper 001, Algorithm 2 with exact
    gradients).

    Parameters
    ----------
    varsigma
        Q = varsigma I: a number; pair, L_f lambda_max((x x^T)_BB); backtracking, which doubles L
        until f does not increase. auto: pair where L_f is known, else backtracking.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HEVPSettings(dimension=10).problem(1, seed=0)
    >>> method = do.JJOBCD()
    >>> result = do.solve(problem, method, iterations=50)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> JOBCDState:
        return jobcd.begin(self.varsigma, problem, streams, x0)

    def step(self, problem: P, network: Network, streams: Streams, state: JOBCDState) -> JOBCDState:
        pairs = jobcd.disjoint_pairs(streams, state.k, problem.constraint, self.rounds)
        gradient = state.x if state.product.size else problem.gradient(state.x)
        state = jobcd.move(self.varsigma, self.theta, problem, state, gradient, pairs)  # (12)
        state = jobcd.release(problem, state, gradient, self.learning_rate)
        return jobcd.finish(state, problem, self.correction, state.gradients + 1)
