"""Bundled data sets and the resolution of data specifications."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits  # it ships no types

from decentorth.data import BUNDLED, MatrixFile, digits, resolve


def test_digits_are_scikit_learns_raw_images() -> None:
    X, y = digits()
    reference = load_digits()
    assert X.dtype == np.float64
    assert X.flags.c_contiguous
    assert y.dtype == np.int64
    assert np.array_equal(X, reference.images.reshape(1797, 64))
    assert np.array_equal(y, reference.target)
    assert (X.min(), X.max()) == (0.0, 16.0)
    assert np.array_equal(X, np.trunc(X))


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_name_gives_its_samples(name: str) -> None:
    X, y = BUNDLED[name]()
    samples = resolve(name)
    assert samples.name == name
    assert samples.shape == X.shape
    rows = [5, 0, 5, len(X) - 1]
    part = samples.rows(rows)
    assert np.array_equal(part, X[rows])
    part[:] = -1
    assert np.array_equal(samples.rows(rows), X[rows])
    labels = samples.labels
    assert labels is not None
    assert np.array_equal(labels, y)
    with pytest.raises(ValueError, match=f"rows 0 to {len(X) - 1}, but row {len(X)}"):
        samples.rows([len(X)])


def test_a_path_gives_the_file(tmp_path: Path) -> None:
    X, y = digits()
    np.savez(tmp_path / "d.npz", X=X, y=y)
    samples = resolve(f"{tmp_path}/d.npz:X")
    assert isinstance(samples, MatrixFile)
    assert samples.shape == X.shape
    assert np.array_equal(samples.rows([3, 1]), X[[3, 1]])
    assert samples.labels is None


def test_what_is_neither_name_nor_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"named 'digit'; did you mean 'digits'\? there is digits.*path it was tried too"):
        resolve("digit")
    with pytest.raises(ValueError, match="named 'zzz'; there is digits"):
        resolve("zzz")
    for spec in ("digits.npy", "./digits", "x.npz:key"):
        with pytest.raises(FileNotFoundError, match="no such file"):
            resolve(spec)
