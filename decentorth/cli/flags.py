"""Dataclasses as flags and as keys of YAML and TOML files: what a field may hold, how its text is read, what is said when it
cannot be.

Nothing here knows which settings there are; `config` does.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import re
import tomllib
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from ..settings import Setting, settings

CONFIG_BYTES = 1 << 16
"""The most that a configuration file may have."""
_LINE = 4096
"""The most characters in a line of it: a dotted key of TOML takes memory by the square of its length."""
_DEEPEST = 8
"""How many lists and mappings may lie in one another in a YAML file."""
_TOO_DEEP = "lists and mappings lie too deep in one another; settings are flat keys"
_YAML_WORDS: Mapping[str | None, bool | None] = {
    **dict.fromkeys(("", "~", "null"), None),
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
"""The meaning of words that are not quoted in YAML, in lower case."""
_LARGEST = 2**63 - 1
_SHOWN = 80


class InputError(ValueError):
    """Something that was asked for cannot be done; the message, for the person who asked, says where and how to repair it."""


def shown(value: Any) -> str:
    """``repr(value)`` as messages quote it: at most 80 characters."""
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def spelled(name: str) -> str:
    """The flag's spelling of a field, without the dashes in front."""
    return name.replace("_", "-")


def members(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type: what a union is made of, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def choices(hint: Any) -> tuple[str, ...]:
    """The words that a type allows."""
    return tuple(word for member in members(hint) if get_origin(member) is Literal for word in get_args(member))


def expected(hint: Any) -> str:
    """A type in words."""
    kinds = {int: "a whole number", float: "a finite number", str: "text", bool: "true or false"}
    words = [kinds[member] for member in members(hint) if member in kinds]
    words += [repr(word) for word in choices(hint)]
    return " or ".join(words) or str(hint)


def read_value(hint: Any, value: Any) -> Any:
    """A value of the type ``hint`` from the text of a flag or from what a file holds.

    Raises
    ------
    ValueError
        The value does not fit; the message says what was expected and what was got.
    """
    kinds = members(hint)
    sequence = next((kind for kind in kinds if get_origin(kind) in (list, tuple)), None)
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise ValueError(f"expected {expected(hint)}, got a whole number of {value.bit_length()} bits; the largest is {_LARGEST}")
    if isinstance(value, Mapping):
        raise ValueError(f"expected {expected(hint)}, got a mapping; settings are flat keys at the top of the file")
    if isinstance(value, bool) and bool in kinds:
        return value
    if isinstance(value, (list, tuple)) and sequence is not None:
        return _sequence(sequence, value)
    if isinstance(value, (int, float, str)) and not isinstance(value, bool):
        text = value if isinstance(value, str) else repr(value)
        for word in choices(hint):
            if text == str(word):
                return word
        if type(None) in kinds and text.lower() in ("none", "null"):
            return None
        if bool in kinds and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if int in kinds and re.fullmatch(r"[+-]?[0-9]+", text):
            if len(text) > 20 or abs(int(text)) > _LARGEST:
                raise ValueError(f"expected {expected(hint)}, got {shown(value)}; the largest is {_LARGEST}")
            return int(text)
        if float in kinds and math.isfinite(number := _number(text)):
            return number
        if str in kinds and text:
            return text
        if sequence is not None:
            return _sequence(sequence, [value])
    near = difflib.get_close_matches(str(value), [str(word) for word in choices(hint)], n=1)
    raise ValueError(f"expected {expected(hint)}, got {shown(value)}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _sequence(kind: Any, given: Sequence[Any]) -> Any:
    """A list or tuple; text is cut at its commas."""
    values = [part for value in given for part in (value.split(",") if isinstance(value, str) else [value])]
    inner = get_args(kind)
    fixed = get_origin(kind) is tuple and inner[-1] is not Ellipsis
    if fixed and len(inner) != len(values):
        raise ValueError(f"expected {len(inner)} values, got {shown(values)}")
    hints = inner if fixed else (inner[0],) * len(values)
    return get_origin(kind)(read_value(hint, value) for hint, value in zip(hints, values, strict=True))


def specifications(words: Iterable[str]) -> list[str]:
    """Names with parameters, ``name:key=value,key=value``, out of words that may have been cut at any comma: what has an equals
    sign before any colon goes on with the name before it."""
    found: list[str] = []
    for word in ",".join(words).split(","):
        if found and "=" in word.partition(":")[0]:
            found[-1] += f"{',' if ':' in found[-1] or '=' in found[-1] else ':'}{word.strip()}"
        else:
            found.append(word.strip())
    return found


def unknown(what: str, key: str, known: Iterable[str], owner: str, dashes: str = "") -> InputError:
    """The error for a name that is not there: whose it is, or the nearest one that is there."""
    near = difflib.get_close_matches(key, tuple(known), n=1)
    hint = owner or (f"did you mean {dashes}{spelled(near[0]) if dashes else near[0]}?" if near else "see --help for all")
    return InputError(f"{what}; {hint}")


def load(path: str, raw: bytes) -> dict[str, Any]:
    """The settings of a YAML or TOML file, keys with underscores.

    What stands in a YAML file is text, which `read_value` reads as it reads flags (``017`` is 17, ``190:20:30`` no number), unless
    it is one of YAML's words for true, false and null.

    Raises
    ------
    InputError
        The bytes are not text, too many, not well formed, not a mapping of flat keys, or give a key twice.
    """
    import yaml

    kind = PurePath(path).suffix.lower().replace(".yml", ".yaml")
    if kind not in (".yaml", ".toml"):
        raise InputError(f"{path}: a configuration must end in .yaml, .yml or .toml")
    if len(raw) > CONFIG_BYTES:
        raise InputError(f"{path}: a configuration has at most {CONFIG_BYTES} bytes; leave out what is no setting")
    try:
        text = raw.decode()
        if len(max(text.split("\n"), key=len)) > _LINE:
            raise InputError(f"{path}: a line of a configuration has at most {_LINE} characters; divide it")
        given = tomllib.loads(text) if kind == ".toml" else _yaml(path, text)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file ({error.reason} at byte {error.start})") from None
    except RecursionError:
        raise InputError(f"{path}: {_TOO_DEEP}") from None
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last for escapes of characters that there are not
        raise InputError(f"{path}: not well-formed {kind[1:].upper()}: {' '.join(str(error).split())}") from None
    found: dict[str, Any] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise InputError(f"{path}: keys must be names of settings, got {shown(key)}")
        name = key.replace("-", "_")
        if name in found:
            raise InputError(f"{path}: {key} is given twice")
        found[name] = value
    return found


def _yaml(path: str, text: str) -> dict[Any, Any]:
    """The mapping in a YAML file, of what PyYAML's parser meets; nothing is constructed by PyYAML.

    Raises
    ------
    InputError, yaml.YAMLError
        It is no mapping, or has aliases, tags, or lists too deep in one another.
    """
    import yaml

    unfinished: list[list[Any]] = [[]]
    for event in yaml.parse(text, yaml.SafeLoader):
        if getattr(event, "anchor", None) is not None:
            raise InputError(f"{path}: anchors and aliases (&name, *name) are not read; write the value in both places")
        if (tag := getattr(event, "tag", None)) is not None:
            raise InputError(f"{path}: tags ({tag:.40}) are not read; write the value alone")
        if isinstance(event, yaml.ScalarEvent):
            word = event.value.lower() if event.implicit[0] else None
            unfinished[-1].append(_YAML_WORDS.get(word, event.value))
        elif isinstance(event, yaml.CollectionStartEvent):
            if len(unfinished) > _DEEPEST:
                raise InputError(f"{path}: {_TOO_DEEP}")
            unfinished.append([])
        elif isinstance(event, yaml.CollectionEndEvent):
            items = unfinished.pop()
            unfinished[-1].append(items if isinstance(event, yaml.SequenceEndEvent) else _mapping(path, items[::2], items[1::2]))
    documents = unfinished[0]
    if len(documents) > 1:
        raise InputError(f"{path}: must be one mapping of settings, but holds {len(documents)} documents; leave one")
    if not documents or documents[0] is None:
        return {}
    if not isinstance(documents[0], dict):
        got = "a list" if isinstance(documents[0], list) else shown(documents[0])
        raise InputError(f"{path}: must be a mapping of settings, as 'agents: 10', got {got}")
    return documents[0]


def _mapping(path: str, keys: Sequence[Any], values: Sequence[Any]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in zip(keys, values, strict=True):
        if isinstance(key, list | dict):
            raise InputError(f"{path}: keys must be names of settings, got a list or a mapping")
        if key in found:
            raise InputError(f"{path}: {key} is given twice")
        found[key] = value
    return found


def read_flags(
    tokens: Sequence[str], groups: Mapping[str, Mapping[str, Setting]], owner: Callable[[str], str] | None = None
) -> dict[str, Any]:
    """The flags that were given, by the name of their setting, as text (true and false for switches).

    Parameters
    ----------
    tokens
        The arguments of the command line.
    groups
        The settings by the heading of their group.
    owner
        Says where an unknown name belongs; without it unknown flags are passed over.

    Raises
    ------
    InputError
        An unknown flag, one without its value, one given twice, a word that is no flag.
    """
    from cyclopts import App, CycloptsError
    from cyclopts.exceptions import UnknownOptionError, UnusedCliTokensError

    command = _command(groups, lambda setting: _raw(setting.hint))
    app = App(default_command=command, help_flags=[], version_flags=[], print_error=False, exit_on_error=False)
    try:
        parsed = app.parse_known_args(list(tokens)) if owner is None else app.parse_args(list(tokens))
    except UnknownOptionError as error:
        key = (error.token.keyword or error.token.value).split("=")[0].lstrip("-").replace("-", "_")
        known = [name for group in groups.values() for name in group]
        raise unknown(f"unknown flag --{spelled(key)}", key, known, owner(key) if owner else "", "--") from None
    except UnusedCliTokensError as error:
        raise InputError(f"unexpected {(error.unused_tokens or [''])[0]!r}; settings are flags, as --agents 10") from None
    except CycloptsError as error:
        error.verbose = False
        raise InputError(str(error)) from None
    return dict(parsed[1].arguments)


def take_flags(tokens: Sequence[str], entry: type[Any]) -> tuple[Any, list[str]]:
    """A dataclass of settings out of the flags that are its own, and the words that are left for another command.

    Raises
    ------
    InputError
        A flag without its value, one given twice, a value that does not fit.
    """
    from cyclopts import App, CycloptsError

    own = settings(entry)
    app = App(default_command=_command({"": own}, lambda setting: _raw(setting.hint)), help_flags=[], version_flags=[])
    try:
        _, bound, rest, _ = app.parse_known_args(list(tokens))
    except CycloptsError as error:
        error.verbose = False
        raise InputError(str(error)) from None
    given = {}
    for name, text in bound.arguments.items():
        try:
            given[name] = read_value(own[name].hint, text)
        except ValueError as error:
            raise InputError(f"--{spelled(name)}: {error}") from None
    try:
        return entry(**given), list(rest)
    except ValueError as error:
        raise InputError(str(error)) from None


def help_text(groups: Mapping[str, Mapping[str, Setting]], name: str, summary: str) -> str:
    """The help of a command as it is printed, one group of settings below the other."""
    from cyclopts import App
    from rich.console import Console

    console = Console()
    command = _command(groups, lambda setting: _written(setting.hint))
    app = App(name=name, help=summary, help_format="plaintext", default_command=command, help_flags=[], version_flags=[])
    with console.capture() as capture:
        app.help_print([], console=console)
    return capture.get()


def _listed(values: Sequence[Any]) -> str:
    """A default of several values as it is given."""
    return ",".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def _raw(hint: Any) -> Any:
    """The type under which the text of a flag is taken as it stands, switches and repeated flags apart."""
    if bool in members(hint):
        return bool
    return list[str] if any(get_origin(kind) in (list, tuple) for kind in members(hint)) else str


def _written(hint: Any) -> Any:
    """The type without objects that are written as text: dataclasses, nested sequences."""
    kinds = (kind for kind in members(hint) if not (dataclasses.is_dataclass(kind) or get_origin(kind) is Sequence))
    return Union[tuple(kinds)]  # noqa: UP007  # from a tuple


def _command(groups: Mapping[str, Mapping[str, Setting]], hint: Callable[[Setting], Any]) -> Callable[..., Any]:
    from cyclopts import Group, Parameter

    fields = []
    for order, (heading, group) in enumerate(groups.items()):
        panel = Group(heading, sort_key=order)
        for name, setting in group.items():
            text = (
                setting.help
                + (f" Must be {setting.bounds}." if setting.bounds else "")
                + (" Required." if setting.required else "")
            )
            shown: Any = setting.default is not None and setting.default is not False
            if isinstance(setting.default, tuple):
                shown = _listed if setting.default else False
            parameter = Parameter(help=text, group=panel, show_default=shown, negative_iterable=())
            kind: Any = Annotated[hint(setting), parameter]
            fields.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=setting.default, annotation=kind))

    def command(**given: Any) -> dict[str, Any]:
        return given

    command.__signature__ = inspect.Signature(fields)  # type: ignore[attr-defined]
    command.__annotations__ = {field.name: field.annotation for field in fields}
    return command
