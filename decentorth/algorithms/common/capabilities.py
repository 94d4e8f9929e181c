"""Questions about a problem or a set that a step asks in every iteration."""

from __future__ import annotations

from typing import Protocol, TypeGuard, TypeVar, runtime_checkable

from ...protocols import Array, Retraction, Two

_T = TypeVar("_T")
_known: dict[tuple[type, frozenset[str], type], bool] = {}


def can(thing: object, capability: type[_T]) -> TypeGuard[_T]:
    """``isinstance``, remembered for the class of ``thing``: for protocols it would take longer than a small product.

    Products of sets and spread problems of one class have different methods, whose names they have in ``offered``.
    """
    offered: frozenset[str] = getattr(thing, "offered", frozenset())
    key = type(thing), offered, capability
    if key not in _known:
        _known[key] = isinstance(thing, capability)
    return _known[key]


@runtime_checkable
class Carries(Protocol):
    """A set whose retraction can take another array along."""

    def retract_both(self, y: Array, other: Array, retraction: Retraction = "polar") -> Two | None:
        """The products y S and ``other`` S, with the S of order r that brings y to the set; None where that is not accurate."""


@runtime_checkable
class Splits(Protocol):
    """A product of sets."""

    def split(self, x: Array) -> list[Array]:
        """The factors of a point."""
