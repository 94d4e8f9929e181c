"""Products of sets whose points are stacked by rows into one array, ``(n_1 + n_2 + ..., p)``: CCA's St_{C11} x St_{C22}.

A product has the capabilities that all its parts have: its class is made of the mixins below whose protocol every part satisfies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np

from .. import protocols
from ..protocols import Array, Direction, MetricName, Retraction
from ..sums import norms
from .retractions import Polar

_Able: Any = object
"""The base for type checkers, which then accept a product wherever a set is required."""


class Product(_Able):  # type: ignore[misc]  # its base is known at run time only
    """The product first x second x ... of sets, with points stacked by rows.

    Parameters
    ----------
    *parts
        Two or more sets whose points have equally many columns, in the order of the rows.

    Raises
    ------
    ValueError
        For fewer than two parts, or points of different widths.
    TypeError
        For a part that is not a set of matrices.
    """

    parts: tuple[Any, ...]
    rows: tuple[slice, ...]
    """The rows of each part in a point."""
    shape: tuple[int, ...]

    def __new__(cls, *parts: Any) -> Self:
        _check(parts)
        abilities = tuple([ability for need, ability in _ABILITIES if all(isinstance(part, need) for part in parts)])
        made: Self = super().__new__(_product_class(abilities))
        return made

    def __init__(self, *parts: Any) -> None:
        self.parts = parts
        bounds = [0, *accumulate([part.shape[0] for part in parts])]
        self.rows = tuple([slice(a, b) for a, b in pairwise(bounds)])
        self.shape = (bounds[-1], parts[0].shape[1])

    def __repr__(self) -> str:
        return " x ".join(map(repr, self.parts))

    def split(self, x: Array) -> list[Array]:
        """Each part's rows of a stacked point, as views."""
        return [x[..., rows, :] for rows in self.rows]

    def feasibility(self, x: Array) -> Array:
        """The root of the sum of the parts' squares, ``(n_local,)``."""
        return norms(self._numbers(lambda part, x: part.feasibility(x), x))

    def random(self, rng: np.random.Generator) -> Array:
        """A random point of each part, stacked to ``shape``."""
        return np.concatenate([part.random(rng) for part in self.parts])

    def _numbers(self, function: Callable[..., Array], *arrays: Array | None) -> Array:
        """A number of each part and agent, ``(n_local, parts)``."""
        return np.stack([function(part, *own) for part, own in self._with(arrays)], axis=-1)

    def _points(self, function: Callable[..., Array], x: Array, *arrays: Array | None) -> Array:
        """An array like x from the function of each part and its rows of the arrays."""
        out = np.empty_like(x)
        for rows, (part, own) in zip(self.rows, self._with((x, *arrays)), strict=True):
            out[:, rows] = function(part, *own)
        return out

    def _pairs(self, function: Callable[..., tuple[Array, Array]], x: Array, *arrays: Array | None) -> tuple[Array, Array]:
        """Two arrays like x, from a function that returns two for each part."""
        first, second = np.empty_like(x), np.empty_like(x)
        for rows, (part, own) in zip(self.rows, self._with((x, *arrays)), strict=True):
            first[:, rows], second[:, rows] = function(part, *own)
        return first, second

    def _with(self, arrays: Sequence[Array | None]) -> list[tuple[Any, list[Array | None]]]:
        """Each part with its rows of the arrays."""
        return [
            (part, [None if array is None else array[:, rows] for array in arrays])
            for part, rows in zip(self.parts, self.rows, strict=True)
        ]


class _Projection(Product):
    def project(self, y: Array, *method: Polar) -> Array:
        """Each part's nearest point, by the given method or the part's default."""
        return self._points(lambda part, y: part.project(y, *method), y)

    def distance(self, x: Array) -> Array:
        """The root of the sum of the parts' squares, ``(n_local,)``."""
        return norms(self._numbers(lambda part, x: part.distance(x), x))


class _Riemannian(Product):
    def tangent(self, x: Array, g: Array) -> Array:
        """Each part's Riemannian gradient."""
        return self._points(lambda part, x, g: part.tangent(x, g), x, g)


