"""Automatic steps: stable beside any penalty that is given, and independent of the units of the
data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.algorithms.common.curvature import power_means
from decentorth.api import set_up
from decentorth.commands.run.command import main
from decentorth.network import Network
from decentorth.problems import (
    CCA,
    HEVP,
    PCA,
    FunctionProblem,
    OrthogonalDictionaryLearning,
    Procrustes,
)
from decentorth.protocols import Array
from decentorth.registry import algorithms
from decentorth.sets import GeneralizedStiefel, Stiefel
from tests.support.distributed import OwnMatrices, own_pencils, own_views
from tests.support.generalized import GEVP, cca, gevp, pencil
from tests.support.j_orthogonal import LogCosh, signs
from tests.support.problems import GRAPHS, UNEVEN, pca, point, procrustes, relative, samples

PENALTIES = [10.0**e for e in range(-3, 7)]
N = 5
W = GRAPHS["ring"](N)


@dataclass(frozen=True)
class Trial:
    method: Callable[..., Any]
    problems: tuple[Callable[[], Any], Callable[[], Any]]
    soft: bool = False
    """The penalty is that of a soft constraint: the smaller it is, the farther from the set is what
    the method looks for."""


def flat_hevp(scale: float = 0.01) -> HEVP:
    """Lipschitz constant 2 scale^2: below about that penalty UMCM's function is unbounded, and no
    step helps."""
    left, right = (
        np.linalg.qr(np.random.default_rng(n).standard_normal((n, 6))).Q for n in (12, 6)
    )
    return HEVP(scale * (left * np.logspace(0, -1, 6)) @ right, signs(6))


NETWORKED = (lambda: pca().problem, lambda: procrustes().problem)
ALONE = (lambda: pca(rows=(20,)).problem, lambda: procrustes(rows=(20,)).problem)
GENERALIZED = (lambda: gevp(9, 3), cca)
OWN = (own_pencils, partial(own_views, seed=1))
TRIALS: dict[str, Trial] = {
    "drfgt": Trial(do.DRFGT, NETWORKED),
    "drfgt-atc": Trial(partial(do.DRFGT, order="adapt-then-combine"), NETWORKED),
    "ef_landing": Trial(do.EFLanding, NETWORKED),
    "ef_landing-server": Trial(partial(do.EFLanding, server=True), NETWORKED),
    "saga_drfgt": Trial(do.SagaDRFGT, NETWORKED),
    "vr_drfgt": Trial(do.VRDRFGT, NETWORKED),
    "destiny": Trial(do.DESTINY, NETWORKED),
    "destiny-dissolved": Trial(partial(do.DESTINY, variant="dissolved"), NETWORKED),
    "rfextra": Trial(do.RFEXTRA, NETWORKED),
    "dgd": Trial(partial(do.DGD, step_size="auto"), NETWORKED, soft=True),
    "gradient_tracking": Trial(do.GradientTracking, NETWORKED, soft=True),
    "landing": Trial(do.Landing, ALONE),
    "plam": Trial(do.PLAM, GENERALIZED),
    "pcal": Trial(do.PCAL, GENERALIZED),
    "generalized_landing": Trial(do.GeneralizedLanding, GENERALIZED),
    "generalized_landing-psi-b": Trial(partial(do.GeneralizedLanding, safe=False), GENERALIZED),
    "generalized_landing-psi-br": Trial(
        partial(do.GeneralizedLanding, direction="psi-br", safe=False), GENERALIZED
    ),
    "generalized_landing-riemannian": Trial(
        partial(do.GeneralizedLanding, direction="riemannian", safe=False), GENERALIZED
    ),
    "cdadt": Trial(do.CDADT, OWN),
    "generalized_drfgt": Trial(do.GeneralizedDRFGT, OWN),
    "umcm": Trial(
        do.UMCM,
        (
            flat_hevp,
            lambda: LogCosh(0.01 * np.random.default_rng(0).standard_normal((40, 6)), signs(6)),
        ),
    ),
}


def test_every_method_with_a_penalty_and_steps_is_tried() -> None:
    """Others have tests of their own: asynchronous methods, methods of features and of directed
    graphs."""
    own = {"asynchronous_drfgt", "tracked_landing", "push_pull"}
    has_both = {
        name
        for name in algorithms.names()
        if {"penalty", "step_size"} <= {field.name for field in fields(algorithms.get(name))}
    }
    assert has_both == {name.partition("-")[0] for name in TRIALS} | own


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("name", TRIALS)
def test_automatic_steps_are_stable_beside_any_penalty(name: str, number: int) -> None:
    """Over nine decades, every second one for each problem: nothing diverges, points stay near the
    set, and the objective falls."""
    trial = TRIALS[name]
    problem = trial.problems[number]()
    for penalty in PENALTIES[number::2]:
        method = trial.method(penalty=penalty)
        result = do.solve(
            problem,
            method,
            W if problem.n_agents > 1 else None,
            iterations=120,
            record_every=10,
            seed=1,
        )
        feasibility, objective = result.history["feasibility"], result.history["objective"]
        assert result.status == "iterations", penalty
        # lambda x (x^T x - I) is no larger than the gradient that it balances
        reach = (
            2.0 * np.sqrt(problem.shape[1]) * max(problem.lipschitz) / penalty
            if trial.soft
            else 0.0
        )
        assert feasibility.max() < 1.5 + reach, penalty
        assert feasibility[-1] < 1.0 + reach, penalty
        assert objective[-1] < objective[0], penalty


def begun(problem: Any, method: Any) -> Any:
    return next(set_up(problem, method, W if problem.n_agents > 1 else None).states())


@pytest.mark.parametrize(
    "name",
    ["drfgt", "drfgt-atc", "destiny", "rfextra", "landing", "generalized_landing", "plam", "cdadt"],
)
def test_large_penalties_shorten_automatic_steps_in_proportion(name: str) -> None:
    """And a penalty that asks for nothing leaves the step of an automatic penalty, to the last
    bit."""
    trial = TRIALS[name]
    problem = trial.problems[0]()
    automatic = begun(problem, trial.method())
    small = begun(problem, trial.method(penalty=0.1 * float(automatic.penalty.min())))
    if name != "plam":
        np.testing.assert_array_equal(small.step_size, automatic.step_size)
    products = [
        penalty * begun(problem, trial.method(penalty=penalty)).step_size for penalty in (1e7, 1e8)
    ]
    np.testing.assert_allclose(products[0], products[1], rtol=1e-4)


DATA = samples(UNEVEN[:N], 12, 0)
TARGETS = [np.random.default_rng(1).standard_normal((3, len(rows))) for rows in DATA]
PENCIL = pencil(9)
PENCILS = own_pencils()
SCALES = (1e-58, 1e-21, 1e-10, 1e-3, 1e3, 1e20, 1e38, 1e58)

SCALED: dict[str, Callable[[float], Any]] = {
    "pca": lambda s: PCA([s * rows for rows in DATA], 3),
    "procrustes": lambda s: Procrustes(
        [s * rows for rows in DATA], [s * target for target in TARGETS]
    ),
    "pca-alone": lambda s: PCA([s * DATA[1]], 3),
    "procrustes-alone": lambda s: Procrustes([s * DATA[1]], [s * TARGETS[1]]),
    "pencil": lambda s: GEVP(s * s * PENCIL[0], GeneralizedStiefel(PENCIL[1], 3)),
    "own pencils": lambda s: OwnMatrices(s * s * PENCILS.A, PENCILS.B, 2),
    "hyperbolic": flat_hevp,
}
OF_UNITS: dict[tuple[str, ...], list[Any]] = {
    ("pca", "procrustes"): [
        *(
            do.DRFGT(),
            do.DRFGT(order="adapt-then-combine"),
            do.DRFGT(safe=True),
            do.DESTINY(),
            do.RFEXTRA(),
            do.REXTRA(),
        ),
        *(
            do.DGD(),
            do.DPRGD(),
            do.DPRGT(),
            do.DDRS(),
            do.EFLanding(),
            do.LocalTracking(),
            do.RMTracking(),
            do.DRGTA(),
        ),
        *(do.DRSGD(), do.DRSM(step_size="geometric"), do.GradientTracking()),
    ],
    ("pca-alone", "procrustes-alone", "pencil"): [do.Landing(), do.PLAM(), do.PCAL(), do.RGD()],
    ("pca-alone", "procrustes-alone"): [do.Landing(step_size="bb")],
    ("pencil",): [
        do.RGD(metric="euclidean"),
        do.GeneralizedLanding(),
        do.GeneralizedLanding(direction="psi-br"),
    ],
    ("own pencils",): [do.CDADT(), do.GeneralizedDRFGT()],
    ("hyperbolic",): [do.UMCM(), do.RGD()],
}


def first_step_and_point(problem: Any, method: Any, x0: Array) -> tuple[Array, Array]:
    """What an automatic step is, and where eight iterations lead."""
    states = set_up(problem, method, W if problem.n_agents > 1 else None, x0=x0).states()
    step = next(states).step_size.copy()
    return step, list(islice(states, 8))[-1].x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "kind"),
    [(one, kind) for kinds, some in OF_UNITS.items() for one in some for kind in kinds],
    ids=str,
)
def test_automatic_steps_do_not_depend_on_the_units_of_the_data(method: Any, kind: str) -> None:
    """Data times s: objectives times s^2, steps divided by s^2, and the same points, however large
    or small s is."""
    problem = SCALED[kind](1.0)
    x0 = point(problem)
    step, x = first_step_and_point(problem, method, x0)
    for s in SCALES:
        other, y = first_step_and_point(SCALED[kind](s), method, x0)
        np.testing.assert_allclose(other * s * s, step, rtol=1e-12)
        assert relative(y, x) < 1e-12


@pytest.mark.parametrize(
    "method", [*OF_UNITS[("pencil",)][1:], do.RGD(), do.PLAM(), do.PCAL()], ids=str
)
def test_units_of_the_constraint_too(method: Any) -> None:
    """A and B times s^2: the same points, divided by s, as far as a run takes such points; safe
    steps as well."""

    def scaled(s: float) -> GEVP:
        return GEVP(s * s * PENCIL[0], GeneralizedStiefel(s * s * PENCIL[1], 3))

    x0 = point(scaled(1.0))
    _, x = first_step_and_point(scaled(1.0), method, x0)
    for s in (s for s in SCALES if 1e-45 < s < 1e45):
        _, y = first_step_and_point(scaled(s), method, x0 / s)
        assert relative(s * y, x) < 2e-12


def test_power_means_of_numbers_whose_powers_are_no_float64() -> None:
    """Agents from 2^-590 to 2^590 apart: the largest decide, and neighbours in scale are added
    up."""
    alone = np.array([[1.7, 2.5], [0.3, 0.0], [1.1, 4.0], [0.9, 1.0], [2.2, 3.0]])
    network = Network(W)
    for powers, inverse in ((4.0, 0.25), (8.0, 0.125)):
        expected = np.mean(alone**powers, axis=0) ** inverse
        for exponent in (-590, -361, -360, -241, -120, -1, 0, 119, 120, 121, 240, 360, 590):
            found = power_means(network, np.ldexp(alone, exponent), powers, 1e-15).root(inverse)
            np.testing.assert_allclose(
                np.ldexp(found, -exponent), np.broadcast_to(expected, (N, 2)), rtol=1e-13
            )
        spread = np.ldexp(1.0, np.array([590, 300, 0, -300, -590]))
        found = power_means(network, spread, powers, 1e-15).root(inverse)
        np.testing.assert_allclose(np.ldexp(found, -590), (1 / N) ** inverse, rtol=1e-13)
    zero = power_means(network, np.zeros(N), 8.0, 1e-15).root(-0.125)
    assert (zero > 1e180).all()
    assert np.isfinite(zero).all()


def test_the_advice_names_the_penalty_where_it_is_the_cause(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["--algorithm", "drfgt", "--iterations", "50"]
    assert main([*words, "--penalty", "1e6", "--step-size", "1e-3"]) == 3
    advice = "try a penalty of 1e+02, a step size of 1e-07, or step size 'auto'"
    assert (
        f"the step size 0.001 is too large for the penalty 1e+06: {advice}"
        in capsys.readouterr().out
    )
    for flags in (
        ["--penalty", "1e2", "--step-size", "1e-3"],
        ["--penalty", "1e6", "--step-size", "1e-7"],
    ):
        assert main([*words, *flags, "--quiet"]) == 0


def with_little_data(name: str, kinds: list[str]) -> Any:
    """A problem with a plain agent, whose data determine B, and agents of these kinds."""
    rng = np.random.default_rng(0)
    drawn: dict[str, Callable[[], Array]] = {
        "plain": lambda: rng.standard_normal((8, 5)),
        "one sample": lambda: rng.standard_normal((1, 5)),
        "constant": lambda: np.repeat(rng.standard_normal((1, 5)), 4, axis=0),
        "rank one": lambda: rng.standard_normal((6, 1)) * rng.standard_normal((1, 5)),
        "zero": lambda: np.zeros((3, 5)),
        "tiny": lambda: 1e-9 * rng.standard_normal((6, 5)),
    }
    data = [drawn[kind]() for kind in ("plain", *kinds)]
    made: dict[str, Callable[[], Any]] = {
        "pca": lambda: PCA(data, 2),
        "procrustes": lambda: Procrustes(data, [rng.standard_normal((2, len(a))) for a in data]),
        "odl": lambda: OrthogonalDictionaryLearning(data),
        "gevp": lambda: do.problems.GEVP(
            [a.T @ a for a in data], np.diag([1.0, 2.0, 3.0, 4.0, 5.0]), 2
        ),
        "cca": lambda: CCA(data, [rng.standard_normal((len(a), 4)) for a in data], 2, ridge=1e-2),
    }
    return made[name]()


@pytest.mark.parametrize(
    ("name", "kinds", "method"),
    [
        ("gevp", ["one sample", "one sample"], "drfgt"),
        ("cca", ["one sample", "plain"], "drgta"),
        ("procrustes", ["zero", "plain"], "rextra"),
        ("pca", ["constant", "rank one", "tiny"], "push_pull"),
        ("odl", ["one sample", "zero"], "rfextra"),
        ("pca", ["tiny", "zero"], "dprgt"),
    ],
)
def test_automatic_steps_where_agents_have_little_data(
    name: str, kinds: list[str], method: str
) -> None:
    """Steps and penalties are positive numbers, within six decades of those of plain agents, and no
    run diverges."""
    problem, plain = with_little_data(name, kinds), with_little_data(name, ["plain"] * len(kinds))
    W = GRAPHS["ring"](problem.n_agents) if problem.n_agents > 3 else GRAPHS["complete"](3)
    begun, expected = (
        next(set_up(one, method, W, comm="serial", seed=1).states()) for one in (problem, plain)
    )
    for field in ("step_size", "penalty"):
        here, there = (getattr(state, field, np.ones(1)) for state in (begun, expected))
        assert np.all((here > 1e-6 * there.min()) & (here < 1e6 * there.max())), (
            field,
            here,
            there,
        )
    result = do.solve(problem, method, W, iterations=60, rows=2, comm="serial", seed=1)
    assert result.status == "iterations"
    assert result.row.values["feasibility"] < 2.0


def test_extra_converges_on_the_products_of_generalized_sets() -> None:
    """RF-EXTRA's steps know how long the landing field of {x : x^T B x = I} is."""
    rng = np.random.default_rng(0)
    rows = (20, 20, 1, 20, 20)
    x, y = ([rng.standard_normal((m, d)) for m in rows] for d in (12, 9))
    result = do.solve(
        CCA(x, y, 3, ridge=1e-2),
        do.RFEXTRA(step_size="constant"),
        W,
        iterations=1500,
        rows=2,
        comm="serial",
    )
    assert result.row.values["feasibility"] < 1e-4
    assert result.row.values["gradient_norm"] < 1e-2


