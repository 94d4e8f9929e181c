"""UltraE: a knowledge graph embedded in an ultrahyperbolic manifold, its relations under
J-orthogonality.

Xiong et al., "Ultrahyperbolic knowledge graph embeddings", KDD 2022, as paper 001 has it (Appendix
F.2), over training triples (h, r, t):

    f = (1/N) sum_(h,r,t) [ -log s(h, r, t) - sum_(h',r,t') log(1 - s(h', r, t')) ]
    s(h, r, t) = sigma(-d(R_r e_h, e_t)^2 + b_h + b_t + delta),   e_i = phi(y_i),   R_r^T J R_r = J

with phi and d of `ultrahyperbolic` and (h', r, t') corrupted triples, drawn once, half of them with
another tail, half with another head. It is printed with a bias for each relation; b_i belongs to an
entity, as b_h and b_t say.

A point is one array of rows of length n (`sets.JOrthogonalStack`): all R_r, then the y_i, then all
b_i in as many rows as they need, the last of which is filled up with zeros. <R e_h, e_t>_q = (J R
e_h)^T e_t = (R^T J e_t)^T e_h: so each triple has two queries, one for its tails, one for its
heads, and a corrupted triple costs O(n), as any pair of vectors does.

d^2 is Lipschitz, but has a kink at distance zero, where its derivative counts as 0, and one where
<R e_h, e_t>_q = 0.

Two options go beyond the paper. The signed score (`ultrahyperbolic`) in place of -d^2 is smooth.
The softmax loss compares each triple with all entities,

    f = (1/N) sum_(h,r,t) [ log sum_e exp z(h, r, e) - z(h, r, t) + log sum_e exp z(e, r, t) - z(h, r, t) ],   s = sigma(z),

where sums leave out the other training tails of (h, r) and the other training heads of (r, t); b_h
and delta cancel in the first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from decentorth.families.j_orthogonal.problems.ultrahyperbolic import Ultrahyperbolic
from decentorth.families.j_orthogonal.sets.j_orthogonal import JOrthogonal
from decentorth.families.j_orthogonal.sets.j_orthogonal_stack import JOrthogonalStack
from decentorth.numerics.ordered_sums import scatter
from decentorth.problems.base import AgentProblem, stream
from decentorth.protocols import Array, Index
from decentorth.settings import Count, Finite, Natural, Positive, Settings

from .knowledge import COLUMN, Completions, KnowledgeGraph, Side, check, corrupted
from .planted_graph import around_pole
from .ranking import MEASURES, filtered_ranks, rank_measures

PASS_BYTES = 1 << 21
"""The bytes of the other entities' points of a piece of the triples."""
SCORE_BYTES = 1 << 22
"""The bytes of the scores of all entities that ranking and the softmax loss compute at a time."""


class _Slopes(NamedTuple):
    """The sums of gradients in R ``(n_relations, n, n)``, in the points e ``(n_entities, n)`` and
    in b ``(n_entities, 1)``."""

    relations: Array
    points: Array
    biases: Array


class _Embedding(NamedTuple):
    """The parts of a point: R, y, e = phi(y), the sizes of e ``(n_entities,)``, and b
    ``(n_entities,)``."""

    relations: Array
    coordinates: Array
    points: Array
    sizes: Array
    biases: Array


class _Samples(NamedTuple):
    """Training triples ``(m, 3)``, their true and corrupted tails ``(m, 1 + c)``, and corrupted
    heads ``(m, c')``."""

    triples: Index
    tails: Index
    heads: Index

    def take(self, rows: Index | slice) -> _Samples:
        return _Samples(*(part[rows] for part in self))


