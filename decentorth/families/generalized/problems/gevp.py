"""Generalized eigenvalue problems: the leading eigenvectors of A v = w B v.

Paper 003 (Vary, Ablin, Gao, Absil, "Optimization without retraction on the random generalized
Stiefel manifold", ICML 2024), Section 4 and Appendix B: f_i(x) = -1/2 tr(x^T A_i x) over {x : x^T
B x = I}, so G_i(x) = -A_i x. The answer is any basis of the eigenvectors of the p largest w, with
A = (1/n) sum_i A_i, and the least value minus half the sum of these w.

The paper's matrices have random orthogonal eigenvectors; the eigenvalues of A are equidistant in
[1/kappa, 1], those of B geometric. Its published code has another B, whose condition is about its
order whatever kappa, and divides both by their Frobenius norms, which is why its printed steps
diverge on the matrices as printed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from operator import matmul
from typing import Any, Self

import numpy as np

from decentorth.numerics.ordered_sums import sums
from decentorth.numerics.threads import one_thread
from decentorth.problems.base import AgentProblem, Selection, held, selected, stream
from decentorth.problems.common.division import Sourced
from decentorth.problems.common.moments import packed, unpacked
from decentorth.problems.common.pooled_rows import HERE, Units, symmetric_total
from decentorth.problems.deferred import Deferred, Outline, on_each_rank
from decentorth.problems.loadable import Loadable
from decentorth.problems.stiefel.pca import subspace_distance
from decentorth.protocols import Array, Collective
from decentorth.settings import Condition, Count

from ..sets.generalized import GeneralizedStiefel
from ..sets.operators import Matrices, Operator, eigenspace, formed, symmetric
from .whitened import Whitened, from_both_sides

_LARGEST_OPTIMUM = 3000
"""The order above which the answer is not computed and no error is reported."""


def _several(given: object) -> bool:
    """True for a list of matrices or a stack."""
    return np.ndim(given) == 3 if isinstance(given, np.ndarray) else isinstance(given, Sequence)


class GEVP(AgentProblem[GeneralizedStiefel]):
    """The leading eigenvectors of A v = w B v, where A is the mean of the agents' matrices.

        f_i(x) = -1/2 tr(x^T A_i x) over x^T B x = I

    B is the same for all agents.

    Parameters
    ----------
    A
        ``(n, n)``, symmetric: an array, a SciPy sparse matrix or a ``LinearOperator``; or a
        list with one of these for each agent.
    B
        Symmetric positive definite, of the same kinds, or a `sets.SampleCovariance`. `PooledGEVP`
        takes a matrix B_i for each agent.
    rank
        The number p of eigenvectors.

    Raises
    ------
    ValueError
        Sizes differ, ``rank > n``, or a matrix is not symmetric, not finite or, for B, not
        positive definite.
    TypeError
        A or B is of another type.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> A, B = np.diag([5.0, 4, 3, 2, 1]), np.diag([1.0, 2, 3, 4, 5])
    >>> problem = do.problems.GEVP(A, B, 2)
    >>> result = do.solve(problem, do.GeneralizedLanding(), iterations=500)
    >>> bool(result.history["error"][-1] < 1e-6)
    True
    """

    def __init__(self, A: object, B: object, rank: int):
        if _several(B):
            raise ValueError(
                "B must be one matrix for all agents: PooledGEVP takes a matrix for each"
            )
        self._operators = _operators("A", A)
        self._build(len(self._operators), 0, GeneralizedStiefel(B, rank))

    def _build(self, n_agents: int, first_agent: int, manifold: GeneralizedStiefel) -> None:
        for i, one in enumerate(self._operators):
            if one.n != manifold.shape[0]:
                name = "A" if n_agents == 1 else f"A of agent {first_agent + i}"
                raise ValueError(
                    f"A and B must have the same order, got {one.n} for {name} and "
                    f"{manifold.shape[0]} for B"
                )
        super().__init__(*held(self._operators, n_agents, first_agent), manifold)
        self._answer: tuple[Array, Array] | None = None

    def _take(self, local: Selection) -> None:
        self._operators = selected(self._operators, local)

    def on(self, put: Callable[[Array], Array]) -> Self:
        placed = self._copied()
        whitened = self.whitened
        placed.constraint = self.constraint.on(put)
        placed._operators = [A.on(put) for A in self._operators]
        placed._blocks = [(slice(0, self.n_local), placed)]
        if self._answer is not None:
            root, basis = self._answer
            placed._answer = put(root), put(basis)
        if whitened is not None:
            placed.whitened = whitened.on(put)
        return placed

    def _image(self, x: Array) -> Array:
        """A_i x_i, fresh."""
        if len(x) == 1:
            return self._operators[0].product(x)
        image = np.empty_like(x)
        for i, A in enumerate(self._operators):
            image[i] = A.product(x[i : i + 1])[0]
        return image

    def value(self, x: Array) -> Array:
        image = self._image(x)
        image *= x
        return -0.5 * sums(image)

    def gradient(self, x: Array) -> Array:
        """``(n_local, n, p)``: -A_i x_i."""
        image = self._image(x)
        return np.negative(image, out=image)

    @cached_property
    def lipschitz(self) -> Array:
        """``(n_local,)``: L_i = ||A_i||_2."""
        return np.array([A.radius for A in self._operators])

    def hessian(self) -> Array:
        """``(n_local, n, n)``: -A_i, formed."""
        return np.stack([-formed(A) for A in self._operators])

    @cached_property
    def whitened(self) -> Whitened | None:
        """A single agent's problem of the eigenvectors of U^{-T} A U^{-1}, B = U^T U; None unless A
        and B are dense."""
        A = self._operators[0]
        B = self.constraint.operator
        if not (self.n_agents == 1 and isinstance(A, Matrices) and isinstance(B, Matrices)):
            return None
        with one_thread():  # the bits depend on the number of BLAS threads
            upper = B.factors[0]
            half = from_both_sides(upper, A.stack[0], upper)
        H = -0.5 * (half + half.T)
        return Whitened(partial(matmul, H), [upper], self.shape[1])

    def pooled(self) -> Self:
        """The mean of the agents' objectives as the objective of a single agent, with A formed; all
        agents must be here."""
        pooled = self._alone()
        mean = formed(self._operators[0])
        for A in self._operators[1:]:
            mean += formed(A)
        pooled._operators = [symmetric("A", mean / self.n_agents)]
        return pooled

    @property
    def n_moments(self) -> int:
        """The numbers of each agent in `agent_moments`."""
        n, _ = self.shape
        return n * (n + 1) // 2

    def agent_moments(self) -> Array:
        """``(n_local, k)``: the triangle of A_i; all agents know B."""
        return np.concatenate([packed(formed(A)[None]) for A in self._operators])

    def from_moments(self, sums: Array) -> GEVP:
        """The pencil of the mean A and of B as the problem of one agent."""
        n, p = self.shape
        return GEVP(unpacked(sums / self.n_agents, n), formed(self.constraint.operator), p)

    def answer(self) -> Array:
        """The leading eigenvectors of a single agent's pencil, ``(n, p)``."""
        A = formed(self._operators[0])
        B = formed(self.constraint.operator)
        return eigenspace(A, B, self.shape[1])[1]

    def find_answer(self, collective: Collective) -> None:
        """Compute the answer for the mean of the A_i, summed in agent order; orders above 3000 are
        left out."""
        n, p = self.constraint.shape
        if n > _LARGEST_OPTIMUM:
            return
        mean = symmetric_total(self._operators, n, formed, collective) / self.n_agents
        B = formed(self.constraint.operator)
        values, vectors = eigenspace(mean, B, p)
        root = np.ascontiguousarray(np.linalg.cholesky(B).T)
        self._answer = (root, root @ vectors)
        self.error_name = "subspace_distance"
        self.optimal_value = -0.5 * float(sums(values[None])[0])

    def error(self, xhat: Array) -> float:
        """The least ||B^{1/2} (x - v R)||_F over orthogonal R, v the answer
        (`pca.subspace_distance`); NaN if x is not finite."""
        if self._answer is None:
            raise ValueError("the optimum is not known: find_answer() computes it up to order 3000")
        root, basis = self._answer
        if not np.isfinite(sums(xhat[None])[0]):
            return np.nan
        return subspace_distance(root @ xhat, basis)


