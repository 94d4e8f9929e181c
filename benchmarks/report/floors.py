"""Row e: iterations against their products at this machine's rate for these sizes, and against
moving their bytes."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

import topologies as tp
from decentorth import DRFGT, RGD
from decentorth.api import set_up
from decentorth.network import Network
from decentorth.problems import Procrustes
from decentorth.problems.stiefel.procrustes import published_rows

from ..tracking import targets, tracking
from .frameworks import SIZES, weights
from .jobs import job
from .peers import Peers
from .rows import Case, Works, repeated


def products(sizes: list[tuple[int, int, int, int]], calls: int) -> Any:
    """The work of products of stacks of matrices of these (n, m, k, w): (n, m, k) times (n, k,
    w)."""
    rng = np.random.default_rng(0)
    given = [
        (rng.standard_normal((n, m, k)), rng.standard_normal((n, k, w)), np.empty((n, m, w)))
        for n, m, k, w in sizes
    ]

    def multiply() -> None:
        for left, right, out in given:
            np.matmul(left, right, out=out)

    return repeated(multiply, calls)


KERNELS: list[Any] = ["numpy", *(["numba"] if find_spec("numba") else [])]


def drfgt() -> Works:
    """An iteration of DRFGT, and its gradient's two products and its landing field's two."""
    n, d, r, rows = 10, 50, 20, 10
    a, b = published_rows(slice(0, n), n, d, r, 0)
    works: Works = {}
    for kernel in KERNELS:
        method = DRFGT(step_size=1e-3, penalty=10.0, kernel=kernel, order="combine-then-adapt")
        states = set_up(
            Procrustes(a, b), method, tp.uniform_weights(tp.ring(n)), comm="serial"
        ).states()
        next(states)
        works[f"iteration, kernel {kernel}"] = repeated(states.__next__, 200)
    sizes = [(n, rows, d, r), (n, d, rows, r), (n, 2 * r, d, r), (n, d, 2 * r, r)]
    return works | {"its products": products(sizes, 200)}


def rgd() -> Works:
    """An iteration of RGD with Barzilai-Borwein steps, and the gradient's product, x^T g, x s, the
    Gram matrix and x R^-1."""
    n, p = 500, 100
    rng = np.random.default_rng(0)
    problem = Procrustes([rng.standard_normal((2000, n))], [rng.standard_normal((p, 2000))])
    states = set_up(
        problem, RGD(step_size="bb", retraction="cholesky-qr"), comm="serial", seed=1
    ).states()
    next(states)
    sizes = [(1, n, n, p), (1, p, n, p), (1, n, p, p), (1, p, n, p), (1, n, p, p)]
    return {"iteration": repeated(states.__next__, 5), "its products": products(sizes, 5)}


def copies(n: int, width: int, calls: int) -> Works:
    """An iteration of gradient tracking, and the arrays of its state copied once."""
    ours = tracking(targets(n, width), weights(n)).states()
    next(ours)
    source, target = (
        np.random.default_rng(0).standard_normal((3, n, width)),
        np.empty((3, n, width)),
    )
    copy = repeated(lambda: np.copyto(target, source), calls)
    return {"iteration": repeated(ours.__next__, calls), "x, y and gradient copied once": copy}


def exact_sum(graph: Any, calls: int) -> Works:
    """A sum of 30 numbers over all agents along a tree, and NumPy's sum of the same array."""
    network = Network(tp.metropolis_weights(graph), "serial")
    x = np.random.default_rng(0).standard_normal((network.n_agents, 30))
    network.total(x)
    return {
        "sum along the tree": repeated(lambda: network.total(x), calls),
        "np.add.reduce": repeated(lambda: np.add.reduce(x), calls),
    }


def cases(quick: bool, peers: Peers) -> list[Case]:
    """The section's cases."""
    blocks, jobs = (15, 5) if quick else (60, 15)
    found = [
        Case("DRFGT, 10 agents of 50 x 20, ring", drfgt, blocks, own=len(KERNELS), goal=1.5),
        Case("RGD, Procrustes on St(500, 100)", rgd, blocks),
    ]
    for n, _, width, calls, _ in SIZES:
        name = f"gradient tracking, {n:,} agents, {width:,} numbers"
        found.append(Case(name, partial(copies, n, width, calls), blocks))
        found.append(
            Case(f"{name}, 2 ranks, wall time", partial(job, 2, "exchange", n, width, jobs), jobs)
        )
    for name, graph, calls in (
        ("ring of 1,000", tp.ring(1000), 200),
        ("torus of 100,000", tp.torus(250, 400), 5),
    ):
        case = Case(f"exact sum, {name}, 30 numbers", partial(exact_sum, graph, calls), blocks)
        found.append(case)
    return found
