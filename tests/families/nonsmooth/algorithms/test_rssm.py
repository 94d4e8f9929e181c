"""RSM and RSSM against loops from the formulas; what blocks promise: columns that stay, uniform
pairs, feasibility, the cost."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from decentorth import RSM, RSSM, solve
from decentorth.api import Options, set_up
from decentorth.numerics.random_streams import CounterStreams
from decentorth.problems import (
    PCA,
    FunctionProblem,
    ODLSettings,
    OrthogonalDictionaryLearning,
    RobustSubspaceRecovery,
    RSRSettings,
)
from decentorth.sets import Euclidean, Stiefel
from decentorth.stopping import GradientNorm
from tests.reference import naive, nonsmooth, rivals
from tests.support.marks import first_row_is_quick
from tests.support.problems import point, relative, samples

DATA = samples((40,), 9, 3, ratio=0.9)[0]
PROBLEMS: dict[str, tuple[Callable[[], Any], naive.Gradient]] = {
    "odl": (lambda: OrthogonalDictionaryLearning([DATA]), partial(nonsmooth.l1_subgradient, DATA)),
    "rsr": (
        lambda: RobustSubspaceRecovery([DATA], 2),
        partial(nonsmooth.row_norms_subgradient, DATA),
    ),
    "pca": (lambda: PCA([DATA], 6), partial(naive.pca_gradient, DATA)),
}
SIZES = {"odl": 2e-3, "rsr": 0.3, "pca": 0.3}
every = pytest.mark.parametrize("name", PROBLEMS)


def moves(method: RSSM, seed: int, iterations: int, r: int) -> list[Any]:
    streams = CounterStreams(seed, slice(0, 1))
    return [method.drawn(streams, k, r) for k in range(iterations)]


@pytest.mark.parametrize("division", ["fixed", "redraw"])
@every
def test_rssm_is_algorithm_1(name: str, division: Any) -> None:
    make, gradient = PROBLEMS[name]
    problem = make()
    r = problem.shape[1]
    method = RSSM(
        blocks=3, step_size=f"geometric:initial={SIZES[name]},ratio=0.95", block_partition=division
    )
    x0 = point(problem, 1)
    run = set_up(problem, method, x0=x0, seed=4)
    steps = [SIZES[name] * 0.95**k for k in range(40)]
    expected = nonsmooth.rssm(gradient, x0, steps, moves(method, 4, 40, r))
    result = run.solve(Options(iterations=40))
    assert relative(result.x[0], expected) < 1e-11
    assert relative(result.x[0], x0) > 0.05
    assert result.state.step_size[0] == pytest.approx(SIZES[name] * 0.95**40, rel=1e-13)


@pytest.mark.parametrize(
    ("retraction", "factor"), [("polar", naive.polar), ("qr", rivals.qr_factor)]
)
@every
def test_rsm_is_its_iteration(name: str, retraction: Any, factor: rivals.Factor) -> None:
    problem, gradient = PROBLEMS[name][0](), PROBLEMS[name][1]
    x0, method = (
        point(problem, 1),
        RSM(step_size=f"geometric:initial={SIZES[name]},ratio=0.95", retraction=retraction),
    )
    expected = nonsmooth.rsm(gradient, x0, [SIZES[name] * 0.95**k for k in range(25)], factor)
    assert relative(solve(problem, method, x0=x0, iterations=25).x[0], expected) < 1e-11


@every
def test_columns_that_do_not_move_keep_their_bits(name: str) -> None:
    problem = PROBLEMS[name][0]()
    run: Any = set_up(
        problem, RSSM(blocks=4, step_size=SIZES[name], block_partition="redraw"), seed=1
    )
    r, method = problem.shape[1], run.algorithm
    before = run.x0.copy()
    for k, state in zip(range(20), run.states(), strict=False):
        if k:
            moved = method.drawn(run.streams, k - 1, r)
            still = np.setdiff1d(np.arange(r), moved)
            assert state.x[:, :, still].tobytes() == before[:, :, still].tobytes()
            assert (np.abs(state.x - before)[0].max(0)[moved] > 0).all()
        before = state.x.copy()


@pytest.mark.slow
def test_pairs_of_blocks_are_drawn_uniformly() -> None:
    """chi^2 of 9 degrees of freedom is above 27.9 with probability 1e-3."""
    drawn = Counter(
        tuple(columns.tolist())
        for columns in moves(RSSM(blocks=5, block_partition="fixed"), 0, 5000, 10)
    )
    assert len(drawn) == 10
    assert sum((count - 500) ** 2 / 500 for count in drawn.values()) < 27.9
    assert all(len(columns) == 4 for columns in drawn)


@pytest.mark.parametrize(
    ("division", "step_size", "iterations"),
    first_row_is_quick(
        [
            ("redraw", "diminishing:initial=1", 500),
            ("fixed", "constant:initial=0.1", 500),
            ("redraw", "constant:initial=1e3", 2000),
        ]
    ),
)
def test_feasible_without_reorthogonalisation(
    division: Any, step_size: str, iterations: int
) -> None:
    """Whatever the steps: rounding errors do not pile up."""
    data = samples((60,), 20, 1, ratio=1.0)[0]
    method = RSSM(blocks=5, step_size=step_size, block_partition=division)
    result = solve(
        RobustSubspaceRecovery([data], 5),
        method,
        iterations=iterations,
        record_every=iterations // 20,
    )
    assert result.history["feasibility"].max() < 5e-14
    assert result.state.drift[0] == 0.0


@pytest.mark.parametrize("size", [1e-8, 1e-2, 1.0, 30.0])
def test_columns_move_along_the_tangent_part(size: float) -> None:
    rng = np.random.default_rng(1)
    constraint = Stiefel(11, 7)
    x = np.array([constraint.random(rng) for _ in range(3)])
    columns = np.array([5, 0, 3])
    v = size * rng.standard_normal((3, 11, 3))
    moved = constraint.move_columns(x, columns, v)
    for own, point_, along in zip(moved, x, v, strict=True):
        xi = nonsmooth.partial_riemannian(point_, along, columns)
        assert relative(own, naive.polar(point_[:, columns] + xi)) < 1e-13
        others = np.delete(point_, columns, axis=1)
        assert np.abs(others.T @ own).max() < 1e-14
        assert naive.infeasibility(own) < 1e-14


def test_long_steps_without_a_second_projection_would_drift() -> None:
    """What `Stiefel.move_columns` does about them is needed: xi alone loses the manifold."""
    rng = np.random.default_rng(0)
    constraint = Stiefel(12, 9)
    x = constraint.random(rng)
    plain = x.copy()
    for _ in range(200):
        columns = rng.permutation(9)[:4]
        v = 50.0 * rng.standard_normal((12, 4))
        x[:, columns] = constraint.move_columns(x[None], columns, v[None])[0]
        plain[:, columns] = naive.polar(
            plain[:, columns] + nonsmooth.partial_riemannian(plain, v, columns)
        )
    assert naive.infeasibility(x) < 1e-12
    assert naive.infeasibility(plain) > 1e-2


def test_published_steps_without_a_second_projection_lose_the_manifold() -> None:
    """Dictionaries of paper 002, Section 5.2, l = 5: the printed formulas, for ten iterations."""
    method = RSSM(
        blocks=5,
        step_size="annealed:initial=0.001,pairs=10,power=4.0,ratio=0.995",
        block_partition="fixed",
    )
    run: Any = set_up(ODLSettings().problem(1, 0), method)
    x, columns = run.x0[0], moves(method, 0, 10, run.problem.shape[1])
    states = [
        (state.step_size[0], state.x[0].copy())
        for _, state in zip(columns, run.states(), strict=False)
    ]
    plain = nonsmooth.rssm(
        lambda y: run.problem.gradient(y[None])[0], x, [step for step, _ in states], columns
    )
    assert naive.infeasibility(plain) > 1.0
    assert max(naive.infeasibility(point_) for _, point_ in states) < 1e-12


def test_reorthogonalisation_reports_the_drift_it_found() -> None:
    problem = PROBLEMS["rsr"][0]()
    x0 = point(problem)
    x0 = x0 + 1e-6 * np.random.default_rng(0).standard_normal(x0.shape)
    result = solve(
        problem,
        RSSM(blocks=3, step_size=1e-9, reorthogonalize=1),
        x0=x0,
        iterations=6,
        record_every=1,
    )
    assert 1e-7 < result.state.drift[0] < 2 * naive.infeasibility(x0)
    assert result.history["drift"][0] == 0.0
    assert (result.history["drift"][1:] == result.state.drift[0]).all()
    assert result.history["feasibility"][1:].max() < 1e-14


def test_the_count_of_operations() -> None:
    """4 n p c and 4 n c^2 + 10 c^3 for the tangent and the polar factor, and the oracle's own."""
    problem, n, p = PROBLEMS["rsr"][0](), 9, 7

    def counted(c: int) -> Any:
        return 4 * n * p * c + 4 * n * c * c + 10 * c**3 + 3 * n * c + problem.flops(c)[0]

    blocks = RSSM(blocks=3, block_partition="fixed", step_size=0.1)
    assert solve(problem, blocks, iterations=1).row.values["flops"] == counted(
        len(moves(blocks, 0, 1, p)[0])
    )
    assert solve(problem, RSM(step_size=0.1), iterations=3).row.values["flops"] == 3 * counted(p)
    assert "flops" not in solve(PROBLEMS["pca"][0](), RSM(step_size=0.1), iterations=1).row.values


