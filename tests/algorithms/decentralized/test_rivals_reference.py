"""DRFGT and the methods beside it against loops over agents, written from the formulas alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest

import topologies as tp
from decentorth.algorithms import (
    DESTINY,
    DGD,
    DPRGD,
    DPRGT,
    DRFGT,
    DRGTA,
    DRSGD,
    DRSM,
    REXTRA,
    RFEXTRA,
    DeEPCA,
    GradientTracking,
)
from decentorth.algorithms.common.automatic_steps import Order
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.protocols import Array, Index, Retraction
from tests.reference import naive, rivals
from tests.reference.naive import Gradient
from tests.reference.rivals import Trajectory, Variant
from tests.support.problems import CASES, GRAPHS, Case, point, relative, stack

ORDERS: tuple[Order, ...] = get_args(Order)
FACTORS: dict[Retraction, rivals.Factor] = {
    "polar": naive.polar,
    "polar-svd": naive.polar,
    "polar-eigh": naive.polar,
    "qr": rivals.qr_factor,
    "cholesky-qr": rivals.cholesky_qr_factor,
}
MIXINGS: dict[str, tuple[dict[str, Any], Callable[[Array], Array]]] = {
    "W": ({}, lambda W: W),
    "W^3": ({"rounds": 3}, partial(rivals.power, rounds=3)),
    "P_1(W)": ({"chebyshev": True}, partial(rivals.chebyshev, rounds=1)),
    "P_4(W)": ({"rounds": 4, "chebyshev": True}, partial(rivals.chebyshev, rounds=4)),
}
N, ITERATIONS, SEED = 5, 15, 11


@dataclass(frozen=True)
class Rival:
    name: str
    method: Callable[..., Any]
    reference: Callable[..., Trajectory]
    penalty: float | None = None  # times the step
    mixing: Callable[[Array], Array] = MIXINGS["W"][1]

    def __str__(self) -> str:
        return self.name


def alike(
    name: str, method: Any, reference: Any, penalty: float | None = None, **settings: Any
) -> Rival:
    """Both with settings that have one name."""
    words = " ".join(
        (name, *map(str, settings.values()), *([] if penalty is None else [f"{penalty:g}"]))
    )
    return Rival(words, partial(method, **settings), partial(reference, **settings), penalty)


def several(name: str, method: Any, reference: Any) -> list[Rival]:
    """A method with several rounds of mixing of either kind."""
    return [
        Rival(f"{name} {label}", partial(method, **given), reference, None, V)
        for label, (given, V) in MIXINGS.items()
    ]


def retracting(name: str, method: Any, reference: Any) -> list[Rival]:
    """A method with every retraction, and with another consensus step."""
    factors = FACTORS.items()
    own = [
        Rival(f"{name} {label}", partial(method, retraction=label), partial(reference, retract=R))
        for label, R in factors
    ]
    return [*own, alike(name, method, reference, consensus_step=0.5)]


FAST: dict[str, Any] = {"order": "accelerated"}
TRACKED = [
    *(alike("drfgt", DRFGT, rivals.drfgt, 0.1, order=order) for order in ORDERS),
    *several("drgta", DRGTA, rivals.drgta),
    *retracting("drgta", DRGTA, rivals.drgta),
    *several("dprgt", DPRGT, rivals.dprgt),
    Rival("drgta fast", partial(DRGTA, **FAST), rivals.accelerated_drgta),
    Rival(
        "drgta fast qr",
        partial(DRGTA, retraction="qr", **FAST),
        partial(rivals.accelerated_drgta, retract=rivals.qr_factor),
    ),
    Rival("dprgt fast", partial(DPRGT, **FAST), rivals.accelerated_dprgt),
    *(
        alike("destiny", DESTINY, rivals.destiny, 0.1, variant=v, order=o)
        for v in get_args(Variant)
        for o in ORDERS
    ),
    *(
        alike("tracking", GradientTracking, rivals.gradient_tracking, p, order=o)
        for p in (0.0, 0.1)
        for o in ORDERS
    ),
]
UNTRACKED = [
    *several("drsgd", DRSGD, rivals.drsgd),
    *retracting("drsgd", DRSGD, rivals.drsgd),
    Rival("drsm", DRSM, rivals.drsgd),
    *several("dprgd", DPRGD, rivals.dprgd),
    *(alike("dgd", DGD, rivals.dgd, p) for p in (0.0, 0.1)),
]
EXTRA = [Rival("rextra", REXTRA, rivals.rextra), alike("rfextra", RFEXTRA, rivals.rfextra, 0.1)]


def step_for(case: Case, share: float = 0.1) -> float:
    """Well within stability in every network here, where rounding errors stay small."""
    return float(share / max(case.lipschitz))


def final(problem: Any, algorithm: Any, W: Any, x0: Array, iterations: int = ITERATIONS) -> Any:
    n = problem.n_agents
    network, streams = Network(W), CounterStreams(SEED, slice(0, n))
    state = algorithm.init(problem, network, streams, stack(x0, n))
    for _ in range(iterations):
        state = algorithm.step(problem, network, streams, state)
    return state


def agree(state: Any, expected: Trajectory, x0: Array, tracked: bool) -> None:
    assert relative(state.x, expected.x[-1]) < 1e-12
    assert relative(state.x, stack(x0, len(state.x))) > 1e-2
    if tracked:
        assert relative(state.tracker, expected.tracker[-1]) < 1e-12


def compare(
    rival: Rival,
    case: Case,
    graph: str,
    a: float,
    steps: Any,
    gradients: rivals.Gradients,
    **given: Any,
) -> None:
    W, x0 = GRAPHS[graph](N), point(case.problem)
    penalty = {} if rival.penalty is None else {"penalty": rival.penalty / a}
    expected = rival.reference(
        gradients, rival.mixing(W.toarray()), x0, steps, ITERATIONS, **penalty
    )
    agree(
        final(case.problem, rival.method(**penalty, **given), W, x0), expected, x0, rival in TRACKED
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rival", [*TRACKED, *UNTRACKED, *EXTRA], ids=str)
def test_a_constant_step(rival: Rival, name: str) -> None:
    case = CASES[name]()
    a = step_for(case)
    compare(rival, case, "ring", a, a, rivals.full(case.gradients), step_size=a)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rival", [*TRACKED, *UNTRACKED], ids=str)
def test_steps_that_shrink(rival: Rival, name: str) -> None:
    case = CASES[name]()
    a, gradients = step_for(case, 0.2), rivals.full(case.gradients)
    compare(
        rival,
        case,
        "erdos-renyi",
        a,
        lambda k: a / (k + 1) ** 0.5,
        gradients,
        step_size=f"diminishing:initial={a}",
    )


def data(gradient: Gradient) -> tuple[Array, ...]:
    """What one agent's gradient is made of: A, or A and B."""
    assert isinstance(gradient, partial)
    return gradient.args


