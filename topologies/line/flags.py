"""Command lines by argparse: dataclasses and typed functions become flags and their help."""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from shutil import get_terminal_size
from textwrap import wrap as wrapped
from typing import Any, TypeAlias, TypeVar, get_args, get_type_hints

from topologies.line.typed import Hint, Setting, check, hint, parameters, settings
from topologies.line.words import either, nearest

T = TypeVar("T")
Groups = Mapping[str, Mapping[str, Setting]]
"""Settings by the heading of their group."""
Names: TypeAlias = Collection[str]
Owner: TypeAlias = Callable[[str], str]
HELP = frozenset({"--help", "-h"})
_COLUMN = 25
"""The column in which the descriptions of a help begin."""


class InputError(ValueError):
    """An input that cannot be used; the message says where, and how to repair it.

    Every function of the command line raises it for flags, files and folders that cannot be
    used.
    """


def arguments(tokens: Sequence[str] | None) -> list[str]:
    """Return the words of a command; for None, the words of this process."""
    if tokens is None:
        tokens = sys.argv[1:]
    return list(tokens)


def spelled(name: str) -> str:
    """Return a field's name as spelled in its flag, without the leading dashes."""
    return name.replace("_", "-")


def unknown(what: str, key: str, known: Names, owner: str, dashes: str = "") -> InputError:
    """The error for an unknown name: its owner, the known names of which a word begins with it, or
    the nearest one."""
    names = []
    if len(key) > 2:
        names = [name for name in known if f"_{key}" in f"_{name}"]
    if not names and not owner and (near := nearest(key, known)) is not None:
        names = [near]
    if not names:
        return InputError(f"{what}; {owner or 'see --help for all'}")
    if dashes:
        names = [f"{dashes}{spelled(name)}" for name in names]
    meant = f"did you mean {either(names[:6])}?"
    return InputError("; ".join(filter(None, (what, owner, meant))))


class Once(argparse.Action):
    """A flag that is given once; a switch is true, and false as ``--no-name``."""

    def __call__(self, parser: Any, namespace: Any, values: Any, flag: str | None = None) -> None:
        if self.dest in namespace:
            raise InputError(f"{flag} specified multiple times: give it once")
        if self.nargs == 0 or values is None:
            values = not str(flag).startswith("--no-") or spelled(self.dest).startswith("no-")
        setattr(namespace, self.dest, values)


