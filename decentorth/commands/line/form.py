"""The command line of any command: a set of dataclasses gives its flags, its help and the keys of
its files.

Settings are read in two phases: first the names (of the problem, of the algorithm), then one flat
command out of the command's own settings and the dataclasses that the names stand for. Flags win
over the file, the file over the defaults.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, Self, TypeVar

from topologies.line.flags import InputError, Parser, refuse, spelled, unknown
from topologies.line.later import yaml

from ... import registry
from ...running.checkpoint.checkpoint_files import limited
from ...settings import Setting, Settings, Values, settings, values, without_effect
from . import wiring
from .config_files import CONFIG_BYTES, load, named_file, read_value
from .run_settings import ACTS, NETWORK, RESUMABLE, SECTIONS, CaseSettings, RunSettings

Groups = Iterator[tuple[str, Values]]
"""Headings with settings."""


class Saved(ABC):
    """Resolved settings, as they are printed, saved and compared."""

    @abstractmethod
    def groups(self, *, outputs: bool) -> Groups:
        """Headings and settings, in the order of the help; without ``outputs`` only the settings on
        which the results depend."""

    def mapping(self) -> Values:
        """The configuration that is saved: every setting except the output folder and other
        outputs."""
        found: Values = {}
        for _, part in self.groups(outputs=False):
            found |= part
        return found

    def yaml(self, *, outputs: bool = False) -> str:
        """The configuration as YAML with headings, which ``--config`` reads back to the same."""
        groups = [(heading, part) for heading, part in self.groups(outputs=outputs) if part]
        texts = [
            f"# {heading}\n{yaml.safe_dump(part, sort_keys=False)}" for heading, part in groups
        ]
        return "\n".join(texts)


C = TypeVar("C", bound=Saved)
Texts = Mapping[str, object]
"""The text of the settings that are given by flag, by name."""


class CommandForm(ABC, Generic[C]):
    """A dataclass of settings, read from flags and a configuration file.

    Some fields name entries, whose settings are read too. Each command is a subclass, which
    names its settings.

    Parameters
    ----------
    tokens
        The arguments, without the program's name.
    path, raw
        A configuration file's name and its bytes, when there is one.
    saved
        Settings of an earlier run to resume, which a file and flags override.
    shared
        Settings that rank 0 has read.
    """

    program: ClassVar[str]
    summary: ClassVar[str]
    own: ClassVar[Mapping[str, Setting]]
    """The command's own settings."""
    noun: ClassVar[str]
    """The name of the command's product, such as "run"; it heads the first group of settings."""
    first: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The settings that the help shows first, by their headings; without any it shows all."""
    output: ClassVar[tuple[str, ...]]
    """Names of the command's own settings on which the results do not depend."""
    entries: ClassVar[Mapping[str, registry.Registry]]
    """The registry for each of the command's own settings whose value is a registered name."""

    def __init__(
        self,
        tokens: Sequence[str],
        path: str | None = None,
        raw: bytes = b"",
        saved: Mapping[str, object] | None = None,
        shared: Mapping[str, object] | None = None,
    ) -> None:
        self.tokens = tuple(tokens)
        self.path = path or "the resumed run"
        self.saved = saved or {}
        self.file = dict(self.saved)
        if path is not None:
            self.file |= load(path, raw)
        self.file |= shared or {}
        self.fixed: dict[str, object] = {}
        first = {kind: self.own[kind] for kind in ("plugin", *self.entries)}
        early, _ = Parser({"": first}).divided(self.tokens)
        self._load_plugins(early.get("plugin", ()))
        self.names = {kind: self._name(kind, early) for kind in self.entries}
        self._refuse_other(self.names)
        self.types = {kind: entries.get(self.names[kind]) for kind, entries in self.entries.items()}
        self.groups = self._groups()

    @classmethod
    def asked(cls, words: Sequence[str]) -> Self:
        """Return the form of these arguments, with the file and the earlier run that they name."""
        path = early_flag(words, "config")
        made = cls(words, path, config_bytes(path), cls.earlier(words))
        made.fixed = made.fixed_settings()
        return made

    def shared(self) -> bytes:
        """The given settings and those of an earlier run, for `received` on other ranks."""
        given, _ = self.given()
        return json.dumps([given, dict(self.saved), registry.plugins_digest().hex()]).encode()

    @classmethod
    def received(cls, shared: bytes) -> Self:
        """Return the form shared by rank 0.

        Each rank executes the plugins named on the command line.
        """
        given, saved, digest = json.loads(shared)
        tokens = [f"--plugin={path}" for path in given.pop("plugin", ())]
        tokens += [f"--{name}={given.pop(name)}" for name in ("config", "resume") if name in given]
        made = cls(tokens, saved=saved, shared=given)
        if registry.plugins_digest().hex() != digest:
            raise InputError("every rank needs the same plugins, but rank 0 has others")
        return made

    @classmethod
    def grouped(cls, own: object, parts: Mapping[str, object], outputs: bool) -> Groups:
        """The groups of the command's ``own`` settings, and of entries by their headings."""
        held = values(own)
        listed = {name: held[name] for name in cls.own if name not in ACTS}
        apart = {*NETWORK, *cls.output}
        yield cls.noun.capitalize(), {name: listed[name] for name in listed if name not in apart}
        yield "Network", {name: listed[name] for name in NETWORK}
        for heading, entry in parts.items():
            yield heading, values(entry)
        if outputs:
            yield "Output", {name: listed[name] for name in listed if name in cls.output}

    def _name(self, kind: str, early: Texts) -> str:
        places = (early.get(kind), self.file.get(kind), self.own[kind].default)
        try:
            name: str = read_value(kind, str, next(value for value in places if value is not None))
            self.entries[kind].get(name)
        except (ValueError, TypeError) as error:
            raise InputError(f"{self._where(kind, early)}: {error}") from None
        return name.lower().replace("-", "_")

    def _load_plugins(self, given: Sequence[str]) -> None:
        """Execute the plugins that the command line names; a file or an earlier run cannot have one
        executed."""
        hint = self.own["plugin"].hint
        try:
            for path in read_value("--plugin", hint, given):
                registry.load_plugin(path)
            named = read_value("plugin", hint, self.file.get("plugin") or ())
        except (ValueError, TypeError) as error:
            raise InputError(str(error)) from None
        if named and not given:
            flags = " ".join(f"--plugin {path}" for path in named)
            raise InputError(
                f"{self.path} names a plugin, but files are never executed without a flag: if "
                f"you trust it, give {flags}"
            )

    def _refuse_other(self, now: Mapping[str, object], changing: Sequence[str] = RESUMABLE) -> None:
        """Raise unless every setting that differs from the earlier run may be changed on
        resuming."""
        for name, value in now.items():
            kept = self.saved.get(name, value)
            if name not in changing and value != kept:
                if kept is None:
                    kept = "not given"
                others = ", ".join(f"--{spelled(other)}" for other in changing)
                raise InputError(
                    f"--{spelled(name)} is {kept} in the run to resume, but {value} here; only "
                    f"{others} and outputs may be changed"
                )

    def _groups(self) -> dict[str, Mapping[str, Setting]]:
        apart = {"Network": NETWORK, "Output": self.output}
        network, output = ({name: self.own[name] for name in names} for names in apart.values())
        first = {
            name: setting for name, setting in self.own.items() if name not in network | output
        }
        groups: dict[str, Mapping[str, Setting]]
        groups = {self.noun.capitalize(): first, "Network": network}
        for kind, entry in self.types.items():
            taken = output.keys() | {name for group in groups.values() for name in group}
            own = settings(entry)
            name = self.names[kind]
            if clash := sorted(taken & own.keys()):
                raise InputError(
                    f"{kind} {name!r} has a setting {clash[0]!r}, and so has another part: "
                    "rename it"
                )
            groups[f"{kind.capitalize()}: {name}"] = own
        return {**groups, "Output": output}

    def help_groups(self) -> dict[str, dict[str, Setting]]:
        """All settings by the headings of the help."""
        headings = {name: heading for heading, names in SECTIONS.items() for name in names}
        groups: dict[str, dict[str, Setting]]
        groups = {heading: {} for heading in (*list(self.groups)[:-1], *SECTIONS)}
        for heading, group in self.groups.items():
            for name, setting in group.items():
                if name in self.entries:
                    choices = ", ".join(self.entries[name].names())
                    setting = setting._replace(help=f"{setting.help} One of: {choices}.")
                place = headings.get(name, heading) if name in self.own else heading
                groups[place][name] = setting
        return {heading: group for heading, group in groups.items() if group}

    @staticmethod
    def earlier(tokens: Sequence[str]) -> Values:
        """The settings of the earlier run to resume; empty for commands that cannot resume."""
        return {}

    @abstractmethod
    def resolve(self) -> C:
        """The configuration."""

    def given(self) -> tuple[Values, Values]:
        """The given settings, from flags and file, and separately the text of the settings given by
        flag."""
        given, by_flag = self._read
        return given | self.fixed | self.names, by_flag

    @cached_property
    def _read(self) -> tuple[dict[str, object], dict[str, object]]:
        known = {name: setting for group in self.groups.values() for name, setting in group.items()}
        for key in self.file:
            if key not in known:
                raise unknown(f"{self.path}: unknown key {key!r}", key, known, self._owner(key))
        if "config" in self.file:
            raise InputError(f"{self.path}: a file cannot name another file (config); merge them")
        if "resume" in self.file:
            raise InputError(
                f"{self.path}: a file cannot name a run to resume; give --resume "
                f"{self.file['resume']}"
            )
        by_flag, rest = Parser(self.groups).divided(self.tokens)
        refuse(rest, known, self._owner)
        by_file = {name: value for name, value in self.file.items() if value is not None}
        given: dict[str, object] = {}
        for name, value in (by_file | by_flag).items():
            try:
                given[name] = read_value(name, known[name].hint, value)
            except (ValueError, TypeError) as error:
                raise InputError(f"{self._where(name, by_flag)}: {error}") from None
        return given, by_flag

    def fixed_settings(self) -> Values:
        """Return the settings fixed by files: the number of agents and the list of site files.

        The number is fixed by the files of sites, the graph or the weights file. Raises
        ValueError if they cannot be used, or differ from a given number.
        """
        given, by_flag = self.given()
        files = self._files(given)
        agents = given.get("agents")
        if "agents" not in given:
            agents = wiring.fixed_agents(self.build(CaseSettings, given, by_flag))
        for name, paths in files.items():
            count = len(paths)
            if agents not in (None, count):
                other = f"the graph has {agents}"
                if "agents" in given:
                    other = f"--agents is {agents}: leave it out"
                raise InputError(
                    f"--{spelled(name)} names {count} files, so there are {count} agents, but "
                    f"{other}"
                )
            agents = count
        fixed: dict[str, object] = {name: ",".join(paths) for name, paths in files.items()}
        return fixed if agents is None else {**fixed, "agents": agents}

    def _files(self, given: Values) -> dict[str, tuple[str, ...]]:
        """The files of the sites, for each setting of the problem that names some."""
        from ...problems.common.division import DividedSettings

        if not issubclass(self.types["problem"], DividedSettings):
            return {}
        from ...data.sites import site_files

        named = {name: given[name] for name in ("data", "data_y") if given.get(name)}
        files = {name: site_files(value, given.get("agents")) for name, value in named.items()}
        return {name: paths for name, paths in files.items() if len(paths) > 1}

    def _unnamed(self, entry: type[Any], taken: Values) -> str:
        """A hint for data that are refused by the default problem, which nobody has named."""
        given, _ = self._read
        named = given.keys() | self.saved.keys()
        if entry is not self.types.get("problem") or "data" not in taken or "problem" in named:
            return ""
        return (
            f"; the problem is {self.names['problem']} by default: give another, as --problem pca"
        )

    def _where(self, name: str, by_flag: Texts) -> str:
        if name in by_flag:
            return f"--{spelled(name)}"
        return f"{self.path}: {name}"

    def _owner(self, key: str) -> str:
        for kind, entries in self.entries.items():
            owners = [repr(name) for name in entries.names() if key in settings(entries.get(name))]
            if owners:
                return (
                    f"it is a setting of {kind} {', '.join(owners)}, and this {self.noun}'s "
                    f"{kind} is {self.names[kind]!r}"
                )
        return ""

    def build(self, entry: type[Any], given: Mapping[str, object], by_flag: Texts) -> Any:
        """The dataclass ``entry``, built from the given settings."""
        own = settings(entry)
        for name, setting in own.items():
            if setting.required and name not in given:
                raise InputError(
                    f"{entry.__name__} needs --{spelled(name)} (or the key {name} in a file)"
                )
        taken = {name: given[name] for name in own if name in given}
        try:
            made = entry(**taken)
        except (ValueError, TypeError) as error:
            named = [name for name in re.findall(r"\w+", str(error)) if name in taken]
            where = "".join(f"{self._where(name, by_flag)}: " for name in named[:1])
            raise InputError(f"{where}{error}{self._unnamed(entry, taken)}") from None
        if isinstance(made, Settings):
            for name, why in made.idle().items():
                if name in by_flag:  # also where it is the default
                    raise InputError(f"{self._where(name, by_flag)}: {without_effect(name, why)}")
        return made


def config_bytes(path: str | None) -> bytes:
    """The content of a configuration file, empty for None; an InputError unless it is a small
    regular file."""
    if path is None:
        return b""
    try:
        return limited(named_file(path), CONFIG_BYTES)
    except ValueError as error:
        raise InputError(f"{path} cannot be a configuration: {error}") from None


def early_flag(tokens: Sequence[str], name: str) -> str | None:
    """Return the text of a file or folder setting, read from the flags alone."""
    given, _ = Parser({"": {name: settings(RunSettings)[name]}}).divided(tokens)
    return given.get(name)
