"""The compiled sums against SciPy's loop, bit by bit, and the compiled pass of DRFGT against the
same in NumPy."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import _sparsetools, csr_array

import topologies as tp
from decentorth import DRFGT, solve
from decentorth.algorithms.common.fields import landing, refresh
from decentorth.numerics.ordered_sums import subtract_scaled
from decentorth.problems import GEVP, PCA, FunctionProblem, Procrustes
from decentorth.protocols import Array
from decentorth.sets import Stiefel
from tests.support.mpi import ROOT

pytest.importorskip("numba")
from decentorth.numerics import kernels

pytestmark = pytest.mark.slow

N, D, R = 5, 7, 3


@pytest.mark.parametrize("width", [1, 3, 40, 1001])
@pytest.mark.parametrize("density", [0.0, 0.1, 0.3, 1.0])
def test_sums_have_the_bits_of_scipy(density: float, width: int) -> None:
    rng = np.random.default_rng(0)
    W = csr_array(np.where(rng.random((9, 11)) < density, rng.standard_normal((9, 11)), 0.0))
    x, old = rng.standard_normal((11, width)), rng.standard_normal((9, width))
    x[0], old[1] = -0.0, 0.0
    given = (
        9,
        11,
        width,
        W.indptr.astype(np.int64),
        W.indices.astype(np.int64),
        W.data,
        x.reshape(-1),
    )
    compiled = kernels.compiled_tracking()
    expected, found = old.copy(), old.copy()
    _sparsetools.csr_matvecs(*given, expected.reshape(-1))
    compiled.accumulate(*given, found.reshape(-1))
    assert found.tobytes() == expected.tobytes()
    expected, found = np.zeros_like(old), np.full_like(old, np.nan)
    _sparsetools.csr_matvecs(*given, expected.reshape(-1))
    compiled.product(*given, found.reshape(-1))
    assert found.tobytes() == expected.tobytes()


def drawn(rows: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(rows)
    return rng.standard_normal((N, rows, D)), rng.standard_normal((N, R, rows))


def own_function() -> FunctionProblem[Stiefel]:
    a, b = drawn(3)
    return FunctionProblem(
        lambda i, x: float(((a[i] @ x - b[i].T) ** 2).sum()),
        lambda i, x: 2.0 * a[i].T @ (a[i] @ x - b[i].T),
        Stiefel(D, R),
        N,
    )


PROBLEMS = {
    "rows": lambda: Procrustes(*drawn(3)),
    "Gram matrices": lambda: Procrustes(*drawn(20)),
    "no targets": lambda: PCA(drawn(3)[0], R),
    "unequal rows": lambda: Procrustes(
        [*drawn(3)[0][:3], *drawn(2)[0][3:]], [*drawn(3)[1][:3], *drawn(2)[1][3:]]
    ),
    "a user's functions": own_function,
}


@pytest.mark.parametrize("moves", [True, False])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_pass_is_the_step_in_numpy_and_each_agent_s_own(name: str, moves: bool) -> None:
    problem: Any = PROBLEMS[name]()
    rng = np.random.default_rng(1)
    x, y, old, tracker = rng.standard_normal((4, N, D, R))
    penalty, alpha = rng.random((2, N))
    change = kernels.compiled_tracking().landing_change

    expected_x, expected_y = x.copy(), y.copy()
    if moves:
        subtract_scaled(alpha, tracker, expected_x)
    field = refresh(landing, problem, expected_x, expected_y, old.copy(), penalty)

    def run(problem: Any, own: slice) -> tuple[Array, ...]:
        points, trackers, fields = x[own].copy(), y[own].copy(), old[own].copy()
        more = (alpha[own], tracker[own]) if moves else ()
        return points, trackers, change(problem, points, trackers, fields, penalty[own], *more)

    found = run(problem, slice(None))
    for mine, expected in zip(found, (expected_x, expected_y, field), strict=True):
        np.testing.assert_allclose(mine, expected, atol=1e-12, rtol=0.0)
    for i in range(N):
        own = slice(i, i + 1)
        for mine, theirs in zip(run(problem.restrict(own), own), found, strict=True):
            assert mine.tobytes() == theirs[own].tobytes()


def test_blocks_and_batches_agree_with_numpy() -> None:
    a, b = drawn(3)
    many, W = 400, tp.metropolis_weights(tp.torus(20, 20))
    rng = np.random.default_rng(3)
    stacked = Procrustes(rng.standard_normal((many, 3, 30)), rng.standard_normal((many, 5, 3)))
    assert len(stacked.blocks()) > 1
    for problem, weights, method in (
        (stacked, W, partial(DRFGT, step_size=1e-3, penalty=5.0)),
        (
            Procrustes(a, b),
            tp.uniform_weights(tp.ring(N)),
            partial(DRFGT, step_size=1e-3, penalty=5.0, batch_size=2),
        ),
    ):
        one, other = (
            solve(problem, method(kernel=kernel), weights, iterations=30, comm="serial")
            for kernel in ("numpy", "numba")
        )
        np.testing.assert_allclose(other.x, one.x, atol=1e-12, rtol=0.0)


def test_the_compiled_pass_is_for_the_stiefel_manifold() -> None:
    problem = GEVP([np.eye(D)] * N, np.eye(D), R)
    with pytest.raises(
        TypeError,
        match=r"the kernel numba is for points on St\(d, r\), got St_B\(3, 7\): leave kernel out",
    ):
        solve(
            problem,
            DRFGT(kernel="numba"),
            tp.uniform_weights(tp.ring(N)),
            iterations=1,
            comm="serial",
        )


def test_a_damaged_cache_is_named_in_a_line(tmp_path: Path) -> None:
    """Other bytes, or a part of numba's files."""
    words = "from decentorth.numerics.kernels import compiled_tracking as made; made()"

    def load() -> subprocess.CompletedProcess[str]:
        environ, command = (
            {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
            [sys.executable, "-c", words],
        )
        return subprocess.run(
            command, env=environ, cwd=ROOT, capture_output=True, text=True, timeout=300
        )

    assert load().returncode == 0
    whole = {path: path.read_bytes() for path in tmp_path.rglob("*.nb[ci]")}
    (folder,) = tmp_path.iterdir()
    for other in (True, False):
        for path, content in whole.items():
            path.write_bytes(b"\x1b" * 3000 if other else content[:100])
        ended = load()
        assert ended.returncode == 1
        last = ended.stderr.splitlines()[-1]
        assert last.startswith("ImportError: numba cannot load its compiled code (")
        assert last.endswith(f"remove the folder {folder}, where it is kept, and start again")
