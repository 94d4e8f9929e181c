"""Weights with the least second singular value sigma: fastest mixing (FMMC) and fastest linear
averaging (FDLA), certified.

With one weight w_e per edge e = {i, j} and W = I - sum_e w_e (e_i - e_j)(e_i - e_j)', sigma(W) =
||W - 11'/n|| is convex in w. FMMC asks for W >= 0, FDLA takes weights of any sign. Boyd, Diaconis
and Xiao, "Fastest mixing Markov chain on a graph" (2004); Xiao and Boyd, "Fast linear iterations
for distributed averaging" (2004).

The certificate does not trust the solver. For any symmetric Y with Y 1 = 0 and nuclear norm at most
1,

    sigma(W) >= <Y, W> = trace Y - sum_e g_e w_e,    g_e = Y_ii + Y_jj - 2 Y_ij,

so a lower bound on every feasible W is, for FDLA, trace Y if all g_e vanish, and for FMMC, trace
Y - sum_i z_i for any z >= 0 with z_i + z_j >= g_e on every edge (W >= 0 means w >= 0 and rows of w
that sum to at most 1). Y is taken from the solver, made exactly feasible, and the bound computed
from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from topologies.canonical import Adjacency, Weights, on_edges, row_sums, upper, with_diagonal
from topologies.line.later import cp, nx, optimize
from topologies.line.memory import dense
from topologies.line.progress import LOG
from topologies.weights.weight_checks import adjacency, check_weights

Vector: TypeAlias = NDArray[np.float64]

_LARGEST = 1500
_ELSE = "use best-constant weights"
_EXACT = 1e-12
_SAME_EIGENVALUE = 1e-9


@dataclass(frozen=True)
class FastestWeights:
    """The fastest weights, with a certified lower bound on sigma.

    Examples
    --------
    >>> import topologies as tp
    >>> found = tp.fastest_weights(tp.ring(8))
    >>> round(found.sigma, 4), bool(found.sigma - found.lower_bound < 1e-6)
    (0.7445, True)
    """

    W: Weights
    """The mixing matrix, shape (n, n)."""
    sigma: float
    """Its second largest singular value."""
    lower_bound: float
    """A lower bound on sigma for all weights of this kind on this graph."""

    @property
    def certified_gap(self) -> float:
        """A bound on the distance of sigma from the optimum."""
        return max(0.0, self.sigma - self.lower_bound)


class _Problem(NamedTuple):
    n: int
    tails: NDArray[np.intp]
    heads: NDArray[np.intp]
    nonnegative: bool


def fastest_weights(graph: nx.Graph[int] | Adjacency, nonnegative: bool = True) -> FastestWeights:
    """FMMC (``nonnegative``) or FDLA weights with their certificate.

    One weight for all edges is tried first: where its certificate closes to 1e-12, as it does on
    every edge-transitive graph (ring, complete, star, complete bipartite, hypercube, torus with
    equal sides), it is the optimum, in closed form from the Laplacian's eigenvalues. Otherwise
    CLARABEL solves the semidefinite program: seconds for 60 agents, minutes for 150.

    Errors as `check_graph`; ValueError for more than 1500 agents, or if the solver fails;
    ImportError if cvxpy is needed and not installed.
    """
    edges = adjacency(graph)
    n = edges.shape[0]
    if n > _LARGEST:
        raise ValueError(
            f"fastest weights are computed for up to {_LARGEST} agents, got {n}; {_ELSE}"
        )
    once = upper(edges)
    problem = _Problem(n, once.row.astype(np.intp), once.col.astype(np.intp), nonnegative)
    if n == 1:
        return FastestWeights(with_diagonal(edges, np.ones(1)), 0.0, 0.0)
    constant = _constant(problem, edges)
    return constant if constant.certified_gap <= _EXACT else _optimised(problem)


def fmmc_weights(graph: nx.Graph[int] | Adjacency) -> Weights:
    """The fastest mixing W >= 0, shape (n, n). See `fastest_weights` for its certificate and its
    errors."""
    return fastest_weights(graph).W


def fdla_weights(graph: nx.Graph[int] | Adjacency) -> Weights:
    """The fastest averaging W with weights of any sign, shape (n, n). See `fastest_weights` for the
    errors."""
    return fastest_weights(graph, nonnegative=False).W


def _constant(problem: _Problem, edges: Weights) -> FastestWeights:
    """One weight for all edges, with a dual point from the projectors on the extreme eigenspaces of
    the Laplacian."""
    degrees = row_sums(edges)
    values, vectors = np.linalg.eigh(np.diag(degrees) - dense(edges))
    second = values[1]
    largest = values[-1]
    at_second = _projector(vectors[:, 1:], values[1:], second)
    best = 2 / (second + largest)
    weight = min(best, 1 / degrees.max()) if problem.nonnegative else best
    if weight < best:
        dual = at_second
    else:
        at_largest = _projector(vectors[:, 1:], values[1:], largest)
        dual = (largest * at_second - second * at_largest) / (second + largest)
    return _certified(problem, np.full(len(problem.tails), weight), dual)


def _projector(vectors: Vector, values: Vector, value: float) -> Vector:
    """The projector on the eigenspace of ``value``, divided by its dimension."""
    space = vectors[:, np.abs(values - value) <= _SAME_EIGENVALUE * values[-1]]
    projector: Vector = space @ space.T / space.shape[1]
    return projector


def _certified(problem: _Problem, weights: Vector, dual: Vector) -> FastestWeights:
    W = check_weights(on_edges(problem.n, problem.tails, problem.heads, weights))
    rest = dense(W) - 1 / problem.n
    sigma = float(np.abs(np.linalg.eigvalsh(rest)).max())
    return FastestWeights(W, sigma, _lower_bound(problem, dual))


def _lower_bound(problem: _Problem, dual: Vector) -> float:
    """The lower bound of the module docstring from any symmetric matrix ``dual``, shape (n, n),
    after it is made feasible."""
    i = problem.tails
    j = problem.heads
    Y = (dual + dual.T) / 2
    if not problem.nonnegative:
        Y[i, j] = Y[j, i] = (Y[i, i] + Y[j, j]) / 2
    Y -= Y.mean(axis=0)
    Y -= Y.mean(axis=1)[:, None]
    Y /= max(float(np.abs(np.linalg.eigvalsh(Y)).sum()), np.finfo(float).tiny)
    gained = _cover(problem, Y[i, i] + Y[j, j] - 2 * Y[i, j]) if problem.nonnegative else 0.0
    return max(0.0, float(np.trace(Y)) - gained)


def _cover(problem: _Problem, gains: Vector) -> float:
    """sum z for z >= 0 with z_i + z_j >= gain on every edge: nearly the least sum, and feasible
    even if the solver's z is not."""
    covers: Any = -_incidence(problem).T.tocsc()
    found = optimize.linprog(np.ones(problem.n), covers, -gains, bounds=(0, None))
    z = np.full(problem.n, max(0.0, gains.max() / 2))
    if found.x is not None:
        z = np.maximum(found.x, 0)
    missing = float((gains - z[problem.tails] - z[problem.heads]).max())
    return float(z.sum()) + problem.n * max(0.0, missing / 2)


