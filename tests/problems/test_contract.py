"""What every problem of samples promises: its formulas, any part of the agents, mini-batches, data
over ranks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
    RobustPCA,
    RobustPCASettings,
    RobustSubspaceRecovery,
    RSRSettings,
    SparseCCA,
    SparseCCASettings,
    SparsePCA,
)
from decentorth.protocols import (
    Answered,
    Array,
    ColumnOracle,
    Index,
    KnownOptimum,
    Sampled,
    Smooth,
)
from tests.reference import naive
from tests.support.building import built, collective, prepared
from tests.support.threads import on_ranks

COUNTS = (40, 40, 3, 1, 200, 40, 7, 2)
"""Samples of each agent: some problems keep few as rows, and more as a Gram matrix."""
N, D, MU, DELTA = len(COUNTS), 6, 0.3, 1.5
FEWER = tuple(min(count, 30) for count in COUNTS)
Arrays = tuple[Array, ...]


def rows(width: int = D, seed: int = 0, counts: tuple[int, ...] = COUNTS) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((count, width)) * 1.3 ** np.arange(width) for count in counts]


def observed(most: int) -> list[Array]:
    """Columns of which two entries are missing, or up to ``most``."""
    rng = np.random.default_rng(3)
    data = [rng.standard_normal((D, count)) for count in FEWER]
    for a in data:
        a[
            rng.permuted(np.tile(np.arange(D)[:, None], a.shape[1]), axis=0)
            < rng.integers(2, most + 1, a.shape[1])
        ] = np.nan
    return data


@dataclass(frozen=True)
class Kind:
    """A problem of each agent's arrays, and the objective and (sub)gradient of an agent's arrays
    and point."""

    make: Callable[..., Any]
    value: Callable[..., float]
    gradient: Callable[..., Array]
    arrays: tuple[list[Array], ...] = (rows(),)
    mean: bool = True
    """Whether f_i is a mean over the samples, not a sum."""
    loaded: Callable[..., Any] | None = None
    take: Callable[[Arrays, Index], Arrays] = lambda own, batch: tuple(a[batch] for a in own)
    """The arrays of some samples."""
    counts: tuple[int, ...] = COUNTS
    tolerance: float = 1e-13


def of_rows(
    problem: Any, value: Any, gradient: Any, *settings: Any, mean: bool = True, **more: Any
) -> Kind:
    loaded = partial(_loaded, problem, settings, more) if hasattr(problem, "from_loader") else None
    return Kind(
        lambda a, **where: problem(a, *settings, **more, **where),
        value,
        gradient,
        mean=mean,
        loaded=loaded,
    )


def _loaded(problem: Any, settings: Any, more: Any, loader: Any) -> Any:
    return problem.from_loader(loader, N, *settings, **more)


def completion(ridge: float, missing: int) -> Kind:
    """Least squares for the coefficients v of each column a, of which the entries ``seen`` are
    observed."""

    def fits(a: Array, x: Array) -> list[tuple[Array, Array, Array]]:
        found = []
        for column in a.T:
            seen = ~np.isnan(column)
            rows, entries = (
                np.vstack([x[seen], np.sqrt(ridge) * np.eye(2)]),
                np.append(column[seen], np.zeros(2)),
            )
            v = np.linalg.lstsq(rows, entries, rcond=None)[0]
            found.append((rows @ v - entries, seen, v))
        return found

    def gradient(a: Array, x: Array) -> Array:
        total = np.zeros_like(x)
        for residual, seen, v in fits(a, x):
            total[seen] += np.outer(residual[:-2], v)
        return total

    return Kind(
        lambda a, **where: MatrixCompletion(a, 2, ridge=ridge, **where),
        lambda a, x: sum(float(residual @ residual) for residual, _, _ in fits(a, x)) / 2,
        gradient,
        (observed(missing),),
        mean=False,
        loaded=lambda loader: MatrixCompletion.from_loader(loader, N, 2, ridge=ridge),
        take=lambda own, batch: (own[0][:, batch],),
        counts=FEWER,
        tolerance=1e-11,
    )


def unit(v: Array) -> Array:
    return v / np.linalg.norm(v) if np.any(v) else v


def residuals(a: Array, x: Array) -> Array:
    """The lengths of the samples without their parts in the span of x, where x^T x = I."""
    lengths: Array = np.sqrt(np.maximum((a * a).sum(1) - ((a @ x) ** 2).sum(1), 0.0))
    return lengths


def huber(a: Array, x: Array) -> float:
    e = residuals(a, x)
    return float(
        np.where(e <= DELTA, e * e / 2, DELTA * e - DELTA**2 / 2).mean() + MU * np.abs(x).sum()
    )


def huber_slope(a: Array, x: Array) -> Array:
    e = residuals(a, x)
    steepness = np.where(e <= DELTA, 1.0, DELTA / np.maximum(e, DELTA))
    slope: Array = np.sum(
        [s * np.outer(row, row @ x) for s, row in zip(steepness, a, strict=True)], axis=0
    )
    return -slope / len(a) + MU * np.sign(x)


def covariance(a: Array, b: Array, x: Array) -> float:
    return -float(np.trace(x[: a.shape[1]].T @ a.T @ b @ x[a.shape[1] :]))


def covariance_slope(a: Array, b: Array, x: Array) -> Array:
    n = a.shape[1]
    return -np.vstack((a.T @ b @ x[n:], b.T @ a @ x[:n]))


TARGETS = [b.T for b in rows(3, 1)]
VIEW = [a[:, :5] + b for a, b in zip(rows(), rows(5, 1), strict=True)]
SHARE = N / sum(COUNTS)
KINDS = {
    "pca": of_rows(PCA, naive.pca_value, naive.pca_gradient, 2, weights="agents"),
    "ica": of_rows(
        ICA,
        lambda a, x: float(np.log(np.cosh(a @ x)).sum()) / len(a),
        lambda a, x: sum(np.outer(row, np.tanh(row @ x)) for row in a) / len(a),
    ),
    "rsr": of_rows(
        RobustSubspaceRecovery,
        lambda a, x: sum(float(np.linalg.norm(row @ x)) for row in a) / len(a),
        lambda a, x: sum(np.outer(row, unit(row @ x)) for row in a) / len(a),
        2,
    ),
    "odl": of_rows(
        OrthogonalDictionaryLearning,
        lambda a, x: float(np.abs(a @ x).sum()),
        lambda a, x: sum(np.outer(row, np.sign(row @ x)) for row in a),
        mean=False,
    ),
    "l1-pca": of_rows(
        L1PCA,
        lambda a, x: -float(np.abs(a @ x).sum()) / len(a),
        lambda a, x: -a.T @ np.sign(a @ x) / len(a),
        2,
    ),
    "sparse-pca": of_rows(
        SparsePCA,
        lambda a, x: naive.pca_value(a, x) + MU * float(np.abs(x).sum()),
        lambda a, x: naive.pca_gradient(a, x) + MU * np.sign(x),
        *(2, MU),
    ),
    "robust-pca": of_rows(RobustPCA, huber, huber_slope, *(3, DELTA, MU)),
    "sparse-cca": Kind(
        lambda a, b, **where: SparseCCA(a, b, 3, MU, **where),
        lambda a, b, x: covariance(a, b, x) / len(a) + MU * float(np.abs(x).sum()),
        lambda a, b, x: covariance_slope(a, b, x) / len(a) + MU * np.sign(x),
        ([a[:, :2] for a in rows()], [a[:, 2:] for a in rows()]),
    ),
    "procrustes": Kind(
        Procrustes,
        naive.procrustes_value,
        naive.procrustes_gradient,
        (rows(), TARGETS),
        mean=False,
        loaded=lambda loader: Procrustes.from_loader(loader, N),
        take=lambda own, batch: (own[0][batch], own[1][:, batch]),
    ),
    "completion": completion(0.0, 2),
    "completion-ridge": completion(0.3, D),
    "cca": Kind(
        lambda a, b, **where: CCA(a, b, 2, ridge=0.1, **where),
        lambda a, b, x: SHARE * covariance(a, b, x),
        lambda a, b, x: SHARE * covariance_slope(a, b, x),
        (rows(), VIEW),
        mean=False,
        loaded=lambda loader: CCA.from_loader(loader, N, 2, ridge=0.1, center=False),
    ),
}
kinds = pytest.mark.parametrize("name", KINDS)


def made(name: str) -> Any:
    return KINDS[name].make(*KINDS[name].arrays)


def points(problem: Any, seed: int = 0) -> Array:
    x = np.random.default_rng(seed).standard_normal((problem.n_agents, *problem.shape)) / 4
    x[:, 0, 0] = 0.0
    return x


def batches(name: str, size: int) -> Index:
    return np.random.default_rng(1).integers(0, np.array(KINDS[name].counts)[:, None], (N, size))


@pytest.mark.parametrize("pass_bytes", [1, 400, 1 << 17])
@kinds
def test_values_gradients_and_batches_are_the_formulas(
    name: str, pass_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one pass over an agent's samples, or some or one of them at a time; repeats in a batch are
    counted."""
    monkeypatch.setattr("decentorth.problems.common.rows.PASS_BYTES", pass_bytes)
    kind, problem = KINDS[name], made(name)
    problem.prepare(collective(N))
    x, batch, one = points(problem), batches(name, 7), batches(name, 1)
    value, gradient, by_seven, by_one = (
        problem.value(x),
        problem.gradient(x),
        problem.gradient_on(x, batch),
        problem.gradient_on(x, one),
    )
    for i, (*own, p) in enumerate(zip(*kind.arrays, x, strict=True)):
        assert value[i] == pytest.approx(kind.value(*own, p), rel=max(kind.tolerance, 1e-12))
        expected = [kind.gradient(*own, p)]
        for drawn in (batch[i], one[i]):
            scale = 1.0 if kind.mean else kind.counts[i] / len(drawn)
            expected.append(scale * kind.gradient(*kind.take(tuple(own), drawn), p))
        for found, exact in zip((gradient[i], by_seven[i], by_one[i]), expected, strict=True):
            np.testing.assert_allclose(
                found, exact, atol=kind.tolerance * max(np.abs(e).max() for e in expected)
            )
    for found in (gradient, by_seven):
        assert found.flags.c_contiguous
        assert found.flags.writeable
    assert not np.shares_memory(gradient, problem.gradient(x))
    assert problem.nonsmooth == (
        name in ("rsr", "odl", "l1-pca", "sparse-pca", "robust-pca", "sparse-cca")
    )
    assert isinstance(problem, Sampled)
    assert isinstance(problem, Smooth) == (name in ("pca", "ica", "procrustes", "cca"))
    assert isinstance(problem, ColumnOracle) == (
        name in ("ica", "rsr", "odl", "l1-pca", "sparse-pca")
    )
    if isinstance(problem, ColumnOracle):
        for columns in (np.array([1]), np.array([1, 0])):
            part = problem.partial_gradient(x, columns, problem.cache(x))
            np.testing.assert_allclose(part, gradient[:, :, columns], atol=1e-13)
            assert part.flags.c_contiguous


