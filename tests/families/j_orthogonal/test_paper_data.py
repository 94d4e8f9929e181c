"""The commands of docs/papers/001.md for data sets that are not in this repository read files of
these formats."""

from __future__ import annotations

import gzip
import re
import shlex
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from decentorth import CSDM
from decentorth.api import set_up
from decentorth.problems import HEVPSettings, HSPPSettings
from decentorth.protocols import Array
from tests.support.mpi import ROOT

SECTION = (ROOT / "docs" / "papers" / "001.md").read_text().partition("## The paper's data sets")[2]
COMMANDS = [
    shlex.split(line)
    for line in re.findall(r"^  `(python .*)`$", SECTION, re.M)
    if "ultrae.py" not in line
]
FEWER = 50
"""The files have this many times fewer rows than the published ones."""


def value(words: list[str], flag: str) -> str | None:
    return words[words.index(flag) + 1] if flag in words else None


def write(path: Path, variable: str, samples: Array, classes: Array) -> None:
    """Write whole numbers from 0 to 255 as the data set of this name is published."""
    sparse = scipy.sparse.csr_array(samples.astype(float))
    if path.name == "data_batch_1.mat":
        rows = {"data": samples.astype(np.uint8), "labels": classes[:, None].astype(np.uint8)}
        scipy.io.savemat(path, {**rows, "batch_label": "training batch 1 of 5"})
    elif path.suffix == ".mat":
        scipy.io.savemat(path, {variable: sparse.tocsc(), "gnd": classes[:, None]})
    elif path.suffix == ".npy":
        np.save(path, samples.astype(np.float32))
    elif path.suffix == ".gz":
        head = struct.pack(">HBBIII", 0, 8, 3, len(samples), 1, samples.shape[1])
        path.write_bytes(gzip.compress(head + samples.astype(np.uint8).tobytes()))
    else:
        path.write_text(
            "".join(
                f"{label:+d} " + " ".join(f"{j + 1}:{row[j]:g}" for j in np.flatnonzero(row)) + "\n"
                for label, row in zip(classes, samples, strict=True)
            )
        )


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: value(words, "--data"))
def test_a_command_of_the_page_reads_a_small_file_of_its_format(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, divided where the command says so."""
    monkeypatch.chdir(tmp_path)
    data = str(value(words, "--data"))
    name, _, variable = data.partition(":")
    m, n, positive = (
        int(str(value(words, flag))) for flag in ("--draw-rows", "--draw-columns", "--positive")
    )
    m //= FEWER
    rng = np.random.default_rng(0)
    samples: Any = rng.integers(1, 256, (m, n)) * (rng.random((m, n)) < 0.5)
    samples[:, 0] = 1
    write(tmp_path / name, variable, samples, rng.choice([-1, 1], m))
    drawn: Any = {"data": data, "draw_rows": m, "draw_columns": n, "positive": positive}
    if "hspp" in words:
        settings = HSPPSettings(smoothing=float(str(value(words, "--smoothing"))), **drawn)
        problem: Any = set_up(settings.problem(1, 0), CSDM(), comm="serial").problem
        np.testing.assert_array_equal(problem.rows, samples)
    else:
        divisor = float(value(words, "--divide-by") or 1.0)
        eigen = HEVPSettings(form="as-printed", divide_by=divisor, **drawn)
        problem = set_up(eigen.problem(1, 0), CSDM(), comm="serial").problem
        at_identity = float(problem.value(np.eye(n)[None])[0])
        assert at_identity == pytest.approx(-np.square(samples / divisor).sum(), rel=1e-12)
    assert np.count_nonzero(problem.constraint.signs > 0) == positive


def test_every_data_set_of_the_page_has_a_command() -> None:
    assert len(COMMANDS) == 10
