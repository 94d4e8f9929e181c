"""Retractions to the Stiefel manifold: polar factors and orthonormal factors of stacked arrays
``(n, d, r)``.

    polar(y) = y (y^T y)^{-1/2}, the nearest point of St(d, r); R_x(v) = polar(x + v) is a retraction of second order.
    qr(y) = Q of y = Q R with diag(R) > 0; R_x(v) = qr(x + v) is a retraction of first order.

Absil, Mahony & Sepulchre, "Optimization algorithms on matrix manifolds", 2008, example 4.1.3; of
second order because it projects: Absil & Malick, "Projection-like retractions on matrix
manifolds", 2012.

A method that uses y only through its Gram matrix y^T y has errors of the machine precision times
cond(y^T y) = cond(y)^2. It is used only where that number is known to be small: by ``delta = ||y^T
y - I||_F``, since cond <= (1 + delta) / (1 - delta), or by the eigenvalues. Otherwise the singular
value decomposition or Householder's QR is used.

The fast methods take two products with y and a few of r x r matrices:

- polar: the binomial series of (I + e)^{-1/2} with e = y^T y - I, of the least degree k in a table
  whose remainder, at most ``|binom(-1/2, k + 1)| delta^{k+1} / (1 - delta)``, is below 2^-53, by
  the scheme of Paterson & Stockmeyer (1973). Where no degree is enough, y is divided by the root
  mean square of its singular values (polar(c y) = polar(y)), so that e has trace zero, and
  Newton-Schulz steps z = I - e / 2, I + e <- z (I + e) z precede the series: they leave e^2 (e - 3
  I) / 4.
- Cholesky-QR: q = y u with u upper triangular, the inverse of the Cholesky factor of y^T y, by
  Newton's iteration u <- u (I - up(h)), h = u^T y^T y u - I, where up is the upper triangle with
  half the diagonal. It leaves an error of norm at most ``3/2 delta^2 + delta^3 / 2``, since
  ``||up(h)||_F <= ||h||_F / sqrt(2)``. No pivot can break down.

The number of an agent's steps depends on its own delta alone. If y is not finite, the agent's slice
is NaN, and is not passed to LAPACK, for which NumPy raises for a whole stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import comb
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from ..numerics.ordered_sums import norms, sums
from ..protocols import Array
from ..protocols import Polar as Polar

Way = Callable[..., Array]
"""A function of stacked arrays, with the agent axis first."""
SERIES = (
    *((1, 1, 1.72e-8), (2, 1, 7.08e-6), (2, 2, 8.52e-4)),
    *((2, 3, 6.56e-3), (3, 3, 3.01e-2), (4, 4, 0.128)),
)
"""The powers of e that are formed, the number of blocks of as many terms (the degree is the
product), and the largest delta."""
STEPS = ((1, 0.388), (2, 0.651), (3, 0.825))
"""The Newton-Schulz steps before the longest series, and the largest delta."""
FACTOR_STEPS = (8.6e-9, 7.57e-5, 7.09e-3, 6.79e-2, 0.205, 0.349, 0.449)
"""The largest delta with which 1, 2, ... steps find the inverse Cholesky factor."""
DIRECTIONLESS = 1e-12
"""The share of the largest singular value at or below which rounding errors decide the singular
vectors."""
CONDITION = 128.0
"""The largest cond(y^T y) for a polar factor from eigenvalues: it errs by a few times 2^-52
CONDITION = 3e-14."""

_SHORT = 3
"""The number of steps to the inverse Cholesky factor above which LAPACK is faster."""
_SYRK_COLUMNS = 48
_BLOCK_NUMBERS, _BLOCK_AGENTS = 1 << 15, 16
"""The least numbers of entries and agents in a block: for 10,000 agents of 50 x 20, blocks take
half the time of one piece."""
_quiet = np.errstate(over="ignore", invalid="ignore", divide="ignore")


def gram(y: Array, spare: Array | None = None) -> Array:
    """The Gram matrices y^T y, ``(n, r, r)``; ``spare``, like y, may be overwritten."""
    right = y
    # NumPy takes BLAS's syrk where both factors are the same memory; a copy is faster.
    if y.shape[-1] <= _SYRK_COLUMNS:
        if spare is None:
            right = y.copy()
        else:
            np.copyto(spare, y)
            right = spare
    return y.swapaxes(-1, -2) @ right


def gap(y: Array, spare: Array | None = None) -> Array:
    """The gaps y^T y - I, ``(n, r, r)``; ``spare``, like y, may be overwritten."""
    return plus(gram(y, spare), -1.0)


def gap_with(x: Array, bx: Array) -> Array:
    """Return the gaps x^T B x - I, ``(n, r, r)``, made exactly symmetric.

    ``bx`` is B x.
    """
    return plus(sym(x.swapaxes(-1, -2) @ bx), -1.0)


def named(argument: str, name: str, names: Sequence[str]) -> Callable[[Array], Array]:
    """Return the function called ``name`` in ``names``.

    Raises ValueError for another name; the message calls it ``argument``.
    """
    if name not in names:
        raise ValueError(f"{argument} must be one of {', '.join(names)}, got {name!r}")
    return _FUNCTIONS[name]


def in_blocks(function: Callable[..., Array], *stacks: Array) -> Array:
    """Apply a function to slices of agents whose temporary arrays stay in cache.

    The result is shaped like the first stack.
    """
    n = len(stacks[0])
    size = max(_BLOCK_AGENTS, _BLOCK_NUMBERS // stacks[0][0].size)
    if n <= size or type(stacks[0]) is not np.ndarray:  # a device has no cache to stay in
        return function(*stacks)
    out = np.empty_like(stacks[0])
    for start in range(0, n, size):
        out[start : start + size] = function(*[stack[start : start + size] for stack in stacks])
    return out


@_quiet
def polar(y: Array) -> Array:
    """The polar factor by the fastest accurate method: series, series after scaling and
    Newton-Schulz steps, eigh, SVD."""
    if y.shape[-1] == 1:
        return _normalised(y)
    spare = np.empty_like(y)
    e = gap(y, spare)
    return _per_kind(_kinds(_REACHED, e), (*_NEAR, _by_scaled_series), y, e, spare)


@_quiet
def polar_svd(y: Array) -> Array:
    """Return the polar factor U V^T of y = U S V^T, for any finite y.

    If y is rank-deficient, it is one of the nearest points. It is NaN for agents where y is not
    finite.
    """
    return _where_finite(_by_svd, y)


@_quiet
def polar_eigh(y: Array) -> Array:
    """The polar factor from the eigenvectors of y^T y; by SVD where cond(y^T y) is above
    CONDITION."""
    return _by_eigh(y, gram(y))


@_quiet
def qr(y: Array) -> Array:
    """The factor Q of y = Q R with diag(R) > 0, by Householder's reflections, for any y whose
    columns' norms do not overflow."""
    return _where_finite(_householder, y)


