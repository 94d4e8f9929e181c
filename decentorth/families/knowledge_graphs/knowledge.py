"""Knowledge graphs as numbers: triples (head, relation, tail), their division into training and
test, and their corruption.

A corrupted triple has another head or tail, drawn uniformly from the entities that do not make it a
training triple, by a counter of (seed, triple, side, position): the same on every rank.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, get_args

import numpy as np

from decentorth.numerics.random_streams import CounterStreams
from decentorth.protocols import Index

Side = Literal["tail", "head"]
COLUMN: dict[Side, int] = {"tail": 2, "head": 0}
"""The column of a triple that a side completes."""
PIECE = 4096
"""The number of triples that are corrupted at a time."""


class KnowledgeGraph(NamedTuple):
    """Triples, each ``(N, 3)``: head, relation and tail by number.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> train = np.array([[0, 0, 1], [1, 0, 2], [2, 0, 0]])
    >>> held = np.array([[0, 0, 2]])
    >>> graph = do.problems.KnowledgeGraph(train, held, held, 3, 1)
    >>> graph.train.shape
    (3, 3)
    """

    train: Index
    valid: Index
    test: Index
    n_entities: int
    n_relations: int


def check(graph: KnowledgeGraph) -> None:
    """Raise unless ``graph`` holds valid triples and at least one for training; the message has the
    first triple that is wrong."""
    bounds = np.array([graph.n_entities, graph.n_relations, graph.n_entities])
    for name, triples in (("train", graph.train), ("valid", graph.valid), ("test", graph.test)):
        if triples.dtype.kind not in "iu":
            raise TypeError(f"{name} triples must be whole numbers, got dtype {triples.dtype}")
        if triples.ndim != 2 or triples.shape[1] != 3:
            raise ValueError(
                f"{name} triples must have three columns (head, relation, tail), got shape "
                f"{triples.shape}"
            )
        wrong = np.argwhere((triples < 0) | (triples >= bounds))
        if len(wrong):
            row, column = (int(i) for i in wrong[0])
            what = ("head", "relation", "tail")[column]
            raise ValueError(
                f"{name} triple {row} has {what} {triples[row, column]}, but there are "
                f"{bounds[column]}, numbered from 0"
            )
    if not len(graph.train):
        raise ValueError("a knowledge graph needs training triples, got none")


class Completions:
    """The tails of each (head, relation) in triples ``(N, 3)``, or the heads of each (relation,
    tail); ``side`` says which.

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.problems import Completions
    >>> triples = np.array([[0, 0, 1], [0, 0, 2], [1, 0, 2]])
    >>> tails = Completions(triples, "tail", 3)
    >>> query, entity = tails.entries(triples[:1])
    >>> entity.tolist()
    [1, 2]
    """

    def __init__(self, triples: Index, side: Side, n_entities: int) -> None:
        self._side = side
        self._n_entities = n_entities
        known = np.unique(self._keys(triples) * n_entities + triples[:, COLUMN[side]])
        self._keys_of, self._members = np.divmod(known, n_entities)
        starts = np.searchsorted(self._keys_of, self._keys_of)
        self._gaps = self._keys_of * n_entities + self._members - (np.arange(len(known)) - starts)

    def _keys(self, triples: Index) -> Index:
        """``(b,)``: the number of the query of each triple."""
        return triples[:, 1] * self._n_entities + triples[:, 2 - COLUMN[self._side]]

    def _runs(self, triples: Index) -> tuple[Index, Index]:
        """The position of the first completion of each triple's query, and the number of its
        completions."""
        keys = self._keys(triples)
        starts = np.searchsorted(self._keys_of, keys)
        return starts, np.searchsorted(self._keys_of, keys, side="right") - starts

    def entries(self, triples: Index) -> tuple[Index, Index]:
        """The completions of all queries as ``(query, entity)`` pairs."""
        starts, counts = self._runs(triples)
        queries = np.repeat(np.arange(len(triples)), counts)
        within = np.arange(len(queries)) - np.repeat(np.cumsum(counts, -1) - counts, counts)
        return queries, self._members[np.repeat(starts, counts) + within]

    def others(self, triples: Index, draw: Callable[[Index], Index]) -> Index:
        """Entities that do not complete the query of each triple, drawn uniformly; a ValueError
        names a triple that all complete.

        ``draw`` maps numbers m, ``(b,)``, to ``(b, c)`` numbers below m.
        """
        starts, counts = self._runs(triples)
        full = np.flatnonzero(counts >= self._n_entities)
        if len(full):
            h, r, t = triples[full[0]]
            raise ValueError(
                f"the triple (head {h}, relation {r}, tail {t}) cannot be corrupted: with every "
                f"other {self._side} it is a training triple too; corrupt the other side only"
            )
        drawn = draw(self._n_entities - counts)
        # the u-th entity that is missing from m_0 < m_1 < ... is u + #{i : m_i - i <= u}
        places = self._keys(triples)[:, None] * self._n_entities + drawn
        passed = np.searchsorted(self._gaps, places, side="right")
        return drawn + (passed - starts[:, None])


def corrupted(
    graph: KnowledgeGraph, side: Side, count: int, first: int, last: int, seed: int
) -> Index:
    """``(last - first, count)``: replacements for the heads, or tails, of training triples
    ``first`` to ``last - 1``."""
    if count == 0:
        return np.empty((last - first, 0), dtype=np.int64)
    completions = Completions(graph.train, side, graph.n_entities)
    number = get_args(Side).index(side)

    def drawn(start: int, end: int) -> Index:
        draw = partial(CounterStreams(seed, slice(start, end)).integers, "batch", number, count)
        return completions.others(graph.train[start:end], draw)

    pieces = [drawn(start, min(start + PIECE, last)) for start in range(first, last, PIECE)]
    return np.concatenate((np.empty((0, count), dtype=np.int64), *pieces))


def hold_out(
    triples: Index, share: float, n_entities: int, n_relations: int, rng: np.random.Generator
) -> tuple[Index, Index]:
    """Return the triples to train on, and about ``share`` to test with, whose entities and
    relations all occur in the former."""
    entities = np.bincount(triples[:, [0, 2]].reshape(-1), minlength=n_entities)
    relations = np.bincount(triples[:, 1], minlength=n_relations)
    wanted = round(share * len(triples))
    chosen = np.zeros(len(triples), dtype=np.bool_)
    left = wanted
    for row in rng.permutation(len(triples)):
        if left == 0:
            break
        h, r, t = triples[row]
        if min(entities[h], entities[t], relations[r]) > 1 and (h != t or entities[h] > 2):
            entities[h] -= 1
            entities[t] -= 1
            relations[r] -= 1
            chosen[row] = True
            left -= 1
    return triples[~chosen], triples[chosen]


def most_frequent(graph: KnowledgeGraph, count: int) -> KnowledgeGraph:
    """Return the triples between the ``count`` entities that occur most often in training triples,
    renumbered with their relations."""
    numbers = np.bincount(graph.train[:, [0, 2]].reshape(-1), minlength=graph.n_entities)
    kept = np.zeros(graph.n_entities, dtype=np.bool_)
    kept[np.argsort(-numbers, kind="stable")[:count]] = True
    train, valid, test = (part[kept[part[:, 0]] & kept[part[:, 2]]] for part in graph[:3])
    if not len(train):
        raise ValueError(
            f"no training triple is between the {count} most frequent of {graph.n_entities} "
            "entities: keep more"
        )
    every = np.concatenate((train, valid, test))
    entities = np.unique(every[:, [0, 2]])
    relations = np.unique(every[:, 1])
    for part in (train, valid, test):
        part[:, [0, 2]] = np.searchsorted(entities, part[:, [0, 2]])
        part[:, 1] = np.searchsorted(relations, part[:, 1])
    return KnowledgeGraph(train, valid, test, len(entities), len(relations))
