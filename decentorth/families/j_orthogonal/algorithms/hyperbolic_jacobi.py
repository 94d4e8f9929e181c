"""The hyperbolic Jacobi method for tr(x^T C x) over {x : x^T J x = J}: columns in place of rows.

With updates of columns, x[:, B] <- x[:, B] V, the objective tr(V^T (x^T C x) V) separates over
disjoint pairs B, so n/2 of them are minimised exactly at once. That is the classical parallel
hyperbolic (J-)Jacobi method (Veselic, "A Jacobi eigenreduction algorithm for definite matrix
pairs", Numerische Mathematik 1993). With G = x^T C x, for i and k of

    opposite signs    V = [[cosh mu, sinh mu], [sinh mu, cosh mu]],  tanh(2 mu) = -2 G_ik / (G_ii + G_kk)
    equal signs       V a rotation that makes G_ik zero: it does not change the objective, but the last sweeps are quadratic with it

    G   gram     C   problem.trace_form() / 2

An iteration is a sweep: n - 1 rounds of n/2 disjoint pairs (round robin). G is recomputed before
each sweep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np

from decentorth.algorithms.common.method import SingleAgentMethod
from decentorth.protocols import Array, Network, Problem, Signature, Stop, Streams, TraceForm
from decentorth.settings import Probability

from ..kernels import pair_kernels
from . import jobcd


class HyperbolicJacobiState(NamedTuple):
    """The state of the hyperbolic Jacobi method.

    The point x is ``(1, n, n)``. ``value`` is f before the last sweep and ``fallen`` its
    decrease, each ``(1,)``. ``ray``, ``(1, 3)``, holds the columns and the direction of a pair
    along which f is unbounded below, else NaN.
    """

    x: Array
    value: Array
    fallen: Array
    ray: Array
    k: int
    gradients: int


class QuadraticProblem(Problem[Signature], TraceForm, Protocol):
    """The problem min tr(x^T H x)/2 under J-orthogonality."""


P = QuadraticProblem
State = HyperbolicJacobiState


@dataclass(frozen=True, kw_only=True)
class HyperbolicJacobi(SingleAgentMethod):
    """The hyperbolic Jacobi method, best for min tr(x^T C x), C positive definite. An iteration is
    a sweep.

    Parameters
    ----------
    tolerance
        Converged when a sweep has lowered the objective by less than this share of it; the sweeps
        before converge quadratically.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HEVPSettings(dimension=10).problem(1, seed=0)
    >>> method = do.HyperbolicJacobi()
    >>> result = do.solve(problem, method, iterations=50)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-6 * norm[0])
    True
    """

    requires: ClassVar[tuple[type, ...]] = (TraceForm,)
    requires_set: ClassVar[tuple[type, ...]] = (Signature,)

    tolerance: Probability = 1e-15

    def for_network(self, network: Network) -> Self:
        """This method, with its kernels compiled."""
        pair_kernels()
        return self

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        none = np.full(1, math.nan)
        return State(x0.copy(), none, none.copy(), np.full((1, 3), math.nan), 0, 0)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        x = state.x
        ray = state.ray
        xt = state.x[0].T.copy()
        gram = 0.5 * (x.swapaxes(-1, -2) @ (problem.trace_form() @ x))
        gram = 0.5 * (gram + gram.swapaxes(-1, -2))
        value = np.trace(gram[0])
        fallen, i, j = pair_kernels().jacobi_sweep(xt, gram[0], problem.constraint.signs)
        if j > 0:
            ray = np.array([[float(i), float(j), -math.copysign(1.0, gram[0, i, j])]])
        x[0] = xt.T
        k = state.k + 1
        spent = state.gradients + 1
        return State(x, np.full(1, value), np.full(1, fallen), ray, k, spent)

    def ending(self, problem: P, state: State) -> Stop | None:
        """Stop when the objective no longer falls, or is unbounded below."""
        endless = jobcd.unbounded(problem, state, "columns")
        value = state.value[0]
        fallen = state.fallen[0]
        if endless is None and fallen <= self.tolerance * value:
            message = f"the last sweep lowered the objective by {fallen / value:.1e} of it"
            return Stop("converged", True, message)
        return endless
