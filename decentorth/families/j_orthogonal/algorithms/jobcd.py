"""The common parts of block coordinate descent methods under J-orthogonality.

Paper 001, "Block coordinate descent methods for optimization under J-orthogonality constraints with
applications". Two rows B are multiplied by the V that minimises a majoriser of f,

    x[B] <- V x[B],   V = argmin 1/2 ||V - I||_{Q + theta I}^2 + <V - I, [G x^T]_BB>  subject to  V^T J_BB V = J_BB   (6)

with G the gradient, solved exactly (`kernels.subproblem`). Q = varsigma I, or, for f(x) = tr(x^T H
x)/2, the exact Q = (x x^T)_BB kron H_BB.

    x    state.x        Q  varsigma                              theta  theta
    B    first, second  V  compiled.minimise                     G      problem.gradient, or H x

Differences from the paper:

- Its (4) asks varsigma <= L_f of the majoriser. That is not one: it needs varsigma_B >= L_f
  ||x[B]||_2^2, and x is not bounded. Here varsigma = "pair" is L_f lambda_max((x x^T)_BB), with
  which f never increases, however many disjoint pairs move at once:
  ||(V - I) Z||_F^2 <= lambda_max(Z Z^T) ||V - I||_F^2. A number is a constant varsigma as in the paper; "backtracking" halves an
  L in each iteration and doubles it until f does not increase, where no L_f is known.
- For f(x) = tr(x^T H x)/2 the product M = x x^T is maintained. [G x^T]_BB = H[B] M[:, B] then costs
  O(n) and M_BB nothing: a pair O(n) instead of O(n^2), n/2 disjoint pairs O(n^2) instead of O(n^3).
  M is recomputed after every `REFRESHED` iterations, and its drift until then is kept in the state.
- A point may be several matrices of one signature, stacked by rows, and free rows below them
  (`protocols.Signatures`). Pairs are within matrices, those of all matrices move at once; free rows
  make a step of `adam` along the same gradient.
- J-JOBCD may make several rounds of disjoint pairs from one gradient (`move`): one round turns each
  row in one of n - 1 planes.
- A run reports an objective that is unbounded below, with the rows along which it falls (`Ending`):
  the exact subproblem shows it, or, with Q = varsigma I, x once it has grown so large that its
  feasibility is lost to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, Protocol, Self, cast

import numpy as np

from decentorth.algorithms.common import SingleAgentMethod, lipschitz
from decentorth.numerics.ordered_sums import sums
from decentorth.protocols import (
    Array,
    Index,
    Network,
    Problem,
    Signature,
    Signatures,
    Smooth,
    Stop,
    Streams,
    TraceForm,
)
from decentorth.settings import Count, Natural, NotNegative, Positive

from ..kernels import pair_kernels
from ..kernels.subproblem import CERTAIN, isotropic, linear_term, ray_matrix
from ..kernels.subproblem import largest_eigenvalue as largest
from . import adam
from .adam import AdamMoments

Pairs = tuple[Index, Index]
"""The rows of k pairs, ``(k,)`` each."""
Varsigma = Literal["auto", "pair", "backtracking"]
"""The choice of varsigma: L_f lambda_max((x x^T)_BB) for each pair, or found by trial; auto is pair
where L_f is known."""

REFRESHED = 200
"""The number of iterations after which x x^T is recomputed."""
LOST = 1e-9
"""The infeasibility by rounding alone from which x is too large to continue if the objective is
unbounded."""
DOUBLINGS = 60
RAYS = {
    1: "[[cosh t, sinh t], [sinh t, cosh t]]",
    -1: "[[cosh t, -sinh t], [-sinh t, cosh t]]",
    2: "[[-cosh t, -sinh t], [sinh t, cosh t]]",
    -2: "[[-cosh t, sinh t], [-sinh t, cosh t]]",
}
"""The factors V(t) along the rays of `Solution.ray`."""
SLACK = 1e-13
"""The rounding error of an objective, relative to its terms."""


class Rays(Protocol):
    """A state with the ray along which f is unbounded below, ``(1, 3)``, NaN until one is found."""

    @property
    def x(self) -> Array: ...
    @property
    def ray(self) -> Array: ...


class OneSignature(Signature, Signatures, Protocol):
    """A set of single matrices {x : x^T J x = J}."""


class JOBCDState(NamedTuple):
    """The state of a method on pairs of rows.

    The arrays x and product are ``(1, n, n)``; product is x x^T for a trace form, else
    ``(1, 0, 0)``. varsigma (the constant, or L) and value (f(x) when backtracking, else NaN) are
    ``(1,)``. drift, ``(1,)``, is the error of product when last recomputed, relative to its
    largest entry. ray, ``(1, 3)``, holds the rows and `Solution.ray` along which f is unbounded
    below, else NaN.

    Further entries are Adam's moments of the free rows, and the numbers of corrections of x and
    of gradients of single samples. A method that estimates the gradient also has estimate, the
    gradient shaped like x (else ``(1, 0, 0)``), and largest, ``(1,)``, the largest varsigma so
    far.
    """

    x: Array
    product: Array
    varsigma: Array
    value: Array
    drift: Array
    ray: Array
    moments: AdamMoments
    corrections: int
    k: int
    gradients: int
    estimate: Array
    largest: Array
    samples: int = 0


@dataclass(frozen=True, kw_only=True)
class PairMethod(SingleAgentMethod):
    """A method on pairs of rows, for a single agent."""

    theta: Annotated[NotNegative, "Added to the diagonal of Q."] = 1e-6
    correction: Annotated[
        Natural, "Iterations between Newton-Schulz steps to the constraint; 0 never."
    ] = 0

    def for_network(self, network: Network) -> Self:
        """This method, with its kernels compiled."""
        pair_kernels()
        return self

    def ending(self, problem: Problem[object], state: Rays) -> Stop | None:
        """Stop once a pair of rows is found along which the objective is unbounded below."""
        return unbounded(problem, state)


@dataclass(frozen=True, kw_only=True)
class JacobiMethod(PairMethod):
    """A method that turns all rows at once.

    Parameters
    ----------
    varsigma
        Q = varsigma I: a number, pair or backtracking; auto: pair where L_f is known, else
        backtracking.
    """

    requires_set: ClassVar[tuple[type, ...]] = (Signatures,)

    rounds: Annotated[Count, "Rounds of n/2 disjoint pairs from one gradient; 1 in the paper."] = 1
    learning_rate: adam.LearningRate = adam.LEARNING_RATE
    varsigma: Positive | Varsigma = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rounds > 1 and not isinstance(self.varsigma, str):
            raise ValueError(
                "more than one round needs a varsigma that is no constant, got rounds "
                f"{self.rounds} and varsigma {self.varsigma}"
            )


P = Problem[Signatures]


def rule(varsigma: float | str, problem: object) -> str:
    """The rule that a setting of varsigma selects for a problem: exact, pair, backtracking or
    constant."""
    if not isinstance(varsigma, str):
        return "constant"
    if varsigma == "auto":
        return "pair" if isinstance(problem, Smooth) else "backtracking"
    return varsigma


def _form(problem: object) -> Array:
    """The trace form of a problem whose state has a product x x^T."""
    return cast(TraceForm, problem).trace_form()


def begin(varsigma: float | str, problem: P, streams: Streams, x0: Array) -> JOBCDState:
    """The state at the start."""
    spent = 0
    kind = rule(varsigma, problem)
    if kind == "constant":
        level = np.full(1, float(varsigma))
    else:
        gradient = np.zeros_like(x0) if isinstance(problem, Smooth) else problem.gradient(x0)
        level, spent = lipschitz(problem, streams, x0, gradient)
        level = np.maximum(level, np.finfo(np.float64).tiny)
    nothing = np.empty((1, 0, 0))
    product = x0 @ x0.swapaxes(-1, -2) if isinstance(problem, TraceForm) else nothing
    value = problem.value(x0) if kind == "backtracking" else np.full(1, math.nan)
    moments = adam.begin(problem.constraint, x0)
    ray = np.full((1, 3), math.nan)
    none = np.zeros(1)
    most = np.zeros(1)
    return JOBCDState(
        x0.copy(), product, level, value, none, ray, moments, 0, 0, spent, nothing, most
    )


def disjoint_pairs(streams: Streams, k: int, constraint: Signatures, rounds: int) -> list[Pairs]:
    """Draw the n/2 pairs of rows of each matrix for each round of iteration ``k``.

    The pairs come from a random permutation. For odd n, one row is left out.
    """
    n = len(constraint.each.signs)
    found = []
    for number in range(k * rounds, (k + 1) * rounds):
        order = streams.permutation("blocks", number, constraint.copies * n)
        order = order[np.argsort(order // n, kind="stable")].reshape(-1, n)
        found.append((order[:, 0 : n - n % 2 : 2].ravel(), order[:, 1::2].ravel()))
    return found


def move(
    varsigma: float | str,
    theta: float,
    problem: P,
    state: JOBCDState,
    gradient: Array,
    rounds: Sequence[Pairs],
) -> JOBCDState:
    """Solve (6) for disjoint pairs and multiply their rows, one round of pairs at a time.

    Changes x and product in place. The gradient G at x is not used for a trace form. If varsigma
    is not constant there may be several rounds. Together they reduce the majoriser f(x) + <G, y
    - x> + (L/2) ||y - x||^2, whose gradient at y is G + L (y - x). For a trace form they reduce
    f itself.
    """
    kernels = pair_kernels()
    kind = rule(varsigma, problem)
    signs = problem.constraint.each.signs
    bound = slice(0, problem.constraint.copies * len(signs))
    start = state.x[0, bound].copy() if len(rounds) > 1 else state.x[0, bound]

    def turn(level: Array, x: Array, m: Array) -> None:
        for number, (first, second) in enumerate(rounds):
            if m.size:
                t = kernels.blocks(_form(problem)[0], m, first, second)
                ii = m[first, first]
                ij = m[first, second]
                jj = m[second, second]
            else:
                g = gradient[0] if number == 0 else gradient[0, bound] + level * (x[bound] - start)
                t = kernels.blocks(g, x, first, second)
                own = kernels.blocks(x, x, first, second)
                ii = own[:, 0, 0]
                ij = own[:, 0, 1]
                jj = own[:, 1, 1]
            scale = np.ones_like(ii) if kind == "constant" else largest(ii, ij, jj)
            curvature = isotropic(level * scale + theta)
            hyperbolic = signs[first % len(signs)] != signs[second % len(signs)]
            v = kernels.minimise(hyperbolic, linear_term(t, curvature), curvature).v
            kernels.turn_rows(x, v, first, second)
            if m.size:
                kernels.congruence(m, v, first, second)

    if kind != "backtracking":
        turn(state.varsigma, state.x[0], state.product[0])
        return state
    level = 0.5 * state.varsigma
    for _ in range(DOUBLINGS):
        trial = state.x.copy()
        product = state.product.copy()
        turn(level, trial[0], product[0])
        value = 0.5 * sums(_form(problem) * product) if product.size else problem.value(trial)
        if value[0] <= state.value[0] + SLACK * abs(state.value[0]):
            return state._replace(x=trial, product=product, value=value, varsigma=level)
        level = 2.0 * level
    return state  # no step is short enough to be seen above rounding


def release(problem: P, state: JOBCDState, gradient: Array, rate: float) -> JOBCDState:
    """The state after a step of Adam on the free rows, along the gradient from which the others
    have moved."""
    if not state.moments.mean.size:
        return state
    adam.descend(problem.constraint, state.x, gradient, state.moments, state.k, rate)
    return state if np.isnan(state.value[0]) else state._replace(value=problem.value(state.x))


def room(state: JOBCDState) -> float:
    """Return the squared norm of x at which rounding makes its infeasibility `LOST`.

    Infinite if x is beyond it already.
    """
    bound = LOST * state.x.shape[-1] / float(np.finfo(np.float64).eps)
    return bound if np.trace(state.product[0]) <= bound else math.inf


def finish(state: JOBCDState, problem: P, correction: int, gradients: int) -> JOBCDState:
    """The state at the end of an iteration: counters increased, x corrected and product recomputed
    where due, rays searched for."""
    k = state.k + 1
    state = state._replace(k=k, gradients=gradients)
    corrected = correction > 0 and k % correction == 0
    if corrected:
        x = problem.constraint.corrected(state.x)
        value = state.value if np.isnan(state.value[0]) else problem.value(x)
        state = state._replace(x=x, value=value, corrections=state.corrections + 1)
    if not state.product.size:
        return state
    if corrected or k % REFRESHED == 0:
        product = state.x @ state.x.swapaxes(-1, -2)
        size = np.abs(product).reshape(1, -1).max(-1)
        drift = np.abs(product - state.product).reshape(1, -1).max(-1) / size
        state = state._replace(product=product, drift=drift)
    if np.isnan(state.ray[0, 0]) and room(state) == math.inf:
        signs = problem.constraint.each.signs
        state = state._replace(ray=steepest_ray(_form(problem)[0], state.product[0], signs))
    return state


def _falls(form: Array, product: Array, signs: Array) -> tuple[Array, Array]:
    """The numbers w - |d| and d of the exact subproblems, ``(2, n, n)``, for both hyperbolic
    families; inf where bounded."""
    h = np.diagonal(form)
    m = np.diagonal(product)
    hs = h[:, None] + h
    ms = m[:, None] + m
    even = 0.5 * hs * ms
    odd = 2.0 * form * product
    d = np.stack((form * ms + product * hs, product * hs - form * ms))
    w = np.stack((even + odd, even - odd))
    certain = w - np.abs(d) < -CERTAIN * (np.abs(w) + np.abs(d))
    return np.where((signs[:, None] != signs) & certain, w - np.abs(d), math.inf), d


def steepest_ray(form: Array, product: Array, signs: Array) -> Array:
    """The rows i, j and the `Solution.ray`, ``(1, 3)``, along which tr(x^T form x) falls fastest at
    ``product`` = x x^T; NaN if there is none."""
    falls, d = _falls(form, product, signs)
    at = int(falls.reshape(1, -1).argmin(-1)[0])
    family, i, j = np.unravel_index(at, falls.shape)
    if not falls[family, i, j] < 0.0:
        return np.full((1, 3), math.nan)
    side = -1.0 if d[family, i, j] > 0.0 else 1.0
    return np.array([[float(i), float(j), (family + 1.0) * side]])


def unbounded(problem: Problem[object], state: Rays, lines: str = "rows") -> Stop | None:
    """The reason to stop once a ray is found, with the objective along it at mu = t; its ``lines``
    in x are rows or columns."""
    if np.isnan(state.ray[0, 0]):
        return None
    i, j, ray = (int(one) for one in state.ray[0])
    values = []
    for t in (0.0, 5.0, 10.0):
        away = state.x.copy()
        moved = away if lines == "rows" else away.swapaxes(-1, -2)
        if t > 0.0:
            moved[:, [i, j]] = ray_matrix(ray, t) @ moved[:, [i, j]]
        values.append(f"{float(problem.value(away)[0]):.4g}")
    return Stop(
        "unbounded",
        False,
        f"the objective is unbounded below: {lines} {i} and {j} multiplied by {RAYS[ray]} take it "
        f"from {values[0]} to {values[1]} at t = 5, {values[2]} at t = 10, and so on",
    )
