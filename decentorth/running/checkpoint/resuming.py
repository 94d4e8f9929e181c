"""Resuming from a checkpoint, on any number of ranks, with the bits of an uninterrupted run."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..._version import __version__
from ...protocols import Array, Collective, Row
from ..history import COUNTS, LIMIT, History
from . import files
from .identity import Identity
from .states import put_together, taken_apart

TOLERANCE = 1e-9
"""The largest relative difference, on the same data, that another processor's rounding explains."""
_NETWORK = "network."
_LONGEST = 60
log = logging.getLogger(__name__)


class ResumableRun(Protocol):
    """A run as it starts, which may continue from a checkpoint (`decentorth.api.Run`)."""

    network: Any

    @property
    def identity(self) -> Identity: ...
    def states(self) -> Iterator[Any]: ...


Losses = tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
"""The iterations at which ranks were lost, with these ranks and their agents."""


class Resumed(NamedTuple):
    """The state of a run when a checkpoint was written."""

    path: Path | None
    """The checkpoint; None if the run does not continue from one."""
    state: Any
    counts: tuple[int, int, int]
    """The rounds, messages and bytes of the network."""
    in_flight: Mapping[str, Array]
    history: History
    seconds: Mapping[str, float]
    notes: Mapping[str, Any]
    agreement: Mapping[str, Any] = MappingProxyType({})
    losses: Losses = ()
    run: Any = None
    """The run that continues, of the agents that are left."""


class _Contents(NamedTuple):
    """The facts of a run in a manifest."""

    version: str
    run: Mapping[str, Mapping[str, Any]]
    numbers: Mapping[str, Any]
    counts: tuple[int, int, int]
    seconds: Mapping[str, float]
    metrics: Sequence[str]
    agreement: Mapping[str, Any]
    notes: Mapping[str, Any]
    losses: Losses


def resume(given: str | os.PathLike[str], start: Callable[[Losses], ResumableRun], collective: Collective) -> Resumed:
    """The run of the newest undamaged checkpoint; a collective call, in which each rank reads its own agents.

    ``start`` returns the run that may continue, given the losses in the checkpoint, or raises ValueError.

    Raises
    ------
    files.CheckpointError
        There is no checkpoint, all are damaged, or it is of another run; raised on every rank.
    """
    listed = files.on_all(collective, lambda: [str(path) for path in files.found(given)] if collective.rank == 0 else [])
    paths = [Path(path) for path in json.loads(collective.everyone(json.dumps(listed).encode())[0])]
    damage: list[str] = []
    for path in paths:
        if damage:
            _warn(collective, f"{damage[-1]}; {path} is tried")
        try:
            return _resume(files.read_manifest(path, collective), start, collective)
        except files.DamagedError as error:
            damage.append(f"{path} is damaged: {error}")
    others = [str(path) for path in files.kept(paths[0].parent) if path not in paths]
    raise files.CheckpointError(f"cannot resume: {'; '.join(damage)}{'; there is also ' if others else ''}{', '.join(others)}")


def _resume(manifest: files.Manifest, start: Callable[[Losses], ResumableRun], collective: Collective) -> Resumed:
    def refuse(difference: str | None) -> None:
        """Raise if any rank has found a difference."""
        if found := [text.decode() for text in collective.everyone((difference or "").encode()) if text]:
            raise files.CheckpointError(f"{manifest.path} is of another run: {found[0]}")

    def unusable(words: object) -> files.CheckpointError:
        return files.CheckpointError(f"cannot resume {manifest.path}: {words}")

    contents = files.on_all(collective, lambda: _contents(manifest), files.DamagedError)
    try:
        run = start(contents.losses)
        identity, like = run.identity, next(run.states())
    except ValueError as error:
        raise unusable(error) from error
    arrays, numbers = taken_apart(like, "state")
    probes = {f"start.{name}": array for name, array in identity.probes.items()}
    in_flight = [layout.name for layout in manifest.arrays if layout.name.startswith(_NETWORK)]
    changing = [layout.name for layout in manifest.arrays if layout.name in (files.AGENTS_STATE, *in_flight)]
    there = {layout.name: _kind(layout.kind, layout.shape) for layout in manifest.arrays}
    there |= dict.fromkeys(changing, "in flight")
    here = {name: _kind(array.dtype.str, array.shape[1:]) for name, array in (arrays | probes).items()}
    here |= {f"{_NETWORK}{name}": "in flight" for name in run.network.in_flight()}
    here |= {name: "in flight" for name in arrays if name == files.AGENTS_STATE}
    read_facts = {**contents.run, "the state": there, "the state's numbers": _types(contents.numbers)}
    refuse(_difference(read_facts, {**identity.facts, "the state": here, "the state's numbers": _types(numbers)}))
    files.on_all(collective, lambda: _check_common(manifest, contents, identity.start), files.DamagedError)

    common = files.read_common(manifest, collective)
    gap, size = np.abs(common["start"] - identity.start).max(initial=0.0), np.abs(identity.start).max(initial=0.0)
    refuse(None if gap <= TOLERANCE * size else f"the starting points differ by up to {gap:.3g}")
    history = files.on_all(
        collective, lambda: _history(common["history.counts"], common["history.values"], contents), files.DamagedError
    )
    agents: slice = run.network.agents
    read = files.on_all(collective, lambda: files.read_agents(manifest, identity.n_agents, agents), files.DamagedError)
    refuse(_other_data(read, probes, agents.start))
    same = all(np.array_equal(read[name], array, equal_nan=True) for name, array in probes.items())
    if not all(collective.everyone(b"same" if same else b"")):
        _warn(
            collective,
            f"{manifest.path} was written where arithmetic rounds differently: bits will not be those of an unbroken run",
        )
    if contents.version != __version__:
        _warn(collective, f"{manifest.path} was written by decentorth {contents.version}, this is {__version__}: bits may differ")
    messages = {name.removeprefix(_NETWORK): read[name] for name in in_flight}
    files.on_all(collective, lambda: run.network.restore(*contents.counts, messages), unusable)
    state = files.on_all(collective, lambda: put_together(like, "state", read, contents.numbers), unusable)
    return Resumed(
        manifest.path,
        state,
        contents.counts,
        messages,
        history,
        contents.seconds,
        contents.notes,
        contents.agreement,
        contents.losses,
        run,
    )


