"""Sizes are compared with the free memory before anything is made."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as npy

import decentorth as do
import topologies as tp
from topologies.line import memory


def test_what_does_not_fit_is_refused_with_both_numbers() -> None:
    memory.require(1e6, "the data")
    with pytest.raises(MemoryError, match=r"^the data would take 8 PB, and .* are free$"):
        memory.require(8e15, "the data")
    with pytest.raises(MemoryError, match="8 PB on this host"):
        memory.require(1e6, "the data", on_host=8e15)


def limited(size: int, *words: str) -> subprocess.CompletedProcess[str]:
    limit = (size, resource.getrlimit(resource.RLIMIT_AS)[1])
    return subprocess.run(
        [sys.executable, *words],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, limit),
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_limit_of_the_address_space_counts() -> None:
    job = limited(
        1 << 30, "-c", "from topologies.line import memory; memory.require(2e9, 'the data')"
    )
    assert "MemoryError: the data would take 2 GB, and " in job.stderr
    job = limited(16 << 30, "-m", "decentorth", "graph", "ring:100000000")
    assert job.returncode == 2
    assert "ring: the mixing matrix of 100000000 agents would take 29 GB, and" in job.stderr
    assert job.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("limit", "used", "idle"),
    [
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ],
)
def test_a_control_group_leaves_its_limit_but_what_is_in_use(
    limit: str, used: str, idle: str, tmp_path: Path
) -> None:
    (tmp_path / limit).write_text("1000\n")
    (tmp_path / used).write_text("700\n")
    (tmp_path / "memory.stat").write_text(f"anon 600\n{idle} 100\n")
    assert [*memory._left(tmp_path)] == [400]
    (tmp_path / limit).write_text("max\n")
    assert [*memory._left(tmp_path)] == []


@pytest.mark.parametrize(
    ("settings", "agents"),
    [
        (do.problems.PCASettings(data="synthetic", samples=10**9), 1000),
        (do.problems.ProcrustesSettings(rows=10**9), 1000),
        (do.problems.CCASettings(data="synthetic", samples=10**9), 1000),
        (do.problems.ICASettings(samples=10**9), 1000),
        (do.problems.ODLSettings(samples=10**12), 1000),
        (do.problems.RSRSettings(inliers=10**12), 1000),
        (do.problems.MatrixCompletionSettings(columns=10**9), 1000),
        (do.problems.GEVPSettings(dimension=10**6), 1000),
        (do.problems.HEVPSettings(dimension=10**6), 1),
        (do.problems.HSPPSettings(points=10**7), 1),
        (do.problems.UltraESettings(entities=10**12), 1),
        # the points: 96 TB
        (
            do.problems.PCASettings(data="synthetic", samples=1, dimension=20_000, rank=10_000),
            20_000,
        ),
    ],
)
def test_data_and_points_that_do_not_fit_are_refused_before_they_are_made(
    settings: Any, agents: int
) -> None:
    method, graph = ("rgd", None) if agents == 1 else ("dgd", "ring")
    with pytest.raises(
        MemoryError, match=r"the data and the agents' points would take .* [TPE]B, and .* are free"
    ):
        do.solve(settings.problem(agents, 0), method, graph)


def test_dense_matrices_that_do_not_fit_are_refused() -> None:
    ring = tp.metropolis_weights(tp.adjacency_from_name("ring:1000000"))
    with pytest.raises(MemoryError, match="a dense matrix of 1000000 x 1000000 would take 8 TB"):
        tp.eigenvalues(ring)


@pytest.mark.parametrize(
    "variables",
    [{"SLURM_MEM_PER_NODE": "8000"}, {"SLURM_MEM_PER_CPU": "2000", "SLURM_CPUS_ON_NODE": "4"}],
)
def test_what_slurm_grants_the_job_counts(
    variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, megabytes in variables.items():
        monkeypatch.setenv(name, megabytes)
    own = memory._fields("/proc/self/status")["VmRSS"] * 1024
    (room,) = memory._job()
    assert abs(room + own - (8000 << 20)) < 1 << 24
    with pytest.raises(MemoryError, match=r"the data would take 8.5 GB, and .* GB are free"):
        memory.require(8.5e9, "the data")


def test_the_files_of_sites_in_python_are_not_read_where_they_do_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "north.npy"
    with path.open("wb") as file:
        npy.write_array_header_1_0(
            file, {"descr": "<f4", "fortran_order": False, "shape": (10**9, 1000)}
        )
        file.truncate(file.tell() + 4 * 10**12)
    with pytest.raises(MemoryError, match=r"the data and the agents' points would take 8 TB, and"):
        do.solve(
            do.problems.PCA.from_sites({"north": path, "south": np.ones((3, 1000))}, 2),
            "dgd",
            "path",
        )
