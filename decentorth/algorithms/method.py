"""The base classes of methods."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..protocols import Sampled
from ..settings import Settings


class Method(Settings):
    """A method for any number of agents, maybe with mini-batches."""

    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"

    @property
    def requires(self) -> tuple[type, ...]:
        """The capabilities that a problem must have: `Sampled` for mini-batches."""
        return (Sampled,) if getattr(self, "batch_size", None) is not None else ()


class SingleAgentMethod(Method):
    """A method for one agent."""

    network: ClassVar[Literal["decentralized", "single-agent"]] = "single-agent"
