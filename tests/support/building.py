"""Problems that ranks build for their own agents, built in this process or on ranks that are
threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from decentorth.network import SerialCommunicator
from decentorth.network.collective import AgentCollective
from decentorth.problems import Deferred
from decentorth.protocols import Answered


def collective(n_agents: int) -> AgentCollective:
    """That of a process with all agents."""
    return AgentCollective(SerialCommunicator(), np.array([0, n_agents]))


def built(deferred: Deferred) -> Any:
    """The problem of all agents in this process."""
    return deferred.build(slice(0, deferred.n_agents), collective(deferred.n_agents))


def prepared(problem: Any) -> Any:
    """A problem of all agents with what it needs of all of them, and its answer."""
    agents = collective(problem.n_agents)
    problem.prepare(agents)
    if isinstance(problem, Answered):
        problem.find_answer(agents)
    return problem
