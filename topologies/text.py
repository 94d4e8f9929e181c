"""Text such as ``name:key=value,key=value``: graphs, sequences, step sizes, faults of channels, networks and methods.

Case and dashes of names do not count, and the first value may lack its key: ``ring:10`` is ``ring:n=10``. A value can have
parameters itself: in ``drfgt:step_size=bb:cap=2,initial=1`` what is no parameter of the method belongs to the step size. Values
have the types of a dataclass's fields: bool, int, float, str, None, literals, unions of such, and `Kind`; other types take text.
Every function raises ValueError, with one line that says what to write instead.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Hints = Mapping[str, Any]


class Kind(NamedTuple):
    """A type of values: the function that reads one from text, and the type in words."""

    read: Callable[[str], Any]
    words: str


def whole(text: str) -> int:
    """The whole number in ``text``, as ``10000`` or ``1e4``."""
    if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+(?=e))?(e\+?[0-9]{1,2})?", text.strip(), re.IGNORECASE):
        raise ValueError(f"must be a whole number, got {text!r}")
    number = Decimal(text.strip())
    if number != int(number):
        raise ValueError(f"must be a whole number, got {text!r}")
    return int(number)


def seconds(text: str) -> float:
    """The seconds in ``text``, as ``90``, ``30s``, ``10m`` or ``2h``."""
    match = re.fullmatch(r"([+-]?[0-9.]+(?:e[+-]?[0-9]+)?)([smh]?)", text.strip(), re.IGNORECASE)
    try:
        return float(match[1]) * _SECONDS[match[2].lower()]  # type: ignore[index]  # TypeError for None
    except (TypeError, ValueError):
        raise ValueError(f"must be a number of seconds, or a time such as 30s, 10m or 2h, got {text!r:.80}") from None


_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}
_KINDS: dict[Any, Kind] = {
    bool: Kind(lambda text: {"true": True, "false": False}[text.lower()], "true or false"),
    int: Kind(whole, "a whole number"),
    float: Kind(float, "a number"),
    str: Kind(str, "text"),
    type(None): Kind(lambda text: {"none": None, "null": None}[text.lower()], "none"),
}


def normal_name(word: str) -> str:
    """``word`` as names are compared: lower case, with underscores."""
    return word.strip().lower().replace("-", "_")


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint at the known name nearest to ``word``, as in "; did you mean 'ring'?"; nothing if none is near."""
    near = nearest(word, known)
    return "" if near is None else f"; did you mean {near!r}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name nearest to ``word``, one with the same letters in another order before all others; None if none is near."""
    names = {form: name for name in known for form in (normal_name(name), name)}
    asked = normal_name(word)
    near = get_close_matches(asked, names, n=len(names) or 1)
    return max(map(names.__getitem__, near), key=lambda name: sorted(normal_name(name)) == sorted(asked), default=None)


def _known(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` is."""
    names = {normal_name(name): name for name in known} | {name: name for name in known}
    return names.get(word) or names.get(normal_name(word))


def divided(what: str, specification: str, known: Collection[str], *others: str) -> tuple[str, str]:
    """The known name in a specification, and the text of its parameters; ``others`` is what else can be written."""
    word, _, text = specification.partition(":")
    name = _known(word, known)
    if name is None:
        hint = suggestion(word, known) or ";"
        raise ValueError(f"unknown {what} {word.strip()!r}{hint} known {what}s: {', '.join((*known, *others))}")
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
            raise ValueError(f"{where}: {name} has no parameters; write {name!r}")
        if not equals and key is not None:
            raise ValueError(f"{where}: {key} needs a value; write {key}=...")
        if not equals and given:
            raise ValueError(f"{where}: only the first value may lack its name; write key={word}")
        if not equals:
            key, value = next(iter(known)), word
        if key is None:
            hint = suggestion(word, known) or ";"
            raise ValueError(f"{where}: {name} has no parameter {word!r}{hint} its parameters: {', '.join(known)}")
        if key in given:
            raise ValueError(f"{where}: {key} is given twice; leave one")
        given[key], last = value, key
    return given


def _value(hint: Any, text: str) -> Any:
    kinds: list[Kind] = []
    for one in get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,):
        if get_origin(one) is Literal:
            kinds += [Kind({word: word}.__getitem__, word) for word in get_args(one)]
        elif isinstance(one, Kind) or one in _KINDS:
            kinds.append(one if isinstance(one, Kind) else _KINDS[one])
    for kind in kinds or [_KINDS[str]]:
        try:
            return kind.read(text)
        except (ValueError, KeyError):
            continue
    *most, last = [kind.words for kind in kinds]
    raise ValueError(f"must be {', '.join(most)}{' or ' if most else ''}{last}, got {text!r}")


def values(where: str, name: str, hints: Hints, text: str) -> dict[str, Any]:
    """The parameters of ``name`` in ``text``, read by their types."""
    found = {}
    for key, written in parameters(where, name, hints, text).items():
        try:
            found[key] = _value(hints[key], written)
        except ValueError as error:
            raise ValueError(f"{where}: {key} {error}") from None
    return found


def built(where: str, name: str, entry: type[T], given: Mapping[str, Any]) -> T:
    """A dataclass of what is given."""
    for field in fields(entry):  # type: ignore[arg-type]  # a dataclass
        if field.name not in given and field.init and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where}: {field.name} must be given, as {name}:{field.name}=...")
    try:
        return entry(**given)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None


def read(where: str, name: str, entry: type[T], text: str) -> T:
    """The dataclass called ``name`` with the parameters in ``text``."""
    hints = get_type_hints(entry)
    own = {field.name: hints[field.name] for field in fields(entry)}  # type: ignore[arg-type]  # a dataclass
    return built(where, name, entry, values(where, name, own, text))


def shown(name: str, item: Any, defaults: bool = False) -> str:
    """A dataclass as text that `read` takes, without ``defaults`` only the values that are others; a field's metadata can have a
    function ``text`` for its value."""
    given = []
    for field in fields(item):
        one = getattr(item, field.name)
        if defaults or one != field.default:
            plain = str(one).lower() if isinstance(one, bool | None) else str(one)
            given.append(f"{field.name}={field.metadata['text'](one) if 'text' in field.metadata else plain}")
    return f"{name}:{','.join(given)}" if given else name
