"""Configuration files, YAML and TOML, and the messages of the command line; `topologies.flags` has its flags.

Nothing here knows which settings there are; `config` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from topologies.flags import HELP, InputError, Parser, call, function_help, refuse, spelled, take, unknown
from topologies.typed import read
from topologies.words import shortened

__all__ = ["HELP", "InputError", "Parser", "call", "function_help", "refuse", "spelled", "take", "unknown"]

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


def with_flags(text: str) -> str:
    """A message of the library with the flag behind the first of each name that only Python has."""
    for name, flag in (("x0", "--start"), ("n_agents", "--agents")):
        text = text if flag in text else re.sub(rf"\b{name}\b(?![\[=.(])", f"{name} ({flag})", text, count=1)
    return text


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


def named_file(path: str) -> Path:
    """The file of a configuration, which may be the name of one of the package, such as paper004."""
    bundled = Path(__file__).parent / "experiments" / f"{path}.toml"
    return bundled if path.isidentifier() and bundled.is_file() else Path(path)


def load(path: str, raw: bytes) -> dict[str, Any]:
    """The settings of a YAML or TOML file, keys with underscores.

    What stands in a YAML file is text, which `read_value` reads as it reads flags (``017`` is 17, ``190:20:30`` no number), unless
    it is one of YAML's words for true, false and null.
    """
    import tomllib

    kind = named_file(path).suffix.lower().replace(".yml", ".yaml")
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
    except (ValueError, OverflowError) as error:  # the last for escapes of unknown characters
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
    InputError, ValueError
        It is not well formed or no mapping, or has aliases or tags.
    """
    import yaml

    try:
        return _yaml_pairs(yaml, path, text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


def _yaml_pairs(yaml: Any, path: str, text: str) -> list[tuple[Any, Any]]:
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
