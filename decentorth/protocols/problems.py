"""Problems, and capabilities that some problems have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from .arrays import Array, Index

C_co = TypeVar("C_co", covariant=True)
"""A constraint set, or what a method needs of one: `Problem[Landing]` is a problem on a set that has a landing field."""


class Oracle(Protocol[C_co]):
    """Gradients of the local agents' objectives f_i, exact or from samples, and the set that the points belong to."""

    @property
    def constraint(self) -> C_co: ...

    def gradient(self, x: Array) -> Array:
        """Like ``x``, C-contiguous and fresh: the Euclidean gradient G_i(x_i), or an unbiased estimate."""

    def blocks(self) -> Sequence[tuple[slice, Self]]:
        """Runs of local agents small enough to stay in cache, as (local slice, restricted oracle)."""


class Problem(Oracle[C_co], Protocol[C_co]):
    """The objectives f_i of the agents in ``agents`` (a slice of the global order), with exact gradients."""

    @property
    def n_agents(self) -> int: ...
    @property
    def agents(self) -> slice: ...
    @property
    def n_local(self) -> int:
        """Agents that are here."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def restrict(self, agents: slice) -> Self:
        """The same problem for fewer agents (global numbers, a sub-slice of ``self.agents``)."""

    def value(self, x: Array) -> Array:
        """``(n_local,)``: f_i(x_i)."""

    def start(self, seed: int) -> Array:
        """``shape``: the default common start, the same on every rank."""

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """The problem's named variables as views of a stacked point."""


@runtime_checkable
class Smooth(Protocol):
    """A problem that knows how steep its gradients are."""

    @property
    def lipschitz(self) -> Array:
        """``(n_local,)``: a Lipschitz constant L_i of each agent's Euclidean gradient."""


@runtime_checkable
class Quadratic(Protocol):
    """A problem with f_i(x) = <x, H_i x>/2 - <x, K_i> + constant."""

    def hessian(self) -> Array:
        """``(n_local, d, d)``: H_i, symmetric, the Hessian of f_i in each column of x."""


@runtime_checkable
class TraceForm(Protocol):
    """A problem with f_i(x) = tr(x^T H_i x)/2, which knows H_i."""

    def trace_form(self) -> Array:
        """``(n_local, d, d)``: H_i, symmetric; the problem's own, not to be written to."""


@runtime_checkable
class HessianProducts(Protocol):
    """A problem that can differentiate its gradients."""

    def hessian_product(self, x: Array, v: Array) -> Array:
        """Like ``x``, fresh: the derivative of G_i at x_i along v_i."""


@runtime_checkable
class Sampled(Protocol):
    """A problem whose f_i is a mean over samples, so that a few of them give an unbiased gradient."""

    @property
    def n_samples(self) -> Index:
        """``(n_local,)``: samples of each agent."""

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """Like ``gradient``, from the samples ``batch``, ``(n_local, b)`` numbers within each agent, repeats allowed."""


@runtime_checkable
class SampledProducts(Protocol):
    """A problem whose f_i and whose constraint's B are both means over samples.

    Three independent draws of a batch, one for the gradient and two for products with B, make an unbiased landing field.
    """

    @property
    def n_samples(self) -> Index: ...

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """As in `Sampled`."""

    def product_on(self, x: Array, batch: Index) -> Array:
        """B x, fresh, with the B of the samples ``batch``, ``(n_local, b)``."""


@runtime_checkable
class SampledMatrices(Protocol):
    """A problem whose constraint's B is a mean over samples, and small enough to be formed and averaged as they come."""

    @property
    def n_samples(self) -> Index: ...

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """As in `Sampled`."""

    def matrices_on(self, batch: Index) -> Array:
        """``(n_local, n, w)``, fresh: the B of the samples ``batch``, as the set's ``with_matrices`` takes it."""


@runtime_checkable
class LocalProducts(Protocol):
    """A problem whose constraint is {x : x^T B x = I}, B = (1/n) sum_i B_i, where each agent knows its own B_i only."""

    def local_product(self, x: Array) -> Array:
        """Like ``x``, fresh: B_i x_i, for any number of columns."""

    def local_diagonal(self) -> Array:
        """``(n_local, d)``: the diagonal of each B_i."""


@runtime_checkable
class Eigenproblem(Protocol):
    """A problem with f_i(x) = -1/2 tr(x^T C_i x), which power iterations can solve."""

    def product(self, x: Array) -> Array:
        """C_i x_i, fresh."""


@runtime_checkable
class Nonsmooth(Protocol):
    """A problem that need not be differentiable: ``gradient`` gives a subgradient, whose norm need not vanish at a minimiser."""

    nonsmooth: bool
    """Whether this one is not (a user's function may be either)."""


@runtime_checkable
class WeaklyConvex(Protocol):
    """A problem whose f_i(x) + tau_i/2 ||x||_F^2 is convex around the constraint set."""

    @property
    def weak_convexity(self) -> Array:
        """``(n_local,)``: tau_i, 0 for a convex function."""

    @property
    def lipschitz_value(self) -> Array:
        """``(n_local,)``: a Lipschitz constant of f_i itself, which bounds its subgradients' Frobenius norms."""


@runtime_checkable
class ColumnOracle(Protocol):
    """A problem whose (sub)gradient can be had for some columns at a fraction of the cost.

    ``columns`` is ``(c,)``: column numbers, the same for all agents, without repeats, in any order.
    """

    def cache(self, x: Array) -> Array:
        """``(n_local, ...)``, fresh: what makes a block cheap, from x alone; the method keeps it in its state. May be empty."""

    def refresh(self, cache: Array, x: Array, columns: Index) -> None:
        """Bring the cache up to date in place, after those columns of x, and no others, have changed."""

    def partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        """``(n_local, d, c)``, fresh: those columns of ``gradient(x)``, in their order."""


@runtime_checkable
class Counted(Protocol):
    """A problem that counts the floating-point operations of its oracle."""

    def flops(self, columns: int) -> Array:
        """``(n_local,)``: additions and multiplications of a (sub)gradient of so many columns, its cache's refresh included."""


class SubgradientSettings(NamedTuple):
    """How a subgradient method is to go on a problem."""

    step_size: str
    """The step policy, as text."""
    block_partition: Literal["fixed", "redraw"] = "fixed"
    """Whether the blocks of columns stay, or are drawn anew in every iteration."""


@runtime_checkable
class Recommends(Protocol):
    """A problem that knows the settings with which subgradient methods solve it: what their ``auto`` stands for."""

    def subgradient_settings(self, blocks: int) -> SubgradientSettings:
        """For so many blocks of columns of which two move at a time; one block: all columns move."""


@runtime_checkable
class KnownOptimum(Protocol):
    """A problem whose answer is known."""

    error_name: str

    def error(self, xhat: Array) -> float:
        """Distance of the feasible point ``xhat``, shape ``shape``, from the answer, in the measure ``error_name``."""


@runtime_checkable
class KnownValue(Protocol):
    """A problem whose least value is known; None where it was too much to compute."""

    @property
    def optimal_value(self) -> float | None: ...


@runtime_checkable
class Evaluated(Protocol):
    """A problem that judges points by more than its objective: each measure is a column of the history."""

    evaluations: tuple[str, ...]
    """Names of the measures; none where there is nothing to judge by."""

    def evaluate(self, xhat: Array) -> tuple[float, ...]:
        """The measures of the feasible point ``xhat``, shape ``shape``, finite, in their order."""
