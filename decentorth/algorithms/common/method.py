"""The settings that several methods have, as base classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Literal, Self, TypeVar, cast

from ...protocols import (
    Array,
    Arrays,
    Declared,
    Network,
    Oracle,
    Problem,
    Sampled,
    Spectrum,
    Streams,
)
from ...protocols.sets import Retractable, Retraction, Riemannian
from ...settings import Count, NotNegative, Settings, Share
from .automatic_steps import Order, consensus_gap, tracking_step
from .fields import Penalised, on_samples
from .loopless import Momenta
from .mixing import Chebyshev, effective, mix
from .schedules import Auto, Growing
from .step_sizes import MeasuredStepSize, StepSize

_C = TypeVar("_C")
_SOFT = "lambda of the soft constraint lambda/4 ||x^T x - I||^2 in every objective; 0 for none."
BatchSize = Annotated[Count | None, "Samples of each agent in a gradient; by default all."]
RetractionName = Annotated[Retraction, "The map from a step to the manifold."]


class Method(Settings, Declared):
    """A method for any number of agents, with the defaults of `Declared`."""

    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"


class SingleAgentMethod(Method):
    """A method for one agent."""

    network: ClassVar[Literal["decentralized", "single-agent"]] = "single-agent"


@dataclass(frozen=True, kw_only=True)
class Sampling(Method):
    """A method whose gradients may come from mini-batches."""

    batch_size: BatchSize = None

    @property
    def requires(self) -> tuple[type, ...]:
        """The capabilities that a problem must have: `Sampled` for mini-batches."""
        return () if self.batch_size is None else (Sampled,)

    def oracle(self, problem: Problem[_C], streams: Streams, k: int) -> Oracle[_C]:
        """The problem with the gradients of iteration ``k``: exact, or from ``batch_size`` samples
        of each agent."""
        if self.batch_size is None:
            return problem
        return on_samples(problem, streams, k, self.batch_size)


@dataclass(frozen=True, kw_only=True)
class Decentralized(Sampling):
    """A method of agents that exchange points with their neighbours."""

    step_size: StepSize = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        judged = self.batch_size is None and not self.safe
        if isinstance(self.step_size, Growing) and not judged:
            raise ValueError(
                "growing steps are judged by moves along exact gradients: leave out batch_size "
                "and safe, or take step_size auto"
            )


@dataclass(frozen=True, kw_only=True)
class Measuring(Sampling, SingleAgentMethod):
    """A method of a single agent, which can measure its steps.

    Parameters
    ----------
    step_size
        eta > 0; auto: from the problem's Lipschitz constant and a given penalty; or a schedule
        (diminishing, horizon, bb).
    """

    step_size: MeasuredStepSize = "auto"


@dataclass(frozen=True, kw_only=True)
class Soft(Decentralized):
    """A method in Euclidean space, the control without a constraint."""

    penalty: Annotated[NotNegative, _SOFT] = 0.0

    @property
    def requires_set(self) -> tuple[type, ...]:
        """The capabilities that a set must have: `Penalised` for a positive penalty."""
        return (Penalised,) if self.penalty > 0.0 else ()


def stays(network: Network) -> bool:
    """True if W is symmetric and stays, and every message arrives."""
    return not (network.directed or network.varies)


def check_order(order: str, network: Network) -> None:
    """Raise ValueError for accelerated mixing on a network that does not stay as it is."""
    if order == "accelerated" and not stays(network):
        raise ValueError(
            "order accelerated needs a network that stays as it is, with every message as it was "
            "sent: take order combine-then-adapt"
        )


@dataclass(frozen=True, kw_only=True)
class Ordered(Decentralized):
    """Gradient tracking in Euclidean space.

    Parameters
    ----------
    order
        accelerated mixes with momentum, in one exchange an iteration; combine-then-adapt mixes
        points, then moves them; adapt-then-combine moves first, and takes two exchanges. auto is
        accelerated if W is fixed and symmetric and every message arrives, otherwise
        combine-then-adapt.
    """

    order: Order | Auto = "auto"

    def aim(self, spectrum: Spectrum, order: Order) -> float:
        """The target of automatic steps for the product of step and curvature."""
        return tracking_step(spectrum, order)

    def at_rest(self, x0: Array) -> Momenta | tuple[()]:
        """The momenta of the first state, which only accelerated mixing has."""
        if self.order != "accelerated":
            return ()
        return Momenta(0.0 * x0, 0.0 * x0)

    def gap(self, spectrum: Spectrum) -> float:
        """The share of the slowest disagreement that an exchange removes."""
        return consensus_gap(spectrum, cast(Order, self.order))

    def for_network(self, network: Network) -> Self:
        """This method with ``order="auto"`` resolved for this network.

        Raises ValueError for accelerated mixing on a network that does not stay as it is.
        """
        check_order(self.order, network)
        if self.order != "auto":
            return self
        accelerates = stays(network) and network.n_agents > 1
        return replace(self, order="accelerated" if accelerates else "combine-then-adapt")


@dataclass(frozen=True, kw_only=True)
class Mixing(Decentralized):
    """A method on a manifold with several rounds of mixing in an iteration."""

    rounds: Annotated[Count, "t, exchanges with the neighbours in an iteration."] = 1
    chebyshev: Chebyshev = False

    def mix(self, network: Network, *xs: Array, push: Arrays = ()) -> Arrays:
        """Return the sums sum_j [W^t]_ij x_j of each array, in new arrays.

        On a directed network, arrays in ``push`` are summed with B instead: sum_j [B^t]_ij x_j.
        """
        return mix(network, self.rounds, self.chebyshev, *xs, push=push)

    def mixing(self, spectrum: Spectrum) -> Spectrum:
        """The eigenvalues of the matrix with which an iteration mixes, from those of W."""
        return effective(spectrum, self.rounds, self.chebyshev)


@dataclass(frozen=True, kw_only=True)
class Retracting(Mixing):
    """A method that moves along tangents towards the neighbours' mean and retracts to the
    manifold."""

    requires_set: ClassVar[tuple[type, ...]] = (Riemannian, Retractable)

    consensus_step: Annotated[Share, "a: the share of the way to the neighbours' mean."] = 1.0
    retraction: RetractionName = "polar"