def _contents(manifest: files.Manifest) -> _Contents:
    """The facts of a run in a manifest; a ValueError if one is missing or invalid."""
    facts = manifest.facts
    try:
        rounds, messages, sent = facts["counts"]
        contents = _Contents(
            str(facts["decentorth"]),
            {str(name): dict(group) for name, group in facts["run"].items()},
            dict(facts["numbers"]),
            (rounds, messages, sent),
            {str(name): float(number) for name, number in facts["seconds"].items()},
            [str(name) for name in facts["metrics"]],
            _agreement(facts.get("agreement", {})),
            dict(facts["notes"]),
            tuple(
                (int(k), tuple(map(int, ranks)), tuple(map(int, agents)))
                for k, ranks, agents in facts["run"].get("lost", {}).get("losses", ())
            ),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"{files.MANIFEST} does not describe a run: {type(error).__name__} {str(error)[:200]}") from None
    whole = {name: value for name, value in contents.numbers.items() if type(value) is int}
    tally = dict(zip(("rounds", "messages", "bytes"), contents.counts, strict=True))
    for name, count in ({"state.k": None} | whole | tally).items():
        if not files.counted(count):
            raise ValueError(f"{files.MANIFEST} says that {name} is {_brief(count)}")
    if not all(0.0 <= spent < math.inf for spent in contents.seconds.values()):
        raise ValueError(f"{files.MANIFEST} says that the seconds are {_brief(contents.seconds)}")
    return contents


def newest_notes(given: str | os.PathLike[str]) -> tuple[Mapping[str, Any], int]:
    """The notes of the newest checkpoint of a path whose files have the sizes in its manifest, and the number of agents at the
    start of the run: those in the files, and those that were lost. A ValueError if there is no such checkpoint."""
    damage = []
    for path in files.found(given):
        try:
            manifest = files.parsed(path, files.limited(path / files.MANIFEST, files.MANIFEST_BYTES))
            contents = _contents(manifest)
            return contents.notes, files.held(manifest) + sum(len(agents) for _, _, agents in contents.losses)
        except (OSError, ValueError) as error:
            damage.append(f"{path} is damaged: {files.words(error)}")
    raise ValueError(f"cannot resume: {'; '.join(damage)}")


def _agreement(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The agents' knowledge about stopping, and its cost in attempts and messages; empty if they do not decide on it."""
    if not facts:
        return {}
    attempts, rounds, messages, sent = (int(count) for count in facts["tally"])
    found: dict[str, Any] = {"tally": (attempts, rounds, messages, sent)}
    if "maxima" in facts:
        maxima = {str(name): float(value) for name, value in facts["maxima"].items()}
        found |= {"iteration": int(facts["iteration"]), "maxima": maxima}
    return found


def _check_common(manifest: files.Manifest, contents: _Contents, start: Array) -> None:
    """Raise unless the common arrays are a starting point and a history."""
    rows = manifest.common[-1].shape[0] if manifest.common and manifest.common[-1].shape else 0
    expected = [
        files.Layout("start", "<f8", start.shape),
        files.Layout("history.counts", "<i8", (rows, len(COUNTS))),
        files.Layout("history.values", "<f8", (rows, 1 + len(contents.metrics))),
    ]
    if manifest.common != expected or not 0 < rows <= LIMIT:
        raise ValueError(f"{files.MANIFEST} does not describe a starting point and a history of {len(contents.metrics)} metrics")


def _history(counts: NDArray[Any], values: NDArray[Any], contents: _Contents) -> History:
    if (np.diff([-1, *counts[:, 0], contents.numbers["state.k"] + 1]) < 1).any():
        raise ValueError(f"{files.COMMON} has a history that does not lead to iteration {contents.numbers['state.k']}")
    history = History()
    for row, (seconds, *measured) in zip(counts.tolist(), values.tolist(), strict=True):
        history.record(Row._make((*row, seconds, dict(zip(contents.metrics, measured, strict=True)), None)))
    return history


def _kind(kind: str, shape: tuple[int, ...]) -> str:
    """The type and shape of an agent's array in words."""
    return f"{kind} {' x '.join(map(str, shape))}".rstrip()


def _types(numbers: Mapping[str, Any]) -> dict[str, str]:
    return {name: type(value).__name__ for name, value in numbers.items()}


def _difference(then: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]) -> str | None:
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


def _other_data(then: Mapping[str, Array], now: Mapping[str, Array], first: int) -> str | None:
    """The first agent whose data give other numbers at the start, in words; NaN and equal infinities count as equal."""
    for name, mine in now.items():
        old = then[name]
        with np.errstate(all="ignore"):
            size = np.abs(old) + (name == "start.feasibility")  # rounding only, at a feasible point
            close = (np.abs(old - mine) <= TOLERANCE * size) | (old == mine) | (np.isnan(old) & np.isnan(mine))
        if not close.all():
            agent = int(np.argmin(close))
            what = f"its {name.partition('.')[2]} at the start is {old[agent]:.10g} there and {mine[agent]:.10g} here"
            return f"the data of agent {first + agent} differ: {what}"
    return None


def _warn(collective: Collective, words: str) -> None:
    if collective.rank == 0:
        log.warning("%s", words)
