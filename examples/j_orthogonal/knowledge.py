"""
How do I embed a knowledge graph of real size?
==============================================

UltraE, ComplEx and DistMult trained by mini-batches on graphs of real size, by
the same loop. ::

    # generated, 800 entities, 15 seconds of training
    python examples/j_orthogonal/knowledge.py
    # UltraE with one ingredient changed at a time
    python examples/j_orthogonal/knowledge.py --ingredients
    python examples/j_orthogonal/knowledge.py --data planted \\
        --dimension 12 --by cayley
    python examples/j_orthogonal/knowledge.py --entities 40000 \\
        --seconds 20 --batch 200 --shared 300
    python examples/j_orthogonal/knowledge.py --data WN18RR --seconds 120 \\
        --batch 200 --shared 300

Every batch of triples (h, r, t) asks for its tails, and for its heads by the
same relations, transposed (--inverse: by relations of their own). The entities
with which a true answer is compared are all, or --shared uniform ones, drawn
anew for each batch, with the heads and tails of the batch; other training
triples of a query are left out. The loss is log sum exp of the scores minus the
true one (--loss cross-entropy: the printed one over the same entities). Adam
moves everything after each batch, at a rate that falls linearly to 0; with
--shared Adagrad moves entities and biases, those of the batch only.

UltraE's score is --score signed, which goes beyond the paper, or printed. Its
relations are ::

    angles    R = U(theta) H(mu) U(phi), rotations of two successive rows of
              equal sign, H of the hyperbolic CS decomposition: n/2 + n/2 + p
              numbers instead of n (n - 1) / 2, feasible to rounding whatever
              they are; mu = 0 at the start. A query costs O(n), no matrix is
              formed
    cayley    R <- cay(A J) R, A Adam's step for the skew slopes
    pairs     the pairs of rows of J-JOBCD, with varsigma such that a typical
              rotation is --turn
    fixed     R stays as it begins

They begin with half turns of random planes (--turned half), a plane being two
successive rows of equal sign. Then R = R^-1, so a triple has the score of its
mirror image, and two relations differ in about half of the planes. With
--turned any all planes are turned by any angles, with --turned none R = I. The
relations of --inverse begin as the inverses.

Several models are trained in turns, so that all see the same load of the
machine. Seconds are of the processor, without ranking. Arrays of entities are
float32, those of relations under J-orthogonality float64.

ComplEx: Trouillon et al., "Complex embeddings for simple link prediction", ICML
2016; DistMult: Yang et al., ICLR 2015.

Explained in ``docs/knowledge_graphs.md``.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import resource
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import sqrt
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from decentorth import JJOBCD
from decentorth.data import (
    hold_out,
    load_triples,
    most_frequent,
    planted_triples,
)
from decentorth.problems import (
    Completions,
    KnowledgeGraph,
    Ultrahyperbolic,
    filtered_ranks,
    rank_measures,
)
from decentorth.sets import JOrthogonal, JOrthogonalStack

try:
    import numba
except ImportError:
    numba = None  # type: ignore[assignment]

Back = Callable[[Any], Any]
SCORES = 1 << 21
"""The number of scores that ranking computes at a time."""
TAILS = 8
"""The number of tails of each head and relation of a planted graph."""
ROUNDS = 5
"""The rounds of pairs from one gradient."""
SINGLE = np.float32
INTEGER = np.int32
"""Number types of signed scores."""
BLOCK = 2048
"""The number of signed scores that are computed at a time."""
# arccos(1 - t) / sqrt(t) for t > 0, arccosh(1 - t) / sqrt(-t) below: for -1/2
# <= t <= 1, to 3e-10
A0 = SINGLE(1.41421356)
A1 = SINGLE(0.117851133)
A2 = SINGLE(0.0265164854)
A3 = SINGLE(0.00789166908)
A4 = SINGLE(0.00268590434)
A5 = SINGLE(0.000990428078)
A6 = SINGLE(0.000378316112)
A7 = SINGLE(0.000148192511)
A8 = SINGLE(8.68880624e-05)
A9 = SINGLE(2.58403955e-05)
A10 = SINGLE(-2.50026155e-05)
A11 = SINGLE(3.2909099e-05)
# log(1 + f) / f for 0 <= f <= 1, to 3e-9
L0 = SINGLE(1.0)
L1 = SINGLE(-0.499998926)
L2 = SINGLE(0.333297105)
L3 = SINGLE(-0.249516163)
L4 = SINGLE(0.196632743)
L5 = SINGLE(-0.152696671)
L6 = SINGLE(0.105436238)
L7 = SINGLE(-0.0563736132)
L8 = SINGLE(0.0195425274)
L9 = SINGLE(-0.00317605705)
ZERO = SINGLE(0.0)
ONE = SINGLE(1.0)
TWO = SINGLE(2.0)
FAR = SINGLE(1.5)
PI = SINGLE(np.pi)
LOG2 = SINGLE(np.log(2.0))
# the fields of a number in single precision
BITS = INTEGER(23)
BIAS = INTEGER(127)
MANTISSA = INTEGER(0x7FFFFF)
ULP = SINGLE(2.0**-23)


def _compiled(function: Any) -> Any:
    """The function compiled by numba, with reordered sums so that its loops use
    vector registers.
    """
    return (
        numba.njit(
            error_model="numpy", fastmath={"reassoc", "contract", "nsz"}
        )(function)
        if numba
        else function
    )


@_compiled
def _signed_scores(
    products: Any, scale: Any, slopes: Any, w: Any, bits: Any
) -> None:
    inverse = -ONE / scale
    for start in range(0, len(products), len(w)):
        x = products[start : start + len(w)]
        slope = slopes[start : start + len(w)]
        for i in range(len(x)):
            u = x[i] * inverse
            w[i] = u + sqrt(max(u * u - ONE, ZERO))
        for i in range(len(x)):
            u = x[i] * inverse
            t = ONE if u < ZERO else ONE - u
            f = SINGLE(INTEGER(bits[i] & MANTISSA)) * ULP
            last = L5 + f * (L6 + f * (L7 + f * (L8 + f * L9)))
            first = L2 + f * (L3 + f * (L4 + f * last))
            log = f * (L0 + f * (L1 + f * first))
            log += SINGLE(INTEGER(INTEGER(bits[i] >> BITS) - BIAS)) * LOG2
            high = A6 + t * (A7 + t * (A8 + t * (A9 + t * (A10 + t * A11))))
            low = A2 + t * (A3 + t * (A4 + t * (A5 + t * high)))
            ratio = A0 + t * (A1 + t * low)
            far = u > FAR
            x[i] = scale * (
                -log * log if far else t * ratio * ratio - PI * min(u, ZERO)
            )
            slope[i] = (
                TWO
                * (log if far else ratio)
                / sqrt(u * u - ONE if far else TWO - t)
            )


def signed_scores(products: Any, scale: float, slopes: Any) -> None:
    """Replace products <x, y>_q, ``(m,)`` in single precision, by their signed
    scores for alpha^2 = ``scale``.

    The slopes in the products go into ``slopes``. `Ultrahyperbolic` has the
    formula; here it is polynomials near u = 1, and the logarithm of w = u +
    sqrt(u^2 - 1) = 2^e (1 + f) above `FAR`.
    """
    w = np.empty(BLOCK, SINGLE)
    _signed_scores(products, SINGLE(scale), slopes, w, w.view(INTEGER))


class Adam:
    """Adam (0.9, 0.999) on named arrays."""

    def __init__(self) -> None:
        self.moments: dict[str, tuple[Any, Any]] = {}
        self.k = 0

    def step(self, name: str, x: Any, slope: Any) -> Any:
        """The array to subtract from x, for a rate of 1."""
        if name not in self.moments:
            self.moments[name] = np.zeros_like(x), np.zeros_like(x)
        mean, square = self.moments[name]
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
    """Adagrad on rows of named arrays: rows without slopes stay as they are, so
    a step costs what the other rows cost.
    """

    def __init__(self) -> None:
        self.squares: dict[str, Any] = {}

    def step(self, name: str, x: Any, slope: Any, rows: Any) -> Any:
        """The array to subtract from ``x[rows]``, for a rate of 1."""
        if name not in self.squares:
            self.squares[name] = np.zeros_like(x)
        root = self.squares[name][rows]
        root += slope * slope
        self.squares[name][rows] = root
        np.sqrt(root, out=root)
        root += np.float32(1e-10)
        return np.divide(slope, root, out=root)


class DistMult:
    """The score sum_k h_k r_k t_k."""

    def __init__(
        self, rng: Any, n_entities: int, n_relations: int, n: int
    ) -> None:
        self.entities = (0.3 * rng.standard_normal((n_entities, n))).astype(
            np.float32
        )
        self.biases = np.zeros(n_entities, dtype=np.float32)
        self.relations = (0.3 * rng.standard_normal((n_relations, n))).astype(
            np.float32
        )
        self.slopes = np.zeros_like(self.relations)

    def begin(self) -> None:
        """Get ready for the slopes of a batch."""
        self.slopes[:] = 0.0

    def points(self, y: Any) -> tuple[Any, Back]:
        """The points of rows y of `entities`, and the map from slopes in them
        to slopes in y.
        """
        return y, lambda g: g

    def queries(self, e: Any, r: Any, transposed: bool) -> tuple[Any, Back]:
        """The queries of points e under sorted relations r, and the map from
        slopes in them to those in e; it adds up `slopes`.
        """
        own = self.relations[r]

        def back(g: Any) -> Any:
            add_runs(self.slopes, r, g * e)
            return g * own

        return e * own, back

    def scores(self, products: Any, slopes: Any) -> bool:
        """Replace products of queries and points by their scores; whether their
        slopes are in ``slopes``, and not 1.
        """
        return False

    def move(self, adam: Adam, rate: float) -> None:
        """Move the relations."""
        self.relations -= rate * adam.step(
            "relations", self.relations, self.slopes
        )


class ComplEx(DistMult):
    """The score Re sum_k h_k r_k conj(t_k): numbers at even places are real
    parts, the next ones imaginary parts.
    """

    def queries(self, e: Any, r: Any, transposed: bool) -> tuple[Any, Back]:
        own = as_complex(self.relations)[r]
        point = as_complex(e)
        own = own.conj() if transposed else own

        def back(g: Any) -> Any:
            turned = as_complex(g) * point.conj()
            add_runs(
                self.slopes, r, as_real(turned.conj() if transposed else turned)
            )
            return as_real(as_complex(g) * own.conj())

        return as_real(point * own), back


def as_complex(x: Any) -> Any:
    """The numbers of a contiguous array as real and imaginary parts in turn."""
    return x.view(np.result_type(x, 1j))


def as_real(z: Any) -> Any:
    return z.view(z.real.dtype)


def starts_of(r: Any) -> Any:
    """The first place of each run of equal numbers."""
    return np.flatnonzero(np.concatenate(([True], r[1:] != r[:-1])))


def add_runs(sums: Any, r: Any, rows: Any) -> None:
    """Add rows to those of ``sums`` that sorted numbers r name."""
    starts = starts_of(r)
    sums[r[starts]] += np.add.reduceat(rows, starts)


class UltraE:
    """The signed or printed score of the J-orthogonal R_r and points e = phi(y)
    of the ultrahyperbolic manifold.
    """

    def __init__(
        self, rng: Any, n_entities: int, n_relations: int, n: int, given: Any
    ) -> None:
        self.p = 2 * (n // 4)
        self.score = given.score
        each = JOrthogonal(self.p, n - self.p)
        self.signs = each.signs.astype(np.float32)
        self.manifold = Ultrahyperbolic(each.signs, 1.0)
        start = rng.standard_normal((n_entities, n))
        if given.start == "pole":
            start *= given.spread
            start[:, self.p] += 1.0  # the first sign -1
        self.entities = start.astype(np.float32)
        self.biases = np.zeros(n_entities, dtype=np.float32)

        def angles() -> Any:
            return turns(rng, given.turned, n_relations, n // 2, given.inverse)

        self.relations: Any = (
            Angles(angles(), angles(), self.p)
            if given.by == "angles"
            else Matrices(rng, angles(), each, given.by, given.turn)
        )
        self.begin = self.relations.begin
        self.move = self.relations.move

    def points(self, y: Any) -> tuple[Any, Back]:
        plus = y[:, : self.p]
        minus = y[:, self.p :]
        s, t = (
            np.einsum("ij,ij->i", part, part)[:, None] for part in (plus, minus)
        )
        s += 1.0
        ratio = np.sqrt(s / t)

        def back(g: Any) -> Any:
            out = np.empty_like(g)
            along = (
                ratio * np.einsum("ij,ij->i", g[:, self.p :], minus)[:, None]
            )
            np.add(g[:, : self.p], along / s * plus, out=out[:, : self.p])
            np.subtract(
                ratio * g[:, self.p :], along / t * minus, out=out[:, self.p :]
            )
            return out

        e = y.copy()
        e[:, self.p :] *= ratio
        return e, back

    def queries(self, e: Any, r: Any, transposed: bool) -> tuple[Any, Back]:
        if transposed:
            q, to_points = self.relations.turned(e * self.signs, r, True)
            return q, lambda g: to_points(g) * self.signs
        q, to_points = self.relations.turned(e, r, False)
        q *= self.signs
        return q, lambda g: to_points(g * self.signs)

    def scores(self, products: Any, slopes: Any) -> bool:
        if self.score == "signed":
            if numba and products.dtype == SINGLE:
                signed_scores(products.reshape(-1), 1.0, slopes.reshape(-1))
            else:
                products[:], slopes[:] = self.manifold.signed_scores(products)
        else:
            u, sign = self.manifold.cosines(products, np.ones(1))
            d = self.manifold.distances(u)
            products[:] = -d * d
            slopes[:] = -2.0 * d * self.manifold.steepness(u) * sign
        return True


def turns(rng: Any, kind: str, copies: int, planes: int, inverse: bool) -> Any:
    """``(copies, planes)``: the angles by which relations turn planes at the
    start.

    They are 0 or pi with equal probabilities for the kind ``half``, uniform for
    ``any`` and 0 for ``none``. With ``inverse`` the second half of the
    relations turns back what the first half turns.
    """
    shape = (copies // (1 + inverse), planes)
    if kind == "none":
        drawn = np.zeros(shape)
    else:
        drawn = (
            np.pi * rng.integers(0, 2, shape)
            if kind == "half"
            else rng.uniform(-np.pi, np.pi, shape)
        )
    return np.concatenate((drawn, -drawn)) if inverse else drawn


class Angles:
    """R = U(theta) H(mu) U(phi) for p signs +1, then n - p >= p signs -1, p and
    n even; phi and theta are ``(copies, n / 2)``.
    """

    def __init__(self, phi: Any, theta: Any, p: int) -> None:
        self.p = p
        self.angles = {
            "phi": phi,
            "mu": np.zeros((len(phi), p)),
            "theta": theta,
        }
        self.slopes = {
            name: np.zeros_like(x) for name, x in self.angles.items()
        }

    def begin(self) -> None:
        for slope in self.slopes.values():
            slope[:] = 0.0

    def turned(self, v: Any, r: Any, transposed: bool) -> tuple[Any, Back]:
        """R_r v, or R_r^T v, for each row v and its relation r; and the map
        from slopes in them to slopes in v.
        """
        p = self.p
        kind = np.result_type(v, 1j)
        names, sign = (
            (("theta", "phi"), -1.0) if transposed else (("phi", "theta"), 1.0)
        )
        first, last = (
            np.exp(1j * sign * self.angles[name]).astype(kind)[r]
            for name in names
        )
        cosh, sinh = (
            f(self.angles["mu"]).astype(v.dtype)[r] for f in (np.cosh, np.sinh)
        )

        def boosted(x: Any) -> Any:
            out = x.copy()
            one = x[:, :p]
            other = x[:, p : 2 * p]
            out[:, :p] = cosh * one + sinh * other
            out[:, p : 2 * p] = sinh * one + cosh * other
            return out

        before = as_real(as_complex(v) * first)
        middle = boosted(before)
        out = as_complex(middle) * last

        def back(g: Any) -> Any:
            z = as_complex(g)
            add_runs(self.slopes[names[1]], r, sign * (z * out.conj()).imag)
            g = as_real(z * last.conj())
            add_runs(
                self.slopes["mu"],
                r,
                g[:, :p] * middle[:, p : 2 * p]
                + g[:, p : 2 * p] * middle[:, :p],
            )
            z = as_complex(boosted(g))
            add_runs(
                self.slopes[names[0]],
                r,
                sign * (z * as_complex(before).conj()).imag,
            )
            return as_real(z * first.conj())

        return as_real(out).copy(), back

    def move(self, adam: Adam, rate: float) -> None:
        for name, x in self.angles.items():
            x -= rate * adam.step(name, x, self.slopes[name])


class Matrices:
    """R as matrices, moved by Cayley steps, by pairs of rows or not at all,
    from rotations by angles ``(copies, n // 2)``.
    """

    def __init__(
        self, rng: Any, angles: Any, each: JOrthogonal, kind: str, turn: float
    ) -> None:
        self.rng = rng
        self.each = each
        self.kind = kind
        self.turn = turn
        n = len(each.signs)
        self.x = np.tile(np.eye(n), (len(angles), 1, 1))
        one = np.arange(0, n - 1, 2)
        self.x[:, one, one] = self.x[:, one + 1, one + 1] = np.cos(angles)
        self.x[:, one + 1, one] = np.sin(angles)
        self.x[:, one, one + 1] = -np.sin(angles)
        self.slopes = np.zeros_like(self.x)

    def begin(self) -> None:
        self.slopes[:] = 0.0

    def turned(self, v: Any, r: Any, transposed: bool) -> tuple[Any, Back]:
        """As `Angles.turned`."""
        bounds = [*starts_of(r).tolist(), len(r)]
        runs = [(int(r[a]), slice(a, b)) for a, b in pairwise(bounds)]
        matrices = self.x.astype(v.dtype)
        out = np.empty_like(v)
        for relation, run in runs:
            out[run] = v[run] @ (
                matrices[relation] if transposed else matrices[relation].T
            )

        def back(g: Any) -> Any:
            found = np.empty_like(v)
            for relation, run in runs:
                self.slopes[relation] += (
                    v[run].T @ g[run] if transposed else g[run].T @ v[run]
                )
                found[run] = g[run] @ (
                    matrices[relation].T if transposed else matrices[relation]
                )
            return found

        return out, back

    def move(self, adam: Adam, rate: float) -> None:
        if self.kind == "cayley":
            J = self.each.signs
            x = self.x
            w = self.slopes @ x.swapaxes(-1, -2) * J
            a = -0.2 * rate * adam.step("w", w, w - w.swapaxes(-1, -2))
            self.x = self.each.retract(x, a @ (J[:, None] * x))
        elif self.kind == "pairs":
            self._turn_pairs(rate)

    def _turn_pairs(self, rate: float) -> None:
        """J-JOBCD on the relations: rounds of disjoint pairs of rows, down a
        majoriser of one gradient.
        """
        w = self.slopes @ self.x.swapaxes(-1, -2) * self.each.signs
        level = (
            np.sqrt(np.mean((w - w.swapaxes(-1, -2)) ** 2))
            / (2.0 * max(self.turn * rate, 1e-12))
            + 1e-12
        )
        copies, n, _ = self.x.shape
        gradient = self.slopes.reshape(1, -1, n)
        seen: Any = SimpleNamespace(
            constraint=JOrthogonalStack(self.each, copies),
            gradient=lambda x: gradient,
        )
        x = self.x.reshape(1, -1, n)
        begun = JJOBCD(varsigma=1.0).init(seen, None, None, x)
        method = JJOBCD(varsigma="pair", rounds=ROUNDS)
        state = begun._replace(varsigma=np.full(1, level))
        streams: Any = Shuffled(self.rng, copies, n)
        self.x = method.step(seen, None, streams, state).x.reshape(copies, n, n)


class Shuffled:
    """The random order of rows by which J-JOBCD divides each matrix into pairs,
    from a generator of NumPy.
    """

    def __init__(self, rng: Any, copies: int, n: int) -> None:
        self.rng = rng
        self.rows = np.arange(copies * n).reshape(copies, n)

    def permutation(self, purpose: str, number: int, size: int) -> Any:
        """All rows in random order, matrix by matrix."""
        return self.rng.permuted(self.rows, axis=1).reshape(-1)


class Batch(NamedTuple):
    """The queries of a batch: of tails, then of heads."""

    queries: Any
    backs: list[Back]
    """From slopes in the queries to slopes in the entities that ask."""
    mine: list[Any]
    """Those entities."""
    right: tuple[Any, Any]
    """The places of the true answers among the scores."""
    known: list[tuple[Any, Any]]
    """The places of other answers of training triples."""


class Training:
    """A model in training on a graph."""

    def __init__(
        self, graph: KnowledgeGraph, model: Any, given: Any, rng: Any
    ) -> None:
        self.graph = graph
        self.model = model
        self.given = given
        self.rng = rng
        self.adam = Adam()
        self.adagrad = Adagrad()
        self.known = {
            side: Completions(graph.train, side, graph.n_entities)
            for side in ("tail", "head")
        }
        self.all = {
            side: Completions(np.concatenate(graph[:3]), side, graph.n_entities)
            for side in ("tail", "head")
        }
        self.size = min(given.batch, len(graph.train))
        self.place = (
            np.full(graph.n_entities, -1)
            if given.shared
            else np.arange(graph.n_entities)
        )
        self.spare: list[Any] = []
        self.seconds = 0.0
        self.done = 0.0
        self.epochs = 0.0

    def scratch(self, rows: int, columns: int, dtype: Any) -> list[Any]:
        """Two arrays, in the same memory each time: new pages for scores cost
        more time than the scores.
        """
        size = rows * columns
        if (
            not self.spare
            or len(self.spare[0]) < size
            or self.spare[0].dtype != dtype
        ):
            self.spare = [np.empty(size, dtype) for _ in range(2)]
        return [spare[:size].reshape(rows, columns) for spare in self.spare]

    def sides(self, triples: Any) -> Any:
        """The entity, relation, answer and name of both queries of triples, and
        whether its relation is transposed.
        """
        h, r, t = np.ascontiguousarray(triples.T)
        yield h, r, t, "tail", False
        yield (
            t,
            r + self.graph.n_relations * self.given.inverse,
            h,
            "head",
            not self.given.inverse,
        )

    def compared(self, triples: Any) -> Any:
        """The entities that a batch is compared with; `place` has their places
        among these.
        """
        if not self.given.shared:
            return np.arange(self.graph.n_entities)
        number = self.graph.n_entities
        drawn = self.rng.integers(number, size=self.given.shared)
        ends = (triples[:, 0], triples[:, 2], drawn)
        rows = np.unique(np.concatenate(ends))
        self.place[rows] = np.arange(len(rows))
        return rows

    def asked(self, triples: Any, e: Any) -> Batch:
        """Both queries of triples to points e."""
        queries: list[Any] = []
        backs = []
        mine = []
        answers = []
        known = []
        for own, r, answer, side, transposed in self.sides(triples):
            at = self.place[own]
            query, back = self.model.queries(e[at], r, transposed)
            line, other = self.known[side].entries(triples)
            line = line + len(queries) * len(triples)
            other = self.place[other]
            queries.append(query)
            backs.append(back)
            mine.append(at)
            answers.append(self.place[answer])
            known.append((line[other >= 0], other[other >= 0]))
        q = np.concatenate(queries)
        right = (np.arange(len(q)), np.concatenate(answers))
        return Batch(q, backs, mine, right, known)

    def losses(self, z: Any, batch: Batch) -> float:
        """The mean loss of scores z, which become its slopes in them."""
        size = len(z) // 2
        true = z[batch.right]
        for places in batch.known:
            z[places] = -np.inf
        z[batch.right] = true
        if self.given.loss == "softmax":
            top = z.max(-1, keepdims=True)
            z -= top
            np.exp(z, out=z)
            total = z.sum(-1, keepdims=True)
            loss = float((np.log(total) + top).sum() - true.sum()) / size
            z /= total * np.float32(size)
        else:
            loss = float(np.logaddexp(0.0, z).sum() - true.sum()) / size
            z[:] = (
                1.0
                / (1.0 + np.exp(-np.clip(z, -80.0, 80.0)))
                / np.float32(size)
            )
        z[batch.right] -= np.float32(1.0 / size)
        return loss

    def step(self, triples: Any, share: float) -> float:
        """Move by a batch, sorted by relation, at a share of the rates; its
        mean loss.
        """
        model = self.model
        rows = self.compared(triples)
        y = model.entities[rows]
        bias = model.biases[rows]
        e, to_entities = model.points(y)
        model.begin()
        batch = self.asked(triples, e)
        q = batch.queries
        z, steepness = self.scratch(len(q), len(e), e.dtype)
        steep = model.scores(np.matmul(q, e.T, out=z), steepness)
        z += bias
        mine = np.concatenate(batch.mine)
        if self.given.loss == "cross-entropy":
            z += (bias[mine] + np.float32(self.given.delta))[:, None]
        loss = self.losses(z, batch)
        slopes = z.sum(0)
        if self.given.loss == "cross-entropy":
            np.add.at(slopes, mine, z.sum(-1))
        if steep:
            z *= steepness
        pull = z.T @ q
        parts = np.split(z @ e, 2)
        for at, back, g in zip(batch.mine, batch.backs, parts, strict=True):
            np.add.at(pull, at, back(g))
        self.adam.k += 1
        self.descend("entities", rows, y, to_entities(pull), share)
        self.descend("biases", rows, bias, slopes, share)
        model.move(self.adam, share * self.given.rate)
        if self.given.shared:
            self.place[rows] = -1
        return loss

    def descend(
        self, name: str, rows: Any, old: Any, slope: Any, share: float
    ) -> None:
        """Move the model's array of this name against a slope in its rows."""
        x = getattr(self.model, name)
        if self.given.shared:
            rate = np.float32(share * self.given.step)
            x[rows] = old - rate * self.adagrad.step(name, x, slope, rows)
        else:
            rate = np.float32(share * self.given.rate)
            x -= rate * self.adam.step(name, x, slope)

    def run(self, tell: Callable[[str], None]) -> Iterator[None]:
        """Train for the epochs, or for the seconds, that are given, a batch at
        a time.
        """
        train = self.graph.train
        number = 0
        told = 0.0
        size = self.size
        steps = -(-len(train) // size)
        while self.done < 1.0:
            losses = []
            order = self.rng.permutation(len(train))
            for start in range(0, len(train), size):
                begun = time.process_time()
                rows = order[start : start + size]
                share = 1.0 - self.done if self.given.falling else 1.0
                losses.append(
                    self.step(
                        train[rows[np.argsort(train[rows, 1], kind="stable")]],
                        share,
                    )
                )
                number += 1
                self.seconds += time.process_time() - begun
                self.done = (
                    self.seconds / self.given.seconds
                    if self.given.epochs is None
                    else number / (steps * self.given.epochs)
                )
                self.epochs = number / steps
                yield
                if self.done >= 1.0:
                    break
            if self.done - told >= 0.2:
                told = self.done
                tell(
                    f"epoch {self.epochs:.3g}, {self.seconds:.1f} s, loss "
                    f"{np.mean(losses):.3f}"
                )

    def ranks(self, triples: Any) -> Any:
        """The filtered ranks of the answers of both queries of triples, by
        blocks.
        """
        found = []
        e = self.model.points(self.model.entities)[0]
        size = max(1, SCORES // self.graph.n_entities)
        triples = triples[np.argsort(triples[:, 1], kind="stable")]
        for start in range(0, len(triples), size):
            piece = triples[start : start + size]
            for own, r, answer, side, transposed in self.sides(piece):
                z = self.model.queries(e[own], r, transposed)[0] @ e.T
                self.model.scores(z, np.empty_like(z))
                z += self.model.biases
                found.append(
                    filtered_ranks(z, answer, self.all[side].entries(piece))
                )
        return np.concatenate(found)


def hierarchy(rng: Any, entities: int) -> Any:
    """Triples like WordNet's, two for each entity: parents of a random tree,
    links both ways, domains and siblings.

    A new entity's parent is the entity of a random earlier link, so that
    children are shared unevenly. Links are between random pairs; domains are
    the ancestors at depth 2 of a tenth of the entities; siblings, both ways,
    are of a tenth of them.
    """
    parent = np.zeros(entities, dtype=np.int64)
    depth = np.zeros(entities, dtype=np.int64)
    domain = np.arange(entities)
    for i in range(1, entities):
        j = int(rng.integers(i))
        parent[i] = j if rng.random() < 0.5 else parent[j]
        depth[i] = depth[parent[i]] + 1
        domain[i] = domain[parent[i]] if depth[i] > 2 else i
    child = np.arange(1, entities)
    pairs = rng.permutation(entities)[: entities - entities % 2].reshape(-1, 2)[
        : int(0.35 * entities)
    ]
    members = rng.permutation(np.flatnonzero(depth > 2))[: entities // 10]
    order = child[np.argsort(parent[child], kind="stable")]
    alike = np.stack((order[:-1], order[1:]), axis=1)[
        parent[order[:-1]] == parent[order[1:]]
    ]
    alike = rng.permutation(alike)[: entities // 10]
    both = [np.concatenate((one, one[:, ::-1])) for one in (pairs, alike)]
    parts = [
        np.stack((child, parent[child]), axis=1),
        both[0],
        np.stack((members, domain[members]), axis=1),
        both[1],
    ]
    return np.concatenate(
        [np.insert(one, 1, r, axis=1) for r, one in enumerate(parts)]
    )


def graph_of(given: Any, rng: Any) -> KnowledgeGraph:
    """The graph of a file or folder, or a generated one."""
    if given.data in ("hierarchy", "planted"):
        n = given.entities or (300 if given.data == "planted" else 800)
        relations = 4
        if given.data == "planted":
            plane = JOrthogonal(2, 1)
            wanted = TAILS * relations * n
            drawn = planted_triples(rng, plane, n, relations, wanted)
        else:
            drawn = hierarchy(rng, n)
        train, test = hold_out(drawn, given.held_out, n, relations, rng)
        return KnowledgeGraph(train, test[:0], test, n, relations)
    files = load_triples(given.data)
    graph = KnowledgeGraph(
        *files[:3], len(files.entities), len(files.relations)
    )
    if given.entities is not None:
        graph = most_frequent(graph, given.entities)
    if not len(graph.test):
        train, test = hold_out(
            graph.train,
            given.held_out,
            graph.n_entities,
            graph.n_relations,
            rng,
        )
        graph = graph._replace(train=train, test=test)
    return graph


def made(graph: KnowledgeGraph, name: str, given: Any) -> Training:
    """A model before training."""
    rng = np.random.default_rng(given.seed)
    relations = graph.n_relations * (1 + given.inverse)
    if name == "UltraE":
        model: Any = UltraE(
            rng, graph.n_entities, relations, given.dimension, given
        )
    else:
        model = {"ComplEx": ComplEx, "DistMult": DistMult}[name](
            rng, graph.n_entities, relations, given.dimension
        )
    return Training(graph, model, given, rng)


def train(trainings: dict[str, Training], verbose: bool) -> None:
    """Train models in turns, always the one that is furthest from its end, so
    that all see the same load of the machine.
    """
    running = {}
    for name, one in trainings.items():

        def tell(words: str, name: str = name) -> None:
            if verbose:
                print(f"{name}: {words}", flush=True)

        running[name] = one.run(tell)
    while running:
        name = min(running, key=lambda one: trainings[one].done)
        if next(running[name], "end") == "end":
            del running[name]


def report(title: str, training: Training, given: Any) -> None:
    """Print a line of measures."""
    test = training.graph.test
    if len(test) > given.ranked:
        test = test[
            np.linspace(0, len(test), given.ranked, endpoint=False).astype(
                np.int64
            )
        ]
    mrr, first, _, ten = rank_measures(training.ranks(test))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    spent = f"{training.epochs:.1f} epochs, {training.seconds:.1f} s"
    spent += f", {memory:.0f} MB"
    print(
        f"{title}: MRR {mrr:.3f}, hits@1 {first:.3f}, hits@10 {ten:.3f}, "
        f"{spent}",
        flush=True,
    )


INGREDIENTS: dict[str, dict[str, Any]] = {
    "all ingredients": {},
    "printed score": {"score": "printed"},
    "cross-entropy": {"loss": "cross-entropy"},
    "full batch": {"batch": 10**9},
    "constant rate": {"falling": False},
    "inverse relations": {"inverse": True},
    "relations start at any angles": {"turned": "any"},
    "relations start at I": {"turned": "none"},
    "50 shared entities": {"shared": 50},
    "Gaussian start": {"start": "gaussian"},
    "relations by Cayley steps": {"by": "cayley"},
    "relations by pairs": {"by": "pairs"},
    "relations fixed at half turns": {"by": "fixed"},
    "relations fixed at I": {"by": "fixed", "turned": "none"},
    "printed score and cross-entropy, full batch": {
        "score": "printed",
        "loss": "cross-entropy",
        "batch": 10**9,
    },
}
"""UltraE with one ingredient changed, or as far as possible as printed."""


def command_line() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=str(__doc__),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=["UltraE", "ComplEx", "DistMult"],
        choices=["UltraE", "ComplEx", "DistMult"],
    )
    add_graph(parser)
    add_ultrae(parser)
    add_training(parser)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--ingredients",
        action="store_true",
        help="UltraE, with one ingredient changed at a time",
    )
    parser.add_argument(
        "--verbose", action="store_true", help="print losses on the way"
    )
    return parser


def add_graph(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the graph and of its triples."""
    parser.add_argument(
        "--data",
        default="hierarchy",
        help="hierarchy or planted, generated; or a folder or file of triples",
    )
    parser.add_argument(
        "--entities",
        type=int,
        help="of a generated graph, 800 by default; of files only the most "
        "frequent",
    )
    parser.add_argument(
        "--held-out",
        type=float,
        default=0.04,
        help="share to test with, where there is no test file",
    )
    parser.add_argument(
        "--ranked", type=int, default=500, help="test triples that are ranked"
    )


def add_ultrae(parser: argparse.ArgumentParser) -> None:
    """Add the flags of UltraE."""
    parser.add_argument(
        "--score", default="signed", choices=["signed", "printed"]
    )
    parser.add_argument(
        "--by",
        default="angles",
        choices=["angles", "cayley", "pairs", "fixed"],
        help="relations of UltraE",
    )
    parser.add_argument("--start", default="pole", choices=["pole", "gaussian"])
    parser.add_argument(
        "--spread", type=float, default=0.1, help="of entities around the pole"
    )
    parser.add_argument(
        "--turned",
        default="half",
        choices=["half", "any", "none"],
        help="relations of UltraE at the start",
    )
    parser.add_argument(
        "--turn",
        type=float,
        default=1.0,
        help="a typical rotation by pairs, in learning rates",
    )


def add_training(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the models and of their training."""
    parser.add_argument(
        "--loss", default="softmax", choices=["softmax", "cross-entropy"]
    )
    parser.add_argument(
        "--delta", type=float, default=0.0, help="of the cross-entropy"
    )
    parser.add_argument(
        "--inverse",
        action="store_true",
        help="heads by relations of their own, not by the same transposed",
    )
    parser.add_argument(
        "--constant",
        dest="falling",
        action="store_false",
        help="a constant rate",
    )
    parser.add_argument("--dimension", type=int, default=36)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument(
        "--shared",
        type=int,
        default=0,
        help="uniform entities that a batch shares; 0 compares with all "
        "entities",
    )
    parser.add_argument("--rate", type=float, default=0.02, help="Adam's")
    parser.add_argument(
        "--step",
        type=float,
        default=0.3,
        help="Adagrad's, of entities and biases with --shared",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=5.0,
        help="of the processor, for each model",
    )
    parser.add_argument("--epochs", type=int, help="instead of seconds")


def main() -> None:
    given = command_line().parse_args()
    graph = graph_of(given, np.random.default_rng(given.seed))
    numbers = f"{len(graph.train)} training and {len(graph.test)} test triples"
    print(
        f"{graph.n_entities} entities, {graph.n_relations} relations, "
        f"{numbers}",
        flush=True,
    )
    if given.ingredients:
        for title, changed in INGREDIENTS.items():
            changed_options = argparse.Namespace(**(vars(given) | changed))
            one = made(graph, "UltraE", changed_options)
            train({title: one}, given.verbose)
            report(title, one, changed_options)
        return
    trainings = {name: made(graph, name, given) for name in given.models}
    train(trainings, given.verbose)
    for name, one in trainings.items():
        report(name, one, given)


if __name__ == "__main__":
    main()
