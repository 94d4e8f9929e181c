"""GS-JOBCD: block coordinate descent under J-orthogonality, one pair of rows after the other.

Paper 001, Algorithm 1. Each step draws a pair B of rows, uniformly and with replacement, and

    x[B] <- V x[B],   V a global minimiser of (6)

see `jobcd` for (6) and the symbols. The paper has two Q: the exact one, for f(x) = tr(x^T H x)/2,
and varsigma I.

An iteration here is as many steps as ``pairs`` says, in one call of a compiled kernel, since a call
from Python costs as much as some hundred steps of small matrices: for f(x) = tr(x^T H x)/2 by
default n/2, which read as many rows as an iteration of J-JOBCD, but at least `LEAST`; for other f,
where each step takes a gradient of its own, one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np

from decentorth.protocols import Array, Network, Problem, Signature, Streams, TraceForm
from decentorth.settings import Count, Positive

from ..kernels import pair_kernels
from ..kernels.subproblem import Sweep
from . import jobcd
from .jobcd import JOBCDState, OneSignature, PairMethod, Varsigma

LEAST = 250
"""The least default number of steps in an iteration."""


P = Problem[OneSignature]


@dataclass(frozen=True, kw_only=True)
class GSJOBCD(PairMethod):
    """Block coordinate descent under J-orthogonality, Gauss-Seidel (paper 001, Algorithm 1).

    Parameters
    ----------
    varsigma
        Q = varsigma I: a number; pair, L_f lambda_max((x x^T)_BB); backtracking, which doubles L
        until f does not increase; or exact, the quadratic form of tr(x^T H x)/2 itself. auto: exact
        where there is one, pair where L_f is known, else backtracking.
    pairs
        Steps in an iteration; by default n/2, at least 250, for tr(x^T H x)/2, else 1.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HEVPSettings(dimension=10).problem(1, seed=0)
    >>> method = do.GSJOBCD()
    >>> result = do.solve(problem, method, iterations=50)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-5 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Signature,)

    varsigma: Positive | Varsigma | Literal["exact"] = "auto"
    pairs: Count | None = None

    @property
    def requires(self) -> tuple[type, ...]:
        """The capabilities that a problem must have: `TraceForm` for the exact subproblem."""
        return (TraceForm,) if self.varsigma == "exact" else ()

    def _varsigma(self, problem: object) -> float | str:
        if self.varsigma == "auto" and isinstance(problem, TraceForm):
            return "exact"
        return self.varsigma

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> JOBCDState:
        return jobcd.begin(self._varsigma(problem), problem, streams, x0)

    def step(self, problem: P, network: Network, streams: Streams, state: JOBCDState) -> JOBCDState:
        n = state.x.shape[-1]
        quadratic = state.product.size > 0
        varsigma = self._varsigma(problem)
        if n < 2:
            return state._replace(k=state.k + 1)
        number = self.pairs or (max(LEAST, n // 2) if quadratic else 1)
        drawn = streams.integers("blocks", state.k, number, n * (n - 1))[0]
        first = drawn // (n - 1)
        second = drawn % (n - 1)
        second += second >= first
        kind = jobcd.rule(varsigma, problem)
        if not quadratic or kind == "backtracking":
            for one in range(number):
                pair = first[one : one + 1], second[one : one + 1]
                gradient = state.x if quadratic else problem.gradient(state.x)
                state = jobcd.move(varsigma, self.theta, problem, state, gradient, [pair])
        else:
            level = float(state.varsigma[0])
            x = state.x[0]
            product = state.product[0]
            constant, scaled = (level, 0.0) if kind == "constant" else (0.0, level)
            sweep = Sweep(self.theta, kind == "exact", constant, scaled, jobcd.room(state))
            form = cast(TraceForm, problem).trace_form()[0]
            signs = problem.constraint.signs
            done, ray = pair_kernels().gauss_seidel(x, product, form, signs, first, second, sweep)
            if ray != 0:
                found = first[done], second[done], ray
                state = state._replace(ray=np.array([found], dtype=np.float64))
        spent = number
        k = state.k
        if quadratic:  # n/2 pairs read the n rows of a gradient
            spent = 2 * number * (k + 1) // n - 2 * number * k // n
        return jobcd.finish(state, problem, self.correction, state.gradients + spent)