def _incidence(problem: _Problem) -> Weights:
    """The incidence matrix of agents and edges, shape (n, edges)."""
    m = len(problem.tails)
    rows = np.concatenate([problem.tails, problem.heads])
    columns = np.tile(np.arange(m), 2)
    incidence: Weights = sparse.csr_array((np.ones(2 * m), (rows, columns)), shape=(problem.n, m))
    return incidence


def _optimised(problem: _Problem) -> FastestWeights:
    LOG.info("fastest weights of %d agents and %d edges", problem.n, len(problem.tails))
    weights, dual = _solve(problem)
    if problem.nonnegative:
        weights = np.maximum(weights, 0)
        weights /= max(1.0, float(np.asarray(_incidence(problem) @ weights).max()))
    return _certified(problem, weights, dual)


def _solve(problem: _Problem) -> tuple[Vector, Vector]:
    """Solve the semidefinite program: minimise s with -s I <= W - 11'/n <= s I; the weights and the
    difference of the duals."""
    if find_spec("cvxpy") is None:
        raise ImportError(
            f"fmmc and fdla weights need cvxpy on this graph: pip install cvxpy, or {_ELSE}"
        )
    n, i, j, _ = problem
    m = len(i)
    places = np.concatenate([i * n + i, j * n + j, i * n + j, j * n + i])
    values = np.repeat([-1.0, -1.0, 1.0, 1.0], m)
    change = sparse.csr_array((values, (places, np.tile(np.arange(m), 4))), shape=(n * n, m))
    weights = cp.Variable(m)
    s = cp.Variable()
    disagreement = np.eye(n) - 1 / n + cp.reshape(change @ weights, (n, n), order="C")
    above = s * np.eye(n) - disagreement >> 0
    below = s * np.eye(n) + disagreement >> 0
    constraints = [above, below]
    if problem.nonnegative:
        constraints += [weights >= 0, _incidence(problem) @ weights <= 1]
    program = cp.Problem(cp.Minimize(s), constraints)
    try:
        program.solve(solver=cp.CLARABEL)
        if weights.value is None:
            raise cp.SolverError(program.status)
    except cp.SolverError as error:
        raise ValueError(f"CLARABEL found no fastest weights: {error}; {_ELSE}") from error
    return np.asarray(weights.value), np.asarray(above.dual_value - below.dual_value)
