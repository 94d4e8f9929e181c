"""Canonical correlation analysis over agents.

Agent i holds two views of its own N_i samples, A_i ``(N_i, n1)`` and B_i ``(N_i, n2)``; N is the number of all samples. With

    C11_i = (n/N) A_i^T A_i,    C12_i = (n/N) A_i^T B_i,    C22_i = (n/N) B_i^T B_i

the means over the n agents, C11, C12 and C22, are the covariances of all samples, however these are divided. A point is [X; Y],
stacked by rows, and

    f_i(X, Y) = -tr(X^T C12_i Y),    G_i(X, Y) = [-C12_i Y; -C12_i^T X]

is minimised over X^T (C11 + r1 I) X = I, Y^T (C22 + r2 I) Y = I: equation (4) of paper 003 (Vary, Ablin, Gao, Absil, "Optimization
without retraction on the random generalized Stiefel manifold", ICML 2024), with ridges (Vinod, "Canonical ridge and econometrics of
joint production", Journal of Econometrics 1976). The least value is minus the sum of the p largest canonical correlations, the
singular values of (C11 + r1 I)^{-1/2} C12 (C22 + r2 I)^{-1/2}. No agent knows C11 or C22; each knows its own C11_i + r1 I and
C22_i + r2 I, whose means they are (`protocols.LocalProducts`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ..protocols import Array, Collective, Index
from ..sets import GeneralizedStiefel, Product, SampleCovariance
from ..sets.operators import LinearOperator
from ..sums import sums
from .base import AgentProblem, Deferred, Selection, selected
from .checks import matrices, same_columns
from .division import check_alpha, divided, divided_alike
from .generated import stream
from .pca import subspace_distance
from .pooled import centered, mean_squares, root_inverse
from .runs import Runs

_LARGEST_FORMED = 2000
"""A view with more columns than this: a single agent's covariance is never formed, and the answer is not computed."""
_SHORT = 200
"""Agents that keep their samples and have up to so many find their Lipschitz constants from triangular factors."""


class Canonical(NamedTuple):
    """The canonical correlations ``(k,)``, k = min(n1, n2), largest first, and their directions, ``(n1, k)`` and ``(n2, k)``:
    x^T C11 x = I, y^T C22 y = I, x^T C12 y = diag(correlations)."""

    correlations: Array
    x: Array
    y: Array


def canonical_correlations(c11: Array, c12: Array, c22: Array) -> Canonical:
    """From the covariances ``(n1, n1)``, ``(n1, n2)`` and ``(n2, n2)``: the singular values of C11^{-1/2} C12 C22^{-1/2}.

    Raises
    ------
    ValueError
        Where C11 or C22 is singular.
    """
    left, right = root_inverse(c11, len(c11)), root_inverse(c22, len(c22))
    u, values, vt = np.linalg.svd(left.T @ c12 @ right, full_matrices=False)
    return Canonical(values, np.ascontiguousarray(left @ u), np.ascontiguousarray(right @ vt.T))


class _Samples(NamedTuple):
    """Agents that keep their samples, ``(k, m, n1)`` and ``(k, m, n2)``, and the weight of a sample."""

    a: Array
    b: Array
    weight: float

    def cross(self, x: Array, y: Array) -> tuple[Array, Array]:
        """C12_i y and C12_i^T x."""
        u, v = self._images(x, y)
        return self.a.swapaxes(-1, -2) @ v, self.b.swapaxes(-1, -2) @ u

    def own(self, x: Array, y: Array) -> tuple[Array, Array]:
        """C11_i x and C22_i y."""
        u, v = self._images(x, y)
        return self.a.swapaxes(-1, -2) @ u, self.b.swapaxes(-1, -2) @ v

    def _images(self, x: Array, y: Array) -> tuple[Array, Array]:
        u, v = self.a @ x, self.b @ y
        u *= self.weight
        v *= self.weight
        return u, v

    def diagonals(self) -> tuple[Array, Array]:
        """``(k, n1)`` and ``(k, n2)``: those of C11_i and C22_i."""
        return self.weight * (self.a * self.a).sum(1), self.weight * (self.b * self.b).sum(1)

    def norms(self) -> Array:
        """``(k,)``: ||C12_i||_2."""
        if self.a.shape[1] > _SHORT:
            return np.array([_norm(_Samples(a[None], b[None], self.weight)) for a, b in zip(self.a, self.b, strict=True)])
        r = np.linalg.qr(self.a.swapaxes(-1, -2)).R  # A_i^T = Q R
        s = np.linalg.qr(self.b.swapaxes(-1, -2)).R
        norm: Array = np.linalg.norm(r @ s.swapaxes(-1, -2), 2, axis=(-2, -1))
        return self.weight * norm

    def moments(self) -> Iterator[tuple[Array, ...]]:
        """C11_i, C12_i and C22_i of each agent."""
        return (_second_moments(a, b, self.weight) for a, b in zip(self.a, self.b, strict=True))


