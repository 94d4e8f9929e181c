"""VR-J-JOBCD: block coordinate descent under J-orthogonality on a finite sum, with variance-reduced gradients.

Paper 001, Algorithm 2. The pairs and their V are those of J-JOBCD, from an estimate of the gradient as in PAGE (Li, Bao, Zhang,
Richtarik, ICML 2021): with f = (1/N) sum_i f_i,

    G(0) = (1/b) sum_{i in S+} grad f_i(x(0))                                                                      (9)
    G <- (1/b) sum_{i in S+} grad f_i(new x)                                     with probability p'               (9)
    G <- G + (1/b') sum_{i in S-} (grad f_i(new x) - grad f_i(old x))            otherwise                         (9)
    x[B] <- V_B x[B]                                                                                               (12)

    G   state.estimate      b    large_batch      p'   restart
    S+  b samples, all of them for b = N          S-   b' samples, drawn with replacement
    b'  batch_size

By default b = N, b' = sqrt(N) and p' = b' / (b + b'), as in the paper's theorems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ..kernels import Kernel, ready
from ..protocols import Array, Index, Network, Sampled, Signatures, Streams
from . import adam, jobcd
from .adam import Moments
from .fields import check_batch_size
from .policies import check_positive

COIN = 1 << 31


class VRJJOBCDState(NamedTuple):
    """The fields of a `JOBCDState`, then estimate (G at x), like x, and how many gradients of single samples were taken."""

    x: Array
    product: Array
    varsigma: Array
    value: Array
    drift: Array
    ray: Array
    moments: Moments
    corrections: int
    k: int
    gradients: int
    estimate: Array
    samples: int


@dataclass(frozen=True, kw_only=True)
class VRJJOBCD:
    """Block coordinate descent under J-orthogonality, Jacobi with variance reduction (paper 001, Algorithm 2).

    Parameters
    ----------
    varsigma
        Q = varsigma I: a number, or pair, L_f lambda_max((x x^T)_BB), with an L_f found by the power method where none is known.
    theta
        Added to the diagonal of Q.
    batch_size
        b', samples in a difference of gradients; by default sqrt(N).
    large_batch
        b, samples in a gradient that starts the estimate over; by default all N.
    restart
        p', how often the estimate starts over; by default b' / (b + b').
    learning_rate
        Adam's, of rows that the constraint leaves free.
    correction
        A Newton-Schulz step towards the constraint every so many iterations; 0 never.
    kernel
        numba, numpy, or auto: numba where it is installed.
    """

    requires: ClassVar[tuple[type, ...]] = (Sampled,)
    requires_set: ClassVar[tuple[type, ...]] = (Signatures,)
    network: ClassVar[Literal["decentralized", "single-agent"]] = "single-agent"

    varsigma: float | Literal["pair"] = "pair"
    theta: float = 1e-6
    batch_size: int | None = None
    large_batch: int | None = None
    restart: float | None = None
    learning_rate: float = adam.LEARNING_RATE
    correction: int = 0
    kernel: Kernel = "auto"

    def __post_init__(self) -> None:
        check_positive("learning_rate", self.learning_rate)
        jobcd.check(self.varsigma, self.theta, self.correction, ("pair",))
        check_batch_size(self.batch_size)
        if self.large_batch is not None:
            jobcd.check_whole("large_batch", self.large_batch, 1)
        if self.restart is not None and not 0.0 <= self.restart <= 1.0:
            raise ValueError(f"restart is a probability, got {self.restart}")

    def resolved(self, network: Network) -> VRJJOBCD:
        """This method with the kernel that auto means here."""
        return replace(self, kernel=ready(self.kernel))

    def _sizes(self, problem: Any) -> tuple[int, int, float]:
        """b, b' and p'."""
        total = int(problem.n_samples[0])
        large, small = self.large_batch or total, self.batch_size or max(1, math.isqrt(total))
        return large, small, small / (large + small) if self.restart is None else self.restart

    def _afresh(self, problem: Any, streams: Streams, k: int, x: Array, size: int) -> Array:
        """The mean over S+."""
        gradient: Array
        if size >= int(problem.n_samples[0]):
            gradient = problem.gradient(x)
        else:
            gradient = problem.gradient_on(x, self._draw(problem, streams, k, size))
        return gradient

    def _draw(self, problem: Any, streams: Streams, k: int, size: int) -> Index:
        return streams.integers("batch", k, size, problem.n_samples)

    def init(self, problem: Any, network: Network, streams: Streams, x0: Array) -> VRJJOBCDState:
        large, _, _ = self._sizes(problem)
        estimate = self._afresh(problem, streams, 0, x0, large)  # (9)
        begun = jobcd.begin(self.varsigma, problem, streams, x0)
        begun = begun._replace(product=np.empty((1, 0, 0)), gradients=begun.gradients + 1)
        return VRJJOBCDState(*begun, estimate, min(large, int(problem.n_samples[0])))

    def step(self, problem: Any, network: Network, streams: Streams, state: VRJJOBCDState) -> VRJJOBCDState:
        large, small, restart = self._sizes(problem)
        pairs = jobcd.disjoint_pairs(streams, state.k, problem.constraint)
        before = state.x.copy()
        moved: Any = jobcd.move(self.kernel, self.varsigma, self.theta, problem, state, state.estimate, *pairs)  # (12)
        moved = jobcd.release(problem, moved, state.estimate, self.learning_rate)
        k = state.k + 1
        if streams.integers("blocks", k, 1, COIN)[0, 0] < restart * COIN:
            estimate, spent, calls = self._afresh(problem, streams, k, moved.x, large), min(large, int(problem.n_samples[0])), 1
        else:
            batch = self._draw(problem, streams, k, small)
            estimate, spent, calls = moved.estimate + problem.gradient_on(moved.x, batch), 2 * small, 2
            estimate -= problem.gradient_on(before, batch)  # (9)
        moved = moved._replace(estimate=estimate, samples=moved.samples + spent)
        following: VRJJOBCDState = jobcd.finish(moved, problem, self.correction, moved.gradients + calls)
        return following
