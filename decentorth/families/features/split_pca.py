"""Principal components of agents that hold features, from the settings of `PCA`."""

from __future__ import annotations

from typing import Any

from decentorth.problems.common.division import Division, files_of_features, samples_of
from decentorth.problems.common.pooled_rows import HERE
from decentorth.problems.common.sparse_rows import SparseRows
from decentorth.problems.deferred import Deferred
from decentorth.problems.stiefel.pca import PCASettings
from decentorth.protocols import Collective

from .own_files import among, features_of
from .split import Among, SplitPCA, by_features, no_units, random_features, split_features


def split_pca(settings: PCASettings, n_agents: int, seed: int) -> Deferred:
    """The problem of agents that hold features of all samples: those of their own files, or
    consecutive columns of one file, which each rank reads whole."""
    if (files := files_of_features(settings, n_agents)) is not None:
        return _own_features(settings, files)
    source = samples_of(settings, 1, seed, settings.drawn)

    def build() -> SplitPCA:
        read: list[Any] = settings.prepared(source.read(slice(0, 1))[0], HERE)
        (whole,) = read
        if isinstance(whole, SparseRows):
            whole = whole.dense()
        return SplitPCA(by_features(whole, n_agents), settings.rank).with_units(source.units)

    def made(agents: slice) -> SplitPCA:
        among = Among.evenly(agents, n_agents, source.width)
        features = random_features(source.counts[0], among, agents)
        problem = SplitPCA(features, settings.rank, among=among)
        return problem.with_units(no_units(settings, source.width))

    return split_features(n_agents, build, source.numbers, made, settings.partition)


def _own_features(settings: PCASettings, files: Division) -> Deferred:
    """The problem of sites with features in files of their own."""

    def build(agents: slice, collective: Collective) -> SplitPCA:
        found = features_of(files, agents, collective, settings.key)
        place = among(agents, [(len(a[0]),) for a in found.samples], collective)
        with collective.together():
            rows = settings.prepared(found.in_units(settings.wanted), HERE)
            return SplitPCA(rows, settings.rank, among=place)

    return Deferred(files.n_agents, build, sites=files.sites, private=True)
