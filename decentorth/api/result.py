"""The result of a run, with its parts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from topologies.line import text

from ..network import Network
from ..network.collective import AgentCollective
from ..numerics.threads import one_thread
from ..problems import AgentProblem
from ..problems.common.pooled_rows import Units
from ..protocols import Answered, Array, Declared, SplitFeatures
from ..records.run_files import save, variables
from ..running.history import COUNTS
from ..running.local_stopping import Agreement
from ..running.loop import Outcome
from ..running.metrics import error_name
from .automatic import advice, in_words
from .directions import SampleColumns
from .finished_run import FinishedRun
from .ledger_table import Sent, sent
from .losses import Loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..records.agent_graphs import AgentQuantity

_LARGEST_TABLE = 100
"""The most agents whose messages are listed in a file: each may have all others as neighbours."""


class SitePoints(np.ndarray):
    """Points of agents, ``(n_local, *shape)``, each of which also has the name of its site:
    ``x["north"]``."""

    sites: tuple[str, ...] = ()

    def __new__(cls, x: Array, sites: tuple[str, ...]) -> Self:
        """A view of ``x``."""
        self = x.view(cls)
        self.sites = sites
        return self

    def __reduce__(self) -> tuple[type[Self], tuple[Array, tuple[str, ...]]]:
        return type(self), (np.asarray(self), self.sites)

    def __getitem__(self, key: Any) -> Any:
        """The points of a site, or what the array has there."""
        if isinstance(key, str):
            if key not in self.sites:
                here = ", ".join(self.sites) or "none"
                raise KeyError(f"no site {key!r} is here: there is {here}")
            key = self.sites.index(key)
        return np.asarray(self)[key]


@dataclass(frozen=True, repr=False, kw_only=True)
class Result(FinishedRun):
    """The end of a run that this process has made, on every rank.

    Attributes
    ----------
    state
        The method's final state.
    algorithm, problem, network, collective
        As used; the problem restricted to this process's agents. After a loss those of the agents
        that are left.
    choice
        What ``auto`` has taken, why, what leaves an agent, and which other methods can be named;
        empty for a method that was named.
    advice
        What arrives, where a run ended at its limit far from an answer: the method that ``auto``
        would take, or more iterations; else empty.
    agreement
        Where the agents decide about the end (`stopping.LocalMaximum`): what they know (``latest``)
        and what that has taken (``tally``: attempts, rounds, messages, bytes, which are also in the
        row's counts).
    losses
        The ranks that were lost, where the run outlived them.
    units
        The common units of the samples (``mean``, ``scale``), of each view, where they were scaled
        or their missing cells filled.
    filled
        The numbers of missing cells that were filled, by site.
    unwritten
        Why the last checkpoint, or the log of an asynchronous run, could not be written; else
        empty.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(problem, "drfgt", "ring", iterations=500, stopping=1e-3)
    >>> result.status, result.x.shape
    ('converged', (4, 10, 2))
    >>> bool(result.history["gradient_norm"][-1] <= 1e-3)
    True
    """

    state: Any
    algorithm: Any
    problem: Any
    network: Network
    collective: AgentCollective
    choice: str = ""
    advice: str = ""
    agreement: Agreement | None = None
    losses: tuple[Loss, ...] = ()
    units: tuple[Units, ...] = ()
    filled: Mapping[str, int] = field(default_factory=dict)
    unwritten: str = ""

    @classmethod
    def of(cls, run: Any, outcome: Outcome) -> Self:
        """The result of a run that has ended so."""
        problem = run.problem
        x = outcome.state.x
        numbers = run.numbers.tolist()
        labels = run.arguments.mixing[1]
        units = tuple[Units, ...]()
        if isinstance(problem, AgentProblem):
            labels = problem.sites or labels
            units = problem.units
        if labels:
            x = SitePoints(x, tuple(labels[i] for i in run.numbers[problem.agents]))
        ended = outcome._asdict()
        return cls(
            x=x,
            **ended.pop("stop")._asdict(),
            **ended,
            n_agents=problem.n_agents,
            labels=labels and tuple(labels[i] for i in numbers),
            algorithm=run.algorithm,
            choice=in_words(run),
            advice=advice(run, outcome.stop.status, outcome.history),
            problem=problem,
            network=run.network,
            collective=run.collective,
            losses=run.losses,
            units=units,
            columns=SampleColumns.of(problem, units),
            filled=_filled(units, labels, numbers),
        )

    @property
    def _own(self) -> slice:
        own: slice = self.problem.agents
        return own

    def _facts(self) -> Mapping[str, object]:
        solved = f"{type(self.problem).__name__} by {type(self.algorithm).__name__}"
        if self.collective.size > 1:
            solved = f"{solved} on {self.collective.size} ranks"
        choice = zip(("auto", "leaves"), self.choice.split("; "), strict=False)
        about = self.problem.about_columns if isinstance(self.problem, AgentProblem) else {}
        facts = {"run": solved, **dict(choice), **about, **super()._facts()}
        if not self.choice:
            del facts["auto"]
        if self.advice:
            facts["advice"] = self.advice
        if "error" not in facts and self.error is not None:
            last = [facts.pop("counts"), facts.pop("seconds")]
            facts |= {"error": f"{self.error:.3g}", "counts": last[0], "seconds": last[1]}
        return facts

    @cached_property
    def error(self) -> float | None:
        """The distance from the answer of all samples, in the measure ``problem.error_name``: that
        of the last row or, of samples of sites in one process, computed now. None where the answer
        is not known."""
        if "error" in self.row.values:
            return self.row.values["error"]
        problem: object = self.problem
        if self.collective.size > 1 or not isinstance(problem, Answered):
            return None
        with one_thread():
            problem.find_answer(self.collective)
            if not error_name(problem):
                return None
            if isinstance(problem, SplitFeatures):
                return float(self.problem.error(self.problem.joined(self.x, self.collective)))
            (total,) = self.collective.sum(self.x)
            hat = self.problem.constraint.project(total[None] / self.n_agents)
            return float(self.problem.error(hat[0]))

    @property
    def drifted(self) -> bool | None:
        """True if the mean of the trackers left that of what they track by more than rounding:
        tracking_error against the agents' mean gradient norm at the start. None where nothing is
        tracked."""
        if "tracking_error" not in self.row.values:
            return None
        usual = self.history["local_gradient_sum"][0] / self.problem.n_agents
        return bool(usual > 0.0 and self.row.values["tracking_error"] > 1e-9 * usual)

    def gather(self) -> Array | None:
        """``(n, *shape)`` in agent order on rank 0, None on the others; called by all ranks."""
        return self.collective.gather(self.x)

    def _directions(self) -> Array | None:
        if self.columns is None:
            return None
        parts = self.problem.unpack(np.asarray(self.x)).values()
        return np.concatenate(self.collective.sum(*parts)) / self.n_agents

    def unpacked(self) -> Mapping[str, Array]:
        """The problem's named variables of this process's agents."""
        unpacked: Mapping[str, Array] = self.problem.unpack(self.x)
        return unpacked

    @cached_property
    def iterates_sha256(self) -> str:
        """SHA-256 over the float64 bytes of x in agent order, on every rank, or of a site's own x;
        first asked for by all ranks together."""
        return self.collective.sha256(self.x)

    @cached_property
    def transport(self) -> Mapping[str, object]:
        """The carrier of the messages, and how many crossed it over all ranks, or left this site;
        first asked for by all ranks together."""
        own = json.dumps([self.network.transport_messages, self.network.transport_bytes])
        every = [json.loads(text) for text in self.collective.ours(own.encode())]
        messages, size = map(sum, zip(*every, strict=True))
        return {**self.collective.communicator.describe(), "messages": messages, "bytes": size}

    def sent(self) -> list[Sent]:
        """Rows of what has left each site in the whole run: receiver, quantity, numbers and bytes.

        The bytes add up to those of the history; the same on every rank, which need not ask
        together. "x or tracker" is a method that sends the two in turn. What a resumed run sent
        before, and what asynchronous agents send, is one last row for all sites.
        `docs/what_leaves_a_site.md` says what a neighbour can infer.
        """
        names = self.labels or [f"agent {agent}" for agent in range(self.n_agents)]
        sends = Declared.of(self.algorithm).sends
        if self.agreement is not None and "x" not in sends:
            sends += ("x",)
        widths = {
            name: getattr(self.state, name)[0].size for name in sends if hasattr(self.state, name)
        }
        return sent(self.network, widths, names)

    def summary(self) -> dict[str, Any]:
        """The facts for ``summary.json``; called by all ranks. What has left each site is listed
        for 100 agents at most."""
        table = []
        if self.n_agents <= _LARGEST_TABLE:
            table = [row._asdict() for row in self.sent()]
        units = [{"mean": one.mean.tolist(), "scale": one.scale.tolist()} for one in self.units]
        found = {
            "status": self.status,
            "converged": self.converged,
            "message": self.message,
            "iterations": self.row.iteration,
            **{name: self.row[name] for name in COUNTS[1:]},
            "seconds": dict(self.seconds),
            "metrics": dict(self.row.values),
            "error": self.error,
            "iterates_sha256": self.collective.sha256(self.x),
            "agents": self.n_agents,
            "sent": table,
            "ranks": self.collective.size,
            "labels": self.labels,
            "columns": None if self.columns is None else self.columns.facts(),
        }
        if self.collective.communicator.sites:
            found["agent"] = self._own.start
        if units:
            found |= {"units": units, "filled": dict(self.filled)}
        return found

    def draw(self, quantity: AgentQuantity = "consensus") -> Figure | None:
        """A figure of the graph, on rank 0: its edges as thick as their weights, its agents, by
        their names where they have any, coloured by their distance from the mean or by their
        feasibility; called by all ranks. Needs matplotlib.

        Raises
        ------
        ValueError
            The network changes over time, or a site has its own point only.
        """
        from ..records.agent_graphs import draw_agents, weights_graph

        if self.network.sequence is not None:
            raise ValueError("the network changes over time: there is no one graph to draw")
        x = self.gather()
        weights = None
        if x is None:
            return None
        if len(x) < self.n_agents:
            raise ValueError("a site has its own point only: there is nothing to compare it with")
        if not self.network.directed:
            weights = self.network.W
        return draw_agents(weights_graph(self.network.W), weights, x, quantity, self.labels)

    def save(self, folder: str | os.PathLike[str], overwrite: bool = False) -> None:
        """Write the folder of a run, which `load` and ``decentorth plot`` read;
        called by all ranks.

        Parameters
        ----------
        folder
            Created when missing.
        overwrite
            Replace the run that the folder already holds.

        Raises
        ------
        ValueError
            On every rank: the folder holds a run, or cannot be written to.
        """
        method = text.shown(type(self.algorithm).__name__.lower(), self.algorithm)
        about = {"problem": f"{type(self.problem).__name__} of Python", "algorithm": method}
        held = variables(self.problem, self.x)
        rows = self.history.rows
        save(folder, about, self.summary(), rows, held, self.collective, overwrite)


def _filled(
    units: Sequence[Units], labels: Sequence[str] | None, numbers: Sequence[int]
) -> dict[str, int]:
    """The numbers of filled cells of all views by site, or in all where agents share their
    samples."""
    counts = [sum(views) for views in zip(*[one.filled for one in units], strict=True)]
    if len(counts) <= max(numbers, default=0):
        return {"all agents": sum(counts)} if any(counts) else {}
    names = labels or [f"agent {agent}" for agent in range(len(counts))]
    return {names[agent]: counts[agent] for agent in numbers if counts[agent]}
