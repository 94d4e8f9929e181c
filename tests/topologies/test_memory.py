"""Sizes are compared with the free memory before anything is made."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import decentorth as do
import topologies as tp
from topologies import memory


def test_what_does_not_fit_is_refused_with_both_numbers() -> None:
    memory.require(1e6, "the data")
    with pytest.raises(MemoryError, match=r"^the data would take 8 PB, and .* are free$"):
        memory.require(8e15, "the data")
    with pytest.raises(MemoryError, match="8 PB on this host"):
        memory.require(1e6, "the data", on_host=8e15)


def test_a_limit_of_the_address_space_counts() -> None:
    script = "from topologies import memory; memory.require(2e9, 'the data')"
    limit = (1 << 30, resource.getrlimit(resource.RLIMIT_AS)[1])
    job = subprocess.run(
        [sys.executable, "-c", script],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "MemoryError: the data would take 2 GB, and " in job.stderr


@pytest.mark.parametrize(
    ("limit", "used", "idle"),
    [("memory.max", "memory.current", "inactive_file"), ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")],
)
def test_a_control_group_leaves_its_limit_but_what_is_in_use(limit: str, used: str, idle: str, tmp_path: Path) -> None:
    (tmp_path / limit).write_text("1000\n")
    (tmp_path / used).write_text("700\n")
    (tmp_path / "memory.stat").write_text(f"anon 600\n{idle} 100\n")
    assert [*memory._left(tmp_path)] == [400]
    (tmp_path / limit).write_text("max\n")
    assert [*memory._left(tmp_path)] == []


SETTINGS: dict[str, Any] = {
    "pca": do.problems.PCASettings(data="synthetic", samples=10**9),
    "procrustes": do.problems.ProcrustesSettings(rows=10**9),
    "cca": do.problems.CCASettings(data="synthetic", samples=10**9),
    "ica": do.problems.ICASettings(samples=10**9),
    "odl": do.problems.ODLSettings(samples=10**12),
    "rsr": do.problems.RSRSettings(inliers=10**12),
    "matrix_completion": do.problems.MatrixCompletionSettings(columns=10**9),
    "gevp": do.problems.GEVPSettings(dimension=10**6),
}


ALONE: dict[str, Any] = {
    "hevp": do.problems.HEVPSettings(dimension=10**6),
    "hspp": do.problems.HSPPSettings(points=10**7),
    "ultrae": do.problems.UltraESettings(entities=10**12),
}


@pytest.mark.parametrize("name", [*SETTINGS, *ALONE])
def test_data_that_do_not_fit_are_refused_before_they_are_made(name: str) -> None:
    settings, *given = (ALONE[name], "rgd") if name in ALONE else (SETTINGS[name], "dgd", "ring")
    with pytest.raises(MemoryError, match=r"the data would take .* are free"):
        do.solve(settings.problem(1 if name in ALONE else 1000, 0), *given)


def test_dense_matrices_that_do_not_fit_are_refused() -> None:
    ring = tp.metropolis_weights(tp.adjacency_from_name("ring:1000000"))
    with pytest.raises(MemoryError, match="a dense matrix of 1000000 x 1000000 would take 8 TB"):
        tp.eigenvalues(ring)