def numbers(problem: Any, x: Array, batch: Index) -> list[bytes]:
    found = [
        problem.value(x),
        problem.gradient(x),
        problem.gradient_on(x, batch),
        problem.n_samples,
    ]
    for name in ("lipschitz", "lipschitz_value", "weak_convexity"):
        if hasattr(problem, name):
            found.append(getattr(problem, name))
    if hasattr(problem, "flops"):
        found.append(problem.flops(2))
    if hasattr(problem, "smooth"):
        found += [problem.smooth.value(x), problem.smooth.gradient(x)]
    if isinstance(problem, CCA):
        found += [
            problem.local_product(x),
            problem.local_diagonal(),
            problem.product_on(x, batch),
            problem.matrices_on(batch),
        ]
    return [one.tobytes() for one in found]


@pytest.mark.parametrize("run_bytes", [1, 5_000, 1 << 21])
@kinds
def test_a_part_has_the_bits_of_the_whole(
    name: str, run_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run of consecutive agents, a part of a part, given alone or left by others, however
    agents and samples are stacked."""
    monkeypatch.setattr("decentorth.problems.common.rows.PASS_BYTES", 400)
    kind, whole = KINDS[name], made(name)
    x, batch = points(whole), batches(name, 4)
    each = [slice(i, i + 1) for i in range(N)]
    alone = [numbers(whole.restrict(own), x[own], batch[own]) for own in each]
    monkeypatch.setattr("decentorth.problems.common.rows.RUN_BYTES", run_bytes)
    problem = made(name)
    numbers(problem, x, batch)
    for first, end in itertools.combinations(range(N + 1), 2):
        own = slice(first, end)
        parts = [
            problem.restrict(own),
            problem.restrict(slice(max(first - 1, 0), min(end + 2, N))).restrict(own),
        ]
        if name != "cca":  # it needs all agents' covariances
            parts.append(kind.make(*(a[own] for a in kind.arrays), n_agents=N, first_agent=first))
        expected = [b"".join(one) for one in zip(*alone[own], strict=True)]
        for part in parts:
            assert (part.agents, part.n_local, part.n_agents) == (own, end - first, N)
            assert numbers(part, x[own], batch[own]) == expected
    if name != "cca":
        stay = [1, 3, 4, 5, 6, 7]
        left = problem.without(np.array([0, 2]))
        assert left.n_agents == getattr(left, "smooth", left).n_agents == len(stay)
        assert numbers(left, x[stay], batch[stay]) == [
            b"".join(one) for one in zip(*(alone[i] for i in stay), strict=True)
        ]


def on_three_ranks(deferred: Any, work: Callable[[Any, slice], Any]) -> list[tuple[slice, Any]]:
    """What ``work`` returns of the problem of each rank and its agents."""
    n = deferred.n_agents
    bounds = np.array([0, n // 3, n // 3 + 2, n])

    def on_rank(communicator: Any) -> tuple[slice, Any]:
        own = slice(int(bounds[communicator.rank]), int(bounds[communicator.rank + 1]))
        problem = deferred.build(own, AgentCollective(communicator, bounds))
        problem.prepare(AgentCollective(communicator, bounds))
        if isinstance(problem, Answered):
            problem.find_answer(AgentCollective(communicator, bounds))
        return own, work(problem, own)

    return on_ranks(3, on_rank)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.loaded is not None])
def test_from_loader_is_the_whole_problem(name: str) -> None:
    """On one rank and on three, each loading its own agents only."""
    kind, whole = KINDS[name], made(name)
    x, loaded = points(whole), []

    def loader(agent: int) -> Any:
        loaded.append(agent)
        own = tuple(a[agent] for a in kind.arrays)
        return own if len(own) > 1 else own[0]

    assert kind.loaded is not None
    deferred = kind.loaded(loader)
    assert built(deferred).gradient(x).tobytes() == whole.gradient(x).tobytes()
    assert loaded == list(range(N))
    loaded.clear()
    for own, part in on_three_ranks(deferred, lambda problem, own: problem):
        assert part.gradient(x[own]).tobytes() == whole.gradient(x)[own].tobytes()
        if name == "cca":
            assert (
                part.constraint.product(x[:1]).tobytes()
                == whole.constraint.product(x[:1]).tobytes()
            )
            assert part.error(x[0]) == whole.error(x[0])
    assert sorted(loaded) == list(range(N))


SETTINGS: dict[str, Any] = {
    "procrustes": ProcrustesSettings(),
    "pca": PCASettings(data="synthetic", samples=30, dimension=12, heterogeneity=0.7),
    "pca-centred": PCASettings(
        data="synthetic", samples=30, dimension=12, center=True, divide_by=3.0
    ),
    **{
        f"digits-{kind}": PCASettings(partition=kind, center=True)
        for kind in ("even", "by-label", "dirichlet")
    },
    "cca": CCASettings(data="synthetic", samples=40, heterogeneity=0.5),
    "sparse-cca": SparseCCASettings(data="synthetic", samples=40, heterogeneity=0.5),
    "robust-pca": RobustPCASettings(rank=3, partition="dirichlet"),
    "ica": ICASettings(sources=6, samples=60, imbalance=4.0, mixing="general"),
    "completion": MatrixCompletionSettings(dimension=30, columns=9, rank=2),
    "rsr": RSRSettings(dimension=8, rank=3, inliers=90, outliers=130),
    "rsr-orthonormal": RSRSettings(
        dimension=8, rank=3, inliers=90, outliers=130, points="orthonormal", partition="dirichlet"
    ),
    "odl": ODLSettings(dimension=8, samples=203),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_over_ranks_the_data_has_the_bits_of_one_process(name: str) -> None:
    """Centring, whitening and spectra add up over agents in their order; another seed has other
    data."""
    deferred = SETTINGS[name].problem(10, 4)
    whole = prepared(built(deferred))
    x = points(whole)

    def everything(problem: Any, own: slice) -> tuple[list[bytes], bytes, float]:
        found, start = [problem.gradient(x[own])], problem.start(1)
        if isinstance(problem, ColumnOracle):
            found.append(problem.cache(x[own]))
        error = (
            problem.error(start)
            if isinstance(problem, KnownOptimum) and problem.error_name
            else 0.0
        )
        return [one.tobytes() for one in found], start.tobytes(), error

    arrays, start, error = everything(whole, slice(0, 10))
    for own, found in on_three_ranks(deferred, everything):
        parts = [np.split(np.frombuffer(one, np.uint8), 10)[own] for one in arrays]
        assert found == ([b"".join(part.tobytes() for part in one) for one in parts], start, error)
    other = built(SETTINGS[name].problem(10, 5))
    assert not np.array_equal(other.gradient(x), whole.gradient(x))
