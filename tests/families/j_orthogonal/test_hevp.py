"""The hyperbolic eigenvalue problem: its derivatives, constants, samples, optimum, data and
refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decentorth.families.j_orthogonal.problems.drawn_samples import DrawnSamples
from decentorth.problems import HEVP, HEVPSettings
from decentorth.protocols import KnownOptimum, Sampled, Smooth, TraceForm
from tests.support import building

SIGNS = [1.0, -1.0, -1.0, 1.0, -1.0]


def made(form: Any = "well-posed", rows: int = 9) -> HEVP:
    return HEVP(np.random.default_rng(0).standard_normal((rows, 5)), SIGNS, form)


def built(**settings: Any) -> HEVP:
    problem: HEVP = building.built(HEVPSettings(**settings).problem(1, 0))
    return problem


@pytest.mark.parametrize(
    ("form", "rows"), [("well-posed", 9), ("as-printed", 9), ("as-printed", 2)]
)
def test_value_gradients_and_constants_are_the_formulas(form: Any, rows: int) -> None:
    sign, rng = (1.0 if form == "well-posed" else -1.0), np.random.default_rng(1)
    D = np.random.default_rng(0).standard_normal((rows, 5))
    problem, x = made(form, rows), rng.standard_normal((1, 5, 5))
    C = sign * D.T @ D
    assert problem.value(x)[0] == pytest.approx(np.trace(x[0].T @ C @ x[0]), rel=1e-13)
    np.testing.assert_allclose(problem.gradient(x)[0], 2.0 * C @ x[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(problem.trace_form()[0], 2.0 * C, rtol=1e-13, atol=1e-13)
    assert problem.trace_form() is problem.trace_form()
    assert problem.lipschitz[0] == pytest.approx(
        np.abs(np.linalg.eigvalsh(2.0 * C)).max(), rel=1e-12
    )
    single = np.mean([problem.gradient_on(x, np.array([[k]])) for k in range(rows)], axis=0)
    np.testing.assert_allclose(single, problem.gradient(x), rtol=1e-11)
    np.testing.assert_allclose(
        problem.gradient_on(x, np.arange(rows)[None]), problem.gradient(x), rtol=1e-11
    )
    assert isinstance(problem, (TraceForm, Smooth, Sampled))


def test_the_optimum_is_the_sum_of_absolute_eigenvalues() -> None:
    problem = made()
    values = np.linalg.eigvals(np.diag(SIGNS) @ problem.trace_form()[0] / 2.0)
    assert problem.optimum == pytest.approx(np.abs(values).sum(), rel=1e-12)
    assert problem.error(np.eye(5)) == pytest.approx(
        problem.value(np.eye(5)[None])[0] / np.abs(values).sum() - 1.0, rel=1e-12
    )
    assert isinstance(problem, KnownOptimum)
    assert problem.error_name == "relative_gap"


def test_the_printed_form_has_no_answer() -> None:
    problem = made("as-printed")
    assert (problem.optimum, problem.error_name) == (None, "")


def test_generated_and_published_data() -> None:
    """randn10: 10 x 10 and p = 5; at the identity half of the objective is near -1/2 E ||D||_F^2 =
    -50, -42.3 in the table."""
    values = np.linalg.eigvalsh(
        built(dimension=12, condition=1e4, samples=30).trace_form()[0] / 2.0
    )
    np.testing.assert_allclose(values, np.logspace(-4, 0, 12), rtol=1e-9)
    problem = built(data="randn10", form="as-printed")
    assert problem.shape == (10, 10)
    assert int(problem.n_samples[0]) == 10
    np.testing.assert_array_equal(problem.constraint.signs, [1.0] * 5 + [-1.0] * 5)
    np.testing.assert_array_equal(problem.start(3), np.eye(10))
    assert -75.0 < 0.5 * problem.value(np.eye(10)[None])[0] < -30.0


def test_data_by_file(tmp_path: Path) -> None:
    D = np.random.default_rng(3).standard_normal((8, 4))
    np.save(tmp_path / "data.npy", D)
    problem = built(data=str(tmp_path / "data.npy"), positive=3)
    np.testing.assert_allclose(problem.trace_form()[0], 2.0 * D.T @ D, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(problem.constraint.signs, [1.0, 1.0, 1.0, -1.0])


def test_rows_and_columns_are_drawn_from_a_file(tmp_path: Path) -> None:
    """The same for every number of blocks, in the file's order, without repetition; another seed
    draws others."""
    whole = np.arange(1.0, 601.0).reshape(30, 20)
    np.save(tmp_path / "all.npy", whole)
    chosen: Any = {
        "data": str(tmp_path / "all.npy"),
        "draw_rows": 12,
        "draw_columns": 5,
        "divide_by": 4.0,
    }
    settings = HEVPSettings(form="as-printed", **chosen)
    problem: HEVP = building.built(settings.problem(1, 3))
    (found,) = DrawnSamples(chosen["data"], settings, 3).rows(np.arange(12))[None] * 4.0
    rows, columns = (found[:, 0] - 1.0) // 20.0, (found[0] - 1.0) % 20.0
    np.testing.assert_array_equal(found, whole[np.ix_(rows.astype(int), columns.astype(int))])
    assert (np.diff(rows) > 0.0).all()
    assert (np.diff(columns) > 0.0).all()
    np.testing.assert_allclose(problem.trace_form()[0], -2.0 * found.T @ found / 16.0, rtol=1e-12)
    parts: HEVP = building.built(settings.in_blocks(4, 3))
    np.testing.assert_allclose(
        parts.gradient(np.stack([np.eye(5)] * 4)).mean(0), problem.gradient(np.eye(5)[None])[0]
    )
    assert not np.array_equal(
        problem.trace_form(), building.built(settings.problem(1, 4)).trace_form()
    )
    with pytest.raises(
        ValueError, match=r"draw_rows must be at most 30, the rows of .*all\.npy, got 31"
    ):
        built(**(chosen | {"draw_rows": 31}))
    with pytest.raises(
        ValueError, match=r"draw_columns must be at most 20, the columns of .*all\.npy, got 21"
    ):
        built(**(chosen | {"draw_columns": 21}))


@pytest.mark.parametrize("name", ["w1a", "w1a.txt"])
def test_svmlight_is_known_by_its_first_line(tmp_path: Path, name: str) -> None:
    """Files of the LIBSVM page as they are: no extension, a blank at the end of a line, a row
    without features."""
    pytest.importorskip("sklearn")
    (tmp_path / name).write_text("-1 2:1 5:1 7:1 \n+1 1:0.5 7:-2 \n-1 \n-1 3:1 \n")
    D = np.zeros((4, 7))
    D[0, [1, 4, 6]], D[1, [0, 6]], D[3, 2] = 1.0, (0.5, -2.0), 1.0
    problem = built(data=str(tmp_path / name), form="as-printed", divide_by=2.0)
    np.testing.assert_array_equal(problem.trace_form()[0], -0.5 * D.T @ D)
    few = built(data=str(tmp_path / name), form="as-printed", draw_columns=3)
    assert few.shape == (3, 3)


def test_a_ridge_makes_it_definite(tmp_path: Path) -> None:
    np.save(tmp_path / "low.npy", np.ones((3, 4)))
    with pytest.raises(ValueError, match=r"the 4 columns of D are dependent: add a ridge"):
        built(data=str(tmp_path / "low.npy"))
    problem = built(data=str(tmp_path / "low.npy"), ridge=0.5)
    np.testing.assert_allclose(
        problem.trace_form()[0], 2.0 * (3.0 * np.ones((4, 4)) + 0.5 * np.eye(4)), rtol=1e-12
    )
    np.testing.assert_allclose(
        built(data=str(tmp_path / "low.npy"), form="as-printed").trace_form()[0],
        -6.0 * np.ones((4, 4)),
    )


@pytest.mark.parametrize("seed", range(6))
def test_dependent_columns_in_any_units_are_refused(seed: int) -> None:
    draws = np.random.default_rng(seed)
    D = draws.standard_normal((40, 6))
    for last in (D[:, 0], D[:, 0] + D[:, 1], D[:, :5] @ np.arange(1.0, 6.0), 0.0 * D[:, 0]):
        D[:, 5] = last
        for units in (np.ones(6), np.geomspace(1e-6, 1e6, 6)):
            with pytest.raises(ValueError, match="the 6 columns of D are dependent"):
                HEVP(D * units, np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0]))
