"""The registries of algorithms and problems by their names on the command line and in files; `register` adds a user's own.

A method is entered by its import in ``algorithms/__init__.py``, the settings of a problem by theirs in ``problems/__init__.py``.
Each is called as its file, without ``_settings`` behind. Installed packages enter theirs by entry points of the groups
``decentorth.algorithms`` and ``decentorth.problems``, which are looked up only for help and for names that are not built in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

from topologies import text
from topologies.words import normal_name, suggestion

from . import algorithms as _methods
from . import problems as _problems
from ._lazy import exports

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Registry:
    """A mapping of names to frozen dataclasses, of a ``kind`` that messages name.

    ``load`` gives the built-in entries, each as a function that imports it, when the first one is needed.
    """

    def __init__(self, kind: str, load: Callable[[], dict[str, Callable[[], type[Any]]]] = dict) -> None:
        self.kind = kind
        self._load = load

    @cached_property
    def _entries(self) -> dict[str, Callable[[], type[Any]]]:
        return self._load()

    @cached_property
    def _installed(self) -> dict[str, EntryPoint]:
        """The entry points of installed packages, by name; built-in names go before them."""
        from importlib.metadata import entry_points

        return {_key(point.name): point for point in entry_points(group=f"decentorth.{self.kind}s")}

    def names(self) -> tuple[str, ...]:
        """All known names, sorted."""
        return tuple(sorted({*self._entries, *self._installed}))

    def get(self, name: str) -> type[Any]:
        """The dataclass called ``name`` (case and dashes do not matter).

        Raises
        ------
        ValueError
            When the name is unknown, or its package cannot be imported; the message gives the nearest name and the list.
        """
        key = _key(name)
        if key not in self._entries and key in self._installed:
            self._load_installed(key)
        if key in self._entries:
            return self._entries[key]()
        hint = suggestion(key, self.names()) or "."
        known = f"{', '.join(self.names())}; and your own, by --plugin FILE.py (in Python: register)"
        raise ValueError(f"unknown {self.kind} {name!r}{hint} Known: {known}")

    def defaults(self) -> dict[str, Any]:
        """Every entry that can be had with its default settings, by name."""
        found = {}
        for name in self.names():
            with suppress(TypeError, ValueError):  # it needs settings, or its package cannot be imported
                found[name] = self.get(name)()
        return found

    def read(self, specification: str) -> Any:
        """The object that text such as ``"drfgt:penalty=10"`` describes; a ValueError for a name or a parameter that is unknown."""
        word, _, written = specification.partition(":")
        return text.read(repr(specification), normal_name(word), self.get(word.strip()), written)

    def add(self, name: str, entry: type[Any]) -> None:
        """Add a user's own dataclass under a new name."""
        key = _key(name)
        if not (dataclasses.is_dataclass(entry) and isinstance(entry, type)):
            raise TypeError(f"{self.kind} {name!r} must be a dataclass (its fields become flags), got {entry!r}")
        if key in self._entries:
            raise ValueError(f"the {self.kind} {key!r} exists already: register yours under another name")
        self._entries[key] = lambda: entry

    def _load_installed(self, key: str) -> None:
        """Enter the dataclass of an installed package, which may have registered itself on import."""
        point = self._installed[key]
        try:
            entry = point.load()
        except Exception as error:
            package = point.value
            if point.dist is not None:
                package = point.dist.name
            what = f"{self.kind} {key!r} of the installed package {package}"
            raise ValueError(f"{what} cannot be imported: {error}") from error
        if key not in self._entries or self._entries[key]() is not entry:
            self.add(key, entry)


def _key(name: str) -> str:
    """The form in which a name is kept."""
    return name.lower().replace("-", "_")


def _algorithms() -> dict[str, Callable[[], type[Any]]]:
    listed = exports(_methods.__name__).items()
    return {module.rpartition(".")[2]: partial(getattr, _methods, one) for one, module in listed if one not in _methods.WRAPPERS}


def _settings() -> dict[str, Callable[[], type[Any]]]:
    listed = [(one, module.rpartition(".")[2]) for one, module in exports(_problems.__name__).items() if one.endswith("Settings")]
    return {module.removesuffix("_settings"): partial(getattr, _problems, one) for one, module in listed}


algorithms = Registry("algorithm", _algorithms)
problems = Registry("problem", _settings)


def register(name: str, *, kind: Literal["algorithm", "problem"]) -> Callable[[type[Any]], type[Any]]:
    """A class decorator that makes a dataclass available on the command line and in files under ``name``.

    An algorithm is a frozen dataclass with ``init`` and ``step``; a problem is a frozen dataclass of settings with a
    method ``problem(n_agents, seed)``. ``decentorth new algorithm NAME`` writes an example.
    """

    def enter(entry: type[Any]) -> type[Any]:
        {"algorithm": algorithms, "problem": problems}[kind].add(name, entry)
        return entry

    return enter
