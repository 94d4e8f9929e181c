"""
Knowledge graphs of real size
=============================

UltraE, ComplEx and DistMult trained by mini-batches on graphs of real size, by the same loop. ::

    python examples/j_orthogonal/knowledge.py                             # generated, 800 entities, 15 seconds of training
    python examples/j_orthogonal/knowledge.py --ingredients               # UltraE with one ingredient changed at a time
    python examples/j_orthogonal/knowledge.py --data planted --dimension 12 --by cayley
    python examples/j_orthogonal/knowledge.py --entities 40000 --seconds 20 --batch 200 --shared 300
    python examples/j_orthogonal/knowledge.py --data WN18RR --seconds 120 --batch 200 --shared 300

Every batch of triples (h, r, t) asks for its tails, and for its heads by inverse relations (--no-inverse: the same, transposed).
The entities with which a true answer is compared are all, or --shared uniform ones, drawn anew for each batch, with the true
answers of the batch; other training triples of a query are left out. The loss is log sum exp of the scores minus the true one
(--loss cross-entropy: the printed one over the same entities). Adam moves everything after each batch, at a rate that falls
linearly to 0; with --shared Adagrad moves entities and biases, those of the batch only.

UltraE's score is --score signed, which goes beyond the paper, or printed. Its relations are ::

    angles    R = U(theta) H(mu) U(phi), rotations of two successive rows of equal sign, H of the hyperbolic CS decomposition: n/2 +
              n/2 + p numbers instead of n (n - 1) / 2, feasible to rounding whatever they are
    cayley    R <- cay(A J) R, A Adam's step for the skew slopes
    pairs     the pairs of rows of J-JOBCD, with varsigma such that a typical rotation is --turn
    fixed     R = I

ComplEx: Trouillon et al., "Complex embeddings for simple link prediction", ICML 2016; DistMult: Yang et al., ICLR 2015. Arrays of
entities are float32, those of relations under J-orthogonality float64. Seconds are of the processor, without ranking.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import resource
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from decentorth.data import load_triples
from decentorth.kernels import load, ready
from decentorth.kernels.subproblem import isotropic, largest_eigenvalue, linear_term
from decentorth.problems import KnowledgeGraph
from decentorth.problems.j_orthogonal.knowledge import Completions, check, held_out, most_frequent
from decentorth.problems.j_orthogonal.planted import around_pole, planted
from decentorth.problems.j_orthogonal.ranking import filtered_ranks, measures
from decentorth.problems.j_orthogonal.ultrae import PLANTED
from decentorth.problems.j_orthogonal.ultrahyperbolic import Ultrahyperbolic
from decentorth.sets import JOrthogonal

Back = Callable[[Any], Any]
SCORES = 1 << 21
"""The number of scores that ranking computes at a time."""
TAILS = 8
"""The number of tails of each head and relation of a planted graph."""
ROUNDS, THETA = 5, 1e-6
"""Of the pairs: rounds from one gradient, and what is added to varsigma."""


class Adam:
    """Adam (0.9, 0.999) on named arrays."""

    def __init__(self) -> None:
        self.moments: dict[str, tuple[Any, Any]] = {}
        self.k = 0

    def step(self, name: str, x: Any, slope: Any) -> Any:
        """What to subtract from x, for a rate of 1."""
        mean, square = self.moments.setdefault(name, (np.zeros_like(x), np.zeros_like(x)))
        mean *= 0.9
        mean += 0.1 * slope
        square *= 0.999
        square += 0.001 * slope * slope
        root = np.sqrt(square)
        root *= (1.0 - 0.999**self.k) ** -0.5
        root += 1e-8
        np.divide(mean, root, out=root)
        root *= 1.0 / (1.0 - 0.9**self.k)
        return root


class Adagrad:
    """Adagrad on rows of named arrays: rows without slopes stay as they are, so a step costs what the other rows cost."""

    def __init__(self) -> None:
        self.squares: dict[str, Any] = {}

    def step(self, name: str, x: Any, slope: Any, rows: Any) -> Any:
        """What to subtract from ``x[rows]``, for a rate of 1."""
        squares = self.squares.setdefault(name, np.zeros_like(x))
        squares[rows] += slope * slope
        return slope / (np.sqrt(squares[rows]) + np.float32(1e-10))


class DistMult:
    """The score sum_k h_k r_k t_k."""

    def __init__(self, rng: Any, n_entities: int, n_relations: int, n: int) -> None:
        self.entities = (0.3 * rng.standard_normal((n_entities, n))).astype(np.float32)
        self.biases = np.zeros(n_entities, dtype=np.float32)
        self.relations = (0.3 * rng.standard_normal((n_relations, n))).astype(np.float32)
        self.slopes = np.zeros_like(self.relations)

    def begin(self) -> None:
        """Get ready for the slopes of a batch."""
        self.slopes[:] = 0.0

    def points(self, rows: Any) -> tuple[Any, Back]:
        """The points of some entities, and the map from slopes in them to slopes in `entities`."""
        return self.entities[rows], lambda g: g

    def queries(self, e: Any, r: Any, transposed: bool) -> tuple[Any, Back]:
        """The queries of points e under sorted relations r, and the map from slopes in them to those in e; it adds up `slopes`."""
        own = self.relations[r]

        def back(g: Any) -> Any:
            np.add.at(self.slopes, r, g * e)
            return g * own

        return e * own, back

    def scores(self, products: Any) -> tuple[Any, Any]:
        """The scores of products of queries and points, and their slopes."""
        return products, np.float32(1.0)

    def move(self, adam: Adam, rate: float) -> None:
        """Move the relations."""
        self.relations -= rate * adam.step("relations", self.relations, self.slopes)


class ComplEx(DistMult):
    """The score Re sum_k h_k r_k conj(t_k): the first half of a vector is real, the second imaginary."""

    def queries(self, e: Any, r: Any, transposed: bool) -> tuple[Any, Back]:
        own, point = _complex(self.relations[r]), _complex(e)
        own = own.conj() if transposed else own

        def back(g: Any) -> Any:
            turned = _complex(g) * point.conj()
            np.add.at(self.slopes, r, _real(turned.conj() if transposed else turned))
            return _real(_complex(g) * own.conj())

        return _real(point * own), back


def _complex(x: Any) -> Any:
    half = x.shape[-1] // 2
    return x[:, :half] + 1j * x[:, half:]


def _real(z: Any) -> Any:
    return np.concatenate((z.real, z.imag), axis=-1)


class UltraE:
    """The signed or printed score of the J-orthogonal R_r and points e = phi(y) of the ultrahyperbolic manifold."""

    def __init__(self, rng: Any, n_entities: int, n_relations: int, n: int, given: Any) -> None:
        self.each = JOrthogonal(n // 2, n - n // 2)
        self.signs = self.each.signs.astype(np.float32)
        self.manifold, self.score, self.kind, self.turn, self.rng = (
            Ultrahyperbolic(self.signs, 1.0),
            given.score,
            given.by,
            given.turn,
            rng,
        )
        start = (
            around_pole(rng, self.each.signs, n_entities, given.spread)
            if given.start == "pole"
            else rng.standard_normal((n_entities, n))
        )
        self.entities, self.biases = start.astype(np.float32), np.zeros(n_entities, dtype=np.float32)
        self.angles = Angles(n_relations, n // 2, n)
        self.relations = self.angles.matrices()
        self.slopes = np.zeros_like(self.relations)

    def begin(self) -> None:
        self.slopes[:] = 0.0

    def points(self, rows: Any) -> tuple[Any, Back]:
        y = self.entities[rows]
        return self.manifold.points(y).astype(y.dtype), lambda g: self.manifold.pulled_back(y, g)

    def queries(self, e: Any, r: Any, transposed: bool) -> tuple[Any, Back]:
        bounds = [0, *(np.flatnonzero(np.diff(r)) + 1).tolist(), len(r)]
        runs = [(int(r[a]), slice(a, b)) for a, b in pairwise(bounds)]
        matrices, J = self.relations.astype(e.dtype), self.signs
        before = e * J if transposed else e
        q = np.empty_like(e)
        for relation, run in runs:
            q[run] = before[run] @ (matrices[relation] if transposed else matrices[relation].T)

        def back(g: Any) -> Any:
            g, found = g if transposed else g * J, np.empty_like(e)
            for relation, run in runs:
                self.slopes[relation] += before[run].T @ g[run] if transposed else g[run].T @ before[run]
                found[run] = g[run] @ (matrices[relation].T if transposed else matrices[relation])
            return found * J if transposed else found

        return q if transposed else q * J, back

    def scores(self, products: Any) -> tuple[Any, Any]:
        if self.score == "signed":
            return self.manifold.signed_scores(products)
        u, sign = self.manifold.cosines(products, np.ones(1))
        d = self.manifold.distances(u)
        return -d * d, -2.0 * d * self.manifold.steepness(u) * sign

    def move(self, adam: Adam, rate: float) -> None:
        if self.kind == "angles":
            for name, x, slope in self.angles.slopes(self.relations, self.slopes):
                x -= rate * adam.step(name, x, slope)
            self.relations = self.angles.matrices()
        elif self.kind == "cayley":
            J, x = self.each.signs, self.relations
            w = self.slopes @ x.swapaxes(-1, -2) * J
            a = -0.2 * rate * adam.step("w", w, w - w.swapaxes(-1, -2))
            self.relations = self.each.retract(x, a @ (J[:, None] * x))
        elif self.kind == "pairs":
            self._turn_pairs(rate)

    def _turn_pairs(self, rate: float) -> None:
        """J-JOBCD on the relations: rounds of disjoint pairs of rows, down a majoriser of one gradient."""
        kernels, (copies, n, _), J = load(ready("auto")), self.relations.shape, self.each.signs
        x, g = self.relations.reshape(-1, n), self.slopes.reshape(-1, n)
        w = self.slopes @ self.relations.swapaxes(-1, -2) * J
        level = np.sqrt(np.mean((w - w.swapaxes(-1, -2)) ** 2)) / (2.0 * max(self.turn * rate, 1e-12)) + 1e-12
        start = x.copy()
        for _ in range(ROUNDS):
            order = self.rng.permuted(np.tile(np.arange(n), (copies, 1)), axis=1) + n * np.arange(copies)[:, None]
            first, second = (np.ascontiguousarray(order[:, i : n - n % 2 : 2]).reshape(-1) for i in (0, 1))
            t, own = kernels.blocks(g + level * (x - start), x, first, second), kernels.blocks(x, x, first, second)
            curvature = isotropic(level * largest_eigenvalue(own[:, 0, 0], own[:, 0, 1], own[:, 1, 1]) + THETA)
            v = kernels.minimise(J[first % n] != J[second % n], linear_term(t, curvature), curvature).v
            kernels.turn_rows(x, v, first, second)


class Angles:
    """R = U(theta) H(mu) U(phi) for p signs +1, then n - p signs -1."""

    def __init__(self, copies: int, p: int, n: int) -> None:
        self.i = np.concatenate((np.arange(0, p - 1, 2), np.arange(p, n - 1, 2)))
        self.n, self.plus, self.minus = n, np.arange(min(p, n - p)), p + np.arange(min(p, n - p))
        self.theta, self.phi = np.zeros((copies, len(self.i))), np.zeros((copies, len(self.i)))
        self.mu = np.zeros((copies, len(self.plus)))

    def _rotated(self, x: Any, angles: Any) -> Any:
        """U(angles) x."""
        c, s = np.cos(angles)[:, :, None], np.sin(angles)[:, :, None]
        one, two = x[:, self.i], x[:, self.i + 1]
        out = x.copy()
        out[:, self.i], out[:, self.i + 1] = c * one - s * two, s * one + c * two
        return out

    def matrices(self) -> Any:
        """All R, ``(copies, n, n)``."""
        h = np.tile(np.eye(self.n), (len(self.mu), 1, 1))
        h[:, self.plus, self.plus] = h[:, self.minus, self.minus] = np.cosh(self.mu)
        h[:, self.plus, self.minus] = h[:, self.minus, self.plus] = np.sinh(self.mu)
        return np.ascontiguousarray(self._rotated(self._rotated(h, self.theta).swapaxes(-1, -2), -self.phi).swapaxes(-1, -2))

    def slopes(self, x: Any, g: Any) -> list[tuple[str, Any, Any]]:
        """Each array of angles by name, with its slopes for a function whose gradient at R = x is g."""
        left, right = g @ x.swapaxes(-1, -2), x.swapaxes(-1, -2) @ g
        t = self._rotated(self._rotated(g, -self.theta).swapaxes(-1, -2), self.phi).swapaxes(-1, -2)
        i, j, a, b = self.i, self.i + 1, self.plus, self.minus
        mu = np.sinh(self.mu) * (t[:, a, a] + t[:, b, b]) + np.cosh(self.mu) * (t[:, a, b] + t[:, b, a])
        return [
            ("theta", self.theta, left[:, j, i] - left[:, i, j]),
            ("phi", self.phi, right[:, j, i] - right[:, i, j]),
            ("mu", self.mu, mu),
        ]


class Training:
    """A model in training on a graph."""

    def __init__(self, graph: KnowledgeGraph, model: Any, given: Any, rng: Any) -> None:
        self.graph, self.model, self.given, self.rng, self.adam = graph, model, given, rng, Adam()
        self.adagrad = Adagrad()
        self.known = {side: Completions(graph.train, side, graph.n_entities) for side in ("tail", "head")}
        self.all = {side: Completions(np.concatenate(graph[:3]), side, graph.n_entities) for side in ("tail", "head")}
        self.seconds = 0.0

    def sides(self, triples: Any) -> Any:
        """The entity, relation, answer and name of both queries of triples, and whether its relation is transposed."""
        h, r, t = np.ascontiguousarray(triples.T)
        yield h, r, t, "tail", False
        yield t, r + self.graph.n_relations * self.given.inverse, h, "head", not self.given.inverse

    def step(self, triples: Any, share: float) -> float:
        """Move by a batch, sorted by relation, at a share of the rates; its mean loss."""
        model, everything = self.model, np.arange(self.graph.n_entities)
        drawn = self.rng.integers(self.graph.n_entities, size=self.given.shared)
        choices = [
            np.unique(np.concatenate((a, drawn))) if self.given.shared else everything for *_, a, _, _ in self.sides(triples)
        ]
        rows = np.unique(np.concatenate((triples[:, 0], triples[:, 2], *choices))) if self.given.shared else everything
        e, to_entities = model.points(rows)
        pull, slopes, loss = np.zeros_like(e), np.zeros(len(rows), dtype=e.dtype), 0.0
        model.begin()
        for choice, (own, r, answer, side, transposed) in zip(choices, self.sides(triples), strict=True):
            at, mine = np.searchsorted(rows, choice), np.searchsorted(rows, own)
            q, to_points = model.queries(e[mine], r, transposed)
            others = e[at]
            z, steepness = model.scores(q @ others.T)
            z += model.biases[choice]
            line, place = np.arange(len(own)), np.searchsorted(choice, answer)
            if self.given.loss == "cross-entropy":
                z += (model.biases[own] + np.float32(self.given.delta))[:, None]
            true = z[line, place]
            query, entity = self.known[side].entries(triples)
            where = np.minimum(np.searchsorted(choice, entity), len(choice) - 1)
            there = choice[where] == entity
            z[query[there], where[there]] = -np.inf
            z[line, place] = true
            if self.given.loss == "softmax":
                top = z.max(-1, keepdims=True)
                g = np.exp(z - top)
                total = g.sum(-1, keepdims=True)
                loss += float((np.log(total) + top)[:, 0].mean() - true.mean())
                g /= total
            else:
                g = 1.0 / (1.0 + np.exp(-np.clip(z, -80.0, 80.0)))
                loss += float((np.logaddexp(0.0, z).sum() - true.sum()) / len(own))
            g[line, place] -= 1.0
            g *= np.float32(1.0 / len(own))
            slopes[at] += g.sum(0)
            if self.given.loss == "cross-entropy":
                np.add.at(slopes, mine, g.sum(-1))
            g *= steepness
            pull[at] += g.T @ q
            np.add.at(pull, mine, to_points(g @ others))
        self.adam.k += 1
        for name, x, slope in (
            ("entities", model.entities, to_entities(pull).astype(e.dtype)),
            ("biases", model.biases, slopes),
        ):
            if self.given.shared:
                x[rows] -= np.float32(share * self.given.step) * self.adagrad.step(name, x, slope, rows)
            else:
                x -= np.float32(share * self.given.rate) * self.adam.step(name, x, slope)
        model.move(self.adam, share * self.given.rate)
        return loss

    def run(self, tell: Callable[[str], None]) -> None:
        """Train for the epochs, or for the seconds, that are given."""
        train, number, told = self.graph.train, 0, 0.0
        size = min(self.given.batch, len(train))
        steps = -(-len(train) // size)
        done = 0.0
        while done < 1.0:
            losses, order = [], self.rng.permutation(len(train))
            for start in range(0, len(train), size):
                begun = time.process_time()
                rows = order[start : start + size]
                share = 1.0 - done if self.given.falling else 1.0
                losses.append(self.step(train[rows[np.argsort(train[rows, 1], kind="stable")]], share))
                number += 1
                self.seconds += time.process_time() - begun
                done = self.seconds / self.given.seconds if self.given.epochs is None else number / (steps * self.given.epochs)
                if done >= 1.0:
                    break
            if done - told >= 0.2:
                told = done
                tell(f"  epoch {number / steps:.3g}, {self.seconds:.1f} s, loss {np.mean(losses):.3f}")

    def ranks(self, triples: Any) -> Any:
        """The filtered ranks of the answers of both queries of triples, by blocks."""
        found, e, size = [], self.model.points(slice(None))[0], max(1, SCORES // self.graph.n_entities)
        triples = triples[np.argsort(triples[:, 1], kind="stable")]
        for start in range(0, len(triples), size):
            piece = triples[start : start + size]
            for own, r, answer, side, transposed in self.sides(piece):
                z = self.model.scores(self.model.queries(e[own], r, transposed)[0] @ e.T)[0] + self.model.biases
                found.append(filtered_ranks(z, answer, self.all[side].entries(piece)))
        return np.concatenate(found)


def hierarchy(rng: Any, entities: int) -> Any:
    """Triples like WordNet's, two for each entity: parents of a random tree, links both ways, domains and siblings.

    A new entity's parent is the entity of a random earlier link, so that children are shared unevenly. Links are between random
    pairs; domains are the ancestors at depth 2 of a tenth of the entities; siblings, both ways, are of a tenth of them.
    """
    parent, depth = np.zeros(entities, dtype=np.int64), np.zeros(entities, dtype=np.int64)
    domain = np.arange(entities)
    for i in range(1, entities):
        j = int(rng.integers(i))
        parent[i] = j if rng.random() < 0.5 else parent[j]
        depth[i] = depth[parent[i]] + 1
        domain[i] = domain[parent[i]] if depth[i] > 2 else i
    child = np.arange(1, entities)
    pairs = rng.permutation(entities)[: entities - entities % 2].reshape(-1, 2)[: int(0.35 * entities)]
    members = rng.permutation(np.flatnonzero(depth > 2))[: entities // 10]
    order = child[np.argsort(parent[child], kind="stable")]
    alike = np.stack((order[:-1], order[1:]), axis=1)[parent[order[:-1]] == parent[order[1:]]]
    alike = rng.permutation(alike)[: entities // 10]
    both = [np.concatenate((one, one[:, ::-1])) for one in (pairs, alike)]
    parts = [np.stack((child, parent[child]), axis=1), both[0], np.stack((members, domain[members]), axis=1), both[1]]
    return np.concatenate([np.insert(one, 1, r, axis=1) for r, one in enumerate(parts)])


def graph_of(given: Any, rng: Any) -> KnowledgeGraph:
    """The graph of a file or folder, or a generated one."""
    if given.data in ("hierarchy", "planted"):
        n, relations = given.entities or (300 if given.data == "planted" else 800), 4
        drawn = (
            planted(rng, JOrthogonal(*PLANTED), n, relations, TAILS * relations * n)
            if given.data == "planted"
            else hierarchy(rng, n)
        )
        train, test = held_out(drawn, given.held_out, n, relations, rng)
        return KnowledgeGraph(train, test[:0], test, n, relations)
    files = load_triples(given.data)
    graph = KnowledgeGraph(*files[:3], len(files.entities), len(files.relations))
    if given.entities is not None:
        graph = most_frequent(graph, given.entities)
    if not len(graph.test):
        train, test = held_out(graph.train, given.held_out, graph.n_entities, graph.n_relations, rng)
        graph = graph._replace(train=train, test=test)
    return graph


def trained(graph: KnowledgeGraph, name: str, given: Any) -> Training:
    """A model after training."""
    rng = np.random.default_rng(given.seed)
    relations = graph.n_relations * (1 + given.inverse)
    if name == "UltraE":
        model: Any = UltraE(rng, graph.n_entities, relations, given.dimension, given)
    else:
        model = {"ComplEx": ComplEx, "DistMult": DistMult}[name](rng, graph.n_entities, relations, given.dimension)
    training = Training(graph, model, given, rng)
    training.run(lambda words: print(words, flush=True) if given.verbose else None)
    return training


def report(title: str, training: Training, given: Any) -> None:
    """Print a line of measures."""
    test = training.graph.test
    if len(test) > given.ranked:
        test = test[np.linspace(0, len(test), given.ranked, endpoint=False).astype(np.int64)]
    mrr, first, _, ten = measures(training.ranks(test))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    print(f"{title}: MRR {mrr:.3f}, hits@1 {first:.3f}, hits@10 {ten:.3f}, {training.seconds:.1f} s, {memory:.0f} MB", flush=True)


INGREDIENTS: dict[str, dict[str, Any]] = {
    "all ingredients": {},
    "printed score": {"score": "printed"},
    "cross-entropy": {"loss": "cross-entropy"},
    "full batch": {"batch": 10**9},
    "constant rate": {"falling": False},
    "no inverse relations": {"inverse": False},
    "50 shared entities": {"shared": 50},
    "Gaussian start": {"start": "gaussian"},
    "relations by Cayley steps": {"by": "cayley"},
    "relations by pairs": {"by": "pairs"},
    "relations fixed at I": {"by": "fixed"},
    "printed score and cross-entropy, full batch": {"score": "printed", "loss": "cross-entropy", "batch": 10**9},
}
"""UltraE with one ingredient changed, or as far as possible as printed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__), formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="hierarchy", help="hierarchy or planted, generated; or a folder or file of triples")
    parser.add_argument("--entities", type=int, help="of a generated graph, 800 by default; of files only the most frequent")
    parser.add_argument("--held-out", type=float, default=0.04, help="share to test with, where there is no test file")
    parser.add_argument("--models", nargs="+", default=["UltraE", "ComplEx", "DistMult"], choices=["UltraE", "ComplEx", "DistMult"])
    parser.add_argument("--score", default="signed", choices=["signed", "printed"])
    parser.add_argument("--loss", default="softmax", choices=["softmax", "cross-entropy"])
    parser.add_argument("--by", default="angles", choices=["angles", "cayley", "pairs", "fixed"], help="relations of UltraE")
    parser.add_argument("--start", default="pole", choices=["pole", "gaussian"])
    parser.add_argument("--spread", type=float, default=0.1, help="of entities around the pole")
    parser.add_argument("--turn", type=float, default=1.0, help="a typical rotation by pairs, in learning rates")
    parser.add_argument("--delta", type=float, default=0.0, help="of the cross-entropy")
    parser.add_argument("--no-inverse", dest="inverse", action="store_false", help="heads by the same relations, transposed")
    parser.add_argument("--constant", dest="falling", action="store_false", help="a constant rate")
    parser.add_argument("--dimension", type=int, default=36)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--shared", type=int, default=0, help="uniform entities that a batch shares; 0 compares with all entities")
    parser.add_argument("--rate", type=float, default=0.02, help="Adam's")
    parser.add_argument("--step", type=float, default=0.3, help="Adagrad's, of entities and biases with --shared")
    parser.add_argument("--seconds", type=float, default=5.0, help="of the processor, for each model")
    parser.add_argument("--epochs", type=int, help="instead of seconds")
    parser.add_argument("--ranked", type=int, default=500, help="test triples that are ranked")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ingredients", action="store_true", help="UltraE, with one ingredient changed at a time")
    parser.add_argument("--verbose", action="store_true", help="print losses on the way")
    given = parser.parse_args()
    graph = graph_of(given, np.random.default_rng(given.seed))
    check(graph)
    numbers = f"{len(graph.train)} training and {len(graph.test)} test triples"
    print(f"{graph.n_entities} entities, {graph.n_relations} relations, {numbers}", flush=True)
    if given.ingredients:
        for title, changed in INGREDIENTS.items():
            changed_options = argparse.Namespace(**(vars(given) | changed))
            report(title, trained(graph, "UltraE", changed_options), changed_options)
        return
    for name in given.models:
        report(name, trained(graph, name, given), given)


if __name__ == "__main__":
    main()
