"""The centralized methods on {x : x^T B x = I} against loops written from the formulas, and their
answers against scipy's."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, get_args

import numpy as np
import pytest
import scipy.linalg

from decentorth import PCAL, PLAM, RGD, GeneralizedLanding, Landing, solve
from decentorth.algorithms.centralized.samples import draws, passing
from decentorth.api import set_up
from decentorth.api.capabilities import check_capabilities
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import FunctionProblem, Procrustes
from decentorth.protocols import Array, Direction, MetricName, Retraction
from decentorth.sets import GeneralizedStiefel, Stiefel
from decentorth.stopping import Feasibility, GradientNorm
from tests.reference import generalized as naive
from tests.support.generalized import GEVP, cca, gevp, optimum, pencil, sampled_gevp
from tests.support.marks import first_is_quick
from tests.support.problems import point, relative

directions = pytest.mark.parametrize("direction", get_args(Direction))
retractions = pytest.mark.parametrize("retraction", get_args(Retraction))
metrics = pytest.mark.parametrize("metric", get_args(MetricName))


def small(seed: int = 0) -> tuple[GEVP, Array, Callable[[Array], Array], Array]:
    """A problem with n = 8 and p = 3, its B, its gradient as a function of one point, and a
    start."""
    A, B = pencil(8, 10.0, seed)
    problem = GEVP(A, GeneralizedStiefel(B, 3))
    return problem, B, lambda x: -A @ x, point(problem, 1)


def gap(problem: Any, B: Array, x: Array) -> float:
    """How far the objective at the projection of ``(n, p)`` is above the least one, relative to
    that."""
    least = optimum(problem.A, B, problem.shape[1])
    return float(problem.value(problem.constraint.project(x[None]))[0] - least) / abs(least)


@pytest.mark.slow_cases("natural-0.3", "psi-b-0.3")
@pytest.mark.parametrize("eps", [None, 0.3])
@directions
def test_landing_is_its_iteration(direction: Direction, eps: float | None) -> None:
    """Steps that have to be shortened to stay within eps, which multiply rounding errors, and steps
    that do not."""
    problem, B, gradient, x0 = small()
    step = {"psi-b": 0.3, "psi-br": 0.05, "riemannian": 0.3, "natural": 0.05}[direction] * (
        1.0 if eps is None else 10.0
    )
    method = GeneralizedLanding(
        step_size=step, penalty=0.2, direction=direction, safe=eps is not None, eps=eps or 0.9
    )
    k = 20 if eps is None else 8
    result = solve(problem, method, x0=x0, iterations=k)
    expected = naive.landing(B, gradient, x0, step, 0.2, k, direction, eps)
    assert relative(result.x[0], expected) < 1e-10
    assert relative(result.x[0], x0) > 1e-2
    if eps is not None:
        assert (
            relative(expected, naive.landing(B, gradient, x0, step, 0.2, k, direction, 0.5 * eps))
            > 1e-6
        )
        assert result.history["feasibility"].max() <= eps + 1e-12


@retractions
@metrics
def test_rgd_is_its_iteration(metric: MetricName, retraction: Retraction) -> None:
    problem, B, gradient, x0 = small()
    result = solve(
        problem, RGD(step_size=0.05, metric=metric, retraction=retraction), x0=x0, iterations=30
    )
    expected = naive.rgd(B, gradient, x0, 0.05, 30, metric, retraction)
    assert relative(result.x[0], expected) < 1e-10
    assert relative(result.x[0], x0) > 1e-2


@pytest.mark.parametrize("method", [PLAM, PCAL])
def test_plam_and_pcal_are_their_iterations(method: type[PLAM]) -> None:
    problem, B, gradient, x0 = small()
    result = solve(problem, method(step_size=0.05, penalty=3.0), x0=x0, iterations=30)
    expected = {PLAM: naive.plam, PCAL: naive.pcal}[method](B, gradient, x0, 0.05, 3.0, 30)
    assert relative(result.x[0], expected) < 1e-10
    assert relative(result.x[0], x0) > 1e-2
    if method is PCAL:
        np.testing.assert_allclose(np.diag(result.x[0].T @ B @ result.x[0]), 1.0, rtol=1e-13)


METHODS: dict[str, Any] = {
    "landing": lambda **more: GeneralizedLanding(penalty=0.4, safe=False, **more),
    "rgd-natural": lambda **more: RGD(**more),
    "rgd-euclidean": lambda **more: RGD(metric="euclidean", **more),
    "plam": lambda **more: PLAM(penalty=3.0, **more),
    "pcal": lambda **more: PCAL(penalty=3.0, **more),
}


@pytest.mark.parametrize("name", METHODS)
def test_barzilai_borwein_steps(name: str) -> None:
    """Long, short, long, ... from what each iteration changed, in the inner product of the metric,
    with no other bound."""
    problem, B, gradient, x0 = small()
    run = set_up(problem, METHODS[name](step_size="bb:initial=0.02,cap=inf"), x0=x0)
    points, steps = zip(
        *((state.x[0].copy(), float(state.step_size[0])) for state in islice(run.states(), 15)),
        strict=True,
    )
    fields = {
        "landing": lambda x: naive.landing_field(B, x, gradient(x), 0.4),
        "rgd-natural": lambda x: naive.natural_gradient(B, x, gradient(x)),
        "rgd-euclidean": lambda x: naive.riemannian(B, x, gradient(x)),
        "plam": lambda x: naive.augmented_gradient(B, x, gradient(x), 3.0),
        "pcal": lambda x: column_tangent(B, x, naive.augmented_gradient(B, x, gradient(x), 3.0)),
    }
    metric = B if name == "rgd-natural" else np.eye(8)
    expected = naive.barzilai_borwein(list(points), [fields[name](x) for x in points], metric)
    assert steps[0] == 0.02
    np.testing.assert_allclose(steps[1:], expected, rtol=1e-6)
    assert max(steps) > 3 * 0.02


def column_tangent(B: Array, x: Array, field: Array) -> Array:
    normal = B @ x
    return field - normal * ((normal * field).sum(axis=0) / (normal * normal).sum(axis=0))


def test_rgd_carries_the_product_with_b() -> None:
    """Through iterations without a product, and after one that makes it anew; the points stay
    feasible all the while."""
    problem, B, _, x0 = small()
    products: list[Array] = []
    multiply = problem.constraint.operator.product

    def counted(x: Array) -> Array:
        products.append(x)
        return multiply(x)

    states = set_up(problem, RGD(step_size=0.05), x0=x0).states()
    next(states)
    problem.constraint.operator.product = counted
    for state in islice(states, 129):
        assert relative(state.product[0], B @ state.x[0]) < 1e-13
        np.testing.assert_allclose(state.image[0], B @ state.field[0], atol=1e-14)
        assert naive.norm(naive.gap(B, state.x[0])) < 1e-13
    assert len(products) == 2


@pytest.mark.slow
def test_the_carried_product_does_not_drift_with_long_steps() -> None:
    """Nor with Barzilai-Borwein steps made of rounding errors, hundreds of times the first one."""
    problem, B, _, x0 = small()
    run, longest = set_up(problem, RGD(step_size="bb:cap=inf"), x0=x0), 0.0
    for state, k in zip(run.states(), range(600), strict=False):
        longest = max(longest, float((state.step_size / state.base)[0]))
        assert relative(state.product[0], B @ state.x[0]) < 1e-13
        if k > 100:
            assert naive.norm(naive.gap(B, state.x[0])) < 1e-13
            assert abs(gap(problem, B, state.x[0])) < 1e-12
    assert longest > 100


@pytest.mark.slow
def test_methods_on_the_stiefel_manifold_are_those_with_the_identity() -> None:
    """PLAM, PCAL and RGD run on St(d, r) itself; GeneralizedLanding is `Landing` there with half
    the step and half the penalty."""
    rng = np.random.default_rng(0)
    A, targets = rng.standard_normal((30, 6)), rng.standard_normal((3, 30))
    plain = Procrustes([A], [targets])
    general: Any = Procrustes([A], [targets])
    general.constraint = GeneralizedStiefel(np.eye(6), 3)
    x0 = point(plain, 1)
    for method in (
        PLAM(step_size=1e-3),
        PCAL(step_size=1e-3),
        RGD(step_size=1e-3),
        RGD(step_size=1e-3, metric="euclidean"),
    ):
        first, second = (
            solve(problem, method, x0=x0, iterations=40) for problem in (plain, general)
        )
        assert relative(first.x, second.x) < 1e-11
        assert relative(first.x, x0[None]) > 1e-2
    landing = solve(plain, Landing(step_size=4e-3, penalty=2.0), x0=x0, iterations=40)
    half = solve(
        general, GeneralizedLanding(step_size=2e-3, penalty=2.0, safe=False), x0=x0, iterations=40
    )
    assert relative(landing.x, half.x) < 1e-11


def test_automatic_numbers() -> None:
    """Steps from the curvature in the metric of the direction, penalties from the step; see the
    methods' docstrings."""
    problem, B, gradient, x0 = small()
    A, largest = problem.A, float(np.linalg.eigvalsh(B)[-1])
    g = gradient(x0)
    multiplier = float(np.linalg.norm(naive.sym(naive.polar(B, g).T @ g), ord=2))
    euclidean = max(float(np.linalg.eigvalsh(A)[-1]), largest * multiplier)
    natural = max(float(np.abs(scipy.linalg.eigvalsh(A, B)).max()), multiplier)
    embedded = euclidean + largest * natural
    psi_b = 0.35 / (largest * euclidean)
    steps = {
        "psi-b": psi_b,
        "psi-br": 0.35 / natural,
        "riemannian": 0.7 / embedded,
        "natural": 0.35 / natural,
    }

    def begun(method: Any) -> Any:
        return next(set_up(problem, method, x0=x0).states())

    for direction in get_args(Direction):
        state = begun(GeneralizedLanding(direction=direction))
        assert state.step_size[0] == pytest.approx(steps[direction], rel=0.02)
        pull = 1.0 if direction == "natural" else largest
        assert state.penalty[0] * state.step_size[0] * pull == pytest.approx(0.05, rel=1e-12)
    assert begun(Landing()).step_size[0] == pytest.approx(2 * psi_b, rel=1e-12)
    assert begun(RGD()).step_size[0] == pytest.approx(0.7 / natural, rel=0.02)
    assert begun(RGD(metric="euclidean")).step_size[0] == pytest.approx(0.7 / embedded, rel=0.02)
    for method in (PLAM, PCAL):
        state = begun(method())
        assert state.penalty[0] == pytest.approx(natural, rel=0.02)
        assert state.step_size[0] == pytest.approx(
            0.7 / (euclidean + largest * state.penalty[0]), rel=1e-12
        )
        assert begun(method(penalty=5.0)).penalty[0] == 5.0