class _Square(NamedTuple):
    """C12_i^T C12_i of one agent that keeps its samples, as a ``scipy.sparse.linalg.LinearOperator``."""

    samples: _Samples
    shape: tuple[int, int]

    def matmat(self, y: Array) -> Array:
        """Its product with ``(n2, k)``."""
        a, b, weight = self.samples
        image: Array = b[0].T @ (a[0] @ (a[0].T @ (b[0] @ y)))
        return weight * weight * image


def _norm(samples: _Samples) -> float:
    """||C12_i||_2 of one agent, or a close bound on it."""
    n2 = samples.b.shape[-1]
    return math.sqrt(LinearOperator(_Square(samples, (n2, n2))).largest)


class _Moments(NamedTuple):
    """Agents that keep C11_i, C12_i and C22_i, ``(k, n1, n1)``, ``(k, n1, n2)`` and ``(k, n2, n2)``."""

    c11: Array
    c12: Array
    c22: Array

    def cross(self, x: Array, y: Array) -> tuple[Array, Array]:
        """C12_i y and C12_i^T x."""
        return self.c12 @ y, self.c12.swapaxes(-1, -2) @ x

    def own(self, x: Array, y: Array) -> tuple[Array, Array]:
        """C11_i x and C22_i y."""
        return self.c11 @ x, self.c22 @ y

    def diagonals(self) -> tuple[Array, Array]:
        """``(k, n1)`` and ``(k, n2)``: those of C11_i and C22_i."""
        return _diagonals(self.c11), _diagonals(self.c22)

    def norms(self) -> Array:
        """``(k,)``: ||C12_i||_2."""
        norm: Array = np.linalg.norm(self.c12, 2, axis=(-2, -1))
        return norm

    def moments(self) -> Iterator[tuple[Array, ...]]:
        """C11_i, C12_i and C22_i of each agent."""
        return zip(self.c11, self.c12, self.c22, strict=True)


_Form = _Samples | _Moments