@dataclass(frozen=True, kw_only=True)
class UltraEOptions(Settings):
    """The model of a knowledge graph's triples.

    Parameters
    ----------
    score
        printed, -d^2 as in the paper; or signed, beyond the paper: without absolute values, smooth
        and strictly monotone.
    loss
        cross-entropy with corrupted triples, as in the paper; or softmax over all entities.
    negatives
        k, corrupted triples for each.
    corrupt
        What is replaced: the tail in half of the corrupted triples and the head in the others
        (both), the tail, or the head. For softmax: which side is compared with all entities.
    delta
        The margin in the scores.
    alpha
        The radius of curvature.
    spread
        Standard deviation of the entities' coordinates at the start, around a pole of the manifold.
    ranked
        The largest number of held-out triples, evenly spaced, that are ranked for the history.
    judge
        test, or valid (where files have it): the triples that are ranked.
    """

    score: Literal["printed", "signed"] = "printed"
    loss: Literal["cross-entropy", "softmax"] = "cross-entropy"
    negatives: Count = 50
    corrupt: Literal["both", "tail", "head"] = "both"
    delta: Finite = 5.0
    alpha: Positive = 1.0
    spread: Positive = 0.1
    ranked: Natural = 1000
    judge: Literal["test", "valid"] = "test"


