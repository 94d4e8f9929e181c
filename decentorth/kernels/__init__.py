"""Loops over pairs of rows that NumPy's calls would dominate: compiled where numba is installed, with a twin in plain NumPy.

All of them work on one agent's matrices, ``(n, n)``, in place. The two agree to rounding, not to the bit; which one ran stands in
the summary of a run, as the method's setting ``kernel``.
"""

from __future__ import annotations

import importlib.util
from importlib import import_module
from typing import Any, Literal, Protocol, cast

import numpy as np

from ..protocols import SETUP, Array, Index
from .subproblem import Solution, isotropic, linear_term

Kernel = Literal["auto", "numba", "numpy"]
"""Which of the two: auto is numba where it is installed."""


class Kernels(Protocol):
    """What both modules offer. ``first`` and ``second`` are the rows of k pairs, each ``(k,)``, ``v`` their factors ``(k, 2, 2)``,
    ``signs`` the diagonal of J, ``(n,)``. Except for `gauss_seidel`, pairs have no row in common."""

    def minimise(self, hyperbolic: Any, linear: Array, curvature: Array) -> Solution:
        """See `subproblem.minimise`."""

    def blocks(self, a: Array, b: Array, first: Index, second: Index) -> Array:
        """``(k, 2, 2)``: [a b^T]_BB of each pair B."""

    def turn_rows(self, x: Array, v: Array, first: Index, second: Index) -> None:
        """``x[B] <- V x[B]``, in place."""

    def turn_columns(self, x: Array, v: Array, first: Index, second: Index) -> None:
        """``x[:, B] <- x[:, B] V^T``, in place."""

    def congruence(self, m: Array, v: Array, first: Index, second: Index) -> None:
        """``m[B] <- V m[B]`` and then ``m[:, B] <- m[:, B] V^T``, in place."""

    def gauss_seidel(
        self,
        x: Array,
        product: Array,
        form: Array,
        signs: Array,
        first: Index,
        second: Index,
        theta: float,
        exact: bool,
        constant: float,
        scaled: float,
        limit: float,
    ) -> tuple[int, int]:
        """Minimise tr(x^T form x)/2 over the pairs one after the other, in place; ``product`` is x x^T and stays it.

        Parameters
        ----------
        exact
            Q is the pair's own quadratic form; otherwise varsigma I.
        constant, scaled
            varsigma = ``constant + scaled * lambda_max(product_BB)``; of an exact pair too, where its form looks unbounded, but not
            for certain.
        limit
            Stop before a pair whose rows together have a larger squared norm.

        Returns
        -------
        tuple of int
            How many pairs were done, and 0; or the number of the pair whose subproblem is unbounded, and its ray, see `Solution`.
        """

    def jacobi_sweep(self, xt: Array, gram: Array, signs: Array) -> tuple[float, int, int]:
        """One sweep of the hyperbolic Jacobi method over all pairs of columns of x, in rounds of disjoint pairs; ``gram``, x^T C x
        for some C, becomes diagonal. In place.

        Parameters
        ----------
        xt
            x^T: there the columns are contiguous.

        Returns
        -------
        tuple
            By how much the trace of ``gram`` fell, and 0, 0; or the columns i < j, i + j > 0, of a pair along which it has no
            minimum, where the sweep ended.
        """


def resolved(kernel: Kernel) -> Literal["numba", "numpy"]:
    """What auto means here.

    Raises
    ------
    ImportError
        When numba is asked for and not installed; says how to install it.
    """
    installed = importlib.util.find_spec("numba") is not None
    if kernel == "numba" and not installed:
        raise ImportError('the compiled kernels need numba: pip install "decentorth[fast]", or kernel="numpy"')
    if kernel == "auto":
        return "numba" if installed else "numpy"
    return kernel


def load(kernel: Kernel) -> Kernels:
    """The kernels themselves."""
    if kernel == "auto":
        kernel = resolved(kernel)
    return cast(Kernels, import_module(".compiled" if kernel == "numba" else ".plain", __name__))


def ready(kernel: Kernel) -> Literal["numba", "numpy"]:
    """What auto means here, its code compiled: once and for all where numba can keep it on disk, else for this process."""
    made = resolved(kernel)
    if made == "numba":
        SETUP.info("the compiled kernels")
        _run_all(load(made))
    return made


def _run_all(kernels: Kernels) -> None:
    """Every kernel once, on a pair."""
    first, second = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    one, signs = np.eye(2), np.array([1.0, -1.0])
    curvature = isotropic(np.ones(1))
    v = kernels.minimise(signs[:1] != signs[1:], linear_term(one[None], curvature), curvature).v
    for turn in (kernels.turn_rows, kernels.turn_columns, kernels.congruence):
        turn(one.copy(), v, first, second)
    kernels.blocks(one, one, first, second)
    kernels.gauss_seidel(one.copy(), one.copy(), one, signs, first, second, 0.0, True, 0.0, 0.0, np.inf)
    kernels.jacobi_sweep(one.copy(), one.copy(), signs)