class CCA(AgentProblem):
    """f_i(X, Y) = -tr(X^T C12_i Y) over St_{C11 + r1 I} x St_{C22 + r2 I}, a point being [X; Y].

    Parameters
    ----------
    A, B
        Lists or stacks of samples, ``(N_i, n1)`` and ``(N_i, n2)``, one matrix per agent each, whose rows are the two views of the
        same samples. Nothing is centred or scaled. What is already float64 and C-contiguous may be referred to rather than copied:
        leave it as it is.
    rank
        How many pairs of canonical directions p.
    ridge
        r1 and r2 are this share of the mean eigenvalues of C11 and C22.
    n_agents, first_agent
        When only some agents are given: how many there are, and the global number of the first one here.
    collective
        Pools their samples with the others'; then every process must make the problem. Without it all agents are here.

    Attributes
    ----------
    ridges
        r1 and r2.
    constraint
        The `Product` of two `GeneralizedStiefel` with the covariances of all samples: for measures, and for methods of one agent.
        For a single agent with more than 2000 columns in a view these are each a `SampleCovariance`, never formed.

    Raises
    ------
    ValueError
        When shapes do not fit, an entry is not finite, ``rank`` exceeds n1 or n2, or a covariance with its ridge is singular.
    """

    constraint: Any

    def __init__(
        self,
        A: Sequence[Array] | Array,
        B: Sequence[Array] | Array,
        rank: int,
        *,
        ridge: float = 0.0,
        n_agents: int | None = None,
        first_agent: int = 0,
        collective: Collective | None = None,
    ) -> None:
        with contextlib.nullcontext() if collective is None else collective.together():
            rows = _views(A, B, ridge, n_agents, first_agent, collective)
        self._build(rows, rank, ridge, n_agents or len(rows), first_agent, _here if collective is None else collective.fold)

    def _build(
        self, rows: list[tuple[Array, Array]], rank: int, ridge: float, n: int, first_agent: int, fold: Callable[..., Array]
    ) -> None:
        self._rows, self.ridge = rows, ridge
        self._widths = n1, n2 = rows[0][0].shape[1], rows[0][1].shape[1]
        self.n_samples: Index = np.array([len(a) for a, _ in rows], dtype=np.int64)
        total, first, second = fold(3, self._add_sizes).tolist()
        self.ridges = (ridge * first / (total * n1), ridge * second / (total * n2))
        self._weight = n / total

        self._pooled: tuple[Array, Array, Array] | None = None
        with threadpool_limits(1):  # the bits of A_i^T B_i depend on the number of BLAS threads
            self._forms = Runs([self._form(a, b) for a, b in self._rows])
            for local, form in self._runs():
                if isinstance(form, _Samples):  # one copy of the samples is enough
                    self._rows[local] = zip(form.a, form.b, strict=True)
            covariances: list[Any]
            if n == 1 and max(n1, n2) > _LARGEST_FORMED:
                covariances = [SampleCovariance(view, r) for view, r in zip(self._rows[0], self.ridges, strict=True)]
            else:
                c11, c12, c22 = np.split(fold(n1 * n1 + n1 * n2 + n2 * n2, self._add_moments) / n, (n1 * n1, n1 * (n1 + n2)))
                covariances = [c11.reshape(n1, n1), c22.reshape(n2, n2)]
                for c, r in zip(covariances, self.ridges, strict=True):
                    _diagonals(c[None])[...] += r
                if max(n1, n2) <= _LARGEST_FORMED:
                    self._pooled = (covariances[0], c12.reshape(n1, n2), covariances[1])
            constraint = Product(*[GeneralizedStiefel(c, rank) for c in covariances])
        self.error_name = "" if self._pooled is None else "correlation_gap"
        super().__init__(n, slice(first_agent, first_agent + len(rows)), constraint)

    @staticmethod
    def from_loader(loader: Callable[[int], tuple[Array, Array]], n_agents: int, rank: int, *, ridge: float = 0.0) -> Deferred:
        """A problem whose ranks each load their own agents: ``loader(agent) -> (A_i, B_i)``."""

        def build(agents: slice, collective: Collective) -> CCA:
            with collective.together():
                loaded = [loader(agent) for agent in range(agents.start, agents.stop)]
            first, second = [a for a, _ in loaded], [b for _, b in loaded]
            return CCA(first, second, rank, ridge=ridge, n_agents=n_agents, first_agent=agents.start, collective=collective)

        return Deferred(n_agents, build)

    def _form(self, a: Array, b: Array) -> tuple[Array, ...]:
        """An agent's samples, or its covariances where these take fewer flops to multiply with."""
        (m, n1), n2 = a.shape, b.shape[1]
        keep = max(n1, n2) > _LARGEST_FORMED or m * (n1 + n2) < n1 * n2
        return (a, b) if keep else _second_moments(a, b, self._weight)

    def _runs(self) -> Iterator[tuple[slice, _Form]]:
        """Runs of local agents in the same form."""
        for local, arrays in self._forms:
            yield local, _Samples(*arrays, self._weight) if len(arrays) == 2 else _Moments(*arrays)

    def _add_sizes(self, total: Array) -> None:
        """N_i, ||A_i||_F^2 and ||B_i||_F^2 of each agent in turn."""
        for a, b in self._rows:
            total += (len(a), *[sums((view * view)[None])[0] for view in (a, b)])

    def _add_moments(self, total: Array) -> None:
        """C11_i, C12_i and C22_i of each agent in turn, flat."""
        for _, form in self._runs():
            for moments in form.moments():
                total += np.concatenate([c.reshape(-1) for c in moments])

    def _take(self, local: Selection) -> None:
        self.n_samples, self._rows, self._forms = self.n_samples[local], selected(self._rows, local), self._forms.take(local)
        self.__dict__.pop("lipschitz", None)

    def _stacked(self, products: Callable[[_Form, Array, Array], tuple[Array, Array]], x: Array) -> Array:
        """Like x: two products of each agent, stacked by rows."""
        out, n1 = np.empty_like(x), self._widths[0]
        for local, form in self._runs():
            out[local, :n1], out[local, n1:] = products(form, x[local, :n1], x[local, n1:])
        return out

    def _stacked_on(self, products: Callable[[_Form, Array, Array], tuple[Array, Array]], x: Array, batch: Index) -> Array:
        """The same with the covariances of the samples ``batch``."""
        out, n1 = np.empty_like(x), self._widths[0]
        for i, form in enumerate(self._drawn(batch)):
            out[i : i + 1, :n1], out[i : i + 1, n1:] = products(form, x[i : i + 1, :n1], x[i : i + 1, n1:])
        return out

    def _drawn(self, batch: Index) -> Iterator[_Samples]:
        """Of each agent the samples ``batch``, their weights such that the mean is that of all samples."""
        for (a, b), own in zip(self._rows, batch, strict=True):
            yield _Samples(a.take(own, 0)[None], b.take(own, 0)[None], self._weight * len(a) / len(own))

    def _with_ridges(self, image: Array, x: Array) -> Array:
        """``image`` + [r1 X; r2 Y], in place."""
        for rows, r in zip(self.constraint.rows, self.ridges, strict=True):
            if r > 0.0:
                image[:, rows] += r * x[:, rows]
        return image

    def value(self, x: Array) -> Array:
        """``(n_local,)``: -tr(X_i^T C12_i Y_i)."""
        return 0.5 * sums(x * self.gradient(x))

    def gradient(self, x: Array) -> Array:
        """``(n_local, n1 + n2, p)``: [-C12_i Y_i; -C12_i^T X_i]."""
        image = self._stacked(lambda form, x, y: form.cross(x, y), x)
        return np.negative(image, out=image)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, n1 + n2, p)``: the gradient from the samples ``batch``, ``(n_local, b)`` numbers within each agent."""
        image = self._stacked_on(lambda form, x, y: form.cross(x, y), x, batch)
        return np.negative(image, out=image)

    def product_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, n1 + n2, p)``: `local_product` from the samples ``batch``, ``(n_local, b)``."""
        return self._with_ridges(self._stacked_on(lambda form, x, y: form.own(x, y), x, batch), x)

    def matrices_on(self, batch: Index) -> Array:
        """``(n_local, n1 + n2, max(n1, n2))``: C11_i + r1 I and C22_i + r2 I from the samples ``batch``, ``(n_local, b)``."""
        out = np.zeros((self.n_local, sum(self._widths), max(self._widths)))
        for own, form in zip(out, self._drawn(batch), strict=True):
            for rows, r, view in zip(self.constraint.rows, self.ridges, form[:2], strict=True):
                c = form.weight * (view.swapaxes(-1, -2) @ view)
                _diagonals(c)[...] += r
                own[rows, : view.shape[-1]] = c[0]
        return out

    def local_product(self, x: Array) -> Array:
        """``(n_local, n1 + n2, p)``: [(C11_i + r1 I) X_i; (C22_i + r2 I) Y_i]."""
        return self._with_ridges(self._stacked(lambda form, x, y: form.own(x, y), x), x)

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
        """X and Y, as views."""
        first, second = self.constraint.split(x)
        return {"x": first, "y": second}

    def pooled(self) -> CCA:
        """The mean of the agents' objectives as one agent's, who has all samples.

        Raises
        ------
        ValueError
            Unless all agents are in this process.
        """
        if self.n_local != self.n_agents:
            raise ValueError(f"pooled() needs all {self.n_agents} agents, but only {self.n_local} are in this process")
        pooled = object.__new__(CCA)
        first, second = (np.concatenate(views) for views in zip(*self._rows, strict=True))
        pooled._build([(first, second)], self.shape[1], self.ridge, 1, 0, _here)
        return pooled

    @cached_property
    def optimum(self) -> Canonical:
        """All canonical correlations of the pooled samples, with the ridges, and their directions.

        Raises
        ------
        ValueError
            For more than 2000 columns in a view.
        """
        with threadpool_limits(1):
            return canonical_correlations(*self._moments())

    @property
    def optimal_value(self) -> float | None:
        """Minus the sum of the p largest canonical correlations; None for more than 2000 columns in a view."""
        return None if self._pooled is None else -float(self.optimum.correlations[: self.shape[1]].sum(-1))

    def correlations(self, xhat: Array) -> Array:
        """``(p,)``: the canonical correlations, largest first, within the column spaces of a feasible point's X and Y.

        NaN where the point is not finite.

        Raises
        ------
        ValueError
            For more than 2000 columns in a view.
        """
        x, y = self.constraint.split(xhat)
        product = x.T @ self._moments()[1] @ y
        if not np.isfinite(np.abs(product).max((-2, -1))):
            return np.full(len(product), np.nan)
        found: Array = np.linalg.svd(product, compute_uv=False)
        return found

    def error(self, xhat: Array) -> float:
        """``correlation_gap``: what the p largest canonical correlations add up to, less what those of ``xhat`` do.

        It sees the column spaces of X and Y only, and is of second order in their distance from the answer. Rounding can make it
        negative.
        """
        return float((self.optimum.correlations[: self.shape[1]] - self.correlations(xhat)).sum(-1))

    def subspace_error(self, xhat: Array) -> float:
        """The distances of ``[X; Y]`` from the closest bases of the p leading canonical directions, in the metric of the set.

        The root of the sum of the squares of ||X - U R||, R orthogonal, in the norm tr(u^T (C11 + r1 I) u), and the same of Y. It
        has no meaning where the p-th and the next correlation are equal.
        """
        p = self.shape[1]
        distances = []
        for part, basis, point in zip(self.constraint.parts, self.optimum[1:], self.constraint.split(xhat), strict=True):
            half = np.linalg.inv(root_inverse(part.operator.stack[0], len(basis)))
            distances.append(subspace_distance(half @ point, half @ basis[:, :p]))
        return math.hypot(*distances)

    def _moments(self) -> tuple[Array, Array, Array]:
        if self._pooled is None:
            raise ValueError(
                f"the covariances of views with {self._widths[0]} and {self._widths[1]} columns are not formed, and the canonical "
                f"correlations are not known: that is done up to {_LARGEST_FORMED} columns"
            )
        return self._pooled


