"""A knowledge graph from a known ultrahyperbolic model, small enough to learn in seconds.

Entities are points around a pole of an ultrahyperbolic manifold of few dimensions, relations random
J-orthogonal matrices R_r. The tails of (h, r) are the entities nearest to R_r e_h, the same number
for every pair.
"""

from __future__ import annotations

import numpy as np

from decentorth.families.j_orthogonal.problems.ultrahyperbolic import Ultrahyperbolic
from decentorth.families.j_orthogonal.sets.j_orthogonal import JOrthogonal
from decentorth.protocols import SETUP, Array, Index


def around_pole(rng: np.random.Generator, signs: Array, number: int, spread: float) -> Array:
    """``(number, n)``: Gaussian points of standard deviation ``spread`` around the pole: 1 at the
    first sign -1, otherwise 0."""
    coordinates: Array = spread * rng.standard_normal((number, len(signs)))
    coordinates[:, np.flatnonzero(signs < 0.0)[0]] += 1.0
    return coordinates


def planted_triples(
    rng: np.random.Generator, constraint: JOrthogonal, entities: int, relations: int, triples: int
) -> Index:
    """Return about ``triples`` triples, ``(N, 3)``, at least one for each (h, r), in random order.

    ``constraint`` is the set of the relations, with at least one sign -1.
    """
    manifold = Ultrahyperbolic(constraint.signs, 1.0)
    points = manifold.points(around_pole(rng, constraint.signs, entities, 1.0))
    sizes = manifold.sizes(points)
    tails = min(max(1, round(triples / (entities * relations))), entities - 1)
    found = []
    for relation in range(relations):
        SETUP.info("a planted graph, relation %d of %d", relation + 1, relations)
        moved = points @ constraint.random(rng, 0.5).T
        both = manifold.sizes(moved)[:, None] * sizes
        u, _ = manifold.cosines(moved * constraint.signs @ points.T, both)
        distances = manifold.distances(u)
        distances[np.arange(entities), np.arange(entities)] = np.inf
        nearest = np.argsort(distances, axis=-1, kind="stable")[:, :tails].reshape(-1)
        heads = np.repeat(np.arange(entities), tails)
        found.append(np.stack((heads, np.full(len(heads), relation), nearest), axis=1))
    every = np.concatenate(found)
    return every[rng.permutation(len(every))]
