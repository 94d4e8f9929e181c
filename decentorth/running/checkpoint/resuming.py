"""Resuming from a checkpoint, on any number of ranks, with the bits of an uninterrupted run."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..._version import __version__
from ...protocols import Array, Collective, Row
from ..history import COUNTS, History
from . import checkpoint_files
from .identity import Identity
from .state_arrays import Arrays, put_together, taken_apart

TOLERANCE = 1e-9
"""The largest relative difference, on the same data, that another processor's rounding explains."""
_NETWORK, _PROBE = "network.", "start."
_COMMON = ("start", "history.counts", "history.values")
"""The arrays that are common to all agents."""
_OWN_STATES = "state.agents"
"""The array with the state of agents that keep their own; its size changes with the messages that
are under way."""
_LONGEST = 60
log = logging.getLogger(__name__)


class ResumableRun(Protocol):
    """A run as it starts, which may continue from a checkpoint (`decentorth.api.Run`)."""

    @property
    def parts(self) -> Any: ...
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
    notes: checkpoint_files.Json
    agreement: checkpoint_files.Json = MappingProxyType({})
    losses: Losses = ()
    run: Any = None
    """The run that continues, of the agents that are left."""


Start = Callable[[Losses], ResumableRun]


def resume(given: str | os.PathLike[str], start: Start, collective: Collective) -> Resumed:
    """The run of the newest undamaged checkpoint; a collective call, in which each rank reads its
    own agents.

    ``start`` returns the run that may continue, given the losses in the checkpoint, or raises
    ValueError.

    Raises
    ------
    files.CheckpointError
        There is no checkpoint, all are damaged, or it belongs to another run; raised on every rank.
    """
    listed = checkpoint_files.on_all(
        collective, lambda: collective.root and checkpoint_files.found(given)
    )
    listing = collective.ours(json.dumps(listed, default=str).encode())[0]
    paths = in_common([Path(path) for path in json.loads(listing)], collective)
    damage: list[str] = []
    for path in paths:
        if damage:
            _warn(collective, f"{damage[-1]}; {path} is tried")
        try:
            return _restored(checkpoint_files.read_manifest(path, collective), start, collective)
        except checkpoint_files.DamagedError as error:
            damage.append(f"{path} cannot be read: {error}")
    others = [str(path) for path in checkpoint_files.kept(paths[0].parent) if path not in paths]
    also = [f"there is also {', '.join(others)}"] * bool(others)
    raise checkpoint_files.CheckpointError(f"cannot resume: {'; '.join(damage + also)}")


def in_common(paths: Sequence[Path], collective: Collective) -> list[Path]:
    """The checkpoints of whose iterations every site has one; a CheckpointError without any."""
    names = [path.name for path in paths]
    every = [{*json.loads(one)} for one in collective.everyone(json.dumps(names).encode())]
    shared = set.intersection(*every)
    if not shared:
        raise checkpoint_files.CheckpointError(
            "cannot resume: the sites have no checkpoint in common"
        )
    return [path for path in paths if path.name in shared]


def newest_notes(given: str | os.PathLike[str]) -> tuple[checkpoint_files.Json, int]:
    """The notes of the newest checkpoint whose files have the right sizes, and the number of agents
    at the start of the run.

    The number counts lost agents too. A ValueError if there is no such checkpoint.
    """
    damage = []
    for path in checkpoint_files.found(given):
        try:
            manifest = checkpoint_files.parsed(
                path,
                checkpoint_files.limited(
                    path / checkpoint_files.MANIFEST, checkpoint_files.MANIFEST_BYTES
                ),
            )
            saved = _facts(manifest)
            lost = sum(len(agents) for _, _, agents in saved.losses)
            with checkpoint_files.usable():
                return saved.notes, int(manifest.facts["run"]["problem"]["agents"]) + lost
        except (OSError, ValueError) as error:
            damage.append(f"{path} cannot be read: {checkpoint_files.words(error)}")
    raise ValueError(f"cannot resume: {'; '.join(damage)}")


