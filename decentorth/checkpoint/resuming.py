"""Going on from a checkpoint, on any number of ranks, with the bits of a run that never stopped."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._version import __version__
from ..history import COUNTS, History
from ..protocols import Array, Collective, Row
from . import files
from .keeper import Identity
from .states import Arrays, put_together, taken_apart

TOLERANCE = 1e-9
"""Relative difference in what is computed from the same data that another processor's rounding explains."""
_NETWORK = "network."
_LONGEST = 60
log = logging.getLogger(__name__)


class Resumed(NamedTuple):
    """A run as it was when a checkpoint was written."""

    path: Path
    state: Any
    numbers: Mapping[str, Any]
    """Its counters, by name."""
    counts: tuple[int, int, int]
    """Rounds, messages and bytes of the network."""
    in_flight: Mapping[str, Array]
    history: History
    seconds: Mapping[str, float]
    notes: Mapping[str, Any]


def resume(given: str | os.PathLike[str], identity: Identity, like: Any, agents: slice, collective: Collective) -> Resumed:
    """The newest checkpoint that is whole; called by every rank, each of which reads its own agents.

    Parameters
    ----------
    given
        A run's folder, its folder of checkpoints, or one checkpoint.
    identity
        The run that is to go on.
    like
        The method's state at the start: what a state is made of.
    agents
        Those of this rank.

    Raises
    ------
    files.CheckpointError
        On every rank: there is no checkpoint, none is whole, or it is of another run.
    """
    listed = files.agreed(collective, lambda: [str(path) for path in files.found(given)] if collective.rank == 0 else [])
    paths = [Path(path) for path in json.loads(collective.everyone(json.dumps(listed).encode())[0])]
    damage = []
    for path in paths:
        try:
            return _resume(path, identity, like, agents, collective)
        except files.DamagedError as error:
            damage.append(f"{path} is damaged: {error}")
            _warn(collective, damage[-1])
    others = [str(path) for path in files.kept(paths[0].parent) if path not in paths]
    raise files.CheckpointError(f"cannot resume: {'; '.join(damage)}{'; there is also ' if others else ''}{', '.join(others)}")


def _resume(path: Path, identity: Identity, like: Any, agents: slice, collective: Collective) -> Resumed:
    manifest, common = files.read_shared(path, collective)
    resumed, run, version = files.agreed(collective, lambda: _contents(manifest, common), files.DamagedError)

    def refuse(difference: str | None) -> None:
        """If any rank has found one."""
        if found := [text.decode() for text in collective.everyone((difference or "").encode()) if text]:
            raise files.CheckpointError(f"{path} is of another run: {found[0]}")

    refuse(_other_run(run, identity.facts) or _other_start(common["start"], identity.start))
    arrays, numbers = taken_apart(like, "state")
    probes = {f"start.{name}": array for name, array in identity.probes.items()}
    beside = [layout.name for layout in manifest.arrays if layout.name.startswith(_NETWORK)]
    held = {layout.name: f"{layout.kind} {layout.shape}" for layout in manifest.arrays if layout.name not in beside}
    refuse(_unlike(held, {name: f"{array.dtype.str} {array.shape[1:]}" for name, array in (arrays | probes).items()}))
    refuse(_unlike(*({name: type(value).__name__ for name, value in each.items()} for each in (resumed.numbers, numbers))))
    n_agents = int(identity.facts["problem"]["agents"])
    read = files.agreed(collective, lambda: files.read_agents(manifest, n_agents, agents), files.DamagedError)
    refuse(_other_data(read, probes, agents.start))
    same = all(np.array_equal(read[name], array, equal_nan=True) for name, array in probes.items())
    if not all(collective.everyone(b"same" if same else b"")):
        _warn(collective, f"{path} was written where arithmetic rounds differently: the bits will not be those of an unbroken run")
    if version != __version__:
        _warn(collective, f"{path} was written by decentorth {version}, and this is {__version__}: bits may differ")
    state = put_together(like, "state", read, resumed.numbers)
    return resumed._replace(state=state, in_flight={name.removeprefix(_NETWORK): read[name] for name in beside})


def _contents(manifest: files.Manifest, common: Arrays) -> tuple[Resumed, Mapping[str, Any], str]:
    """What is no agent's own: a run without its state, what run it is, and the version of who wrote it.

    Raises
    ------
    ValueError
        Something is missing, or not what it should be.
    """
    facts = manifest.facts
    try:
        columns = [str(name) for name in facts["metrics"]]
        counts, values = common["history.counts"], common["history.values"]
        if counts.shape != (len(values), len(COUNTS)) or values.shape[1:] != (1 + len(columns),) or not len(values):
            raise ValueError(f"{len(columns)} metrics and counts of shape {counts.shape} do not go with {values.shape}")
        rounds, messages, sent = (int(count) for count in facts["counts"])
        history = History()
        for row, (seconds, *metrics) in zip(counts.tolist(), values.tolist(), strict=True):
            history.record(Row._make((*row, seconds, dict(zip(columns, metrics, strict=True)))))
        resumed = Resumed(
            manifest.path,
            None,
            dict(facts["numbers"]),
            (rounds, messages, sent),
            {},
            history,
            {str(name): float(number) for name, number in facts["seconds"].items()},
            dict(facts["notes"]),
        )
        return resumed, {name: dict(group) for name, group in facts["run"].items()}, str(facts["decentorth"])
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ValueError(f"{files.MANIFEST} does not describe a run: {type(error).__name__} {str(error)[:200]}") from None


def _other_run(then: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The first difference, in words."""
    for group, facts in now.items():
        before = then.get(group, {})
        for name in (*facts, *(name for name in before if name not in facts)):
            old, new = before.get(name, "missing"), facts.get(name, "missing")
            if old != new:
                return f"{group}: {name} is {_brief(old)} there and {_brief(new)} here"
    return None


def _brief(value: Any) -> str:
    return str(value) if len(str(value)) <= _LONGEST else f"{str(value)[:_LONGEST]}..."


def _other_start(then: Array, now: Array) -> str | None:
    if then.shape != now.shape:
        return f"the starting point has shape {then.shape} there and {now.shape} here"
    gap, size = np.abs(then - now).max(initial=0.0), np.abs(now).max(initial=0.0)
    return None if gap <= TOLERANCE * size else f"the starting points differ by up to {gap:.3g}"


def _unlike(then: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The first field of the state that is not the same kind of thing."""
    for name in (*now, *(name for name in then if name not in now)):
        old, new = then.get(name, "missing"), now.get(name, "missing")
        if old != new:
            return f"{name} is {old} there and {new} here"
    return None


def _other_data(then: Mapping[str, Array], now: Mapping[str, Array], first: int) -> str | None:
    """The first agent whose data give other numbers at the start; equal bits are equal, whatever they are."""
    for name, mine in now.items():
        old = then[name]
        with np.errstate(all="ignore"):
            size = np.abs(old) + (name == "start.feasibility")  # which is mere rounding at a feasible point
            close = (np.abs(old - mine) <= TOLERANCE * size) | (old == mine) | (np.isnan(old) & np.isnan(mine))
        if not close.all():
            agent = int(np.argmin(close))
            what = f"its {name.partition('.')[2]} at the start is {old[agent]:.10g} there and {mine[agent]:.10g} here"
            return f"the data of agent {first + agent} differ: {what}"
    return None


def _warn(collective: Collective, words: str) -> None:
    if collective.rank == 0:
        log.warning("%s", words)
