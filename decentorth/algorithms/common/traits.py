"""Questions about a problem or a set that a step asks in every iteration."""

from __future__ import annotations

from typing import Protocol, TypeGuard, TypeVar, runtime_checkable

from ...protocols import Array, Retraction, Two

_T = TypeVar("_T")
_known: dict[tuple[type, frozenset[str], type], bool] = {}


def can(thing: object, capability: type[_T]) -> TypeGuard[_T]:
    """Return ``isinstance(thing, capability)``, cached by the class of ``thing``.

    Without the cache, checking a protocol takes longer than a small matrix product. Products of
    sets and spread problems of one class differ in their methods; ``offered`` holds the names of
    these methods.
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
        """Return y S and ``other`` S, where S, of order r, retracts y to the set.

        Returns None if the result would not be accurate.
        """
