"""PCA's generated data, and its partitions of images and labels in idx files."""

from __future__ import annotations

import gzip
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import topologies as tp
from decentorth import DRFGT, solve
from decentorth.data import digits
from decentorth.problems import PCASettings, subspace_distance
from decentorth.protocols import Array
from decentorth.stopping import Error
from tests.support.building import collective

GRID = [(0.0, 10), (0.0, 1), (0.5, 10), (2.0, 10)]
"""Heterogeneity and agents."""


def built(n_agents: int = 10, seed: int = 0, **settings: Any) -> Any:
    problem = PCASettings(**settings).problem(n_agents, seed).build(slice(0, n_agents), collective(n_agents))
    problem.prepare(collective(n_agents))
    return problem


def drawn(agent: int, seed: int = 0, rows: int = 1000, d: int = 10) -> Array:
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(agent, 0))).standard_normal((rows, d))


@pytest.mark.parametrize(("heterogeneity", "n"), GRID)
def test_the_pooled_spectrum_is_the_published_one(heterogeneity: float, n: int) -> None:
    """Singular values s_1 gap^(j/2) of all rows, however heterogeneous, so eigenvalues s_1^2 gap^j / 1000 n of the mean C_i."""
    problem = built(n, data="synthetic", heterogeneity=heterogeneity)
    assert problem.shape == (10, 5)
    values = np.linalg.eigvalsh(-problem.hessian().mean(axis=0))[::-1]
    np.testing.assert_allclose(values[1:] / values[:-1], 0.8, rtol=1e-11)
    if heterogeneity == 0.0:
        own = np.linalg.svd(np.vstack([drawn(agent) for agent in range(n)]), compute_uv=False)[0]
        assert values[0] == pytest.approx(own**2 / (1000 * n), rel=1e-12)


def test_without_heterogeneity_the_rows_are_gaussian_rows_with_new_singular_values() -> None:
    """U S' V^T for the Gaussian U S V^T, as the published code makes it with all rows in one place."""
    u, s, vt = np.linalg.svd(np.vstack([drawn(agent, 3, 40, 6) for agent in range(4)]), full_matrices=False)
    replaced = (u * (s[0] * 0.7 ** (np.arange(6) / 2))) @ vt
    problem = built(4, 3, data="synthetic", samples=40, dimension=6, gap=0.7, rank=2)
    expected = [-rows.T @ rows / 40 for rows in np.split(replaced, 4)]
    np.testing.assert_allclose(problem.hessian(), expected, atol=1e-12)


def test_heterogeneity_parts_the_agents_and_not_the_answer() -> None:
    """The mean distance of an agent's own top subspace from the pooled one grows; the pooled one stays that of its spectrum."""
    distances = []
    for heterogeneity in (0.0, 0.25, 0.5, 1.0):
        problem = built(data="synthetic", samples=4000, gap=0.5, heterogeneity=heterogeneity)
        own = [np.linalg.eigh(h)[1][:, :5] for h in problem.hessian()]
        distances.append(np.mean([subspace_distance(vectors, problem.optimum) for vectors in own]))
        assert problem.error(problem.optimum) < 1e-13
    assert distances[0] < 0.15
    assert (np.diff(distances) > 0.1).all()


def test_stretches_are_those_of_the_settings() -> None:
    """Before the common change: one agent's singular values beside another's, whose common change cancels."""
    (mine,) = PCASettings(data="synthetic", samples=40_000, heterogeneity=1.0)._source(5, 0).read(slice(3, 5))
    for a in mine:
        np.testing.assert_allclose(np.linalg.svd(a, compute_uv=False) / 200, np.logspace(0, -1, 10), rtol=0.03)
    axes = [np.linalg.svd(a, full_matrices=False)[2] for a in mine]
    assert np.abs(axes[0] @ axes[1].T).max() < 0.95


@pytest.mark.parametrize("heterogeneity", [0.0, 1.0])
def test_drfgt_finds_the_components_with_nothing_tuned(heterogeneity: float) -> None:
    problem = PCASettings(data="synthetic", heterogeneity=heterogeneity).problem(10, 0)
    W = tp.metropolis_weights(tp.ring(10))
    result = solve(problem, DRFGT(), W, iterations=4000, record_every=50, stopping=Error(1e-8))
    assert result.converged, result.message


def write_idx(folder: Path, compress: Callable[[bytes], bytes] = gzip.compress) -> dict[str, Any]:
    """The digits as MNIST's files: 8 x 8 images of bytes, and labels."""
    X, y = digits()
    images = struct.pack(">HBBIII", 0, 8, 3, len(X), 8, 8) + X.astype(np.uint8).tobytes()
    labels = struct.pack(">HBBI", 0, 8, 1, len(y)) + y.astype(np.uint8).tobytes()
    paths = {"data": folder / "train-images-idx3-ubyte.gz", "labels": folder / "train-labels-idx1-ubyte.gz"}
    for path, content in zip(paths.values(), (images, labels), strict=True):
        path.write_bytes(compress(content))
    return {name: str(path) for name, path in paths.items()}


@pytest.mark.parametrize("partition", ["even", "by-label", "dirichlet"])
def test_images_and_labels_in_idx_files_are_divided_as_the_bundled_ones(partition: Any, tmp_path: Path) -> None:
    """The same bits as from the array in memory: bytes are handed on as they are, divided by a scale when one is given."""
    bundled = built(partition=partition).hessian()
    files = write_idx(tmp_path)
    if partition == "even":
        del files["labels"]
    assert built(partition=partition, **files).hessian().tobytes() == bundled.tobytes()
    scaled = built(partition=partition, **files, divide_by=16.0).hessian()
    np.testing.assert_allclose(scaled, bundled / 256, rtol=1e-12, atol=1e-15)


def test_by_label_needs_labels_for_idx_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the partition 'by-label' needs `labels`"):
        built(data=write_idx(tmp_path)["data"], partition="by-label")


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "rank": ({"dimension": 4}, "got d = 4 and r = 5"),
    "samples": ({"samples": 0}, "samples must be at least 1, got 0"),
    "gap": ({"gap": 1.5}, "gap must be above 0 and at most 1, got 1.5"),
    "heterogeneity": ({"heterogeneity": -1.0}, "heterogeneity must be finite and not negative, got -1.0"),
    "divisor": ({"divide_by": 0.0}, "divide_by must be positive and finite, got 0.0"),
    "few rows": (
        {"samples": 2, "dimension": 30},
        "10 agents with 2 samples each have 20 in all, fewer than dimension 30",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_settings_that_cannot_be_are_refused(name: str) -> None:
    settings, words = BAD[name]
    with pytest.raises(ValueError, match=re.escape(words)):
        PCASettings(data="synthetic", **settings).problem(10, 0)
