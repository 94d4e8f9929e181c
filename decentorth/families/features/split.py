"""Principal components, generalized eigenvectors and canonical correlations of samples whose
features are split over agents.

All agents hold the same m samples. Agent i holds some of their features: columns D_i of the data,
``(k, d_i)``, and the rows x_i of the point x that belong to them, ``(d_i, r)``. No agent holds x,
or the data. All three problems are

    minimise -1/2 tr(x^T M x)  over  {x : x^T B x = I},    M = D^T J D,    B = D^T E D + diag(ridge),    D x = sum_i D_i x_i

with D = [D_1 ... D_n], a symmetric J that scales and permutes the k rows, and a diagonal E of zeros
and ones:

    PCA     D = A / sqrt(m)                     J = I                    E = 0                    ridge 1
    GEVP    D = [Y; Z]                          J = I on the rows of Y   E = I on the rows of Z   ridge
    CCA     D = [U 0; 0 V] / sqrt(m)            J exchanges the views    E = I                    ridge of each view

(GEVP is Y^T Y v = w (Z^T Z + ridge I) v),

so that an agent needs of all others only the sum T = D x, ``(k, r)``, for its rows of M x = D^T J T
and B x = D^T E T + ridge x. The point of CCA is [u; v], and has both views' directions as rows; x^T
B x = I means u^T B_u u = v^T B_v v = I / 2 at the answer.

Agents with fewer features than others have rows of zeros at the end of their arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.sparse import issparse

from decentorth.numerics.definite import is_definite
from decentorth.numerics.ordered_sums import sums
from decentorth.numerics.threads import one_thread
from decentorth.problems.base import AgentProblem, Selection, stream
from decentorth.problems.common.checks import is_matrix, matrices
from decentorth.problems.common.division import DividedSettings, even_counts
from decentorth.problems.common.pooled_rows import Units
from decentorth.problems.deferred import Deferred, Outline, on_each_rank
from decentorth.protocols import Array, Collective, Index, Observed
from decentorth.sets import Euclidean
from decentorth.settings import check

_LARGEST_OPTIMUM = 3000
"""The number of features above which the answer is not computed and no error is reported."""
_LARGEST_DATA = 1 << 24
"""The number of entries of the data above which they are not brought together to compute the
answer."""


class Among(NamedTuple):
    """The place of this process's agents among all agents."""

    first_agent: int
    features: Sequence[tuple[int, ...]]
    """The numbers of features of each of all agents, one for each view."""

    @staticmethod
    def evenly(agents: slice, n_agents: int, *widths: int) -> Among:
        """The agents that share the features of views of these widths, as evenly as can be."""
        each = [even_counts(width, n_agents) for width in widths]
        return Among(agents.start, list(zip(*each, strict=True)))


