"""The first lines of a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ... import network as networks
from ...api import Run, steps
from ...api.automatic import cautious, in_words
from ...display import shape
from ...problems import AgentProblem
from ...protocols import Declared
from ...running.local_stopping import Agreement
from ...running.metrics import nonsmooth
from ...settings import settings, values
from ..line.config import Configuration
from ..line.config_files import with_flags
from .summary import in_words as agreement_in_words
from .summary import mixing_words

_LARGEST_LIST = 20
"""The most classes that are printed one by one."""


def opening(
    configuration: Configuration, run: Run, origin: str, agreement: Agreement | None
) -> Iterator[str]:
    """The first lines of a run: problem, network (whose graph and rule are ``origin``), channel,
    rule of stopping and algorithm."""
    given = configuration.run
    network = run.network
    sides = f"x is {shape(run.problem.shape)}"
    about = [*_listed(configuration.problem), f"seed {given.seed}", sides]
    yield f"problem     {given.problem}: {', '.join(about)}"
    if isinstance(run.problem, AgentProblem) and run.problem.classes:
        yield f"classes     {_classes(run.problem.classes)}"
    if isinstance(run.problem, AgentProblem):
        for name, meaning in run.problem.about_columns.items():
            yield f"{name:10}  {with_flags(meaning)}"
    where = [f"{network.n_agents} agents", origin, mixing_words(network)]
    yield f"network     {', '.join([*where, *_ranks(run, given.spread_samples)])}"
    if given.bad_channel is not None:
        yield f"channel     {_channel(given.bad_channel, run.repairs)}"
    if agreement is not None:
        yield f"stopping    {agreement_in_words(agreement)}"
    method = run.algorithm
    if run.arguments.sizes is not None:  # without what real data would recommend
        method = steps.for_network(configuration.algorithm, network)
    words = _listed(method)
    if configuration.published:
        words.append("the published experiment (paper 004), --config paper004")
    yield f"algorithm   {': '.join(filter(None, [given.algorithm, ', '.join(words)]))}"
    if run.choice is not None:
        yield f"auto        {in_words(run).replace('; or algorithm ', '; or --algorithm ')}"
    for note in (*run.cautions, *_cautions(given.algorithm, given.problem, run)):
        yield f"note        {note}"


def _classes(counts: Mapping[str, int]) -> str:
    """The classes, and in parentheses the number of samples of each."""
    words = [f"{name} ({count})" for name, count in counts.items()]
    if len(words) > _LARGEST_LIST:
        words[_LARGEST_LIST:] = [f"and {len(words) - _LARGEST_LIST} more"]
    return ", ".join(words)


def _ranks(run: Run, blocks: int | None) -> list[str]:
    """The ranks of a run, and the agents or the ``blocks`` of samples that they have; nothing for
    one process of all agents."""
    ranks = run.collective.size
    sizes = np.diff(run.network.bounds)
    where = f"over {ranks} ranks"
    if ranks == 1:
        where = "in this process"
    if blocks is not None:
        return [f"its samples in {blocks} blocks {where}"]
    if ranks == 1:
        return []
    ends = sorted({int(sizes.min()), int(sizes.max())})
    return [f"on {ranks} ranks of {' to '.join(map(str, ends))} agents"]


def _channel(channel: networks.Channel, repairs: bool) -> str:
    """The faults of a channel, and what is done about them."""
    words = []
    if repairs:
        words.append("with repair" if channel.repair else "without repair")
    if channel.correction:
        words.append(f"trackers corrected by {channel.correction:g} / iteration")
    return "; ".join(filter(None, (", ".join(channel.written), ", ".join(words))))


def _cautions(name: str, problem: str, run: Run) -> Iterator[str]:
    """Notes on a method that may not solve the problem."""
    declared = Declared.of(run.algorithm)
    constraint = run.problem.constraint
    if nonsmooth(run.problem) and not declared.nonsmooth:
        made_for_it = "rssm" if run.network.n_agents == 1 else "drsm"
        yield (
            f"{problem} is not differentiable: with steps that do not shrink {name} stops near the "
            f"answer; {made_for_it} is made for it"
        )
    if run.choice is None and cautious(run):
        yield (
            "the network changes or loses messages, so the automatic step is cautious: a given "
            "--step-size may be faster"
        )
    free = declared.penalty == 0.0 and not declared.requires_set
    if free and constraint.feasibility(0.0 * run.start[None])[0] > 0.0:
        yield (
            f"{name} does not keep points on {constraint!r}, and they may leave it for good: use "
            "it as a baseline without the constraint"
        )


def _listed(entry: object) -> list[str]:
    """The settings of a problem or a method that are not its defaults, and always its data and its
    step size."""
    known = settings(type(entry))
    given = vars(entry)
    chosen = [name for name in known if given[name] != known[name].default]
    shown = {*chosen, "data", "step_size"}
    return [
        _in_words(name.replace("_", " "), value)
        for name, value in values(entry).items()
        if value not in (None, []) and name in shown
    ]


def _in_words(name: str, value: object) -> str:
    if value is True:
        return name
    if value is False:
        return f"no {name}"
    if type(value) is list:
        return f"{name} {','.join(map(str, value))}"
    return f"{name} {value}"