def _views(
    A: Any, B: Any, ridge: float, n_agents: int | None, first_agent: int, collective: Collective | None
) -> list[tuple[Array, Array]]:
    """The two views of each agent, checked."""
    first, second = matrices("A", A, first_agent), matrices("B", B, first_agent)
    same_columns("A", first, first_agent)
    same_columns("B", second, first_agent)
    if len(first) != len(second):
        raise ValueError(f"A and B must hold a matrix for each agent, got {len(first)} and {len(second)}")
    for agent, (a, b) in enumerate(zip(first, second, strict=True), first_agent):
        if len(a) != len(b):
            raise ValueError(
                f"A and B must have a row for each sample, but those of agent {agent} have {len(a)} and {len(b)} rows: "
                "row k of both is the same sample"
            )
    if not (math.isfinite(ridge) and ridge >= 0.0):
        raise ValueError(f"ridge must be finite and not negative, got {ridge}")
    if collective is None and (n_agents or len(first)) != len(first):
        raise ValueError(
            f"{len(first)} of {n_agents} agents are given, and the covariances of all are needed: give all, or use "
            "CCA.from_loader, or pass the collective with which the processes add up theirs"
        )
    return list(zip(first, second, strict=True))


def _here(size: int, add: Callable[[Array], None]) -> Array:
    """`Collective.fold` where all agents are here."""
    total = np.zeros(size)
    add(total)
    return total


