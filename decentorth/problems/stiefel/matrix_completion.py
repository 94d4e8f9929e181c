"""Low-rank matrix completion over agents, each of which has some entries of some columns.

The columns of A (d x T, of rank about r) are divided over the agents, and Omega_j are the observed
entries of column a_j. Over St(d, r)

    f_i(x) = 1/2 sum_{columns j of i} min_v (||P_Omega_j (x v - a_j)||^2 + ridge ||v||^2)

Each agent solves for its own V_i(x) = [v_j]; by the envelope theorem G_i(x) = P_Omega_i (x V_i(x) -
A_i) V_i(x)^T. Without ridge f_i depends on the range of x alone, so x^T G_i(x) = 0, on the manifold
and off it. The decentralized form, with Gaussian factors and nu r (d + T - r) observed entries, is
an experiment of Deng & Hu, "Decentralized projected Riemannian gradient method for smooth
optimization on compact submanifolds", 2023, and of its successors.

No constant bounds the curvature of f_i for all x (the least squares may come close to singular), so
the problem gives no Lipschitz constant: automatic steps estimate it at the start. Without ridge
there are infima that no x attains. Let the range of x tend to one with a unit vector e_k. Columns
without entry k then see only the direction from which it comes, and their v grows without bound.
Some descents end there, with large gradients. With any ridge the objective is smooth.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...data import Columns, MatrixFile, partition
from ...numerics.ordered_sums import sums
from ...protocols import Array, Collective, Index
from ...sets import Stiefel
from ...settings import Count, NotNegative, Positive, Probability, check
from ..base import AgentProblem, Selection, stream
from ..common.checks import matrices
from ..common.division import DataPlace, Shuffling, Sourced, even_counts
from ..common.once import ComputedOnce
from ..common.rows import Runs
from ..deferred import Deferred, Outline, on_each_rank
from ..loadable import Loadable
from .pca import subspace_distance

_HELD_OUT = 1
"""The key of the stream that draws the held-out entries."""


def least_squares(mask: Array, a: Array, x: Array, ridge: float) -> Array:
    """``(n, r, T)``: for each column the v that minimises ||mask * (x v) - a||^2 + ridge ||v||^2.

    ``mask`` ``(n, d, T)`` is 1 where an entry is observed, else 0; ``a``, like it, is 0 where it is
    not; ``x`` is ``(n, d, r)``. One product with the mask gives the r (r + 1) / 2 different entries
    of all normal matrices x^T P_Omega_j x; then all columns are eliminated together, without
    pivoting, as positive definite matrices allow. NaN or infinity where a matrix is singular.
    """
    n, _, r = x.shape
    xt = np.ascontiguousarray(x.swapaxes(-1, -2))
    i, j = np.triu_indices(r)
    # The normal matrices' upper triangles, and the right-hand sides.
    sides = np.empty((n, len(i) + r, mask.shape[-1]))
    np.matmul(xt.take(i, 1) * xt.take(j, 1), mask, out=sides[:, : len(i)])
    np.matmul(xt, a, out=sides[:, len(i) :])
    place = np.empty((r, r + 1), dtype=np.int64)
    place[i, j] = place[j, i] = np.arange(len(i))
    place[:, r] = np.arange(len(i), len(i) + r)
    systems = sides.take(place.reshape(-1), 1).reshape(n, r, r + 1, -1)
    if ridge > 0.0:
        systems[:, range(r), range(r)] += ridge
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        for k in range(r):
            row = systems[:, k, k + 1 :]
            row /= systems[:, k, k, None]
            systems[:, k + 1 :, k + 1 :] -= systems[:, k + 1 :, k, None] * row[:, None]
        for k in reversed(range(1, r)):
            systems[:, :k, r] -= systems[:, :k, k] * systems[:, k, None, r]
    return np.ascontiguousarray(systems[:, :, r])


class MatrixCompletion(AgentProblem[Stiefel], Loadable):
    """Completion of a matrix of low rank, whose columns the agents share out.

        f_i(x) = 1/2 sum_j min_v (||P_j (x v - a_j)||^2 + ridge ||v||^2) over x^T x = I

    The sum is over the agent's columns a_j. P_j keeps the observed entries of a_j.

    Parameters
    ----------
    A
        List or stack of ``(d, T_i)``: the columns of each agent, NaN where an entry is not
        observed.
    rank
        The rank r.
    ridge
        Weight of ||v||^2, not negative. Without it each column needs at least ``rank`` observed
        entries, and a descent may end where least squares become singular.
    held_out
        Known entries, of the shapes of A with NaN otherwise, that judge the completion. Their root
        mean squared error is then ``held_out_rmse`` in the history.
    truth
        ``(d, rank)``: a basis of the true column space, if it is known; then the error is
        ``subspace_distance``.

    Raises
    ------
    ValueError
        When dimensions differ, ``rank > d``, an entry is infinite, or a column has too few entries;
        names agent and column.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> A = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 40))
    >>> A[rng.random(A.shape) < 0.4] = np.nan
    >>> problem = do.problems.MatrixCompletion(np.array_split(A, 4, axis=1), 2)
    >>> result = do.solve(problem, do.DRFGT(), "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < 0.1 * objective[0])
    True
    """

    def __init__(
        self,
        A: Sequence[Array] | Array,
        rank: int,
        *,
        ridge: float = 0.0,
        held_out: Sequence[Array] | Array | None = None,
        truth: Array | None = None,
        n_agents: int | None = None,
        first_agent: int = 0,
    ):
        columns = matrices("A", A, first_agent, missing=True)
        d = len(columns[0])
        agents = slice(first_agent, first_agent + len(columns))
        super().__init__(n_agents or len(columns), agents, Stiefel(d, rank))
        ridge = check("ridge", NotNegative, ridge)
        for i, a in enumerate(columns):
            self._check(a, d, rank if ridge == 0.0 else 0, first_agent, first_agent + i)
        self.n_samples: Index = np.array([a.shape[1] for a in columns], dtype=np.int64)
        self._ridge = ridge
        self._columns = Runs([_mask(a) for a in columns])
        held = [] if held_out is None else matrices("held_out", held_out, first_agent, missing=True)
        if held_out is not None and [a.shape for a in held] != [a.shape for a in columns]:
            raise ValueError("held_out must have the shapes of A, with NaN for all other entries")
        self.holds_out = held_out is not None
        self._held = Runs([_mask(a) for a in held]) if held else None
        self.optimum: Array | None = None if truth is None else np.linalg.qr(truth)[0]
        self.error_name = "" if truth is None else "subspace_distance"

    @staticmethod
    def _check(a: Array, d: int, least: int, first_agent: int, agent: int) -> None:
        if len(a) != d:
            raise ValueError(
                f"all agents must share the dimension d: A of agent {first_agent} has {d} rows, "
                f"that of agent {agent} has {len(a)}"
            )
        observed = (~np.isnan(a.T)).sum(-1)
        short = np.flatnonzero(observed < least)
        if short.size:
            raise ValueError(
                f"each column must have at least rank = {least} observed entries: column "
                f"{short[0]} of agent {agent} has {observed[short[0]]} ({short.size} such "
                "columns of that agent); leave such columns out, or take a smaller rank or a "
                "positive ridge"
            )

    def _take(self, local: Selection) -> None:
        self.n_samples, self._columns = self.n_samples[local], self._columns.take(local)
        if self._held is not None:
            self._held = self._held.take(local)

    def value(self, x: Array) -> Array:
        """``(n_local,)``: half the sum of squared residuals on the observed entries, plus the ridge
        term."""
        out = np.empty(len(x))
        for local, (mask, a) in self._columns:
            v = least_squares(mask, a, x[local], self._ridge)
            residual = _residual(mask, a, x[local], v)
            out[local] = 0.5 * (sums(residual * residual) + self._ridge * sums(v * v))
        return out

    def gradient(self, x: Array) -> Array:
        """``(n_local, d, r)``: P_Omega_i (x_i V_i - A_i) V_i^T."""
        out = np.empty_like(x)
        for local, (mask, a) in self._columns:
            out[local] = self._gradient(mask, a, x[local])
        return out

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, d, r)``: T_i / b times the gradient from the columns ``batch``, ``(n_local,
        b)`` numbers in each agent."""
        out = np.empty_like(x)
        for local, (mask, a) in self._columns:
            chosen = batch[local, None]
            seen, values = (np.take_along_axis(one, chosen, -1) for one in (mask, a))
            out[local] = self._gradient(seen, values, x[local])
        out *= (self.n_samples / batch.shape[1])[:, None, None]
        return out

    def _gradient(self, mask: Array, a: Array, x: Array) -> Array:
        v = least_squares(mask, a, x, self._ridge)
        return _residual(mask, a, x, v) @ v.swapaxes(-1, -2)

    def completed(self, x: Array) -> list[Array]:
        """The completed columns x_i V_i(x_i), ``(d, T_i)``, of each local agent."""
        found: list[Array] = []
        for local, (mask, a) in self._columns:
            found += [*(x[local] @ least_squares(mask, a, x[local], self._ridge))]
        return found

    def held_out_errors(self, x: Array) -> Array:
        """``(n_local, 2)``: the sum of the squared errors of the completion at the held-out
        entries, and their number."""
        out = np.zeros((len(x), 2))
        for (local, (mask, a)), (_, (chosen, values)) in zip(
            self._columns, self._held or (), strict=True
        ):
            v = least_squares(mask, a, x[local], self._ridge)
            residual = _residual(chosen, values, x[local], v)
            out[local] = np.stack([sums(residual * residual), sums(chosen)], -1)
        return out

    def error(self, xhat: Array) -> float:
        """The distance of the orthonormal ``(d, r)`` matrix from the closest basis of the true
        column space, if that is known."""
        if self.optimum is None:
            raise ValueError(
                "the true column space is known for generated data without noise and ridge, or "
                "given as truth"
            )
        return subspace_distance(xhat, self.optimum)


def hold_out(a: Array, share: float, least: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """The columns ``(d, T)`` without a random share of the observed entries of each, and these
    entries, otherwise NaN.

    At least ``least`` entries of every column stay (with ``rank`` its least squares are not
    singular).
    """
    count = (~np.isnan(a)).sum(-2)
    taken = np.maximum(np.minimum(np.rint(share * count).astype(np.int64), count - least), 0)
    order = np.where(np.isnan(a), np.inf, rng.random(a.shape)).argsort(axis=0).argsort(axis=0)
    chosen = order < taken
    return np.where(chosen, np.nan, a), np.where(chosen, a, np.nan)


def _mask(a: Array) -> tuple[Array, Array]:
    """The 0-1 pattern of the entries that are not NaN, and the entries with 0 for NaN."""
    return (~np.isnan(a)).astype(np.float64), np.nan_to_num(a)


def _residual(mask: Array, a: Array, x: Array, v: Array) -> Array:
    """``(n, d, T)``: mask * (x v) - a."""
    residual: Array = x @ v
    residual *= mask
    residual -= a
    return residual


@dataclass(frozen=True, kw_only=True)
class MatrixCompletionSettings(Sourced):
    """Low-rank matrix completion: Gaussian factors with uniformly drawn observations, or a partly
    observed matrix from a file.

    Parameters
    ----------
    dimension
        Length d of a column (generated data).
    columns
        Columns of each agent (generated data).
    rank
        r, also of the generated matrix L R, whose factors have standard Gaussian entries.
    oversampling
        nu: of the T columns of all agents together nu r (d + T - r) entries are observed, equally
        many in each column or one more, in rows drawn uniformly (generated data).
    noise
        Standard deviation of the Gaussian noise on observed entries, whose own is the root of rank
        (generated data).
    ridge
        Weight of the squared coefficients; a positive one admits columns with fewer than rank
        observed entries, and keeps descents from singular least squares.
    held_out
        Share of the observed entries of each column that is kept out of the objective; their root
        mean squared error becomes the column held_out_rmse of the history.
    data
        File with one column of A per row: a sparse matrix (.mtx, .mat, .npz of scipy.sparse,
        svmlight) whose stored entries are the observed ones, or a dense one (.npy, .npz, .csv) with
        NaN for the others.
    triplets
        The data are a table (.csv, .tsv, .parquet) with a row (user, item, value) for each observed
        entry, as MovieLens's ratings: a column of A is a user, the length d is the number of items.
    triplet_columns
        The names of the columns of users, items and values in a table of triplets; by default the
        first three.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.MatrixCompletionSettings(dimension=20, rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(problem, do.DRFGT(), "ring", iterations=200)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    dimension: Count = 100
    columns: Count = 100
    rank: Count = 5
    oversampling: Positive = 3.0
    noise: NotNegative = 0.0
    ridge: NotNegative = 0.0
    held_out: Probability = 0.0
    data: str | None = None
    triplets: bool = False
    triplet_columns: tuple[str, ...] = ()
    shuffle: Shuffling = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.data is None:
            Stiefel(self.dimension, self.rank)

    _for_generated = "dimension", "columns", "oversampling", "noise"
    _for_files = "shuffle", "triplets", "triplet_columns"

    def idle(self) -> dict[str, str]:
        found = {} if self.triplets else {"triplet_columns": "it is for triplets"}
        return found | super().idle()

    def problem(self, n_agents: int, seed: int) -> Deferred:
        if self.data is None:
            counts = [self.columns] * n_agents
            known = self.noise == self.ridge == 0.0
            build = self._generated(n_agents, seed)
            return Deferred(
                n_agents, build, lambda: self._outline(counts, self.dimension, seed, known)
            )

        @ComputedOnce
        def opened() -> MatrixFile:
            return MatrixFile(str(self.data), Columns(self.triplet_columns), self.triplets)

        def make(agents: slice) -> MatrixCompletion:
            file = opened()
            parts = partition("even", file.shape[0], n_agents, seed=seed, shuffle=self.shuffle)
            columns = [file.observed(index).T for index in parts[agents]]
            return self._completion(columns, agents, n_agents, seed)

        def outline() -> Outline:
            m, d, beside = opened().extent()[:3]
            return self._outline(even_counts(m, n_agents), d, seed, known=False)._replace(
                beside=beside
            )

        return on_each_rank(n_agents, make, outline)

    def _outline(self, counts: list[int], d: int, seed: int, known: bool) -> Outline:
        def made(rows: list[Array], agents: slice, collective: Collective) -> MatrixCompletion:
            truth = np.eye(d, self.rank) if known else None
            return self._completion([own.T for own in rows], agents, len(counts), seed, truth)

        # 3.0: the entries, the mask of the observed ones, and the entries with 0 for the others.
        return Outline(counts, d, 3.0, made=made, point=d * self.rank)

    def _completion(
        self,
        columns: list[Array],
        agents: slice,
        n_agents: int,
        seed: int,
        truth: Array | None = None,
    ) -> MatrixCompletion:
        """The problem of these columns, without those of their entries that are held out."""
        held = None
        if self.held_out > 0.0:
            least = self.rank if self.ridge == 0.0 else 1
            here = range(agents.start, agents.stop)
            generators = (stream(seed, agent, _HELD_OUT) for agent in here)
            parts = [
                hold_out(a, self.held_out, least, rng)
                for a, rng in zip(columns, generators, strict=True)
            ]
            columns = [kept for kept, _ in parts]
            held = [out for _, out in parts]
            for agent, out in enumerate(held, agents.start):
                if np.isnan(out).all():
                    raise ValueError(
                        f"held_out {self.held_out:g} leaves agent {agent} without a held-out "
                        f"entry, as each column keeps at least {least}: ask for a larger share, a "
                        "smaller rank or a positive ridge"
                    )
        place = DataPlace(n_agents=n_agents, first_agent=agents.start)
        return MatrixCompletion(
            columns, self.rank, ridge=self.ridge, held_out=held, truth=truth, **place
        )

    def observed(self, n_agents: int) -> int:
        """The number of observed entries of the generated matrix: at most all, and without ridge at
        least rank in each column."""
        d = self.dimension
        r = self.rank
        total = n_agents * self.columns
        count = round(self.oversampling * r * (d + total - r))
        asked = f"oversampling {self.oversampling:g} asks for {count} observed entries"
        if count > d * total:
            raise ValueError(
                f"{asked}, but the {d} x {total} matrix has only {d * total}: it can be at most "
                f"{d * total / (r * (d + total - r)):.3g} here"
            )
        if self.ridge == 0.0 and count < r * total:
            raise ValueError(
                f"{asked}, fewer than rank = {r} in each of {total} columns: ask for a larger "
                "oversampling or a positive ridge"
            )
        return count

    def _generated(self, n_agents: int, seed: int) -> Callable[[slice, Collective], object]:
        each, more = divmod(self.observed(n_agents), n_agents * self.columns)

        def columns(agent: int, left: Array) -> Array:
            rng = stream(seed, agent)
            a = left @ rng.standard_normal((self.rank, self.columns))
            number = np.arange(agent * self.columns, (agent + 1) * self.columns)
            rows = np.broadcast_to(np.arange(self.dimension)[:, None], a.shape)
            place = rng.permuted(rows, axis=0)
            a[place >= each + (number < more)] = np.nan
            if self.noise > 0.0:
                a += self.noise * rng.standard_normal(a.shape)
            return a

        def build(agents: slice, collective: Collective) -> MatrixCompletion:
            left = stream(seed).standard_normal((self.dimension, self.rank))
            given = [columns(agent, left) for agent in range(agents.start, agents.stop)]
            return self._completion(
                given, agents, n_agents, seed, left if self.noise == self.ridge == 0.0 else None
            )

        return build
