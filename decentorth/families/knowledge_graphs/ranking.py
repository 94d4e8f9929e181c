"""Filtered ranks: the rank of the right entity among all entities that do not make another known
triple.

Bordes, Usunier, Garcia-Duran, Weston, Yakhnenko, "Translating embeddings for modeling
multi-relational data", NeurIPS 2013. Entities with equal scores get the mean of their ranks, so
that a model that cannot distinguish them is no better than chance.
"""

from __future__ import annotations

import numpy as np

from decentorth.protocols import Array, Index

HITS = (1, 3, 10)
MEASURES = ("mrr", *(f"hits_at_{k}" for k in HITS))


def filtered_ranks(scores: Array, truth: Index, known: tuple[Index, Index]) -> Array:
    """``(b,)``: 1 + the number of unknown entities with better scores + half of those with equal
    ones; NaN for a NaN score.

    ``scores`` ``(b, n_entities)``, higher is better, is overwritten; ``truth`` ``(b,)`` is the
    right entity of each query; ``known`` are the ``(query, entity)`` pairs that make known triples,
    those of ``truth`` among them.
    """
    own = scores[np.arange(len(truth)), truth][:, None]
    scores[known] = -np.inf
    ranks: Array = 1.0 + (scores > own).sum(-1) + 0.5 * (scores == own).sum(-1)
    ranks[np.isnan(own[:, 0])] = np.nan
    return ranks


def rank_measures(ranks: Array) -> tuple[float, ...]:
    """`MEASURES` of ``(b,)`` ranks: the mean reciprocal rank, and the shares of ranks of at most 1,
    3 and 10."""
    return float((1.0 / ranks).mean(-1)), *(float((ranks <= k).mean(-1)) for k in HITS)