class SplitPencil(AgentProblem[Euclidean]):
    """A generalized eigenvalue problem of which each agent has its own columns of D.

        f(x) = -1/2 tr(x^T D^T J D x) over x^T (D^T E D + diag(ridge)) x = I

    Parameters
    ----------
    columns
        D_i, ``(k, d_i)``, of each agent.
    ridge
        ``(d_i,)`` of each agent: the entries of the diagonal for its features; positive for PCA,
        where E is 0.
    partner, scale
        ``(k,)``: row j of J T is ``scale[j] * T[partner[j]]``.
    counted
        ``(k,)``: the diagonal of E.
    rank
        r, the number of columns of x.
    views
        ``(d_i,)`` of each agent: numbers of the blocks of rows of x whose spans the error compares,
        one by one.
    among
        The place of these agents, where the features of some agents only are given.

    Raises
    ------
    ValueError
        There are more columns of x than features, or an agent's own block of B is singular.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> samples = np.random.default_rng(0).standard_normal((60, 12))
    >>> problem = do.problems.SplitPCA(np.array_split(samples, 4, axis=1), 3)
    >>> isinstance(problem, do.problems.SplitPencil)
    True
    """

    def __init__(
        self,
        columns: Sequence[Array],
        ridge: Sequence[Array],
        partner: Index,
        scale: Array,
        counted: Array,
        rank: int,
        *,
        views: Sequence[Index] | None = None,
        among: Among | None = None,
    ) -> None:
        first, every = among or Among(0, [(one.shape[1],) for one in columns])
        widths = [sum(own) for own in every]
        width = max(widths)
        check_rank(rank, sum(widths))
        super().__init__(len(widths), slice(first, first + len(columns)), Euclidean(width, rank))
        self.features: Index = np.array([one.shape[1] for one in columns])
        """``(n_local,)``: d_i."""
        self._columns = np.zeros((len(columns), len(columns[0]), width))
        self.ridge: Array = np.ones((len(columns), width, 1))
        self._views = np.zeros((len(columns), width), dtype=np.int64)
        for i, one in enumerate(columns):
            self._columns[i, :, : one.shape[1]] = one
            self.ridge[i, : one.shape[1], 0] = ridge[i]
            self._views[i, : one.shape[1]] = 0 if views is None else views[i]
        self._partner = partner
        self._scale = scale[:, None]
        self._counted = counted[:, None]
        self.plain = not counted.any()
        """True if B is diagonal, as for PCA."""
        self._inverses = self._blocks_inverted()
        self.optimum: Array | None = None

    @property
    def present(self) -> Array:
        """``(n_local, most, 1)``: 1 for the rows of features, 0 for rows that only fill an agent's
        array."""
        own = np.arange(self.shape[0])[None] < self.features[:, None]
        return own[:, :, None].astype(np.float64)

    def products(self, x: Array) -> Array:
        """Return D_i x_i in a new array, ``(n_local, k, r)``."""
        return self._columns @ x

    def adjoint(self, image: Array) -> Array:
        """Return D_i^T times ``image``, ``(n_local, k, r)``, in a new array, ``(n_local, most,
        r)``."""
        return self._columns.transpose(0, 2, 1) @ image

    def objective_rows(self, image: Array) -> Array:
        """Return J times ``image``, ``(..., k, r)``, in a new array of the same shape."""
        return self._scale * image[:, self._partner]

    def constraint_rows(self, image: Array) -> Array:
        """Return E times ``image``, ``(..., k, r)``, in a new array of the same shape."""
        return self._counted * image

    def precondition(self, x: Array) -> Array:
        """The solution of B_ii y_i = x_i, with the agent's own block of B, which needs no
        message."""
        if self.plain:
            return x / self.ridge
        if len(self._inverses[0]) == self.shape[0]:
            return self._inverses @ x
        inner = x / self.ridge
        reduced = self._counted * (self._inverses @ (self._columns @ inner))
        return inner - self._columns.transpose(0, 2, 1) @ reduced / self.ridge

    def _blocks_inverted(self) -> Array:
        """B_ii^{-1}, or where features are many (I + E D_i R^{-1} D_i^T E)^{-1} of Woodbury's
        identity, R the ridge."""
        d = self._columns
        k = self._columns.shape[1]
        if self.plain:
            return np.empty((len(d), 0, 0))
        least = min(self.ridge.reshape(-1).tolist())
        if least < 0.0 or (least == 0.0 and self.shape[0] > k):
            raise ValueError(
                "ridge must be positive for more features than samples, never negative"
            )
        weighed = self._counted * d
        if self.shape[0] <= k:
            blocks = weighed.transpose(0, 2, 1) @ weighed
            blocks += self.ridge * np.eye(self.shape[0])
        else:
            scaled = weighed / self.ridge.transpose(0, 2, 1)
            blocks = scaled @ weighed.transpose(0, 2, 1) + np.eye(k)
        if not all(map(is_definite, blocks)):
            raise ValueError(
                "an agent's own features depend on each other: give a ridge, or drop some"
            )
        return np.linalg.inv(blocks).astype(np.float64, copy=False)

    def _take(self, local: Selection) -> None:
        for name in ("features", "ridge", "_columns", "_views", "_inverses"):
            vars(self)[name] = vars(self)[name][local]

    def value(self, x: Array) -> Array:
        """``(n_local,)``: -1/2 tr(x_i^T D_i^T J D_i x_i), the part of an agent's own features
        alone."""
        own = self.products(x)
        return -0.5 * sums(own * self.objective_rows(own))

    def gradient(self, x: Array) -> Array:
        """Return the gradients of `value` in a new array shaped like ``x``."""
        return -self.adjoint(self.objective_rows(self.products(x)))

    def joined(self, x: Array, collective: Collective) -> Array:
        """``(d, r)``: the rows of all agents in their order, on every rank."""
        starts = self._starts(collective)
        width = x.shape[2]

        def add(total: Array) -> None:
            whole = total.reshape(-1, width)
            for i, agent in enumerate(range(self.agents.start, self.agents.stop)):
                whole[starts[agent] : starts[agent + 1]] += x[i, : self.features[i]]

        return collective.fold(int(starts[-1]) * width, add).reshape(-1, width)

    def _starts(self, collective: Collective) -> Index:
        """``(n + 1,)``: where each agent's rows of x begin."""

        def add(total: Array) -> None:
            total[self.agents] += self.features

        counts = collective.fold(self.n_agents, add)
        return np.concatenate(([0], np.add.accumulate(counts))).astype(np.int64)

    def find_answer(self, collective: Collective) -> None:
        """Compute the optimum for metrics, if there are few enough features and data.

        Raises
        ------
        ValueError
            B is singular.
        """
        starts = self._starts(collective)
        d = int(starts[-1])
        k = self._columns.shape[1]
        r = self.shape[1]
        if d > _LARGEST_OPTIMUM or k * d > _LARGEST_DATA:
            return

        views = self._views[:, :, None].astype(np.float64)
        self._whole_views = self.joined(views, collective)[:, 0]
        columns = np.ascontiguousarray(self.joined(self._columns.transpose(0, 2, 1), collective).T)
        ridge = self.joined(self.ridge, collective)[:, 0]
        with one_thread():
            objective = columns.T @ (self._scale * columns[self._partner])
            constraint = columns.T @ (self._counted * columns) + np.diag(ridge)
            if not is_definite(constraint):
                raise ValueError(
                    "B of the constraint is singular: give a larger ridge, or drop dependent "
                    "features"
                )
            found = scipy.linalg.eigh(objective, constraint, subset_by_index=[d - r, d - 1])
        self.optimum = np.ascontiguousarray(found[1])
        self.error_name = "principal_angle"

    def error(self, whole: Array) -> float:
        """The sine of the largest principal angle of any view between the rows of all agents, ``(d,
        r)``, and the answer."""
        if self.optimum is None:
            raise ValueError(
                f"the optimum is not known: prepare() computes it for at most {_LARGEST_OPTIMUM} "
                "features (solve() calls it)"
            )
        angles = []
        for view in np.unique(self._whole_views):
            own = self._whole_views == view
            basis, other = (np.linalg.qr(one[own])[0] for one in (self.optimum, whole))
            angles.append(float(np.linalg.norm(other - basis @ (basis.T @ other), 2)))
        return max(angles)

    @property
    def metrics(self) -> SplitMetrics:
        """The measures of a run, in place of those for agents that each hold a whole point."""
        return SplitMetrics(self)


