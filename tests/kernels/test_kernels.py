"""The kernels against loops written from their definitions, and the compiled ones against those in NumPy."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from decentorth import kernels
from decentorth.kernels.plain import round_robin
from decentorth.kernels.subproblem import Sweep
from decentorth.problems.j_orthogonal.ultrahyperbolic import Ultrahyperbolic
from decentorth.protocols import Array, Index
from tests.reference import jobcd as naive
from tests.support.j_orthogonal import signs

KERNELS = ["numpy", *(["numba"] if importlib.util.find_spec("numba") else [])]


def disjoint(n: int, seed: int = 0) -> tuple[Index, Index]:
    order = np.random.default_rng(seed).permutation(n)
    return order[: n // 2].copy(), order[n // 2 : 2 * (n // 2)].copy()


def drawn(n: int, k: int, seed: int = 0) -> tuple[Index, Index]:
    rng = np.random.default_rng(seed)
    first = rng.integers(0, n, k)
    return first, (first + 1 + rng.integers(0, n - 1, k)) % n


def embedded(n: int, v: Array, first: Index, second: Index) -> Array:
    """The matrix that multiplies rows first[k], second[k] by v[k]."""
    t = np.eye(n)
    for one, i, j in zip(v, first, second, strict=True):
        t[np.ix_([i, j], [i, j])] = one
    return t


def definite(n: int, condition: float = 100.0, seed: int = 0) -> Array:
    q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    c: Array = (q * np.logspace(0.0, -np.log10(condition), n)) @ q.T
    return 0.5 * (c + c.T)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [2, 3, 8, 31])
def test_turns_are_products(n: int, kernel: kernels.Kernel) -> None:
    rng, (first, second) = np.random.default_rng(1), disjoint(n)
    v, x, y = rng.standard_normal((n // 2, 2, 2)), rng.standard_normal((n, n)), rng.standard_normal((n, n))
    t, made = embedded(n, v, first, second), kernels.load(kernel)
    for turn, expected in ((made.turn_rows, t @ x), (made.congruence, t @ x @ t.T)):
        out = x.copy()
        turn(out, v, first, second)
        np.testing.assert_allclose(out, expected, atol=1e-13)
    rows = [np.array([[x[a] @ y[b] for b in (i, j)] for a in (i, j)]) for i, j in zip(first, second, strict=True)]
    np.testing.assert_allclose(made.blocks(x, y, first, second), rows, atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("varsigma", ["exact", "constant", "pair"])
def test_gauss_seidel_is_the_formula(varsigma: str, kernel: kernels.Kernel) -> None:
    n, theta = 7, 1e-3
    j, H, (first, second) = signs(n), 2.0 * definite(n), drawn(n, 60)
    L = float(np.linalg.norm(H, 2))
    x, product, expected = np.eye(n), np.eye(n), np.eye(n)
    done = kernels.load(kernel).gauss_seidel(
        x,
        product,
        H,
        j,
        first,
        second,
        Sweep(theta, varsigma == "exact", 40.0 * (varsigma == "constant"), L * (varsigma == "pair"), np.inf),
    )
    assert done == (60, 0)
    for pair in zip(first.tolist(), second.tolist(), strict=True):
        quadratic = 40.0 * np.eye(4)
        if varsigma != "constant":
            quadratic = naive.exact(expected, H, pair) if varsigma == "exact" else naive.isotropic(expected, L, pair)
        expected = naive.step(expected, H @ expected, [pair], j, theta, [quadratic])
    np.testing.assert_allclose(x, expected, atol=1e-10)
    np.testing.assert_allclose(product, x @ x.T, atol=1e-13 * np.abs(product).max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_gauss_seidel_stops_at_an_unbounded_pair(kernel: kernels.Kernel) -> None:
    """-tr(x^T x): every pair of opposite signs falls for ever, the first such stays as it was."""
    j, first, second = np.array([1.0, 1.0, -1.0]), np.array([0, 1, 0]), np.array([1, 2, 2])
    x, product = np.eye(3), np.eye(3)
    done, ray = kernels.load(kernel).gauss_seidel(
        x, product, -2.0 * np.eye(3), j, first, second, Sweep(1e-6, True, 0.0, 0.0, np.inf)
    )
    assert (done, abs(ray)) == (1, 1)
    np.testing.assert_allclose(product, np.eye(3), atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_gauss_seidel_stops_at_its_limit(kernel: kernels.Kernel) -> None:
    """-tr(x^T C x) with a varsigma that lets it grow: no pair beyond the limit is touched, and none is missed before it."""
    j, (first, second) = np.array([1.0, -1.0, 1.0]), drawn(3, 400)
    x, product = np.eye(3), np.eye(3)
    done, ray = kernels.load(kernel).gauss_seidel(
        x, product, -2.0 * definite(3), j, first, second, Sweep(0.0, False, 0.0, 2.0, 1e6)
    )
    sizes = np.diagonal(product)
    assert (ray, 0 < done < 400) == (0, True)
    assert 1e6 < sizes[first[done]] + sizes[second[done]] < 1e8
    for limit, number in ((1.9, 0), (2.0, 1)):  # of both rows together
        x, product = np.eye(3), np.eye(3)
        steps = kernels.load(kernel).gauss_seidel(
            x, product, definite(3), j, first[:1], second[:1], Sweep(0.0, True, 0.0, 2.0, limit)
        )
        assert steps == (number, 0)
        assert np.array_equal(x, np.eye(3)) == (number == 0)


@pytest.mark.parametrize("n", [2, 3, 6, 9])
def test_round_robin_meets_everybody_once(n: int) -> None:
    met = [pair for turn in range(n + n % 2 - 1) for pair in zip(*(side.tolist() for side in round_robin(n, turn)), strict=True)]
    assert sorted(met) == [(i, j) for i in range(n) for j in range(i + 1, n)]
    for turn in range(n + n % 2 - 1):
        assert len(set(np.concatenate(round_robin(n, turn)).tolist())) == 2 * (n // 2)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("n", [2, 5, 12, 33])
def test_jacobi_sweeps_diagonalise(n: int, kernel: kernels.Kernel) -> None:
    j, C = signs(n), definite(n, 1e3)
    xt, gram = np.eye(n), C.copy()
    made, value, off = kernels.load(kernel), float(np.trace(C)), []
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


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mixed", [1.5, -1.5])
def test_jacobi_finds_the_pair_without_a_minimum(mixed: float, kernel: kernels.Kernel) -> None:
    gram = np.eye(4)
    gram[0, 3] = gram[3, 0] = mixed
    fallen, i, j = kernels.load(kernel).jacobi_sweep(np.eye(4), gram, np.array([1.0, 1.0, -1.0, -1.0]))
    assert (fallen, i, j) == (0.0, 0, 3)


@pytest.mark.parametrize("kernel", KERNELS)
def test_jacobi_leaves_zeros_alone(kernel: kernels.Kernel) -> None:
    x, gram = np.eye(3), np.zeros((3, 3))
    assert kernels.load(kernel).jacobi_sweep(x, gram, np.array([1.0, -1.0, -1.0])) == (0.0, 0, 0)
    np.testing.assert_array_equal(x, np.eye(3))


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_rounding_makes_look_unbounded_is_not_taken_for_it(kernel: kernels.Kernel) -> None:
    """w and |d| equal but for 1e-12: the exact step gives way to one of varsigma, a Jacobi step is cut short; both descend."""
    close = np.array([[1.0, -1.0 - 1e-12], [-1.0 - 1e-12, 1.0]])
    j, one, made = np.array([1.0, -1.0]), np.zeros(1, dtype=np.int64), kernels.load(kernel)
    x, product, H = np.eye(2), np.eye(2), 2.0 * close
    assert made.gauss_seidel(x, product, H, j, one, one + 1, Sweep(0.0, True, 0.0, 4.0, np.inf)) == (1, 0)
    assert np.isfinite(x).all()
    assert np.trace(x.T @ close @ x) < 2.0
    xt, gram = np.eye(2), close.copy()
    assert made.jacobi_sweep(xt, gram, j)[1:] == (0, 0)
    assert np.isfinite(xt).all()
    assert np.trace(xt @ close @ xt.T) < 1e-2


@pytest.mark.skipif(len(KERNELS) < 2, reason="needs numba")
def test_both_kernels_agree() -> None:
    n, (first, second) = 25, drawn(25, 300)
    j, H = signs(n), 2.0 * definite(n)
    ends = []
    for made in (kernels.load("numpy"), kernels.load("numba")):
        x, product = np.eye(n), np.eye(n)
        made.gauss_seidel(x, product, H, j, first, second, Sweep(1e-6, True, 0.0, 0.0, np.inf))
        gram = H.copy()
        y = np.eye(n)
        made.jacobi_sweep(y, gram, j)
        ends.append((x, product, y, gram))
    for one, other in zip(*ends, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def test_the_choice_of_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = importlib.util.find_spec("numba") is not None
    assert kernels.resolved("auto") == ("numba" if installed else "numpy")
    assert kernels.resolved("numpy") == "numpy"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert kernels.ready("auto") == "numpy"
    with pytest.raises(ImportError, match=r"pip install \"decentorth\[fast\]\""):
        kernels.resolved("numba")


@pytest.mark.parametrize("kernel", KERNELS)
def test_signed_scores_in_single_precision_are_those_in_double(kernel: kernels.Kernel) -> None:
    scale, manifold = 2.25, Ultrahyperbolic(np.array([1.0, -1.0, -1.0]), 1.5)
    near = 1.0 + np.linspace(-1e-3, 1e-3, 2001)
    u = np.concatenate((np.linspace(-3.0, 8.0, 5000), near, np.geomspace(1.0, 1e6, 500), [0.0, 1.0, 1.5]))
    products = (-scale * u).astype(np.float32)
    expected, steepness = manifold.signed_scores(products.astype(np.float64))
    slopes = np.empty_like(products)
    kernels.load(kernel).signed_scores(products, scale, slopes)
    np.testing.assert_allclose(products, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(slopes, steepness, rtol=2e-6)
    gone = np.array([np.nan, 1.0], np.float32)
    kernels.load(kernel).signed_scores(gone, scale, np.empty_like(gone))
    assert np.isnan(gone).tolist() == [True, False]
