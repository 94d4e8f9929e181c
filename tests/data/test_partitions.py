"""Bundled data sets, and partitions: every sample exactly once, the promised sizes, the same on
every call."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits  # it ships no types

from decentorth.data import (
    BUNDLED,
    KINDS,
    Labels,
    by_label,
    digits,
    dirichlet,
    even,
    partition,
    resolve,
)
from decentorth.protocols import Index


@st.composite
def labelled(draw: st.DrawFn) -> tuple[Labels, int]:
    m = draw(st.integers(1, 80))
    kinds: st.SearchStrategy[list[int] | list[str]] = st.one_of(
        st.lists(st.integers(-3, 3), min_size=m, max_size=m),
        st.lists(st.sampled_from(["a", "bb", "c"]), min_size=m, max_size=m),
    )
    return np.array(draw(kinds)), draw(st.integers(1, m))


def require_partition(parts: list[Index], m: int, n_agents: int) -> None:
    assert len(parts) == n_agents
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(m))
    for part in parts:
        assert part.dtype == np.int64
        assert part.flags.c_contiguous
        assert part.size > 0
        assert (np.diff(part) > 0).all()


def even_sizes(m: int, n_agents: int) -> list[int]:
    return [m // n_agents + (i < m % n_agents) for i in range(n_agents)]


@pytest.mark.slow
@given(labelled(), st.sampled_from(KINDS), st.integers(0, 2**70), st.floats(1e-300, 1e12))
def test_every_sample_is_with_exactly_one_agent(
    case: tuple[Labels, int], kind: str, seed: int, alpha: float
) -> None:
    labels, n_agents = case
    if kind == "by-column":
        n_agents = len(np.unique(labels))
    parts = partition(kind, len(labels), n_agents, labels, seed, alpha)
    require_partition(parts, len(labels), n_agents)
    again = partition(kind, len(labels), n_agents, labels, seed, alpha)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))
    if kind == "by-column":
        assert [set(labels[part].tolist()) for part in parts] == [
            {label} for label in sorted(set(labels.tolist()))
        ]
    elif kind != "dirichlet":
        assert [len(part) for part in parts] == even_sizes(len(labels), n_agents)


@given(st.integers(1, 60), st.data())
def test_without_shuffle_agents_get_consecutive_runs(m: int, data: st.DataObject) -> None:
    n_agents = data.draw(st.integers(1, m))
    parts = even(m, n_agents, shuffle=False)
    require_partition(parts, m, n_agents)
    assert np.array_equal(np.concatenate(parts), np.arange(m))


@pytest.mark.slow
@given(labelled(), st.integers(0, 5))
def test_by_label_agents_follow_the_order_of_the_labels(
    case: tuple[Labels, int], seed: int
) -> None:
    labels, n_agents = case
    parts = by_label(labels, n_agents, seed)
    assert np.array_equal(
        np.concatenate([np.sort(labels[part]) for part in parts]), np.sort(labels)
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "by-column"])
def test_the_seed_decides(kind: str) -> None:
    _, y = digits()
    first, second = (partition(kind, 1797, 10, y, seed) for seed in (0, 1))
    assert any(not np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def counts(labels: Labels, parts: list[Index]) -> Index:
    """(labels, agents): how many samples of each label each agent has."""
    return np.array(
        [[np.count_nonzero(labels[part] == label) for part in parts] for label in np.unique(labels)]
    )


def test_large_alpha_gives_every_agent_the_same_mixture() -> None:
    _, y = digits()
    table = counts(y, dirichlet(y, 7, 1e12, seed=3))
    assert (np.abs(table - np.bincount(y)[:, None] / 7) < 1).all()


@pytest.mark.slow
def test_heterogeneity_falls_with_alpha() -> None:
    """The mean over labels of sum_i p_i^2 has the expectation (1 + alpha) / (1 + n alpha) of
    Dirichlet(alpha) shares."""
    n_agents, n_labels, each = 5, 400, 1000
    labels = np.repeat(np.arange(n_labels), each)
    for alpha in (0.1, 1.0, 10.0):
        shares = counts(labels, dirichlet(labels, n_agents, alpha)) / each
        squares = (shares**2).sum(1)
        error = squares.std(ddof=1) / math.sqrt(n_labels)
        assert abs(squares.mean() - (1 + alpha) / (1 + n_agents * alpha)) < 4 * error + 2 / each


def test_small_alpha_gives_each_label_to_one_agent() -> None:
    labels = np.repeat(np.arange(50), 20)
    table = counts(labels, dirichlet(labels, 3, 1e-9))
    assert np.array_equal(np.sort(table, axis=1), np.tile([0, 0, 20], (50, 1)))


def test_a_small_alpha_with_one_sample_per_agent_is_filled_up() -> None:
    parts = dirichlet(np.zeros(200, dtype=int), 200, 1e-6)
    require_partition(parts, 200, 200)


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_names_of_labels_do_not_matter(seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(0, 4, 60)
    names = np.array(["ant", "bee", "cat", "dog"])[numbers]
    for a, b in zip(dirichlet(numbers, 6, 0.5, seed), dirichlet(names, 6, 0.5, seed), strict=True):
        assert np.array_equal(a, b)


Y = np.array([0, 1, 1, 0])


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: partition("by_label", 4, 2, Y),
            ValueError,
            "named 'by_label'; did you mean 'by-label'. there are even",
        ),
        (
            lambda: partition("even", 4, 5),
            ValueError,
            "5 agents with at least 1 each need 5 samples, but there are 4",
        ),
        (lambda: partition("by-label", 4, 2), ValueError, "'by-label' needs `labels`"),
        (lambda: partition("dirichlet", 5, 2, Y), ValueError, "4 labels and 5 samples"),
        (
            lambda: partition("by-label", 4, 2, Y[:, None]),
            ValueError,
            r"1 dimension.*shape \(4, 1\)",
        ),
        (
            lambda: partition("by-label", 2, 2, np.array([None, 1])),
            TypeError,
            "integers or strings, but the array holds object",
        ),
        (lambda: even(4, 2.0), TypeError, "integer"),  # type: ignore[arg-type]  # the mistake under test
        (lambda: dirichlet(Y, 2, math.nan), ValueError, "alpha must be positive .*but is nan"),
    ],
)
def test_wrong_arguments_are_refused(call: object, error: type[Exception], says: str) -> None:
    assert callable(call)
    with pytest.raises(error, match=says):
        call()


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
    (X, y), samples = BUNDLED[name](), resolve(name)
    assert (samples.name, samples.shape) == (name, X.shape)
    rows = [5, 0, 5, len(X) - 1]
    part = samples.rows(rows)
    assert np.array_equal(part, X[rows])
    part[:] = -1
    assert np.array_equal(samples.rows(rows), X[rows])
    assert np.array_equal(np.asarray(samples.labels), y)
    with pytest.raises(ValueError, match=f"rows 0 to {len(X) - 1}, but row {len(X)}"):
        samples.rows([len(X)])


def test_what_is_neither_name_nor_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError,
        match=r"named 'digit'; did you mean 'digits'\? there is digits.*path it was tried too",
    ):
        resolve("digit")
    with pytest.raises(ValueError, match="named 'zzz'; there is digits"):
        resolve("zzz")
    for spec in ("digits.npy", "./digits", "x.npz:key"):
        with pytest.raises(FileNotFoundError, match="no such file"):
            resolve(spec)
