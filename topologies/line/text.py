"""Text such as ``name:key=value,key=value``: graphs, sequences, step sizes, faults of channels,
networks and methods.

Case and dashes of names do not count, and the first value may lack its key: ``ring:10`` is
``ring:n=10``. A value can have parameters itself: in ``drfgt:step_size=bb:cap=2,initial=1`` items
that are not parameters of the method belong to the step size. Values have the types of a
dataclass's fields, which `typed.read` reads; types that it does not know take text. Every function
raises ValueError, with one line that says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

from topologies.line.typed import check, declared, settings
from topologies.line.words import normal_name, suggestion

T = TypeVar("T")
Hints = Mapping[str, Any]


def _known(word: str, known: Collection[str]) -> str | None:
    """The known name that ``word`` is."""
    if word in known:
        return word
    return {normal_name(name): name for name in known}.get(normal_name(word))


def divided(what: str, specification: str, known: Collection[str], *others: str) -> tuple[str, str]:
    """The known name in a specification, and the text of its parameters; ``others`` is what else
    can be written."""
    word, _, text = specification.partition(":")
    name = _known(word, known)
    if name is None:
        hint = suggestion(word, known) or ";"
        listed = ", ".join((*known, *others))
        raise ValueError(f"unknown {what} {word.strip()!r}{hint} known {what}s: {listed}")
    return name, text


def parameters(where: str, name: str, known: Collection[str], text: str) -> dict[str, str]:
    """The parameters of ``name`` in ``text`` as they are written; messages begin with ``where``."""
    given: dict[str, str] = {}
    last = ""
    for item in filter(str.strip, text.split(",")):
        word, equals, value = (part.strip() for part in item.partition("="))
        key = _known(word, known)
        if key is None and re.match(r"[A-Za-z][\w-]*:", given.get(last, "")):
            given[last] += f",{item.strip()}"
            continue
        if not known:
            raise ValueError(f"{where}: {name} takes no parameters; write {name!r}")
        if not equals and key is not None:
            raise ValueError(f"{where}: {key} needs a value; write {key}=...")
        if not equals and given:
            repair = f"write key={word}"
            if last == "sides":
                repair += f", or {last}={given[last]}x{word}"
            raise ValueError(f"{where}: only the first value may lack its name; {repair}")
        if not equals:
            key = next(iter(known))
            value = word
        if key is None:
            hint = suggestion(word, known) or ";"
            listed = ", ".join(known)
            raise ValueError(
                f"{where}: {name} has no parameter {word!r}{hint} its parameters: {listed}"
            )
        if key in given:
            raise ValueError(f"{where}: {key} is given twice; leave one")
        given[key], last = value, key
    return given


def values(where: str, name: str, hints: Hints, text: str) -> dict[str, Any]:
    """The parameters of ``name`` in ``text``, read by their types."""
    found = {}
    for key, written in parameters(where, name, hints, text).items():
        try:
            found[key] = check(key, hints[key], written, written=True)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{where}: {error}") from None
    return found


def built(where: str, name: str, entry: type[T], given: Mapping[str, object]) -> T:
    """A dataclass of what is given."""
    for key, setting in settings(entry).items():
        if setting.required and key not in given:
            raise ValueError(f"{where}: {key} must be given, as {name}:{key}=...")
    try:
        return entry(**given)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def read(where: str, name: str, entry: type[T], text: str) -> T:
    """The dataclass called ``name`` with the parameters in ``text``."""
    return built(where, name, entry, values(where, name, declared(entry), text))


def shown(name: str, item: Any, defaults: bool = False) -> str:
    """A dataclass as text that `read` takes, without ``defaults`` only the values that are others.

    A field's metadata can have a function ``text`` for its value.
    """
    given = []
    for field in fields(item):
        one = getattr(item, field.name)
        if defaults or one != field.default:
            text = field.metadata.get("text", _written)
            given.append(f"{field.name}={text(one)}")
    return f"{name}:{','.join(given)}".rstrip(":")


def _written(value: object) -> str:
    """A value as it is written."""
    text = str(value)
    return text.lower() if value is None or type(value) is bool else text


def specifications(words: Iterable[str]) -> list[str]:
    """Names with parameters, ``name:key=value,key=value``, out of words that may have been cut at
    any comma: what has an equals sign before any colon continues the name before it."""
    found: list[str] = []
    for word in ",".join(words).split(","):
        if not found or "=" not in word.partition(":")[0]:
            found.append(word.strip())
        elif ":" in found[-1] or "=" in found[-1]:
            found[-1] += f",{word.strip()}"
        else:
            found[-1] += f":{word.strip()}"
    return found
