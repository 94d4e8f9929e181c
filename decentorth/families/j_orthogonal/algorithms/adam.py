"""Adam on the unconstrained rows of a point, beside a method that moves the constrained rows.

Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, Algorithm 1. Paper 001 moves
entities and biases by Adam, whichever method moves the relations. With G the gradient in the free
rows, entry by entry, and k counted from 1,

    m <- beta_1 m + (1 - beta_1) G,   s <- beta_2 s + (1 - beta_2) G^2
    x <- x - rate (m / (1 - beta_1^k)) / (sqrt(s / (1 - beta_2^k)) + eps)

    m, s   moments        rate   learning_rate        beta_1, beta_2, eps   0.9, 0.999, 1e-8, as published
"""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from decentorth.protocols import Array, Signatures
from decentorth.settings import Positive

BETAS = (0.9, 0.999)
EPS = 1e-8
LearningRate = Annotated[Positive, "Adam's, of rows that the constraint leaves free."]
LEARNING_RATE = 0.03
"""The default learning rate."""


class AdamMoments(NamedTuple):
    """The moments m and s, each ``(1, free, n)``; empty if no row is free."""

    mean: Array
    square: Array


def free_rows(constraint: Signatures) -> slice:
    """The free rows of a point: those below the matrices of a `Signatures`."""
    return slice(constraint.copies * len(constraint.each.signs), None)


def begin(constraint: Signatures, x0: Array) -> AdamMoments:
    """The moments at the start."""
    mean = np.zeros_like(x0[:, free_rows(constraint)])
    return AdamMoments(mean, mean.copy())


def descend(
    constraint: Signatures, x: Array, g: Array, moments: AdamMoments, k: int, rate: float
) -> None:
    """Make the Adam step of iteration ``k`` = 0, 1, ...; changes x and the moments in place."""
    mean, square = moments
    if not mean.size:
        return
    rows, (first, second) = free_rows(constraint), BETAS
    g = g[:, rows]
    mean *= first
    mean += (1.0 - first) * g
    square *= second
    square += (1.0 - second) * (g * g)
    root = np.sqrt(square / (1.0 - second ** (k + 1)))
    root += EPS
    x[:, rows] -= (rate / (1.0 - first ** (k + 1))) * mean / root
