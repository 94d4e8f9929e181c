"""The exact linear rate of DRFGT and of push-pull near a solution, from the agents' own linearised
landing fields.

Near a point x* where the landing fields of the agents sum to zero, DRFGT (paper 004 (10)) is linear
in the agents' errors e and trackers y: with J_i the Jacobian of agent i's landing field at x* and A
the diagonal matrix of steps,

    combine-then-adapt:  e+ = W e - A y,    y+ = W y + J (e+ - e),

and push-pull on a directed graph, with row-stochastic P and column-stochastic Q, is e+ = P (e - A
y), y+ = Q y + J (e+ - e). The sum sum_i (y_i - J_i e_i) is constant and starts at zero, so its
eigenvalues 1 are left out. Where the solutions form a manifold (x R for PCA) the mean Jacobian has
a kernel: a common move of all agents along it has eigenvalue 1 too and is left out. The rate is the
largest modulus of the other eigenvalues. The J_i are not symmetric: a landing field is not a
gradient.

    DLambda(x)[v] = skew(H[v] x^T + G v^T) x + skew(G x^T) v + lam (v N + x (v^T x + x^T v)),   N = x^T x - I.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from topologies.canonical import WeightsLike, canonical_weights
from topologies.directed.weights import DirectedWeights
from topologies.line.memory import dense
from topologies.spectra.tracking_rate import Order, iteration_pencil, push_pull_pencil
from topologies.spectra.tracking_rate import conserved_complement as complement

from ...numerics.ordered_sums import norms
from ...protocols import Array, Landing, Problem
from .merit import hessian_product

_P = Problem[object]
_KERNEL = 1e-7
_NEWTON = 50


class LocalRate(NamedTuple):
    """The convergence of DRFGT, or of push-pull, near a solution.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> import topologies as tp
    >>> from decentorth import theory
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 5)) * np.arange(1, 6)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> W = tp.metropolis_weights(tp.ring(4))
    >>> x = theory.solution(problem, np.linalg.svd(samples)[2][:2].T)
    >>> found = theory.local_rate(problem, W, x, np.full(4, 0.01), np.full(4, 10.0))
    >>> bool(0 < found.rate < 1)
    True
    """

    rate: float
    """The asymptotic factor of the errors per iteration."""
    symmetries: int
    """The dimension of the manifold of solutions through this one."""


def landing_jacobian(problem: _P, x: Array, penalty: Array) -> Array:
    """``(n_local, d r, d r)``: the Jacobian of each agent's landing field on St(d, r) at its point,
    points flattened by rows.

    ``x`` is ``(n_local, d, r)`` and ``penalty`` is ``(n_local,)``.
    """
    n, d, r = x.shape
    gradient = problem.gradient(x)
    xt = x.swapaxes(-1, -2)
    gt = gradient.swapaxes(-1, -2)
    weight = penalty[:, None, None]
    gram = xt @ x
    gap = gram - np.eye(r)
    jacobian = np.empty((n, d * r, d * r))
    for column in range(d * r):
        v = np.zeros((d, r))
        v.flat[column] = 1.0
        hv = hessian_product(problem, x, np.repeat(v[None], n, axis=0))
        hvt = hv.swapaxes(-1, -2)
        change = hv @ gram - x @ (hvt @ x) + gradient @ (v.T @ x) - v @ (gt @ x)
        change = 0.5 * (change + gradient @ (xt @ v) - x @ (gt @ v))
        change += weight * (v @ gap + x @ (v.T @ x + xt @ v))
        jacobian[:, :, column] = change.reshape(n, -1)
    return jacobian


def solution(problem: Problem[Landing], x: Array, penalty: float = 1.0) -> Array:
    """``(d, r)``: the zero of the mean landing field near ``x``, by Newton's method with the
    pseudo-inverse (symmetries stay put).

    Raises ValueError when Newton's method does not converge.
    """
    point = x.copy()
    weights = np.full(problem.n_local, penalty)
    shrinking = np.inf
    for _ in range(_NEWTON):
        points = np.repeat(point[None], problem.n_local, axis=0)
        field = problem.constraint.landing(points, problem.gradient(points), weights).mean(0)
        jacobian = landing_jacobian(problem, points, weights).mean(0)
        change = np.linalg.lstsq(jacobian, field.reshape(-1), rcond=_KERNEL)[0].reshape(point.shape)
        length = float(norms(change[None])[0])
        point -= change
        if length < 1e-9 and length >= 0.5 * shrinking:
            return point
        shrinking = length
    raise ValueError(
        f"Newton's method has not converged (last correction {shrinking:.2g}): start nearer to a "
        "solution"
    )


def local_rate(
    problem: _P,
    W: WeightsLike | DirectedWeights,
    x: Array,
    step: Array,
    penalty: Array,
    order: Order = "combine-then-adapt",
) -> LocalRate:
    """The linear rate of DRFGT at a solution; dense, O((n d r)^3), for small problems with all
    agents in this process.

    ``W`` is ``(n, n)``; ``x``, ``(d, r)``, is a zero of the mean landing field, see `solution`;
    ``step`` and ``penalty``, ``(n,)``, are those of each agent. With the weights of a directed
    graph it is the rate of push-pull, which has one order.
    """
    n = problem.n_agents
    jacobians = landing_jacobian(problem, np.repeat(x[None], n, axis=0), penalty)
    size = jacobians.shape[-1]
    if isinstance(W, DirectedWeights):
        base, slope = push_pull_pencil(dense(W.A), dense(W.B), jacobians)
    else:
        base, slope = iteration_pencil(dense(canonical_weights(W)), jacobians, order)
    slope[:, n * size :] *= np.repeat(step, size)
    basis = complement(jacobians.swapaxes(-1, -2))
    values = np.linalg.eigvals(basis.T @ (base - slope) @ basis)
    singular = np.linalg.svd(jacobians.mean(0), compute_uv=False)
    symmetries = int((singular < _KERNEL * singular[0]).sum())
    others = values[np.argsort(np.abs(values - 1.0))][symmetries:]
    return LocalRate(float(np.abs(others).max()), symmetries)
