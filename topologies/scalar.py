"""Functions of one positive variable: their least value, and where they cross zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[[float], float]

_GOLDEN = (np.sqrt(5) - 1) / 2
_RELATIVE = 1e-10


def minimise(function: Function, lower: float, upper: float) -> tuple[float, float]:
    """The minimiser on [lower, upper] of a unimodal ``function``, which may have kinks, and its value: golden section."""
    inner, outer = upper - _GOLDEN * (upper - lower), lower + _GOLDEN * (upper - lower)
    at_inner, at_outer = function(inner), function(outer)
    while upper - lower > _RELATIVE * upper:
        if at_inner <= at_outer:
            upper, outer, at_outer = outer, inner, at_inner
            inner = upper - _GOLDEN * (upper - lower)
            at_inner = function(inner)
        else:
            lower, inner, at_inner = inner, outer, at_outer
            outer = lower + _GOLDEN * (upper - lower)
            at_outer = function(outer)
    return (float(inner), at_inner) if at_inner <= at_outer else (float(outer), at_outer)


def first_crossing(function: Function, negative: float, positive: float) -> float:
    """The argument between the two given ones at which ``function`` ceases to be negative: bisection."""
    while positive - negative > _RELATIVE * positive:
        middle = (negative + positive) / 2
        if function(middle) < 0:
            negative = middle
        else:
            positive = middle
    return float(positive)