def _second_moments(a: Array, b: Array, weight: float) -> tuple[Array, Array, Array]:
    """``weight`` times a^T a, a^T b and b^T b."""
    return weight * (a.T @ a), weight * (a.T @ b), weight * (b.T @ b)


def _diagonals(stack: Array) -> Array:
    """``(k, n)``: a view of the diagonals of a stack of square matrices."""
    return stack.reshape(len(stack), -1)[:, :: stack.shape[-1] + 1]


@dataclass(frozen=True, kw_only=True)
class CCASettings:
    """Canonical correlations of two views of real data, its samples divided over the agents, or of generated data.

    Parameters
    ----------
    data
        Images, whose left and right halves are the two views: the name of bundled data (digits) or a file with one image per row
        (idx and others). With data_y the first view itself. Or synthetic: Gaussian views with shared factors.
    data_y
        A file with the second view, row for row the samples of data.
    rank
        How many pairs of canonical directions.
    ridge
        Added to the diagonals of the covariances, as a share of their mean eigenvalue: it bounds their condition.
    width
        Pixels in a row of an image; by default images are square.
    drop_constant
        Columns whose variance is at most this share of their view's mean variance are left out.
    center
        Subtract the mean of all samples first.
    scale
        Divide by standard deviations over all samples: columns, each column by its own; view, a view by the root of its columns'
        mean variance; or none.
    partition
        How samples are divided: even, by-label (each agent sees few labels) or dirichlet (shares of each label drawn at random).
    labels
        File with one label per sample, for by-label and dirichlet; bundled data and svmlight files bring their own.
    dirichlet_alpha
        Concentration of dirichlet: small is heterogeneous, large is even.
    shuffle
        Shuffle the samples by the seed before an even division; otherwise consecutive rows.
    samples
        Samples of each agent (synthetic data).
    dimension, dimension_y
        Columns of the two views (synthetic data).
    correlation, decay
        The canonical correlations of the distribution are correlation decay^k, k = 0, 1, ... (synthetic data).
    condition
        Of the covariances of the distribution, whose eigenvalues fall geometrically (synthetic data).
    heterogeneity
        Standard deviation of the logarithms by which each agent stretches each pair of factors; the correlations of the
        distribution of all samples are the same in any case (synthetic data).
    """

    data: str = "digits"
    data_y: str | None = None
    rank: int = 5
    ridge: float = 0.01
    width: int | None = None
    drop_constant: float = 1e-3
    center: bool = True
    scale: Literal["columns", "view", "none"] = "columns"
    partition: Literal["even", "by-label", "dirichlet"] = "even"
    labels: str | None = None
    dirichlet_alpha: float = 0.5
    shuffle: bool = True
    samples: int = 1000
    dimension: int = 10
    dimension_y: int = 10
    correlation: float = 0.9
    decay: float = 0.8
    condition: float = 10.0
    heterogeneity: float = 0.0

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise ValueError(f"rank must be at least 1, got {self.rank}")
        check_alpha(self.dirichlet_alpha)
        for name in ("ridge", "drop_constant", "heterogeneity"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) >= 0.0):
                raise ValueError(f"{name} must be finite and not negative, got {getattr(self, name)}")
        if self.width is not None and self.width < 2:
            raise ValueError(f"width must be at least 2 pixels, a left and a right one, got {self.width}")
        if self.data_y is not None and (self.data == "synthetic" or self.width is not None):
            raise ValueError(
                "data_y goes with a file in data, whose rows are then the first view: not with synthetic data, nor width"
            )
        if self.data == "synthetic":
            self._check_synthetic()

    def _check_synthetic(self) -> None:
        if not 1 <= self.rank <= min(self.dimension, self.dimension_y):
            raise ValueError(
                f"rank must be at most dimension and dimension_y, {self.dimension} and {self.dimension_y}, got {self.rank}"
            )
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, got {self.samples}")
        for name in ("correlation", "decay"):
            if not 0.0 < getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in (0, 1], got {getattr(self, name)}")
        if not (math.isfinite(self.condition) and self.condition >= 1.0):
            raise ValueError(f"condition must be finite and at least 1, got {self.condition}")

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem, to be built by each rank for its own agents."""

        def build(agents: slice, collective: Collective) -> CCA:
            with collective.together():
                views = self._generated(agents, seed) if self.data == "synthetic" else self._loaded(n_agents, agents, seed)
            first, second = [self._prepared(name, view, collective) for name, view in zip(("first", "second"), views, strict=True)]
            return CCA(
                first, second, self.rank, ridge=self.ridge, n_agents=n_agents, first_agent=agents.start, collective=collective
            )

        return Deferred(n_agents, build)

    def _prepared(self, name: str, view: list[Array], collective: Collective) -> list[Array]:
        """A view centred, scaled and without constant columns."""
        around = centered(view, collective)
        variances = mean_squares(around, collective)
        mean = float(sums(variances[None])[0]) / len(variances)
        kept = variances > self.drop_constant * mean
        if not mean > 0.0:
            raise ValueError(f"the {name} view is constant: all its {len(kept)} columns are the same in all samples")
        scales = {"view": np.full(len(kept), mean), "columns": variances, "none": np.ones(len(kept))}[self.scale]
        return [np.ascontiguousarray(a[:, kept] / np.sqrt(scales[kept])) for a in (around if self.center else view)]

    def _loaded(self, n_agents: int, agents: slice, seed: int) -> tuple[list[Array], list[Array]]:
        """Both views of the agents' samples, from files."""
        if self.data_y is None:
            return _halves(divided(self.data, self, n_agents, agents, seed), self.width)
        first, second = divided_alike((self.data, self.data_y), self, n_agents, agents, seed)
        return first, second

    def _generated(self, agents: slice, seed: int) -> tuple[list[Array], list[Array]]:
        """u_k = sqrt(c_k) z_k + sqrt(1 - c_k) e_k and v_k = sqrt(c_k) z_k + sqrt(1 - c_k) e'_k, mixed by a matrix for each view."""
        shared = stream(seed)
        mixings = [_mixing(n, self.condition, shared) for n in (self.dimension, self.dimension_y)]
        k = min(self.dimension, self.dimension_y)
        share = np.sqrt(self.correlation * self.decay ** np.arange(k))
        rest = np.sqrt(1.0 - share * share)
        views: tuple[list[Array], list[Array]] = ([], [])
        for agent in range(agents.start, agents.stop):
            rng = stream(seed, agent)
            stretch = np.exp(self.heterogeneity * rng.standard_normal(k))
            common = share * rng.standard_normal((self.samples, k))
            for view, mixing in zip(views, mixings, strict=True):
                factors = rng.standard_normal((self.samples, len(mixing)))
                factors[:, :k] *= rest
                factors[:, :k] += common
                factors[:, :k] *= stretch
                view.append(factors @ mixing)
        return views


def _mixing(n: int, condition: float, rng: np.random.Generator) -> Array:
    """``(n, n)``: a random rotation, a geometric diagonal from 1 to condition^{-1/2}, and another rotation."""
    first, second = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    mixing: Array = (first * np.geomspace(1.0, condition**-0.5, n)) @ second
    return mixing


def _halves(images: list[Array], width: int | None) -> tuple[list[Array], list[Array]]:
    """The left and the right halves of images, flattened; of an odd width the middle goes to the right.

    Raises
    ------
    ValueError
        Where rows of ``width`` pixels do not make up an image.
    """
    pixels = images[0].shape[1]
    across = math.isqrt(pixels) if width is None else width
    if pixels % across or (width is None and across * across != pixels) or across < 2:
        shape = "square" if width is None else f"made of rows of {width} pixels"
        raise ValueError(
            f"images of {pixels} pixels are not {shape}: give their width, or data_y with the second view in a file of its own"
        )
    grids = [image.reshape(len(image), -1, across) for image in images]
    left, right = (
        [np.ascontiguousarray(grid[:, :, half].reshape(len(grid), -1)) for grid in grids]
        for half in (slice(across // 2), slice(across // 2, None))
    )
    return left, right
