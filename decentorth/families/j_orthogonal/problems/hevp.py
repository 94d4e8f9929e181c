"""The hyperbolic eigenvalue problem: tr(x^T C x), C = D^T D, over the J-orthogonal matrices {x :
x^T J x = J}.

Minimised, with C positive definite, it is well posed: the minimum is sum |eig(J C)|, where x^T C x
and x^T J x are both diagonal (Kovac-Striko & Veselic, "Trace minimization and definiteness of
symmetric pencils", 1995). Paper 001 prints

    min -tr(x^T D^T D x),

which is unbounded below, since x is not bounded: its table compares the values that methods reach
in a given time. Its published numbers are those of half this objective, from a start like the
identity.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from decentorth.numerics.definite import SINGULAR
from decentorth.numerics.ordered_sums import sums
from decentorth.problems.base import stream
from decentorth.problems.common.checks import AgentArrays, is_matrix, samples
from decentorth.problems.common.division import even_counts, placed
from decentorth.problems.common.pooled_rows import HERE, root
from decentorth.problems.common.squares import SquaresProblem
from decentorth.problems.deferred import Deferred, Outline
from decentorth.protocols import Array, Collective
from decentorth.settings import Condition, Count, NotNegative, check

from ..sets.j_orthogonal import JOrthogonal
from .drawn_samples import DrawnSamples, DrawnSettings
from .signed_settings import SignedSettings

Form = Literal["well-posed", "as-printed"]


class HEVP(SquaresProblem[JOrthogonal]):
    """The hyperbolic eigenvalue problem of one agent.

        f(x) = tr(x^T D^T D x) over x^T J x = J

    The form as-printed has the opposite sign.

    As a finite sum, f_i(x) = +-N ||d_i^T x||^2 for the N rows d_i of D. In blocks of rows, one for
    each of n agents, f is the mean of f_b(x) = +-n ||D_b x||_F^2: for `Spread`.

    Parameters
    ----------
    D
        ``(N, n)``; or a list of blocks of its rows.
    signs
        ``(n,)``: the diagonal of J, +1 and -1 in any order.
    form
        well-posed, or as-printed: minus the trace, which is unbounded below.
    collective
        Pools the blocks of all processes, each of which must then make the problem. Without it all
        blocks are here.

    Raises
    ------
    ValueError
        When the shapes do not fit, an entry is not finite, or D^T D is not positive definite in the
        well-posed form.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> D = np.random.default_rng(0).standard_normal((20, 6))
    >>> problem = do.problems.HEVP(D, [1, 1, 1, -1, -1, -1])
    >>> result = do.solve(problem, do.HyperbolicJacobi(), iterations=20)
    >>> bool(result.history["error"][-1] < 1e-8)
    True
    """

    def __init__(
        self,
        D: AgentArrays,
        signs: ArrayLike,
        form: Form = "well-posed",
        *,
        n_agents: int | None = None,
        first_agent: int = 0,
        collective: Collective | None = None,
    ) -> None:
        pool = collective or HERE
        with pool.together():
            rows, n = samples("D", [D] if is_matrix(D) else D, first_agent)
            blocks = n_agents or len(rows)
            constraint = JOrthogonal.with_signs(signs)
            if constraint.shape[0] != n:
                raise ValueError(
                    f"D has {n} columns, so J needs {n} signs, not {constraint.shape[0]}"
                )
            check("form", Form, form)
            if collective is None and len(rows) != blocks:
                raise ValueError(
                    f"{len(rows)} of {blocks} blocks are given: give all, or the collective that "
                    "pools them"
                )
        weights = np.full(len(rows), float(blocks if form == "well-posed" else -blocks))
        super().__init__(rows, None, weights, constraint, blocks, first_agent)
        self.optimum: float | None = None
        """The least value sum |eig(J C)|, in the well-posed form."""
        if form == "well-posed":
            self._root = _root(rows, pool)
            values = np.linalg.eigvalsh(self._root * constraint.signs @ self._root.T)
            self.optimum = float(np.abs(values).sum(-1))
            self.error_name = "relative_gap"

    @cached_property
    def _form(self) -> Array:
        return np.ascontiguousarray(self.hessian())

    def trace_form(self) -> Array:
        """``(1, n, n)``: +-2 D^T D, computed once; callers must not write to it."""
        return self._form

    def start(self, seed: int) -> Array:
        """``(n, n)``: the identity, whatever the seed."""
        return np.eye(self.shape[0])

    def error(self, xhat: Array) -> float:
        """f(xhat) / sum |eig(J C)| - 1; the form as printed is unbounded below."""
        if self.optimum is None:
            raise ValueError("the form as printed is unbounded below: choose the form well-posed")
        image = self._root @ xhat
        return float(sums((image * image)[None])[0]) / self.optimum - 1.0


def _root(rows: Sequence[Array], collective: Collective) -> Array:
    """R with D^T D = R^T R, so that J D^T D has the eigenvalues of R J R^T."""
    found = root(rows, collective)
    lengths = np.sqrt((found * found).sum(-2))
    values = np.linalg.svd(found / np.where(lengths > 0.0, lengths, 1.0), compute_uv=False)
    if not values[-1] > SINGULAR * values[0]:
        raise ValueError(
            f"the well-posed form needs a positive definite D^T D, but the {len(found)} columns of D "
            "are dependent: add a ridge, give more rows, or choose form as-printed"
        )
    return found


@dataclass(frozen=True, kw_only=True)
class HEVPSettings(SignedSettings, DrawnSettings):
    """The hyperbolic eigenvalue problem, for a single agent.

    Parameters
    ----------
    form
        well-posed: min tr(x^T D^T D x), whose minimum is known. as-printed: paper 001's min -tr(x^T
        D^T D x), unbounded below.
    data
        D: generated, D^T D having eigenvalues evenly spaced in their logarithms; randn10, randn100
        and so on, a square Gaussian matrix; or a file with one sample a row (.npy, .npz, .csv,
        svmlight, Matrix Market).
    dimension
        n, the length of a sample (generated data).
    samples
        Rows of D; by default 2 n (generated data).
    condition
        Of D^T D, whose largest eigenvalue is 1 (generated data).
    ridge
        Added to the diagonal of D^T D, as further rows of D.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.HEVPSettings(dimension=10).problem(1, seed=0)
    >>> result = do.solve(problem, do.HyperbolicJacobi(), iterations=20)
    >>> bool(result.history["error"][-1] < 1e-8)
    True
    """

    form: Form = "well-posed"
    data: str = "generated"
    dimension: Count = 100
    samples: int | None = None
    condition: Condition = 1e3
    ridge: NotNegative = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples is not None and self.samples < self.dimension:
            raise ValueError(
                f"samples must be at least the dimension {self.dimension}, got {self.samples}"
            )

    _generators, _for_generated = ("generated",), ("dimension", "samples", "condition")

    def idle(self) -> dict[str, str]:
        for_files = self._for_files if self._square() else ()
        return super().idle() | dict.fromkeys(for_files, "it is for data of a file")

    def in_blocks(self, n_blocks: int, seed: int) -> Deferred:
        """The problem with the rows of D in blocks of consecutive rows; each rank reads only its
        own rows of a file."""

        def build(blocks: slice, collective: Collective) -> HEVP:
            with collective.together():
                D = self._rows(n_blocks, blocks, seed)
                n = D[0].shape[1]
                signs = self._constraint(n, n).signs
            return HEVP(D, signs, self.form, **placed(n_blocks, blocks, collective))

        def outline() -> Outline:
            file = self._file(seed)
            m, n = self._shape() if file is None else file.shape
            return Outline(even_counts(m, n_blocks), n, more=lambda own: 0 if file else 2 * m * n)

        return Deferred(n_blocks, build, outline)

    def _square(self) -> int:
        """The order of the square Gaussian matrix that data names, or 0."""
        square = re.fullmatch(r"randn([1-9]\d*)", self.data)
        return int(square[1]) if square else 0

    def _shape(self) -> tuple[int, int]:
        """The shape of a generated D without its ridge, which every rank generates as a whole."""
        n = self._square() or self.dimension
        return self._square() or self.samples or 2 * n, n

    def _file(self, seed: int) -> DrawnSamples | None:
        """The samples of a file; None for generated data."""
        if self._square() or self.data == "generated":
            return None
        return DrawnSamples(self.data, self, seed)

    def _rows(self, n_blocks: int, blocks: slice, seed: int) -> list[Array]:
        """The rows of each block; the rows of the ridge come after all others."""
        file = self._file(seed)
        D = self._generated(seed) if file is None else np.empty((0, 0))
        (samples, n) = D.shape if file is None else file.shape
        whole = samples + n * (self.ridge > 0.0)
        if n_blocks > whole:
            raise ValueError(f"D has {whole} rows: at most {whole} blocks of them, got {n_blocks}")
        cuts = [block * whole // n_blocks for block in range(blocks.start, blocks.stop + 1)]
        found = []
        for start, end in pairwise(cuts):
            numbers = np.arange(min(start, samples), min(end, samples))
            own = [D[numbers] if file is None else file.rows(numbers)]
            if end > samples:
                own.append(np.sqrt(self.ridge) * np.eye(n)[max(start - samples, 0) : end - samples])
            found.append(np.concatenate(own))
        return found

    def _generated(self, seed: int) -> Array:
        """D: square and Gaussian, or with the singular values of the condition."""
        rng, (m, n) = stream(seed), self._shape()
        if self._square():
            return rng.standard_normal((m, n))
        left, _ = np.linalg.qr(rng.standard_normal((m, n)))
        right, _ = np.linalg.qr(rng.standard_normal((n, n)))
        values = np.logspace(0.0, -0.5 * np.log10(self.condition), n)
        return np.ascontiguousarray(left * values @ right)