class _Retractable(Product):
    def retract(self, x: Array, v: Array, retraction: Retraction = "polar") -> Array:
        """Each part's retraction."""
        return self._points(lambda part, x, v: part.retract(x, v, retraction), x, v)


class _Landing(Product):
    def relative_gradient(self, x: Array, g: Array) -> Array:
        """Each part's objective term of the landing field."""
        return self._points(lambda part, x, g: part.relative_gradient(x, g), x, g)

    def landing(self, x: Array, g: Array, penalty: Array) -> Array:
        """Each part's landing field."""
        return self._points(lambda part, x, g: part.landing(x, g, penalty), x, g)

    def safe_step(self, x: Array, direction: Array, penalty: Array, eps: float) -> Array:
        """The least of the parts' safe steps, ``(n_local,)``, with the remaining slack divided equally among the parts.

        The squares of the parts' own eps add up to eps^2.
        """
        return self._safe_step(penalty, eps, x, direction)

    def _safe_step(self, penalty: Array, eps: float, x: Array, direction: Array, *bx: Array | None) -> Array:
        own = self._numbers(lambda part, *own: part.feasibility(*own), x, *bx)
        room = np.maximum(eps * eps - (own * own).sum(-1), 0.0) / len(self.parts)
        shares = iter(np.sqrt(own * own + room[:, None]).T)
        steps = self._numbers(
            lambda part, x, direction, *bx: part.safe_step(x, direction, penalty, next(shares), *bx), x, direction, *bx
        )
        least: Array = steps.min(-1)
        return least

    def multiplier_norm(self, x: Array, g: Array) -> Array:
        """The largest of the parts' norms, ``(n_local,)``."""
        largest: Array = self._numbers(lambda part, x, g: part.multiplier_norm(x, g), x, g).max(-1)
        return largest


class _Products(Product):
    def product(self, x: Array) -> Array:
        """Each part's B x."""
        return self._points(lambda part, x: part.product(x), x)


class _ByProducts(_Products, _Riemannian):
    @property
    def solvable(self) -> bool:
        """True if every part is solvable."""
        return all(part.solvable for part in self.parts)

    @property
    def largest(self) -> float:
        """The largest of the parts' values."""
        return max([float(part.largest) for part in self.parts])

    def solve(self, g: Array) -> Array:
        """Each part's B^{-1} g."""
        return self._points(lambda part, g: part.solve(g), g)

    def tangent(self, x: Array, g: Array, bx: Array | None = None) -> Array:
        """Each part's Riemannian gradient."""
        return self._points(lambda part, x, g, bx: part.tangent(x, g, bx), x, g, bx)

    def natural_gradient(self, x: Array, g: Array, bx: Array | None = None) -> tuple[Array, Array]:
        """Each part's natural gradient z, and B z."""
        return self._pairs(lambda part, x, g, bx: part.natural_gradient(x, g, bx), x, g, bx)

    def retract_with(self, y: Array, by: Array, retraction: Retraction = "polar") -> tuple[Array, Array]:
        """Each part's retraction of y, and its product with B."""
        return self._pairs(lambda part, y, by: part.retract_with(y, by, retraction), y, by)


