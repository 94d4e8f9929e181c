"""DRFGT and the methods beside it against loops over agents, written from the formulas alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest

import topologies as tp
from decentorth.algorithms import DESTINY, DGD, DPRGD, DPRGT, DRFGT, DRGTA, DRSGD, DRSM, REXTRA, RFEXTRA, DeEPCA, GradientTracking
from decentorth.algorithms.common.automatic_steps import Order
from decentorth.network import Network
from decentorth.numerics.random_streams import CounterStreams
from decentorth.protocols import Array, Index, Retraction
from tests.reference import naive, rivals
from tests.reference.naive import Gradient
from tests.reference.rivals import Gradients, Steps, Trajectory, Variant
from tests.support.problems import CASES, GRAPHS, Case, point, relative, stack

ORDERS: tuple[Order, ...] = get_args(Order)
VARIANTS: tuple[Variant, ...] = get_args(Variant)
FACTORS: dict[Retraction, rivals.Factor] = {
    "polar": naive.polar,
    "polar-svd": naive.polar,
    "polar-eigh": naive.polar,
    "qr": rivals.qr_factor,
    "cholesky-qr": rivals.cholesky_qr_factor,
}
N, ITERATIONS, SEED = 5, 15, 11


@dataclass(frozen=True)
class Rival:
    """A method of the package and its reference, with the settings that both have."""

    name: str
    method: Callable[..., Any]
    reference: Callable[..., Trajectory]
    settings: dict[str, Any] = field(default_factory=dict)
    """Known to both under one name; a penalty is a multiple of 1/step."""
    rounds: int = 1
    chebyshev: bool = False
    retraction: Retraction | None = None  # where it differs from the method's own

    def __str__(self) -> str:
        return self.name

    def beside(self, step_size: float) -> Rival:
        """With the penalty for that step."""
        return replace(self, settings={k: v / step_size if k == "penalty" else v for k, v in self.settings.items()})

    def algorithm(self, step_size: Any, **more: Any) -> Any:
        """The package's."""
        given = {**self.settings, **more}
        if self.rounds > 1 or self.chebyshev:
            given |= {"rounds": self.rounds, "chebyshev": self.chebyshev}
        if self.retraction is not None:
            given["retraction"] = self.retraction
        return self.method(step_size=step_size, **given)

    def run(self, gradients: Gradients, W: Array, x0: Array, step_size: Steps, iterations: int = ITERATIONS) -> Trajectory:
        """The reference's trajectory."""
        given = dict(self.settings)
        if self.retraction is not None:
            given["retract"] = FACTORS[self.retraction]
        mixing = rivals.chebyshev(W, self.rounds) if self.chebyshev else rivals.power(W, self.rounds)
        return self.reference(gradients, mixing, x0, step_size, iterations, **given)


def several(rival: Rival) -> list[Rival]:
    """A method, and again with several rounds of mixing of either kind."""
    return [
        rival,
        replace(rival, name=f"{rival.name} W^3", rounds=3),
        replace(rival, name=f"{rival.name} P_1(W)", chebyshev=True),
        replace(rival, name=f"{rival.name} P_4(W)", rounds=4, chebyshev=True),
    ]


def retracting(rival: Rival) -> list[Rival]:
    """A method with every retraction, and with another consensus step."""
    return [
        *(replace(rival, name=f"{rival.name} {retraction}", retraction=retraction) for retraction in FACTORS),
        replace(rival, name=f"{rival.name} half", settings={"consensus_step": 0.5}),
    ]


