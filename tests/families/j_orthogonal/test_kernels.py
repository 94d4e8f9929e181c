"""The kernels for pairs of rows against their definitions, and their 2 x 2 subproblems against
dense scans in every family."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from decentorth.families.j_orthogonal.kernels import pair_kernels
from decentorth.families.j_orthogonal.kernels.subproblem import BASIS, Solution, Sweep, ray_matrix
from decentorth.protocols import Array, Index
from tests.support.j_orthogonal import signs
from tests.support.mpi import ROOT


def drawn(n: int, k: int, seed: int = 0) -> tuple[Index, Index]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n, k)
    return first, (first + 1 + rng.integers(0, n - 1, k)) % n


def definite(n: int, condition: float = 100.0, seed: int = 0) -> Array:
    q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    c: Array = (q * np.logspace(0.0, -np.log10(condition), n)) @ q.T
    return 0.5 * (c + c.T)


def test_gauss_seidel_stops_at_its_limit() -> None:
    """-tr(x^T C x) with a varsigma that lets it grow: no pair beyond the limit is touched, and none
    is missed before it."""
    j, (first, second) = np.array([1.0, -1.0, 1.0]), drawn(3, 400)
    x, product = np.eye(3), np.eye(3)
    done, ray = pair_kernels().gauss_seidel(
        x, product, -2.0 * definite(3), j, first, second, Sweep(0.0, False, 0.0, 2.0, 1e6)
    )
    sizes = np.diagonal(product)
    assert (ray, 0 < done < 400) == (0, True)
    assert 1e6 < sizes[first[done]] + sizes[second[done]] < 1e8
    for limit, number in ((1.9, 0), (2.0, 1)):  # of both rows together
        x, product = np.eye(3), np.eye(3)
        steps = pair_kernels().gauss_seidel(
            x, product, definite(3), j, first[:1], second[:1], Sweep(0.0, True, 0.0, 2.0, limit)
        )
        assert steps == (number, 0)
        assert np.array_equal(x, np.eye(3)) == (number == 0)


@pytest.mark.parametrize("n", [2, 5, 12, 33])
def test_jacobi_sweeps_diagonalise(n: int) -> None:
    j, C = signs(n), definite(n, 1e3)
    xt, gram = np.eye(n), C.copy()
    made, value, off = pair_kernels(), float(np.trace(C)), []
    for _ in range(9):
        fallen, i, k = made.jacobi_sweep(xt, gram, j)
        assert (i, k) == (0, 0)
        assert value - np.trace(gram) == pytest.approx(fallen, abs=1e-14 * value)
        value = float(np.trace(gram))
        off.append(float(np.abs(gram - np.diag(np.diagonal(gram))).max()))
    np.testing.assert_allclose(xt @ C @ xt.T, gram, atol=1e-13)
    np.testing.assert_allclose(xt @ np.diag(j) @ xt.T, np.diag(j), atol=1e-13)
    assert off[-1] <= 1e-14
    assert value == pytest.approx(np.abs(np.linalg.eigvals(np.diag(j) @ C)).sum(), rel=1e-12)


def test_what_rounding_makes_look_unbounded_is_not_taken_for_it() -> None:
    """w and |d| equal but for 1e-12: the exact step gives way to one of varsigma, a Jacobi step is
    cut short; both descend."""
    close = np.array([[1.0, -1.0 - 1e-12], [-1.0 - 1e-12, 1.0]])
    j, one, made = np.array([1.0, -1.0]), np.zeros(1, dtype=np.int64), pair_kernels()
    x, product, H = np.eye(2), np.eye(2), 2.0 * close
    assert made.gauss_seidel(
        x, product, H, j, one, one + 1, Sweep(0.0, True, 0.0, 4.0, np.inf)
    ) == (1, 0)
    assert np.isfinite(x).all()
    assert np.trace(x.T @ close @ x) < 2.0
    xt, gram = np.eye(2), close.copy()
    assert made.jacobi_sweep(xt, gram, j)[1:] == (0, 0)
    assert np.isfinite(xt).all()
    assert np.trace(xt @ close @ xt.T) < 1e-2


WITHOUT_NUMBA = """
import sys, warnings
sys.modules["numba"] = None
import numpy as np
from decentorth import GSJOBCD, JJOBCD, HyperbolicJacobi, solve
from tests.support.j_orthogonal import hevp, log_cosh
warnings.simplefilter("error", RuntimeWarning)
for problem, method in ((hevp(9), GSJOBCD(pairs=40)), (log_cosh(6), JJOBCD()), (hevp(9), HyperbolicJacobi())):
    print(solve(problem, method, x0=np.eye(problem.shape[0]), iterations=5).x[0].tolist())
