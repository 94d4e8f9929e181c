"""The arguments that every rank must be given equally, compared before the run begins.

A rank with another argument would take part in other sums than the rest, and all would wait for
each other. Every argument is compared, so that a new one needs no line here.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..network.collective import check_same
from ..network.transport.communicator import Communicator
from ..problems import Deferred, Spread
from ..running.checkpoint import Checkpoints, Resumed, printed

OF_A_RANK = ("comm", "recorders", "callback", "progress")
"""The ranks themselves, and the arguments that only rank 0 uses: ranks may have others."""


def check_arguments(communicator: Communicator, arguments: Any, spec: type[Any]) -> None:
    """Raise a ValueError on every rank unless all have equal arguments.

    ``spec`` is the dataclass whose fields are compared, by what their values print as, but for
    addresses. Only hashes are exchanged.
    """
    facts: dict[str, object] = {}
    for field in dataclasses.fields(spec):
        if field.name not in OF_A_RANK:
            value = vars(arguments)[field.name]
            if communicator.sites:
                value = _without_place(field.name, value)
            facts |= _facts(field.name, value)
    check_facts(communicator, facts)


def check_facts(communicator: Communicator, facts: Mapping[str, object]) -> None:
    """Raise a ValueError on every rank unless these facts print equally on all."""
    if communicator.size == 1:
        return
    every = {name: hashlib.sha256(printed(fact).encode()) for name, fact in facts.items()}
    check_same(communicator, {name: one.digest() for name, one in every.items()})


def _without_place(name: str, value: Any) -> Any:
    """The value of an argument without the files and folders of the site."""
    match value:
        case Checkpoints():
            return value.every, value.keep
        case Deferred():
            files = [setting for setting in value.given if setting.startswith("data")]
            given = {name: one for name, one in value.given.items() if name not in files}
            return value._replace(given=given)
        case Resumed(path=Path() as path):
            return path.name
        case str() | os.PathLike() if name == "resume":
            return "a checkpoint"
    return value


def _facts(name: str, value: Any) -> Iterator[tuple[str, object]]:
    """The facts by which the value of an argument is compared, each with its name."""
    argument = f"the argument {name}"
    match value:
        case Resumed():
            yield argument, value.path
        case Spread():
            yield "the number of blocks", value.n_blocks
            yield from _facts(name, value.problem)
        case Deferred():
            yield "the number of agents", value.n_agents
            yield "the names of the sites", value.sites
            for setting, given in value.given.items():
                yield f"the problem's {setting}", given
        case _ if name == "problem":  # given whole; each rank uses the data of its own agents
            yield "the type of the problem", type(value)
            yield "the number of agents", value.n_agents
            yield "the shape of a point", value.shape
        case _ if name == "metrics":
            yield argument, [(type(metric), *metric.columns) for metric in value]
        case _:
            yield argument, value
