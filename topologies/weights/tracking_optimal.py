"""Mixing matrices optimised for gradient tracking: the least exact linear rate over edge weights
and step together.

The rate is the largest modulus of an eigenvalue z of the iteration matrix M (see
`spectra.tracking_rate`). Where z is simple, with left and right eigenvectors l and r, its
derivative along dM is l* dM r / l* r. With W = I - sum_e w_e (e_i - e_j)(e_i - e_j)', l* dM r = p*
dW q + l_y* dW s, where, for combine then adapt,

    p = l_x + H l_y,    q = r_x,          s = r_y,

and for adapt then combine

    p = l_x + H W l_y,  q = r_x - a r_y,  s = r_y + H (W q - r_x).

The rate has kinks where eigenvalues tie, as they do at the optimum, so a quasi-Newton method for
nonsmooth functions minimises it from several starts. It is not convex: the result is a good local
optimum, and never worse than its starts.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import eig

from topologies.canonical import Adjacency, Weights, upper
from topologies.line.later import nx
from topologies.line.memory import dense
from topologies.line.progress import LOG
from topologies.spectra import tracking_rate
from topologies.spectra.tracking_rate import COMBINE, Order, Recursion, TrackingScore, worst_score
from topologies.weights.quasi_newton import minimise_nonsmooth
from topologies.weights.rules import best_constant_weights, lazy, metropolis_weights
from topologies.weights.weight_checks import adjacency, check_weights

Vector: TypeAlias = NDArray[np.float64]

_ITERATIONS = 400
_LARGEST_LOG_STEP = 100.0


@dataclass(frozen=True)
class TrackingWeights:
    """Weights optimised for gradient tracking and their score.

    Examples
    --------
    >>> import numpy as np
    >>> import topologies as tp
    >>> found = tp.tracking_weights(tp.ring(6), np.linspace(0.5, 1.5, 6))
    >>> found.W.shape, bool(0 < found.score.rate < 1)
    ((6, 6), True)
    """

    W: Weights
    """The mixing matrix, shape (n, n); weights of any sign."""
    score: TrackingScore
    """Its best rate and steps, for the worst of the scenarios at one common step."""


def tracking_weights(
    graph: nx.Graph[int] | Adjacency,
    curvatures: ArrayLike,
    order: Order = "combine-then-adapt",
    iterations: int = _ITERATIONS,
) -> TrackingWeights:
    """The weights on ``graph`` with the least rate of gradient tracking that was found: some
    seconds for 20 agents.

    Errors as `check_graph`; for curvatures and order as `tracking_score`.

    Parameters
    ----------
    graph : networkx.Graph or sparse adjacency matrix
    curvatures : array
        One for all agents, shape (); one for each, shape (n,); or several scenarios, shape (k, n),
        of which the slowest counts: see `curvature_scenarios` where only bounds are known.
    order : {"combine-then-adapt", "adapt-then-combine"}
    iterations : int
        Quasi-Newton iterations per start. Starts: Metropolis weights, their lazy form, and lazy
        best-constant weights.
    """
    edges = adjacency(graph)
    n = edges.shape[0]
    LOG.info("tracking weights of %d agents and %d edges", n, edges.nnz // 2)
    scenarios = _scenarios(curvatures, n)
    metropolis = metropolis_weights(edges)
    starts = [metropolis, lazy(metropolis), lazy(best_constant_weights(edges))]
    scored = [(W, _score(W, scenarios, order)) for W in starts]
    if n > 1:
        objective = _Objective(edges, scenarios, order)
        for W, score in list(scored):
            point, _ = minimise_nonsmooth(objective, objective.variables(W, score.step), iterations)
            with suppress(ValueError):  # a start that led to no mixing matrix
                found = check_weights(objective.matrix(point))
                scored.append((found, _score(found, scenarios, order)))
    W, score = min(scored, key=lambda pair: pair[1].rate)
    return TrackingWeights(W, score)


def curvature_scenarios(
    smallest: float,
    largest: float,
    n: int,
    count: int = 8,
    seed: int = 0,
) -> Vector:
    """``count`` random orders, shape (count, n), of n curvatures spaced evenly from ``smallest`` to
    ``largest``."""
    if not 0 <= smallest <= largest:
        raise ValueError(
            f"curvature bounds must satisfy 0 <= smallest <= largest, got {smallest} and {largest}"
        )
    rng = np.random.default_rng(seed)
    return np.array([rng.permutation(np.linspace(smallest, largest, n)) for _ in range(count)])


class _Objective:
    """The worst rate over the scenarios and its gradient, as a function of the edge weights and the
    logarithm of the step."""

    def __init__(self, edges: Weights, scenarios: Vector, order: Order) -> None:
        once = upper(edges)
        self._tails = once.row
        self._heads = once.col
        self._n = edges.shape[0]
        self._hessians = [scenario[:, None, None] for scenario in scenarios]
        self._bases = [tracking_rate.conserved_complement(hessians) for hessians in self._hessians]
        self._order = order

    def variables(self, W: Weights, step: float) -> Vector:
        return np.append(np.asarray(dense(W)[self._tails, self._heads]), np.log(step))

    def matrix(self, variables: Vector) -> Vector:
        W = np.zeros((self._n, self._n))
        W[self._tails, self._heads] = W[self._heads, self._tails] = variables[:-1]
        W[np.diag_indices(self._n)] = 1 - W.sum(axis=1)
        return W

    def __call__(self, variables: Vector) -> tuple[float, Vector]:
        W = self.matrix(variables)
        step = float(np.exp(min(variables[-1], _LARGEST_LOG_STEP)))
        pencil = tracking_rate.iteration_pencil
        pencils = [pencil(W, hessians, self._order) for hessians in self._hessians]
        every = zip(self._bases, pencils, strict=True)
        restricted = [U.T @ (base - step * slope) @ U for U, (base, slope) in every]
        rates = [float(np.abs(np.linalg.eigvals(matrix)).max()) for matrix in restricted]
        worst = int(np.argmax(rates))
        return rates[worst], self._gradient(W, step, worst, restricted[worst], pencils[worst][1])

    def _gradient(
        self, W: Vector, step: float, case: int, restricted: Vector, slope: Vector
    ) -> Vector:
        basis = self._bases[case]
        H = self._hessians[case][:, 0, 0]
        decomposition: Any = eig(restricted, left=True, right=True)
        values, lefts, rights = decomposition
        first = int(np.argmax(np.abs(values)))
        left = lefts[:, first]
        right = rights[:, first]
        size = abs(values[first]) * abs(np.vdot(left, right))
        if size == 0:  # an eigenvalue 0, or a defective one: no derivative
            return np.zeros(len(self._tails) + 1)
        factor = np.conj(values[first]) / abs(values[first]) / np.vdot(left, right)
        whole_left = basis @ left
        whole_right = basis @ right
        (l_x, l_y), (r_x, r_y) = np.split(whole_left, 2), np.split(whole_right, 2)
        if self._order == COMBINE:
            p = l_x + H * l_y
            q = r_x
            s = r_y
        else:
            q = r_x - step * r_y
            p = l_x + H * (W @ l_y)
            s = r_y + H * (W @ q - r_x)
        along_edges = -np.conj(self._across(p)) * self._across(q)
        along_edges -= np.conj(self._across(l_y)) * self._across(s)
        along_step = -step * np.vdot(whole_left, slope @ whole_right)
        return np.real(factor * np.append(along_edges, along_step))

    def _across(self, v: NDArray[np.complex128]) -> NDArray[np.complex128]:
        return v[self._tails] - v[self._heads]


def _scenarios(curvatures: ArrayLike, n: int) -> Vector:
    given = np.asarray(curvatures, dtype=np.float64)
    if given.ndim > 2 or given.shape[-1:] not in ((), (n,)) or given.size == 0:
        raise ValueError(
            f"curvatures must be one number, {n} numbers or k rows of {n} numbers, got shape "
            f"{given.shape}"
        )
    rows: Vector = np.atleast_2d(given)
    return np.broadcast_to(rows, (len(rows), n))


def _score(W: Weights, scenarios: Vector, order: Order) -> TrackingScore:
    return worst_score([Recursion(W, scenario, order) for scenario in scenarios])