class SplitMetrics:
    """The measures of agents that hold rows of one point x.

    =================  ==========================================================================================
    objective          -1/2 tr(x^T M x)
    gradient_norm      ||M x - B x x^T M x||_F
    feasibility        ||x^T B x - I||_F
    consensus_rms      sqrt((1/n) sum_i ||P_i - D x||_F^2), P_i an agent's tracked sum, where the method tracks it
    error              the sine of the largest principal angle to the answer, where that is known
    =================  ==========================================================================================
    """

    def __init__(self, problem: SplitPencil) -> None:
        self.problem = problem
        known = ("error",) * bool(problem.error_name)
        self.columns = "objective", "gradient_norm", "feasibility", "consensus_rms", *known

    def __call__(
        self, problem: SplitPencil, state: Observed, collective: Collective
    ) -> tuple[float, ...]:
        x = state.x
        n = problem.n_local
        own = problem.products(x)
        image, gram = collective.sum(own, x.transpose(0, 2, 1) @ (problem.ridge * x))
        images = np.repeat(image[None], n, axis=0)
        objective = problem.objective_rows(images)
        counted = problem.constraint_rows(images)
        values = (images.transpose(0, 2, 1) @ objective)[0]
        constraint = (images.transpose(0, 2, 1) @ counted)[0] + gram
        rest = problem.adjoint(objective - counted @ values) - problem.ridge * x @ values
        apart = np.zeros(n)
        if hasattr(state, "tracker"):
            apart = sums((state.tracker[:, : len(image)] - images) ** 2)
        (squares,) = collective.sum(np.stack((sums(rest * rest), apart), axis=1))
        measures = (
            -0.5 * float(np.trace(values)),
            float(np.sqrt(squares[0])),
            float(np.linalg.norm(constraint - np.eye(len(constraint)))),
            float(np.sqrt(squares[1] / problem.n_agents)),
        )
        if not problem.error_name:
            return measures
        whole = problem.joined(x, collective)
        return (*measures, problem.error(whole) if np.isfinite(whole).all() else float("nan"))