TRACKED = [
    *(Rival(f"drfgt {order}", DRFGT, rivals.drfgt, {"penalty": 0.1, "order": order}) for order in ORDERS),
    *several(Rival("drgta", DRGTA, rivals.drgta)),
    *retracting(Rival("drgta", DRGTA, rivals.drgta)),
    *several(Rival("dprgt", DPRGT, rivals.dprgt)),
    *(
        Rival(f"destiny {variant} {order}", DESTINY, rivals.destiny, {"penalty": 0.1, "variant": variant, "order": order})
        for variant in VARIANTS
        for order in ORDERS
    ),
    *(
        Rival(f"tracking {order} {p}", GradientTracking, rivals.gradient_tracking, {"penalty": p, "order": order})
        for p in (0.0, 0.1)
        for order in ORDERS
    ),
]
UNTRACKED = [
    *several(Rival("drsgd", DRSGD, rivals.drsgd)),
    *retracting(Rival("drsgd", DRSGD, rivals.drsgd)),
    Rival("drsm", DRSM, rivals.drsgd),
    *several(Rival("dprgd", DPRGD, rivals.dprgd)),
    *(Rival(f"dgd {p}", DGD, rivals.dgd, {"penalty": p}) for p in (0.0, 0.1)),
]
EXTRA = [Rival("rextra", REXTRA, rivals.rextra), Rival("rfextra", RFEXTRA, rivals.rfextra, {"penalty": 0.1})]


def step_for(case: Case, share: float = 0.1) -> float:
    """Well within stability in every network here, where rounding errors stay small."""
    return float(share / max(case.lipschitz))


def final(problem: Any, algorithm: Any, W: Any, x0: Array, iterations: int = ITERATIONS) -> Any:
    """The state after so many iterations from a common start."""
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


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rival", [*TRACKED, *UNTRACKED, *EXTRA], ids=str)
def test_a_constant_step(rival: Rival, name: str) -> None:
    case, W = CASES[name](), GRAPHS["ring"](N)
    x0, a = point(case.problem), step_for(case)
    rival, tracked = rival.beside(a), rival in TRACKED
    expected = rival.run(rivals.full(case.gradients), W.toarray(), x0, a)
    agree(final(case.problem, rival.algorithm(a), W, x0), expected, x0, tracked)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rival", [*TRACKED, *UNTRACKED], ids=str)
def test_steps_that_shrink(rival: Rival, name: str) -> None:
    case, W = CASES[name](), GRAPHS["erdos-renyi"](N)
    x0, a = point(case.problem), step_for(case, 0.2)
    rival, tracked = rival.beside(a), rival in TRACKED
    expected = rival.run(rivals.full(case.gradients), W.toarray(), x0, lambda k: a / (k + 1) ** 0.5)
    agree(final(case.problem, rival.algorithm(f"diminishing:initial={a}"), W, x0), expected, x0, tracked)


def data(gradient: Gradient) -> tuple[Array, ...]:
    """What one agent's gradient is made of: A, or A and B."""
    assert isinstance(gradient, partial)
    return gradient.args


def batch_gradient(gradient: Gradient, batch: Index, x: Array) -> Array:
    """From the samples ``batch`` of one agent; a sum of squares is scaled up to all samples, as a mean need not be."""
    a, *b = data(gradient)
    if not b:
        return naive.pca_gradient(a[batch], x)
    return len(a) / len(batch) * naive.procrustes_gradient(a[batch], b[0][:, batch], x)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("rival", [*TRACKED, *UNTRACKED], ids=str)
def test_mini_batches(rival: Rival, name: str) -> None:
    """Iteration k goes by the gradients of batch k; a change of field is between those of batches k + 1 and k."""
    case, W = CASES[name](), GRAPHS["star"](N)
    x0, a = point(case.problem), step_for(case, 0.05)
    n_samples = np.array([len(data(gradient)[0]) for gradient in case.gradients])
    batches = [CounterStreams(SEED, slice(0, N)).integers("batch", k, 4, n_samples) for k in range(ITERATIONS + 1)]

    def gradients(i: int, k: int, x: Array) -> Array:
        return batch_gradient(case.gradients[i], batches[k][i], x)

    rival, tracked = rival.beside(a), rival not in UNTRACKED
    expected = rival.run(gradients, W.toarray(), x0, a)
    agree(final(case.problem, rival.algorithm(a, batch_size=4), W, x0), expected, x0, tracked)
    assert relative(expected.x[-1], rival.run(rivals.full(case.gradients), W.toarray(), x0, a).x[-1]) > 1e-3


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
    if rounds == 8 and graph != "slow ring":  # enough rounds for the paper's signs to find the same eigenspace on the way
        published = rivals.deepca(covariances, mixing, x0, ITERATIONS).x[-1]
        assert relative(state.x @ state.x.transpose(0, 2, 1), published @ published.transpose(0, 2, 1)) < 1e-12
