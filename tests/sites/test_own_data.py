"""The tables of docs/own_data.md and docs/features.md at sites over a NATS server: the answers of
the pooled table, the bits of one process, and nothing for the server to read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import eigh, subspace_angles
from sklearn.datasets import load_wine

import decentorth as do
from decentorth import __version__
from decentorth.commands.run.command import main
from decentorth.network import Network
from decentorth.protocols import Array
from tests.support.marks import first_row_is_quick
from tests.support.sites import Place, Tap, ended

NAMES = ("north", "south", "west")
EDGES = {("north", "south"), ("south", "north"), ("south", "west"), ("west", "south")}
RUNS = {
    "pca": "--problem pca --exclude id,cultivar --drop-missing --scale --rank 2",
    "cca": "--problem cca --columns alcohol,malic_acid,ash --columns-y flavanoids,hue,od280 "
    "--drop-missing --ridge 0 --rank 2",
    "lda": "--problem lda --exclude id --label-column cultivar --drop-missing --ridge 0",
}


def wines(folder: Path) -> pd.DataFrame:
    """Write the tables of the page, and return all rows without missing cells."""
    wine = load_wine(as_frame=True)
    table = wine.data.rename(columns={"od280/od315_of_diluted_wines": "od280"})
    cultivars = np.array(["barolo", "grignolino", "barbera"])
    table.insert(0, "id", [f"w{i:03d}" for i in range(len(table))])
    table.insert(1, "cultivar", cultivars[wine.target])
    table = table.sample(frac=1.0, random_state=0)
    west = table[100:].copy()
    west.iloc[7, 4] = np.nan
    parts = (table[:40], table[40:100][table.columns[::-1]], west)
    for name, part in zip(NAMES, parts, strict=True):
        part.to_csv(folder / f"{name}.csv", index=False)
    return pd.concat(parts).dropna()


def answer(problem: str, table: pd.DataFrame) -> Array:
    """The directions of the pooled table."""
    X = table.drop(columns=["id", "cultivar"])
    A = (X - X.mean()).to_numpy()
    if problem == "pca":
        return np.linalg.svd(A / A.std(axis=0))[2][:2].T
    if problem == "cca":
        views = ["alcohol", "malic_acid", "ash", "flavanoids", "hue", "od280"]
        C = X[views].corr().to_numpy()
        B = C.copy()
        B[:3, 3:] = B[3:, :3] = 0.0
        return np.asarray(eigh(C - B, B)[1][:, -2:])
    means = pd.DataFrame(A).groupby(table["cultivar"].to_numpy()).transform("mean").to_numpy()
    return np.asarray(eigh(means.T @ means, (A - means).T @ (A - means))[1][:, -2:])


def whole(place: Place, flags: list[str], monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Array]:
    """The points of all sites in one process, and the numbers of the first message of the first
    site."""
    first: list[Array] = []
    add = Network._add_up

    def listening(self: Network, values: Array, use: str) -> Array:
        first.append(values[0].copy())
        return add(self, values, use)

    files = ",".join(str(place.root / f"{name}.csv") for name in NAMES)
    out = str(place.root / "whole")
    with monkeypatch.context() as patch:
        patch.setattr(Network, "_add_up", listening)
        assert main(["--data", files, "--topology", "path", "--out", out, "--quiet", *flags]) == 0
    with np.load(f"{out}/final.npz") as saved:
        return saved["x"], first[0]


def found_in(tap: Tap, secrets: list[bytes]) -> list[bytes]:
    """The secrets that the server has heard, beside the numbers of messages, which are mostly
    zeros."""
    everything = b"".join(data[13:] if data[:1] == b"S" else data for _, data in tap.heard)
    return [one for one in secrets if one in everything]


def check_model(place: Place, name: str, problem: str, table: pd.DataFrame) -> None:
    """The folder of a site transforms new rows as that of all sites in one process."""
    new = [table.drop(columns=["id", "cultivar"])[::7]]
    if problem == "cca":
        new = [new[0][["alcohol", "malic_acid", "ash"]], new[0][["flavanoids", "hue", "od280"]]]
    own = do.load(place.root / f"run-{name}")
    pooled = do.load(place.root / "whole")
    assert own.sites == pooled.sites == NAMES
    assert own.agent == NAMES.index(name)
    assert own.to_xarray()["agent"].values.tolist() == [name]
    found = own.estimator().transform(*new)
    expected = pooled.estimator().transform(*new)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("problem", "secure"),
    first_row_is_quick((problem, secure) for problem in RUNS for secure in (True, False)),
)
def test_sites_find_the_answer_of_the_pooled_table_and_the_server_reads_nothing(
    tmp_path: Path, problem: str, secure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By ``auto``; without masks and with them every site has the bits of one process."""
    place = Place(tmp_path)
    table = wines(place.root)
    flags = RUNS[problem].split()
    tap = Tap(place)
    more = () if secure else ("--clear-sums",)
    with place.serving(), tap:
        sites = [place.start(name, "--wait", "60", run=(*flags, *more)) for name in NAMES]
        found = ended(sites)
    assert [code for code, _ in found] == [0, 0, 0], found
    points, first = whole(place, [*flags, *(["--secure"] if secure else [])], monkeypatch)
    for name, x in zip(NAMES, points, strict=True):
        assert place.points(name).tobytes() == x[None].tobytes()
        assert subspace_angles(x, answer(problem, table)).max() < 1e-9
        check_model(place, name, problem, table)
    assert {tuple(subject.split(".")[2:]) for subject, _ in tap.heard} == EDGES
    numbers = table.drop(columns=["id", "cultivar"]).to_numpy().ravel()
    secrets = [name.encode() for name in table.columns if len(name) > 3]
    secrets += [b"barolo", b"direct", b"drop_missing", b"objective", __version__.encode()]
    secrets += [value.tobytes() for value in (*first, *numbers) if value]
    assert found_in(tap, secrets) == []


@pytest.mark.slow
@pytest.mark.parametrize("secure", [True, False])
def test_sites_with_other_features_of_the_same_people(
    tmp_path: Path, secure: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in another order at each site, matched by a key that nobody else reads."""
    place = Place(tmp_path)
    rng = np.random.default_rng(0)
    values = rng.standard_normal((80, 7)) @ rng.standard_normal((7, 7))
    table = pd.DataFrame(values, columns=[f"m{column}" for column in range(7)])
    table.insert(0, "person", [f"p{row:03d}" for row in range(80)])
    for name, own in zip(NAMES, ([1, 2, 3], [4, 5], [6, 7]), strict=True):
        part = table.iloc[rng.permutation(80), [0, *own]]
        part.to_csv(place.root / f"{name}.csv", index=False)
    flags = "--problem pca --split features --key person --scale --rank 2".split()
    tap = Tap(place)
    more = () if secure else ("--clear-sums",)
    with place.serving(), tap:
        sites = [place.start(name, "--wait", "60", run=(*flags, *more)) for name in NAMES]
        found = ended(sites)
    assert [code for code, _ in found] == [0, 0, 0], found
    flags += ["--iterations", "100", *(["--secure"] if secure else [])]
    points, _ = whole(place, flags, monkeypatch)
    for name, x in zip(NAMES, points, strict=True):
        assert place.points(name).tobytes() == x[None].tobytes()
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)
    pooled = np.linalg.svd(scaled)[2][:2].T
    rows = np.concatenate((points[0], points[1][:2], points[2][:2]))
    assert subspace_angles(rows, pooled).max() < 1e-8
    assert found_in(tap, [b"person", *(f"p{row:03d}".encode() for row in range(80))]) == []