class Parser(argparse.ArgumentParser):
    """The flags of some settings, whose values stay text; other words are left.

    Parameters
    ----------
    groups
        The settings by heading.
    prog, summary
        For the help: the command and its description.
    several
        Whether a list takes several words, ``--labels a b``.
    """

    def __init__(self, groups: Groups, prog: str = "", summary: str = "", several: bool = False):
        absent = argparse.SUPPRESS
        super().__init__(prog, add_help=False, allow_abbrev=False, argument_default=absent)
        self._negative_number_matcher = re.compile(r"-([0-9.]|inf|nan)")
        self.groups = groups
        self.summary = summary
        self.listed: dict[str, Any] = {"action": "append"}
        if several:
            self.listed = {"action": "extend", "nargs": "+"}
        self.known: dict[str, Setting] = {}
        for group in groups.values():
            self.known |= group
        self.switches: set[str] = set()
        for name, setting in self.known.items():
            self._add(name, hint(setting.hint))

    def _add(self, name: str, one: Hint) -> None:
        flags = [f"--{spelled(name)}"]
        if bool in one.types and (one.choices or one.form):
            self.add_argument(*flags, f"--no-{spelled(name)}", dest=name, action=Once, nargs="?")
        elif bool in one.types:
            self.switches |= {flags[0]}
            self.add_argument(*flags, f"--no-{spelled(name)}", dest=name, action=Once, nargs=0)
        elif one.sequence is None:
            self.add_argument(*flags, dest=name, action=Once)
        elif get_args(one.sequence)[1:] not in ((), (...,)):
            self.add_argument(*flags, dest=name, action=Once, nargs=len(get_args(one.sequence)))
        else:
            self.add_argument(*flags, dest=name, **self.listed)

    def error(self, message: str) -> Any:
        """Raise an InputError, which begins with the flag."""
        flag, _, text = message.removeprefix("argument ").partition(": ")
        if text.startswith("ignored"):
            text = "takes no value"
        text = text.replace("expected one", "requires an").replace("expected", "requires")
        raise InputError(f"{flag.partition('/')[0]} {text}")

    def divided(self, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """The text of the flags that are given (true or false of switches), and the other words."""
        given, rest = self.parse_known_args([self._switched(word) for word in words])
        return vars(given), rest

    def _switched(self, word: str) -> str:
        """``--name`` and ``--no-name`` for a switch that is given as ``--name=true`` or
        ``--name=false``."""
        flag, equals, text = word.partition("=")
        if not equals or flag not in self.switches:
            return word
        if text.lower() not in ("true", "false"):
            name = flag[2:].replace("-", "_")
            raise InputError(f"{flag}: {name} must be true or false, got {text!r}")
        if text.lower() == "false":
            return f"--no-{flag[2:]}"
        return flag

    def values(self, words: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
        """The values of the flags, and the other words."""
        given, rest = self.divided(words)
        for name, text in given.items():
            try:
                given[name] = check(name, self.known[name].hint, text, written=True)
            except (ValueError, TypeError) as error:
                raise InputError(f"--{spelled(name)}: {error}") from None
        return given, rest

    def format_help(self) -> str:
        """The help, one group below the other; flags and numbers are never cut."""
        width = max(60, min(get_terminal_size().columns, 120))
        wrap = partial(wrapped, width=width, break_on_hyphens=False, break_long_words=False)
        lines = [f"Usage: {self.prog}{' [flags]' * any(self.groups.values())}"]
        for part in filter(None, self.summary.split("\n")):
            if part.startswith("  "):  # an example
                lines.append(part)
            else:
                lines += ["", *wrap(part)]
        for heading, group in self.groups.items():
            lines += ["", heading] * bool(group)
            for name, setting in group.items():
                flags = f"  --{spelled(name)}"
                if setting.default and bool in hint(setting.hint).types:
                    flags += f", --no-{spelled(name)}"
                if len(flags) > _COLUMN - 2:
                    lines.append(flags)
                    flags = ""
                begin = flags.ljust(_COLUMN)
                indent = " " * _COLUMN
                text = " ".join(facts(setting))
                lines += wrap(text, initial_indent=begin, subsequent_indent=indent) or [flags]
        return "\n".join(lines).replace("\xa0", " ") + "\n"


def facts(setting: Setting) -> Iterator[str]:
    """The description of a setting, its choices, its bounds and its default."""
    one = hint(setting.hint)
    if setting.help:
        yield setting.help
    if one.choices:
        words = "Or" if len(one.choices) == 1 else "One of"
        yield f"{words}: {', '.join(map(str, one.choices))}."
    if one.ranges:
        yield f"Must be {either([str(bounds) for bounds in one.ranges])}."
    if setting.required:
        yield "Required."
    elif setting.default is not None and setting.default is not False and setting.default != ():
        yield f"[default:\xa0{_listed(setting.default)}]"  # not divided between two lines


def _listed(value: object) -> str:
    """A default as it is given."""
    match value:
        case tuple() | list():
            return ",".join(map(_listed, value))
        case float():
            return f"{value:g}"
    return str(value)


def refuse(words: Sequence[str], known: Names, owner: Owner = lambda key: "") -> None:
    """Raise InputError for the first word, because the ``known`` settings have no such flag.

    ``owner`` says where an unknown name belongs.
    """
    for word in words[:1]:
        flag = word.split("=")[0]
        if not flag.startswith("-"):
            raise InputError(
                f"unexpected {word!r}; settings are flags, as --{spelled(next(iter(known)))} "
                "VALUE, and several values are joined by commas"
            )
        key = flag.lstrip("-").replace("-", "_")
        raise unknown(f"unknown flag {flag}", key, known, owner(key), "--")


def take(entry: type[T], words: Sequence[str], *, alone: bool = False) -> tuple[T, list[str]]:
    """Build a dataclass of settings from its flags; return it and the other words.

    If ``alone``, other words are refused.
    """
    own = settings(entry)
    given, rest = Parser({"": own}).values(words)
    if alone:
        refuse(rest, own)
    try:
        return entry(**given), rest
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from None


def function_settings(function: Callable[..., Any]) -> dict[str, Setting]:
    """Return the keyword parameters of a typed, documented function as settings, by name."""
    hints = get_type_hints(function, include_extras=True)
    texts = parameters(function.__doc__ or "")
    return {
        name: Setting(hints[name], one.default, False, texts.get(name, ""))
        for name, one in inspect.signature(function).parameters.items()
        if one.kind is one.KEYWORD_ONLY
    }


def call(function: Callable[..., T], words: Sequence[str], missing: str = "") -> T:
    """The value of a typed function: its keyword parameters are flags, other words its arguments.

    The InputError about an argument that is not given is ``missing``.
    """
    own = function_settings(function)
    given, rest = Parser({"": own}, several=True).values(words)
    refuse([word for word in rest if word.startswith("-")], own)
    taken = inspect.signature(function).parameters.values()
    places = [one.name.upper() for one in taken if one.kind is one.POSITIONAL_ONLY]
    if places[len(rest) :]:
        raise InputError(missing)
    if len(rest) > len(places) and not any(one.kind is one.VAR_POSITIONAL for one in taken):
        raise InputError(
            f"unexpected {rest[len(places)]!r}; give only {' '.join(places)} and flags"
        )
    return function(*rest, **given)


def function_help(function: Callable[..., Any], usage: str, summary: str) -> str:
    """The help of a function as a command: its arguments and its flags."""
    texts = parameters(function.__doc__ or "")
    own = function_settings(function)
    others = [f"{name.upper()}: {text}" for name, text in texts.items() if name not in own]
    return Parser({"Flags": own}, usage, "\n".join([summary, *others])).format_help()
