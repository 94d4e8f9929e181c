"""The hyperbolic eigenvalue problem: tr(x^T C x), C = D^T D, over the J-orthogonal matrices {x : x^T J x = J}.

Minimised, with C positive definite, it is well posed: the minimum is sum |eig(J C)|, where x^T C x and x^T J x are both diagonal
(Kovac-Striko & Veselic, "Trace minimization and definiteness of symmetric pencils", 1995). Paper 001 prints

    min -tr(x^T D^T D x),

which is unbounded below, since x is not bounded: what its table compares is how far a method gets in a given time. Its published
numbers are those of half this objective, from a start like the identity.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ..protocols import Array, Collective
from ..sets import JOrthogonal
from .base import Deferred
from .checks import matrices
from .generated import stream
from .rows import SumsOfSquares
from .squares import SquaresProblem

Form = Literal["well-posed", "as-printed"]


class HEVP(SquaresProblem):
    """f(x) = tr(x^T D^T D x), or minus that, over {x : x^T J x = J}, for a single agent.

    As a finite sum, f_i(x) = +-N ||d_i^T x||^2 for the N rows d_i of D.

    Parameters
    ----------
    D
        ``(N, n)``. What is already float64 and C-contiguous may be referred to rather than copied: leave it as it is.
    signs
        ``(n,)``: the diagonal of J, +1 and -1 in any order.
    form
        well-posed, or as-printed: minus the trace, which is unbounded below.

    Raises
    ------
    ValueError
        When the shapes do not fit, an entry is not finite, or D^T D is not positive definite in the well-posed form.
    """

    constraint: JOrthogonal
    error_name = ""
    """``relative_gap`` in the well-posed form."""

    def __init__(self, D: Array, signs: ArrayLike, form: Form = "well-posed") -> None:
        rows = matrices("D", [D])
        constraint = JOrthogonal.with_signs(signs)
        samples, n = rows[0].shape
        if constraint.shape[0] != n:
            raise ValueError(f"D has {n} columns, so J needs {n} signs, got {constraint.shape[0]}")
        if form not in ("well-posed", "as-printed"):
            raise ValueError(f"form must be well-posed or as-printed, got {form!r}")
        super().__init__(1, slice(0, 1), constraint, SumsOfSquares(rows, None, np.array([1.0 if form == "well-posed" else -1.0])))
        self.optimum: float | None = None
        """sum |eig(J C)|, in the well-posed form."""
        if form == "well-posed":
            triangle: Array = np.linalg.qr(rows[0])[1]  # C = R^T R, so J C has the eigenvalues of R J R^T
            diagonal = np.abs(np.diagonal(triangle))
            if samples < n or not diagonal.min(axis=-1) > n * np.finfo(np.float64).eps * diagonal.max(axis=-1):
                raise ValueError(
                    f"the well-posed form needs a positive definite D^T D, but D, {samples} x {n}, has dependent columns: "
                    "add a ridge, give more rows, or choose form as-printed"
                )
            self.optimum = float(np.abs(np.linalg.eigvalsh(triangle * constraint.signs @ triangle.T)).sum(-1))
            self.error_name = "relative_gap"

    @cached_property
    def _form(self) -> Array:
        return np.ascontiguousarray(self.hessian())

    def trace_form(self) -> Array:
        """``(1, n, n)``: +-2 D^T D, made once; not to be written to."""
        return self._form

    def start(self, seed: int) -> Array:
        """``(n, n)``: the identity, whatever the seed."""
        return np.eye(self.shape[0])

    def error(self, xhat: Array) -> float:
        """f(xhat) / sum |eig(J C)| - 1.

        Raises
        ------
        ValueError
            For the form that has no minimum.
        """
        if self.optimum is None:
            raise ValueError("the hyperbolic eigenvalue problem as printed has no minimum: choose the form well-posed")
        return float(self.value(xhat[None])[0]) / self.optimum - 1.0


@dataclass(frozen=True, kw_only=True)
class HEVPSettings:
    """The hyperbolic eigenvalue problem, for a single agent.

    Parameters
    ----------
    form
        well-posed: min tr(x^T D^T D x), whose minimum is known. as-printed: paper 001's min -tr(x^T D^T D x), unbounded below.
    data
        D: generated, D^T D having eigenvalues evenly spaced in their logarithms; randn10, randn100 and so on, a square Gaussian
        matrix; or a file with one sample a row (.npy, .npz, .csv, svmlight, Matrix Market).
    dimension
        n, the length of a sample (generated data).
    samples
        Rows of D; by default 2 n (generated data).
    condition
        Of D^T D, whose largest eigenvalue is 1 (generated data).
    positive
        How many signs of J are +1, the first ones; by default half.
    ridge
        Added to the diagonal of D^T D, as further rows of D.
    """

    form: Form = "well-posed"
    data: str = "generated"
    dimension: int = 100
    samples: int | None = None
    condition: float = 1e3
    positive: int | None = None
    ridge: float = 0.0

    def __post_init__(self) -> None:
        if self.dimension < 1:
            raise ValueError(f"dimension must be at least 1, got {self.dimension}")
        if self.samples is not None and self.samples < self.dimension:
            raise ValueError(f"samples must be at least the dimension {self.dimension}, got {self.samples}")
        if not 1.0 <= self.condition < np.inf:
            raise ValueError(f"condition must be at least 1 and finite, got {self.condition}")
        if not 0.0 <= self.ridge < np.inf:
            raise ValueError(f"ridge must be finite and not negative, got {self.ridge}")

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem, to be built where its one agent lives.

        Raises
        ------
        ValueError
            For several agents.
        """
        if n_agents != 1:
            raise ValueError(f"hevp is a problem for one agent (--agents 1), got {n_agents} agents")

        def build(agents: slice, collective: Collective) -> HEVP:
            with collective.together():
                D = self._rows(seed)
                n = D.shape[1]
                if self.ridge > 0.0:
                    D = np.concatenate((D, np.sqrt(self.ridge) * np.eye(n)))
                p = n // 2 if self.positive is None else self.positive
                if not 0 <= p <= n:
                    raise ValueError(f"positive must lie between 0 and the dimension {n}, got {p}")
                return HEVP(D, JOrthogonal(p, n - p).signs, self.form)

        return Deferred(1, build)

    def _rows(self, seed: int) -> Array:
        rng, square = stream(seed), re.fullmatch(r"randn([1-9]\d*)", self.data)
        if square:
            return rng.standard_normal((int(square[1]), int(square[1])))
        if self.data != "generated":
            from ..data import resolve

            samples = resolve(self.data)
            return samples.rows(np.arange(samples.shape[0]))
        n = self.dimension
        left, _ = np.linalg.qr(rng.standard_normal((self.samples or 2 * n, n)))
        right, _ = np.linalg.qr(rng.standard_normal((n, n)))
        return np.ascontiguousarray(left * np.logspace(0.0, -0.5 * np.log10(self.condition), n) @ right)