class UltraE(AgentProblem[JOrthogonalStack]):
    """The loss of a knowledge graph's triples against their corruptions.

        f = -(1/N) sum_hrt [log s(h, r, t) + sum log(1 - s(h', r, t'))] over R_r^T J R_r = J

    The inner sum is over the corruptions of a triple. The vectors of entities are free. Each of the
    n agents has a share of the N training triples; f is the mean of the agents' objectives.

    Parameters
    ----------
    graph
        The triples.
    signs
        ``(n,)``: the diagonal of J, +1 and -1 in any order, at least one -1.
    n_agents
        The number of agents over which the training triples are divided.
    agents
        The agents whose shares are in this process; by default all.
    seed
        The seed of the corrupted triples.
    options
        The fields of `UltraEOptions`.

    Raises
    ------
    ValueError, TypeError
        For invalid triples, a triple that cannot be corrupted, and numbers out of range.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> train = np.array([[0, 0, 1], [1, 0, 2], [2, 0, 3], [3, 0, 4], [4, 0, 5]])
    >>> held = np.array([[0, 0, 2]])
    >>> graph = do.problems.KnowledgeGraph(train, held, held, 6, 1)
    >>> signs = np.array([1.0, 1.0, -1.0, -1.0])
    >>> problem = do.problems.UltraE(graph, signs, negatives=3)
    >>> problem.n_agents
    1
    """

    def __init__(
        self,
        graph: KnowledgeGraph,
        signs: Array,
        *,
        n_agents: int = 1,
        agents: slice | None = None,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.options = UltraEOptions(**options)
        check(graph)
        if not 1 <= n_agents <= len(graph.train):
            raise ValueError(
                f"each agent needs a training triple: got {len(graph.train)} triples for "
                f"{n_agents} agents"
            )
        each = JOrthogonal.with_signs(signs)
        rows = graph.n_entities + -(-graph.n_entities // each.shape[0])
        constraint = JOrthogonalStack(each, graph.n_relations, rows)
        super().__init__(n_agents, agents or slice(0, n_agents), constraint)
        self.graph, self.manifold = graph, Ultrahyperbolic(each.signs, self.options.alpha)
        held = {"test": graph.test, "valid": graph.valid}[self.options.judge]
        chosen = np.linspace(0, len(held), min(self.options.ranked, len(held)), endpoint=False)
        self.judged = held[chosen.astype(np.int64)]
        """``(m, 3)``: the triples that `evaluate` ranks."""
        self.evaluations = MEASURES if len(self.judged) else ()
        self._known = _completions(np.concatenate(graph[:3]), graph.n_entities)
        here = range(self.agents.start, self.agents.stop)
        self._shares = [self._share(agent, seed) for agent in here]
        self.n_samples: Index = np.array(
            [len(share.triples) for share in self._shares], dtype=np.int64
        )

    @cached_property
    def _trained(self) -> dict[Side, Completions]:
        return _completions(self.graph.train, self.graph.n_entities)

    def _share(self, agent: int, seed: int) -> _Samples:
        """An agent's training triples, sorted by relation, with their corruptions."""
        total = len(self.graph.train)
        first, last = (number * total // self.n_agents for number in (agent, agent + 1))
        triples = self.graph.train[first:last]
        count = self.options.negatives
        if self.options.loss == "softmax":
            count = 0
        tails = {"both": count - count // 2, "tail": count, "head": 0}[self.options.corrupt]
        others = corrupted(self.graph, "tail", tails, first, last, seed)
        heads = corrupted(self.graph, "head", count - tails, first, last, seed)
        samples = _Samples(triples, np.concatenate((triples[:, 2:], others), axis=1), heads)
        return samples.take(np.argsort(triples[:, 1], kind="stable"))

    def _take(self, local: slice) -> None:
        self._shares = self._shares[local]
        self.n_samples = self.n_samples[local]

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """The named variables of stacked points, as views.

        They are ``relations`` ``(n_local, n_relations, n, n)``, ``entities`` (the y_i) ``(n_local,
        n_entities, n)`` and ``biases`` ``(n_local, n_entities)``.
        """
        bound = self.constraint.bound
        entities = self.graph.n_entities
        return {
            "relations": x[:, :bound].reshape(len(x), -1, *self.constraint.each.shape),
            "entities": x[:, bound : bound + entities],
            "biases": x[:, bound + entities :].reshape(len(x), -1)[:, :entities],
        }

    def start(self, seed: int) -> Array:
        """``shape``: R_r = I, the y_i Gaussian around a pole, no biases.

        Near a pole distances are as in a hyperbolic space, without a bound. For entities in all
        directions of the signs -1 most distances are below pi/2, and stay there.
        """
        start = np.zeros(self.shape)
        parts = self.unpack(start[None])
        parts["relations"][:] = np.eye(self.shape[1])
        signs = self.constraint.each.signs
        spread = self.options.spread
        parts["entities"][0] = around_pole(stream(seed), signs, self.graph.n_entities, spread)
        return start

    def embedding(self, x: Array) -> _Embedding:
        """The parts of one point ``shape``."""
        relations, coordinates, biases = (part[0] for part in self.unpack(x[None]).values())
        points = self.manifold.points(coordinates)
        return _Embedding(relations, coordinates, points, self.manifold.sizes(points), biases)

    def value(self, x: Array) -> Array:
        pairs = zip(x, self._shares, strict=True)
        losses = [self._losses(self.embedding(point), share, None) for point, share in pairs]
        return self.n_agents / len(self.graph.train) * np.array(losses)

    def gradient(self, x: Array) -> Array:
        """``(n_local, *shape)``: the gradients; kinks contribute 0."""
        scale = self.n_agents / len(self.graph.train)
        pairs = zip(x, self._shares, strict=True)
        return np.stack([self._slope(point, share, scale) for point, share in pairs])

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, *shape)``: the gradient from the training triples ``batch``, ``(n_local,
        b)``, and their corruptions.

        The mean over random triples is the gradient.
        """
        scales = self.n_samples * (self.n_agents / (len(self.graph.train) * batch.shape[1]))
        shares = [share.take(np.sort(own)) for share, own in zip(self._shares, batch, strict=True)]
        return np.stack([*map(self._slope, x, shares, scales.tolist())])

    def _slope(self, x: Array, samples: _Samples, scale: float) -> Array:
        """``shape``: the gradient of ``scale`` times the samples' losses."""
        out = np.zeros_like(x)
        at = self.embedding(x)
        relations, coordinates, biases = (part[0] for part in self.unpack(out[None]).values())
        sums = _Slopes(relations, np.zeros_like(at.points), biases[:, None])
        self._losses(at, samples, sums)
        coordinates[:] = self.manifold.pulled_back(at.coordinates, sums.points)
        out *= scale
        return out

    def _losses(self, at: _Embedding, samples: _Samples, sums: _Slopes | None) -> float:
        """The losses of some triples, sorted by relation; their gradients are added to ``sums``,
        unless it is None."""
        total = 0.0
        J = self.constraint.each.signs
        if self.options.loss == "softmax":
            size = max(1, SCORE_BYTES // (8 * self.graph.n_entities))
        else:
            widest = max(samples.tails.shape[1], samples.heads.shape[1])
            size = max(1, PASS_BYTES // (8 * len(J) * widest))
        for start in range(0, len(samples.triples), size):
            triples, tails, heads = samples.take(slice(start, start + size))
            h, r, t = np.ascontiguousarray(triples.T)
            runs = _runs(r)
            heads_at = at.points[h]
            tails_at = at.points[t] * J
            for_tails = _turned(at, runs, heads_at) * J
            for_heads = _turned(at, runs, tails_at, transposed=True)
            if self.options.loss == "softmax":
                first, pull_tails = self._against_all(at, for_tails, triples, "tail", sums)
                second, pull_heads = self._against_all(at, for_heads, triples, "head", sums)
            else:
                first, pull_tails = self._side(at, for_tails, h, tails, 1, sums)
                second, pull_heads = self._side(at, for_heads, t, heads, 0, sums)
            total += first
            total += second
            if sums is None:
                continue
            pull_tails *= J
            for relation, run in runs:
                sums.relations[relation] += pull_tails[run].T @ heads_at[run]
                sums.relations[relation] += tails_at[run].T @ pull_heads[run]
            once = np.ones((len(h), 1))
            scatter(h[:, None], once, _turned(at, runs, pull_tails, transposed=True), sums.points)
            scatter(t[:, None], once, _turned(at, runs, pull_heads) * J, sums.points)
        return total

    def _side(
        self,
        at: _Embedding,
        queries: Array,
        own: Index,
        others: Index,
        true: int,
        sums: _Slopes | None,
    ) -> tuple[float, Array]:
        """The losses of triples with all ``others``, and their gradient in the queries unless
        ``sums`` is None.

        The inner products of ``queries`` ``(b, n)`` with the others' points are <R e_h, e_t>_q;
        ``own`` ``(b,)`` are the entities of the queries, and ``others`` ``(b, c)`` complete them.
        The first ``true`` columns of ``others`` make training triples.
        """
        found = np.take(at.points, others, axis=0)
        products = (found @ queries[:, :, None]).reshape(others.shape)
        sizes = self.manifold.sizes(queries)[:, None] * at.sizes[others]
        score, pulled = self._scores(products, sizes)
        score += self.options.delta
        score += at.biases[own][:, None]
        score += at.biases[others]
        truth = np.ones(others.shape[1])
        truth[:true] = -1.0
        score *= truth  # -log s(z) = softplus(-z), -log(1 - s(z)) = softplus(z)
        small = np.exp(-np.abs(score))
        loss = float((np.maximum(score, 0.0) + np.log1p(small)).reshape(-1).sum(-1))
        if sums is None:
            return loss, queries
        slope = np.where(score >= 0.0, 1.0, small) / (1.0 + small) * truth
        pull = pulled(slope)
        scatter(others, pull, queries, sums.points)
        once = np.ones((len(own), 1))
        scatter(others, slope, once, sums.biases)
        scatter(own[:, None], slope.sum(-1, keepdims=True), once, sums.biases)
        return loss, (pull[:, None, :] @ found).reshape(queries.shape)

    def _against_all(
        self, at: _Embedding, queries: Array, triples: Index, side: Side, sums: _Slopes | None
    ) -> tuple[float, Array]:
        """The softmax losses of triples over all entities of a side, and their gradient in the
        queries unless ``sums`` is None."""
        if self.options.corrupt not in ("both", side):
            return 0.0, np.zeros_like(queries)
        rows = np.arange(len(triples))
        truth = triples[:, COLUMN[side]]
        sizes = self.manifold.sizes(queries)[:, None] * at.sizes
        scores, pulled = self._scores(queries @ at.points.T, sizes)
        scores += at.biases
        true = scores[rows, truth]
        scores[self._trained[side].entries(triples)] = -np.inf
        scores[rows, truth] = true
        top = scores.max(-1)
        scores -= top[:, None]
        shares = np.exp(scores, out=scores)
        total = shares.sum(-1)
        loss = float((np.log(total) + top - true).sum(-1))
        if sums is None:
            return loss, queries
        shares /= total[:, None]
        shares[rows, truth] -= 1.0
        sums.biases[:, 0] += np.ones(len(rows)) @ shares
        pull = pulled(shares)
        np.add(sums.points, pull.T @ queries, out=sums.points)
        return loss, pull @ at.points

    def _scores(self, products: Array, sizes: Array) -> tuple[Array, Callable[[Array], Array]]:
        """The scores without biases and delta of products <R e_h, e_t>_q, and the map of slopes in
        them to slopes in the products.

        ``sizes`` holds the products of the points' sizes.
        """
        if self.options.score == "signed":
            scores, steepness = self.manifold.signed_scores(products)
            return scores, lambda slope: slope * steepness
        u, sign = self.manifold.cosines(products, sizes)
        d = self.manifold.distances(u)
        return -d * d, lambda slope: slope * d * self.manifold.steepness(u) * sign * -2.0

    def ranks(self, x: Array, triples: Index) -> Array:
        """``(2, m)``: the filtered ranks of the tails and of the heads of triples ``(m, 3)``, at
        one point ``shape``."""
        at = self.embedding(x)
        J = self.constraint.each.signs
        found = np.empty((2, len(triples)))
        size = max(1, SCORE_BYTES // (8 * self.graph.n_entities))
        order = np.argsort(triples[:, 1], kind="stable")
        for start in range(0, len(triples), size):
            rows = order[start : start + size]
            h, r, t = np.ascontiguousarray(triples[rows].T)
            runs = _runs(r)
            tails = _turned(at, runs, at.points[h]) * J, t, self._known["tail"]
            heads = _turned(at, runs, at.points[t] * J, transposed=True), h, self._known["head"]
            for side, (query, truth, known) in enumerate((tails, heads)):
                sizes = self.manifold.sizes(query)[:, None] * at.sizes
                scores, _ = self._scores(query @ at.points.T, sizes)
                scores += at.biases
                found[side, rows] = filtered_ranks(scores, truth, known.entries(triples[rows]))
        return found

    def evaluate(self, xhat: Array) -> tuple[float, ...]:
        """The mean reciprocal rank of held-out triples, over heads and tails, and the shares of
        ranks up to 1, 3 and 10."""
        return rank_measures(self.ranks(xhat, self.judged).reshape(-1))


def _completions(triples: Index, n_entities: int) -> dict[Side, Completions]:
    """The completions of each side."""
    return {side: Completions(triples, side, n_entities) for side in get_args(Side)}


def _runs(relations: Index) -> list[tuple[int, slice]]:
    """Each relation, with the slice of its triples, for triples sorted by relation."""
    bounds = [0, *(np.flatnonzero(np.diff(relations)) + 1).tolist(), len(relations)]
    return [(int(relations[a]), slice(a, b)) for a, b in pairwise(bounds)]


def _turned(
    at: _Embedding, runs: list[tuple[int, slice]], v: Array, transposed: bool = False
) -> Array:
    """``(b, n)``: R_r v, or R_r^T v, for each row v and its relation r."""
    turned = np.empty_like(v)
    for relation, run in runs:
        R = at.relations[relation]
        turned[run] = v[run] @ (R if transposed else R.T)
    return turned
