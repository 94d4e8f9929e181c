"""Products of sets whose points are stacked by rows into one array, ``(n_1 + n_2 + ..., p)``: CCA's St_{C11} x St_{C22}.

A product has the methods in `METHODS` that all its parts have: each calls the parts' methods with their own rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Self

import numpy as np

from ..numerics.ordered_sums import norms
from ..protocols import Array, ConstraintSet
from .safe_steps import safe_step

_Able: Any = object
"""The base for type checkers, which then accept a product wherever a set is required."""


def with_methods(base: Any, name: str, methods: Mapping[str, Any], parts: Sequence[Any]) -> Any:
    """A subclass of ``base`` with those of the methods (and properties) whose names all ``parts`` have."""
    common = {key: method for key, method in methods.items() if all(hasattr(type(one), key) or key in vars(one) for one in parts)}
    return type(name, (base,), {"__module__": base.__module__, "__doc__": base.__doc__, **common})


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
        cls._check(parts)
        made: Self = super().__new__(with_methods(cls, cls.__name__, METHODS, parts))
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

    @staticmethod
    def _check(parts: Sequence[Any]) -> None:
        """Raise a ValueError or TypeError unless there is a product of the parts."""
        if len(parts) < 2:
            raise ValueError(f"a product needs at least two sets, got {len(parts)}")
        _check(parts)
        widths = [part.shape[1] for part in parts]
        if len(set(widths)) > 1:
            raise ValueError(
                f"the points of a product's parts must have equally many columns, got {', '.join(map(str, widths))}: "
                "sets.Flat joins matrices of any shapes"
            )

    def _own(self, x: Array, number: int) -> Array:
        """The part's points in the agents' points, ``(n_local, ...)``, as views."""
        return x[:, self.rows[number]]

    def feasibility(self, x: Array, *given: Array, **named: Array) -> Array:
        """The root of the sum of the parts' squares, ``(n_local,)``."""
        return norms(self._numbers("feasibility", x, *given, **named))

    def random(self, rng: np.random.Generator) -> Array:
        """A random point of each part, stacked to ``shape``."""
        return np.concatenate([part.random(rng) for part in self.parts])

    def _each(self, name: str, *given: Any, **named: Any) -> Iterator[tuple[slice, Any]]:
        """The rows of each part and the result of its method for these rows of all stacked points among the arguments."""
        for number, (part, rows) in enumerate(zip(self.parts, self.rows, strict=True)):

            def own(argument: Any, number: int = number) -> Any:
                return self._own(argument, number) if isinstance(argument, np.ndarray) and argument.ndim == 3 else argument

            yield rows, getattr(part, name)(*map(own, given), **{key: own(one) for key, one in named.items()})

    def _numbers(self, name: str, *given: Any, **named: Any) -> Array:
        """A number of each part and agent, ``(n_local, parts)``."""
        return np.stack([found for _, found in self._each(name, *given, **named)], axis=-1)


class Flat(Product):
    """The product of sets of matrices of any widths, with points of one column: the entries of all parts, one after the other.

    Parameters
    ----------
    *parts
        One or more sets, in the order of the entries.

    Raises
    ------
    ValueError
        Without any part.
    TypeError
        For a part that is not a set of matrices.
    """

    def __init__(self, *parts: Any) -> None:
        self.parts = parts
        bounds = [0, *accumulate([part.shape[0] * part.shape[1] for part in parts])]
        self.rows = tuple([slice(a, b) for a, b in pairwise(bounds)])
        self.shape = (bounds[-1], 1)

    @staticmethod
    def _check(parts: Sequence[Any]) -> None:
        _check(parts)

    def split(self, x: Array) -> list[Array]:
        """Each part's matrix in a point, as views."""
        return [x[..., rows, :].reshape(*x.shape[:-2], *part.shape) for part, rows in zip(self.parts, self.rows, strict=True)]

    def _own(self, x: Array, number: int) -> Array:
        return x[:, self.rows[number]].reshape(len(x), *self.parts[number].shape)

    def random(self, rng: np.random.Generator) -> Array:
        """A random point of each part, one after the other."""
        return np.concatenate([part.random(rng).reshape(-1, 1) for part in self.parts])


