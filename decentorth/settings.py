"""Settings as fields of frozen dataclasses: their bounds and descriptions are declared once, in the
annotations of the fields.

    @dataclass(frozen=True)
    class Method(Settings):
        penalty: Positive | Literal["auto"] = "auto"
        rounds: Annotated[int, Range(least=1), "Exchanges with the neighbours in an iteration."] = 1

The same declarations check a value when the object is made, become flags and keys of files, and
stand in the help.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Annotated, Any, ClassVar, NoReturn, ParamSpec, Self, TypeVar, cast

from topologies.line.typed import (
    Form,
    Range,
    Seconds,
    Setting,
    check,
    declared,
    hint,
    read,
    settings,
)
from topologies.line.words import suggestion

from .display import table

__all__ = ["Form", "Range", "Seconds", "Setting", "check", "settings"]

Values = dict[str, Any]
"""Settings by name."""
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


Positive = Annotated[float, Range(above=0)]
NotNegative = Annotated[float, Range(least=0.0)]
Finite = Annotated[float, Range()]
Share = Annotated[float, Range(above=0, most=1)]
"""A share of something that is there."""
Probability = Annotated[float, Range(least=0, below=1)]
Natural = Annotated[int, Range(least=0)]
Count = Annotated[int, Range(least=1)]
Seed = Annotated[
    int, Range(least=0), "Seed of generated data, the start, random graphs and sampling."
]
Quiet = Annotated[bool, "Print only errors."]
Condition = Annotated[float, Range(least=1)]
"""The condition of a matrix."""


def missing(module: str, known: Iterable[str]) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a module, which raises an AttributeError that names the nearest of the
    known names."""

    def refuse(name: str) -> NoReturn:
        if name.startswith("__"):  # asked by Python's imports, which do not show the message
            raise AttributeError(name)
        near = suggestion(name, [one for one in known if not one.startswith("_")])
        raise AttributeError(f"module {module!r} has no attribute {name!r}{near}")

    return refuse


def taking(spec: Callable[P, S]) -> Callable[[Callable[[S], T]], Callable[P, T]]:
    """Make a function of ``spec(...)`` a function of the arguments of ``spec``, a `Settings` class.

    The new function has their names, types, defaults and descriptions; a TypeError names the
    nearest parameter of a wrong name.

        @taking(Arguments)
        def solve(arguments: Arguments) -> Result: ...

        solve(problem, method, W, seed=1)  # arguments is Arguments(problem, method, W, seed=1)
    """

    def taken(function: Callable[[S], T]) -> Callable[P, T]:
        signature = inspect.signature(spec)
        parameters = signature.parameters

        @wraps(function)
        def called(*args: P.args, **given: P.kwargs) -> T:
            _check_names(function.__name__, given, parameters)
            try:
                signature.bind(*args, **given)
            except TypeError as error:
                raise TypeError(f"{function.__name__}(): {error}") from None
            return function(spec(*args, **given))

        described: Any = called
        returned = inspect.signature(function).return_annotation
        described.__signature__ = signature.replace(return_annotation=returned)
        described.__doc__ = _with_parameters(function.__doc__ or "", cast(type[Any], spec))
        return called

    return taken


def _with_parameters(docstring: str, spec: type[Any]) -> str:
    """The docstring with the descriptions of the spec's fields, which its docstring and those of
    its bases have."""
    written = [inspect.cleandoc(base.__doc__ or "") for base in reversed(spec.__mro__)]
    texts = [text.partition("----------\n")[2] for text in written]
    described = "\n".join(["Parameters", "----------", *filter(None, texts)])
    words, raises, rest = inspect.cleandoc(docstring).partition("Raises\n")
    return "\n\n".join(filter(None, [words.strip(), described, raises + rest]))


def _check_names(owner: str, given: Iterable[str], known: Iterable[str]) -> None:
    for name in given:
        if name not in known:
            raise TypeError(f"{owner} has no parameter {name!r}{suggestion(name, known)}")


class _Signature:
    """The signature of a class's constructor, which `Settings.__new__` would hide from
    `inspect.signature`."""

    def __get__(self, instance: object, owner: type[Any]) -> inspect.Signature | None:
        if instance is not None:
            return None
        whole = inspect.signature(owner.__init__)
        return whole.replace(parameters=list(whole.parameters.values())[1:])


_MAKERS = "problem", "features", "in_blocks"
"""The methods of settings that make a problem for a number of agents and a seed."""


def _carrying(make: Callable[..., Any]) -> Callable[..., Any]:
    """The method, whose `Deferred` problem has the settings and the seed in ``given``."""

    @wraps(make)
    def made(self: Any, n_agents: int, seed: int) -> Any:
        problem = make(self, n_agents, seed)
        if not hasattr(problem, "given"):  # made at once, of a user's own settings
            return problem
        return problem._replace(given={**values(self), "type": type(self), "seed": seed})

    return made


class Settings:
    """A dataclass whose fields are checked against their annotations when it is made."""

    __signature__ = _Signature()
    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls) -> None:
        """Let the problems that settings make carry these settings, which ranks compare.

        Raises
        ------
        TypeError
            A field without default has the name of an attribute of a base, which would be its
            default.
        """
        super().__init_subclass__()
        for name, annotation in inspect.get_annotations(cls).items():
            bases = [base.__name__ for base in cls.__bases__ if hasattr(base, name)]
            if bases and name not in vars(cls) and "ClassVar" not in str(annotation):
                raise TypeError(
                    f"{name} is a name of {bases[0]} in decentorth, and {cls.__name__} gives it no "
                    "default: call the field otherwise, or give it a default"
                )
        for name in _MAKERS:
            if inspect.isfunction(make := vars(cls).get(name)):
                setattr(cls, name, _carrying(make))

    def __new__(cls, *args: object, **given: object) -> Self:
        """A new object; a TypeError for an unknown keyword names the nearest setting."""
        known = getattr(cls, "__dataclass_fields__", given)  # an incomplete class has none
        if not given.keys() <= known.keys():
            _check_names(cls.__name__, given, known)
        return super().__new__(cls)

    def _repr_html_(self) -> str:
        shown = {name: vars(self)[name] for name in declared(type(self))}
        return table(type(self).__name__, shown)

    def __post_init__(self) -> None:
        """Check every field.

        Raises
        ------
        ValueError, TypeError
            A value that its annotation does not admit, or one that is not the default and has no
            effect; the message names the field.
        """
        fields = declared(type(self))
        given = vars(self)
        name = ""
        try:
            for name, annotation in fields.items():
                if hint(annotation).form is None:
                    object.__setattr__(self, name, read(annotation, given[name]))
        except (ValueError, TypeError) as error:
            raise type(error)(f"{name} {error}") from None
        for name, annotation in fields.items():
            form = hint(annotation).form
            if form is not None:
                object.__setattr__(self, name, form(given[name]))
        for name, why in self.idle().items():
            if given[name] != type(self).__dataclass_fields__[name].default:
                raise ValueError(without_effect(name, why))

    def idle(self) -> dict[str, str]:
        """The settings that have no effect beside the others, and why."""
        return {}


def without_effect(name: str, why: str) -> str:
    """The message about a setting that was given and has no effect."""
    return f"{name} has no effect here, leave it out: {why}"


def values(entry: object) -> Values:
    """The settings in a dataclass as YAML can hold them."""
    found = {name: vars(entry)[name] for name in settings(type(entry))}
    for name, value in found.items():
        if type(value) is tuple:
            found[name] = list(value)
        elif dataclasses.is_dataclass(value):  # a schedule of steps
            found[name] = str(value)
    return found