class PooledGEVP(GEVP, Loadable):
    """The leading eigenvectors of A v = w B v, where A and B are means of the agents' matrices.

        f_i(x) = -1/2 tr(x^T A_i x) over x^T B x = I

    B = (1/n) sum_i B_i. Agent i knows only its own A_i and B_i.

    Parameters
    ----------
    A, B
        Lists or stacks of symmetric matrices ``(n, n)``, one for each agent; the mean of the B_i
        must be positive definite.
    rank
        The number p of eigenvectors.
    collective
        Pools the agents' B_i over all processes, each of which must then make the problem. Without
        it all agents are here. `from_sites` and `from_loader` give it.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> X = np.random.default_rng(0).standard_normal((4, 50, 6))
    >>> Y = np.random.default_rng(1).standard_normal((4, 50, 6)) * np.arange(1, 7)
    >>> A, B = (np.swapaxes(Z, 1, 2) @ Z / 50 for Z in (Y, X))
    >>> problem = do.problems.PooledGEVP(A, B, 2)
    >>> result = do.solve(problem, do.CDADT(), "ring", iterations=500)
    >>> bool(result.history["error"][-1] < 1e-4)
    True
    """

    _arrays = 2

    @classmethod
    def _of_all(
        cls, data: list[Array], collective: Collective, units: Sequence[Units]
    ) -> dict[str, object]:
        return {"collective": collective}

    def __init__(
        self,
        A: Any,
        B: Any,
        rank: int,
        *,
        n_agents: int | None = None,
        first_agent: int = 0,
        collective: Collective | None = None,
    ) -> None:
        pool = collective or HERE
        with pool.together():
            self._operators = _operators("A", A, first_agent)
            self._parts = _operators("B", B, first_agent)
            if len(self._operators) != len(self._parts):
                raise ValueError(
                    f"A and B must hold a matrix for each agent, got {len(self._operators)} and "
                    f"{len(self._parts)}"
                )
            order = self._parts[0].n
            for i, one in enumerate(self._parts, first_agent):
                if one.n != order:
                    raise ValueError(
                        f"B of agent {i} has order {one.n}, that of agent {first_agent} has {order}"
                    )
        agents = n_agents or len(self._parts)
        with one_thread():  # the bits of products depend on the number of BLAS threads
            B = symmetric_total(self._parts, order, formed, pool) / agents
        self._build(agents, first_agent, GeneralizedStiefel(B, rank))

    def _take(self, local: Selection) -> None:
        super()._take(local)
        self._parts = selected(self._parts, local)

    def local_product(self, x: Array) -> Array:
        """``(n_local, n, k)``: B_i x_i."""
        return np.concatenate([B.product(x[i : i + 1]) for i, B in enumerate(self._parts)])

    def local_diagonal(self) -> Array:
        """``(n_local, n)``: the diagonal of each B_i."""
        return np.stack([np.diagonal(formed(B)) for B in self._parts])

    def pooled(self) -> GEVP:  # type: ignore[override]  # its B is one matrix
        """The problem of a single agent that has the mean of the A_i and B; all agents must be
        here."""
        A = super().pooled()._operators[0]
        B = self.constraint.operator
        return GEVP(formed(A), formed(B), self.shape[1])