@_quiet
def cholesky_qr(y: Array) -> Array:
    """The factor Q of y = Q R with diag(R) > 0, from the Cholesky factor R of y^T y; by `qr` where
    y^T y is far from I."""
    spare = np.empty_like(y)
    e = gap(y, spare)
    return _per_kind(_kinds(_FACTORED, e), _FACTORS, y, e, spare)


@_quiet
def factor(name: str, e: Array) -> Array | None:
    """Return the S with which a retraction brings y to y S, for methods of a single agent.

    ``e`` is y^T y - I, and may be overwritten. S is accurate for any y^T y >= I, for example if
    y is a feasible point plus a tangent: then cond(y^T y) <= 1 + ||e||_F. Returns None if that
    is above `CONDITION`, or not a number.
    """
    size = norms(e)
    if not size.max() < CONDITION - 1.0:
        return None
    one = plus(np.zeros_like(e), 1.0)
    reached = _REACHED
    ways = (*_NEAR, _by_root)
    if name not in get_args(Polar):
        reached = _FACTORED[:_SHORT]
        ways = (*_FACTORS[:_SHORT], _by_cholesky)
    return _per_kind(np.searchsorted(reached, size), ways, one, e, np.empty_like(e))


def _by_root(y: Array, e: Array, _: Array) -> Array:
    """The product y (I + e)^{-1/2} from the eigenvectors of e."""
    w, u = np.linalg.eigh(e)
    return y @ ((u / np.sqrt(1.0 + w)[:, None, :]) @ u.swapaxes(-1, -2))


def _by_cholesky(y: Array, e: Array, _: Array) -> Array:
    """The product y U, with U the inverse of the Cholesky factor of I + e."""
    return y @ np.linalg.inv(np.linalg.cholesky(plus(e, 1.0))).swapaxes(-1, -2)


