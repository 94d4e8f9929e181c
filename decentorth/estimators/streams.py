"""The state of streams: running means and covariances, and estimators that take a batch of each
agent's samples at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from ..numerics.threads import one_thread
from ..problems.common import pooled_rows
from ..protocols import Array, Collective
from .components import ComponentEstimator
from .estimator import Directions


class RunningCovariance(NamedTuple):
    """The number of the samples seen in batches, with their mean ``(d,)`` and covariance ``(d,
    d)``."""

    samples: int
    mean: Array
    covariance: Array

    def rescaled(self, mean: Array, deviations: Array) -> RunningCovariance:
        """Return the state for samples after subtracting ``mean`` and dividing by
        ``deviations``."""
        scaled = self.covariance / np.outer(deviations, deviations)
        return RunningCovariance(self.samples, (self.mean - mean) / deviations, scaled)

    def rows(self) -> Array:
        """Return rows R, ``(d + 1, d)``, with the same R^T R as all samples seen."""
        values, vectors = np.linalg.eigh(self.covariance)
        found = np.vstack((np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T, self.mean))
        return found * np.sqrt(self.samples)

    def moments(self) -> Array:
        """``(2 d,)``: the sums of the samples and of their squares."""
        squares = np.diagonal(self.covariance) + self.mean**2
        return np.concatenate((self.mean, squares)) * self.samples

    @staticmethod
    def empty(d: int) -> RunningCovariance:
        """The state before any sample."""
        return RunningCovariance(0, np.zeros(d), np.zeros((d, d)))

    def joined(self, rows: Array) -> RunningCovariance:
        """The state after further samples, ``(b, d)``."""
        count = self.samples + len(rows)
        around, own = pooled_rows.centred(rows)
        share = len(rows) / count
        gap = (own.mean - self.mean) + own.rest
        before = (1.0 - share) * (self.covariance + share * np.outer(gap, gap))
        covariance = before + around.T @ around / count
        return RunningCovariance(count, self.mean + share * gap, covariance)


class RootCovariance(NamedTuple):
    """The number and the mean ``(d,)`` of samples fewer than d, and a root R, ``(d, k)``, of their
    covariance R R^T."""

    samples: int
    mean: Array
    root: Array

    def joined(self, rows: Array) -> RunningCovariance:
        """`RunningCovariance.joined`."""
        formed = RunningCovariance(self.samples, self.mean, self.root @ self.root.T)
        return formed.joined(rows)


class SeenSamples(NamedTuple):
    """The samples of a stream: their number for each of all agents, and the state of each agent of
    this rank."""

    counts: list[int]
    own: list[RunningCovariance]


Streams = SeenSamples | None
"""The streams of which samples are batches, if any."""


class StreamEstimator(ComponentEstimator, ABC):
    """An estimator that needs only the products of agents' samples, and so takes them in
    batches."""

    _streams: SeenSamples | None = None
    _answers: list[Array]
    """The components, ``(d, r)``, of the last fits, each of which started from the one before."""
    _offsets: Array | None = None
    """``(n_local, d, r)``: the agents' trackers minus their own products, at the end of the last
    fit."""

    @abstractmethod
    def _fit(
        self, agents: list[Any], W: Any, last: Directions = None, streams: Streams = None
    ) -> Self:
        """As for other estimators; of ``streams`` the agents' samples are further batches."""

    def partial_fit_agents(self, agents: Iterable[object], W: object) -> Self:
        """Update the fit with a batch of each agent's samples: the answer is that for all samples
        seen.

        Each agent keeps the number, the mean and the covariance of its own samples, O(d^2) numbers.
        The run starts from the last components, as with ``warm_start``. The first call, and a call
        after another fit, starts a stream.

        Parameters
        ----------
        agents, W
            As for `fit_agents`; the agents are those of the last call.
        """
        before = self._streams
        seen = before and before.counts
        entries = self._entries(agents, W=W, seen=seen)
        batches = self._agents("X", entries)
        d = self.n_features_in_
        if before is None:
            empty = [RunningCovariance.empty(d)] * len(batches[entries.collective.own])
            before = SeenSamples([0] * len(batches), empty)
        known = len(before.counts), len(before.own[0].mean)
        if known != (len(batches), d):
            raise ValueError(
                f"the stream has {known[0]} agents with {known[1]} features, got {len(batches)} "
                f"with {d}: give the same, or start again with fit_agents"
            )
        self._counts = [seen + new for seen, new in zip(before.counts, self._counts, strict=True)]
        self._fit(batches, W, self._last(any(before.counts)), before)
        self._streams = self._joined
        return self

    def _rows(
        self, batches: Sequence[Array], collective: Collective, before: Streams, warm: bool
    ) -> list[Array]:
        """The samples of the agents here in the units of the method, minus their mean; of streams,
        rows with the same products."""
        if before is None:
            return self._in_units(batches, collective, warm)
        samples = sum(before.counts)
        units = self._units
        if samples == 0 or units is None:
            batches = self._in_units(batches, collective)
        else:
            missing = pooled_rows.missing_cells(batches, collective)
            batches = [units.seen(a) for a in batches]
            if self._wanted.fill:
                counts = zip(units.filled, missing, strict=True)
                self._keep_units(units._replace(filled=tuple(map(sum, counts))))
                batches = pooled_rows.filled(
                    batches, samples, np.zeros(self.n_features_in_), collective
                )
        with one_thread():  # the bits of products depend on the number of BLAS threads
            own = [seen.joined(rows) for seen, rows in zip(before.own, batches, strict=True)]
            moments = np.stack([seen.moments() for seen in own])
            mean, squares = np.split(collective.column_sums(moments) / sum(self._counts), 2)
            variances = squares - mean**2 if self.scale else np.ones(len(mean))
            scales = self._rescaled(mean, variances)
            self._joined = SeenSamples(self._counts, [seen.rescaled(mean, scales) for seen in own])
            return [seen.rows() for seen in self._joined.own]