def test_the_steps_that_a_problem_recommends() -> None:
    """Paper 002's, repaired where those as printed fail; they are what auto stands for, and in the
    configuration that is kept."""

    def chosen(problem: Any, method: Any) -> Any:
        return set_up(problem, method).algorithm

    rsr = RSRSettings(dimension=12, rank=2, inliers=60, outliers=60).problem(1, 0)
    assert str(chosen(rsr, RSM()).step_size) == "square-summable:initial=0.9"
    assert str(chosen(rsr, RSSM(blocks=5)).step_size) == "annealed:initial=0.9,pairs=10"
    assert str(chosen(rsr, RSSM(blocks=10)).step_size) == "annealed:initial=0.9,pairs=45,cap=5.0"
    odl = ODLSettings(dimension=12, samples=4648).problem(1, 0)
    assert str(chosen(odl, RSM()).step_size) == "square-summable:initial=0.001"
    for blocks, steps, partition in (
        (3, "annealed:initial=0.001,pairs=3,power=4.0,ratio=0.995", "fixed"),
        (5, "annealed:initial=0.001,pairs=10,power=4.0,ratio=0.995", "redraw"),
        (10, "geometric:initial=0.004,ratio=0.995", "redraw"),
    ):
        found = chosen(odl, RSSM(blocks=blocks))
        assert (str(found.step_size), found.block_partition) == (steps, partition)
    given = chosen(rsr, RSSM(blocks=5, step_size=0.1, block_partition="redraw"))
    assert (given.step_size, given.block_partition) == (0.1, "redraw")


