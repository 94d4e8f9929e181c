"""The methods of the field since 2024: their formulas, agent by agent, and what each of them
promises."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import decentorth as do
import topologies as tp
from decentorth.numerics import tangent_proximal
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import SparsePCA
from decentorth.problems.common.regularizers import REGULARIZERS
from decentorth.protocols import Array
from tests.algorithms.decentralized.test_rivals_reference import (
    SEED,
    N,
    agree,
    batch_gradient,
    data,
    final,
    step_for,
)
from tests.reference import field, naive, rivals
from tests.support.building import built, prepared
from tests.support.problems import CASES, GRAPHS, UNEVEN, Case, point, relative, samples

RING = tp.metropolis_weights(tp.ring(8))
THERE = do.stopping.GradientNorm(1e-8) & do.stopping.Consensus(1e-8)


def unlike(**settings: Any) -> Any:
    given = {
        "data": "synthetic",
        "dimension": 8,
        "rank": 2,
        "gap": 0.3,
        "heterogeneity": 0.5,
        **settings,
    }
    return prepared(built(do.problems.PCASettings(**given).problem(8, 0)))


def gradient(problem: Any, x: Array) -> float:
    """The norm of the mean Riemannian gradient at the polar factor of the mean point."""
    mean = naive.polar(x.mean(0))
    slopes = problem.gradient(np.repeat(mean[None], len(x), axis=0))
    return naive.norm(naive.tangent_projection(mean, slopes.mean(0)))


def whole(case: Case) -> rivals.Gradients:
    return rivals.full(case.gradients)


def batches(case: Case, iterations: int = 15) -> rivals.Gradients:
    counts, streams = (
        [len(data(slope)[0]) for slope in case.gradients],
        CounterStreams(SEED, slice(0, N)),
    )
    drawn = [streams.integers("batch", k, 4, np.array(counts)) for k in range(iterations + 1)]
    return lambda i, k, x: batch_gradient(case.gradients[i], drawn[k][i], x)


def saga(case: Case, W: Array, x0: Array, a: float) -> rivals.Trajectory:
    """Batches with samples drawn twice among them."""
    counts, streams = case.problem.n_samples, CounterStreams(SEED, slice(0, N))
    drawn = [streams.integers("batch", k, 4, counts) for k in range(1, 16)]
    assert any(len(set(own)) < 4 for batch in drawn for own in batch.tolist())

    def one(i: int, s: int, x: Array) -> Array:
        return batch_gradient(case.gradients[i], np.array([s]), x)

    return field.saga_drfgt(one, N, counts.tolist(), drawn, W, x0, a, 0.1 / a)


def vr(case: Case, W: Array, x0: Array, a: float) -> rivals.Trajectory:
    return field.vr_drfgt(batches(case), whole(case), W, x0, a, 0.1 / a, 15, 4)


def mapping(case: Case, W: Array, x0: Array, a: float) -> rivals.Trajectory:
    return field.rfextra(whole(case), W, x0, a, 15, 0.2 / a)


def of(
    reference: Callable[..., rivals.Trajectory], *settings: Any, gradients: Any = whole
) -> Callable[..., rivals.Trajectory]:
    return lambda case, W, x0, a: reference(gradients(case), W, x0, a, 15, *settings)


FORMULAS: dict[str, tuple[float, Callable[..., rivals.Trajectory], Callable[..., Any]]] = {
    "rmtracking": (0.05, of(field.rmtracking, 0.7), partial(do.RMTracking, momentum=0.7)),
    "demuon": (0.1, of(field.demuon, 0.3, False), partial(do.DeMuon, weight=0.3)),
    "demuon nuclear": (0.03, of(field.demuon, 1.0, True), partial(do.DeMuon, length="nuclear")),
    "dprsrm": (0.05, of(field.dprsrm, 2 / 3, gradients=batches), partial(do.DPRSRM, batch_size=4)),
    "dprsrm on all samples": (0.05, of(field.dprsrm, 2 / 3), do.DPRSRM),
    "dprsrm plain": (
        0.05,
        of(field.dprsrm, 0.0, gradients=batches),
        partial(do.DPRSRM, batch_size=4, forgetting=0.0),
    ),
    "vr_drfgt": (
        0.05,
        vr,
        lambda step_size: do.VRDRFGT(
            step_size=step_size, penalty=0.1 / step_size, batch_size=4, period=4
        ),
    ),
    "saga_drfgt": (
        0.05,
        saga,
        lambda step_size: do.SagaDRFGT(step_size=step_size, penalty=0.1 / step_size, batch_size=4),
    ),
    "drcgd": (0.03, of(field.drcgd, 0.9, False), do.DRCGD),
    "drcgd tracked": (0.03, of(field.drcgd, 0.9, True), partial(do.DRCGD, tracked=True)),
    "rfextra": (
        0.05,
        mapping,
        lambda step_size: do.RFEXTRA(
            step_size=step_size, penalty=0.2 / step_size, direction="mapping"
        ),
    ),
    "local_tracking": (0.03, of(field.local_tracking, 3), partial(do.LocalTracking, local_steps=3)),
    "local_tracking on batches": (
        0.03,
        of(field.local_tracking, 3, gradients=partial(batches, iterations=45)),
        partial(do.LocalTracking, local_steps=3, batch_size=4),
    ),
    "ddrs": (0.3, of(field.ddrs, 3), do.DDRS),
    "ddrs in one step": (0.3, of(field.ddrs, 1), partial(do.DDRS, inner_steps=1)),
}
"""The step in units of 1 / L, the reference, and the method."""


@pytest.mark.parametrize("graph", ["ring", "star"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("method", FORMULAS)
def test_methods_are_their_formulas(method: str, name: str, graph: str) -> None:
    share, reference, algorithm = FORMULAS[method]
    case, W = CASES[name](), GRAPHS[graph](N)
    x0, a = point(case.problem), step_for(case, share)
    expected, state = (
        reference(case, W.toarray(), x0, a),
        final(case.problem, algorithm(step_size=a), W, x0),
    )
    agree(state, expected, x0, method.partition(" ")[0] not in ("rfextra", "local_tracking"))
    if method.startswith("local_tracking"):
        assert relative(state.correction, expected.tracker[-1]) < 1e-11


def test_momentum_is_as_fast_as_its_sum_of_steps() -> None:
    """At equal small steps: 1/(1 - 0.8) times."""
    problem = unlike()
    iterations = [
        do.solve(problem, method, RING, iterations=10_000, stopping=THERE).iterations
        for method in (do.DPRGT(step_size=0.02), do.RMTracking(step_size=0.02, momentum=0.8))
    ]
    assert iterations[0] / iterations[1] == pytest.approx(5.0, rel=0.1)


@pytest.mark.slow
def test_conjugate_directions_of_own_gradients_need_steps_that_vanish() -> None:
    problem = unlike()
    ends = [
        do.solve(problem, do.DRCGD(step_size=step), RING, iterations=20_000, rows=2)
        for step in (0.01, "diminishing:initial=0.17,power=0.75")
    ]
    norms = [gradient(problem, result.x) for result in ends]
    apart = [result.row.values["consensus_rms"] for result in ends]
    assert norms[1] < 1e-4 < norms[0]
    assert apart[1] < 1e-4 < apart[0]


def test_momenta_of_trackers_and_trackers_of_momenta_lead_to_the_same_points() -> None:
    """Both filters are linear; the projection to the tangent space comes behind them."""
    case, W, x0 = (
        CASES["procrustes"](),
        GRAPHS["ring"](N).toarray(),
        point(CASES["procrustes"]().problem),
    )
    own, tracked = (
        field.rmtracking(rivals.full(case.gradients), W, x0, 1e-3, 60, 0.8, first).x[-1]
        for first in (True, False)
    )
    assert relative(own, tracked) < 1e-12
    assert (
        relative(own, field.rmtracking(rivals.full(case.gradients), W, x0, 1e-3, 60, 0.0).x[-1])
        > 1e-3
    )


def alone(name: str) -> tuple[Any, Any, Array]:
    case = CASES[name](rows=(30,))
    return case.problem, case.gradients[0], point(case.problem)


def test_demuon_in_the_space_of_matrices_is_the_papers() -> None:
    """Least squares of unlike agents, without a constraint: nothing is projected."""
    rng = np.random.default_rng(2)
    H, c = rng.standard_normal((N, 6, 4)), rng.standard_normal((N, 6, 3))
    problem = do.problems.FunctionProblem(
        lambda i, x: 0.5 * naive.norm(H[i] @ x - c[i]) ** 2,
        lambda i, x: H[i].T @ (H[i] @ x - c[i]),
        do.sets.Euclidean(4, 3),
        N,
    )
    x0, W = rng.standard_normal((4, 3)), GRAPHS["star"](N)
    expected = field.demuon(
        lambda i, k, x: H[i].T @ (H[i] @ x - c[i]), W.toarray(), x0, 0.05, 30, 0.5, False, free=True
    )
    result = do.solve(problem, do.DeMuon(step_size=0.05, weight=0.5), W, x0=x0, iterations=30)
    assert relative(result.x, expected.x[-1]) < 1e-12
    assert relative(result.state.tracker, expected.tracker[-1]) < 1e-12


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_spel_is_demuon_alone(name: str, scaled: bool) -> None:
    problem, slope, x0 = alone(name)
    eta = 1e-3 if scaled else 0.03
    x = x0
    for _ in range(15):
        along = naive.tangent_projection(x, slope(x))
        x = naive.polar(
            x - eta * (field.nuclear_norm(along) if scaled else 1.0) * field.matrix_sign(along)
        )
    result = do.solve(
        problem,
        do.SPEL(step_size=eta, length="nuclear" if scaled else "unit"),
        x0=x0,
        iterations=15,
    )
    assert relative(result.x[0], x) < 1e-12


@pytest.mark.parametrize("name", CASES)
def test_pogo_is_its_formulas(name: str) -> None:
    problem, slope, x0 = alone(name)
    result = do.solve(problem, do.POGO(step_size=2e-3), x0=x0, iterations=50)
    assert relative(result.x[0], field.pogo(slope, x0, 2e-3, 50)) < 1e-12


@pytest.mark.slow
def test_signs_that_are_tracked_rest_at_points_that_are_not_stationary() -> None:
    """f_i(x) = (x - c_i)^2 / 2 on the line: between the middle c_i the signs add up to 0, and the
    gradients do not.

    Tracking of the gradients first leads to the mean of the c_i, with the same W and the same
    shrinking steps.
    """
    c, W, x = np.array([0.0, 0.0, 0.0, 10.0]), tp.metropolis_weights(tp.ring(4)), np.zeros(4)
    y = sign = np.sign(x - c)
    for k in range(4000):
        x = W @ (x - 0.5 / np.sqrt(k + 1) * y)
        new = np.sign(x - c)
        y, sign = W @ (y + new - sign), new
    assert np.abs(x - c.mean()).min() > 2.0
    problem = do.problems.FunctionProblem(
        lambda i, x: 0.5 * float((x[0, 0] - c[i]) ** 2),
        lambda i, x: x - c[i],
        do.sets.Euclidean(1, 1),
        4,
    )
    tracked = do.solve(
        problem,
        do.DeMuon(step_size="diminishing:initial=0.5"),
        W,
        x0=np.zeros((1, 1)),
        iterations=4000,
    )
    assert np.abs(tracked.x - c.mean()).max() < 0.02


@pytest.mark.parametrize("length", ["unit", "nuclear"])
def test_automatic_spectral_steps_do_not_depend_on_the_unit(length: Any) -> None:
    """Data times s have gradients times s^2, and the same points."""
    rows = np.random.default_rng(0).standard_normal((8, 9, 6))
    method = do.DeMuon(length=length, step_size="diminishing" if length == "unit" else "auto")
    problems = [do.problems.PCA(s * rows, 2) for s in (1.0, 1e3)]
    one, other = (
        do.solve(problem, method, RING, x0=np.eye(6, 2), iterations=20).x for problem in problems
    )
    assert relative(other, one) < 1e-9


def test_points_of_several_matrices_have_the_signs_of_each() -> None:
    """As for the layers of a module: the blocks of a point move as they do alone, scaled by the sum
    of all nuclear norms."""
    rng = np.random.default_rng(4)
    parts = do.sets.Flat(do.sets.Stiefel(5, 2), do.sets.Euclidean(3, 3), do.sets.Euclidean(4, 1))
    assert parts.singular_values == 6
    v = rng.standard_normal((2, 23, 1))
    signs = parts.matrix_sign(v)
    for own, found in zip(parts.split(v), parts.split(signs), strict=True):
        for agent in range(2):
            np.testing.assert_allclose(found[agent], field.matrix_sign(own[agent]), atol=1e-14)
    assert not parts.matrix_sign(0 * v).any()
    singular = np.outer(v[0, :5, 0], v[0, 5:7, 0])[None]
    np.testing.assert_allclose(
        do.sets.Stiefel(5, 2).matrix_sign(singular), singular / np.linalg.norm(singular), atol=1e-14
    )


PROX: dict[Any, field.Prox] = {
    "l1": field.soft_threshold,
    "rows": field.row_threshold,
    "negative": field.negative_threshold,
}
"""The terms of sparse PCA, and their proximal maps with mu = 1."""


def sparse(
    term: Any = "l1", r: int = 3, mu: float = 0.05
) -> tuple[SparsePCA, rivals.Gradients, field.Prox]:
    """A small problem, the gradients of its smooth part, and the proximal map of its term."""
    data = samples(UNEVEN[:N], 12, 3)
    prox = PROX[term]
    return (
        SparsePCA(data, r, mu, term=term),
        lambda i, k, x: naive.pca_gradient(data[i], x),
        lambda y, t: prox(y, mu * t),
    )


@pytest.mark.parametrize("term", PROX)
def test_terms_and_their_proximal_maps(term: Any) -> None:
    """The map against its formula, w by the least objective near it, and the slopes against
    differences."""
    rng, h = np.random.default_rng(1), REGULARIZERS[term](0.3)
    y = rng.standard_normal((7, 3))
    y[2] = 0.0
    w = h.proximal(y, 2.0)
    np.testing.assert_allclose(w, PROX[term](y, 0.6), atol=1e-15)
    near = w + 1e-3 * rng.standard_normal((200, 7, 3))
    objective = 0.5 * ((near - y) ** 2).sum((1, 2)) + 2.0 * h.value(near)
    assert objective.min() >= 0.5 * ((w - y) ** 2).sum() + 2.0 * h.value(w[None])[0]
    assert (
        h.value(near) >= h.value(w[None])[0] + ((near - w) * h.subgradient(w)).sum((1, 2)) - 1e-12
    ).all()
    v, eps = rng.standard_normal((7, 3)), 1e-7
    moved = (h.proximal(y + eps * v, 2.0) - h.proximal(y - eps * v, 2.0)) / (2 * eps)
    expected = np.einsum("ibc,ic->ib", h.slopes(y, 2.0), v)
    smooth = np.abs(y).min(1) > 0
    np.testing.assert_allclose(moved[smooth], expected[smooth], atol=1e-6)


@pytest.mark.parametrize("term", PROX)
@pytest.mark.parametrize("step", [0.05, 1.0, 20.0])
def test_tangent_proximal_points_are_the_least_along_tangents(term: Any, step: float) -> None:
    rng, h = np.random.default_rng(5), REGULARIZERS[term](0.4)
    x = np.stack([naive.polar(rng.standard_normal((9, 3))) for _ in range(4)])
    y = x - step * rng.standard_normal((4, 9, 3))
    w, s = tangent_proximal.tangent_proximal(h, x, y, np.full(4, step), np.zeros((4, 3, 3)))
    for agent in range(4):
        expected = field.tangent_proximal(
            lambda y, t: PROX[term](y, 0.4 * t), x[agent], y[agent], step
        )
        assert relative(w[agent], expected) < 1e-11
        alone = slice(agent, agent + 1)
        own = tangent_proximal.tangent_proximal(
            h, x[alone], y[alone], np.full(1, step), np.zeros((1, 3, 3))
        )
        assert np.array_equal(own[0][0], w[agent])
        assert np.array_equal(own[1][0], s[agent])
        v = np.stack(
            [naive.tangent_projection(x[agent], u) for u in 1e-3 * rng.standard_normal((99, 9, 3))]
        )
        near = 0.5 * ((w[agent] + v - y[agent]) ** 2).sum((1, 2)) + step * h.value(w[agent] + v)
        assert (
            near.min()
            >= 0.5 * ((w[agent] - y[agent]) ** 2).sum() + step * h.value(w[agent][None])[0]
        )


def test_tangent_proximal_points_of_sparse_points_are_on_the_tangents() -> None:
    """Where few entries are left, the multiplier's equations are nearly singular; it starts from
    that of the iteration before."""
    problem = prepared(
        built(do.problems.SparsePCASettings(data="digits", center=True, rank=5).problem(10, 11))
    )
    W, step = tp.metropolis_weights(tp.ring(10)), 0.14
    state = do.solve(problem, do.DRProxGT(step_size=step), W, seed=11, iterations=100, rows=2).state
    y, steps = state.x - step * state.tracker, np.full(10, step)
    w, _ = tangent_proximal.tangent_proximal(
        problem.regularizer, state.x, y, steps, state.multiplier
    )
    for own, near in zip(state.x, w, strict=True):
        excess = naive.sym(own.T @ near) - np.eye(5)
        assert naive.norm(excess) < 1e-8


@pytest.mark.parametrize("kind", ["drproxgt", "prextra", "loopless"])
@pytest.mark.parametrize("term", PROX)
def test_proximal_methods_are_their_formulas(term: Any, kind: str) -> None:
    problem, gradients, prox = sparse(term)
    W, x0 = GRAPHS["star"](N), point(problem)
    if kind == "drproxgt":
        expected = field.drproxgt(gradients, prox, W.toarray(), x0, 0.1, 12)
        agree(final(problem, do.DRProxGT(step_size=0.1), W, x0, 12), expected, x0, True)
        return
    expected = field.prextra(gradients, prox, W.toarray(), x0, 0.05, 12, kind == "loopless")
    state = final(
        problem,
        do.PREXTRA(step_size=0.05, proximal="loopless" if kind == "loopless" else "tangent"),
        W,
        x0,
        12,
    )
    agree(state, expected, x0, False)
    assert relative(state.dual, expected.tracker[-1]) < 1e-11


def generalized_gradient(
    problem: SparsePCA, prox: field.Prox, gradients: rivals.Gradients, x: Array
) -> float:
    """``||w - x||`` for the mean x of the agents and a step of 1: 0 where x is stationary for the
    mean of the objectives."""
    mean = naive.polar(x.mean(0))
    slope = naive.mean([gradients(i, 0, mean) for i in range(len(x))])
    return naive.norm(field.tangent_proximal(prox, mean, mean - slope, 1.0) - mean)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "term"), [(do.DRProxGT, "l1"), (do.PREXTRA, "rows"), (do.DRProxGT, "negative")]
)
def test_constant_proximal_steps_are_exact(method: Any, term: Any) -> None:
    """Agents with unlike data agree on a stationary point of the sum, and the metric says so."""
    problem, gradients, prox = sparse(term, r=2)
    result = do.solve(problem, method(step_size=0.2), GRAPHS["ring"](N), iterations=3000, rows=2)
    assert np.abs(result.x - result.x[0]).max() < 1e-9
    assert generalized_gradient(problem, prox, gradients, result.x) < 1e-9
    assert result.row.values["stationarity"] < 1e-9


@pytest.mark.slow
def test_proximal_points_of_the_whole_space_are_exact_for_one_column_alone() -> None:
    left = []
    for r in (1, 3):
        problem, gradients, prox = sparse("l1", r)
        method = do.PREXTRA(step_size=0.1, proximal="loopless")
        x = do.solve(problem, method, GRAPHS["ring"](N), iterations=3000, rows=2).x
        left.append(generalized_gradient(problem, prox, gradients, x))
    assert left[0] < 1e-10
    assert left[1] > 1e-2


def pooled(problem: SparsePCA, x: Array, step: float, iterations: int) -> Array:
    """The proximal gradient method of one agent that has all data: ManPG with whole steps."""
    n, s = problem.n_agents, np.zeros((1, x.shape[1], x.shape[1]))
    for _ in range(iterations):
        slope = problem.smooth.gradient(np.repeat(x[None], n, axis=0)).mean(0)
        w, s = tangent_proximal.tangent_proximal(
            problem.regularizer, x[None], (x - step * slope)[None], np.full(1, step), s
        )
        x = naive.polar(w[0])
    return x


@pytest.mark.slow
def test_sparse_components_of_digits_as_good_as_pooled_ones() -> None:
    """Ten agents on a ring: stationarity below 1e-8 with constant steps, where the subgradient
    method stops above 1e-4."""
    problem = prepared(built(do.problems.SparsePCASettings(rank=5, mu=0.5).problem(10, 0)))
    x0 = problem.start(0)
    best = pooled(problem, x0, 0.08, 3000)
    least = float(problem.value(np.repeat(best[None], 10, axis=0)).mean())
    for method in (do.DRProxGT(step_size=0.08), do.PREXTRA(step_size=0.06)):
        row = do.solve(problem, method, "ring", iterations=2800, rows=2, x0=x0).row.values
        assert row["stationarity"] < 1e-8
        assert row["objective"] <= least + 1e-8
    assert (
        do.solve(problem, do.DRSM(), "ring", iterations=2800, rows=2, x0=x0).row.values[
            "stationarity"
        ]
        > 1e-4
    )


@pytest.mark.slow
def test_noise_of_batches_vanishes_with_recursive_estimates_and_stays_without() -> None:
    """Unlike agents, batches of 5 of 200 samples, the same number of gradients of samples, and
    constant steps."""
    problem = unlike(samples=200)

    def left(method: Any, iterations: int) -> float:
        return gradient(
            problem, do.solve(problem, method, RING, iterations=iterations, rows=2, seed=3).x
        )

    assert left(do.DRFGT(step_size=0.2, batch_size=5), 2000) > 1e-3
    assert left(do.VRDRFGT(step_size=0.2, batch_size=5), 2000) < 1e-10
    assert left(do.SagaDRFGT(step_size=0.2, batch_size=5), 4000) < 1e-10
    assert left(do.DPRSRM(batch_size=5), 3200) < 0.3 * left(do.DPRSRM(batch_size=5), 200)
    recursive, plain = (
        left(do.DPRSRM(batch_size=5, step_size=0.2, forgetting=decay), 3200)
        for decay in (2 / 3, 0.0)
    )
    assert recursive < plain / 3


def test_a_run_ends_at_a_tolerance_of_stationarity() -> None:
    problem = sparse("rows", 2, 1.0)[0]
    result = do.solve(
        problem, "drproxgt", "ring", iterations=900, stopping=do.stopping.Stationarity(1e-4)
    )
    assert result.converged
    assert result.row.values["stationarity"] <= 1e-4 < result.history["stationarity"][0]
    with pytest.raises(
        ValueError, match="needs a smooth objective plus a term with a proximal map"
    ):
        do.solve(unlike(), "drfgt", RING, iterations=3, stopping=do.stopping.Stationarity(1e-4))


def test_local_steps_of_agents_that_all_hear_each_other_are_those_of_clients_of_a_server() -> None:
    case, x0 = CASES["pca"](), point(CASES["pca"]().problem)
    eta = step_for(case, 0.1)
    expected = field.server(rivals.full(case.gradients), N, x0, eta, 40, 5)
    state = final(
        case.problem, do.LocalTracking(step_size=eta, local_steps=5), np.full((N, N), 1 / N), x0, 40
    )
    assert relative(state.x, np.array([expected] * N)) < 1e-12
    assert relative(state.x, np.array([x0] * N)) > 1e-2


@pytest.mark.parametrize(("channel", "steps"), [(None, 16), ("sleep:p=0.3,length=2", 4)])
def test_local_steps_are_exact_for_unlike_agents_whoever_is_awake(channel: Any, steps: int) -> None:
    problem = unlike()
    there = do.stopping.GradientNorm(1e-10) & do.stopping.Consensus(1e-10)
    method = do.LocalTracking(local_steps=steps)
    result = do.solve(
        problem, method, RING, iterations=4000, stopping=there, record_every=50, channel=channel
    )
    assert gradient(problem, result.x) < 1e-10
    assert np.abs(result.x - result.x[0]).max() < 1e-9
    assert np.abs(result.state.correction.sum(0)).max() < 1e-12


def test_agents_that_sleep_are_left_out_of_the_formulas() -> None:
    case, W, x0, eta = CASES["pca"](), GRAPHS["ring"](N), point(CASES["pca"]().problem), 1e-3
    channel = do.Channel("sleep:p=0.4,length=2")
    down = channel.faults[0].down(N, 3, 0)  # type: ignore[attr-defined]  # of a sleep
    awake = np.array([~down(k) for k in range(15)])
    assert 0.3 < awake.mean() < 0.9
    expected = field.local_tracking(rivals.full(case.gradients), W.toarray(), x0, eta, 15, 3, awake)
    method = do.LocalTracking(step_size=eta, local_steps=3)
    state = do.solve(case.problem, method, W, x0=x0, iterations=15, channel=channel, seed=3).state
    assert relative(state.x, expected.x[-1]) < 1e-12
    assert relative(state.correction, expected.tracker[-1]) < 1e-11


@pytest.mark.slow
def test_local_steps_on_batches_come_nearer_in_as_many_rounds() -> None:
    """The noise of K batches: a round moves as far for every K, and stops sqrt(K) times nearer,
    within a third."""
    problem = unlike(samples=200)

    def left(steps: int) -> float:
        method = do.LocalTracking(step_size=0.3 / steps, local_steps=steps, batch_size=5)
        runs = [
            do.solve(problem, method, RING, iterations=200, rows=2, seed=seed).x
            for seed in range(4)
        ]
        return float(np.mean([gradient(problem, x) for x in runs]))

    assert left(1) / left(16) == pytest.approx(4.0, rel=1 / 3)


# channels, and the share of an array that a message has
COMPRESSED = {"topk:share=0.3": 0.3, "topk:share=1": 1.0}


@pytest.mark.parametrize("channel", COMPRESSED)
@pytest.mark.parametrize("name", CASES)
def test_ef_landing_is_its_formulas(name: str, channel: str) -> None:
    case, W = CASES[name](), GRAPHS["ring"](N)
    x0, a = point(case.problem), step_for(case, 0.05)
    kept = round(COMPRESSED[channel] * x0.size)
    expected = field.ef_landing(
        rivals.full(case.gradients), W.toarray(), x0, a, 15, 0.2 / a, 0.6, 0.7, kept
    )
    method = do.EFLanding(step_size=a, penalty=0.2 / a, consensus_step=0.6, weight=0.7)
    state = do.solve(case.problem, method, W, x0=x0, iterations=15, channel=channel).state
    agree(state, expected, x0, True)
    if kept == x0.size:
        assert relative(final(case.problem, method, W, x0).x, state.x) < 1e-13


@pytest.mark.parametrize("channel", COMPRESSED)
@pytest.mark.parametrize("name", CASES)
def test_on_a_star_the_server_form_is_that_of_a_server_and_its_nodes(
    name: str, channel: str
) -> None:
    """All agents have the server's point, to the last bit; a leaf sends its share of the entries,
    and the hub whole means."""
    case = CASES[name]()
    x0, a = point(case.problem), step_for(case, 0.1)
    kept = round(COMPRESSED[channel] * x0.size)
    expected = field.ef_landing_server(whole(case), N, x0, a, 15, 0.2 / a, 0.7, kept)
    method = do.EFLanding(step_size=a, penalty=0.2 / a, weight=0.7, server=True)
    result = do.solve(case.problem, method, "star", x0=x0, iterations=15, channel=channel)
    assert relative(result.x, np.array([expected] * N)) < 1e-12
    assert (result.x == result.x[0]).all()
    plain, coded = 8 * x0.size, do.Channel(channel).size([x0.size])
    assert result.history["bytes"][-1] - result.history["bytes"][1] == 14 * (N - 1) * (
        plain + coded
    )
    assert sum(row.bytes for row in result.sent()) == result.row.bytes


@pytest.mark.parametrize("fault", ["loss:p=0.1", "delay:rounds=1"])
def test_a_server_is_refused_where_messages_are_lost_or_late(fault: str) -> None:
    with pytest.raises(
        ValueError, match="the server form adds up over all agents, and this network"
    ):
        do.solve(
            unlike(),
            do.EFLanding(server=True),
            "star",
            iterations=3,
            channel=do.Channel(fault, "topk:share=0.3"),
        )


@pytest.mark.slow
def test_compressed_differences_are_exact() -> None:
    """With error feedback as many iterations and a part of the bytes; without it rounding stays.

    A tenth of the entries: with whole steps to the neighbours' mean agents run apart, with shorter
    ones they are exact.
    """
    problem = unlike(dimension=40, gap=0.5, samples=200)

    def solved(method: Any, channel: str | None) -> do.Result:
        return do.solve(
            problem, method, RING, iterations=2500, stopping=THERE, record_every=10, channel=channel
        )

    drfgt, ef = do.DRFGT(step_size=0.3), partial(do.EFLanding, step_size=0.3)
    plain, coded, bits = (
        solved(drfgt, None),
        solved(drfgt, "topk:share=0.3"),
        solved(drfgt, "quantize:bits=4,feedback=true"),
    )
    assert plain.converged
    assert coded.converged
    assert coded.state.k <= 1.1 * plain.state.k
    assert coded.row.bytes < plain.row.bytes / 3
    assert bits.state.k == plain.state.k
    assert bits.row.bytes < plain.row.bytes / 12
    assert solved(drfgt, "quantize:bits=8").row.values["gradient_norm"] > 1e-6
    with pytest.warns(RuntimeWarning, match="diverged"):
        assert solved(ef(), "topk:share=0.1").status == "diverged"
    exact = solved(ef(consensus_step=0.2), "topk:share=0.1")
    assert exact.converged
    assert gradient(problem, exact.x) < 1e-8
    assert exact.row.bytes < plain.row.bytes / 8
    assert exact.state.k <= plain.state.k


@pytest.mark.slow
@pytest.mark.parametrize("inner", [1, 30])
def test_douglas_rachford_splitting_is_exact_however_many_inner_steps(inner: int) -> None:
    """At rest u_i = x, z_i = x + gamma G_i(x): a proximal point, reached from the last one by few
    steps or many."""
    problem = unlike()
    there = do.stopping.GradientNorm(1e-10) & do.stopping.Consensus(1e-10)
    state = do.solve(
        problem, do.DDRS(inner_steps=inner), RING, iterations=5000, stopping=there, record_every=50
    ).state
    assert gradient(problem, state.x) < 1e-10
    slopes = state.step_size[:, None, None] * problem.gradient(state.x)
    assert np.abs(state.center - state.x - slopes).max() < 1e-8
    assert np.abs((state.tracker - state.field).mean(0)).max() < 1e-12
