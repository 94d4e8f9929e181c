"""Configurations of commands: one set of dataclasses gives the flags, the help, the keys of a file, their validation and the
configuration that is saved with the results.

Settings are read in two phases: first the names (of the problem, of the algorithm), then one flat command out of the command's own
settings and the dataclasses that the names stand for. Flags win over the file, the file over the defaults.
"""

from __future__ import annotations

import dataclasses
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from topologies.words import shortened

from .. import plugins, registry
from ..protocols import Declared
from ..settings import Setting, Settings, settings, without_effect
from . import wiring
from .flags import CONFIG_BYTES, InputError, Parser, load, named_file, read_value, refuse, spelled, unknown
from .settings import ACTS, CHECKPOINTS, NETWORK, OUTPUT, RESUMABLE, SECTIONS, TOLERANCES, CaseSettings, RunSettings

EXPERIMENT = ("problem", "algorithm", "start", *(name for name in NETWORK if name != "placement"))
"""The own settings of a run that make another experiment of it, as all of its problem and its method do."""
PUBLISHED = "paper004"
"""The name of the published experiment, which ``--config`` reads."""


class Saved(ABC):
    """Resolved settings, as they are printed, saved and compared."""

    @abstractmethod
    def groups(self, *, outputs: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        """Headings and settings, in the order of the help; without ``outputs`` only the settings on which the results depend."""

    def mapping(self) -> dict[str, Any]:
        """The configuration that is saved: every setting except the output folder and other outputs."""
        return {name: value for _, part in self.groups(outputs=False) for name, value in part.items()}

    def yaml(self, *, outputs: bool = False) -> str:
        """The configuration as YAML with headings, which ``--config`` reads back to the same."""
        import yaml

        groups = [(heading, part) for heading, part in self.groups(outputs=outputs) if part]
        return "\n".join(f"# {heading}\n{yaml.safe_dump(part, sort_keys=False)}" for heading, part in groups)


C = TypeVar("C", bound=Saved)


@dataclass(frozen=True)
class Configuration(Saved):
    """A run with every setting resolved."""

    run: RunSettings
    problem: Any
    """The settings of the problem."""
    algorithm: Any
    published: bool
    """True for the published experiment (see `Command.given`)."""

    def groups(self, *, outputs: bool) -> Iterator[tuple[str, dict[str, Any]]]:
        held = values(self.run)
        run = {name: held[name] for name in Command.own if name not in ACTS}
        yield "Run", {name: value for name, value in run.items() if name not in (*NETWORK, *OUTPUT)}
        yield "Network", {name: run[name] for name in NETWORK}
        yield f"Problem: {self.run.problem}", values(self.problem)
        yield f"Algorithm: {self.run.algorithm}", values(self.algorithm)
        if outputs:
            yield "Output", {name: value for name, value in run.items() if name in OUTPUT}


class Form(ABC, Generic[C]):
    """The flags and the keys of a file that make a dataclass of settings, and the entries that some of its fields name.

    Each command is a subclass, which names its settings.

    Parameters
    ----------
    tokens
        The arguments, without the program's name.
    path, raw
        A configuration file's name and its bytes, when there is one.
    saved
        Settings of an earlier run that is to go on, which a file and flags override.
    shared
        Settings that rank 0 has read.
    """

    program: ClassVar[str]
    summary: ClassVar[str]
    own: ClassVar[Mapping[str, Setting]]
    """The command's own settings."""
    noun: ClassVar[str]
    """The name of the command's product, such as "run"; it heads the first group of settings."""
    output: ClassVar[tuple[str, ...]]
    """Names of the command's own settings on which the results do not depend."""
    entries: ClassVar[Mapping[str, registry.Registry]]
    """The registry for each of the command's own settings whose value is a registered name."""

    def __init__(
        self,
        tokens: Sequence[str],
        path: str | None = None,
        raw: bytes = b"",
        saved: Mapping[str, Any] | None = None,
        shared: Mapping[str, Any] | None = None,
    ) -> None:
        self.tokens = tuple(tokens)
        self.path = "the resumed run" if path is None else path
        self.saved = {} if saved is None else saved
        self.file = {**self.saved, **({} if path is None else load(path, raw)), **(shared or {})}
        self.agents: int | None = None
        early, _ = Parser({"": {kind: self.own[kind] for kind in ("plugin", *self.entries)}}).divided(self.tokens)
        self._load_plugins(early.get("plugin", ()))
        self.names = {kind: self._name(kind, early) for kind in self.entries}
        self._refuse_other(self.names)
        self.types = {kind: entries.get(self.names[kind]) for kind, entries in self.entries.items()}
        self.groups = self._groups()

    @classmethod
    def asked(cls, words: Sequence[str]) -> Self:
        """The form of these arguments, with the file and the earlier run that they name."""
        path = early_flag(words, "config")
        made = cls(words, path, b"" if path is None else config_bytes(path), cls.earlier(words))
        made.agents = made.fixed_agents()
        return made

    def shared(self) -> bytes:
        """The given settings and those of an earlier run, for `received` on other ranks."""
        given, _ = self.given()
        return json.dumps([given, dict(self.saved), plugins.digest().hex()]).encode()

    @classmethod
    def received(cls, shared: bytes) -> Self:
        """The form that rank 0 has shared; each rank executes the plugins that the command line names."""
        given, saved, digest = json.loads(shared)
        tokens = [f"--plugin={path}" for path in given.pop("plugin", ())]
        tokens += [f"--{name}={given.pop(name)}" for name in ("config", "resume") if name in given]
        made = cls(tokens, saved=saved, shared=given)
        if plugins.digest().hex() != digest:
            raise InputError("every rank must be given the same plugins, and rank 0 has others")
        return made

    def _name(self, kind: str, early: Mapping[str, Any]) -> str:
        given = [value for value in (early.get(kind), self.file.get(kind), self.own[kind].default) if value is not None]
        try:
            name: str = read_value(kind, str, given[0])
            self.entries[kind].get(name)
        except (ValueError, TypeError) as error:
            raise InputError(f"{self._where(kind, early)}: {error}") from None
        return name.lower().replace("-", "_")

    def _load_plugins(self, given: Sequence[str]) -> None:
        """Execute the plugins that the command line names; a file or an earlier run cannot have one executed."""
        hint = self.own["plugin"].hint
        try:
            for path in read_value("--plugin", hint, given):
                plugins.load(path)
            named = read_value("plugin", hint, self.file.get("plugin") or ())
        except (ValueError, TypeError) as error:
            raise InputError(str(error)) from None
        if named and not given:
            flags = " ".join(f"--plugin {path}" for path in named)
            raise InputError(
                f"{self.path} names a plugin, and no file that is read has code executed: if you trust it, give {flags}"
            )

    def _refuse_other(self, now: Mapping[str, Any], changing: Sequence[str] = RESUMABLE) -> None:
        """Raise unless every setting that differs from the earlier run may be changed on resuming."""
        for name, value in now.items():
            if name in self.saved and name not in changing and value != self.saved[name]:
                kept = "not given" if self.saved[name] is None else self.saved[name]
                raise InputError(
                    f"--{spelled(name)} is {kept} in the run that is to go on, and {value} here; only "
                    f"{', '.join(f'--{spelled(other)}' for other in changing)} and where its results go may be changed"
                )

    def _groups(self) -> dict[str, Mapping[str, Setting]]:
        first = {name: setting for name, setting in self.own.items() if name not in (*NETWORK, *self.output)}
        network = {name: self.own[name] for name in NETWORK}
        groups: dict[str, Mapping[str, Setting]] = {self.noun.capitalize(): first, "Network": network}
        for kind, entry in self.types.items():
            taken = {name for group in groups.values() for name in group} | set(self.output)
            own = settings(entry)
            if clash := sorted(taken & own.keys()):
                raise InputError(f"{kind} {self.names[kind]!r} has a setting {clash[0]!r}, and so has another part: rename it")
            groups[f"{kind.capitalize()}: {self.names[kind]}"] = own
        groups["Output"] = {name: self.own[name] for name in self.output}
        return groups

    def help(self) -> str:
        """The help of this command: its settings in groups, with choices and defaults."""
        headings = {name: heading for heading, names in SECTIONS.items() for name in names}
        groups: dict[str, dict[str, Setting]] = {heading: {} for heading in (*list(self.groups)[:-1], *SECTIONS)}
        for heading, group in self.groups.items():
            for name, setting in group.items():
                if name in self.entries:
                    choices = ", ".join(self.entries[name].names())
                    setting = setting._replace(help=f"{setting.help} One of: {choices}.")
                groups[headings.get(name, heading) if name in self.own else heading][name] = setting
        filled = {heading: group for heading, group in groups.items() if group}
        return Parser(filled, self.program, self.summary).format_help()

    @staticmethod
    def earlier(tokens: Sequence[str]) -> Mapping[str, Any]:
        """The settings of the earlier run to resume; empty for commands that cannot resume."""
        return {}

    @abstractmethod
    def resolve(self) -> C:
        """The configuration."""

    def given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The given settings, from flags and file, and separately the text of the settings given by flag."""
        given, by_flag = self._read
        fixed = {} if self.agents is None else {"agents": self.agents}
        return fixed | given | self.names, by_flag

    @cached_property
    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        known = {name: setting for group in self.groups.values() for name, setting in group.items()}
        for key in self.file:
            if key not in known:
                raise unknown(f"{self.path}: unknown key {key!r}", key, known, self._owner(key))
        if "config" in self.file:
            raise InputError(f"{self.path}: a file cannot name another file (config); merge the two")
        if "resume" in self.file:
            raise InputError(f"{self.path}: what to go on with is not a setting of a run; give --resume {self.file['resume']}")
        by_flag, rest = Parser(self.groups).divided(self.tokens)
        refuse(rest, known, self._owner)
        by_file = {name: value for name, value in self.file.items() if value is not None}
        given: dict[str, Any] = {}
        for name, value in (by_file | by_flag).items():
            try:
                given[name] = read_value(name, known[name].hint, value)
            except (ValueError, TypeError) as error:
                raise InputError(f"{self._where(name, by_flag)}: {error}") from None
        return given, by_flag

    def fixed_agents(self) -> int | None:
        """The number of agents that the graph or the weights file fixes, None where it is given, or left open; a ValueError where
        that cannot be used."""
        given, by_flag = self.given()
        return None if "agents" in given else wiring.fixed_agents(self.build(CaseSettings, given, by_flag))

    def _where(self, name: str, by_flag: Mapping[str, Any]) -> str:
        return f"--{spelled(name)}" if name in by_flag else f"{self.path}: {name}"

    def _owner(self, key: str) -> str:
        for kind, entries in self.entries.items():
            owners = ", ".join(repr(name) for name in entries.names() if key in settings(entries.get(name)))
            if owners:
                return f"it is a setting of {kind} {owners}, and this {self.noun}'s {kind} is {self.names[kind]!r}"
        return ""

    def build(self, entry: type[Any], given: Mapping[str, Any], by_flag: Mapping[str, Any]) -> Any:
        """The dataclass ``entry``, built from the given settings."""
        own = settings(entry)
        for name, setting in own.items():
            if setting.required and name not in given:
                raise InputError(f"{entry.__name__} needs --{spelled(name)} (or the key {name} in a file)")
        try:
            made = entry(**{name: given[name] for name in own if name in given})
        except (ValueError, TypeError) as error:
            found = {name: re.search(rf"\b{name}\b", str(error)) for name in own if name in given}
            places = {name: match.start() for name, match in found.items() if match}
            named = min(places, key=places.__getitem__, default=None)
            raise InputError(f"{self._where(named, by_flag)}: {error}" if named else str(error)) from None
        for name, why in (made.idle() if isinstance(made, Settings) else {}).items():
            if name in by_flag:  # also where it is the default
                raise InputError(f"{self._where(name, by_flag)}: {without_effect(name, why)}")
        return made


_SETTINGS = settings(RunSettings)
_FIRST = ("problem", "seed", "plugin", "algorithm", "iterations")
"""The settings that a help and a configuration begin with."""
_ENTRIES = {"problem": registry.problems, "algorithm": registry.algorithms}
_JUDGES = (*TOLERANCES, "end_tolerance")
"""Settings of a run or a method by which it can converge."""


class Command(Form[Configuration]):
    """The command line of a run: one problem and one algorithm."""

    program = "decentorth run"
    summary = (
        "Run a decentralized algorithm on a problem, in this process or, under mpirun, on MPI ranks. Without settings of "
        "a problem, a network, a start or a method it is the published experiment, --config paper004. The settings are "
        "those of the problem and the algorithm named: name others to see theirs."
    )
    own: ClassVar = {name: _SETTINGS[name] for name in (*_FIRST, *_SETTINGS)}
    noun = "run"
    output: ClassVar[tuple[str, ...]] = OUTPUT
    entries = _ENTRIES

    def _name(self, kind: str, early: Mapping[str, Any]) -> str:
        given = early.get(kind) or self.file.get(kind)
        if kind == "algorithm" and given is None and (early_flag(self.tokens, "split") or self.file.get("split")) == "features":
            return "lobpcg"
        return super()._name(kind, early)

    def given(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """As `Form.given`, with the settings of the published experiment where none of another one is given.

        A run is ``paper004`` unless it has another problem, network, start or method than that file, or any further setting
        of these but the kernel, which changes no mathematics.
        """
        given, by_flag = super().given()
        published = published_experiment()
        apart = {"kernel", *Command.own} - {*EXPERIMENT}
        own = {name: value for name, value in given.items() if name not in apart}
        case = {name: value for name, value in published.items() if name not in ("step_size", "penalty")}
        self.published = own in (published, {name: case[name] for name in own if name in case})
        return ({**published, **given} if self.published else given), by_flag

    def resolve(self) -> Configuration:
        given, by_flag = self.given()
        run = self.build(RunSettings, given, by_flag)
        problem, algorithm = (self.build(entry, given, by_flag) for entry in self.types.values())
        self._check_apply(run, algorithm, given, by_flag)
        if Declared.of(algorithm).counts == "activations":
            run = dataclasses.replace(run, iterations=algorithm.activations)
        if run.require_converged:
            judges = {name: getattr(part, name) for part in (run, algorithm) for name in _JUDGES if hasattr(part, name)}
            judges = {name: value for name, value in judges.items() if name not in Declared.of(algorithm).without}
            if not any(judges.values()):
                known = ", ".join(judges)
                raise InputError(f"--require-converged: require_converged needs a tolerance to judge by: give one of {known}")
        configuration = Configuration(run, problem, algorithm, self.published)
        self._refuse_other(configuration.mapping(), (*RESUMABLE, *Declared.of(algorithm).resumable))
        return configuration

    def _check_apply(self, run: RunSettings, algorithm: Any, given: Mapping[str, Any], by_flag: Mapping[str, Any]) -> None:
        """Raise an InputError for settings of the run that do not apply to the method."""
        for name, instead in Declared.of(algorithm).without.items():
            default = (self.own[name].default, getattr(algorithm, "activations", None), self.saved.get(name))
            if name in given and given[name] not in default:
                cure = re.sub(r"\bgive (\w+)", lambda found: f"give --{spelled(found[1])}", instead)
                raise InputError(f"{self._where(name, by_flag)} is not for {self.names['algorithm']}: {cure}")

    @staticmethod
    def earlier(tokens: Sequence[str]) -> Mapping[str, Any]:
        """The settings of the run that --resume names, and its folder as ``out`` if --resume names the folder of a run.

        Raises
        ------
        ValueError
            It has no checkpoint that can be read, or was not made by this command.
        """
        folder = early_flag(tokens, "resume")
        if folder is None:
            return {}
        from ..running.checkpoint import FOLDER, newest_notes

        notes, agents = newest_notes(folder)
        saved = notes.get("settings")
        if not isinstance(saved, dict):
            raise InputError(f"the checkpoints in {folder} were not written by this command: resume them in Python")
        if saved.get("agents") != agents:
            raise InputError(f"the settings in {folder} are for {shortened(saved.get('agents'))} agents, its files for {agents}")
        place = {"out": folder} if (Path(folder) / FOLDER).is_dir() else {}
        return {name: value for name, value in saved.items() if name in CHECKPOINTS or name not in OUTPUT} | place


@cache
def published_experiment() -> Mapping[str, Any]:
    """The settings in the file of the published experiment."""
    return load(PUBLISHED, config_bytes(PUBLISHED))


def config_bytes(path: str) -> bytes:
    """The content of a configuration file; an InputError where it is too large, or no regular file."""
    from ..running.checkpoint import limited

    try:
        return limited(named_file(path), CONFIG_BYTES)
    except ValueError as error:
        raise InputError(f"{path} cannot be a configuration: {error}") from None


def early_flag(tokens: Sequence[str], name: str) -> str | None:
    """The text of a setting that stands for a file or a folder, from the flags alone."""
    given, _ = Parser({"": {name: Command.own[name]}}).divided(tokens)
    return given.get(name)


def values(entry: Any) -> dict[str, Any]:
    """The settings in a dataclass as YAML can hold them."""
    found: dict[str, Any] = {}
    for name in settings(type(entry)):
        value = getattr(entry, name)
        found[name] = list(value) if isinstance(value, tuple) else value
        if dataclasses.is_dataclass(value):  # a schedule of steps
            found[name] = str(value)
    return found
