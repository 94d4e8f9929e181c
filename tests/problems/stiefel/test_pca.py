"""PCA: the answer and the distance from it, generated data, and partitions of images and labels."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg

from decentorth.data import digits
from decentorth.network.collective import AgentCollective
from decentorth.problems import PCA, PCASettings, subspace_distance
from decentorth.protocols import Array, KnownOptimum
from tests.reference import naive
from tests.support.building import collective
from tests.support.problems import UNEVEN, pca, samples
from tests.support.threads import on_ranks

D, R = 12, 3


def orthonormal(seed: int, d: int = D, r: int = R) -> Array:
    q: Array = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, r)))[0]
    return q


def pooled(data: list[Array]) -> Array:
    mean: Array = np.mean([a.T @ a / len(a) for a in data], axis=0)
    return mean


def test_the_answer_is_the_top_eigenspace_of_the_pooled_matrix() -> None:
    """With weights="agents" every agent counts the same, whatever its number of samples; its error
    is zero, in whatever basis."""
    data = samples(UNEVEN, D, 0)
    problem = PCA(data, R, weights="agents")
    assert not problem.error_name
    problem.find_answer(collective(len(data)))
    assert (problem.error_name, isinstance(problem, KnownOptimum)) == ("subspace_distance", True)
    values, vectors = np.linalg.eigh(pooled(data))
    top = vectors[:, -R:]
    assert problem.error(top) < 1e-13
    assert problem.error(top @ orthonormal(1, R, R)) < 1e-13
    assert problem.error(vectors[:, :R]) == pytest.approx(np.sqrt(2 * R), rel=1e-12)
    assert problem.error(vectors[:, [-1, -2, -4]]) == pytest.approx(np.sqrt(2), rel=1e-12)
    stacked = np.vstack(data)
    unweighted = np.linalg.eigh(stacked.T @ stacked)[1][:, -R:]
    assert problem.error(unweighted) > 1e-2
    np.testing.assert_allclose(
        problem.pooled().value(top[None]), -values[-R:].sum() / 2, rtol=1e-12
    )


def graded(ratio: float, size: float, n: int = 5) -> tuple[list[Array], Array]:
    """Samples whose singular values fall from ``size`` to ``ratio`` times that at the third of
    twelve, and their directions."""
    directions = orthonormal(0, D, D)
    values = size * np.array([1.0, np.sqrt(ratio), ratio, 0.3 * ratio, *[0.1 * ratio] * (D - 4)])
    return [orthonormal(1 + i, 2 * D, D) * values @ directions.T for i in range(n)], directions[
        :, :R
    ]


@pytest.mark.parametrize("size", [1e-15, 1.0, 1e15])
@pytest.mark.parametrize("ratio", [1e-4, 1e-6, 1e-8])
def test_the_answer_holds_where_the_covariance_has_lost_it(ratio: float, size: float) -> None:
    """By perturbation theory it is known to some roundings over the gap of the samples' singular
    values, not of their squares."""
    data, expected = graded(ratio, size)
    problem = PCA(data, R)
    problem.find_answer(collective(5))
    assert problem.error(expected) < 20 * np.finfo(np.float64).eps / (0.7 * ratio)
    bounds = np.array([0, 2, 3, 5])

    def on_rank(communicator: Any) -> bytes:
        own: Any = PCA(data, R).restrict(
            slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1]))
        )
        own.find_answer(AgentCollective(communicator, bounds))
        found: bytes = own.optimum.tobytes()
        return found

    assert problem.optimum is not None
    assert set(on_ranks(3, on_rank)) == {problem.optimum.tobytes()}
    pooled = problem.pooled()
    pooled.find_answer(collective(1))
    assert pooled.error(expected) < 1e-6


def test_an_answer_that_samples_have_lost_too_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problem = PCA(graded(1e-10, 1.0)[0], R)
    problem.find_answer(collective(5))
    assert (problem.error_name, problem.optimum) == ("", None)
    assert caplog.messages == [
        "components 3 and 4 are too small to distinguish: no error is reported"
    ]


def test_the_answer_of_all_components_and_of_one() -> None:
    for r in (1, D):
        problem = PCA(samples(UNEVEN, D, 0), r, weights="agents")
        problem.find_answer(collective(len(UNEVEN)))
        assert problem.error(np.linalg.eigh(pooled(samples(UNEVEN, D, 0)))[1][:, D - r :]) < 1e-13


def test_a_large_dimension_has_no_known_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decentorth.problems.stiefel.pca._LARGEST_OPTIMUM", D - 1)
    problem = pca().problem
    problem.find_answer(collective(5))
    assert problem.optimum is None
    assert not problem.error_name


@pytest.mark.parametrize("r", [1, 2, 4, 6])
def test_subspace_distance_is_the_formula_of_the_principal_angles(r: int) -> None:
    """sqrt(sum_k 4 sin(t_k / 2)^2), with the angles from scipy; the distance from the nearest
    basis."""
    for seed in range(5):
        x, basis = orthonormal(seed, 9, r), orthonormal(seed + 50, 9, r)
        angles = scipy.linalg.subspace_angles(x, basis)
        assert subspace_distance(x, basis) == pytest.approx(
            np.sqrt(np.sum(4 * np.sin(angles / 2) ** 2)), rel=1e-12
        )
        nearest = naive.norm(x - basis @ scipy.linalg.orthogonal_procrustes(basis, x)[0])
        assert subspace_distance(x, basis) == pytest.approx(nearest, rel=1e-12)


@pytest.mark.parametrize("size", [10.0**-k for k in range(1, 15, 2)])
def test_tiny_subspace_distances_are_exact(size: float) -> None:
    """A basis turned by known angles, whatever the other basis: the cosines alone would be wrong
    below 1e-8."""
    frame = orthonormal(3, D, 2 * R)
    angles = size * np.array([1.0, 0.5, 0.25])
    basis = frame[:, :R]
    x = (basis * np.cos(angles) + frame[:, R:] * np.sin(angles)) @ orthonormal(4, R, R)
    expected = np.sqrt(np.sum(4 * np.sin(angles / 2) ** 2))
    for one, other in ((x, basis), (basis, x)):
        assert subspace_distance(one, other) == pytest.approx(expected, rel=1e-10, abs=2e-15)


def covariance(problem: PCA) -> Array:
    mean: Array = -problem.hessian().mean(axis=0)
    return mean


def test_digits_are_the_data_of_scikit_learn() -> None:
    from sklearn.datasets import load_digits

    X = load_digits().data
    parts = np.array_split(X, 7)
    expected = np.mean([a.T @ a / len(a) for a in parts], axis=0)
    np.testing.assert_allclose(
        covariance(built(7, shuffle=False, weighting="agents")), expected, atol=1e-11
    )
    np.testing.assert_allclose(covariance(built(7)), X.T @ X / len(X), atol=1e-11)
    one = built(1)
    np.testing.assert_allclose(covariance(one), X.T @ X / len(X), atol=1e-11)
    centred = X - X.mean(axis=0)
    np.testing.assert_allclose(
        covariance(built(1, center=True)), centred.T @ centred / len(X), atol=1e-11
    )
    assert one.shape == (64, 5)


def test_samples_that_count_the_same_have_the_answer_of_all_samples_in_one_place() -> None:
    """The mean of the agents' matrices is that of the stacked rows, also where each rank knows its
    own agents only; equal numbers of samples leave the bits as they are."""
    data = samples(UNEVEN, D, 0)
    n, rows = len(data), np.concatenate(data)
    problem = PCA(data, R)
    x = np.repeat(orthonormal(1)[None], n, axis=0)
    np.testing.assert_allclose(
        -problem.gradient(x).mean(0), rows.T @ rows @ x[0] / len(rows), rtol=1e-12, atol=1e-12
    )
    problem.find_answer(collective(n))
    top = np.linalg.eigh(rows.T @ rows)[1][:, -R:]
    assert problem.error(top) < 1e-7
    second = PCA(data[1:2], R, n_agents=n, first_agent=1, n_samples=len(rows))
    assert (second.gradient(x[:1]) == problem.gradient(x)[1:2]).all()
    even = samples([7, 7, 7], D, 0)
    assert (
        PCA(even, R, weights="samples").gradient(x[:3])
        == PCA(even, R, weights="agents").gradient(x[:3])
    ).all()


def built(n_agents: int = 10, seed: int = 0, **settings: Any) -> Any:
    problem: Any = (
        PCASettings(**settings)
        .problem(n_agents, seed)
        .build(slice(0, n_agents), collective(n_agents))
    )
    problem.find_answer(collective(n_agents))
    return problem


def drawn(agent: int, seed: int = 0, rows: int = 1000, d: int = 10) -> Array:
    return np.random.default_rng(
        np.random.SeedSequence(seed, spawn_key=(agent, 0))
    ).standard_normal((rows, d))


@pytest.mark.parametrize(("heterogeneity", "n"), [(0.0, 10), (0.0, 1), (2.0, 10)])
def test_the_pooled_spectrum_is_the_published_one(heterogeneity: float, n: int) -> None:
    """Singular values s_1 gap^(j/2) of all rows, however heterogeneous, so eigenvalues s_1^2
    gap^j / 1000 n of the mean C_i."""
    problem = built(n, data="synthetic", heterogeneity=heterogeneity)
    assert problem.shape == (10, 5)
    values = np.linalg.eigvalsh(-problem.hessian().mean(axis=0))[::-1]
    np.testing.assert_allclose(values[1:] / values[:-1], 0.8, rtol=1e-11)
    if heterogeneity == 0.0:
        own = np.linalg.svd(np.vstack([drawn(agent) for agent in range(n)]), compute_uv=False)[0]
        assert values[0] == pytest.approx(own**2 / (1000 * n), rel=1e-12)


def test_without_heterogeneity_the_rows_are_gaussian_rows_with_new_singular_values() -> None:
    """U S' V^T for the Gaussian U S V^T, as the published code makes it with all rows in one
    place."""
    u, s, vt = np.linalg.svd(
        np.vstack([drawn(agent, 3, 40, 6) for agent in range(4)]), full_matrices=False
    )
    replaced = (u * (s[0] * 0.7 ** (np.arange(6) / 2))) @ vt
    problem = built(4, 3, data="synthetic", samples=40, dimension=6, gap=0.7, rank=2)
    expected = [-rows.T @ rows / 40 for rows in np.split(replaced, 4)]
    np.testing.assert_allclose(problem.hessian(), expected, atol=1e-12)


def test_stretches_are_those_of_the_settings() -> None:
    """Before the common change: one agent's singular values beside another's, whose common change
    cancels."""
    settings = PCASettings(data="synthetic", samples=40_000, heterogeneity=1.0)
    (mine,) = settings.drawn(5, 0).read(slice(3, 5))
    for a in mine:
        np.testing.assert_allclose(
            np.linalg.svd(a, compute_uv=False) / 200, np.logspace(0, -1, 10), rtol=0.03
        )
    axes = [np.linalg.svd(a, full_matrices=False)[2] for a in mine]
    assert np.abs(axes[0] @ axes[1].T).max() < 0.95


def write_idx(folder: Path, compress: Callable[[bytes], bytes] = gzip.compress) -> dict[str, Any]:
    X, y = digits()
    images = struct.pack(">HBBIII", 0, 8, 3, len(X), 8, 8) + X.astype(np.uint8).tobytes()
    labels = struct.pack(">HBBI", 0, 8, 1, len(y)) + y.astype(np.uint8).tobytes()
    paths = {
        "data": folder / "train-images-idx3-ubyte.gz",
        "labels": folder / "train-labels-idx1-ubyte.gz",
    }
    for path, content in zip(paths.values(), (images, labels), strict=True):
        path.write_bytes(compress(content))
    return {name: str(path) for name, path in paths.items()}


@pytest.mark.parametrize("partition", ["even", "by-label", "dirichlet"])
def test_images_and_labels_in_idx_files_are_divided_as_the_bundled_ones(
    partition: Any, tmp_path: Path
) -> None:
    """The same bits as from the array in memory: bytes are handed on as they are, divided by a
    scale when one is given."""
    bundled = built(partition=partition).hessian()
    files = write_idx(tmp_path)
    if partition == "even":
        del files["labels"]
    assert built(partition=partition, **files).hessian().tobytes() == bundled.tobytes()
    scaled = built(partition=partition, **files, divide_by=16.0).hessian()
    np.testing.assert_allclose(scaled, bundled / 256, rtol=1e-12, atol=1e-15)


def test_the_samples_of_a_long_text_are_counted(tmp_path: Path) -> None:
    """Not estimated from its first lines, which are short here: the objective is the mean over all
    samples."""
    path = tmp_path / "a.csv"
    path.write_text("1,0\n" * 9_000 + f"{'2':0>200},1\n" * 91_000)
    value = built(2, data=str(path), rank=1).value(np.repeat([[[1.0], [0.0]]], 2, axis=0)).mean()
    np.testing.assert_allclose(value, -0.5 * (9_000 + 4 * 91_000) / 100_000, rtol=1e-12)


def test_by_label_needs_labels_for_idx_images(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the partition 'by-label' needs `labels`"):
        built(data=write_idx(tmp_path)["data"], partition="by-label")
