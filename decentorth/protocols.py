"""decentorth's contracts: what the rooms of the house may assume of one another.

A *point* is ONE float64 C-contiguous array per agent, and everything an algorithm touches is *stacked*: ``(n_local, *shape)``,
where ``n_local`` is the number of agents that live in this process. Several variables (CCA's X and Y) are slices of the point that
only a problem and its constraint know. Arithmetic, mixing, hashing and metrics never look inside.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

SETUP = logging.getLogger("decentorth.setup")
"""What takes long before the first iteration tells this logger what it does: "NAME", or "NAME, N of M" where it has parts."""
Array = NDArray[np.float64]
Index = NDArray[np.int64]
Purpose = Literal["data", "partition", "start", "batch", "blocks", "fault"]
Quantity = Literal["gradient", "movement", "disagreement", "feasibility"]
"""What an agent can tell of itself; see `stopping.LocalMaximum`."""


Retraction = Literal["polar", "polar-svd", "polar-eigh", "qr", "cholesky-qr"]
"""How a tangent step comes back to the manifold; polar is the fastest of its kinds that is accurate where it is used."""
Direction = Literal["psi-b", "psi-br", "riemannian"]
"""The objective's part of the landing field of {x : x^T B x = I}: from products with B, with B^{-1}, or the Riemannian gradient."""
MetricName = Literal["euclidean", "natural"]
"""tr(u^T v), or tr(u^T B v) on {x : x^T B x = I}, in which that set is a Stiefel manifold."""


class Streams(Protocol):
    """Counter-based randomness: a pure function of (seed, agent, purpose, k). Nothing to save, nothing that knows a rank."""

    def integers(self, purpose: Purpose, k: int, size: int, high: int | Index) -> Index:
        """``(n_local, size)`` integers in ``[0, high)``; ``high`` may differ per agent, shape ``(n_local,)``."""

    def permutation(self, purpose: Purpose, k: int, n: int) -> Index:
        """``(n,)``: the same permutation on every agent (shared key)."""


@runtime_checkable
class ConstraintSet(Protocol):
    """A feasible set in ``R^shape``. All methods are per agent on stacked arrays."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def feasibility(self, x: Array) -> Array:
        """``(n_local,)``: the distance-like measure of infeasibility that the source paper reports."""

    def random(self, rng: np.random.Generator) -> Array:
        """``shape``: a random feasible point."""


@runtime_checkable
class Projection(Protocol):
    """A set whose nearest point can be computed."""

    def project(self, y: Array, method: Literal["polar", "polar-svd", "polar-eigh"] = "polar-svd") -> Array:
        """The nearest point, per agent, fresh; the metrics call it xhat. NaN for agents where ``y`` is not finite."""

    def distance(self, x: Array) -> Array:
        """``(n_local,)``: Frobenius distance to the nearest point."""


@runtime_checkable
class Riemannian(Protocol):
    """A set with tangent spaces."""

    def tangent(self, x: Array, g: Array) -> Array:
        """Riemannian gradient at a feasible ``x`` from the Euclidean gradient ``g``."""


@runtime_checkable
class Retractable(Protocol):
    """A set on which one moves along tangents."""

    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """The feasible point reached from a feasible ``x`` along the tangent ``v``, fresh; NaN for agents where ``x + v`` is not
        finite."""


@runtime_checkable
class Landing(Protocol):
    """A set that is approached without retraction, along a landing field."""

    def relative_gradient(self, x: Array, g: Array) -> Array:
        """The objective's part of the landing field, defined off the set too."""

    def landing(self, x: Array, g: Array, penalty: Array) -> Array:
        """The landing field; ``penalty`` has shape ``(n_local,)``."""

    def safe_step(self, x: Array, direction: Array, penalty: Array, eps: float) -> Array:
        """``(n_local,)``: a step along ``-direction`` (the landing field at x) that stays within ``feasibility <= eps``."""

    def multiplier_norm(self, x: Array, g: Array) -> Array:
        """``(n_local,)``: the constraint's contribution to the curvature at ``x``, from the Euclidean gradient."""


@runtime_checkable
class Penalised(Protocol):
    """A set whose infeasibility p can be added to an objective on the whole space."""

    def penalised(self, x: Array, g: Array, penalty: Array) -> Array:
        """The gradient of f + penalty p at any ``x``, from the Euclidean gradient ``g`` of f; ``penalty`` is ``(n_local,)``."""


