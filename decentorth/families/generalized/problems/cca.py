"""Canonical correlation analysis over agents.

Agent i holds two views of its own N_i samples, A_i ``(N_i, n1)`` and B_i ``(N_i, n2)``; N is the
number of all samples. With

    C11_i = (n/N) A_i^T A_i,    C12_i = (n/N) A_i^T B_i,    C22_i = (n/N) B_i^T B_i

the means over the n agents, C11, C12 and C22, are the covariances of all samples, however these are
divided. A point is [X; Y], stacked by rows, and

    f_i(X, Y) = -tr(X^T C12_i Y),    G_i(X, Y) = [-C12_i Y; -C12_i^T X]

is minimised over X^T (C11 + r1 I) X = I, Y^T (C22 + r2 I) Y = I: equation (4) of paper 003 (Vary,
Ablin, Gao, Absil, "Optimization without retraction on the random generalized Stiefel manifold",
ICML 2024), with ridges (Vinod, "Canonical ridge and econometrics of joint production", Journal of
Econometrics 1976). The least value is minus the sum of the p largest canonical correlations, the
singular values of (C11 + r1 I)^{-1/2} C12 (C22 + r2 I)^{-1/2}. No agent knows C11 or C22; each
knows its own C11_i + r1 I and C22_i + r2 I, whose means they are (`protocols.LocalProducts`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from decentorth.numerics.ordered_sums import sums
from decentorth.numerics.threads import one_thread
from decentorth.problems.base import AgentProblem, Selection, held, selected
from decentorth.problems.common.checks import AgentArrays, samples
from decentorth.problems.common.moments import packed, unpacked
from decentorth.problems.common.pooled_rows import HERE, Units, root_inverse
from decentorth.problems.common.rows import Runs
from decentorth.problems.loadable import Loadable
from decentorth.problems.stiefel.pca import subspace_distance
from decentorth.protocols import Array, Collective, Index
from decentorth.sets import Product
from decentorth.sets.retractions import plus
from decentorth.settings import NotNegative, check

from ..sets.generalized import GeneralizedStiefel
from ..sets.operators import SampleCovariance
from .covariances import (
    Canonical,
    Form,
    Samples,
    SecondMoments,
    canonical_correlations,
    column_basis,
    second_moments,
    suspect,
)
from .whitened import Whitened, from_both_sides

Pairs = list[tuple[Array, Array]]
"""The two views of each agent."""
_LARGEST_FORMED = 2000
"""The number of columns in a view above which a single agent's covariance is not formed and the
answer not computed."""


class CCA(AgentProblem[Any], Loadable):
    """Canonical correlations of two views of the samples of all agents.

        f_i(X, Y) = -(n/m) tr(X^T A_i^T B_i Y) over X^T (C11 + r1 I) X = Y^T (C22 + r2 I) Y = I

    The n agents have m samples in all. C11 and C22 are the covariances of all samples of each view.
    A point is X above Y.

    Parameters
    ----------
    A, B
        Lists or stacks of samples, ``(N_i, n1)`` and ``(N_i, n2)``, one matrix per agent each,
        whose rows are the two views of the same samples. They are not centred or
        scaled; `from_sites` and `from_loader` subtract means by default.
    rank
        The number p of pairs of canonical directions.
    ridge
        r1 and r2 are this share of the mean eigenvalues of C11 and C22.
    collective
        Pools the agents' samples over all processes, each of which must then make the problem.
        Without it all agents are here.
    names
        The names of the two views, with those of their columns, for errors; by default A and B,
        with numbers.

    Attributes
    ----------
    bases
        Empty, or without a ridge, where columns of a view depend on others, ``(n1, r1)`` and ``(n2,
        r2)``: X and Y are then coordinates in these bases of the views' column spaces, and `unpack`
        gives the directions of the columns.
    ridges
        r1 and r2.
    constraint
        The `Product` of two `GeneralizedStiefel` with the covariances of all samples: for measures,
        and for methods of one agent. For a single agent with more than 2000 columns in a view these
        are each a `SampleCovariance`, never formed.

    Raises
    ------
    ValueError
        When shapes do not fit, an entry is not finite, ``rank`` exceeds the rank of a view, or
        columns nearly depend on others.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> common = rng.standard_normal((200, 2))
    >>> first = common @ rng.standard_normal((2, 4)) + rng.standard_normal((200, 4))
    >>> A = np.array_split(first, 5)
    >>> other = common @ rng.standard_normal((2, 3)) + rng.standard_normal((200, 3))
    >>> B = np.array_split(other, 5)
    >>> problem = do.problems.CCA(A, B, 2)
    >>> result = do.solve(problem, do.CDADT(), "ring", iterations=300)
    >>> bool(result.history["error"][-1] < 1e-6)
    True
    """

    _arrays = 2
    columns = ((), ())
    _centers = True

    def __init__(
        self,
        A: AgentArrays,
        B: AgentArrays,
        rank: int,
        *,
        ridge: float = 0.0,
        n_agents: int | None = None,
        first_agent: int = 0,
        collective: Collective | None = None,
        names: Mapping[str, Sequence[object]] | None = None,
    ) -> None:
        pool = collective or HERE
        with pool.together():
            rows = _views(A, B, first_agent)
            ridge = check("ridge", NotNegative, ridge)
            if collective is None and (n_agents or len(rows)) != len(rows):
                raise ValueError(
                    f"{len(rows)} of {n_agents} agents are given, and the covariances of all are "
                    "needed: give all, or use CCA.from_loader, or pass the collective"
                )
        self.bases: list[Array] = []
        self._names = names or {"A": range(rows[0][0].shape[1]), "B": range(rows[0][1].shape[1])}
        self._build(rows, rank, ridge, n_agents or len(rows), first_agent, pool)

    def _build(
        self, rows: Pairs, rank: int, ridge: float, n: int, first_agent: int, pool: Collective
    ) -> None:
        self._rows = rows
        self.ridge = ridge
        self._widths = n1, n2 = rows[0][0].shape[1], rows[0][1].shape[1]
        self.n_samples: Index = np.array([len(a) for a, _ in rows], dtype=np.int64)
        total, first, second = pool.each(3, self._sizes()).tolist()
        columns = self._ridge_columns
        self.ridges = (ridge * first / (total * columns[0]), ridge * second / (total * columns[1]))
        self._weight = n / total

        self._pooled: tuple[Array, Array, Array] | None = None
        with one_thread():  # the bits of A_i^T B_i depend on the number of BLAS threads
            self._forms = Runs([self._form(a, b) for a, b in self._rows])
            for local, form in self._forms:
                if len(form) == 2:  # one copy of the samples is enough
                    self._rows[local] = zip(*form, strict=True)
            covariances: list[Any]
            if n == 1 and max(n1, n2) > _LARGEST_FORMED:
                views = zip(self._rows[0], self.ridges, strict=True)
                covariances = [SampleCovariance(view, r) for view, r in views]
            else:
                first = n1 * (n1 + 1) // 2
                cross = first + n1 * n2
                moments = pool.each(cross + n2 * (n2 + 1) // 2, self._covariances()) / n
                c11, c12, c22 = np.split(moments, (first, cross))
                covariances = [unpacked(c11, n1), unpacked(c22, n2)]
                for c, r in zip(covariances, self.ridges, strict=True):
                    plus(c[None], r)
                if max(n1, n2) <= _LARGEST_FORMED:
                    self._pooled = (covariances[0], c12.reshape(n1, n2), covariances[1])
                    if ridge == 0.0 and not self.bases and any(map(suspect, covariances)):
                        rows = self._in_bases(rank, int(total), pool)
                        return self._build(rows, rank, ridge, n, first_agent, pool)
            constraint = Product(*[GeneralizedStiefel(c, rank) for c in covariances])
        self.error_name = "" if self._pooled is None else "correlation_gap"
        super().__init__(*held(rows, n, first_agent), constraint)

    @property
    def _ridge_columns(self) -> tuple[int, int]:
        """The numbers of columns over which ridges are shares of the mean eigenvalues."""
        return self._widths

    def _in_bases(self, rank: int, count: int, pool: Collective) -> Pairs:
        """The views of each agent in bases of the column spaces; sets ``bases``."""
        views = zip(zip(*self._rows, strict=True), self._names.items(), strict=True)
        self.bases = [column_basis(view, count, pool, *name) for view, name in views]
        most = min(basis.shape[1] for basis in self.bases)
        if rank > most:
            raise ValueError(
                f"the smaller view has rank {most}, so there are no {rank} canonical "
                f"correlations: ask for {most}"
            )
        first, second = self.bases
        return [(a @ first, b @ second) for a, b in self._rows]

    @classmethod
    def _of_all(
        cls, data: list[Array], collective: Collective, units: Sequence[Units]
    ) -> dict[str, object]:
        return {"collective": collective}

    def _form(self, a: Array, b: Array) -> tuple[Array, ...]:
        """An agent's samples, or its covariances where these take fewer flops to multiply with."""
        if forms_moments(len(a), a.shape[1], b.shape[1]):
            return second_moments(a, b, self._weight)
        return a, b

    def _runs(self) -> Iterator[tuple[slice, Form]]:
        """The runs of consecutive local agents in the same form."""
        for local, arrays in self._forms:
            yield (
                local,
                Samples(*arrays, self._weight) if len(arrays) == 2 else SecondMoments(*arrays),
            )

    def _sizes(self) -> Iterator[Array]:
        """N_i, ||A_i||_F^2 and ||B_i||_F^2 of each agent; without a ridge only N_i are needed."""
        for a, b in self._rows:
            squares = [0.0, 0.0]
            if self.ridge:
                squares = [sums((view * view)[None])[0] for view in (a, b)]
            yield np.array([len(a), *squares])

    def _covariances(self) -> Iterator[Array]:
        """The triangle of C11_i, C12_i and the triangle of C22_i of each agent, flattened."""
        for _, form in self._runs():
            for c11, c12, c22 in form.moments():
                yield np.concatenate((packed(c11[None])[0], c12.reshape(-1), packed(c22[None])[0]))

    @cached_property
    def whitened(self) -> Whitened | None:
        """A single agent's problem of the singular vectors of U1^{-T} C12 U2^{-1}; None with more
        than 2000 columns in a view."""
        if self.n_agents != 1 or self._pooled is None:
            return None
        with one_thread():  # the bits depend on the number of BLAS threads
            first, second = [part.operator.factors[0] for part in self.constraint.parts]
            cross = from_both_sides(first, -self._pooled[1], second)
        return Whitened(partial(_both_sides, cross), [first, second], self.shape[1])

    def _take(self, local: Selection) -> None:
        self._rows = selected(self._rows, local)
        self.n_samples, self._forms = self.n_samples[local], self._forms.take(local)

    def _cross(self, forms: Iterator[tuple[slice, Form]], x: Array) -> Array:
        """[-C12_i Y_i; -C12_i^T X_i], stacked by rows like ``x``."""
        image = np.empty_like(x)
        n1 = self._widths[0]
        for local, form in forms:
            image[local, :n1], image[local, n1:] = form.cross(x[local, :n1], x[local, n1:])
        return np.negative(image, out=image)

    def _drawn(self, batch: Index) -> Iterator[tuple[slice, Samples]]:
        """The samples ``batch`` of each agent, weighted such that their moments estimate those of
        all its samples."""
        for i, ((a, b), own) in enumerate(zip(self._rows, batch, strict=True)):
            weight = self._weight * len(a) / len(own)
            yield slice(i, i + 1), Samples(a.take(own, 0)[None], b.take(own, 0)[None], weight)

    def _own(self, forms: Iterator[tuple[slice, Form]], x: Array) -> Array:
        """[(C11_i + r1 I) X_i; (C22_i + r2 I) Y_i], stacked by rows like ``x``."""
        image = np.empty_like(x)
        n1 = self._widths[0]
        for local, form in forms:
            image[local, :n1], image[local, n1:] = form.own(x[local, :n1], x[local, n1:])
        for rows, r in zip(self.constraint.rows, self.ridges, strict=True):
            if r > 0.0:
                image[:, rows] += r * x[:, rows]
        return image

    def value(self, x: Array) -> Array:
        """``(n_local,)``: -tr(X_i^T C12_i Y_i)."""
        return 0.5 * sums(x * self.gradient(x))

    def gradient(self, x: Array) -> Array:
        """``(n_local, n1 + n2, p)``: [-C12_i Y_i; -C12_i^T X_i]."""
        return self._cross(self._runs(), x)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, n1 + n2, p)``: the gradient from the samples ``batch``, ``(n_local, b)``
        numbers within each agent."""
        return self._cross(self._drawn(batch), x)

    def product_on(self, x: Array, batch: Index) -> Array:
        """Return `local_product` from the samples ``batch``, ``(n_local, n1 + n2, p)``.

        ``batch`` is ``(n_local, b)``.
        """
        return self._own(self._drawn(batch), x)

    def matrices_on(self, batch: Index) -> Array:
        """``(n_local, n1 + n2, max(n1, n2))``: C11_i + r1 I and C22_i + r2 I from the samples
        ``batch``, ``(n_local, b)``."""
        out = np.zeros((self.n_local, sum(self._widths), max(self._widths)))
        for local, form in self._drawn(batch):
            for rows, r, view in zip(self.constraint.rows, self.ridges, form[:2], strict=True):
                own = form.weight * (view.swapaxes(-1, -2) @ view)
                out[local, rows, : view.shape[-1]] = plus(own, r)
        return out

    def local_product(self, x: Array) -> Array:
        """``(n_local, n1 + n2, p)``: [(C11_i + r1 I) X_i; (C22_i + r2 I) Y_i]."""
        return self._own(self._runs(), x)

    def local_diagonal(self) -> Array:
        """``(n_local, n1 + n2)``: the diagonals of C11_i + r1 I and C22_i + r2 I."""
        out = np.empty((self.n_local, sum(self._widths)))
        first, second = self.constraint.rows
        for local, form in self._runs():
            out[local, first], out[local, second] = form.diagonals()
        for rows, r in zip((first, second), self.ridges, strict=True):
            out[:, rows] += r
        return out

    @cached_property
    def lipschitz(self) -> Array:
        """``(n_local,)``: L_i = ||C12_i||_2."""
        out = np.empty(self.n_local)
        for local, form in self._runs():
            out[local] = form.norms()
        return out

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """X and Y, the directions of the columns."""
        first, second = self.constraint.split(x)
        if self.bases:
            first = self.bases[0] @ first
            second = self.bases[1] @ second
        return {"x": first, "y": second}

    def pooled(self) -> CCA:
        """The mean of the agents' objectives as the objective of a single agent that has all
        samples; all agents must be here."""
        self._check_whole()
        pooled = object.__new__(CCA)
        pooled.bases = self.bases
        pooled._names = self._names
        first, second = (np.concatenate(views) for views in zip(*self._rows, strict=True))
        pooled._build([(first, second)], self.shape[1], self.ridge, 1, 0, HERE)
        return pooled

    n_moments = 0

    def agent_moments(self) -> Array:
        """``(n_local, 0)``: all agents know C11, C12 and C22."""
        self._moments()
        return np.empty((self.n_local, 0))

    def from_moments(self, sums: Array) -> CCA:
        """The mean of all agents' objectives as the problem of one agent."""
        alone = self._copied()
        alone.n_agents = 1
        alone.agents = slice(0, 1)
        alone._blocks = None
        c11, c12, c22 = [c.copy() for c in self._moments()]
        for c, r in zip((c11, c22), self.ridges, strict=True):
            plus(c[None], -r)
        alone._forms = Runs([(c11, c12, c22)])
        return alone

    def answer(self) -> Array:
        """The leading canonical directions of a single agent's views, stacked by rows."""
        return np.concatenate([basis[:, : self.shape[1]] for basis in self.optimum[1:]])

    @cached_property
    def optimum(self) -> Canonical:
        """All canonical correlations of the pooled samples, with the ridges, and their directions;
        up to 2000 columns in a view."""
        with one_thread():
            return canonical_correlations(*self._moments())

    @property
    def optimal_value(self) -> float | None:  # type: ignore[override]
        """Minus the sum of the p largest canonical correlations; None for more than 2000 columns in
        a view."""
        if self._pooled is None:
            return None
        return -float(self.optimum.correlations[: self.shape[1]].sum(-1))

    def correlations(self, xhat: Array) -> Array:
        """``(p,)``: the canonical correlations, largest first, within the column spaces of a
        feasible point's X and Y.

        NaN where the point is not finite; a ValueError for more than 2000 columns in a view.
        """
        x, y = self.constraint.split(xhat)
        product = x.T @ self._moments()[1] @ y
        if not np.isfinite(np.abs(product).max((-2, -1))):
            return np.full(len(product), np.nan)
        return np.linalg.svd(product, compute_uv=False)

    def error(self, xhat: Array) -> float:
        """``correlation_gap``: the sum of the p largest canonical correlations, minus the sum of
        those of ``xhat``.

        It depends on the column spaces of X and Y only, and is of second order in their distance
        from the answer. Rounding can make it negative.
        """
        return float((self.optimum.correlations[: self.shape[1]] - self.correlations(xhat)).sum(-1))

    def subspace_error(self, xhat: Array) -> float:
        """The distances of ``[X; Y]`` from the closest bases of the p leading canonical directions,
        in the metric of the set.

        The root of the sum of the squares of ||X - U R||, R orthogonal, in the norm tr(u^T (C11 +
        r1 I) u), and the same of Y. It is meaningless where the p-th and the next correlation are
        equal.
        """
        p = self.shape[1]
        distances = []
        points = self.constraint.split(xhat)
        bases = self.optimum[1:]
        for part, basis, point in zip(self.constraint.parts, bases, points, strict=True):
            half = np.linalg.inv(root_inverse(part.operator.stack[0], len(basis)))
            distances.append(subspace_distance(half @ point, half @ basis[:, :p]))
        return math.hypot(*distances)

    def _moments(self) -> tuple[Array, Array, Array]:
        if self._pooled is None:
            n1, n2 = self._widths
            raise ValueError(
                f"the covariances of views with {n1} and {n2} columns are not formed, and the "
                f"canonical correlations not known: that is done up to {_LARGEST_FORMED} columns"
            )
        return self._pooled


def forms_moments(m: int, n1: int, n2: int) -> bool:
    """True if an agent with m samples keeps the covariances of its views.

    n1 and n2 are the numbers of columns of the views.
    """
    return max(n1, n2) <= _LARGEST_FORMED and m * (n1 + n2) >= n1 * n2


def _both_sides(cross: Array, y: Array) -> Array:
    """The products of the cross moments with the second rows of a point, and of their transpose
    with the first."""
    first, second = np.split(y, [len(cross)], axis=1)
    return np.concatenate((cross @ second, cross.T @ first), axis=1)


def _views(A: AgentArrays, B: AgentArrays, first_agent: int) -> Pairs:
    """The two views of each agent, checked."""
    (first, _), (second, _) = samples("A", A, first_agent), samples("B", B, first_agent)
    if len(first) != len(second):
        raise ValueError(
            f"A and B must hold a matrix for each agent, got {len(first)} and {len(second)}"
        )
    pairs = list(zip(first, second, strict=True))
    for agent, (a, b) in enumerate(pairs, first_agent):
        if len(a) != len(b):
            raise ValueError(
                f"A and B must have a row for each sample, but those of agent {agent} "
                f"have {len(a)} and {len(b)} rows: row k of both is the same sample"
            )
    return pairs
