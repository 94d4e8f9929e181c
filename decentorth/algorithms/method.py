"""The base classes of methods."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..settings import Settings


class Method(Settings):
    """A method for any number of agents."""

    network: ClassVar[Literal["decentralized", "single-agent"]] = "decentralized"


class SingleAgentMethod(Method):
    """A method for one agent."""

    network: ClassVar[Literal["decentralized", "single-agent"]] = "single-agent"