@runtime_checkable
class Dissolvable(Protocol):
    """A penalised set with a smooth map A of the space onto itself that fixes its points and, there, flattens what leaves it."""

    def dissolve(self, x: Array) -> Array:
        """A(x), fresh."""

    def dissolved(self, x: Array, g: Array, penalty: Array) -> Array:
        """``DA(x)^T g + penalty grad p(x)``: with ``g`` the gradient of f at A(x), the gradient of f(A(x)) + penalty p(x)."""


@runtime_checkable
class ByProducts(Protocol):
    """A set {x : x^T B x = I} that is known through products B x. Methods take ``bx``, the product, where it is at hand."""

    solvable: bool
    """Whether `solve` can be called."""

    @property
    def largest(self) -> float:
        """A bound on the eigenvalues of B that is close to the largest."""

    def product(self, x: Array) -> Array:
        """B x."""

    def solve(self, g: Array) -> Array:
        """B^{-1} g; a TypeError, which says what to do, where B is known by products only."""

    def tangent(self, x: Array, g: Array, bx: Array | None = None) -> Array:
        """The Riemannian gradient of the Euclidean metric."""

    def natural_gradient(self, x: Array, g: Array, bx: Array | None = None) -> tuple[Array, Array]:
        """z, the Riemannian gradient of the metric tr(u^T B v) at a feasible x, and B z."""

    def retract_with(self, y: Array, by: Array, retraction: Retraction = "polar") -> tuple[Array, Array]:
        """The feasible point x to which the retraction brings y, from y and B y, and B x; fresh."""


@runtime_checkable
class ProductLanding(Protocol):
    """A set {x : x^T B x = I} that is approached along one of several landing fields."""

    def landing_scale(self) -> float:
        """How much longer the field psi-b may be than half the Riemannian gradient: steps are as much shorter."""

    def product(self, x: Array) -> Array:
        """B x."""

    def multiplier_norm(self, x: Array, g: Array, metric: MetricName = "euclidean") -> Array:
        """As in `Landing`, in either metric."""

    def landing(self, x: Array, g: Array, penalty: Array, direction: Direction = "psi-b", bx: Array | None = None) -> Array:
        """Psi(x) + penalty grad N(x), N = ||x^T B x - I||_F^2 / 2; ``penalty`` has shape ``(n_local,)``."""

    def landing_from_products(self, x: Array, g: Array, bx: Array, bx2: Array, penalty: Array) -> Array:
        """The field psi-b from products with B, where ``bx`` and ``bx2`` may be two independent estimates of B x."""

    def safe_step(self, x: Array, direction: Array, penalty: Array, eps: float, bx: Array | None = None) -> Array:
        """``(n_local,)``: a step along ``-direction`` (a landing field at x) that stays within ``feasibility <= eps``."""


@runtime_checkable
class AugmentedLagrangian(Protocol):
    """A set {x : x^T B x = I} whose multiplier sym(x^T G) has a closed form."""

    def product(self, x: Array) -> Array:
        """B x."""

    def augmented_gradient(self, x: Array, g: Array, penalty: Array, bx: Array | None = None) -> Array:
        """G - B x sym(x^T G) + penalty B x (x^T B x - I); ``penalty`` has shape ``(n_local,)``."""

    def column_tangent(self, x: Array, field: Array, bx: Array | None = None) -> Array:
        """The part of a field that keeps every x_j^T B x_j."""

    def normalized(self, y: Array) -> tuple[Array, Array]:
        """x, the columns of y scaled so that x_j^T B x_j = 1, and B x; fresh."""


@runtime_checkable
class ColumnBlocks(Protocol):
    """A set whose points stay in it when some of their columns move and the others do not."""

    def move_columns(self, x: Array, columns: Index, v: Array) -> Array:
        """``(n_local, d, c)``, fresh: where the columns ``(c,)`` of a feasible x come to along the tangent part of ``v``."""