def batch_gradient(gradient: Gradient, batch: Index, x: Array) -> Array:
    """From the samples ``batch`` of one agent; a sum of squares is scaled up to all samples, as a
    mean need not be."""
    a, *b = data(gradient)
    if not b:
        return naive.pca_gradient(a[batch], x)
    return len(a) / len(batch) * naive.procrustes_gradient(a[batch], b[0][:, batch], x)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rival", [*TRACKED, *UNTRACKED], ids=str)
def test_mini_batches(rival: Rival, name: str) -> None:
    """Iteration k goes by the gradients of batch k; a change of field is between those of batches
    k + 1 and k."""
    case = CASES[name]()
    a, counts = (
        step_for(case, 0.05),
        np.array([len(data(gradient)[0]) for gradient in case.gradients]),
    )
    batches = [
        CounterStreams(SEED, slice(0, N)).integers("batch", k, 4, counts)
        for k in range(ITERATIONS + 1)
    ]

    def gradients(i: int, k: int, x: Array) -> Array:
        return batch_gradient(case.gradients[i], batches[k][i], x)

    compare(rival, case, "star", a, a, gradients, step_size=a, batch_size=4)


@pytest.mark.parametrize("chebyshev", [True, False])
@pytest.mark.parametrize("rounds", [1, 8])
@pytest.mark.parametrize("graph", ["ring", "star", "slow ring"])
def test_deepca(graph: str, rounds: int, chebyshev: bool) -> None:
    """To the signs of the columns, which a positive diagonal of R decides."""
    n = 9 if graph == "slow ring" else N
    case = CASES["pca"](rows=(30, 12, 9, 25, 40, 14, 30, 12, 9)[:n])
    W = tp.uniform_weights(tp.ring(n), 0.8) if graph == "slow ring" else GRAPHS[graph](n)
    x0 = point(case.problem)
    covariances = [-gradient(np.eye(12)) for gradient in case.gradients]
    mixing = (rivals.chebyshev if chebyshev else rivals.power)(W.toarray(), rounds)
    expected = rivals.deepca(covariances, mixing, x0, ITERATIONS, "positive")
    state = final(case.problem, DeEPCA(rounds=rounds, chebyshev=chebyshev), W, x0)
    agree(state, expected, x0, True)
    # enough rounds for the paper's signs to find the same eigenspace on the way
    if rounds == 8 and graph != "slow ring":
        published = rivals.deepca(covariances, mixing, x0, ITERATIONS).x[-1]
        assert (
            relative(state.x @ state.x.transpose(0, 2, 1), published @ published.transpose(0, 2, 1))
            < 1e-12
        )