@_quiet
def times_root(y: Array, e: Array, far: Way) -> Array:
    """The product ``y (I + e)^{-1/2}``, for any symmetric e ``(n, r, r)``, related to y or not.

    ``far(y, e, spare)`` serves agents whose Gram matrix is too far from I for the table, or not
    finite.
    """
    return _per_kind(_kinds(_REACHED, e), (*_NEAR, far), y, e, np.empty_like(y))


def _kinds(reached: Array, e: Array) -> NDArray[np.intp]:
    """The index ``(n,)`` of the first entry of a table valid for delta = ||e||_F; its length if
    there is none or delta is NaN."""
    return np.searchsorted(reached, norms(e))


def _per_kind(kinds: NDArray[Any], functions: Sequence[Way], y: Array, *more: Array) -> Array:
    """Apply ``functions[kind]`` to each agent's slices of the arrays, in one call for all agents of
    a kind; like y."""
    present: list[int] = sorted(set(kinds.tolist()))
    if len(present) == 1:
        return functions[present[0]](y, *more)
    out = np.empty_like(y)
    for kind in present:
        agents = np.flatnonzero(kinds == kind)
        out[agents] = functions[kind](y[agents], *[array[agents] for array in more])
    return out


def _where_finite(function: Callable[[Array], Array], y: Array) -> Array:
    """Apply the function to the agents with finite entries; NaN for the others."""
    largest = np.abs(y.reshape(len(y), -1)).max(-1)
    return _per_kind(np.isfinite(largest), (lambda y: np.full_like(y, np.nan), function), y)


def diagonals_of(squares: Array) -> Array:
    """The diagonals ``(n, r)`` of ``(n, r, r)``, a view."""
    return squares.reshape(len(squares), -1)[:, :: squares.shape[-1] + 1]


def plus(squares: Array, number: float | Array) -> Array:
    """Add a number, a number of each agent ``(n, 1)``, or a diagonal ``(r,)``, to the diagonals
    ``(n, r, r)``, in place."""
    diagonals = diagonals_of(squares)
    diagonals += number
    return squares


def sym(a: Array) -> Array:
    """Return the symmetric part of each matrix, ``(n, r, r)``, in a new array."""
    return 0.5 * (a + a.swapaxes(-1, -2))


def _by_svd(y: Array) -> Array:
    u, _, vt = np.linalg.svd(y, full_matrices=False)
    return u @ vt


@_quiet
def matrix_sign(y: Array) -> Array:
    """The part U V^T of y = U S V^T over the singular values above `DIRECTIONLESS` times the
    largest; zero for y = 0."""
    return _where_finite(_signs, y)


def _signs(y: Array) -> Array:
    u, s, vt = np.linalg.svd(y, full_matrices=False)
    return (u * (s > DIRECTIONLESS * s[:, :1])[:, None, :]) @ vt


def _alone(function: Callable[[Array], Array]) -> Callable[..., Array]:
    """The function of y, with further arguments that it ignores."""
    return lambda y, *_: function(y)


def _in_range(size: Array) -> NDArray[np.bool_]:
    """True if a Gram matrix of this size is free of overflow, of digits lost to underflow, and of
    NaN."""
    return (size > 1e-280) & (size < 1e300)


def _normalised(y: Array) -> Array:
    """The polar factor of a single column."""
    squares = gram(y)
    usable = _in_range(squares[:, 0, 0])
    ways = _alone(polar_svd), lambda y, squares: y / np.sqrt(squares)
    return _per_kind(usable, ways, y, squares)


def _by_eigh(y: Array, squares: Array) -> Array:
    """The polar factor from the eigenvalues w and eigenvectors u of y^T y, or by SVD."""
    usable = _in_range(diagonals_of(squares).max(-1))
    w, u = np.linalg.eigh(np.where(usable[:, None, None], squares, np.eye(y.shape[-1])))
    accurate = usable & (w[:, -1] <= CONDITION * w[:, 0])
    root = (u / np.sqrt(np.where(accurate[:, None], w, 1.0))[:, None, :]) @ u.swapaxes(-1, -2)
    return _per_kind(accurate, (_alone(polar_svd), np.matmul), y, root)


