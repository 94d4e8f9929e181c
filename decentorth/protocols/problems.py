"""Problems, and capabilities that some problems have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from .arrays import Array, Index
from .network import Collective

_C_co = TypeVar("_C_co", covariant=True)
"""A constraint set or capability of sets: `Problem[Landing]` is a problem on a set that has a
landing field."""


class Oracle(Protocol[_C_co]):
    """Gradients of the local agents' objectives f_i, exact or from samples, and the constraint
    set."""

    @property
    def constraint(self) -> _C_co: ...

    def gradient(self, x: Array) -> Array:
        """The Euclidean gradient G_i(x_i), or an unbiased estimate, like ``x``, C-contiguous and
        fresh."""

    def blocks(self) -> Sequence[tuple[slice, Self]]:
        """Runs of local agents small enough to stay in cache, as (local slice, restricted
        oracle)."""


class Problem(Oracle[_C_co], Protocol[_C_co]):
    """The objectives f_i of the agents in ``agents`` (a slice of the global order), with exact
    gradients."""

    @property
    def n_agents(self) -> int: ...
    @property
    def agents(self) -> slice: ...
    @property
    def n_local(self) -> int:
        """The number of local agents."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def restrict(self, agents: slice) -> Self:
        """The same problem for fewer agents (global numbers, a sub-slice of ``self.agents``)."""

    def prepare(self, collective: Collective) -> None:
        """Compute what needs the data of all agents, once, after `restrict`; called by every
        rank."""

    def value(self, x: Array) -> Array:
        """The values f_i(x_i), ``(n_local,)``."""

    def start(self, seed: int) -> Array:
        """The default common start, of ``shape``, the same on every rank."""

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """The problem's named variables as views of a stacked point."""


@runtime_checkable
class Smooth(Protocol):
    """A problem with known Lipschitz constants of its gradients."""

    @property
    def lipschitz(self) -> Array:
        """A Lipschitz constant L_i of each agent's Euclidean gradient, ``(n_local,)``."""


@runtime_checkable
class Quadratic(Protocol):
    """A problem with f_i(x) = <x, H_i x>/2 - <x, K_i> + constant."""

    def hessian(self) -> Array:
        """The symmetric Hessians H_i of f_i in each column of x, ``(n_local, d, d)``."""


@runtime_checkable
class TraceForm(Protocol):
    """A problem with f_i(x) = tr(x^T H_i x)/2 and known H_i."""

    def trace_form(self) -> Array:
        """The symmetric H_i, ``(n_local, d, d)``; the problem's own arrays, read-only."""


@runtime_checkable
class RowForm(Protocol):
    """A problem with f_i(x) = w_i ||A_i x - B_i||_F^2."""

    def row_form(self) -> tuple[Array, Array, Array] | None:
        """A_i ``(n_local, m, d)``, B_i ``(n_local, m, r)`` and 2 w_i ``(n_local, 1, 1)``, the
        problem's own arrays, read-only; None unless its gradients are made as 2 w_i A_i^T (A_i x -
        B_i) with equally many rows for all agents."""


@runtime_checkable
class HessianProducts(Protocol):
    """A problem that can differentiate its gradients."""

    def hessian_product(self, x: Array, v: Array) -> Array:
        """Return the derivatives of G_i at x_i along v_i, in a new array shaped like ``x``."""


@runtime_checkable
class Moments(Protocol):
    """A problem that depends on the data through a few sums over the agents."""

    @property
    def n_moments(self) -> int:
        """The number of these sums."""

    def agent_moments(self) -> Array:
        """The numbers of each agent, ``(n_local, n_moments)``, whose sums over all agents determine
        the mean objective."""

    def from_moments(self, sums: Array) -> Any:
        """The mean of all agents' objectives as the problem of one agent, from the sums
        ``(k,)``."""


@runtime_checkable
class Answered(Protocol):
    """A problem whose answer for all agents can be computed, for the distance from it."""

    def find_answer(self, collective: Collective) -> None:
        """Compute the answer, once, after `Problem.prepare`; called by every rank."""