@runtime_checkable
class TrackedProducts(Protocol):
    """A set {x : x^T B x = I}, or a product of such, that works with products B x from elsewhere: nobody need know B.

    ``bx`` is B x, or what is believed to be it.
    """

    rows: tuple[slice, ...]
    """Where the rows of each factor of a product are in a point; all rows where there is one factor."""

    def feasibility(self, x: Array, bx: Array | None = None) -> Array:
        """As in `ConstraintSet`."""

    def multiplier_norm(self, x: Array, g: Array, metric: MetricName = "euclidean") -> Array:
        """As in `ProductLanding`; in the natural metric without B."""

    def retract_with(self, y: Array, by: Array, retraction: Retraction = "polar") -> tuple[Array, Array]:
        """As in `ByProducts`."""

    def dissolve_with(self, x: Array, bx: Array) -> Array:
        """A(x), fresh: a smooth map that fixes the points of the set and flattens what leaves it."""

    def dissolved_with(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """The gradient of f(A(x)) + penalty/4 ||x^T B x - I||_F^2, with ``g`` the gradient of f at A(x)."""

    def landing_image(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """B times the landing field psi-br, with the penalty's gradient in the metric tr(u^T B v)."""


@runtime_checkable
class WithMatrices(Protocol):
    """A set {x : x^T B x = I} that can be had with another B."""

    def with_matrices(self, matrices: Array) -> Any:
        """The set with the B that ``matrices``, ``(n_local, n, w)``, hold; a product's are stacked by rows, padded with zeros."""


@runtime_checkable
class Signature(Protocol):
    """A set {x : x^T J x = J}, J a diagonal of signs."""

    signs: Array
    """``(n,)``: the diagonal of J."""

    def corrected(self, x: Array) -> Array:
        """A point near x that is closer to the set, fresh; a ValueError where that cannot be had."""


@runtime_checkable
class Signatures(Protocol):
    """A set of J-orthogonal matrices of one signature, stacked by rows, below which rows may be free."""

    copies: int
    """How many matrices."""

    @property
    def each(self) -> Signature:
        """The set that each of them is in, whose J is n x n: their rows are the first ``copies * n`` of a point."""

    def corrected(self, x: Array) -> Array:
        """As in `Signature`; free rows stay."""


class Problem(Protocol):
    """The objectives f_i of the agents in ``agents`` (a slice of the global order)."""

    n_agents: int
    agents: slice
    shape: tuple[int, ...]
    constraint: ConstraintSet

    def restrict(self, agents: slice) -> Self:
        """The same problem for fewer agents (global numbers, a sub-slice of ``self.agents``)."""

    def blocks(self) -> Sequence[tuple[slice, Self]]:
        """Runs of local agents small enough to stay in cache, as (local slice, restricted problem)."""

    def value(self, x: Array) -> Array:
        """``(n_local,)``: f_i(x_i)."""

    def gradient(self, x: Array) -> Array:
        """Like ``x``, C-contiguous and fresh: the Euclidean gradient G_i(x_i)."""

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

    n_samples: Index
    """``(n_local,)``: samples of each agent."""

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """Like ``gradient``, from the samples ``batch``, ``(n_local, b)`` numbers within each agent, repeats allowed."""


@runtime_checkable
class SampledProducts(Protocol):
    """A problem whose f_i and whose constraint's B are both means over samples.

    Three independent draws of a batch, one for the gradient and two for products with B, make an unbiased landing field.
    """

    n_samples: Index

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """As in `Sampled`."""

    def product_on(self, x: Array, batch: Index) -> Array:
        """B x, fresh, with the B of the samples ``batch``, ``(n_local, b)``."""


@runtime_checkable
class SampledMatrices(Protocol):
    """A problem whose constraint's B is a mean over samples, and small enough to be formed and averaged as they come."""

    n_samples: Index

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


class Spectrum(NamedTuple):
    """What the mixing matrix's design tells every agent in advance, like its own row of W."""

    lambda_2: float
    """Second largest eigenvalue of W."""
    lambda_min: float
    """Smallest eigenvalue of W."""


class Network(Protocol):
    """All an algorithm may know of the other agents: no rank, no reduction, nothing that depends on who shares a process."""

    n_agents: int

    @property
    def spectrum(self) -> Spectrum: ...
    @property
    def self_weights(self) -> Array:
        """``(n_local,)``: W_ii, what each agent keeps of its own."""

    def mix(self, *xs: Array, rounds: int = 1) -> tuple[Array, ...]:
        """``W^rounds x`` for each array, in one message per neighbour and round; always a tuple of fresh C-contiguous arrays."""

    def mix_alike(self, labels: Array, *xs: Array) -> tuple[Array, ...]:
        """``(heard, W x, ...)`` for one round in which agents listen only to those with their own label.

        ``heard``, ``(n_local,)``, is the largest label among an agent and its neighbours; an edge counts only between equal
        labels, the own weight takes up the rest. ``labels`` is ``(n_local,)`` and travels in the same message.
        """


class Collective(Protocol):
    """Whole-network quantities for metrics, stopping, set-up and files; never handed to an algorithm."""

    rank: int
    size: int

    def fold(self, size: int, add: Callable[[Array], None]) -> Array:
        """``(size,)``: like `sum`, where each rank in turn adds its agents' terms in agent order to the partial sum."""

    def sum(self, *per_agent: Array) -> tuple[Array, ...]:
        """``(n_local, ...) -> (...)`` for each, added in agent order: the same bits on any number of ranks."""

    def max(self, value: float) -> float:
        """The largest over all ranks; NaN if any is NaN."""

    def largest(self, values: Array) -> Array:
        """The largest of each over all ranks; finite or infinite."""

    def decide(self, on_root: bool) -> bool:
        """Rank 0's answer, on every rank (wall clock)."""

    def everyone(self, data: bytes) -> list[bytes]:
        """Every rank's bytes, in rank order, on every rank."""

    def same(self, what: str, digest: bytes) -> None:
        """Raises on every rank, naming the ranks that differ, unless all pass the same digest."""

    def together(self) -> AbstractContextManager[None]:
        """What fails inside on one rank, fails on every rank; nothing inside may communicate."""

    def stream(self, per_agent: Array) -> Iterator[Array]:
        """On rank 0 the blocks of all ranks in agent order, on the others nothing (they send)."""


class State(Protocol):
    """A NamedTuple of agent-stacked arrays and integer counters, with at least these."""

    @property
    def x(self) -> Array: ...
    @property
    def k(self) -> int:
        """Iterations made."""

    @property
    def gradients(self) -> int:
        """Local gradient evaluations made, per agent."""


S = TypeVar("S", bound=State)


class Algorithm(Protocol[S]):
    """A frozen dataclass of numbers and names. ``step`` OWNS the state it is given and may reuse its arrays; who keeps a state
    copies it. It never touches problem data or x0."""

    @property
    def requires(self) -> tuple[type, ...]:
        """Capabilities the problem must have; a class variable where no setting changes them."""

    @property
    def requires_set(self) -> tuple[type, ...]:
        """Capabilities the problem's constraint must have."""

    network: ClassVar[Literal["decentralized", "single-agent"]]

    def init(self, problem: Any, network: Network, streams: Streams, x0: Array) -> S: ...
    def step(self, problem: Any, network: Network, streams: Streams, state: S) -> S: ...


@runtime_checkable
class Ending(Protocol):
    """A single-agent method that can tell when there is nothing left to do: it has converged, or there is no minimiser."""

    def ending(self, problem: Any, state: Any) -> Stop | None:
        """Why to stop here, or None to go on; asked before every step, so it must cost next to nothing."""


@runtime_checkable
class TracksGradient(Protocol):
    """A method whose trackers, ``state.tracker``, have the mean of fields F_i that stand for Riemannian gradients.

    At a point with x^T x = I the Riemannian gradient is at most ``gradient_factor`` times as long as F_i, whatever the objective.
    """

    gradient_factor: float


class Metric(Protocol):
    """Columns of the history, the same numbers on every rank."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    def __call__(self, problem: Any, state: Any, collective: Collective) -> tuple[float, ...]: ...


class Agreed(NamedTuple):
    """What all agents know of all of them, by max-consensus."""

    iteration: int
    rounds: int
    """Of the max-consensus."""
    maxima: Mapping[str, float]
    """The largest over the agents of each quantity."""
    usual: tuple[str, ...]
    """The quantities by which this method's agents judge themselves when none is named."""


class Row(NamedTuple):
    """One line of the history. Counts are per agent and edge of the graph, so they do not depend on the number of ranks."""

    iteration: int
    rounds: int
    """Exchanges with the neighbours so far."""
    messages: int
    """Messages over directed edges so far, over the whole network."""
    bytes: int
    """Payload of those messages."""
    gradients: int
    """Local gradient evaluations so far, per agent."""
    seconds: float
    """Wall time of the iterations on rank 0, the clock stopped while measuring."""
    values: Mapping[str, float]
    agreed: Agreed | None = None
    """What the agents know, where they have agreed at this iteration; no part of the table."""


class Stop(NamedTuple):
    """Why a run ended."""

    status: str
    """One word: converged, iterations, time_limit, objective_floor, unbounded, terminated, diverged, left_safe_region."""
    converged: bool
    message: str


class StoppingRule(Protocol):
    """Looks at each recorded row; rules combine with ``|`` and ``&``."""

    def __call__(self, row: Row, collective: Collective) -> Stop | None: ...


class Recorder(Protocol):
    """Watches a run: rank 0 gets rows as they are made."""

    def record(self, row: Row) -> None: ...


@runtime_checkable
class Rewound(Protocol):
    """A recorder that is told when a run has gone back, because ranks were lost."""

    def rewound(self, rows: Sequence[Row], lost: str) -> None:
        """Called on the rank that is rank 0 from now on, with the rows that there still are and what was lost, in words."""