def _by_scaled_series(y: Array, _: Array, spare: Array) -> Array:
    """The polar factor of y / s, with s^2 the mean of the eigenvalues of y^T y."""
    mean = sums(y * y) / y.shape[-1]
    usable = _in_range(mean)
    scaled = y / np.sqrt(np.where(usable, mean, 1.0))[:, None, None]
    e = gap(scaled, spare)
    kinds = np.where(usable, _kinds(_REACHED_SCALED, e), len(_REACHED_SCALED) + 1)
    far = (lambda y, e, _: _by_eigh(y, plus(e, 1.0)), _alone(polar_svd))
    return _per_kind(kinds, (*_NEAR, *_FAR, *far), scaled, e, spare)


def _by_series(y: Array, e: Array, out: Array, steps: int, powers: int, blocks: int) -> Array:
    """The product y (I + e)^{-1/2} by Newton-Schulz steps, then the binomial series of degree
    ``powers * blocks``."""
    done = []
    for _ in range(steps):
        done.append(_series(e, 1, 1))
        square = e @ e
        e = 0.25 * (square @ e) - 0.75 * square
    root = _series(e, powers, blocks)
    for step in done:
        root = root @ step
    return np.matmul(y, root, out=out)


def _series(e: Array, powers: int, blocks: int) -> Array:
    """The binomial series of (I + e)^{-1/2}, fresh."""
    if powers * blocks == 1:
        return plus(-0.5 * e, 1.0)
    n, r, _ = e.shape
    heads, tails = _coefficients(powers, blocks)
    power = np.empty_like(e, shape=(n, powers, r, r))
    power[:, 0] = e
    for j in range(1, powers):
        np.matmul(power[:, j - 1], e, out=power[:, j])
    terms = tails @ power.reshape(n, powers, r * r)
    terms[:, :, :: r + 1] += heads
    terms = terms.reshape(n, blocks, r, r)
    root = terms[:, -1]
    for b in reversed(range(blocks - 1)):
        root = power[:, -1] @ root
        root += terms[:, b]
    return root


@cache
def _coefficients(powers: int, blocks: int) -> tuple[Array, Array]:
    """The binomial series in blocks: the constants, ``(blocks, 1)``, and the factors of e, e^2,
    ..., ``(blocks, powers)``.

    Every block but the last leaves its highest power to the next one's constant.
    """
    degree = powers * blocks
    series = np.array([(-1) ** k * comb(2 * k, k) / 4**k for k in range(degree + 1)])
    tails = series[1:].reshape(blocks, powers).copy()
    tails[:-1, -1] = 0.0
    return series[:degree:powers, None], tails


def _by_factor(y: Array, e: Array, out: Array, steps: int) -> Array:
    """The product y u, with u the inverse of the Cholesky factor of I + e; e is overwritten."""
    half = _upper_half(y.shape[-1])
    u = plus(-half * e, 1.0)
    squares = plus(e, 1.0)
    for _ in range(steps - 1):
        u -= u @ (half * plus(u.swapaxes(-1, -2) @ (squares @ u), -1.0))
    return np.matmul(y, u, out=out)


@cache
def _upper_half(r: int) -> Array:
    """The matrix with ones above the diagonal and halves on it."""
    return np.triu(np.ones((r, r))) - 0.5 * np.eye(r)


def _householder(y: Array) -> Array:
    q, upper = np.linalg.qr(y)
    q *= np.where(np.diagonal(upper, axis1=-2, axis2=-1) < 0.0, -1.0, 1.0)[:, None, :]
    return q


_NEAR: list[Way] = [partial(_by_series, steps=0, powers=j, blocks=b) for j, b, _ in SERIES]
_FAR = [partial(_by_series, steps=steps, powers=4, blocks=4) for steps, _ in STEPS]
_REACHED = np.array([delta for _, _, delta in SERIES])
_REACHED_SCALED = np.array([*_REACHED, *[delta for _, delta in STEPS]])
_FACTORS: list[Way] = [partial(_by_factor, steps=1 + n) for n in range(len(FACTOR_STEPS))]
_FACTORS.append(_alone(qr))
_FACTORED = np.array(FACTOR_STEPS)
_POLAR = {"polar": polar, "polar-svd": polar_svd, "polar-eigh": polar_eigh}
_FUNCTIONS = {**_POLAR, "qr": qr, "cholesky-qr": cholesky_qr}