def _restored(manifest: checkpoint_files.Manifest, start: Start, collective: Collective) -> Resumed:
    """The run of a checkpoint, after it is compared with the one that ``start`` returns."""
    on_all = partial(checkpoint_files.on_all, collective)
    unusable = partial(_unusable, manifest.path)
    saved = on_all(lambda: _facts(manifest), checkpoint_files.DamagedError)
    try:
        run = start(saved.losses)
        network = run.parts.network
        identity = run.identity
        like = next(run.states())
    except ValueError as error:
        raise unusable(error) from error
    _refuse(collective, manifest.path, _other_run(manifest, run, like))
    agents: slice = network.agents
    read = on_all(lambda: _read(manifest, agents), checkpoint_files.DamagedError)
    _refuse(collective, manifest.path, _other_data(read, identity, agents.start))
    _warn_of_bits(manifest, read, identity, collective)
    history = on_all(lambda: _history(manifest, read), checkpoint_files.DamagedError)
    sent = [name for name in read if name.startswith(_NETWORK)]
    in_flight = {name.removeprefix(_NETWORK): read[name] for name in sent}
    on_all(lambda: network.restore(*saved.counts, in_flight), unusable)
    state = on_all(lambda: put_together(like, "state", read, manifest.facts["numbers"]), unusable)
    on_all(lambda: _check_iteration(manifest, state), checkpoint_files.DamagedError)
    return saved._replace(state=state, in_flight=in_flight, history=history, run=run)


def _unusable(path: Path, words: object) -> checkpoint_files.CheckpointError:
    return checkpoint_files.CheckpointError(f"cannot resume {path}: {words}")


def _refuse(collective: Collective, path: Path, difference: str | None) -> None:
    """Raise on every rank if any has found a difference."""

    def check() -> None:
        if difference:
            raise ValueError(f"{path} belongs to another run: {difference}")

    checkpoint_files.on_all(collective, check)


def _facts(manifest: checkpoint_files.Manifest) -> Resumed:
    """The facts of a run in a manifest, without its arrays; a ValueError if one is invalid, or if a
    file has another size."""
    with checkpoint_files.usable():
        facts = manifest.facts
        numbers = dict(manifest.facts["numbers"])
        facts["run"] = {name: dict(group) for name, group in facts["run"].items()}
        facts["metrics"] = [str(name) for name in facts["metrics"]]
        rounds, messages, sent = facts["counts"]
        lost = facts["run"].get("lost", {}).get("losses", ())
        saved = Resumed(
            manifest.path,
            None,
            (rounds, messages, sent),
            {},
            History(),
            {str(name): float(number) for name, number in facts["seconds"].items()},
            dict(facts["notes"]),
            _agreement(facts["agreement"]),
            tuple((int(k), (*map(int, ranks),), (*map(int, agents),)) for k, ranks, agents in lost),
        )
        counts = {
            "iteration": facts["iteration"],
            **{name: numbers[name] for name in numbers if name.endswith((".k", ".gradients"))},
            **dict(zip(("rounds", "messages", "bytes"), saved.counts, strict=True)),
        }
        for name, count in counts.items():
            if not checkpoint_files.counted(count):
                raise ValueError(f"{name} is {_brief(count)}")
        for name, number in numbers.items():
            if type(number) is int and not -(2**63) <= number < 2**63:
                raise ValueError(f"{name} is {_brief(number)}")
        if not all(0.0 <= spent < math.inf for spent in saved.seconds.values()):
            raise ValueError(f"the seconds are {_brief(saved.seconds)}")
    checkpoint_files.check_sizes(manifest)
    return saved


def _agreement(facts: checkpoint_files.Json) -> dict[str, object]:
    """The agents' knowledge about stopping, and its cost in attempts and messages; empty if they do
    not decide on it."""
    if not facts:
        return {}
    attempts, rounds, messages, sent = (int(count) for count in facts["tally"])
    found: dict[str, object] = {"tally": (attempts, rounds, messages, sent)}
    if "maxima" in facts:
        maxima = {str(name): float(value) for name, value in facts["maxima"].items()}
        found |= {"iteration": int(facts["iteration"]), "maxima": maxima}
    return found


def _other_run(manifest: checkpoint_files.Manifest, run: ResumableRun, like: Any) -> str | None:
    """The first difference between the facts of the run in a checkpoint and of this one, which
    starts with a state ``like``."""
    arrays, numbers = taken_apart(like, "state")
    arrays |= {f"{_PROBE}{name}": array for name, array in run.identity.probes.items()}
    arrays |= {f"{_NETWORK}{name}": array for name, array in run.parts.network.in_flight().items()}
    columns = 1 + len(manifest.facts["metrics"])
    rows = np.empty((0, len(COUNTS)), int), np.empty((0, columns))
    arrays |= dict(zip(_COMMON, (run.identity.start, *rows), strict=True))
    then = {
        "the state": {
            name: _kind(name, array.kind, array.shape) for name, array in manifest.arrays.items()
        },
        "the state's numbers": _types(manifest.facts["numbers"]),
    }
    now = {
        "the state": {
            name: _kind(name, array.dtype.str, array.shape) for name, array in arrays.items()
        },
        "the state's numbers": _types(numbers),
    }
    return _difference(manifest.facts["run"] | then, {**run.identity.facts, **now})


