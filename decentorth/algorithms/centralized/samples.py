"""Samples of a single agent's constraint: independent mini-batches, and passes over all samples
with a running mean of B.

They serve methods on {x : x^T B x = I} whose B is a mean over samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeVar, cast

import numpy as np

from ...protocols import (
    Array,
    Index,
    Problem,
    Sampled,
    SampledMatrices,
    SampledProducts,
    Streams,
    WithMatrices,
)
from ..common.method import Measuring

C = TypeVar("C")
_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
Covariance = Literal["exact", "sampled", "rolling"]
"""The source of the constraint's B: the set itself; two independent batches an iteration; the mean
of all samples seen."""
_SAMPLES = {"exact": Sampled, "sampled": SampledProducts, "rolling": SampledMatrices}


class Field(NamedTuple):
    """A field at a point, the products of B with the point and with the field where they are used,
    and the running mean of B."""

    field: Array
    product: Array
    image: Array
    matrices: Array


@dataclass(frozen=True, kw_only=True)
class OnMatrices(Measuring):
    """A single agent's method on {x : x^T B x = I}, whose gradients and B may come from samples."""

    set_needs: ClassVar[tuple[type, ...]]
    """The capabilities that a set must have with the exact B."""

    covariance: Covariance = "exact"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.covariance != "exact" and self.batch_size is None:
            raise ValueError(f"covariance {self.covariance!r} takes samples: give a batch_size")

    @property
    def requires(self) -> tuple[type, ...]:
        """The capabilities that a problem must have for its samples."""
        if self.batch_size is None:
            return ()
        return (_SAMPLES[self.covariance],)

    @property
    def requires_set(self) -> tuple[type, ...]:
        """The capabilities that a set must have: `WithMatrices` for a running mean of B."""
        return (*self.set_needs, WithMatrices) if self.covariance == "rolling" else self.set_needs

    def drawn(
        self, problem: Problem[C], streams: Streams, k: int, x: Array, mean: Array
    ) -> tuple[C, Array, Array]:
        """The set and the gradient of iteration ``k``, exact or from samples, and the running mean
        of B, which makes the set."""
        if self.batch_size is None:
            return problem.constraint, problem.gradient(x), mean
        if self.covariance != "rolling":
            samples = cast(Sampled, problem)
            (batch,) = draws(samples, streams, k, self.batch_size, 1)
            return problem.constraint, samples.gradient_on(x, batch), mean
        means = cast(SampledMatrices, problem)
        batch = passing(streams, k, self.batch_size, int(means.n_samples[0]))
        mean = rolled(means, k, batch, self.batch_size, mean)
        constraint: C = cast(WithMatrices, problem.constraint).with_matrices(mean)
        return constraint, means.gradient_on(x, batch), mean


def draws(problem: Sampled, streams: Streams, k: int, batch_size: int, number: int) -> list[Index]:
    """The ``number`` independent batches of iteration ``k``, each ``(n_local, batch_size)``, drawn
    with replacement."""
    drawn = streams.integers("batch", k, number * batch_size, problem.n_samples)
    return [np.ascontiguousarray(batch) for batch in np.split(drawn, number, axis=1)]


def passing(streams: Streams, k: int, batch_size: int, n_samples: int) -> Index:
    """The batch ``(1, b)`` of iteration ``k`` in passes over all samples, with b = ``batch_size``
    or the rest of a pass.

    The order of a pass is position -> (a position + c) mod n_samples. The offset c is drawn for
    each pass. The factor a is the first number from the golden section of n_samples on that is
    coprime to n_samples. So every batch is spread evenly over the samples, however they are sorted.
    """
    epoch, number = divmod(k, -(-n_samples // batch_size))
    a = int(_GOLDEN * n_samples)
    c = int(streams.integers("batch", epoch, 1, n_samples)[0, 0])
    while math.gcd(a, n_samples) > 1:
        a += 1
    first = number * batch_size
    positions = np.arange(first, min(first + batch_size, n_samples), dtype=np.int64)
    return ((a * positions + c) % n_samples)[None]


def nothing_seen(n_local: int) -> Array:
    """An empty array ``(n_local, 0, 0)`` in place of a running mean."""
    return np.zeros((n_local, 0, 0))


def rolled(problem: SampledMatrices, k: int, batch: Index, batch_size: int, mean: Array) -> Array:
    """The mean of B over the samples seen up to iteration ``k``, whose batch is ``batch``; after
    one pass it is B, and constant.

    ``mean`` is that at iteration ``k - 1``; `nothing_seen` before the first.
    """
    seen = k * batch_size
    if seen >= int(problem.n_samples[0]):
        return mean
    new = problem.matrices_on(batch)
    if k > 0:
        new -= mean
        new *= batch.shape[1] / (seen + batch.shape[1])
        new += mean
    return new
