"""Loops over pairs of rows: compiled if numba is installed, with an equivalent version in NumPy.

All kernels work on one agent's matrices, ``(n, n)``, in place. The two versions agree to rounding, not bitwise; the summary of a
run records the one used as the method's setting ``kernel``.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any, Literal, Protocol, cast

import numpy as np

from ..protocols import SETUP, Array, Index
from .subproblem import Solution, Sweep, isotropic, linear_term

Kernel = Annotated[Literal["auto", "numba", "numpy"], "numba, numpy, or auto: numba where it is installed."]
"""The version of the kernels: auto is numba if it is installed."""


class Kernels(Protocol):
    """The functions of both modules. ``first``, ``second`` are the rows of k pairs, ``(k,)`` each, ``v`` the factors ``(k, 2, 2)``,
    ``signs`` the diagonal of J, ``(n,)``. Except for `gauss_seidel`, pairs have no row in common."""

    def minimise(self, hyperbolic: Any, linear: Array, curvature: Array) -> Solution:
        """See `subproblem.minimise`."""

    def blocks(self, a: Array, b: Array, first: Index, second: Index) -> Array:
        """The blocks [a b^T]_BB of the pairs B, ``(k, 2, 2)``."""

    def turn_rows(self, x: Array, v: Array, first: Index, second: Index) -> None:
        """Set ``x[B] <- V x[B]``, in place."""

    def congruence(self, m: Array, v: Array, first: Index, second: Index) -> None:
        """Set ``m[B] <- V m[B]`` and then ``m[:, B] <- m[:, B] V^T``, in place."""

    def gauss_seidel(
        self, x: Array, product: Array, form: Array, signs: Array, first: Index, second: Index, sweep: Sweep
    ) -> tuple[int, int]:
        """Minimise tr(x^T form x)/2 over the pairs one after the other, in place; ``product`` holds x x^T and is kept up to date.

        The result is the number of pairs done, and 0; or the index of the pair whose subproblem is unbounded, and its ray.
        """

    def jacobi_sweep(self, xt: Array, gram: Array, signs: Array) -> tuple[float, int, int]:
        """Make one sweep of the hyperbolic Jacobi method over all pairs of columns of x, in rounds of disjoint pairs, in place.

        ``xt`` is x^T, in which the columns of x are contiguous; ``gram``, x^T C x for some C, tends to a diagonal matrix.
        The result is the decrease of the trace of ``gram``, and 0, 0; or, if the sweep ended early, the columns i < j, i + j > 0,
        of a pair along which it has no minimum.
        """

    def signed_scores(self, products: Any, scale: float, slopes: Any) -> None:
        """Replace products <x, y>_q, ``(m,)`` in single precision, by their signed scores for alpha^2 = ``scale``.

        The slopes in the products go into ``slopes``, ``(m,)``. `problems.j_orthogonal.ultrahyperbolic` has the formula.
        """


def resolved(kernel: Kernel) -> Literal["numba", "numpy"]:
    """The version that a setting selects on this machine; an ImportError says how to install numba where it is requested."""
    installed = importlib.util.find_spec("numba") is not None
    if kernel == "numba" and not installed:
        raise ImportError('the compiled kernels need numba: pip install "decentorth[fast]", or take the kernel numpy')
    if kernel == "auto":
        return "numba" if installed else "numpy"
    return kernel


def load(kernel: Kernel) -> Kernels:
    """The module with the kernels."""
    if kernel == "auto":
        kernel = resolved(kernel)
    return cast(Kernels, import_module(".compiled" if kernel == "numba" else ".plain", __name__))


@cache
def compiled_tracking() -> Any:
    """The module `tracking` with its code compiled; an ImportError says how to install numba where it is missing."""
    resolved("numba")
    SETUP.info("the compiled kernels")
    module = import_module(".tracking", __name__)
    _prepared(module.prepare, module.accumulate)
    return module


def _prepared(work: Callable[[], None], compiled: Any) -> None:
    """Do the work, which compiles or reads what numba has cached beside the function ``compiled``.

    Raises
    ------
    ImportError
        The cache is damaged; says what to remove.
    """
    try:
        work()
    except Exception as error:  # numba unpickles its cache, and a damaged pickle may raise anything
        if (folder := compiled.stats.cache_path) is None:
            raise
        raise ImportError(
            f"numba cannot load its compiled code ({type(error).__name__}: {error}): "
            f"remove the folder {folder}, where it is kept, and start again"
        ) from error


def ready(kernel: Kernel) -> Literal["numba", "numpy"]:
    """The version that a setting selects, with its code compiled: for good if numba can cache it on disk, else for this process."""
    made = resolved(kernel)
    if made == "numba":
        SETUP.info("the compiled kernels")
        kernels: Any = load(made)
        _prepared(partial(_run_all, kernels), kernels.gauss_seidel)
    return made


def _run_all(kernels: Kernels) -> None:
    """Run every kernel once, on one pair."""
    first, second = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
    one, signs = np.eye(2), np.array([1.0, -1.0])
    curvature = isotropic(np.ones(1))
    v = kernels.minimise(signs[:1] != signs[1:], linear_term(one[None], curvature), curvature).v
    for turn in (kernels.turn_rows, kernels.congruence):
        turn(one.copy(), v, first, second)
    kernels.blocks(one, one, first, second)
    kernels.gauss_seidel(one.copy(), one.copy(), one, signs, first, second, Sweep(0.0, True, 0.0, 0.0, np.inf))
    kernels.jacobi_sweep(one.copy(), one.copy(), signs)
    kernels.signed_scores(np.ones(1, np.float32), 1.0, np.ones(1, np.float32))