class SplitPCA(SplitPencil):
    """Principal components of samples whose features are split over agents.

        f(x) = -1/(2m) tr(x^T A^T A x) over x^T x = I

    Parameters
    ----------
    A
        ``(m, d_i)``: each agent's features of the same m samples, row for row. Nothing is centred
        or scaled.
    rank
        The number r of components.

    Raises
    ------
    ValueError
        Agents have different numbers of samples, an entry is not finite, or there are more
        components than features.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((60, 12)) * np.arange(1, 13)
    >>> problem = do.problems.SplitPCA(np.array_split(samples, 4, axis=1), 3)
    >>> result = do.solve(problem, do.LOBPCG(), "ring", iterations=100)
    >>> bool(result.history["gradient_norm"][-1] < 1e-6)
    True
    """

    def __init__(self, A: Sequence[Array], rank: int, *, among: Among | None = None) -> None:
        parts = same_samples("A", A)
        m = len(parts[0])
        ridge = [np.ones(one.shape[1]) for one in parts]
        scaled = [one / np.sqrt(m) for one in parts]
        super().__init__(scaled, ridge, np.arange(m), np.ones(m), np.zeros(m), rank, among=among)


class SplitGEVP(SplitPencil):
    """Generalized eigenvectors of two tables whose features are split over agents.

        f(x) = -1/2 tr(x^T Y^T Y x) over x^T (Z^T Z + ridge I) x = I

    The features are the columns of Y and Z.

    Parameters
    ----------
    Y, Z
        ``(k_Y, d_i)`` and ``(k_Z, d_i)``: each agent's columns of both.
    rank
        The number r of eigenvectors.
    ridge
        A number > 0, or 0 where Z has independent columns.

    Raises
    ------
    ValueError
        Agents have different numbers of rows or columns, an entry is not finite, or there are more
        eigenvectors than features.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> Y, Z = rng.standard_normal((2, 80, 8))
    >>> first, second = (np.array_split(data, 4, axis=1) for data in (Y, Z))
    >>> problem = do.problems.SplitGEVP(first, second, 2)
    >>> result = do.solve(problem, do.LOBPCG(), "ring", iterations=100)
    >>> bool(result.history["gradient_norm"][-1] < 1e-6)
    True
    """

    def __init__(
        self,
        Y: Sequence[Array],
        Z: Sequence[Array],
        rank: int,
        ridge: float = 0.0,
        *,
        among: Among | None = None,
    ) -> None:
        left = same_samples("Y", Y)
        right = same_samples("Z", Z)
        for i, (y, z) in enumerate(zip(left, right, strict=True)):
            if y.shape[1] != z.shape[1]:
                raise ValueError(
                    f"Y and Z of agent {i} must have its features, got {y.shape[1]} and "
                    f"{z.shape[1]} columns"
                )
        k = len(left[0])
        here = np.arange(len(left[0]) + len(right[0]))
        both = [np.concatenate(pair) for pair in zip(left, right, strict=True)]
        objective = (here < k).astype(np.float64)
        ridges = [np.full(y.shape[1], ridge) for y in left]
        super().__init__(both, ridges, here, objective, 1.0 - objective, rank, among=among)


class SplitCCA(SplitPencil):
    """Canonical correlations of two views whose features are split over agents.

        f(x) = -(1/m) tr(u^T U^T V v) over x^T B x = I

    x is u above v, and B has the covariances of the two views, with their ridges, as its blocks.

    Parameters
    ----------
    A, B
        ``(m, a_i)`` and ``(m, b_i)``: each agent's features of the first and the second view of the
        same samples; one of them may have no column. Nothing is centred or scaled. An agent's rows
        of x are those of its first view, then those of its second.
    rank
        The number r of pairs of canonical directions.
    ridges
        Added to the diagonals of the views' covariances.

    Raises
    ------
    ValueError
        Agents have different numbers of samples, an entry is not finite, or there are more pairs
        than features in a view.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> A, B = rng.standard_normal((80, 4)), rng.standard_normal((80, 4))
    >>> first, second = np.array_split(A, 4, axis=1), np.array_split(B, 4, axis=1)
    >>> problem = do.problems.SplitCCA(first, second, 2)
    >>> result = do.solve(problem, do.LOBPCG(), "ring", iterations=100)
    >>> bool(result.history["gradient_norm"][-1] < 1e-6)
    True
    """

    def __init__(
        self,
        A: Sequence[Array],
        B: Sequence[Array],
        rank: int,
        ridges: tuple[float, float] = (0.0, 0.0),
        *,
        among: Among | None = None,
    ) -> None:
        if len(A) != len(B):
            raise ValueError(f"A and B need an array for each agent, got {len(A)} and {len(B)}")
        pairs = list(zip(A, B, strict=True))
        where = among or Among(0, [(np.shape(a)[1], np.shape(b)[1]) for a, b in pairs])
        fewest = min(map(sum, zip(*where.features, strict=True)))
        if rank > fewest:
            raise ValueError(f"the smaller view has {fewest} features, fewer than {rank} pairs")
        for i, (a, b) in enumerate(pairs):
            if len(a) != len(b):
                raise ValueError(
                    f"both views must have the same samples, got {len(a)} and {len(b)} rows of "
                    f"agent {i}"
                )
        both = same_samples("views", [np.concatenate(pair, axis=1) for pair in pairs])
        m = len(both[0])
        columns = []
        ridge = []
        views = []
        for pair, left in zip(both, [np.shape(one)[1] for one in A], strict=True):
            view = (np.arange(pair.shape[1]) >= left).astype(np.int64)
            columns.append(np.concatenate((pair * (view == 0), pair * (view == 1))) / np.sqrt(m))
            ridge.append(np.array(ridges)[view])
            views.append(view)
        ones = np.ones(2 * m)
        partner = np.roll(np.arange(2 * m), m)
        super().__init__(columns, ridge, partner, ones, ones, rank, views=views, among=among)