def _operators(name: str, given: Any, first_agent: int = 0) -> list[Operator]:
    """The operators of one matrix, or of one for each agent; errors name the agent."""
    if not _several(given):
        return [symmetric(name, given)]
    if not len(given):
        raise ValueError(f"{name} must hold at least one agent's matrix, got none")
    return [symmetric(f"{name} of agent {i}", one) for i, one in enumerate(given, first_agent)]


def pencil(
    n: int, condition: float, seed: int, *, frobenius_normalised: bool = False
) -> tuple[Array, Array]:
    """A and B of paper 003, each ``(n, n)``: eigenvalues equidistant and geometric in [1/condition,
    1], random eigenvectors.

    ``frobenius_normalised`` divides A and B by their Frobenius norms.
    """
    rng = stream(seed)
    low = 1.0 / condition
    spectra = np.linspace(low, 1.0, n), np.geomspace(low, 1.0, n)
    pair = [_with_eigenvalues(values, rng) for values in spectra]
    if frobenius_normalised:
        pair = [matrix / np.linalg.norm(matrix, axis=(-2, -1)) for matrix in pair]
    return pair[0], pair[1]


def _with_eigenvalues(values: Array, rng: np.random.Generator) -> Array:
    """A symmetric matrix with eigenvalues ``values`` and uniformly random orthonormal
    eigenvectors."""
    vectors, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    matrix = (vectors * values) @ vectors.T
    return 0.5 * (matrix + matrix.T)