def test_solves_that_are_not_possible_are_refused_with_what_is() -> None:
    """At the start of a run, where B is known by products alone; Euclidean steps are then made of
    Euclidean numbers."""
    problem = sampled_gevp(6, 2, 40)
    euclidean = next(set_up(problem, RGD(metric="euclidean")).states())
    assert euclidean.step_size[0] * problem.lipschitz[0] <= 0.7 * (1 + 1e-12)
    for method in (PLAM, PCAL):
        with pytest.raises(TypeError, match=r"B is a sample covariance .* B\^\{-1\} g is needed"):
            solve(problem, method())
    refused: Any
    for refused in (RGD(), GeneralizedLanding(direction="psi-br")):
        with pytest.raises(
            TypeError, match=r"never formed, and B\^\{-1\} g is needed: .*\(psi-b, euclidean\)"
        ):
            next(set_up(problem, refused).states())
    taken: Any
    for taken in (
        PLAM(penalty=4.0),
        PCAL(penalty=4.0),
        GeneralizedLanding(),
        GeneralizedLanding(direction="riemannian"),
    ):
        assert np.isfinite(solve(problem, taken, iterations=5).x).all()


@pytest.mark.parametrize(
    "method",
    first_is_quick(
        [
            RGD(),
            RGD(metric="euclidean"),
            *(GeneralizedLanding(direction=one) for one in get_args(Direction)),
            PLAM(),
            PCAL(),
        ]
    ),
    ids=str,
)
def test_automatic_steps_find_the_generalized_eigenvectors(method: Any) -> None:
    """Constant ones, where the multiplier at the answer is many times that at the start."""
    problem = gevp(20, 5, 10.0)
    _, B = pencil(20, 10.0)
    result = solve(
        problem,
        method,
        iterations=16_000,
        stopping=GradientNorm(1e-5) & Feasibility(1e-5),
        record_every=200,
        seed=1,
    )
    assert abs(gap(problem, B, result.x[0])) < 1e-8
    assert result.row.values["feasibility"] < 1e-4


