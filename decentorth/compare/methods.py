"""The methods that are compared, by name with parameters: ``drfgt,drgta,drfgt:order=adapt-then-combine,penalty=10``.

A comma is followed by the next method, or by the next parameter of the same one, which has an equals sign. What follows a step
policy and is no setting of the method belongs to the policy: ``drsgd:step_size=diminishing:initial=0.5,power=1,batch_size=4``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import groupby
from typing import Any

from .. import registry
from ..cli.flags import InputError, read_value, settings, specifications, unknown


@dataclass(frozen=True)
class Method:
    """A method with its settings, and what it is called."""

    label: str
    algorithm: Any


def has_step(algorithm: Any) -> bool:
    """Whether a method has a step size that can be set."""
    return "step_size" in settings(type(algorithm))


def with_step(algorithm: Any, step: float) -> Any:
    """The method with another step size; of a policy, where it starts."""
    given = algorithm.step_size
    return replace(algorithm, step_size=replace(given, initial=step) if is_dataclass(given) else step)  # type: ignore[type-var]


def methods(named: str | Sequence[Any] | Mapping[str, Any]) -> tuple[Method, ...]:
    """The methods that are named.

    Parameters
    ----------
    named
        Names with parameters, as text or a list; algorithms; or algorithms by what they are to be called.

    Raises
    ------
    InputError
        None, an unknown name or parameter, a value that does not fit, or two alike.
    """
    if isinstance(named, Mapping):
        found = [Method(label, algorithm) for label, algorithm in named.items()]
    else:
        found = []
        for text, group in groupby([named] if isinstance(named, str) else named, lambda one: isinstance(one, str)):
            words = list(group)
            if text:
                found += [_method(one) for one in specifications(words)]
            else:
                found += [Method(called(one), one) for one in words]
    if not found:
        raise InputError("algorithms must name at least one method, as --algorithms drfgt,drgta")
    labels = [method.label for method in found]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"algorithms: {label} is named twice; give one of them other parameters")
    return tuple(found)


def called(algorithm: Any) -> str:
    """An algorithm by its name and the settings that are not its defaults."""
    own = settings(type(algorithm))
    given = {name: getattr(algorithm, name) for name in own if getattr(algorithm, name) != own[name].default}
    return _label(type(algorithm).__name__.lower(), given)


def _label(name: str, given: Mapping[str, Any]) -> str:
    return f"{name}:{','.join(f'{key}={value}' for key, value in given.items())}" if given else name


def _method(specification: str) -> Method:
    written, colon, text = specification.partition(":")
    name = written.lower().replace("-", "_")
    try:
        entry = registry.algorithms.get(name)
    except ValueError as error:
        raise InputError(f"algorithms: {error}") from None
    own, last = settings(entry), ""
    given: dict[str, str] = {}
    for piece in text.split(",") if colon else ():
        key, equals, value = piece.partition("=")
        key = key.replace("-", "_")
        if key not in own and ":" in given.get(last, ""):
            given[last] += f",{piece}"
        elif key not in own or not equals:
            raise unknown(f"algorithms: {name} has no setting {piece!r} (there are {', '.join(own)})", key, own, "")
        elif key in given:
            raise InputError(f"algorithms: {name}: {key} is given twice")
        else:
            given[key], last = value, key
    for key, setting in own.items():
        if setting.required and key not in given:
            raise InputError(f"algorithms: {name} needs {key}, as {name}:{key}=...")
    read = {}
    for key, value in given.items():
        try:
            read[key] = read_value(own[key].hint, value)
        except ValueError as error:
            raise InputError(f"algorithms: {name}: {key}: {error}") from None
    try:
        return Method(_label(name, given), entry(**read))
    except (ValueError, TypeError) as error:
        raise InputError(f"algorithms: {name}: {error}") from None
