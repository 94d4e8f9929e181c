"""The applications in examples/applications reach what their pages say, and read one's own
files."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import cholesky, eigh, solve_triangular, subspace_angles

import decentorth as do
import topologies as tp
from decentorth.commands.run.command import main as run
from tests.support.examples import run as drawing
from tests.support.mpi import ROOT

Matrix = NDArray[np.float64]
FOLDER = ROOT / "examples" / "applications"


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("sklearn")
    pytest.importorskip("matplotlib").use("agg")
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module(name)


hospitals = pytest.fixture(lambda monkeypatch: script("hospitals", monkeypatch), name="hospitals")
sensors = pytest.fixture(lambda monkeypatch: script("sensors", monkeypatch), name="sensors")


def table(rows: list[Any]) -> dict[str, Any]:
    return {label: tuple(values) for label, *values in rows}


def three_sites() -> list[Matrix]:
    rng = np.random.default_rng(4)
    mixing = rng.standard_normal((6, 6)) * np.geomspace(3.0, 0.3, 6)[:, None]
    return [rng.standard_normal((m, 6)) @ mixing + rng.standard_normal(6) for m in (20, 40, 90)]


def standard(sites: list[Matrix]) -> Matrix:
    pooled = np.concatenate(sites)
    scaled: Matrix = (pooled - pooled.mean(axis=0)) / pooled.std(axis=0)
    return scaled


@pytest.mark.parametrize("center_sites", [False, True])
def test_hospitals_find_the_components_of_the_pooled_table(
    hospitals: Any, center_sites: bool
) -> None:
    """One round of merged components does not, nor do agents that all count the same. Large means
    do no harm."""
    sites = [X + 1e6 for X in three_sites()]
    W = tp.metropolis_weights(tp.path(3))
    units, weights, sent = hospitals.standardized(sites, W, center_sites)
    expected = standard([X - X.mean(axis=0) for X in sites] if center_sites else sites)
    np.testing.assert_allclose(np.concatenate(units), expected, atol=1e-8)
    assert sent > 0
    rows, (megabytes, angles), known = hospitals.components(units, weights, W, 2, sent)
    found = table(rows)
    assert (
        subspace_angles(np.linalg.svd(expected)[2][:2].T, hospitals.top(expected.T @ expected, 2))[
            0
        ]
        < 1e-10
    )
    exact = ("agents, DeEPCA", "agents average covariances", "a server adds covariances")
    assert max(found[label][0] for label in exact) < 1e-6
    assert found["one round, 2 from each site"][0] > 1e-3
    assert found["every site counts alike"][0] > 1e-3
    assert (np.diff(megabytes) > 0.0).all()
    assert angles[-1] < 1e-6 < angles[0]
    assert known[1] > 0.1
    assert known[5] < 1e-9  # ten columns so far, in six dimensions


@pytest.mark.slow
def test_a_stations_filter_over_lossy_links_is_that_of_scipy(sensors: Any) -> None:
    """And so are the canonical directions; the averages of the stations' own answers are not."""
    noise, signals = sensors.generated(n_stations=6, n_sensors=6)
    W = tp.metropolis_weights(tp.ring(6))
    run = {"lossy": (do.CDADT(), do.Channel("loss:p=0.1"))}
    A, B = (np.concatenate(parts).T @ np.concatenate(parts) for parts in (signals, noise))
    task = sensors.spatial_filter(noise, signals, 2)
    assert subspace_angles(task.answer, eigh(A, B)[1][:, -2:])[0] < 1e-10
    pair = sensors.group_correlations(signals, 3, 2)
    left, right = (cholesky(A[part, part]) for part in (slice(3), slice(3, 6)))
    whitened = solve_triangular(right, solve_triangular(left, A[:3, 3:], trans="T").T, trans="T").T
    u = np.linalg.svd(whitened)[0]
    assert subspace_angles(left @ pair.answer[:3], u[:, :2])[0] < 1e-10
    for one in (task, pair):
        rows, _ = sensors.analysed("", one, W, run)
        found = table(rows)
        assert found["lossy"][1] < 1e-6
        assert abs(found["lossy"][0]) < 1e-9
        assert found["lossy"][3].endswith("iterations")
        assert (
            max(
                found[label][1]
                for label in ("covariances averaged", "covariances averaged, 10 % lost")
            )
            < 1e-6
        )
        assert found["average of own answers, server"][1] > 1e-2
        assert found["average of own answers, server"][0] > 1e-3


