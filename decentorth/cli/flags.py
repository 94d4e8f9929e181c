"""Dataclasses as flags and as keys of YAML and TOML files: what a field may hold, how its text is read, what is said when it
cannot be.

Nothing here knows which settings there are; `config` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import PurePath
from shutil import get_terminal_size
from textwrap import wrap as wrapped
from typing import Any, TypeVar

from topologies.typed import hint, read
from topologies.words import either, nearest, shortened

from ..settings import Setting, settings

CONFIG_BYTES = 1 << 16
"""The most that a configuration file may have."""
_LINE = 4096
"""The most characters in a line of it: a dotted key of TOML takes memory by the square of its length."""
_YAML_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null"), None),
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
"""The meaning of words that are not quoted in YAML, in lower case."""
T = TypeVar("T")
_COLUMN = 25
"""The column in which the descriptions of a help begin."""


class InputError(ValueError):
    """Something that was asked for cannot be done; the message, for the person who asked, says where and how to repair it.

    Every function of the command line raises it for flags, files and folders that cannot be used.
    """


def with_flags(text: str) -> str:
    """A message of the library with the flag behind the first of each name that only Python has."""
    for name, flag in (("x0", "--start"), ("n_agents", "--agents")):
        text = text if flag in text else re.sub(rf"\b{name}\b(?![\[=.(])", f"{name} ({flag})", text, count=1)
    return text


def spelled(name: str) -> str:
    """The flag's spelling of a field, without the dashes in front."""
    return name.replace("_", "-")


def read_value(name: str, annotation: Any, value: Any) -> Any:
    """The value of a setting from the text of a flag or the content of a file; errors have ``name``."""
    try:
        return read(annotation, value, written=True)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name} {error}") from None


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
    near = nearest(key, known)
    named = "" if near is None else f"{dashes}{spelled(near) if dashes else near}"
    return InputError(f"{what}; {owner or (f'did you mean {named}?' if named else 'see --help for all')}")


def load(path: str, raw: bytes) -> dict[str, Any]:
    """The settings of a YAML or TOML file, keys with underscores.

    What stands in a YAML file is text, which `read_value` reads as it reads flags (``017`` is 17, ``190:20:30`` no number), unless
    it is one of YAML's words for true, false and null.
    """
    import tomllib

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
        given = list(tomllib.loads(text).items()) if kind == ".toml" else _yaml(path, text)
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a text file ({error.reason} at byte {error.start})") from None
    except RecursionError:
        raise InputError(f"{path}: lists and mappings lie too deep in one another; settings are flat keys") from None
    except InputError:
        raise
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # the last for escapes of characters that there are not
        raise InputError(f"{path}: not well-formed {kind[1:].upper()}: {' '.join(str(error).split())}") from None
    found: dict[str, Any] = {}
    for key, value in given:
        if not isinstance(key, str):
            raise InputError(f"{path}: keys must be names of settings, got {shortened(key)}")
        name = key.replace("-", "_")
        if name in found:
            raise InputError(f"{path}: {key} is given twice")
        found[name] = value
    return found


def _yaml(path: str, text: str) -> list[tuple[Any, Any]]:
    """The keys and values of a YAML file, from PyYAML's tree of nodes; PyYAML constructs nothing.

    Raises
    ------
    InputError, yaml.YAMLError
        It is not well formed or no mapping, or has aliases or tags.
    """
    import yaml

    for token in yaml.scan(text):
        if isinstance(token, yaml.AnchorToken | yaml.AliasToken):
            raise InputError(f"{path}: anchors and aliases (&name, *name) are not read; write the value in both places")
        if isinstance(token, yaml.TagToken):
            raise InputError(f"{path}: tags ({''.join(filter(None, token.value)):.40}) are not read; write the value alone")
    root = yaml.compose(text, yaml.BaseLoader)
    if not isinstance(root, yaml.MappingNode | None):
        raise InputError(f"{path}: must be a mapping of settings, as 'agents: 10', got {shortened(_held(root))}")
    return [] if root is None else [(_held(key), _held(value)) for key, value in root.value]


def _held(node: Any) -> Any:
    """The content of a node of a YAML file: text, unless it is a word for true, false or null that is not quoted."""
    if node.id == "scalar":
        return _YAML_WORDS.get(node.value.lower(), node.value) if node.style is None else node.value
    if node.id == "sequence":
        return [_held(item) for item in node.value]
    return {key.value if key.id == "scalar" else shortened(_held(key)): _held(value) for key, value in node.value}