@runtime_checkable
class Solvable(Protocol):
    """A problem whose minimiser linear algebra finds."""

    def answer(self) -> Array:
        """The minimiser of a single agent's problem, ``shape``."""


@runtime_checkable
class Sampled(Protocol):
    """A problem whose f_i is a mean over samples, so that a few of them give an unbiased
    gradient."""

    @property
    def n_samples(self) -> Index:
        """The number of samples of each agent, ``(n_local,)``."""

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """The gradient from the samples ``batch``, ``(n_local, b)`` numbers within each agent,
        repeats allowed."""


@runtime_checkable
class SampledProducts(Sampled, Protocol):
    """A problem whose f_i and whose constraint's B are both means over samples.

    Three independent draws of a batch, one for the gradient and two for products with B, make an
    unbiased landing field.
    """

    def product_on(self, x: Array, batch: Index) -> Array:
        """Return the product B x in a new array, with the B of the samples ``batch``.

        ``batch`` is ``(n_local, b)``.
        """


@runtime_checkable
class SampledMatrices(Sampled, Protocol):
    """A problem whose constraint's B is a mean over samples and small enough to be formed and
    averaged batch by batch."""

    def matrices_on(self, batch: Index) -> Array:
        """Return the B of the samples ``batch``, ``(n_local, b)``, in a new array ``(n_local, n,
        w)``.

        It is an argument of the set's ``with_matrices``.
        """


@runtime_checkable
class Whitening(Protocol):
    """A problem on {x : x^T B x = I} that can be written in the variables y = U x, B = U^T U, where
    that is a Stiefel manifold."""

    @property
    def whitened(self) -> Any:
        """The problem of y, with methods ``changed(x)``, U x, and ``back(y)``, U^{-1} y; None where
        it is not available."""


@runtime_checkable
class LocalProducts(Protocol):
    """A problem whose constraint is {x : x^T B x = I}, B = (1/n) sum_i B_i, where each agent knows
    its own B_i only."""

    def local_product(self, x: Array) -> Array:
        """Return the products B_i x_i in a new array shaped like ``x``.

        x may have any number of columns.
        """

    def local_diagonal(self) -> Array:
        """Return the diagonal of each B_i, ``(n_local, d)``."""


@runtime_checkable
class Eigenproblem(Protocol):
    """A problem with f_i(x) = -1/2 tr(x^T C_i x), which power iterations can solve."""

    def product(self, x: Array) -> Array:
        """Return the products C_i x_i in a new array shaped like ``x``.

        x may have any number of columns.
        """


@runtime_checkable
class Nonsmooth(Protocol):
    """A problem that need not be differentiable: ``gradient`` gives a subgradient, whose norm need
    not vanish at a minimiser."""

    nonsmooth: bool
    """True if this problem is not differentiable (a user's function may be either)."""


class Regularizer(Protocol):
    """A convex function h of a point, with a proximal map that acts on each row alone."""

    def value(self, x: Array) -> Array:
        """The values h(x_i) of stacked points, ``(n_local,)``."""

    def proximal(self, y: Array, step: float) -> Array:
        """Return the minimiser over w of ||w - y||^2 / 2 + step h(w), in a new array.

        ``y`` is one point, ``(d, r)``.
        """

    def slopes(self, y: Array, step: float) -> Array:
        """The derivative of each row of `proximal` by the same row of y, symmetric, ``(d, r,
        r)``."""


@runtime_checkable
class Composite(Protocol):
    """A problem of differentiable functions plus one convex function, the same for all agents."""

    @property
    def smooth(self) -> Any:
        """The problem without the convex function."""

    @property
    def regularizer(self) -> Regularizer:
        """The convex function."""


@runtime_checkable
class WeaklyConvex(Protocol):
    """A problem whose f_i(x) + tau_i/2 ||x||_F^2 is convex around the constraint set."""

    @property
    def weak_convexity(self) -> Array:
        """The constants tau_i, ``(n_local,)``; 0 for a convex function."""

    @property
    def lipschitz_value(self) -> Array:
        """A Lipschitz constant of each f_i, ``(n_local,)``.

        It bounds the Frobenius norms of the subgradients.
        """