@pytest.mark.slow
def test_hospitals_read_a_table_with_a_column_of_sites(tmp_path: Path, hospitals: Any) -> None:
    """The rows of the sites are interleaved; with a file of sites beside an array there is the same
    table."""
    sites = three_sites()
    names = np.repeat(["south", "east", "north"], [len(X) for X in sites])
    order = np.random.default_rng(0).permutation(len(names))
    X, names = np.concatenate(sites)[order], names[order]
    lines = [
        ",".join([name, *map(repr, row)])
        for name, row in zip(names.tolist(), X.tolist(), strict=True)
    ]
    (tmp_path / "records.csv").write_text("hospital,a,b,c,d,e,f\n" + "\n".join(lines) + "\n")
    np.save(tmp_path / "records.npy", X)
    np.save(tmp_path / "sites.npy", names)
    found = hospitals.main(
        [
            "--data",
            str(tmp_path / "records.csv"),
            "--site-column",
            "hospital",
            "--rank",
            "2",
            "--first-view",
            "3",
        ]
    )
    again = hospitals.main(
        [
            "--data",
            str(tmp_path / "records.npy"),
            "--sites",
            str(tmp_path / "sites.npy"),
            "--rank",
            "2",
        ]
    )
    assert found["components"][0] == again["components"][0]
    assert found["components"][0][0][1] < 1e-6
    assert found["correlations"][0][0][1] < 1e-6


def test_hospitals_with_a_file_each_find_the_components_of_the_pooled_table(
    tmp_path: Path, hospitals: Any
) -> None:
    assert hospitals.main(["--write", str(tmp_path)]) == {}
    folder = tmp_path / "breast-cancer"
    words = [
        "--problem",
        "pca",
        "--data",
        str(folder),
        "--scale",
        "--rank",
        "3",
        "--algorithm",
        "deepca",
    ]
    assert (
        run([*words, "--gradient-tolerance", "1e-10", "--quiet", "--out", str(tmp_path / "out")])
        == 0
    )
    pooled = np.concatenate(
        [np.loadtxt(file, delimiter=",", skiprows=1) for file in sorted(folder.iterdir())]
    )
    answer = np.linalg.svd((pooled - pooled.mean(axis=0)) / pooled.std(axis=0))[2][:3].T
    points = np.load(tmp_path / "out" / "final.npz")["x"]
    assert len(points) == 10
    assert max(subspace_angles(x, answer)[0] for x in points) < 1e-8


def numbers(said: str) -> list[dict[str, list[float]]]:
    tables: list[dict[str, list[float]]] = []
    for line in map(str.rstrip, said.splitlines()):
        if "angle" in line:
            tables.append({})
        elif tables and (row := re.match(r"  (\S.*?)  +((?:\S+ +)*\S+)$", line)):
            values = [float(word) for word in row[2].split() if re.fullmatch(r"[-+.e\d]*\d", word)]
            tables[-1][row[1]] = values
    return tables


def ended(name: str, figure: Path) -> list[dict[str, list[float]]]:
    said = drawing("examples/applications/" + name, "--figure", str(figure))
    assert figure.stat().st_size > 10_000
    return numbers(said)


@pytest.mark.slow
def test_hospitals_are_exact_where_one_round_errs(tmp_path: Path) -> None:
    """The numbers of the page, in kB."""
    components, correlations = ended("hospitals.py", tmp_path / "figure.png")
    for found, method in ((components, "DeEPCA"), (correlations, "CDADT")):
        assert found[f"agents, {method}"][0] < 1e-6
        assert found["agents average covariances"][0] < 1e-12
        assert found["a server adds covariances"][0] < 1e-12
    assert [components[f"one round, {k} from each site"][0] for k in (3, 6, 12)] == pytest.approx(
        [0.28, 0.024, 0.0038], rel=0.05
    )
    assert correlations["one round, 2 from each site"][0] > 1.0
    assert components["every site counts alike"][0] == pytest.approx(0.40, rel=0.05)
    assert components["agents, DeEPCA"][1] == pytest.approx(5778, rel=0.3)
    assert components["agents average covariances"][1] == 4545
    assert correlations["agents, CDADT"][1] == pytest.approx(16419, rel=0.3)
    assert correlations["agents average covariances"][1] == 657


@pytest.mark.slow
def test_sensors_lose_nothing_to_the_centre_where_averages_of_filters_do(tmp_path: Path) -> None:
    """The numbers of the page: what is lost, angles, MB."""
    tables = ended("sensors.py", tmp_path / "figure.png")
    for found, lost in zip(tables, (1.4, 0.22), strict=True):
        for label in (
            "CDADT",
            "CDADT, 10 % lost",
            "CDADT without momentum, 30 % lost",
            "GeneralizedDRFGT",
        ):
            assert found[label][0] == 0.0
            assert found[label][1] < 1e-6
        assert found["CDADT, 10 % lost, no repair"][1] > 1e-3
        assert found["average of own answers, server"][0] == pytest.approx(lost, rel=0.1)
        assert found["alone, median station"][0] > 1.3 * lost
        assert found["covariances averaged"][2] < 0.3 * found["CDADT"][2]
