"""A small problem for each seed, which other processes can make as well."""

from __future__ import annotations

from typing import Any

import numpy as np

import topologies as tp
from decentorth.compare import Comparison, Rules, compare
from decentorth.problems import PCA, Procrustes

AGENTS = 5
CTA, ATC = "drfgt:order=combine-then-adapt", "drfgt:order=adapt-then-combine"
RULES = Rules(trials=3, iterations=400, tolerances=(1.0, 1e-2, 1e-4, 1e-40))


def procrustes(seed: int) -> Procrustes:
    rng = np.random.default_rng((seed, 7))
    return Procrustes(rng.standard_normal((AGENTS, 8, 5)), rng.standard_normal((AGENTS, 3, 8)))


def pca(seed: int) -> PCA:
    rng = np.random.default_rng((seed, 8))
    return PCA(rng.standard_normal((AGENTS, 20, 5)) * [3.0, 2.0, 0.5, 0.4, 0.3], 2)


def graph(seed: int) -> Any:
    return tp.metropolis_weights(tp.erdos_renyi(AGENTS, 0.6, seed=seed))


def small(**given: Any) -> Comparison:
    settings: dict[str, Any] = {
        "algorithms": (CTA, ATC),
        "rules": RULES,
        "networks": "lan,wan",
    } | given
    return compare(procrustes, settings.pop("algorithms"), graph, settings.pop("rules"), **settings)
