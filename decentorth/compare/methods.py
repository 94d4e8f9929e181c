"""The methods that are compared, by name with parameters: ``drfgt,drgta,drfgt:order=adapt-then-combine,penalty=10``.

A comma is followed by the next method, or by the next parameter of the same one, which has an equals sign. What follows a step
policy and is no setting of the method belongs to the policy: ``drsgd:step_size=diminishing:initial=0.5,power=1,batch_size=4``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from itertools import groupby
from typing import Any

from topologies import text

from .. import registry
from ..cli.flags import InputError, read_value, specifications
from ..settings import settings


@dataclass(frozen=True)
class Method:
    """A method with its settings, and what it is called."""

    label: str
    algorithm: Any


def has_step(algorithm: Any) -> bool:
    """True where a method has a step size that can be set."""
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
    word, _, written = specification.partition(":")
    name, where = text.normal_name(word), f"algorithms: {specification!r}"
    try:
        entry = registry.algorithms.get(name)
    except ValueError as error:
        raise InputError(f"algorithms: {error}") from None
    own = settings(entry)
    try:
        given = text.parameters(where, name, own, written)
        read = {key: read_value(key, own[key].hint, value) for key, value in given.items()}
    except (ValueError, TypeError) as error:
        raise InputError(str(error) if str(error).startswith(where) else f"{where}: {error}") from None
    try:
        return Method(_label(name, given), text.built(where, name, entry, read))
    except ValueError as error:
        raise InputError(str(error)) from None
