"""The methods that are compared, by name with parameters:
``drfgt,drgta,drfgt:order=adapt-then-combine,penalty=10``.

A comma is followed by the next method, or by the next parameter of the same one, which has an
equals sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

from topologies.line import text
from topologies.line.flags import InputError
from topologies.line.text import specifications
from topologies.line.words import normal_name

from ... import registry
from ...api import conversions
from ...protocols import Declared, SplitFeatures


def has_step(algorithm: object) -> bool:
    """True where a method has a step size that can be set."""
    return Declared.of(algorithm).step_size is not None


def with_step(algorithm: Any, step: float) -> Any:
    """Return the method with another step size; a schedule gets another initial step."""
    made: object = step
    if is_dataclass(algorithm.step_size):
        made = replace(algorithm.step_size, initial=step)  # type: ignore[type-var]
    return replace(algorithm, step_size=made)


def methods(named: Any) -> dict[str, Any]:
    """Return the methods in ``named``, the algorithms argument of `compare`, by label.

    Raises InputError for an empty ``named``, for an unknown name or parameter, a wrong value, a
    repeated method, or a method that cannot be compared. TypeError for other objects than methods.
    """
    if isinstance(named, Sequence | Mapping) and not named:
        raise InputError("algorithms must name at least one method, as drfgt,drgta")
    if isinstance(named, Mapping):
        return _comparable({label: _method(one)[1] for label, one in named.items()})
    if isinstance(named, str) or not isinstance(named, Sequence):
        named = [named]
    if all(isinstance(one, str) for one in named):
        named = specifications(named)
    found = [_method(one) for one in named]
    labels = [label for label, _ in found]
    for label in labels:
        if labels.count(label) > 1:
            raise InputError(f"algorithms: {label} is named twice: give it other parameters")
    return _comparable(dict(found))


def called(algorithm: object) -> str:
    """The name of an algorithm with the settings that are not its defaults."""
    return text.shown(type(algorithm).__name__.lower(), algorithm)


def _comparable(found: dict[str, Any]) -> dict[str, object]:
    """The methods, after a check that they go in common iterations and that agents hold samples."""
    for label, algorithm in found.items():
        reason = ""
        if Declared.of(algorithm).counts != "iterations":
            reason = "has activations of single agents, not iterations: use decentorth run"
        elif SplitFeatures in Declared.of(algorithm).requires:
            reason = "is for features split over agents: use decentorth run --split features"
        if reason:
            raise InputError(f"algorithms: {label} {reason}")
    return found


def _method(given: object) -> tuple[str, object]:
    """The label and the method of a name with parameters, or of a method."""
    if not isinstance(given, str):
        method = conversions.method(given)
        return called(method), method
    word, colon, written = given.partition(":")
    try:
        algorithm = registry.algorithms.read(given)
    except ValueError as error:
        raise InputError(f"algorithms: {error}") from None
    return f"{normal_name(word)}{colon}{written}".removesuffix(":"), algorithm
