"""The registries of algorithms and problems by name; `register` adds a user's own.

The import in ``algorithms/__init__.py`` enters a method, that in ``problems/__init__.py`` the
settings of a problem. Each has the name of its file, without ``_settings`` behind. Installed
packages enter theirs by entry points of the groups ``decentorth.algorithms`` and
``decentorth.problems``, which are looked up only for help and for names that are not built in.

Plugins are Python files, named on the command line, that register methods and problems. Nothing
else executes a file that a setting names: a configuration or a checkpoint that names plugins is
refused unless the command line names them too.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from topologies.line import text
from topologies.line.words import normal_name, suggestion

from . import algorithms as _methods
from . import problems as _problems
from ._lazy import exports

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Entry = type[Any]
"""A dataclass: a method, or the settings of a problem."""
Entries = dict[str, Callable[[], Entry]]
"""Functions that import a dataclass, by its name."""


class Registry:
    """A mapping of names to frozen dataclasses, of a ``kind`` that messages name.

    ``load`` gives the built-in entries when the first one is needed.
    """

    def __init__(self, kind: str, load: Callable[[], Entries] = dict) -> None:
        self.kind = kind
        self._load = load

    @cached_property
    def _entries(self) -> Entries:
        return self._load()

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages, by name; built-in names go before them."""
        from importlib.metadata import entry_points

        return {_key(point.name): point for point in entry_points(group=f"decentorth.{self.kind}s")}

    def names(self) -> tuple[str, ...]:
        """All known names, sorted."""
        return tuple(sorted({*self._entries, *self._installed}))

    def entries(self) -> dict[str, Entry]:
        """Every dataclass by its name."""
        return {name: self.get(name) for name in self.names()}

    def get(self, name: str) -> Entry:
        """The dataclass called ``name`` (case and dashes do not matter).

        Raises
        ------
        ValueError
            The name is unknown, or its package cannot be imported; the message has the nearest
            name.
        """
        key = _key(name)
        if key not in self._entries and key in self._installed:
            self._load_installed(key)
        if key in self._entries:
            return self._entries[key]()
        hint = suggestion(key, self.names()) or "."
        raise ValueError(
            f"unknown {self.kind} {name!r}{hint} Known: {', '.join(self.names())}; and your own, "
            "by --plugin FILE.py (in Python: register)"
        )

    def defaults(self) -> dict[str, Any]:
        """Every entry that can be had with its default settings, by name."""
        found = {}
        for name in self.names():
            with suppress(TypeError, ValueError):  # it needs settings, or its package is broken
                found[name] = self.get(name)()
        return found

    def read(self, specification: str) -> Any:
        """The object that text such as ``"drfgt:penalty=10"`` describes.

        Raises ValueError for an unknown name or parameter.
        """
        word, _, written = specification.partition(":")
        return text.read(repr(specification), normal_name(word), self.get(word.strip()), written)

    def add(self, name: str, entry: Entry) -> None:
        """Add a user's own dataclass under a new name."""
        key = _key(name)
        what = f"{self.kind} {name!r}"
        if not (dataclasses.is_dataclass(entry) and isinstance(entry, type)):
            raise TypeError(f"{what} must be a dataclass (its fields become flags), got {entry!r}")
        if key in self._entries:
            raise ValueError(f"the {what} exists already: register yours under another name")
        self._entries[key] = lambda: entry

    def _load_installed(self, key: str) -> None:
        """Enter the dataclass of an installed package, unless its import has registered it."""
        point = self._installed[key]
        try:
            entry = point.load()
        except Exception as error:
            package = point.value if point.dist is None else point.dist.name
            raise ValueError(
                f"{self.kind} {key!r} of the installed package {package} cannot be imported: "
                f"{error}"
            ) from error
        if key not in self._entries or self._entries[key]() is not entry:
            self.add(key, entry)


def _key(name: str) -> str:
    """The form in which a name is kept."""
    return name.lower().replace("-", "_")


def _built_in(package: ModuleType, end: str = "", others: Collection[str] = ()) -> Entries:
    """The classes of a package whose names have the ``end``, without ``others``, by their files."""
    found: Entries = {}
    for one, module in exports(package.__name__).items():
        if one.endswith(end) and one not in others:
            file = module.rpartition(".")[2].removesuffix("_settings")
            found[file] = partial(resolve_name, f"{module}:{one}")
    return found


algorithms = Registry("algorithm", partial(_built_in, _methods, others=_methods.WRAPPERS))
problems = Registry("problem", partial(_built_in, _problems, "Settings"))


def register(name: str, *, kind: Literal["algorithm", "problem"]) -> Callable[[Entry], Entry]:
    """A class decorator that enters a dataclass under ``name``, for the command line and for files.

    An algorithm is a frozen dataclass with ``init`` and ``step``. A problem is a frozen dataclass
    of settings with a method ``problem(n_agents, seed)``. ``decentorth new algorithm NAME`` writes
    an example.
    """
    registry = {"algorithm": algorithms, "problem": problems}[kind]

    def enter(entry: Entry) -> Entry:
        registry.add(name, entry)
        return entry

    return enter


_LOADED: dict[Path, ModuleType] = {}


def load_plugin(path: str | os.PathLike[str]) -> ModuleType:
    """Execute the file at ``path``, once in each process, and return its module.

    Raises
    ------
    ValueError
        It does not exist or is no Python file, or its code fails; the message has the line.
    """
    place = Path(path).expanduser().resolve()
    if place in _LOADED:
        return _LOADED[place]
    if not place.is_file():
        raise ValueError(
            f"there is no file {path}: name a plugin's file, or make one with decentorth new"
        )
    if place.suffix != ".py":
        raise ValueError(
            f"{path} is no Python file: a plugin is a file that ends in .py; make one with "
            "decentorth new"
        )
    folder = hashlib.sha256(str(place).encode()).hexdigest()[:8]
    name = f"decentorth_plugin_{re.sub('[^0-9A-Za-z_]', '_', place.stem)}_{folder}"
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for annotations, and for classes in other processes
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise ValueError(f"{path}{_line(error, place)}: {type(error).__name__}: {error}") from error
    _LOADED[place] = module
    return module


def plugins() -> tuple[str, ...]:
    """The paths of the plugins of this process, in the order in which they were executed."""
    return tuple(map(str, _LOADED))


def plugins_digest() -> bytes:
    """SHA-256 of the plugins of this process, for comparing ranks."""
    files = [hashlib.sha256(place.read_bytes()).digest() for place in _LOADED]
    return hashlib.sha256(b"".join(files)).digest()


def _line(error: BaseException, place: Path) -> str:
    """The last line of the file that was reached, in words; none if it is not known."""
    number = None
    trace = error.__traceback__
    if isinstance(error, SyntaxError):
        number = error.lineno
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(place):
            number = trace.tb_lineno
        trace = trace.tb_next
    if number is None:
        return ""
    return f", line {number}"
