"""The hyperbolic structural probe: geometry, derivatives, samples, the printed form, data and
refusals; methods on it."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentorth import JJOBCD, VRJJOBCD, iterate, solve
from decentorth.families.j_orthogonal.problems.hspp import random_tree, squared_distances
from decentorth.families.j_orthogonal.problems.ultrahyperbolic import Ultrahyperbolic
from decentorth.problems import HSPP, HSPPSettings
from decentorth.protocols import Array, KnownValue, Sampled, Smooth
from tests.support import building

SIGNS = np.array([1.0, -1.0, -1.0, 1.0, -1.0])
ALPHA = 1.3


def made(m: int = 9, smoothing: float = 0.0, repeated: bool = False) -> HSPP:
    D = np.random.default_rng(0).standard_normal((m, 5))
    if repeated:
        D[m // 2] = D[1]
    return HSPP(D, np.sqrt(squared_distances(D)), SIGNS, ALPHA, smoothing=smoothing)


def somewhere(problem: HSPP, seed: int = 1) -> Array:
    return problem.constraint.random(np.random.default_rng(seed), 0.5)[None]


def built(**settings: Any) -> HSPP:
    problem: HSPP = building.built(HSPPSettings(**settings).problem(1, 0))
    return problem


def inner(x: Array, y: Array) -> float:
    return float(sum(sign * a * b for sign, a, b in zip(SIGNS, x, y, strict=True)))


def phi(y: Array) -> Array:
    s, t = y[SIGNS > 0], y[SIGNS < 0]
    out = np.empty_like(y)
    out[SIGNS > 0] = s
    out[SIGNS < 0] = np.sqrt(ALPHA**2 + s @ s) * t / np.linalg.norm(t)
    return out


def distance(x: Array, y: Array, smoothing: float = 0.0) -> float:
    u = abs(inner(x, y)) / ALPHA**2
    d = ALPHA * (np.arccosh(u) if u >= 1.0 else np.arccos(u))
    return float(np.sqrt(d**2 + (smoothing * ALPHA) ** 2) - smoothing * ALPHA)


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_value_is_the_formula(smoothing: float) -> None:
    problem = made(smoothing=smoothing)
    assert isinstance(problem, (Sampled, KnownValue))
    assert not isinstance(problem, Smooth)
    x = somewhere(problem)
    q = [phi(x[0].T @ d) for d in problem.rows]
    (wanted,) = problem.wanted
    total = sum(
        (wanted[i, j] - distance(q[i], q[j], smoothing)) ** 2
        for i in range(9)
        for j in range(9)
        if i != j
    )
    assert problem.value(x)[0] == pytest.approx(total / 81, rel=1e-12)
    np.testing.assert_allclose(problem.points(x[0]), q, rtol=1e-13)
    np.testing.assert_allclose([inner(one, one) for one in q], -(ALPHA**2), rtol=1e-12)
    assert problem.check_gradient(x[0]).right
    kinds = {abs(inner(q[i], q[j])) >= ALPHA**2 for i in range(9) for j in range(i)}
    assert kinds == {True, False}  # both branches are there


def test_many_rows_are_gone_through_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = made(23)
    x = somewhere(problem)
    whole = problem.value(x), problem.gradient(x), problem.distances(x[0])
    monkeypatch.setattr("decentorth.families.j_orthogonal.problems.hspp.PASS_BYTES", 8 * 23 * 5)
    for one, other in zip(
        whole, (problem.value(x), problem.gradient(x), problem.distances(x[0])), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("m", [2, 9])
def test_every_pair_has_one_number_and_their_mean_is_the_gradient(m: int) -> None:
    problem = made(m)
    number = m * (m - 1) // 2
    i, j = problem.pairs(np.arange(number))
    assert {frozenset(pair) for pair in zip(i.tolist(), j.tolist(), strict=True)} == {
        frozenset((a, b)) for a in range(m) for b in range(a)
    }
    assert problem.n_samples.tolist() == [number]
    x = somewhere(problem)
    gradient = problem.gradient(x)
    singles = np.mean([problem.gradient_on(x, np.array([[k]])) for k in range(number)], axis=0)
    np.testing.assert_allclose(singles, gradient, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(
        problem.gradient_on(x, np.arange(number)[None]), gradient, rtol=1e-11, atol=1e-11
    )
    with pytest.raises(IndexError, match=f"from 0 to {number - 1}, got {number}"):
        problem.gradient_on(x, np.array([[number]]))


def test_the_printed_form_is_constant() -> None:
    """With q_i = x^T phi(d_i) no distance changes; with q_i = phi(x^T d_i) they do."""
    problem = made()
    q = problem.manifold.points(problem.rows)
    at_identity = problem.distances(np.eye(5))
    for seed in range(5):
        x = somewhere(problem, seed)[0]
        printed = q @ x
        np.testing.assert_allclose(
            printed * SIGNS @ printed.T, q * SIGNS @ q.T, rtol=1e-11, atol=1e-11
        )
        assert np.abs(problem.distances(x) - at_identity).max() > 0.1


def test_equal_and_opposite_points_are_at_distance_zero_and_pull_nowhere() -> None:
    D = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]])
    problem = HSPP(D, 1.0 - np.eye(3), [1, -1, -1])
    np.testing.assert_array_equal(problem.distances(np.eye(3)), np.zeros((3, 3)))
    np.testing.assert_array_equal(problem.gradient(np.eye(3)[None]), np.zeros((1, 3, 3)))
    assert problem.value(np.eye(3)[None])[0] == pytest.approx(6 / 9)


def test_the_slope_of_smoothed_distances_is_bounded() -> None:
    u = 1.0 + np.concatenate((-np.logspace(-15, -1), np.logspace(-15, 3)))
    assert np.abs(Ultrahyperbolic(SIGNS, ALPHA, 0.2).steepness(u)).max() <= ALPHA / 0.2 * (1 + 1e-3)
    assert np.abs(Ultrahyperbolic(SIGNS, ALPHA).steepness(u)).max() > 1e6


def test_a_single_negative_sign_is_hyperbolic_space() -> None:
    """On the hyperboloid arccosh of minus the product is the distance of the Poincare ball."""
    q = Ultrahyperbolic(np.array([1.0, 1.0, -1.0]), 1.0).points(
        np.random.default_rng(0).standard_normal((6, 3))
    )
    q *= np.sign(q[:, 2:])
    manifold = Ultrahyperbolic(np.array([1.0, 1.0, -1.0]), 1.0)
    products = (q * np.array([1.0, 1.0, -1.0])) @ q.T
    d = manifold.distances(manifold.cosines(products, np.zeros_like(products) + 10.0)[0])
    ball = q[:, :2] / (1.0 + q[:, 2:])
    gaps = ((ball[:, None] - ball) ** 2).sum(-1)
    room = 1.0 - (ball**2).sum(-1)
    np.testing.assert_allclose(d, np.arccosh(1.0 + 2.0 * gaps / (room[:, None] * room)), atol=1e-6)


# methods


def planted(m: int, smoothing: float = 0.0) -> tuple[HSPP, Array]:
    plain = made(m, smoothing)
    x = somewhere(plain)
    return HSPP(
        plain.rows, plain.distances(x[0]), SIGNS, ALPHA, smoothing=smoothing, optimal_value=0.0
    ), x


@pytest.mark.slow
def test_planted_distances_are_found() -> None:
    """By J-JOBCD, which never increases, and from sampled pairs where slopes are bounded, with a
    tenth of the pairs."""
    problem, x = planted(40, 0.5)
    aside = problem.constraint.tangent(x, 0.1 * np.random.default_rng(5).standard_normal((1, 5, 5)))
    x0 = problem.constraint.retract(x, aside)[0]
    values = np.array(
        [problem.value(state.x)[0] for state in islice(iterate(problem, JJOBCD(), x0=x0), 400)]
    )
    assert (np.diff(values) <= 1e-12 * values[:-1]).all()
    assert values[-1] < 1e-8 * values[0]
    result = solve(problem, VRJJOBCD(varsigma=3.0), x0=x0, iterations=1000, rows=2)
    assert result.row.values["relative_gap"] < 1e-10
    assert result.state.samples < 110 * problem.n_samples[0]


def test_the_planted_point_is_stationary_at_zero() -> None:
    problem, x = planted(20)
    assert problem.value(x)[0] < 1e-24
    assert np.abs(problem.gradient(x)).max() < 1e-9
    assert built(points=30, distances="planted").optimal_value == 0.0
    assert (
        built(
            points=1000, dimension=50, data="gaussian", distances="planted", smoothing=0.5
        ).optimal_value
        == 0.0
    )


# data


def test_squared_distances_are_those_of_the_rows() -> None:
    problem = built(data="gaussian", distances="squared", points=9, dimension=4)
    D = problem.rows
    expected = [[np.sum((one - other) ** 2) for other in D] for one in D]
    np.testing.assert_allclose(problem.wanted[0], expected, rtol=1e-12, atol=1e-12)


def test_a_trees_distances_are_its_edges() -> None:
    paths = random_tree(np.random.default_rng(0), 30)
    squared = squared_distances(paths)
    parents = [
        None,
        *[
            int(np.flatnonzero((paths == paths[k] - np.eye(30)[k]).all(-1))[0])
            for k in range(1, 30)
        ],
    ]
    adjacency = np.full((30, 30), np.inf)
    for child, parent in enumerate(parents):
        adjacency[child, child] = 0.0
        if parent is not None:
            adjacency[child, parent] = adjacency[parent, child] = 1.0
    for k in range(30):  # Floyd and Warshall
        adjacency = np.minimum(adjacency, adjacency[:, [k]] + adjacency[[k]])
    np.testing.assert_array_equal(squared, adjacency)
    problem = built(points=30)
    assert set(np.unique(problem.wanted[0])) == set(range(int(problem.wanted[0].max()) + 1))
    assert built(points=30, noise=0.0).rows.shape == (29, 20)


def test_data_and_distances_by_file(tmp_path: Path) -> None:
    D = np.random.default_rng(3).standard_normal((8, 4))
    np.save(tmp_path / "D.npy", D)
    np.savetxt(tmp_path / "T.csv", np.round(np.sqrt(squared_distances(D)), 3), delimiter=",")
    problem = built(data=str(tmp_path / "D.npy"), positive=3)
    np.testing.assert_allclose(
        problem.wanted[0], [[np.linalg.norm(a - b) for a in D] for b in D], atol=1e-7
    )
    np.testing.assert_array_equal(problem.constraint.signs, [1.0, 1.0, 1.0, -1.0])
    problem = built(data=str(tmp_path / "D.npy"), distances=str(tmp_path / "T.csv"))
    np.testing.assert_array_equal(problem.wanted[0], np.round(np.sqrt(squared_distances(D)), 3))


def test_rows_without_an_entry_in_the_drawn_columns_are_not_drawn(tmp_path: Path) -> None:
    """They have no place on the manifold. Their number is said where all rows are asked for."""
    sparse = np.zeros((40, 12))
    sparse[np.arange(40), np.arange(40) % 12] = 1.0 + np.arange(40)
    np.save(tmp_path / "sparse.npy", sparse)
    chosen: Any = {"data": str(tmp_path / "sparse.npy"), "draw_columns": 6}
    with pytest.raises(
        ValueError, match=r"are zero in the drawn columns: leave them out by draw_rows"
    ) as found:
        built(**chosen)
    kept = int(str(found.value).rsplit(" ", 1)[1])
    rows = built(**chosen, draw_rows=kept).rows
    assert rows.shape == (kept, 6)
    assert rows.any(axis=-1).all()
    assert set(rows[rows > 0.0]) < set(range(1, 41))
    with pytest.raises(
        ValueError,
        match=f"draw_rows must be at most {kept}, the rows .* that are not zero in 6 of its 12",
    ):
        built(**chosen, draw_rows=kept + 1)
