"""Configuration files, YAML and TOML, and the messages of the command line; `topologies.line.flags` has
its flags.

Nothing here knows which settings there are; `config` does.
"""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topologies.line.flags import InputError as InputError
from topologies.line.flags import spelled
from topologies.line.typed import check
from topologies.line.words import shortened, suggestion

from ...settings import Values

CONFIG_BYTES = 1 << 16
"""The most that a configuration file may have."""
_LINE = 4096
"""The most characters in a line of it: a dotted key of TOML takes memory by the square of its
length."""
_YAML_WORDS: Mapping[str, bool | None] = {
    **dict.fromkeys(("", "~", "null"), None),
    **dict.fromkeys(("true", "yes", "on"), True),
    **dict.fromkeys(("false", "no", "off"), False),
}
"""The meaning of words that are not quoted in YAML, in lower case."""


_TABLE_FLAGS = {"label": "label-column", "samples": "columns"}
"""The flags of keywords of `data.Columns` whose names differ."""
_TABLE_NAMES = (
    "samples|columns|label|label_column|exclude|drop_missing|missing|center|scale|drop_constant"
)
_QUOTED = r"""'[^']*'|"[^"]*\""""
_TABLE_SETTING = re.compile(rf"\b({_TABLE_NAMES})=(True|0|{_QUOTED}|\((?:(?:{_QUOTED}),? ?)+\))")
"""A keyword of `data.Columns` or of the settings of tables with its value: true, 0, a text or a
tuple of texts."""


def _table_flag(setting: re.Match[str]) -> str:
    """The words of the command line for a keyword with its value."""
    name = setting[1]
    value = ast.literal_eval(setting[2])
    flag = f"--{spelled(_TABLE_FLAGS.get(name, name))}"
    if value is True:
        return flag
    if type(value) is tuple:
        value = ",".join(value)
    return f"{flag} {shlex.quote(str(value))}"


def with_flags(text: str) -> str:
    """A message of the library in words of the command line.

    Keywords of tables become flags; the first of each name that only Python has gets its flag
    behind it.
    """
    text = re.sub(r"\balgorithm='(\w+)'", r"--algorithm \1", text)
    text = _TABLE_SETTING.sub(_table_flag, text)
    for name, flag in (("x0", "--start"), ("n_agents", "--agents")):
        if flag not in text:
            text = re.sub(rf"\b{name}\b(?![\[=.(])", f"{name} ({flag})", text, count=1)
    return text


def read_value(name: str, annotation: object, value: object) -> Any:
    """The value of a setting from the text of a flag or the content of a file; errors have
    ``name``."""
    return check(name, annotation, value, written=True)


def named_file(path: str) -> Path:
    """The file of a configuration, which may be the name of one of the package, such as
    paper004."""
    folder = Path(__file__).parent / "experiments"
    bundled = {place.stem: place for place in folder.glob("*.toml")}
    if path.isidentifier() and path not in bundled and not Path(path).exists():
        hint = suggestion(path, bundled) or "; name a file, or paper004"
        raise InputError(f"there is no configuration {path}{hint}")
    return bundled.get(path, Path(path))


def load(path: str, raw: bytes) -> Values:
    """The settings of a YAML or TOML file, keys with underscores.

    What stands in a YAML file is text, which `read_value` reads as it reads flags (``017`` is 17,
    ``190:20:30`` no number), unless it is one of YAML's words for true, false and null.
    """
    kind = named_file(path).suffix.lower().replace(".yml", ".yaml")
    if kind not in _READERS:
        raise InputError(f"{path}: a configuration must end in .yaml, .yml or .toml")
    try:
        return _settings(_READERS[kind](_text(raw)))
    except RecursionError:
        why = "lists and mappings are nested too deeply; settings are flat keys"
    except UnicodeDecodeError as error:
        why = f"not a text file ({error.reason} at byte {error.start})"
    except InputError as error:
        why = str(error)
    except (ValueError, OverflowError) as error:  # the last for escapes of unknown characters
        why = f"not well-formed {kind[1:].upper()}: {' '.join(str(error).split())}"
    raise InputError(f"{path}: {why}")


def _text(raw: bytes) -> str:
    """The text of a file whose lines are not too long."""
    text = raw.decode()
    if len(max(text.split("\n"), key=len)) > _LINE:
        raise InputError(f"a line of a configuration has at most {_LINE} characters; divide it")
    return text


def _settings(given: list[tuple[object, object]]) -> Values:
    """The values by name, each given once."""
    found: Values = {}
    for key, value in given:
        if not isinstance(key, str):
            raise InputError(f"keys must be names of settings, got {shortened(key)}")
        name = key.replace("-", "_")
        if name in found:
            raise InputError(f"{key} is given twice")
        found[name] = value
    return found


def _toml(text: str) -> list[tuple[object, object]]:
    """The keys and values of a TOML file."""
    return list(tomllib.loads(text).items())


def _yaml(text: str) -> list[tuple[object, object]]:
    """The keys and values of a YAML file; PyYAML makes text and the words for true, false and null
    alone.

    Raises
    ------
    InputError, ValueError
        It is not well formed or no mapping, or has aliases or tags.
    """

    import yaml

    class Loader(yaml.BaseLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's
            if event.anchor is not None:
                raise InputError(
                    "anchors and aliases (&name, *name) are not read; write the value in both "
                    "places"
                )
            if event.tag is not None:
                written = event.tag.replace("tag:yaml.org,2002:", "!!")
                raise InputError(f"tags ({written:.40}) are not read; write the value alone")
            return super().compose_node(parent, index)

        def construct_scalar(self, node: Any) -> Any:
            if node.style is None:  # not quoted
                return _YAML_WORDS.get(node.value.lower(), node.value)
            return node.value

    try:
        loader = Loader(text)
        root = loader.get_single_node()
        if root is None:
            return []
        if not isinstance(root, yaml.MappingNode):
            got = shortened(loader.construct_object(root, deep=True))
            raise InputError(f"must be a mapping of settings, as 'agents: 10', got {got}")
        return list(loader.construct_pairs(root, deep=True))
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from None


_READERS = {".toml": _toml, ".yaml": _yaml}
"""The reader of the keys and values of a file by the end of its name."""