FASTEST = tp.fmmc_weights(tp.ring(10))


@pytest.mark.parametrize("W", [FASTEST, np.array([[0.1, 0.9], [0.9, 0.1]])], ids=["ring", "pair"])
@pytest.mark.parametrize(
    ("method", "step"),
    [
        (do.DRFGT, 1e-6),
        (do.DRFGT, 1e-2),
        (partial(do.DRFGT, order="adapt-then-combine"), 1e-2),
        (do.DESTINY, 1e-3),
    ],
)
def test_the_penalty_beside_a_given_step_is_stable_on_any_graph(
    W: Any, method: Callable[..., Any], step: float
) -> None:
    """Eigenvalues of W near -1 allow less than 0.1 / step: noise of rounding errors does not
    grow."""
    problem = PCA(np.random.default_rng(0).standard_normal((W.shape[0], 20, 6)), 2)
    result = do.solve(problem, method(step_size=step), W, iterations=600, rows=2, comm="serial")
    assert result.status == "iterations"
    assert result.row.values["feasibility"] < 1e-3


@pytest.mark.parametrize("method", [do.Landing, do.DRFGT, do.RFEXTRA])
@pytest.mark.parametrize("n", [3, 8])
def test_landing_on_an_objective_that_is_not_differentiable(
    n: int, method: Callable[..., Any]
) -> None:
    """Subgradients stay large at the minimiser, and steps leave the set by their squares: the
    penalty takes that back."""
    rng = np.random.default_rng(0)
    dictionary = np.linalg.qr(rng.standard_normal((n, n))).Q
    sparse = rng.standard_normal((300 * n, n)) * (rng.random((300 * n, n)) < 0.3)
    problem = OrthogonalDictionaryLearning([sparse @ dictionary.T])
    result = do.solve(problem, method(), iterations=400, record_every=20, seed=0)
    assert result.status == "iterations"
    assert result.history["feasibility"].max() < 0.5
    assert result.history["objective"][-1] < result.history["objective"][0]


def test_a_gradient_that_is_not_finite_is_reported() -> None:
    """LAPACK refuses such matrices of some sizes; the run ends with the agent and the cause."""
    problem = FunctionProblem(
        lambda i, x: 0.0, lambda i, x: np.full_like(x, np.nan) if i == 1 else x, Stiefel(30, 29), 3
    )
    result = do.solve(problem, do.DRFGT(), "complete", iterations=5, comm="serial")
    assert result.status == "diverged"
    assert "gradient of agent 1 is not finite" in str(result)


@pytest.mark.parametrize("method", ["drfgt", "push_pull", "destiny"])
def test_landing_on_gradients_of_single_samples(method: str) -> None:
    """Their noise stays at the minimiser, and steps leave the set by their squares: the penalty
    takes that back."""
    problem = PCA(np.random.default_rng(0).standard_normal((5, 100, 8)) * 0.8 ** np.arange(8), 3)
    result = do.solve(
        problem,
        f"{method}:batch_size=1",
        "complete",
        iterations=400,
        record_every=20,
        comm="serial",
        seed=0,
    )
    assert result.status == "iterations"
    assert result.history["feasibility"].max() < 1.0
    assert result.history["objective"][-1] < result.history["objective"][0]