def test_automatic_steps_where_nothing_is_recommended() -> None:
    """1 / (L sqrt(k + 1)): L a bound on the subgradients where the problem knows one, their norm at
    the start where not."""
    x0 = point(PROBLEMS["pca"][0]())
    state = solve(PROBLEMS["pca"][0](), RSSM(blocks=2), x0=x0, iterations=3).state
    steep = naive.norm(naive.pca_gradient(DATA, x0))
    assert state.step_size[0] == pytest.approx(0.5 / steep, rel=1e-13)
    assert state.gradients == 4
    bounded = FunctionProblem(
        lambda agent, x: 0.0, lambda agent, x: 3.0 * np.ones_like(x), Stiefel(4, 2), 1
    )
    bounded.weak_convexity, bounded.lipschitz_value = np.zeros(1), np.array([20.0])  # type: ignore[attr-defined]
    assert solve(bounded, RSM(), iterations=0).state.step_size[0] == 1 / 20
    flat = FunctionProblem(
        lambda agent, x: 0.0, lambda agent, x: np.zeros_like(x), Stiefel(4, 2), 1
    )
    assert solve(flat, RSM(), iterations=2).state.step_size[0] == pytest.approx(
        1 / math.sqrt(3), rel=1e-15
    )


@pytest.mark.slow
@pytest.mark.parametrize(("blocks", "error"), [(None, 1e-3), (3, 4e-4), (5, 2e-4), (10, 1e-4)])
def test_the_published_setting_of_robust_subspace_recovery(
    blocks: int | None, error: float
) -> None:
    """Paper 002, Section 5.1, with a fifth of its points: ten seeds of the whole are in
    docs/nonsmooth.md."""
    problem = RSRSettings(inliers=300, outliers=700).problem(1, 0)
    method = RSM() if blocks is None else RSSM(blocks=blocks)
    result = solve(problem, method, iterations=300, rows=2)
    assert result.history["error"][0] > 0.1
    assert result.row.values["error"] < error
    assert "gradient_norm" not in result.row.values
    assert result.row.values["subgradient_norm"] > 1e-3


def test_a_gradient_tolerance_is_for_differentiable_problems() -> None:
    with pytest.raises(ValueError, match="a gradient tolerance needs a differentiable problem"):
        solve(PROBLEMS["rsr"][0](), RSM(step_size=0.1), iterations=3, stopping=GradientNorm(1e-3))


def test_settings_that_cannot_be() -> None:
    problem, plain = (
        PROBLEMS["rsr"][0](),
        FunctionProblem(lambda agent, x: 0.0, lambda agent, x: x, Euclidean(4, 2), 1),
    )
    with pytest.raises(ValueError, match="blocks must be at least 2, got 1"):
        RSSM(blocks=1)
    with pytest.raises(
        ValueError,
        match=r"step_size must be .* 'geometric' or 'piecewise' for this method, got 'bb'",
    ):
        RSSM(step_size="bb")
    with pytest.raises(ValueError, match="blocks must be at most the number of columns, 7, got 8"):
        solve(problem, RSSM(blocks=8))
    with pytest.raises(TypeError, match="RSSM needs ColumnBlocks"):
        solve(plain, RSSM(blocks=2))  # type: ignore[misc]
