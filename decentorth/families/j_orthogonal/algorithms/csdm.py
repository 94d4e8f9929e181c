"""CSDM: minimisation over the factors of the hyperbolic CS decomposition of a J-orthogonal matrix.

A rival of paper 001, "Block coordinate descent methods for optimization under J-orthogonality
constraints with applications" (CSDM, section 6), whose Proposition 2.2 says that every x with x^T
J x = J, J = diag(I_p, -I_q), is

    x = U H(mu) V^T,   U = diag(U1, U2), V = diag(V1, V2) orthogonal,   H(mu) = [[C, 0, S], [0, I, 0], [S, 0, C]]

with C = cosh(mu), S = sinh(mu). With T = U^T G V and G the gradient of f, the slopes of f(U H V^T)
along U A and V A, A skew, are

    the skew parts of the diagonal blocks of T H and of T^T H,
    sinh(mu_i) (T_ii + T_{p+i,p+i}) + cosh(mu_i) (T_{i,p+i} + T_{p+i,i})       along mu_i

and each entry makes Adagrad's step, a = rate slope / (sqrt(sum of slope^2) + 1e-10), against its
slope:

    U <- U cay(a), V <- V cay(a), mu <- mu - a,     cay(a) = (I + a/2)^{-1} (I - a/2)

    U1, U2, V1, V2, mu   state.factors                                   sums of slope^2   state.squares
    x                    state.x                                        rate              step_size

Differences from the paper: it says only that Adagrad finds U, V and mu, with rates from 5e-4 to
5e-3. These rates stall far from a minimiser; 0.2 does not. V is constant for f(x) = tr(x^T H x)/2,
which does not depend on V. Here pairs are rows i and p + i, and any order of signs is sorted first.
Each of several matrices in one point (`protocols.Signatures`) has its own factors, and the free
rows below them make a step of `adam`. One singular value decomposition of the start's upper right
block gives its factors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

import numpy as np

from decentorth.algorithms.common.method import SingleAgentMethod
from decentorth.protocols import Array, Index, Network, Problem, Signatures, Streams, TraceForm
from decentorth.settings import Positive

from . import adam
from .adam import AdamMoments

SMALL = 1e-10
"""Added to Adagrad's root, so that a slope of zero does not move."""


class CSDMState(NamedTuple):
    """The state of CSDM.

    The point x is ``(1, n, n)``, or a stack of matrices. Its factors are for the signs +1 first.
    Further entries are squares (Adagrad's sums) and Adam's moments of the free rows.
    """

    x: Array
    factors: Factors
    squares: Factors
    moments: AdamMoments
    k: int
    gradients: int


class Factors(NamedTuple):
    """The factors of a hyperbolic CS decomposition, or arrays of their shapes.

    U1 and V1 are ``(1, copies, p, p)``, U2 and V2 ``(1, copies, q, q)``, and mu is
    ``(1, copies, min(p, q))``.
    """

    u1: Array
    u2: Array
    v1: Array
    v2: Array
    mu: Array

    def map(self, function: Callable[..., Array], *others: Factors) -> Factors:
        """Apply ``function`` to each factor and the corresponding factors of ``others``."""
        return Factors(*[function(*parts) for parts in zip(self, *others, strict=True)])


P = Problem[Signatures]


