"""A value that is computed once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Generic, TypeVar

T = TypeVar("T")


class ComputedOnce(Generic[T]):
    """A function without arguments that computes its value at the first call.

    Unlike `functools.cache` it can be copied to the processes of joblib.
    """

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute = compute

    def __call__(self) -> T:
        return self._value

    @cached_property
    def _value(self) -> T:
        return self._compute()
