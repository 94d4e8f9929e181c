"""Products of sets whose points are stacked by rows into one array, ``(n_1 + n_2 + ..., p)``: CCA's
St_{C11} x St_{C22}.

A product offers the methods that all its parts have: each calls the parts' methods with their own
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from operator import methodcaller
from typing import Any

import numpy as np

from ..numerics.ordered_sums import norms
from ..protocols import Array, ConstraintSet, Two
from .landing_fields import safe_step

POINTS = (
    *("project", "tangent", "retract", "product", "solve", "relative_gradient", "landing"),
    *("landing_from_products", "dissolve_with", "dissolved_with", "landing_image", "penalised"),
    *("augmented_gradient", "column_tangent", "dissolve", "dissolved", "matrix_sign"),
)
"""The methods that return a stacked point or field."""
PAIRS = ("natural_gradient", "natural_projection", "natural_landing", "retract_with", "normalized")
"""The methods that return two of them."""
NUMBERS: dict[str, Callable[[Array], Array]] = {
    "distance": norms,
    "multiplier_norm": partial(np.max, axis=-1),
    "landing_scale": partial(np.max, axis=-1),
    "gap_squares": partial(np.sum, axis=-1),
}
"""The methods that return a number of each agent, and how those of the parts are combined."""


_Parts: Any = object
"""The base for type checkers, which then take the methods of a product to be those of its parts."""


class Product(_Parts):  # type: ignore[misc]  # its base is known at run time only
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

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.sets import Product, Stiefel
    >>> pairs = Product(Stiefel(4, 2), Stiefel(6, 2))
    >>> pairs.random(np.random.default_rng(0)).shape
    (10, 2)
    """

    parts: tuple[Any, ...]
    rows: tuple[slice, ...]
    """The rows of each part in a point."""
    shape: tuple[int, ...]
    offered: frozenset[str]
    """The names of what this product has beyond its class: the methods of its parts."""

    def __init__(self, *parts: Any) -> None:
        if len(parts) < 2:
            raise ValueError(f"a product needs at least two sets, got {len(parts)}")
        _check_sets(parts)
        widths = [part.shape[1] for part in parts]
        if len(set(widths)) > 1:
            got = ", ".join(map(str, widths))
            raise ValueError(
                f"the points of a product's parts must have equally many columns, got {got}: "
                "sets.Flat joins matrices of any shapes"
            )
        self._stack(parts, [part.shape[0] for part in parts], widths[0])

    def _stack(self, parts: tuple[Any, ...], sizes: Sequence[int], width: int) -> None:
        """Set the parts with their numbers of rows, and the methods that all of them have."""
        bounds = [0, *accumulate(sizes)]
        self.parts = parts
        self.shape = (bounds[-1], width)
        self.rows = tuple([slice(a, b) for a, b in pairwise(bounds)])
        common = set.intersection(*[{*dir(part)} for part in parts])
        methods = self._methods().items()
        self.__dict__.update({name: method for name, method in methods if name in common})
        if "solvable" in common:
            self.solvable = all(part.solvable for part in parts)
        if "singular_values" in common:
            self.singular_values = sum(part.singular_values for part in parts)
        self.offered = frozenset(vars(self))

    def _methods(self) -> dict[str, Callable[..., object]]:
        """The methods that a product may offer: those of its parts decide."""
        return {
            **{name: partial(self._points, name) for name in POINTS},
            **{name: partial(self._pairs, name) for name in PAIRS},
            **{name: partial(self._reduced, name) for name in NUMBERS},
            "safe_step": self._safe_step,
            "with_matrices": self._with_matrices,
        }

    def __repr__(self) -> str:
        return " x ".join(map(repr, self.parts))

    def split(self, x: Array) -> list[Array]:
        """Each part's matrix in a point, as views."""
        pairs = zip(self.parts, self.rows, strict=True)
        return [x[..., rows, :].reshape(*x.shape[:-2], *part.shape) for part, rows in pairs]

    def _own(self, argument: Any, number: int) -> Any:
        """The part's points in the agents' points, ``(n_local, ...)``, as views; other arguments as
        they are."""
        match argument:
            case np.ndarray(ndim=3):
                shape = len(argument), *self.parts[number].shape
                return argument[:, self.rows[number]].reshape(shape)
        return argument

    def feasibility(self, x: Array, *given: Array, **named: Array) -> Array:
        """The root of the sum of the parts' squares, ``(n_local,)``."""
        return norms(self._numbers("feasibility", x, *given, **named))

    def random(self, rng: np.random.Generator) -> Array:
        """A random point of each part, stacked to ``shape``."""
        return np.concatenate([part.random(rng).reshape(-1, self.shape[1]) for part in self.parts])

    @property
    def largest(self) -> float:
        """The largest of the parts' eigenvalues of B, or a close bound on it."""
        return max([float(part.largest) for part in self.parts])

    def _each(self, name: str, *given: object, **named: object) -> Iterator[tuple[slice, Any]]:
        """The rows of each part and the result of its method for these rows of all stacked points
        among the arguments."""
        for number, (part, rows) in enumerate(zip(self.parts, self.rows, strict=True)):
            own = [self._own(one, number) for one in given]
            more = {key: self._own(one, number) for key, one in named.items()}
            yield rows, methodcaller(name, *own, **more)(part)

    def _numbers(self, name: str, *given: object, **named: object) -> Array:
        """A number of each part and agent, ``(n_local, parts)``."""
        return np.stack([found for _, found in self._each(name, *given, **named)], axis=-1)

    def _points(self, name: str, x: Array, *given: object, **named: object) -> Array:
        """The parts' points or fields in one array like ``x``."""
        out = np.empty_like(x)
        for rows, found in self._each(name, x, *given, **named):
            out[:, rows] = found.reshape(len(x), rows.stop - rows.start, -1)
        return out

    def _pairs(self, name: str, x: Array, *given: object, **named: object) -> Two:
        """The parts' pairs of points or fields in two arrays like ``x``."""
        both = np.empty_like(x), np.empty_like(x)
        for rows, found in self._each(name, x, *given, **named):
            for out, one in zip(both, found, strict=True):
                out[:, rows] = one.reshape(len(x), rows.stop - rows.start, -1)
        return both

    def _reduced(self, name: str, *given: object, **named: object) -> Array:
        """A number of each agent from those of the parts."""
        return NUMBERS[name](self._numbers(name, *given, **named))

    def _safe_step(self, x: Array, field: Array, penalty: Array, eps: float, *more: Array) -> Array:
        """The largest safe step ``(n_local,)`` where all parts have `gap_squares`, and else the
        least of the parts' safe steps.

        For these the remaining slack is divided equally among the parts: the squares of the parts'
        own eps add up to eps^2.
        """
        if "gap_squares" in vars(self):
            return safe_step(self, x, field, penalty, eps, *more)
        own = self._numbers("feasibility", x)
        room = np.maximum(eps * eps - (own * own).sum(-1), 0.0) / len(self.parts)
        shares = np.sqrt(own * own + room[:, None]).T
        steps = [
            part.safe_step(self._own(x, k), self._own(field, k), penalty, share)
            for k, (part, share) in enumerate(zip(self.parts, shares, strict=True))
        ]
        return np.stack(steps, axis=-1).min(-1)

    def _with_matrices(self, matrices: Array) -> Product:
        """The product with other B: ``(n_local, n_1 + n_2 + ..., w)``, stacked by rows and padded
        with zeros to the largest n_i."""
        own = zip(self.parts, self.rows, strict=True)
        return type(self)(*[one.with_matrices(matrices[:, at, : one.shape[0]]) for one, at in own])


class Flat(Product):
    """The product of sets of matrices of any widths, with points of one column: the entries of all
    parts, one after the other.

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

    Examples
    --------
    >>> import numpy as np
    >>> from decentorth.sets import Euclidean, Flat, Stiefel
    >>> parts = Flat(Stiefel(4, 2), Euclidean(3, 1))
    >>> parts.random(np.random.default_rng(0)).shape
    (11, 1)
    """

    def __init__(self, *parts: Any) -> None:
        _check_sets(parts)
        self._stack(parts, [part.shape[0] * part.shape[1] for part in parts], 1)


def _check_sets(parts: Sequence[Any]) -> None:
    if not parts:
        raise ValueError("a product of flattened parts needs at least one set, got 0")
    for part in parts:
        if not isinstance(part, ConstraintSet):
            raise TypeError(f"a product's parts must be constraint sets, got {type(part).__name__}")
        if len(part.shape) != 2:
            raise TypeError(
                f"the parts of a product must be sets of matrices, got {part!r} with points of "
                f"shape {part.shape}"
            )
