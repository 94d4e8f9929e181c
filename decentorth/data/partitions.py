"""Partitions of m samples over n agents.

Each function returns a list of ``n_agents`` int64 arrays of sample numbers, **sorted ascending
within an agent**; every sample belongs to exactly one agent and every agent has at least one. All
are pure functions of their arguments and of a seed, so every rank computes the same partition
without communication. A ValueError or TypeError says that there are too few samples, that labels
are not integers or strings, one per sample, or that alpha is not in (0, 1e12].
"""

from __future__ import annotations

import operator

import numpy as np
from numpy.typing import ArrayLike

from decentorth.data.labels import as_labels
from decentorth.protocols import Array, Index
from topologies.line.words import suggestion

KINDS: tuple[str, ...] = ("even", "by-label", "dirichlet", "by-column")
"""The partitions by name."""

_PARTITION = 1  # spawn key of partitions: one word, where generated data have two (agent, purpose)


def _generator(seed: int) -> np.random.Generator:
    if operator.index(seed) < 0:
        raise ValueError(f"seed must be 0 or more, but is {seed}")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_PARTITION,)))


def _require_counts(m: int, n_agents: int) -> None:
    if operator.index(n_agents) < 1:
        raise ValueError(f"n_agents must be 1 or more, but is {n_agents}")
    if operator.index(m) < n_agents:
        raise ValueError(
            f"{n_agents} agents with at least 1 each need {n_agents} samples, but there are {m}: "
            "use fewer agents"
        )


def _cut(order: Index, n_agents: int) -> list[Index]:
    """Consecutive runs of ``order``; sizes differ by at most one, the larger ones first."""
    return [np.sort(part) for part in np.array_split(order, n_agents)]


def even(m: int, n_agents: int, seed: int = 0, shuffle: bool = True) -> list[Index]:
    """Equal shares: sizes differ by at most one, the larger ones first.

    The samples are shuffled by ``seed`` or, with ``shuffle=False``, stay in the order of the file.
    """
    _require_counts(m, n_agents)
    order = _generator(seed).permutation(m) if shuffle else np.arange(m, dtype=np.int64)
    return _cut(order, n_agents)


def by_label(labels: ArrayLike, n_agents: int, seed: int = 0) -> list[Index]:
    """Equal shares of the samples sorted by label, and within a label shuffled by ``seed``: the
    heterogeneous extreme."""
    known = as_labels(labels)
    _require_counts(known.size, n_agents)
    order = _generator(seed).permutation(known.size)
    return _cut(order[np.argsort(known[order], kind="stable")], n_agents)


def dirichlet(labels: ArrayLike, n_agents: int, alpha: float, seed: int = 0) -> list[Index]:
    """Each label's samples in shares drawn from a symmetric Dirichlet(alpha) distribution over the
    agents.

    Small ``alpha`` gives each label to few agents, large ``alpha`` gives every agent the same
    mixture. A label's shares are rounded to whole samples by largest remainder. An agent without
    samples then takes one from the largest agent, of that agent's most frequent label; the usual
    repair, to draw again until every agent has enough, may never end for small ``alpha``.

    References
    ----------
    Yurochkin et al., "Bayesian nonparametric federated learning of neural networks", ICML 2019, arXiv:1905.12022.
    """
    known = as_labels(labels)
    _require_counts(known.size, n_agents)
    if not (0 < alpha <= 1e12):
        raise ValueError(f"alpha must be positive and at most 1e12, but is {alpha}")
    generator = _generator(seed)
    _, codes, sizes = np.unique(known, return_inverse=True, return_counts=True)
    shares = generator.dirichlet(np.full(n_agents, alpha), len(sizes))
    counts = _whole(shares * sizes[:, None], sizes)
    _fill_up(counts)
    order = generator.permutation(known.size)
    order = order[np.argsort(codes[order], kind="stable")]
    owner = np.concatenate([np.repeat(np.arange(n_agents), row) for row in counts])
    by_owner = order[np.argsort(owner, kind="stable")]
    return [np.sort(part) for part in np.split(by_owner, np.cumsum(counts.sum(0))[:-1])]


def by_column(labels: ArrayLike, n_agents: int) -> list[Index]:
    """An agent for each label, in the sorted order of the labels: a station, a hospital or a user
    has its own samples."""
    known, owner = np.unique(as_labels(labels), return_inverse=True)
    if len(known) != n_agents:
        some = ", ".join([*map(str, known[:5].tolist()), *["..."] * (len(known) > 5)])
        raise ValueError(
            f"there are {len(known)} different labels ({some}), and the partition 'by-column' has "
            f"an agent for each: n_agents must be {len(known)}, not {n_agents}"
        )
    return [np.flatnonzero(owner == number) for number in range(n_agents)]


def _whole(shares: Array, sizes: Index) -> Index:
    """The ``shares`` (labels, agents), rounded by largest remainder to integers whose rows sum to
    ``sizes``."""
    counts = np.floor(shares).astype(np.int64)
    order = np.argsort(counts - shares, axis=1, kind="stable")
    for row, first, missing in zip(counts, order, sizes - counts.sum(1), strict=True):
        row[first[:missing]] += 1
    return counts


def _fill_up(counts: Index) -> None:
    """Move single samples, in place, from the largest agent to the smallest until no column of
    ``counts`` is zero."""
    totals = counts.sum(0)
    while totals.min() < 1:
        giver = totals.argmax()
        taker = totals.argmin()
        label = counts[:, giver].argmax()
        counts[label, giver] -= 1
        counts[label, taker] += 1
        totals[giver] -= 1
        totals[taker] += 1


def partition(
    kind: str,
    m: int,
    n_agents: int,
    labels: ArrayLike | None = None,
    seed: int = 0,
    alpha: float = 1.0,
    shuffle: bool = True,
) -> list[Index]:
    """The partition named ``kind``, one of `KINDS`, of ``m`` samples.

    ``labels``, ``m`` in number, are for all but ``"even"``, ``alpha`` for ``"dirichlet"``,
    ``shuffle`` for ``"even"``.
    """
    if kind not in KINDS:
        near = suggestion(kind, KINDS) or ";"
        raise ValueError(f"no partition is named {kind!r}{near} there are {', '.join(KINDS)}")
    if kind == "even":
        return even(m, n_agents, seed, shuffle)
    if labels is None:
        raise ValueError(
            f"the partition {kind!r} needs `labels`, one per sample, but there are none: give "
            "them, or use 'even'"
        )
    known = as_labels(labels)
    if known.size != m:
        raise ValueError(
            f"each sample needs one label, but there are {known.size} labels and {m} samples"
        )
    if kind == "by-column":
        return by_column(known, n_agents)
    if kind == "by-label":
        return by_label(known, n_agents, seed)
    return dirichlet(known, n_agents, alpha, seed)
