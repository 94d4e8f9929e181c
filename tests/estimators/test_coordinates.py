"""Runs as estimators that transform new rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decentorth as do
from decentorth.estimators import CCA, LDA, PCA, MultiviewCCA
from tests.support.threads import on_ranks

pd: Any = pytest.importorskip("pandas")
RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((90, 4)) * [1.0, 2.0, 3.0, 40.0] + [5.0, 0.0, 0.0, 100.0]
SITES = {
    name: pd.DataFrame(part, columns=list("abcd"))
    for name, part in zip(("north", "south", "west"), np.array_split(ROWS, 3), strict=True)
}
NEW = pd.DataFrame(RNG.standard_normal((7, 4)) + 1.0, columns=list("abcd"))


def apart(found: Any, wanted: Any) -> float:
    """The largest difference of coordinates, but for a rotation of the axes."""
    left, _, right = np.linalg.svd(found.T @ wanted)
    return float(np.abs(found @ left @ right - wanted).max())


@pytest.mark.parametrize("scale", [False, True])
def test_a_loaded_run_transforms_new_rows_as_the_pooled_fit(tmp_path: Path, scale: bool) -> None:
    problem = do.problems.PCA.from_sites(SITES, 2, center=True, scale=scale)
    result = do.solve(problem, "deepca", "ring", iterations=1000, stopping=1e-10)
    result.save(tmp_path / "run")
    loaded = do.load(tmp_path / "run").estimator()
    pooled = PCA(2, scale=scale).fit(pd.concat(SITES.values()))
    coordinates = loaded.transform(NEW)
    assert apart(coordinates, pooled.transform(NEW)) < 1e-7
    np.testing.assert_array_equal(result.estimator().transform(NEW), coordinates)
    assert list(loaded.feature_names_in_) == list("abcd")
    turned = NEW[list("bacd")].assign(name="x")
    np.testing.assert_array_equal(loaded.transform(turned), coordinates)
    with pytest.raises(ValueError, match="the rows lack the column 'c': give all columns of the"):
        loaded.transform(NEW[["d", "b", "a"]])


def test_a_run_with_filled_cells_fills_those_of_new_rows() -> None:
    holes = {name: frame.mask(frame > 150.0) for name, frame in SITES.items()}
    problem = do.problems.PCA.from_sites(holes, 2, center=True, missing="mean")
    found = do.solve(problem, "deepca", "ring", iterations=100).estimator()
    means = pd.concat(holes.values()).mean()
    empty, full = NEW.assign(d=np.nan), NEW.assign(d=means["d"])
    np.testing.assert_allclose(found.transform(empty), found.transform(full), atol=1e-12)
    whole = do.problems.PCA.from_sites(SITES, 2, center=True)
    with pytest.raises(ValueError, match="contains NaN"):
        do.solve(whole, "deepca", "ring", iterations=5).estimator().transform(empty)


def test_all_ranks_have_the_estimator_of_one_process() -> None:
    problem = do.problems.PCA(np.array_split(ROWS, 3), 2)

    def directions(communicator: Any) -> Any:
        result = do.solve(problem, "deepca", "ring", iterations=10, comm=communicator)
        return result.estimator().components.tobytes()

    alone = do.solve(problem, "deepca", "ring", iterations=10).estimator().components.tobytes()
    assert on_ranks(3, directions) == [alone] * 3


def test_pipelines_and_clones_keep_the_directions() -> None:
    problem = do.problems.PCA(np.array_split(ROWS, 3), 2)
    found = do.solve(problem, "deepca", "ring", iterations=10).estimator()
    scores = clone(found).fit(ROWS[:5]).transform(ROWS)
    np.testing.assert_array_equal(scores, found.transform(ROWS))
    whole = make_pipeline(found, StandardScaler()).fit_transform(ROWS)
    np.testing.assert_allclose(whole, StandardScaler().fit_transform(scores))


def test_a_run_of_lda_has_the_directions_of_the_estimator() -> None:
    """Its scores are those of the estimator but for their mean."""
    X, y = load_digits(return_X_y=True)
    settings = do.problems.LDASettings(data="digits", ridge=1e-2)
    found: Any = do.solve(settings.problem(4, seed=0), "direct", "ring", iterations=1).estimator()
    scores = found.transform(X)
    wanted = (
        LDA(ridge=1e-2, algorithm="direct")
        .fit_agents(zip(*(np.array_split(one, 4) for one in (X, y)), strict=True), "ring")
        .transform(X)
    )
    residual = (
        wanted
        - (scores - scores.mean(axis=0)) @ np.linalg.lstsq(scores - scores.mean(axis=0), wanted)[0]
    )
    assert np.abs(residual).max() < 1e-6


PAIRS = {
    name: (
        pd.DataFrame(first, columns=list("abcd")),
        pd.DataFrame(first[:, :2] + RNG.standard_normal((len(first), 2)), columns=list("uv")),
    )
    for name, first in zip(SITES, np.array_split(ROWS, 3), strict=True)
}


def test_a_loaded_run_of_cca_transforms_new_rows_of_both_views_as_the_pooled_fit(
    tmp_path: Path,
) -> None:
    problem = do.problems.CCA.from_sites(PAIRS, 2, center=True, scale=True)
    result = do.solve(problem, "direct", "ring")
    result.save(tmp_path / "run")
    loaded: Any = do.load(tmp_path / "run").estimator()
    X, Y = (pd.concat(views) for views in zip(*PAIRS.values(), strict=True))
    pooled = CCA(2).fit(X, Y)
    scores = loaded.transform(NEW, NEW[["a", "b"]].set_axis(["u", "v"], axis=1))
    wanted = pooled.transform(NEW, NEW[["a", "b"]])
    # one rotation turns the axes of both views
    assert apart(np.concatenate(scores), np.concatenate(wanted)) < 1e-6
    assert apart(loaded.transform(NEW), wanted[0]) < 1e-6
    with pytest.raises(ValueError, match="the rows lack the column 'u'"):
        loaded.transform(NEW, NEW[["a", "b"]])
    np.testing.assert_array_equal(clone(loaded).fit(NEW).transform(NEW), scores[0])
    own: Any = result.estimator()
    np.testing.assert_array_equal(own.transform(NEW), scores[0])


@pytest.mark.parametrize("repeated", [False, True])
def test_a_loaded_run_of_maxvar_has_the_directions_of_the_estimator(
    tmp_path: Path, repeated: bool
) -> None:
    """Also where a view repeats a column, so that points are coordinates in its column space."""
    rows = np.column_stack((ROWS, ROWS[:, :2] + RNG.standard_normal((90, 2))))
    if repeated:
        rows[:, 3] = rows[:, 2]
    parts = np.array_split(rows, 3)
    problem = do.problems.MAXVAR.from_sites(parts, (4, 2), 2, center=True, scale=True)
    result = do.solve(problem, "direct", "ring")
    result.save(tmp_path / "run")
    scores = do.load(tmp_path / "run").estimator().transform(rows)
    np.testing.assert_array_equal(result.estimator().transform(rows), scores)
    wanted = MultiviewCCA(2, views=(4, 2)).fit(rows).transform(rows)
    residual = wanted - scores @ np.linalg.lstsq(scores, wanted)[0]
    assert np.abs(residual).max() < 1e-6 * np.abs(wanted).max()


def test_ranks_save_the_directions_of_one_process(tmp_path: Path) -> None:
    def saved(communicator: Any) -> Any:
        problem = do.problems.CCA.from_sites(PAIRS, 2, center=True)
        result = do.solve(problem, "cdadt", "ring", iterations=10, comm=communicator)
        result.save(tmp_path / "ranks")
        own: Any = result.estimator()
        return own.transform(NEW).tobytes()

    bits = on_ranks(3, saved)
    loaded: Any = do.load(tmp_path / "ranks").estimator()
    assert bits == [loaded.transform(NEW).tobytes()] * 3


def test_views_of_a_file_keep_their_names_without_constant_columns(tmp_path: Path) -> None:
    frame = pd.concat(SITES.values()).assign(e=1.0)
    frame.to_csv(tmp_path / "x.csv", index=False)
    settings = do.problems.CCASettings(
        data=str(tmp_path / "x.csv"), columns=("a", "e", "b"), columns_y=("c", "d"), rank=1
    )
    found: Any = do.solve(settings.problem(3, seed=0), "direct", "ring").estimator()
    assert list(found.feature_names_in_) == ["a", "b"]
    assert list(found.second.feature_names_in_) == ["c", "d"]


@pytest.mark.parametrize("agents", [1, 3])
def test_scores_of_a_run_of_lda_are_those_of_the_estimator(tmp_path: Path, agents: int) -> None:
    """Centred, but for a rotation of the axes."""
    classes = np.arange(len(ROWS)) % 3
    rows = ROWS + 2.0 * np.eye(3, ROWS.shape[1])[classes]
    frame = pd.DataFrame(rows, columns=list("abcd")).assign(g=classes)
    frame.to_csv(tmp_path / "x.csv", index=False)
    settings = do.problems.LDASettings(
        data=str(tmp_path / "x.csv"), label_column="g", ridge=0.0, shuffle=False
    )
    result = do.solve(settings.problem(agents, seed=0), "auto", "ring" if agents > 1 else None)
    scores = result.estimator().transform(frame)
    assert apart(np.asarray(scores), LDA(ridge=0.0).fit(rows, classes).transform(rows)) < 1e-6


def test_a_run_without_directions_of_columns_says_so(tmp_path: Path) -> None:
    problem = do.problems.ProcrustesSettings().problem(4, seed=0)
    result = do.solve(problem, "drfgt", "ring", iterations=2)
    with pytest.raises(ValueError, match="not a map of new rows"):
        result.estimator()


def test_a_damaged_summary_is_refused(tmp_path: Path) -> None:
    problem = do.problems.PCA.from_sites(SITES, 2, scale=True)
    do.solve(problem, "deepca", "ring", iterations=2).save(tmp_path / "run")
    path = tmp_path / "run" / "summary.json"
    kept = json.loads(path.read_text())
    for change in (
        {"scale": [1.0, 0.0, 1.0, 1.0]},
        {"mean": [1.0]},
        {"names": ["a"]},
        {"mean": "x"},
        {"names": [1, 2, 3, 4]},
        {"count": 3, "names": [], "mean": None},
    ):
        view = {**kept["columns"]["views"][0], **change}
        columns = {**kept["columns"], "views": [view]}
        path.write_text(json.dumps({**kept, "columns": columns}))
        with pytest.raises(ValueError, match="columns must hold the names and units"):
            do.load(tmp_path / "run")
    path.write_text(json.dumps({**kept, "columns": {**kept["columns"], "arrays": ["z"]}}))
    with pytest.raises(ValueError, match="z"):
        do.load(tmp_path / "run")
