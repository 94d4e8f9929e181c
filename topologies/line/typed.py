"""One reader of typed values, for fields of dataclasses, flags, keys of files, and
``name:key=value``.

    read(Annotated[int, Range(least=1)], "5", written=True)     5
    read(Positive | Literal["auto"], "fast", written=True)      ValueError: must be a positive number or 'auto', got 'fast'

``written`` values are text, of which numbers and words are made; others are Python's and stay as
they are.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
import sys
import types
from collections.abc import Callable, Mapping, Sized
from contextlib import suppress
from dataclasses import MISSING, dataclass
from functools import cache
from itertools import chain
from numbers import Integral, Real
from operator import attrgetter
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from topologies.line.words import either, seconds, shortened, suggestion, whole

LARGEST = 2**63 - 1
_DIGITS = 20
"""The most characters of a whole number that is not too large."""


_PYTHON = (int, float, str, bool, type(None))
"""Types whose values are no NumPy scalars."""


def plain(value: object) -> Any:
    """The value, or the Python number that a NumPy scalar holds; arrays and tensors have a
    length."""
    given: Any = value
    if type(value).__module__ == "numpy" and not isinstance(value, Sized):
        return given.item()
    return given


@dataclass(frozen=True)
class Range:
    """The bounds of a number; infinity is outside unless ``most`` is inf, NaN always."""

    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None

    def __contains__(self, value: Any) -> bool:
        if type(value) not in _PYTHON:
            value = plain(value)  # NumPy would round the bounds to the precision of its number
        # unlike inf, the largest float is also above whole numbers of any size
        most = self.most
        least = self.least
        if most is None:
            most = sys.float_info.max
        if least is None:
            least = -most
        if not least <= value <= most or (self.above is not None and value <= self.above):
            return False
        return self.below is None or bool(value < self.below)

    def __str__(self) -> str:
        """The bounds in words, after "must be"."""
        if self.least is not None and self.most is not None and math.isfinite(self.most):
            return f"from {self.least} to {self.most}"
        if self.above == 0 and self.below is None and self.most is None:
            return "positive and finite"
        if self.above == 0 and self.below is None and self.most == math.inf:
            return "positive"
        if str(self.least) == "0.0" and self.below is None:
            return "finite and not negative"
        words = zip(("above", "at least", "below", "at most"), vars(self).values(), strict=True)
        bounds = [f"{word} {bound}" for word, bound in words if bound not in (None, math.inf)]
        return " and ".join(bounds) or "finite"


class Form(NamedTuple):
    """A function that checks a value and returns it in its one form; it has all the checks of its
    field."""

    of: Callable[[Any], Any]


class Shape(NamedTuple):
    """A type with a spelling of its own (``4x5``): the function that reads it, and the type in
    words."""

    of: Callable[[str], Any]
    words: str


_TIME = object()
Seconds = Annotated[float, _TIME]
"""A time in seconds; flags and files may write it as 30s, 10m or 2h."""


class Kind(NamedTuple):
    """One alternative of an annotation, which is no choice of words."""

    type: Any
    values: Any
    """The classes of its values."""
    words: str
    ranges: tuple[Range, ...] = ()

    def holds(self, value: Any) -> bool:
        """True for a value of this kind; True and False are of one kind alone."""
        if self.values is object:
            return True
        return isinstance(value, self.values) and (type(value) is bool) == (self.type is bool)


_KINDS: dict[Any, Kind] = {
    int: Kind(int, Integral, "a whole number"),
    float: Kind(float, Real, "a number"),
    str: Kind(str, (str, os.PathLike), "text"),
    bool: Kind(bool, bool, "true or false"),
    type(None): Kind(type(None), type(None), "None"),
}
_NAMED: dict[Any, dict[str, Any]] = {
    type(None): {"none": None, "null": None},
    bool: {"true": True, "false": False},
}
"""The values of types that are written as words."""


class Hint(NamedTuple):
    """An annotation in its parts."""

    kinds: tuple[Kind, ...] = ()
    choices: tuple[Any, ...] = ()
    """The values of literals."""
    sequence: Any = None
    """The type of lists or tuples, if it is one of the alternatives."""
    form: Callable[[Any], Any] | None = None
    time: bool = False
    help: str = ""

    types: tuple[Any, ...] = ()
    """The types of the alternatives, without literals and sequences."""
    ranges: tuple[Range, ...] = ()
    """All bounds of numbers."""


@cache
def hint(annotation: object) -> Hint:
    """The parts of an annotation."""
    origin = get_origin(annotation)
    inner = get_args(annotation)
    if origin is Annotated:
        found = _annotated(hint(inner[0]), inner[1:])
    elif origin in (Union, types.UnionType):
        found = _joined(list(map(hint, inner)))
    elif origin is Literal:
        found = Hint(choices=inner)
    elif origin in (list, tuple):
        found = Hint(sequence=annotation)
    else:
        found = Hint((_KINDS.get(annotation) or Kind(annotation, object, _name_of(annotation)),))
    return found._replace(
        types=tuple(map(attrgetter("type"), found.kinds)),
        ranges=tuple(chain.from_iterable(map(attrgetter("ranges"), found.kinds))),
    )


def _name_of(annotation: object) -> str:
    if isinstance(annotation, Shape):
        return annotation.words
    return str(getattr(annotation, "__name__", annotation))


def _joined(parts: list[Hint]) -> Hint:
    """The parts of a union."""
    found = parts[0]
    for part in parts[1:]:
        sequence = found.sequence or part.sequence
        form = found.form or part.form
        found = Hint(
            found.kinds + part.kinds,
            found.choices + part.choices,
            sequence,
            form,
            found.time or part.time,
            found.help + part.help,
        )
    return found


def _annotated(found: Hint, extra: tuple[Any, ...]) -> Hint:
    """The parts of an annotation with more facts about it."""
    for one in extra:
        match one:
            case Range():
                kinds = [kind._replace(ranges=(*kind.ranges, one)) for kind in found.kinds]
                found = found._replace(kinds=tuple(kinds))
            case Form(of=form):
                found = found._replace(form=form)
            case str():
                found = found._replace(help=one)
            case _ if one is _TIME:
                found = found._replace(time=True)
    return found


def _known(one: Hint) -> tuple[Kind, ...]:
    """The alternatives that text can be, if there are any."""
    return tuple(kind for kind in one.kinds if kind.values is not object) or one.kinds


def read(annotation: object, value: Any, written: bool = False) -> Any:
    """The value, of the annotated type; a `Form` is for the field that the value is given to.

    Raises
    ------
    ValueError, TypeError
        The value does not fit; the message begins with "must be".
    """
    one = hint(annotation)
    if type(value) not in _PYTHON:
        value = plain(value)
    given = value
    if one.time and isinstance(value, str) and not written:
        value = seconds(value)
    if written:
        value = _made(one, value)
        if one.form is not None or (one.sequence is not None and isinstance(value, list | tuple)):
            return value
    bounds: Range | None = None
    known = one.kinds
    if written and isinstance(value, str):
        known = _known(one)
    for kind in known:
        if kind.holds(value):
            bounds = next((limit for limit in kind.ranges if value not in limit), None)
            if bounds is None:
                return int(value) if kind.type is int else value  # JSON lacks NumPy's numbers
    if isinstance(value, str | int) and value in one.choices:
        return value
    if one.sequence is not None and not written:
        return value
    if bounds is not None:
        raise ValueError(f"must be {bounds}, got {value}")
    raise _refusal(one, given)


def check(name: str, annotation: object, value: object, written: bool = False) -> Any:
    """The value that `read` gives; the message of its ValueError or TypeError begins with
    ``name``."""
    try:
        return read(annotation, value, written)
    except (ValueError, TypeError) as error:
        raise type(error)(f"{name} {error}") from None


def _refusal(one: Hint, value: object) -> ValueError | TypeError:
    """The error about a value of no type of an annotation."""
    choices = [str(word) for word in one.choices]
    others = [_in_words(kind) for kind in _known(one)]
    words = either([*others, *map(repr, choices)])
    if not others:
        words = f"one of {either(choices)}"
    kind = ValueError if choices and isinstance(value, str) else TypeError
    return kind(f"must be {words}, got {value!r:.80}{suggestion(str(value), choices)}")


def _in_words(kind: Kind) -> str:
    if kind.type is float and any(bounds.above == 0 for bounds in kind.ranges):
        return "a positive number"
    return kind.words


def _made(one: Hint, value: object) -> object:
    """The number, word or list that is written; the value itself where it is none."""
    match value:
        case Mapping():
            raise ValueError(
                "must be one value, got a mapping; settings are flat keys at the top of the file"
            )
        case list() | tuple() if one.sequence is not None:
            return _items(one.sequence, value)
        case int() if abs(value) > LARGEST:
            raise ValueError(
                f"must be at most {LARGEST}, got a whole number of {value.bit_length()} bits"
            )
        case int() | float() | str() if type(value) is not bool:
            pass
        case _:
            return value
    types = one.types
    text = str(value)
    choices = {str(word): word for word in one.choices}
    for words in (choices, *(_NAMED.get(kind, {}) for kind in types)):
        if text in words or text.lower() in words:
            return words.get(text, words.get(text.lower()))
    for kind in types:
        if isinstance(kind, Shape):
            try:
                return kind.of(text)
            except ValueError:
                raise ValueError(f"must be {kind.words}, got {shortened(text)}") from None
    if int in types and (count := _count(value, powers=str not in types)) is not None:
        return count
    if one.time:
        return seconds(text)
    if float in types and (number := _number(text, one)) is not None:
        return number
    if str in types and text == "":
        raise ValueError("must be text, got ''")
    if str in types or one.sequence is None:
        return text
    return _items(one.sequence, [value])


def _count(value: int | float | str, powers: bool) -> int | None:
    """The whole number in a value, with ``powers`` also as 1e4 (which TOML reads as 10000.0), or
    None."""
    if powers and isinstance(value, float) and value.is_integer():
        return int(value)
    text = str(value)
    count = None
    if re.fullmatch(r"[+-]?[0-9]+", text):
        count = int(text) if len(text) <= _DIGITS else LARGEST + 1
    elif powers:
        with suppress(ValueError):
            count = whole(text)
    if count is not None and abs(count) > LARGEST:
        raise ValueError(f"must be at most {LARGEST}, got {shortened(value)}")
    return count


def _number(text: str, one: Hint) -> float | None:
    """The number in a text; one that is not finite only where there are bounds, which judge it."""
    with suppress(ValueError):
        number = float(text)
        if math.isfinite(number) or one.ranges:
            return number
    return None


def _items(sequence: Any, given: Any) -> object:
    """A list or tuple of values; text is cut at its commas."""
    items: list[object] = []
    for value in given:
        items += value.split(",") if isinstance(value, str) else [value]
    annotations = list(get_args(sequence))
    if annotations[1:] in ([], [...]):
        annotations = annotations[:1] * len(items)
    if len(items) != len(annotations):
        raise ValueError(f"must be {len(annotations)} values, got {len(items)}")
    every = zip(annotations, items, strict=True)
    return get_origin(sequence)(read(one, item, written=True) for one, item in every)


class Setting(NamedTuple):
    """One field of a dataclass: its annotation, its default and its description."""

    hint: Any
    default: Any
    required: bool
    help: str


def _declared(entry: type[Any]) -> Mapping[str, object]:
    """The annotation of each field of a dataclass that may be set."""
    hints = get_type_hints(entry, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(entry) if field.init}


declared = cast("Callable[[type[Any]], Mapping[str, Any]]", cache(_declared))


def _settings(entry: type[Any]) -> Mapping[str, Setting]:
    """The fields of a dataclass that may be set, by name.

    A description in its docstring, or in one of a base, goes before that in the annotation.
    """
    texts: dict[str, str] = {}
    for base in reversed(entry.__mro__):
        texts |= parameters(base.__doc__ or "")
    found = {}
    for name, annotation in declared(entry).items():
        field = entry.__dataclass_fields__[name]
        default = field.default
        if callable(field.default_factory):
            default = field.default_factory()
        # a class from another process has a MISSING of its own
        required = isinstance(default, type(MISSING))
        if required:
            default = None
        text = texts.get(name, hint(annotation).help)
        found[name] = Setting(annotation, default, required, text)
    return found


settings = cast("Callable[[type[Any]], Mapping[str, Setting]]", cache(_settings))


def parameters(docstring: str) -> dict[str, str]:
    """The descriptions in a NumPy-style "Parameters" section, by name."""
    text = inspect.cleandoc(docstring) + "\n"
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", text, re.M | re.S)
    entries = r"^(\S[^\n]*)\n((?:[ \t]+[^\n]*\n|\n)*)"
    texts: dict[str, str] = {}
    if section is None:
        return texts
    for head, body in re.findall(entries, section.group(1), re.M):
        described = re.sub(r"`+", "", " ".join(body.split()))
        texts |= dict.fromkeys(map(str.strip, head.split(":")[0].split(",")), described)
    return texts
