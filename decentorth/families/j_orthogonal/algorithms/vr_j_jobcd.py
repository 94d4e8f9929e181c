"""VR-J-JOBCD: block coordinate descent under J-orthogonality on a finite sum, with variance-reduced
gradients.

Paper 001, Algorithm 2. The pairs and their V are those of J-JOBCD, from an estimate of the gradient
as in PAGE (Li, Bao, Zhang, Richtarik, ICML 2021): with f = (1/N) sum_i f_i,

    G(0) = (1/b) sum_{i in S+} grad f_i(x(0))                                                                      (9)
    G <- (1/b) sum_{i in S+} grad f_i(new x)                                     with probability p'               (9)
    G <- G + (1/b') sum_{i in S-} (grad f_i(new x) - grad f_i(old x))            otherwise                         (9)
    x[B] <- V_B x[B]                                                                                               (12)

    G   state.estimate      b    large_batch      p'   restart
    S+  b samples, all of them for b = N          S-   b' samples, drawn with replacement
    b'  batch_size

By default b = N, b' = sqrt(N) and p' = b' / (b + b'), as in the paper's theorems.

Free rows move by Adam along the mini-batch's gradient (1/b') sum_{i in S-} grad f_i(new x), where
the estimate does not start over: the errors of differences are as large as the moves, and Adam's
moves do not shrink with the gradient.

Beyond the paper: varsigma = "backtracking" finds an L as J-JOBCD does, from values of f, in the
iterations in which the estimate is a new one. In the iterations between, whose estimates have
errors, it takes `CAUTION` times the largest L so far: the bound on those errors has an L that holds
everywhere, and the L of one restart can be a thousandth of that of another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from decentorth.algorithms.common import BatchSize, SampledProblem
from decentorth.protocols import Array, Index, Network, Sampled, Signatures, Streams
from decentorth.settings import Count, Range

from . import adam, jobcd
from .jobcd import JacobiMethod, JOBCDState, Pairs

COIN = 1 << 31
CAUTION = 100.0
"""The ratio of L between new estimates to the largest L at a new estimate."""


P = SampledProblem[Signatures]


@dataclass(frozen=True, kw_only=True)
class VRJJOBCD(JacobiMethod):
    """Block coordinate descent under J-orthogonality, Jacobi with variance reduction (paper 001,
    Algorithm 2).

    Parameters
    ----------
    varsigma
        Q = varsigma I: a number; pair, L_f lambda_max((x x^T)_BB), with an L_f found by the power
        method where none is known; backtracking, with an L found by trial where the estimate starts
        over. auto: pair where L_f is known, else backtracking.
    batch_size
        b', samples in a difference of gradients; by default sqrt(N).
    large_batch
        b, samples in a gradient that starts the estimate over; by default all N.
    restart
        p', how often the estimate starts over; by default b' / (b + b').

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HEVPSettings(dimension=10).problem(1, seed=0)
    >>> method = do.VRJJOBCD()
    >>> result = do.solve(problem, method, iterations=50)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    requires: ClassVar[tuple[type, ...]] = (Sampled,)

    batch_size: BatchSize = None
    large_batch: Count | None = None
    restart: Annotated[float, Range(least=0, most=1)] | None = None

    def _sizes(self, problem: P) -> tuple[int, int, float]:
        """The numbers b, b' and p'."""
        total = int(problem.n_samples[0])
        large = self.large_batch or total
        small = self.batch_size or max(1, math.isqrt(total))
        return large, small, small / (large + small) if self.restart is None else self.restart

    def _afresh(self, problem: P, streams: Streams, k: int, x: Array, size: int) -> Array:
        """The mean gradient over the samples S+."""
        if size >= int(problem.n_samples[0]):
            return problem.gradient(x)
        return problem.gradient_on(x, self._draw(problem, streams, k, size))

    def _draw(self, problem: P, streams: Streams, k: int, size: int) -> Index:
        return streams.integers("batch", k, size, problem.n_samples)

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> JOBCDState:
        large, _, _ = self._sizes(problem)
        estimate = self._afresh(problem, streams, 0, x0, large)  # (9)
        begun = jobcd.begin(self.varsigma, problem, streams, x0)
        begun = begun._replace(product=np.empty((1, 0, 0)), value=np.full(1, math.nan))
        spent = begun.gradients + 1
        samples = min(large, int(problem.n_samples[0]))
        return begun._replace(estimate=estimate, gradients=spent, samples=samples)

    def _starts_over(self, streams: Streams, k: int, restart: float) -> bool:
        """True if the estimate of iteration ``k`` is a new one."""
        return k == 0 or bool(streams.integers("blocks", k, 1, COIN)[0, 0] < restart * COIN)

    def _moved(self, problem: P, state: JOBCDState, pairs: list[Pairs], anew: bool) -> JOBCDState:
        """The state after the rows are multiplied."""
        if jobcd.rule(self.varsigma, problem) != "backtracking":
            return jobcd.move(self.varsigma, self.theta, problem, state, state.estimate, pairs)
        if anew:
            state = state._replace(value=problem.value(state.x))
            moved = jobcd.move("backtracking", self.theta, problem, state, state.estimate, pairs)
            largest = np.maximum(moved.largest, moved.varsigma)
            return moved._replace(value=np.full(1, math.nan), largest=largest)
        cautious = state._replace(varsigma=CAUTION * state.largest)
        moved = jobcd.move("pair", self.theta, problem, cautious, state.estimate, pairs)
        return moved._replace(varsigma=state.varsigma)

    def step(self, problem: P, network: Network, streams: Streams, state: JOBCDState) -> JOBCDState:
        large, small, restart = self._sizes(problem)
        pairs = jobcd.disjoint_pairs(streams, state.k, problem.constraint, self.rounds)
        before = state.x.copy()
        anew = self._starts_over(streams, state.k, restart)
        moved = self._moved(problem, state, pairs, anew)  # (12)
        moved = jobcd.release(problem, moved, state.estimate, self.learning_rate)
        k = state.k + 1
        if self._starts_over(streams, k, restart):
            estimate = self._afresh(problem, streams, k, moved.x, large)
            spent = min(large, int(problem.n_samples[0]))
            calls = 1
        else:
            batch = self._draw(problem, streams, k, small)
            gradient = problem.gradient_on(moved.x, batch)
            free = adam.free_rows(problem.constraint)
            estimate = moved.estimate + gradient
            spent = 2 * small
            calls = 2
            estimate -= problem.gradient_on(before, batch)  # (9)
            estimate[:, free] = gradient[:, free]
        moved = moved._replace(estimate=estimate, samples=moved.samples + spent)
        return jobcd.finish(moved, problem, self.correction, moved.gradients + calls)