def _check(parts: Sequence[Any]) -> None:
    if not parts:
        raise ValueError("a product of flattened parts needs at least one set, got 0")
    for part in parts:
        if not isinstance(part, ConstraintSet):
            raise TypeError(f"the parts of a product must be constraint sets, got {type(part).__name__}")
        if len(part.shape) != 2:
            raise TypeError(f"the parts of a product must be sets of matrices, got {part!r} with points of shape {part.shape}")


def _points(name: str) -> Callable[..., Array]:
    """The method of a product that puts each part's points or fields into one array like the first argument."""

    def points(self: Product, x: Array, *given: Any, **named: Any) -> Array:
        out = np.empty_like(x)
        for rows, found in self._each(name, x, *given, **named):
            out[:, rows] = found.reshape(len(x), rows.stop - rows.start, -1)
        return out

    return points


def _pairs(name: str) -> Callable[..., tuple[Array, Array]]:
    """The method like that of `_points` with two results."""

    def pairs(self: Product, x: Array, *given: Any, **named: Any) -> tuple[Array, Array]:
        first, second = np.empty_like(x), np.empty_like(x)
        for rows, found in self._each(name, x, *given, **named):
            first[:, rows], second[:, rows] = (one.reshape(len(x), rows.stop - rows.start, -1) for one in found)
        return first, second

    return pairs


def _safe_step(self: Product, x: Array, direction: Array, penalty: Array, eps: float, *products: Array) -> Array:
    """The largest safe step ``(n_local,)`` where all parts have `gap_squares`, and else the least of the parts' safe steps.

    For these the remaining slack is divided equally among the parts: the squares of the parts' own eps add up to eps^2.
    """
    if hasattr(self, "gap_squares"):
        return safe_step(self, x, direction, penalty, eps, *products)
    own = self._numbers("feasibility", x)
    room = np.maximum(eps * eps - (own * own).sum(-1), 0.0) / len(self.parts)
    shares = np.sqrt(own * own + room[:, None]).T
    steps = [
        part.safe_step(self._own(x, k), self._own(direction, k), penalty, share)
        for k, (part, share) in enumerate(zip(self.parts, shares, strict=True))
    ]
    least: Array = np.stack(steps, axis=-1).min(-1)
    return least


def _with_matrices(self: Product, matrices: Array) -> Product:
    """The product with other B: ``(n_local, n_1 + n_2 + ..., w)``, stacked by rows and padded with zeros to the largest n_i."""
    other: Product = object.__new__(type(self))  # the capabilities are the same: checking them would compute eigenvalues
    parts = zip(self.parts, self.rows, strict=True)
    Product.__init__(other, *[part.with_matrices(matrices[:, rows, : part.shape[0]]) for part, rows in parts])
    return other


METHODS: Mapping[str, Any] = {
    **{name: _points(name) for name in ("project", "tangent", "retract", "product", "solve")},
    **{name: _points(name) for name in ("relative_gradient", "landing", "landing_from_products")},
    **{name: _points(name) for name in ("dissolve_with", "dissolved_with", "landing_image")},
    **{name: _points(name) for name in ("augmented_gradient", "column_tangent")},
    **{name: _points(name) for name in ("penalised", "dissolve", "dissolved")},
    **{name: _pairs(name) for name in ("natural_gradient", "natural_projection", "natural_landing", "retract_with", "normalized")},
    "distance": lambda self, x: norms(self._numbers("distance", x)),
    "multiplier_norm": lambda self, *given, **named: self._numbers("multiplier_norm", *given, **named).max(-1),
    "safe_step": _safe_step,
    "gap_squares": lambda self, *given: self._numbers("gap_squares", *given).sum(-1),
    "largest": property(lambda self: max([float(part.largest) for part in self.parts])),
    "landing_scale": lambda self: max([float(part.landing_scale()) for part in self.parts]),
    "solvable": property(lambda self: all(part.solvable for part in self.parts)),
    "with_matrices": _with_matrices,
}
"""The methods of products: points are stacked, the norm of distances, the largest norms and the least safe steps are taken."""