def _kind(name: str, kind: str, shape: tuple[int, ...]) -> str:
    """The type and shape of one row of an array; the shape of messages under way varies."""
    if name == _OWN_STATES or name.startswith(_NETWORK):
        return "in flight"
    return f"{kind} {' x '.join(map(str, shape[1:]))}".rstrip()


def _types(numbers: Mapping[str, object]) -> dict[str, str]:
    return {name: type(value).__name__ for name, value in numbers.items()}


_Groups = Mapping[str, checkpoint_files.Json]


def _difference(then: _Groups, now: _Groups) -> str | None:
    """The first difference, in words."""
    for group, facts in now.items():
        before = then.get(group, {})
        for name in {**facts, **before}:
            old = before.get(name, "missing")
            new = facts.get(name, "missing")
            if old != new:
                return f"{group}: {name} is {_brief(old)} there and {_brief(new)} here"
    return None


def _brief(value: object) -> str:
    text = str(value)
    return text[:_LONGEST] + "..." * (len(text) > _LONGEST)


def _read(manifest: checkpoint_files.Manifest, agents: slice) -> Arrays:
    """All arrays: the rows of ``agents``, and the arrays common to all agents."""
    rows = {name: slice(0, manifest.arrays[name].shape[0]) for name in _COMMON}
    return {
        name: checkpoint_files.read(manifest, name, rows.get(name, agents))
        for name in manifest.arrays
    }


def _other_data(read: Arrays, identity: Identity, first: int) -> str | None:
    """The first difference in the start or the agents' data, in words; NaN and equal infinities
    count as equal."""
    gap = np.abs(read["start"] - identity.start).max(initial=0.0)
    if gap > TOLERANCE * np.abs(identity.start).max(initial=0.0):
        return f"the starting points differ by up to {gap:.3g}"
    for name, mine in identity.probes.items():
        old = read[f"{_PROBE}{name}"]
        with np.errstate(all="ignore"):
            size = np.abs(old) + (name == "feasibility")  # rounding only, at a feasible point
            close = np.abs(old - mine) <= TOLERANCE * size
        close |= (old == mine) | (np.isnan(old) & np.isnan(mine))
        if not close.all():
            agent = int(np.argmin(close))
            return (
                f"the data of agent {first + agent} differ: its {name} at the start is "
                f"{old[agent]:.10g} there and {mine[agent]:.10g} here"
            )
    return None


def _warn_of_bits(
    manifest: checkpoint_files.Manifest, read: Arrays, identity: Identity, collective: Collective
) -> None:
    """Warn if another processor or version wrote the checkpoint."""
    probes = identity.probes.items()
    same = all(
        np.array_equal(read[f"{_PROBE}{name}"], mine, equal_nan=True) for name, mine in probes
    )
    if not all(collective.everyone(b"same" * same)):
        _warn(
            collective,
            f"{manifest.path} was written where arithmetic rounds differently: bits will differ "
            "from those of an unbroken run",
        )
    if (version := manifest.facts.get("decentorth")) != __version__:
        _warn(
            collective,
            f"{manifest.path} was written by decentorth {version}, this is {__version__}: bits may "
            "differ",
        )


def _check_iteration(manifest: checkpoint_files.Manifest, state: Any) -> None:
    """Raise ValueError if the state is of another iteration than the checkpoint."""
    k = manifest.facts["iteration"]
    if state.k != k:
        raise ValueError(f"its state is that of iteration {state.k}, not of {k}")


def _history(manifest: checkpoint_files.Manifest, read: Arrays) -> History:
    """The history in a checkpoint; a ValueError unless it leads to the checkpoint's iteration."""
    _, counts, values = (read[name] for name in _COMMON)
    k = manifest.facts["iteration"]
    metrics = manifest.facts["metrics"]
    if not len(counts) or (np.diff([-1, *counts[:, 0], k + 1]) < 1).any():
        raise ValueError(f"its history does not lead to iteration {k}")
    history = History()
    for row, (seconds, *measured) in zip(counts.tolist(), values.tolist(), strict=True):
        history.record(Row._make((*row, seconds, dict(zip(metrics, measured, strict=True)), None)))
    return history


def _warn(collective: Collective, words: str) -> None:
    if collective.root:
        log.warning("%s", words)