@pytest.mark.parametrize("name", first_is_quick(METHODS))
def test_canonical_correlations_on_a_product(name: str) -> None:
    problem = cca()
    result = solve(problem, METHODS[name](step_size="bb:cap=inf"), iterations=1500, rows=2, seed=2)
    x = problem.constraint.project(result.x)
    assert problem.value(x)[0] == pytest.approx(problem.optimum(), rel=1e-8)
    assert set(result.unpacked()) == {"x", "y"}
    assert result.row.values["feasibility"] < 1e-5


@pytest.mark.parametrize("batches", ["three", "one"])
def test_sampled_landing_is_its_iteration(batches: Any) -> None:
    """Three batches that share nothing, from one stream of the agent, or one for the gradient and
    both covariances."""
    problem, streams, b = sampled_gevp(6, 2, 25, ridge=0.1), CounterStreams(9, slice(0, 1)), 3
    step_size = "diminishing:initial=0.01"
    method = GeneralizedLanding(
        step_size=step_size, penalty=0.5, batch_size=b, covariance="sampled", batches=batches
    )
    x = x0 = point(problem, 1)
    for k in range(30):
        drawn = (
            [passing(streams, k, b, 25)] * 3
            if batches == "one"
            else draws(problem, streams, k, b, 3)
        )
        xi, zeta, zeta2 = (batch[0] for batch in drawn)
        D = problem.covariance.rows
        B, B2 = (D[one].T @ D[one] / len(one) + 0.1 * np.eye(6) for one in (zeta, zeta2))
        g = -problem.C[xi].T @ problem.C[xi] @ x / len(xi)
        x = x - 0.01 / np.sqrt(k + 1) * naive.sampled_field(B, B2, x, g, 0.5)
    result = solve(problem, method, x0=x0, iterations=30, seed=9)
    assert relative(result.x[0], x) < 1e-11
    assert result.state.gradients == 31


