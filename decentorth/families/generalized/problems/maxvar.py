"""Canonical correlations of several views over agents (MAXVAR), as a generalized eigenvalue
problem.

Kettenring, "Canonical analysis of several sets of variables", Biometrika 1971. With C the
covariance of all views side by side, N samples, and D its blocks of the views alone, the answer is
the leading eigenvectors of

    C v = w D v,    C = (1/N) X^T X,    D = blockdiag(C_1 + r_1 I, C_2 + r_2 I, ...),    r_k = ridge tr(C_k) / d_k

Without a ridge w is at most the number of views, K, which it reaches where all views have a
variable in common. Two views have w = 1 + their canonical correlation. Where columns of a view
depend on others, v is in the column spaces of the views. Both matrices are means over the agents of
(n/N) X_i^T X_i and its blocks: a `PooledGEVP`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import scipy.linalg

from decentorth.numerics.ordered_sums import sums
from decentorth.numerics.threads import one_thread
from decentorth.problems.common.checks import AgentArrays, samples
from decentorth.problems.common.division import Centred, Division, SampleFile, placed
from decentorth.problems.common.pooled_rows import HERE, gram, mean_squares
from decentorth.problems.common.pooled_rows import rows as number_of_rows
from decentorth.problems.deferred import Deferred, Outline
from decentorth.protocols import Array, Collective
from decentorth.settings import Count, NotNegative

from .covariances import column_basis, suspect
from .gevp import PooledGEVP


class MAXVAR(PooledGEVP):
    """Canonical correlations of several views of the samples of all agents.

        f_i(x) = -n/(2m) tr(x^T X_i^T X_i x) over x^T diag(C1 + r1 I, C2 + r2 I, ...) x = I

    The n agents have m samples in all. C1, C2, ... are the covariances of all samples of each view.

    Parameters
    ----------
    X
        List or stack of samples ``(N_i, d)``, one matrix per agent, whose columns are all views
        side by side. Nothing is centred.
    views
        The number of columns of each view, in their order; the sum is d.
    rank
        The number of directions.
    ridge
        Added to the blocks, as a share of the mean eigenvalue of each.
    names
        The names of the columns, for errors; by default their numbers.
    collective
        Pools the agents' samples over all processes, each of which must then make the problem.
        Without it all agents are here.

    Attributes
    ----------
    bases
        Empty, or without a ridge, where columns of a view depend on others, ``(d_k, r_k)`` of each
        view: a point is then in coordinates of these bases of the views' column spaces, and
        `unpack` gives the directions of the columns.

    Raises
    ------
    ValueError
        When the columns do not fit, an entry is not finite, a view is 0, or columns of a view
        nearly depend on others.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 1)) + rng.standard_normal((200, 7))
    >>> problem = do.problems.MAXVAR(np.array_split(X, 4), views=(3, 2, 2), rank=1)
    >>> result = do.solve(problem, do.CDADT(), "ring", iterations=300)
    >>> bool(result.history["error"][-1] < 1e-6)
    True
    """

    _arrays = 1
    columns = ((),)
    _centers = True

    def __init__(
        self,
        X: AgentArrays,
        views: Sequence[int],
        rank: int,
        *,
        ridge: float = 0.0,
        names: Sequence[object] = (),
        n_agents: int | None = None,
        first_agent: int = 0,
        collective: Collective | None = None,
    ) -> None:
        pool = collective or HERE
        with pool.together():
            rows, d = samples("X", X, first_agent)
            ends = view_ends(views, d)
        self.bases: list[Array] = []
        if ridge == 0.0:
            rows, ends = self._in_bases(rows, ends, names or range(d), pool)
            d = ends[-1]
        self._ends = ends[:-1]
        with one_thread():  # the bits of products depend on the number of BLAS threads
            count, squares = mean_squares(rows, pool)
            weight = (n_agents or len(rows)) / count
            variances = np.split(squares, self._ends)
            each = [ridge * sums(own[None])[0] / len(own) for own in variances]
            ridges = np.repeat(each, [len(own) for own in variances])
            view = np.searchsorted(ends, np.arange(d), side="right")
            whole = [weight * (a.T @ a) for a in rows]
            blocks = [np.where(view == view[:, None], one, 0.0) + np.diag(ridges) for one in whole]
        super().__init__(
            whole, blocks, rank, n_agents=n_agents, first_agent=first_agent, collective=collective
        )

    def _in_bases(
        self, rows: list[Array], ends: list[int], names: Sequence[object], pool: Collective
    ) -> tuple[list[Array], list[int]]:
        """The rows in bases of the views' column spaces and the ends of the views there, where
        columns may depend on others."""
        parts = [slice(*part) for part in pairwise([0, *ends])]
        with one_thread():  # the bits of products depend on the number of BLAS threads
            covariance = gram(rows, pool)
            count = number_of_rows(rows, pool)
            if not any(suspect(covariance[part, part]) for part in parts):
                return rows, ends
            for k, part in enumerate(parts):
                view = [a[:, part] for a in rows]
                self.bases.append(column_basis(view, count, pool, f"view {k}", names[part]))
            whole = scipy.linalg.block_diag(*self.bases)
            return [a @ whole for a in rows], [*accumulate(one.shape[1] for one in self.bases)]

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """The directions of the columns of each view."""
        parts = np.split(x, self._ends, axis=-2)
        if self.bases:
            parts = [basis @ part for basis, part in zip(self.bases, parts, strict=True)]
        return {f"view{k}": part for k, part in enumerate(parts)}


def view_ends(views: Sequence[int], d: int) -> list[int]:
    """The number of columns up to the end of each view; a ValueError if ``views`` is not one of d
    columns."""
    if not views or min(views) < 1 or sum(views) != d:
        given = ", ".join(map(str, views)) or "none"
        raise ValueError(f"views must be the columns of each view, {d} in all, got {given}")
    return [*accumulate(map(int, views))]


@dataclass(frozen=True, kw_only=True)
class MAXVARSettings(Centred):
    """Canonical correlations of several views of the same samples: the directions in which all
    views agree best.

    Parameters
    ----------
    views
        The number of columns of each view, in the order of the columns: 3,5,2. The digits' are four
        bands of two rows of pixels.
    rank
        How many directions.
    ridge
        Added to the covariance of each view, as a share of its mean eigenvalue.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.MAXVARSettings(rank=1).problem(4, seed=0)
    >>> result = do.solve(problem, do.CDADT(), "ring", iterations=100)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    data: SampleFile = "digits"
    views: tuple[Count, ...] = (16, 16, 16, 16)
    rank: Count = 3
    ridge: NotNegative = 1e-2

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples."""
        source = Division([self.data], self, n_agents, seed)

        def made(rows: list[Array], ridge: float, agents: slice, pool: Collective) -> MAXVAR:
            place = placed(n_agents, agents, pool)
            return MAXVAR(rows, self.views, self.rank, ridge=ridge, **place)

        def build(agents: slice, collective: Collective) -> MAXVAR:
            (rows,) = source.read(agents, collective)
            return made(rows, self.ridge, agents, collective)

        def stand_in(rows: list[Array], agents: slice, collective: Collective) -> MAXVAR:
            return made(rows, 1.0, agents, collective)

        def outline() -> Outline:
            d = source.width
            sizes = Outline(made=stand_in, point=d * self.rank)
            return sizes._replace(more=lambda own: 2 * d * d * len(own))

        return source.deferred(build, outline)
