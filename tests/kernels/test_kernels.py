"""The kernels for pairs of rows against their definitions, compiled, and as Python runs them without numba."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import numpy as np
import pytest

from decentorth.numerics.kernels import pair_kernels
from decentorth.numerics.kernels.subproblem import Sweep
from decentorth.protocols import Array, Index
from tests.support.j_orthogonal import signs
from tests.support.mpi import ROOT


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


@pytest.mark.parametrize("n", [2, 3, 8, 31])
def test_turns_are_products(n: int) -> None:
    rng, (first, second) = np.random.default_rng(1), disjoint(n)
    v, x, y = rng.standard_normal((n // 2, 2, 2)), rng.standard_normal((n, n)), rng.standard_normal((n, n))
    t, made = embedded(n, v, first, second), pair_kernels()
    for turn, expected in ((made.turn_rows, t @ x), (made.congruence, t @ x @ t.T)):
        out = x.copy()
        turn(out, v, first, second)
        np.testing.assert_allclose(out, expected, atol=1e-13)
    rows = [np.array([[x[a] @ y[b] for b in (i, j)] for a in (i, j)]) for i, j in zip(first, second, strict=True)]
    np.testing.assert_allclose(made.blocks(x, y, first, second), rows, atol=1e-13)


def test_gauss_seidel_stops_at_its_limit() -> None:
    """-tr(x^T C x) with a varsigma that lets it grow: no pair beyond the limit is touched, and none is missed before it."""
    j, (first, second) = np.array([1.0, -1.0, 1.0]), drawn(3, 400)
    x, product = np.eye(3), np.eye(3)
    done, ray = pair_kernels().gauss_seidel(x, product, -2.0 * definite(3), j, first, second, Sweep(0.0, False, 0.0, 2.0, 1e6))
    sizes = np.diagonal(product)
    assert (ray, 0 < done < 400) == (0, True)
    assert 1e6 < sizes[first[done]] + sizes[second[done]] < 1e8
    for limit, number in ((1.9, 0), (2.0, 1)):  # of both rows together
        x, product = np.eye(3), np.eye(3)
        steps = pair_kernels().gauss_seidel(x, product, definite(3), j, first[:1], second[:1], Sweep(0.0, True, 0.0, 2.0, limit))
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
    """w and |d| equal but for 1e-12: the exact step gives way to one of varsigma, a Jacobi step is cut short; both descend."""
    close = np.array([[1.0, -1.0 - 1e-12], [-1.0 - 1e-12, 1.0]])
    j, one, made = np.array([1.0, -1.0]), np.zeros(1, dtype=np.int64), pair_kernels()
    x, product, H = np.eye(2), np.eye(2), 2.0 * close
    assert made.gauss_seidel(x, product, H, j, one, one + 1, Sweep(0.0, True, 0.0, 4.0, np.inf)) == (1, 0)
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
        subprocess.run([sys.executable, "-c", words], cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=300)
        for words in (WITHOUT_NUMBA, script)
    ]
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    assert 'slower without numba: pip install "decentorth[fast]"' in runs[0].stderr
    assert "numba" not in runs[1].stderr
    for one, other in zip(*(run.stdout.splitlines() for run in runs), strict=True):
        np.testing.assert_allclose(ast.literal_eval(one), ast.literal_eval(other), atol=1e-11)
