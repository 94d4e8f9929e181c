"""Settings as fields of frozen dataclasses: their bounds and descriptions are declared once, in the annotations of the fields.

    @dataclass(frozen=True)
    class Method(Settings):
        penalty: Positive | Literal["auto"] = "auto"
        rounds: Annotated[int, Range(least=1), "Exchanges with the neighbours in an iteration."] = 1

The same declarations check a value when the object is made, become flags and keys of files, and stand in the help.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import os
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass
from functools import cache, wraps
from numbers import Integral, Real
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NoReturn,
    ParamSpec,
    Self,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from topologies.text import suggestion

from .display import table

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """The bounds of a number; infinity is outside unless ``most`` is inf, NaN always."""

    above: float | None = None
    least: float | None = None
    below: float | None = None
    most: float | None = None

    def __contains__(self, value: Any) -> bool:
        value = _plain(value)  # NumPy would round the bounds to the precision of its number
        most = sys.float_info.max if self.most is None else self.most  # unlike inf, also above whole numbers of any size
        return bool(
            (-most if self.least is None else self.least) <= value <= most
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        """The bounds in words, after "must be"."""
        if self.least is not None and self.most is not None and math.isfinite(self.most):
            return f"from {self.least} to {self.most}"
        if self.above == 0 and self.below is None and self.most in (None, math.inf):
            return "positive and finite" if self.most is None else "positive"
        if isinstance(self.least, float) and self.least == 0.0 and self.below is None:
            return "finite and not negative"
        bounds = (("above", self.above), ("at least", self.least), ("below", self.below), ("at most", self.most))
        return " and ".join(f"{words} {bound}" for words, bound in bounds if bound not in (None, math.inf)) or "finite"


class Form(NamedTuple):
    """A function that checks a value and returns it in its one form; it has all the checks of its field."""

    of: Callable[[Any], Any]


_TIME = object()
Seconds = Annotated[float, _TIME]
"""A time in seconds; flags and files may write it as 30s, 10m or 2h."""
Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(least=0.0)]
Finite = Annotated[float, Range()]
Share = Annotated[float, Range(above=0, most=1)]
"""A share of something that is there."""
Probability = Annotated[float, Range(least=0, below=1)]
Natural = Annotated[int, Range(least=0)]
Count = Annotated[int, Range(least=1)]
Seed = Annotated[int, Range(least=0), "The seed of generated data, the start, random graphs and sampling."]
Quiet = Annotated[bool, "Print nothing but errors."]
Condition = Annotated[float, Range(least=1)]
"""The condition of a matrix."""


class Setting(NamedTuple):
    """One field of a dataclass: its annotated type, its default, its description and its bounds in words."""

    hint: Any
    default: Any
    required: bool
    help: str
    bounds: str


def missing(module: str, known: Iterable[str]) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a module, which raises an AttributeError that names the nearest of the known names."""

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):  # asked by Python's imports, which do not show the message
            raise AttributeError(name)
        near = suggestion(name, [one for one in known if not one.startswith("_")])
        raise AttributeError(f"module {module!r} has no attribute {name!r}{near}")

    return refuse


def taking(spec: Callable[P, S]) -> Callable[[Callable[[S], T]], Callable[P, T]]:
    """Make a function of ``spec(...)`` a function of the arguments of ``spec``, a `Settings` class.

    The new function has their names, types, defaults and descriptions; a TypeError names the nearest parameter of a wrong name.

        @taking(Arguments)
        def solve(arguments: Arguments) -> Result: ...

        solve(problem, method, W, seed=1)  # arguments is Arguments(problem, method, W, seed=1)
    """

    def taken(function: Callable[[S], T]) -> Callable[P, T]:
        parameters = inspect.signature(spec).parameters

        @wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> T:
            _check_names(function.__name__, given, parameters)
            return function(spec(*args, **given))

        described: Any = called
        returned = inspect.signature(function).return_annotation
        described.__signature__ = inspect.Signature(list(parameters.values()), return_annotation=returned)
        described.__doc__ = _with_parameters(function.__doc__ or "", cast(type[Any], spec))
        return called

    return taken