@dataclass(frozen=True, kw_only=True)
class CSDM(SingleAgentMethod):
    """Adagrad on the hyperbolic CS decomposition, for a single agent under J-orthogonality (a rival
    in paper 001).

    Parameters
    ----------
    step_size
        Adagrad's rate, of angles and of hyperbolic angles; published 5e-4 to 5e-3.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HEVPSettings(dimension=10).problem(1, seed=0)
    >>> method = do.CSDM()
    >>> result = do.solve(problem, method, iterations=50)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Signatures,)

    step_size: Positive = 0.2
    learning_rate: adam.LearningRate = adam.LEARNING_RATE

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> CSDMState:
        constraint = problem.constraint
        order, p = _sorted(constraint.each.signs)
        factors = _decomposed(_matrices(constraint, x0)[..., order[:, None], order], p)
        factors = factors.map(np.ascontiguousarray)
        moments = adam.begin(constraint, x0)
        return CSDMState(x0.copy(), factors, factors.map(np.zeros_like), moments, 0, 0)

    def step(self, problem: P, network: Network, streams: Streams, state: CSDMState) -> CSDMState:
        constraint = problem.constraint
        gradient = problem.gradient(state.x)
        order, _ = _sorted(constraint.each.signs)
        factors = state.factors
        still = isinstance(problem, TraceForm)
        g = _matrices(constraint, gradient)[..., order[:, None], order]
        slopes = _slopes(g, factors, still)
        rate = self.step_size
        squares = state.squares.map(lambda total, slope: total + slope * slope, slopes)
        a = slopes.map(lambda slope, total: rate * slope / (np.sqrt(total) + SMALL), squares)
        moving = 2 if still else 4
        turned = map(_turned, factors[:moving], a[:moving])
        following = Factors._make([*turned, *factors[moving:4], factors.mu - a.mu])
        _matrices(constraint, state.x)[..., order[:, None], order] = _product(following)
        adam.descend(constraint, state.x, gradient, state.moments, state.k, self.learning_rate)
        k = state.k + 1
        spent = state.gradients + 1
        return CSDMState(state.x, following, squares, state.moments, k, spent)


def _matrices(constraint: Signatures, x: Array) -> Array:
    """The matrices of a point, ``(1, copies, n, n)``, as a view."""
    n = x.shape[-1]
    return x[:, : constraint.copies * n].reshape(1, -1, n, n)


def _sorted(signs: Array) -> tuple[Index, int]:
    """The rows of sign +1, then those of sign -1, and the number of the former."""
    return np.argsort(-signs, kind="stable"), len(np.flatnonzero(signs > 0.0))


def _decomposed(x: Array, p: int) -> Factors:
    """The factors of a feasible x: x12 = U1 S V2^T, x11 = U1 C V1^T, x22 = U2 C V2^T, where x11
    x11^T = I + x12 x12^T."""
    q = x.shape[-1] - p
    u1, s, v2t = np.linalg.svd(x[..., :p, p:])
    v2 = v2t.swapaxes(-1, -2)
    mu = np.arcsinh(s)
    v1 = x[..., :p, :p].swapaxes(-1, -2) @ u1 / _cosh(mu, p)[..., None, :]
    u2 = x[..., p:, p:] @ v2 / _cosh(mu, q)[..., None, :]
    return Factors(u1, u2, v1, v2, mu)


def _cosh(mu: Array, size: int) -> Array:
    """The values cosh(mu), and ones for the rows that have no mu, ``(..., size)``."""
    c = np.ones((*mu.shape[:-1], size))
    c[..., : mu.shape[-1]] = np.cosh(mu)
    return c


def _mixed(first: Array, second: Array, mu: Array) -> tuple[Array, Array]:
    """The product (first, second) H for two blocks of columns, with the columns i and p + i of a
    matrix."""
    m = mu.shape[-1]
    c = np.cosh(mu)[..., None, :]
    s = np.sinh(mu)[..., None, :]
    one = first.copy()
    two = second.copy()
    one[..., :m] = first[..., :m] * c + second[..., :m] * s
    two[..., :m] = first[..., :m] * s + second[..., :m] * c
    return one, two


def _product(factors: Factors) -> Array:
    """The product U H V^T."""
    u1, u2, v1, v2, mu = factors
    p = u1.shape[-1]
    q = u2.shape[-1]
    copies = mu.shape[:-1]
    x = np.empty((*copies, p + q, p + q))
    top = (u1, np.zeros((*copies, p, q)))
    bottom = (np.zeros((*copies, q, p)), u2)
    for rows, block in ((slice(0, p), top), (slice(p, p + q), bottom)):
        left, right = _mixed(block[0], block[1], mu)
        np.matmul(left, v1.swapaxes(-1, -2), out=x[..., rows, :p])
        np.matmul(right, v2.swapaxes(-1, -2), out=x[..., rows, p:])
    return x


def _slopes(g: Array, factors: Factors, still: bool) -> Factors:
    """The slopes of f along each factor; zeros along V if ``still``."""
    u1, u2, v1, v2, mu = factors
    p = u1.shape[-1]
    upper = u1.swapaxes(-1, -2) @ g[..., :p, :]
    lower = u2.swapaxes(-1, -2) @ g[..., p:, :]
    t11 = upper[..., :p] @ v1
    t12 = upper[..., p:] @ v2
    t21 = lower[..., :p] @ v1
    t22 = lower[..., p:] @ v2
    m = mu.shape[-1]
    own = _diagonal(t11)[..., :m] + _diagonal(t22)[..., :m]
    along = np.sinh(mu) * own + np.cosh(mu) * (_diagonal(t12) + _diagonal(t21))
    turns = _skew(_mixed(t11, t12, mu)[0]), _skew(_mixed(t21, t22, mu)[1])
    if still:
        return Factors(*turns, np.zeros_like(v1), np.zeros_like(v2), along)
    s11, s12, s21, s22 = (t.swapaxes(-1, -2) for t in (t11, t21, t12, t22))
    return Factors(*turns, _skew(_mixed(s11, s12, mu)[0]), _skew(_mixed(s21, s22, mu)[1]), along)


_diagonal = partial(np.diagonal, axis1=-2, axis2=-1)


def _skew(m: Array) -> Array:
    return 0.5 * (m - m.swapaxes(-1, -2))


def _turned(u: Array, a: Array) -> Array:
    """The product u cay(a) for skew a, orthogonal if u is."""
    one = np.eye(u.shape[-1])
    return u @ np.linalg.solve(one + 0.5 * a, one - 0.5 * a)
