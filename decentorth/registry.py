"""The registries of algorithms and problems by their names on the command line and in files; `register` adds a user's own.

A method is entered by its import in ``algorithms/__init__.py``, the settings of a problem by theirs in ``problems/__init__.py``.
Each is called as its file, unless its class has a ``name``.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, Literal

from . import algorithms as _methods
from . import problems as _problems
from ._lazy import exports


class Registry:
    """A mapping of names to frozen dataclasses.

    Parameters
    ----------
    kind
        The noun for an entry, in messages.
    load
        Gives the built-in entries, each as a function that imports it, when the first one is needed.
    """

    def __init__(self, kind: str, load: Callable[[], dict[str, Callable[[], type[Any]]]] = dict) -> None:
        self.kind = kind
        self._load = load

    @cached_property
    def _entries(self) -> dict[str, Callable[[], type[Any]]]:
        return self._load()

    def names(self) -> tuple[str, ...]:
        """All known names, sorted."""
        return tuple(sorted(self._entries))

    def get(self, name: str) -> type[Any]:
        """The dataclass called ``name`` (case and dashes do not matter).

        Raises
        ------
        ValueError
            When the name is unknown; the message gives the nearest name and the list.
        """
        key = name.lower().replace("-", "_")
        if key in self._entries:
            return self._entries[key]()
        near = difflib.get_close_matches(key, self.names(), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown {self.kind} {name!r}{hint} Known: {', '.join(self.names())}")

    def add(self, name: str, entry: type[Any]) -> None:
        """Add a user's own dataclass under a new name."""
        key = name.lower().replace("-", "_")
        if not (dataclasses.is_dataclass(entry) and isinstance(entry, type)):
            raise TypeError(f"{self.kind} {name!r} must be a dataclass (its fields become flags), got {entry!r}")
        if key in self._entries:
            raise ValueError(f"there is already a {self.kind} called {key!r}")
        self._entries[key] = lambda: entry


def _algorithms() -> dict[str, Callable[[], type[Any]]]:
    listed = exports(_methods.__name__).items()
    return {module.rpartition(".")[2]: partial(getattr, _methods, one) for one, module in listed if one not in _methods.WRAPPERS}


def _settings() -> dict[str, Callable[[], type[Any]]]:
    listed = [(one, module) for one, module in exports(_problems.__name__).items() if one.endswith("Settings")]
    return {_problems.NAMED.get(one, module.rpartition(".")[2]): partial(getattr, _problems, one) for one, module in listed}


algorithms = Registry("algorithm", _algorithms)
problems = Registry("problem", _settings)


def register(name: str, *, kind: Literal["algorithm", "problem"]) -> Callable[[type[Any]], type[Any]]:
    """A class decorator that makes a dataclass available on the command line and in files under ``name``.

    An algorithm is a frozen dataclass with ``init`` and ``step`` (see ``algorithms/decentralized/_template.py``); a problem is a
    frozen dataclass of settings with a method ``problem(n_agents, seed)``.
    """

    def enter(entry: type[Any]) -> type[Any]:
        (algorithms if kind == "algorithm" else problems).add(name, entry)
        return entry

    return enter