class _TrackedProducts(_ByProducts):
    def feasibility(self, x: Array, bx: Array | None = None) -> Array:
        """The value as for any product."""
        return norms(self._numbers(lambda part, x, bx: part.feasibility(x, bx), x, bx))

    def dissolve_with(self, x: Array, bx: Array) -> Array:
        """Each part's A(x)."""
        return self._points(lambda part, x, bx: part.dissolve_with(x, bx), x, bx)

    def dissolved_with(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """Each part's gradient of the dissolved objective."""
        return self._points(lambda part, x, g, bx: part.dissolved_with(x, g, bx, penalty), x, g, bx)

    def landing_image(self, x: Array, g: Array, bx: Array, penalty: Array) -> Array:
        """Each part's landing field, times its B."""
        return self._points(lambda part, x, g, bx: part.landing_image(x, g, bx, penalty), x, g, bx)


class _ProductLanding(_Products, _Landing):
    def landing_scale(self) -> float:
        """The largest of the parts' values."""
        return max([float(part.landing_scale()) for part in self.parts])

    def relative_gradient(self, x: Array, g: Array, direction: Direction = "psi-b", bx: Array | None = None) -> Array:
        """Each part's Psi."""
        return self._points(lambda part, x, g, bx: part.relative_gradient(x, g, direction, bx), x, g, bx)

    def landing(self, x: Array, g: Array, penalty: Array, direction: Direction = "psi-b", bx: Array | None = None) -> Array:
        """Each part's landing field."""
        return self._points(lambda part, x, g, bx: part.landing(x, g, penalty, direction, bx), x, g, bx)

    def landing_from_products(self, x: Array, g: Array, bx: Array, bx2: Array, penalty: Array) -> Array:
        """Each part's field psi-b from products."""
        return self._points(lambda part, x, g, bx, bx2: part.landing_from_products(x, g, bx, bx2, penalty), x, g, bx, bx2)

    def safe_step(self, x: Array, direction: Array, penalty: Array, eps: float, bx: Array | None = None) -> Array:
        """The value as for any product."""
        return self._safe_step(penalty, eps, x, direction, bx)

    def multiplier_norm(self, x: Array, g: Array, metric: MetricName = "euclidean") -> Array:
        """The largest of the parts' norms, ``(n_local,)``."""
        largest: Array = self._numbers(lambda part, x, g: part.multiplier_norm(x, g, metric), x, g).max(-1)
        return largest


class _AugmentedLagrangian(_Products):
    def augmented_gradient(self, x: Array, g: Array, penalty: Array, bx: Array | None = None) -> Array:
        """Each part's gradient of the augmented Lagrangian."""
        return self._points(lambda part, x, g, bx: part.augmented_gradient(x, g, penalty, bx), x, g, bx)

    def column_tangent(self, x: Array, field: Array, bx: Array | None = None) -> Array:
        """Each part's component of the field that keeps the norms of its columns."""
        return self._points(lambda part, x, field, bx: part.column_tangent(x, field, bx), x, field, bx)

    def normalized(self, y: Array) -> tuple[Array, Array]:
        """Each part's columns normalised, and their product with B."""
        return self._pairs(lambda part, y: part.normalized(y), y)


class _WithMatrices(Product):
    def with_matrices(self, matrices: Array) -> Product:
        """The product with other B: ``(n_local, n_1 + n_2 + ..., w)``, stacked by rows and padded with zeros to the largest n_i."""
        other: Product = object.__new__(type(self))  # the capabilities are the same: checking them would compute eigenvalues
        Product.__init__(
            other,
            *[part.with_matrices(matrices[:, rows, : part.shape[0]]) for part, rows in zip(self.parts, self.rows, strict=True)],
        )
        return other


_ABILITIES: tuple[tuple[Any, type[Product]], ...] = (
    (protocols.WithMatrices, _WithMatrices),
    (protocols.AugmentedLagrangian, _AugmentedLagrangian),
    (protocols.ProductLanding, _ProductLanding),
    (protocols.TrackedProducts, _TrackedProducts),
    (protocols.ByProducts, _ByProducts),
    (protocols.Landing, _Landing),
    (protocols.Retractable, _Retractable),
    (protocols.Riemannian, _Riemannian),
    (protocols.Projection, _Projection),
)
"""The capabilities and their mixins, for products whose parts all have the capability; a derived mixin precedes its base."""


@cache
def _product_class(abilities: tuple[type[Product], ...]) -> Any:
    """The class of products with these capabilities, one for each set of them."""
    return type("Product", (*abilities, Product), {"__module__": __name__})


def _check(parts: Sequence[Any]) -> None:
    if len(parts) < 2:
        raise ValueError(f"a product needs at least two sets, got {len(parts)}")
    for part in parts:
        if not isinstance(part, protocols.ConstraintSet):
            raise TypeError(f"the parts of a product must be constraint sets, got {type(part).__name__}")
        if len(part.shape) != 2:
            raise TypeError(f"the parts of a product must be sets of matrices, got {part!r} with points of shape {part.shape}")
    widths = [part.shape[1] for part in parts]
    if len(set(widths)) > 1:
        raise ValueError(f"the points of a product's parts must have equally many columns, got {', '.join(map(str, widths))}")
