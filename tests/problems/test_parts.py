"""Every problem of samples: parts of the agents, agents given or loaded alone, mini-batches, and generated data over ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from decentorth.network.collective import AgentCollective
from decentorth.problems import (
    CCA,
    ICA,
    L1PCA,
    PCA,
    CCASettings,
    ICASettings,
    MatrixCompletion,
    MatrixCompletionSettings,
    ODLSettings,
    OrthogonalDictionaryLearning,
    PCASettings,
    Procrustes,
    ProcrustesSettings,
    RobustPCASettings,
    RobustSubspaceRecovery,
    RSRSettings,
    SparseCCASettings,
    SparsePCA,
)
from decentorth.protocols import Array, ColumnOracle, Index, KnownOptimum
from tests.support.building import built, collective
from tests.support.threads import on_ranks

COUNTS = (40, 40, 3, 1, 200, 40, 7, 2)
"""Samples of each agent."""
N, D = len(COUNTS), 6
COLUMNS = tuple(min(count, 30) for count in COUNTS)


def rows(width: int = D, seed: int = 0, counts: tuple[int, ...] = COUNTS) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((count, width)) * 1.3 ** np.arange(width) for count in counts]


def observed(counts: tuple[int, ...] = COLUMNS) -> list[Array]:
    """Columns of which two entries are missing."""
    rng = np.random.default_rng(3)
    data = [rng.standard_normal((D, count)) for count in counts]
    for a in data:
        a[rng.permuted(np.tile(np.arange(D)[:, None], a.shape[1]), axis=0) < 2] = np.nan
    return data


@dataclass(frozen=True)
class Kind:
    """A problem from each agent's arrays, of some number of samples each."""

    make: Callable[..., Any]
    arrays: Callable[[tuple[int, ...]], tuple[list[Array], ...]]
    loaded: Callable[..., Any]
    counts: tuple[int, ...] = COUNTS


def of_rows(problem: Any, *settings: Any, **more: Any) -> Kind:
    return Kind(
        lambda a, **where: problem(a, *settings, **more, **where),
        lambda counts: (rows(counts=counts),),
        lambda loader: problem.from_loader(loader, N, *settings, **more),
    )


def completion(ridge: float) -> Kind:
    return Kind(
        lambda a, **where: MatrixCompletion(a, 2, ridge=ridge, **where),
        lambda counts: (observed(counts),),
        lambda loader: MatrixCompletion.from_loader(loader, N, 2, ridge=ridge),
        COLUMNS,
    )


KINDS = {
    "pca": of_rows(PCA, 2, weights="agents"),
    "ica": of_rows(ICA),
    "rsr": of_rows(RobustSubspaceRecovery, 2),
    "odl": of_rows(OrthogonalDictionaryLearning),
    "l1-pca": Kind(lambda a, **where: L1PCA(a, 2, **where), lambda counts: (rows(counts=counts),), lambda loader: None),
    "sparse-pca": Kind(
        lambda a, **where: SparsePCA(a, 2, 0.3, **where), lambda counts: (rows(counts=counts),), lambda loader: None
    ),
    "procrustes": Kind(
        Procrustes,
        lambda counts: (rows(counts=counts), [b.T for b in rows(3, 1, counts)]),
        lambda loader: Procrustes.from_loader(loader, N),
    ),
    "completion": completion(0.0),
    "completion-ridge": completion(0.3),
    "cca": Kind(
        lambda a, b, **where: CCA(a, b, 2, ridge=0.1, **where),
        lambda counts: (rows(counts=counts), [a[:, :5] + b for a, b in zip(rows(counts=counts), rows(5, 1, counts), strict=True)]),
        lambda loader: CCA.from_loader(loader, N, 2, ridge=0.1),
    ),
}
kinds = pytest.mark.parametrize("name", KINDS)


def made(name: str, counts: tuple[int, ...] | None = None) -> Any:
    kind = KINDS[name]
    return kind.make(*kind.arrays(counts or kind.counts))