def test_a_pass_takes_every_sample_once() -> None:
    """In batches of the size asked for but the last, each spread over all samples; passes differ in
    their order."""
    streams, orders = CounterStreams(3, slice(0, 1)), []
    for n_samples, b in ((12, 5), (12, 4), (7, 7), (5, 9), (1, 1)):
        per = -(-n_samples // b)
        for epoch in range(3):
            batches = [passing(streams, epoch * per + j, b, n_samples)[0] for j in range(per)]
            assert [len(batch) for batch in batches[:-1]] == [b] * (per - 1)
            assert sorted(np.concatenate(batches).tolist()) == list(range(n_samples))
            orders.append(tuple(np.concatenate(batches).tolist()))
    assert len(set(orders[:3])) == 3
    for k in range(100):
        batch = np.sort(passing(streams, k, 20, 1000)[0])
        assert np.diff(np.append(batch, batch[0] + 1000)).max() < 2 * 1000 / 20


@pytest.mark.parametrize("name", ["landing", "rgd"])
def test_rolling_covariances(name: str) -> None:
    """The mean of the samples seen, and the iteration with it; after one pass it is B itself."""
    problem, seen = sampled_gevp(6, 2, 25, ridge=0.1), np.array([], dtype=np.int64)
    given: Any = {"step_size": 0.02, "batch_size": 4, "covariance": "rolling"}
    method: Any = GeneralizedLanding(penalty=0.5, **given) if name == "landing" else RGD(**given)
    x = x0 = point(problem, 1)
    for k, state in enumerate(islice(set_up(problem, method, x0=x0, seed=9).states(), 12)):
        batch = passing(CounterStreams(9, slice(0, 1)), k, 4, 25)[0]
        if len(seen) < 25:
            seen = np.append(seen, batch)
        rows, C = problem.covariance.rows[seen], problem.C[batch]
        B = rows.T @ rows / len(seen) + 0.1 * np.eye(6)
        np.testing.assert_allclose(state.matrices[0], B, rtol=1e-11, atol=1e-13)
        assert relative(state.x[0], x) < 1e-11
        g = -C.T @ C @ x / len(C)
        if name == "landing":
            x = x - 0.02 * naive.landing_field(B, x, g, 0.5)
        else:
            x = naive.polar(B, x - 0.02 * naive.natural_gradient(B, x, g))
    np.testing.assert_allclose(B, problem.B, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"covariance": "sampled"}, "covariance 'sampled' takes samples: give a batch_size"),
        (
            {"covariance": "sampled", "batch_size": 3, "direction": "psi-br"},
            "only direction 'psi-b' has an unbiased form",
        ),
        (
            {"covariance": "rolling", "batch_size": 3, "batches": "one"},
            "batches 'one' goes with covariance 'sampled', got",
        ),
        (
            {"covariance": "rolling", "batch_size": 3, "safe": True},
            "safe steps need the exact B, got covariance",
        ),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GeneralizedLanding(**settings)


def test_capabilities_are_asked_for_before_work() -> None:
    plain = FunctionProblem(lambda agent, x: 0.0, lambda agent, x: x, Stiefel(4, 2), 1)
    general = FunctionProblem(
        lambda agent, x: 0.0, lambda agent, x: x, GeneralizedStiefel(np.eye(4), 2), 1
    )
    for problem, method, name in (
        (
            plain,
            GeneralizedLanding(),
            "GeneralizedLanding needs ProductLanding of its problem; Stiefel has none",
        ),
        (
            general,
            GeneralizedLanding(batch_size=2, covariance="sampled"),
            "GeneralizedLanding needs SampledProducts",
        ),
        (general, RGD(batch_size=2, covariance="rolling"), "RGD needs SampledMatrices"),
        (plain, RGD(batch_size=2, covariance="rolling"), "RGD needs SampledMatrices"),
    ):
        with pytest.raises(TypeError, match=name):
            check_capabilities(problem, method)