def read_flags(
    tokens: Sequence[str], groups: Mapping[str, Mapping[str, Setting]], owner: Callable[[str], str] | None = None
) -> dict[str, Any]:
    """The flags that were given, by the name of their setting, as text (true and false for switches).

    ``groups`` are the settings by heading. ``owner`` says where an unknown name belongs; without it unknown flags are passed over.
    """
    given, rest = _parsed(tokens, groups)
    if owner is not None:
        refuse_others(rest, [name for group in groups.values() for name in group], owner)
    return given


def refuse_others(words: Sequence[str], known: Sequence[str], owner: Callable[[str], str] = lambda key: "") -> None:
    """Raise InputError for the first word, which is no flag of the ``known`` settings; ``owner`` is that of `read_flags`."""
    for word in words[:1]:
        if not word.startswith("-"):
            raise InputError(
                f"unexpected {word!r}; settings are flags, as --{spelled(known[0])} VALUE, and several values are joined by commas"
            )
        flag = word.split("=")[0]
        key = flag.lstrip("-").replace("-", "_")
        raise unknown(f"unknown flag {flag}", key, known, owner(key), "--")


def _parsed(tokens: Sequence[str], groups: Mapping[str, Mapping[str, Setting]]) -> tuple[dict[str, Any], list[str]]:
    """The text of the flags of these settings, and the words that are left.

    A flag is ``--name value`` or ``--name=value``; a switch ``--name`` or ``--no-name``; a list may be given several times.
    """
    own = {spelled(name): (name, hint(setting.hint)) for group in groups.values() for name, setting in group.items()}
    given: dict[str, Any] = {}
    rest: list[str] = []
    words = list(tokens)
    while words:
        word = words.pop(0)
        flag, equals, text = word.removeprefix("--").partition("=")
        off = flag.startswith("no-") and flag not in own
        name, one = own.get(flag.removeprefix("no-") if off else flag, ("", hint(str)))
        if not name or not word.startswith("--") or (off and (equals or bool not in one.types)):
            rest.append(word)
            continue
        value: Any = text
        if bool in one.types and not equals:
            value = not off
        elif not equals:
            if not words or re.match(r"-(?![0-9.]|inf|nan)", words[0]):
                raise InputError(f"--{flag} requires an argument")
            value = words.pop(0)
        if one.sequence is not None:
            given.setdefault(name, []).append(value)
        elif name in given:
            raise InputError(f"--{flag} specified multiple times: give it once")
        else:
            given[name] = value
    return given, rest


def take_flags(tokens: Sequence[str], entry: type[T]) -> tuple[T, list[str]]:
    """A dataclass of settings out of the flags that are its own, and the words that are left for another command."""
    own = settings(entry)
    given, rest = _parsed(tokens, {"": own})
    try:
        return entry(**{name: read_value(name, own[name].hint, text) for name, text in given.items()}), rest
    except (ValueError, TypeError) as error:
        raise InputError(str(error)) from None


def help_text(groups: Mapping[str, Mapping[str, Setting]], name: str, summary: str) -> str:
    """The help of a command as it is printed, one group of settings below the other; flags and numbers are never cut."""
    width = max(60, min(get_terminal_size().columns, 120))
    wrap = partial(wrapped, width=width, break_on_hyphens=False, break_long_words=False)
    lines = [f"Usage: {name} [flags]", *(line for part in summary.split("\n") for line in ("", *wrap(part)) if part)]
    for heading, group in groups.items():
        lines += ["", heading]
        for field, setting in group.items():
            switch = bool in hint(setting.hint).types
            flags = f"  --{spelled(field)}" + (f", --no-{spelled(field)}" if switch and setting.default else "")
            text = " ".join(_facts(setting))
            if len(flags) > _COLUMN - 2:
                lines.append(flags)
                flags = ""
            lines += wrap(text, initial_indent=flags.ljust(_COLUMN), subsequent_indent=" " * _COLUMN) or [flags]
    return "\n".join(lines).replace("\xa0", " ") + "\n"


def _facts(setting: Setting) -> Iterator[str]:
    """The description of a setting, its choices, its bounds and its default."""
    if setting.help:
        yield setting.help
    one = hint(setting.hint)
    words = [str(word) for word in one.choices]
    if words:
        yield f"{'Or' if len(words) == 1 else 'One of'}: {', '.join(words)}."
    if one.ranges:
        yield f"Must be {either([str(bounds) for bounds in one.ranges])}."
    if setting.required:
        yield "Required."
    elif setting.default is not None and setting.default is not False and setting.default != ():
        yield f"[default:\xa0{_listed(setting.default)}]"  # not divided between two lines


def _listed(value: Any) -> str:
    """A default as it is given."""
    if isinstance(value, tuple | list):
        return ",".join(map(_listed, value))
    return f"{value:g}" if isinstance(value, float) else str(value)