def _with_parameters(docstring: str, spec: type[Any]) -> str:
    """The docstring with the descriptions of the spec's fields, which its docstring and those of its bases have."""
    texts = [inspect.cleandoc(base.__doc__ or "").partition("----------\n")[2] for base in reversed(spec.__mro__)]
    described = "\n".join(["Parameters", "----------", *filter(None, texts)])
    words, raises, rest = inspect.cleandoc(docstring).partition("Raises\n")
    return "\n\n".join(filter(None, [words.strip(), described, raises + rest]))


def _check_names(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise TypeError(f"{owner} has no parameter {name!r}{suggestion(name, known)}")


class _Signature:
    """The signature of a class's constructor, which `Settings.__new__` would hide from `inspect.signature`."""

    def __get__(self, instance: object, owner: type[Any]) -> inspect.Signature | None:
        whole = inspect.signature(owner.__init__)
        return whole.replace(parameters=list(whole.parameters.values())[1:]) if instance is None else None


class Settings:
    """A dataclass whose fields are checked against their annotations when it is made."""

    __signature__ = _Signature()

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """A new object; a TypeError for an unknown keyword names the nearest setting."""
        _check_names(cls.__name__, given, getattr(cls, "__dataclass_fields__", given))
        return super().__new__(cls)

    def _repr_html_(self) -> str:
        return table(type(self).__name__, {field.name: getattr(self, field.name) for field in dataclasses.fields(self)})  # type: ignore[arg-type]  # a dataclass

    def __post_init__(self) -> None:
        """Check every field.

        Raises
        ------
        ValueError, TypeError
            A value that its annotation does not admit, or one that is not the default and has no effect; the message names the
            field.
        """
        for name, declared in _declared(type(self)).items():
            if declared.form is not None:
                object.__setattr__(self, name, declared.form.of(getattr(self, name)))
            else:
                object.__setattr__(self, name, _check(name, declared.kinds, getattr(self, name)))
        for name, why in self.idle().items():
            if getattr(self, name) != type(self).__dataclass_fields__[name].default:  # type: ignore[attr-defined]  # a dataclass
                raise ValueError(without_effect(name, why))

    def idle(self) -> dict[str, str]:
        """The settings that have no effect beside the others, and why."""
        return {}


def without_effect(name: str, why: str) -> str:
    """The message about a setting that was given and has no effect."""
    return f"{name} has no effect here, leave it out: {why}"


_NUMBERS_AND_TEXT: dict[Any, Any] = {int: Integral, float: Real, str: str | os.PathLike, bool: bool}
"""The classes of values that a field of a type takes; values of other types are not checked."""


class _Kind(NamedTuple):
    """An alternative of a type, with its bounds."""

    type: Any
    ranges: tuple[Range, ...]

    def holds(self, value: Any) -> bool:
        """True if the value is of this type; other types than numbers, text, choices and None are not looked at."""
        if self.type is type(None):
            return value is None
        if get_origin(self.type) is Literal:
            return isinstance(value, str | int) and value in get_args(self.type)
        allowed = _NUMBERS_AND_TEXT.get(self.type)
        return allowed is None or (isinstance(value, allowed) and isinstance(value, bool) == (self.type is bool))

    def admits(self, value: Any) -> bool:
        """True if the value is of this type and within its bounds."""
        return self.holds(value) and all(value in bound for bound in self.ranges)


class _Declared(NamedTuple):
    """The annotation of a field in its parts."""

    kinds: tuple[_Kind, ...]
    form: Form | None
    help: str


@cache
def _parts(hint: Any, ranges: tuple[Range, ...] = ()) -> _Declared:
    """The alternatives, the form and the description in an annotation."""
    if get_origin(hint) is Annotated:
        inner, *extra = get_args(hint)
        found = _parts(inner, (*ranges, *(one for one in extra if isinstance(one, Range))))
        form = next((one for one in extra if isinstance(one, Form)), found.form)
        return _Declared(found.kinds, form, next((one for one in extra if isinstance(one, str)), found.help))
    if get_origin(hint) in (Union, types.UnionType):
        parts = [_parts(one, ranges) for one in get_args(hint)]
        kinds = tuple(kind for part in parts for kind in part.kinds)
        return _Declared(kinds, next((part.form for part in parts if part.form), None), "".join(part.help for part in parts))
    return _Declared((_Kind(hint, ranges),), None, "")


_READ: dict[type[Any], Mapping[str, _Declared]] = {}


def _declared(entry: type[Any]) -> Mapping[str, _Declared]:
    """The parts of each field's annotation, read once."""
    if entry not in _READ:
        hints = get_type_hints(entry, include_extras=True)
        _READ[entry] = {field.name: _parts(hints[field.name]) for field in dataclasses.fields(entry) if field.init}
    return _READ[entry]


def check(name: str, hint: Any, value: Any) -> Any:
    """The value, which must be of the annotated type ``hint``, as a Python number if it is NumPy's.

    Raises
    ------
    ValueError, TypeError
        It is not; the message has ``name``.
    """
    return _check(name, _parts(hint).kinds, value)


def _plain(value: Any) -> Any:
    """The value, or the Python number that a NumPy scalar holds; arrays and tensors have a length."""
    return value.item() if hasattr(value, "item") and not hasattr(value, "__len__") else value


def _check(name: str, kinds: tuple[_Kind, ...], value: Any) -> Any:
    value = _plain(value)
    for kind in kinds:
        if kind.admits(value):
            return value
    if matching := [kind for kind in kinds if kind.holds(value)]:
        raise ValueError(f"{name} must be {matching[0].ranges[0]}, got {value}")
    choices = [str(word) for kind in kinds if get_origin(kind.type) is Literal for word in get_args(kind.type)]
    others = [words for kind in kinds if (words := _words(kind))]
    words = either([*others, *map(repr, choices)]) if others else f"one of {either(choices)}"
    refusal = ValueError if choices and isinstance(value, str) else TypeError
    raise refusal(f"{name} must be {words}, got {value!r:.80}{suggestion(str(value), choices)}")


def _words(kind: _Kind) -> str:
    """A type that is no choice of words, in words."""
    if kind.type is float and any(one.above == 0 for one in kind.ranges):
        return "a positive number"
    words = {int: "a whole number", float: "a number", str: "text", bool: "true or false", type(None): "None"}
    return "" if get_origin(kind.type) is Literal else words.get(kind.type, getattr(kind.type, "__name__", str(kind.type)))


def kinds(hint: Any) -> tuple[Any, ...]:
    """The alternatives of a type, without their bounds."""
    return tuple(kind.type for kind in _parts(hint).kinds)


def is_time(hint: Any) -> bool:
    """True for `Seconds`, also as one of several types."""
    return any(one is _TIME or is_time(one) for one in get_args(hint))


def either(words: Sequence[str]) -> str:
    """The words as alternatives: "a, b or c"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def settings(entry: type[Any]) -> dict[str, Setting]:
    """The fields of a dataclass that may be set, by name; a description in its docstring, or in one of a base, goes before that
    in the annotation."""
    hints = get_type_hints(entry, include_extras=True)
    texts: dict[str, str] = {}
    for base in reversed(entry.__mro__):
        texts |= parameters(base.__doc__ or "")
    found = {}
    for name, declared in _declared(entry).items():
        field = entry.__dataclass_fields__[name]
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        bounds = either([str(one) for kind in declared.kinds for one in kind.ranges])
        required = default is MISSING
        found[name] = Setting(hints[name], None if required else default, required, texts.get(name, declared.help), bounds)
    return found


def parameters(docstring: str) -> dict[str, str]:
    """The descriptions in a NumPy-style "Parameters" section, by name."""
    text = inspect.cleandoc(docstring) + "\n"
    section = re.search(r"^Parameters\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", text, re.MULTILINE | re.DOTALL)
    texts: dict[str, str] = {}
    for head, body in re.findall(r"^(\S[^\n]*)\n((?:[ \t]+[^\n]*\n|\n)*)", section.group(1) if section else "", re.MULTILINE):
        for name in head.split(":")[0].split(","):
            texts[name.strip()] = re.sub(r"`+", "", " ".join(body.split()))
    return texts
