"""The common parts of methods around another method, which judge its steps and change them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, NamedTuple, Self

from ...protocols import Declared, Network, Spectrum


class WrappedState(NamedTuple):
    """The state of a method in another one; the names of its entries are names here too."""

    inner: Any
    """The state of the method inside."""
    progress: Any
    """The quantities of the method around it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Wrapper:
    """A method that changes the steps of another one.

    Parameters
    ----------
    method
        The other method.
    """

    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"

    def __init__(self, method: Any) -> None:
        declared = Declared.of(method)
        self.method = method
        self.step_size = declared.step_size
        self.requires = declared.requires
        self.requires_set = declared.requires_set
        self.gradient_factor = declared.gradient_factor

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.method!r})"

    def for_network(self, network: Network) -> Self:
        """Return this method around one whose settings are chosen for the network."""
        return type(self)(Declared.of(self.method).for_network(network))

    def for_problem(self, problem: Any) -> Self:
        """Return this method around one whose settings are chosen for the problem."""
        return type(self)(Declared.of(self.method).for_problem(problem))


class CarryingNumber:
    """The network for one iteration, whose messages carry another number."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.n_agents = network.n_agents

    @property
    def spectrum(self) -> Spectrum:
        """The spectrum of the network."""
        return self._network.spectrum