@runtime_checkable
class ColumnOracle(Protocol):
    """A problem whose (sub)gradient in some columns takes a fraction of the cost.

    ``columns`` is ``(c,)``: column numbers, the same for all agents, without repeats, in any order.
    """

    def cache(self, x: Array) -> Array:
        """Return the cache ``(n_local, ...)`` for cheap partial gradients, in a new array.

        It depends on x alone, and may be empty. The method keeps it.
        """

    def refresh(self, cache: Array, x: Array, columns: Index) -> None:
        """Bring the cache up to date in place, after those columns of x, and no others, have
        changed."""

    def partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        """Return the given columns of ``gradient(x)``, in their order, in a new array ``(n_local,
        d, c)``."""


@runtime_checkable
class Counted(Protocol):
    """A problem that counts the floating-point operations of its oracle."""

    def flops(self, columns: int) -> Array:
        """The additions and multiplications ``(n_local,)`` of a (sub)gradient of ``columns``
        columns, with its cache's refresh."""


class SubgradientSettings(NamedTuple):
    """The recommended settings of subgradient methods on a problem."""

    step_size: str
    """The step policy, as text."""
    block_partition: Literal["fixed", "redraw"] = "fixed"
    """The blocks of columns: fixed, or drawn again in every iteration."""


@runtime_checkable
class Recommends(Protocol):
    """A problem that recommends settings for subgradient methods, which ``auto`` selects."""

    def subgradient_settings(self, blocks: int) -> SubgradientSettings:
        """The settings for ``blocks`` blocks of columns of which two move at a time; one block: all
        columns move."""


@runtime_checkable
class KnownOptimum(Protocol):
    """A problem whose solution is known."""

    error_name: str

    def error(self, xhat: Array) -> float:
        """The distance of the feasible point ``xhat``, shape ``shape``, from the solution, in the
        measure ``error_name``."""


@runtime_checkable
class KnownValue(Protocol):
    """A problem whose least value is known; None if it was too costly to compute."""

    @property
    def optimal_value(self) -> float | None: ...


@runtime_checkable
class HoldsOut(Protocol):
    """A problem with values that are kept out of the objective, to judge its predictions:
    ``held_out_rmse`` in the history."""

    holds_out: bool
    """True if there are any."""

    def held_out_errors(self, x: Array) -> Array:
        """``(n_local, 2)``: the sum of the squared errors at x_i, and the number of values, for
        each agent."""


@runtime_checkable
class Evaluated(Protocol):
    """A problem with measures of points beside its objective: each measure is a column of the
    history."""

    evaluations: tuple[str, ...]
    """The names of the measures, possibly none."""

    def evaluate(self, xhat: Array) -> tuple[float, ...]:
        """The measures of the feasible point ``xhat``, shape ``shape``, finite, in their order."""


@runtime_checkable
class SplitFeatures(Protocol):
    """A problem whose agents hold features of the same samples, and rows of one point (--split
    features).

    With a symmetric J and a diagonal E, f(x) = -1/2 tr(T^T J T) on {x : T^T E T + x^T
    diag(ridge) x = I}, where T = sum_i D_i x_i, ``(k, r)``.
    """

    ridge: Array
    """``(n_local, most, 1)``."""

    @property
    def plain(self) -> bool:
        """True if E is 0."""

    @property
    def present(self) -> Array:
        """``(n_local, most, 1)``: 1 for rows of features, 0 for rows that only fill an agent's
        array."""

    def products(self, x: Array) -> Array:
        """Return D_i x_i in a new array, ``(n_local, k, r)``."""

    def adjoint(self, image: Array) -> Array:
        """Return D_i^T times ``image`` in a new array, ``(n_local, most, r)``."""

    def objective_rows(self, image: Array) -> Array:
        """Return J times ``image`` in a new array of the same shape."""

    def constraint_rows(self, image: Array) -> Array:
        """Return E times ``image`` in a new array of the same shape."""

    def precondition(self, x: Array) -> Array:
        """The inverse of the agent's own diagonal block of D^T E D + diag(ridge), times x."""