"""


@pytest.mark.slow
def test_python_runs_the_same_loops_without_numba() -> None:
    """To rounding, after a line that says what to install."""
    pytest.importorskip("numba")
    script = WITHOUT_NUMBA.replace('sys.modules["numba"] = None\n', "")
    runs = [
        subprocess.run(
            [sys.executable, "-c", words],
            cwd=ROOT,
            env=os.environ,
            capture_output=True,
            text=True,
            timeout=300,
        )
        for words in (WITHOUT_NUMBA, script)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    assert "slower without numba: pip install numba" in runs[0].stderr
    assert "numba" not in runs[1].stderr
    for one, other in zip(*(run.stdout.splitlines() for run in runs), strict=True):
        np.testing.assert_allclose(ast.literal_eval(one), ast.literal_eval(other), atol=1e-11)


# the entries (E1, E2, sign of E1) of both families, as rows of `BASIS`
HYPERBOLIC = ((0, 1, 1.0), (2, 3, -1.0))
ORTHOGONAL = ((0, 3, 1.0), (2, 1, 1.0))
REACH = 25.0  # mu of the scans: exp(2 mu) = 5e21


def solution(hyperbolic: NDArray[np.bool_], P: Array, Q: Array) -> Solution:
    return pair_kernels().minimise(hyperbolic, vec(P) @ BASIS.T, BASIS @ Q @ BASIS.T)


def vec(v: Array) -> Array:
    """``(k, 4)``, column by column."""
    return v.swapaxes(-1, -2).reshape(-1, 4)


def objective(v: Array, P: Array, Q: Array) -> Array:
    return 0.5 * ((Q @ vec(v)[:, :, None])[:, :, 0] * vec(v)).sum(-1) + (v * P).sum((-2, -1))


def branch(hyperbolic: bool, t: Array, a: Array, b: Array, q: Array, e: Array, d: Array) -> Array:
    """a c + b s + q c^2 + d c s + e s^2 at angles, or values of mu, t."""
    if hyperbolic:
        z = np.exp(t)
        return (
            0.5 * ((a + b) * z + (a - b) / z)
            + 0.25 * ((q + e + d) * z * z + (q + e - d) / (z * z))
            + 0.5 * (q - e)
        )
    c, s = np.cos(t), np.sin(t)
    return a * c + b * s + q * c * c + d * c * s + e * s * s


def scan(hyperbolic: bool, P: Array, Q: Array, points: int = 161) -> Array:
    """``(k,)``: the least value over all branches on a grid of angles, or of mu for both signs of
    c, then on ever finer ones."""
    least = np.full(len(P), np.inf)
    for first, second, sign in HYPERBOLIC if hyperbolic else ORTHOGONAL:
        one, two = sign * BASIS[first], BASIS[second]
        a, b = (vec(P) @ one)[:, None], (vec(P) @ two)[:, None]
        quadratic = [
            z[:, None] for z in (0.5 * one @ Q @ one, 0.5 * two @ Q @ two, (Q @ two) @ one)
        ]
        for c in (1.0, -1.0) if hyperbolic else (1.0,):
            low, high = (-REACH, REACH) if hyperbolic else (0.0, 2.0 * np.pi)
            grid = np.broadcast_to(np.linspace(low, high, points), (len(P), points))
            step = (high - low) / (points - 1)
            for _ in range(9):
                values = branch(hyperbolic, grid, c * a, c * b, *quadratic)
                least = np.minimum(least, values.min(-1))
                grid = np.take_along_axis(grid, values.argmin(-1)[:, None], 1) + np.linspace(
                    -step, step, 13
                )
                step /= 6.0
    return least


def gauss(k: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal((k, 2, 2))


def positive(k: int, seed: int, ridge: float = 1e-2) -> Array:
    a = np.random.default_rng(seed).standard_normal((k, 4, 4))
    return a @ a.swapaxes(-1, -2) + ridge * np.eye(4)


def in_basis(n: Array) -> Array:
    """The Q with these values <E, F>_Q, E, F in I, X, Z, R."""
    return BASIS.T @ n @ BASIS / 4.0


def near_boundary(k: int, seed: int, gap: float) -> Array:
    """w - |d| = gap w in both hyperbolic families, at either end."""
    ends = np.sign(gauss(k, seed)[:, 0])
    n = np.broadcast_to(np.eye(4), (k, 4, 4)).copy()
    n[:, 0, 1] = n[:, 1, 0] = ends[:, 0] * (1.0 - gap)
    n[:, 2, 3] = n[:, 3, 2] = ends[:, 1] * (1.0 - gap)
    return in_basis(n)


def rank_one(k: int, seed: int) -> Array:
    u = gauss(k, seed).reshape(k, 4)
    return u[:, :, None] * u[:, None, :]


def only(vectors: list[int]) -> Callable[[int, int], Array]:
    """P in the span of some of I, X, Z, R: a = b = 0 in the family of the others."""

    def made(k: int, seed: int) -> Array:
        p = gauss(k, seed).reshape(k, 4)[:, : len(vectors)] @ BASIS[vectors]
        return np.ascontiguousarray(p.reshape(k, 2, 2).swapaxes(-1, -2))

    return made


def one_end(k: int, seed: int) -> Array:
    """a = b or a = -b in both families, at random."""
    p = gauss(k, seed).reshape(k, 4)[:, [0, 0, 2, 2]] * np.sign(gauss(k, seed + 1).reshape(k, 4))
    return np.ascontiguousarray((p @ BASIS).reshape(k, 2, 2).swapaxes(-1, -2))


FAMILIES: dict[str, Callable[[int], tuple[Array, Array]]] = {
    "random": lambda k: (gauss(k, 0), positive(k, 1)),
    "random of all sizes": lambda k: (
        gauss(k, 2) * 10.0 ** np.random.default_rng(3).uniform(-8, 8, (k, 1, 1)),
        positive(k, 4),
    ),
    "P = 0": lambda k: (np.zeros((k, 2, 2)), positive(k, 5)),
    "P = 0, d = 0": lambda k: (
        np.zeros((k, 2, 2)),
        in_basis(np.eye(4) * np.abs(gauss(2 * k, 6)).reshape(k, 1, 8)[:, :, :4]),
    ),
    "a = b = 0 in one family": lambda k: (only([0, 1])(k, 7), positive(k, 8)),
    "one linear term": lambda k: (only([0])(k, 11), positive(k, 12)),
    "a = b or a = -b": lambda k: (one_end(k, 13), positive(k, 14)),
    "d = 0, Q = I": lambda k: (gauss(k, 15), np.broadcast_to(np.eye(4), (k, 4, 4))),
    "huge linear part": lambda k: (1e9 * gauss(k, 18), positive(k, 19)),
    "Q of rank one and a little": lambda k: (gauss(k, 22), rank_one(k, 23) + 1e-3 * np.eye(4)),
    **{
        f"w - |d| = {gap:g} w": lambda k, gap=gap: (gauss(k, 24), near_boundary(k, 25, gap))  # type: ignore[misc]
        for gap in (1e-2, 1e-4, 1e-6, 1e-9)
    },
    "w - |d| = 1e-9 w, P = 0": lambda k: (np.zeros((k, 2, 2)), near_boundary(k, 26, 1e-9)),
    "w - |d| = 1e-9 w, huge linear part": lambda k: (
        1e6 * gauss(k, 27),
        near_boundary(k, 28, 1e-9),
    ),
}


@pytest.mark.parametrize("hyperbolic", [True, False], ids=["hyperbolic", "orthogonal"])
@pytest.mark.parametrize("family", FAMILIES)
def test_no_minimum_is_missed(family: str, hyperbolic: bool) -> None:
    """The values are attained by a V of the group, and no point of the scan is below them."""
    P, Q = FAMILIES[family](500)
    least = scan(hyperbolic, P, Q)
    k = len(P)
    found = solution(np.full(k, hyperbolic), P, Q)
    assert not found.ray.any()
    j = np.diag([1.0, -1.0]) if hyperbolic else np.eye(2)
    size = np.abs(found.v).max((-2, -1)) ** 2
    assert (np.abs(found.v.swapaxes(-1, -2) @ j @ found.v - j).max((-2, -1)) <= 4e-15 * size).all()
    terms = np.abs(P).sum((-2, -1)) * np.sqrt(size) + np.abs(Q).sum((-2, -1)) * size
    assert (np.abs(objective(found.v, P, Q) - found.value) <= 1e-14 * terms).all()
    assert np.flatnonzero(found.value > least + 1e-9 * np.abs(least)).tolist() == []


def flat(w: float, d: tuple[float, float]) -> Array:
    """Q with w in both hyperbolic families (q = e = w / 2) and these d."""
    n = w * np.eye(4)
    n[0, 1] = n[1, 0] = d[0]
    n[2, 3] = n[3, 2] = -d[1]
    return in_basis(n)


def linear(a: float, b: float, a2: float = 0.0, b2: float = 0.0) -> Array:
    """P with these a, b in both hyperbolic families."""
    return (np.array([a, b, -a2, b2]) @ BASIS / 2.0).reshape(2, 2).T


BOUNDARY = {
    "inside": (linear(3.0, 1.0), flat(1.0, (0.5, -0.5)), 0),
    "just outside": (linear(0.0, 0.0), flat(1.0, (1.0 + 1e-12, 0.0)), -1),
    "falls up": (linear(0.0, 0.0), flat(1.0, (-2.0, 0.0)), 1),
    "falls down": (linear(0.0, 0.0), flat(1.0, (2.0, 0.0)), -1),
    "falls down in the other": (linear(0.0, 0.0), flat(1.0, (0.0, 2.0)), -2),
    "negative": (linear(0.0, 0.0), flat(-1.0, (0.25, 0.0)), -1),
    "w = -d, a + b = 0": (linear(1.0, -1.0), flat(1.0, (-1.0, 0.0)), 0),
    "w = -d, a + b > 0": (linear(1.0, -0.5), flat(1.0, (-1.0, 0.0)), 1),
    "w = d, a - b = 0": (linear(1.0, 1.0), flat(1.0, (1.0, 0.0)), 0),
    "w = d, a - b > 0": (linear(1.0, 0.5), flat(1.0, (1.0, 0.0)), -1),
    "w = d, a - b = 0 in the other": (linear(0.0, 0.0, 1.0, 1.0), flat(1.0, (0.0, 1.0)), 0),
    "w = d, a - b > 0 in the other": (linear(0.0, 0.0, 1.0, 0.5), flat(1.0, (0.0, 1.0)), -2),
    "w = -d, a + b = 0 in the other": (linear(0.0, 0.0, 1.0, -1.0), flat(1.0, (0.0, -1.0)), 0),
    "w = d, approached only": (linear(0.0, 0.0), flat(1.0, (1.0, 0.0)), 0),
    "w = d = 0, linear": (linear(1.0, 0.0), flat(0.0, (0.0, 0.0)), 1),
    "w = d = 0, a = b": (linear(1.0, 1.0), flat(0.0, (0.0, 0.0)), 1),
    "nothing": (linear(0.0, 0.0), flat(0.0, (0.0, 0.0)), 0),
}


@pytest.mark.parametrize("name", BOUNDARY)
def test_boundedness_is_decided_right(name: str) -> None:
    P, Q, ray = (np.asarray(part) for part in BOUNDARY[name])
    found = solution(np.ones(1, dtype=np.bool_), P[None], Q[None])
    assert found.ray[0] == ray
    if ray == 0:
        assert found.value[0] <= scan(True, P[None], Q[None])[0] + 1e-9
        return
    assert found.value[0] == -np.inf
    assert np.isnan(found.v).all()
    along = np.array(
        [
            min(
                objective(s * ray_matrix(int(ray), mu)[None], P[None], Q[None])[0]
                for s in (1.0, -1.0)
            )
            for mu in (16, 18, 20)
        ]
    )
    assert (np.diff(along) < -1.0).all()


def test_pairs_do_not_depend_on_their_neighbours() -> None:
    P, Q, hyperbolic = gauss(50, 40), positive(50, 41), np.arange(50) % 3 == 0
    whole = solution(hyperbolic, P, Q)
    for k in (0, 1, 2, 49):
        alone = solution(hyperbolic[k : k + 1], P[k : k + 1], Q[k : k + 1])
        np.testing.assert_allclose(alone.v[0], whole.v[k], rtol=0, atol=1e-15)


@pytest.mark.parametrize("pull", [0.0, 0.5, 0.9])
def test_the_minimiser_itself_is_exact(pull: float) -> None:
    """Of -2 pull c + b s + (c^2 + s^2)/2: sinh(mu) = t where b = -2 t (1 - pull/cosh(mu))."""
    t = np.logspace(-8.0, 8.0, 65)
    h = np.hypot(1.0, t)
    b = -2.0 * t * (1.0 - pull / h)
    linear = np.zeros((len(t), 4))
    linear[:, 0], linear[:, 1] = -2.0 * pull, b
    curvature = np.broadcast_to(np.diag([1.0, 1.0, 1e20, 1e20]), (len(t), 4, 4))
    v = pair_kernels().minimise(np.full(len(t), True), linear, curvature).v
    np.testing.assert_allclose(v[:, 1, 0], t, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(v[:, 0, 0], h, rtol=1e-13)