def same_samples(
    name: str, parts: Sequence[Array], first_agent: int = 0, *, missing: bool = False
) -> list[Array]:
    """Return the agents' matrices, checked as in `matrices` and for equal numbers of rows.

    Raises ValueError, naming the first agent that differs.
    """
    if is_matrix(parts):
        raise ValueError(
            f"{name} must be a list with the features of each agent, got one matrix: "
            f"np.array_split(np.asarray({name}), n, axis=1) gives each of n agents its columns"
        )
    for i, part in enumerate(parts, first_agent):
        if issparse(part):
            raise TypeError(f"{name} of agent {i} is sparse, not dense: give {name}_i.toarray()")
    checked = matrices(name, parts, first_agent, missing=missing)
    for i, part in enumerate(checked, first_agent):
        if len(part) != len(checked[0]):
            raise ValueError(
                f"agents that hold features must have the same samples, row for row: {name} of "
                f"agent {first_agent} has {len(checked[0])} rows, that of agent {i} has {len(part)}"
            )
    return checked


def check_rank(rank: int, features: int) -> None:
    """Raise ValueError for more columns of x than features of all agents, TypeError for a rank that
    is not a whole number."""
    if not 1 <= check("rank", int, rank) <= features:
        raise ValueError(
            f"rank must be from 1 to {features}, the features of all agents, got {rank}"
        )


def by_features(whole: Array, n_agents: int) -> list[Array]:
    """The columns of ``(m, d)`` in consecutive runs, one for each agent, whose sizes differ by at
    most one."""
    d = whole.shape[1]
    if d < n_agents:
        raise ValueError(f"{n_agents} agents cannot share {d} features: ask for fewer agents")
    return np.array_split(whole, n_agents, axis=1)


def random_features(m: int, among: Among, agents: slice, view: int = 0) -> list[Array]:
    """``(m, d_i)`` random features of a view for each agent in ``agents``."""
    drawn = enumerate(among.features[agents], agents.start)
    return [stream(0, agent, 1).standard_normal((m, widths[view])) for agent, widths in drawn]


def no_units(settings: DividedSettings, *widths: int) -> tuple[Units, ...]:
    """The units of random samples with views of these widths, if units are requested."""
    return tuple(map(Units.none, widths)) if settings.wanted.any else ()


def split_features(
    n_agents: int,
    build: Callable[[], SplitPencil],
    numbers: Callable[[], int],
    made: Callable[[slice], SplitPencil],
    partition: str = "even",
) -> Deferred:
    """Return the problem that each rank builds whole, to keep the features of its own agents.

    Each rank holds the ``numbers`` of the samples twice while it divides them. ``made`` is the
    problem of some agents with equally many random samples. A ``partition`` divides samples, but
    here all agents share them: any value except the default raises ValueError.
    """
    if partition != "even":
        raise ValueError("partition divides samples, but all agents have all samples: leave it out")

    def outline() -> Outline:
        more = 2 * numbers()
        own = [0] * n_agents
        return Outline(own, more=lambda _: more, made=lambda rows, agents, _: made(agents))

    return on_each_rank(n_agents, lambda agents: build().restrict(agents), outline)