def shares(A: Array, n_agents: int, seed: int) -> list[Array]:
    """A positive semidefinite A as the mean of ``n_agents`` second moments of n / n_agents samples
    each, as even as can be.

    With A = F F^T, F = A^{1/2} Q and Q uniform over the orthogonal group, agent i has n_agents F_i
    F_i^T from its columns F_i, one at least.
    """
    n = len(A)
    if n_agents > n:
        raise ValueError(f"{n_agents} agents cannot share {n} columns of A: ask for fewer agents")
    if n_agents == 1:
        return [A]
    values, vectors = np.linalg.eigh(A)
    turn, _ = np.linalg.qr(stream(seed, 0).standard_normal((n, n)))
    factor = (vectors * np.sqrt(np.maximum(values, 0.0))) @ turn
    return [n_agents * (part @ part.T) for part in np.array_split(factor, n_agents, axis=1)]


@dataclass(frozen=True, kw_only=True)
class GEVPSettings(Sourced):
    """The leading eigenvectors of A v = w B v: matrices generated as in paper 003, Appendix B, or
    from files.

    Parameters
    ----------
    dimension
        n, the order of A and B (generated data).
    rank
        How many eigenvectors.
    condition
        kappa, the condition of both (generated data).
    frobenius_normalised
        Divide A and B by their Frobenius norms (generated data).
    matrix_a
        File with A, symmetric: .npy, .npz (SciPy's sparse format too), .csv or .mtx; goes with
        matrix_b. A sparse one stays sparse.
    matrix_b
        File with B, symmetric positive definite.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.GEVPSettings(dimension=20, rank=2).problem(1, seed=0)
    >>> result = do.solve(problem, do.RGD(), iterations=200)
    >>> bool(result.history["error"][-1] < 1e-3)
    True
    """

    dimension: Count = 200
    rank: Count = 10
    condition: Condition = 100.0
    frobenius_normalised: bool = False
    matrix_a: str | None = None
    matrix_b: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.matrix_a is None) != (self.matrix_b is None):
            raise ValueError("matrix_a and matrix_b go together: give both files, or neither")
        if self.matrix_a is None and self.rank > self.dimension:
            raise ValueError(
                f"rank must be at most dimension, got rank {self.rank} and dimension "
                f"{self.dimension}"
            )

    _source_field, _for_generated = "matrix_a", ("dimension", "condition", "frobenius_normalised")

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem, which each rank builds for its own agents.

        Generated matrices are divided over several agents by `shares`; matrices from files belong
        to a single agent.
        """
        if self.matrix_a is not None and n_agents > 1:
            raise ValueError(
                f"the matrix in {self.matrix_a} is one agent's, so n_agents must "
                f"be 1, got {n_agents}; or give GEVP a list of matrices in Python"
            )
        matrices = 2 + n_agents * (n_agents > 1)
        # A file's size is checked when it is read.
        size = matrices * self.dimension**2 if self.matrix_a is None else 0
        sizes = Outline([0] * n_agents, more=lambda own: size)
        return on_each_rank(
            n_agents, lambda own: self._made(n_agents, seed).restrict(own), lambda: sizes
        )

    def _made(self, n_agents: int, seed: int) -> GEVP:
        if self.matrix_a is None or self.matrix_b is None:
            normalised = self.frobenius_normalised
            A, B = pencil(self.dimension, self.condition, seed, frobenius_normalised=normalised)
            return GEVP(shares(A, n_agents, seed), B, self.rank)
        from decentorth.data import MatrixFile

        A = MatrixFile(self.matrix_a).stored()
        B = MatrixFile(self.matrix_b).stored()
        return GEVP(A, B, self.rank)