def gaussian(problem: Any, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal((problem.n_agents, *problem.shape))


def numbers(problem: Any, x: Array, batch: Index) -> list[bytes]:
    """All that the problem computes for its agents, at their points and with their batches."""
    found = [problem.value(x), problem.gradient(x), problem.gradient_on(x, batch), problem.n_samples]
    for name in ("lipschitz", "lipschitz_value", "weak_convexity"):
        if hasattr(problem, name):
            found.append(getattr(problem, name))
    if hasattr(problem, "flops"):
        found.append(problem.flops(2))
    if isinstance(problem, CCA):
        found += [problem.local_product(x), problem.local_diagonal(), problem.product_on(x, batch), problem.matrices_on(batch)]
    return [one.tobytes() for one in found]


@pytest.mark.parametrize("run_bytes", [1, 5_000, 1 << 21])
@kinds
def test_a_part_has_the_bits_of_the_whole(name: str, run_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of consecutive agents, also a part of a part or given alone, however agents and samples are stacked."""
    monkeypatch.setattr("decentorth.problems.common.rows.PASS_BYTES", 400)
    kind, whole = KINDS[name], made(name)
    x, batch = gaussian(whole), np.random.default_rng(1).integers(0, np.array(kind.counts)[:, None], (N, 4))
    each = [slice(i, i + 1) for i in range(N)]
    alone = [numbers(whole.restrict(own), x[own], batch[own]) for own in each]
    monkeypatch.setattr("decentorth.problems.common.rows.RUN_BYTES", run_bytes)
    problem, arrays = made(name), kind.arrays(kind.counts)
    numbers(problem, x, batch)
    for first, end in itertools.combinations(range(N + 1), 2):
        own = slice(first, end)
        parts = [problem.restrict(own), problem.restrict(slice(max(first - 1, 0), min(end + 2, N))).restrict(own)]
        if name != "cca":  # it needs all agents' covariances
            parts.append(kind.make(*(a[own] for a in arrays), n_agents=N, first_agent=first))
        expected = [b"".join(one) for one in zip(*alone[own], strict=True)]
        for part in parts:
            assert (part.agents, part.n_local, part.n_agents) == (own, end - first, N)
            assert numbers(part, x[own], batch[own]) == expected


@kinds
def test_batches_are_unbiased(name: str) -> None:
    """The mean over all choices of one sample is the gradient; all samples, twice, are the gradient."""
    count = 20
    problem = made(name, (count,) * 3)
    x = gaussian(problem)
    gradient = problem.gradient(x)
    single = [problem.gradient_on(x, np.full((3, 1), j, dtype=np.int64)) for j in range(count)]
    np.testing.assert_allclose(np.mean(single, axis=0), gradient, atol=1e-12 * np.abs(gradient).max())
    twice = problem.gradient_on(x, np.tile(np.arange(count), (3, 2)))
    np.testing.assert_allclose(twice, gradient, atol=1e-12 * np.abs(gradient).max())


@kinds
def test_gradients_fit_their_values_off_the_set(name: str) -> None:
    problem = made(name)
    for x in gaussian(problem, 2)[:3]:
        assert problem.check_gradient(x).right


@pytest.mark.parametrize("name", [name for name in KINDS if name not in ("l1-pca", "sparse-pca")])
def test_from_loader_is_the_whole_problem(name: str) -> None:
    """On one rank and on three, each loading its own agents only."""
    arrays, whole = KINDS[name].arrays(KINDS[name].counts), made(name)
    x, loaded = gaussian(whole), []

    def loader(agent: int) -> Any:
        loaded.append(agent)
        own = tuple(a[agent] for a in arrays)
        return own if len(own) > 1 else own[0]

    deferred, bounds = KINDS[name].loaded(loader), np.array([0, 3, 5, N])
    assert built(deferred).gradient(x).tobytes() == whole.gradient(x).tobytes()
    assert loaded == list(range(N))
    loaded.clear()

    def on_rank(communicator: Any) -> tuple[slice, Any]:
        own = slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1]))
        return own, deferred.build(own, AgentCollective(communicator, bounds))

    for own, part in on_ranks(3, on_rank):
        assert part.gradient(x[own]).tobytes() == whole.gradient(x)[own].tobytes()
        if name == "cca":
            assert part.constraint.product(x[:1]).tobytes() == whole.constraint.product(x[:1]).tobytes()
            assert part.error(x[0]) == whole.error(x[0])
    assert sorted(loaded) == list(range(N))


AGENTS = 10
"""The number of agents of generated data."""

SETTINGS: dict[str, Any] = {
    "procrustes": ProcrustesSettings(),
    "pca": PCASettings(data="synthetic", samples=30, dimension=12, heterogeneity=0.7),
    "pca-centred": PCASettings(data="synthetic", samples=30, dimension=12, center=True, divide_by=3.0),
    **{f"digits-{kind}": PCASettings(partition=kind, center=True) for kind in ("even", "by-label", "dirichlet")},
    "cca": CCASettings(data="synthetic", samples=40, heterogeneity=0.5),
    "sparse-cca": SparseCCASettings(data="synthetic", samples=40, heterogeneity=0.5),
    "robust-pca": RobustPCASettings(rank=3, partition="dirichlet"),
    "ica": ICASettings(sources=6, samples=60, imbalance=4.0, mixing="general"),
    "completion": MatrixCompletionSettings(dimension=30, columns=9, rank=2),
    "rsr": RSRSettings(dimension=8, rank=3, inliers=90, outliers=130),
    "rsr-orthonormal": RSRSettings(dimension=8, rank=3, inliers=90, outliers=130, points="orthonormal", partition="dirichlet"),
    "odl": ODLSettings(dimension=8, samples=203),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_over_ranks_the_data_has_the_bits_of_one_process(name: str) -> None:
    """Centring, whitening and spectra add up over agents in their order; another seed has other data."""
    deferred, bounds = SETTINGS[name].problem(10, 4), np.array([0, 4, 7, 10])
    whole = built(deferred)
    whole.prepare(collective(10))
    x = gaussian(whole)

    def everything(problem: Any, points: Array) -> tuple[list[bytes], bytes, float]:
        found, start = [problem.gradient(points)], problem.start(1)
        if isinstance(problem, ColumnOracle):
            found.append(problem.cache(points))
        error = problem.error(start) if isinstance(problem, KnownOptimum) and problem.error_name else 0.0
        return [one.tobytes() for one in found], start.tobytes(), error

    def on_rank(communicator: Any) -> tuple[slice, tuple[list[bytes], bytes, float]]:
        own = slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1]))
        problem = deferred.build(own, AgentCollective(communicator, bounds))
        problem.prepare(AgentCollective(communicator, bounds))
        return own, everything(problem, x[own])

    arrays, start, error = everything(whole, x)
    for own, found in on_ranks(3, on_rank):
        parts = [np.split(np.frombuffer(one, np.uint8), AGENTS)[own] for one in arrays]
        assert found == ([b"".join(part.tobytes() for part in one) for one in parts], start, error)
    other = built(SETTINGS[name].problem(10, 5))
    assert not np.array_equal(other.gradient(x), whole.gradient(x))
