"""The settings that several methods have, as base classes that check them and document each once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Self, TypeVar, get_args

from ..protocols import Array, Network, Oracle, Problem, Retractable, Retraction, Riemannian, Sampled, Spectrum, Streams
from .fields import Penalised, check_batch_size, check_soft, on_samples
from .mixing import check_rounds, effective, mix
from .policies import Auto, check_choice
from .step_sizes import SINGLE_AGENT, StepSize, checked, schedule
from .steps import Order, better_order, tracking_step

C = TypeVar("C")


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """A method whose gradients may come from mini-batches.

    Parameters
    ----------
    batch_size
        Samples of each agent in a gradient; by default all.
    """

    batch_size: int | None = None

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)

    @property
    def requires(self) -> tuple[type, ...]:
        """The capabilities that a problem must have: `Sampled` for mini-batches."""
        return () if self.batch_size is None else (Sampled,)

    def oracle(self, problem: Problem[C], streams: Streams, k: int) -> Oracle[C]:
        """The problem with the gradients of iteration ``k``."""
        return on_samples(problem, streams, k, self.batch_size)


@dataclass(frozen=True, kw_only=True)
class Decentralized(Sampling):
    """A method of agents that exchange points with their neighbours.

    Parameters
    ----------
    step_size
        A number > 0; auto: from the agents' Lipschitz constants, the spectrum of W and a given penalty; or a schedule (diminishing,
        horizon), which a method without trackers needs to approach a minimiser.
    """

    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"

    step_size: StepSize = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", checked(self.step_size))
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class Measuring(Sampling):
    """A method of a single agent, which can measure its steps.

    Parameters
    ----------
    step_size
        eta > 0; auto: from the problem's Lipschitz constant and a given penalty; or a schedule (diminishing, horizon, bb).
    """

    network: ClassVar[Literal["decentralized", "single-agent"]] = "single-agent"

    step_size: StepSize = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", checked(self.step_size, SINGLE_AGENT))
        super().__post_init__()


@dataclass(frozen=True, kw_only=True)
class Soft(Decentralized):
    """A method in Euclidean space, the control without a constraint.

    Parameters
    ----------
    penalty
        lambda of the soft constraint lambda/4 ||x^T x - I||^2 added to every objective; 0 for none.
    """

    penalty: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_soft(self.penalty)

    @property
    def requires_set(self) -> tuple[type, ...]:
        """The capabilities that a set must have: `Penalised` for a positive penalty."""
        return (Penalised,) if self.penalty > 0.0 else ()


@dataclass(frozen=True, kw_only=True)
class Ordered(Decentralized):
    """Gradient tracking in Euclidean space.

    Parameters
    ----------
    order
        combine-then-adapt (one exchange an iteration); adapt-then-combine is stable at larger steps (two exchanges); auto is the
        former, but with step_size auto the other where W is such that it needs fewer rounds.
    """

    order: Order | Auto = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("order", self.order, (*get_args(Order), "auto"))

    def aim(self, spectrum: Spectrum, order: Order) -> float:
        """The product of step and curvature at which automatic steps aim."""
        return tracking_step(spectrum, order)

    def resolved(self, network: Network) -> Self:
        """This method with ``order="auto"`` resolved for this network: with an automatic step `better_order`."""
        if self.order != "auto":
            return self
        automatic = schedule(self.step_size).initial == "auto"
        return replace(self, order=better_order(network.spectrum, self.aim) if automatic else "combine-then-adapt")


@dataclass(frozen=True, kw_only=True)
class Mixing(Decentralized):
    """A method on a manifold with several rounds of mixing in an iteration.

    Parameters
    ----------
    rounds
        t, exchanges with the neighbours in an iteration.
    chebyshev
        Mix by the polynomial of W that averages best in so many rounds, rather than by its power.
    """

    rounds: int = 1
    chebyshev: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_rounds(self.rounds)

    def mix(self, network: Network, *xs: Array) -> tuple[Array, ...]:
        """The sums sum_j [W^t]_ij x_j of each array, fresh."""
        return mix(network, self.rounds, self.chebyshev, *xs)

    def mixing(self, network: Network) -> Spectrum:
        """The eigenvalues of the matrix with which an iteration mixes."""
        return effective(network.spectrum, self.rounds, self.chebyshev)


@dataclass(frozen=True, kw_only=True)
class Retracting(Mixing):
    """A method that goes along tangents towards the neighbours' mean and back to the manifold.

    Parameters
    ----------
    consensus_step
        a, above 0 and at most 1: the share of the way to the neighbours' mean.
    retraction
        polar, polar-svd, polar-eigh, qr or cholesky-qr.
    """

    requires_set: ClassVar[tuple[type, ...]] = (Riemannian, Retractable)

    consensus_step: float = 1.0
    retraction: Retraction = "polar"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.consensus_step <= 1.0:
            raise ValueError(f"consensus_step must be above 0 and at most 1, got {self.consensus_step}")
        check_choice("retraction", self.retraction, get_args(Retraction))
