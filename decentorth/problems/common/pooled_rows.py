"""Quantities of the rows of all agents together, from the collective and in agent order; no rank
holds all rows.

A_i denotes the ``(m_i, d)`` rows of an agent, an array or `SparseRows`, and ``A`` a list of these
for the agents of this process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ...numerics.ordered_sums import sums
from ...numerics.threads import one_thread
from ...protocols import Array, Collective
from .checks import LARGEST, SMALLEST, Rows
from .here import HERE as HERE
from .here import here as here
from .moments import packed, unpacked
from .sparse_rows import SparseRows

T = TypeVar("T")

Missing = Literal["refuse", "mean"]
"""Missing cells are refused, or get the mean of their column over all agents' samples."""

_CONSTANT = 4.0 * float(np.finfo(np.float64).eps)
"""The standard deviation, as a share of the mean, up to which a column is constant but for
rounding."""
_SHIFT = 1e-14
"""The share of the largest eigenvalue of a sum of products that is above its rounding."""
_SINGULAR = 1e-10
"""The share of the largest eigenvalue below which whitening treats an eigenvalue as zero."""


def total(
    items: Iterable[T], size: int, of: Callable[[T], Array | float], collective: Collective
) -> Array:
    """Return the sum of ``of(item)`` over the items of all agents, one of each, ``(size,)``."""
    return collective.each(size, (np.asarray(of(item), dtype=np.float64) for item in items))


def symmetric_total(
    items: Iterable[T], d: int, of: Callable[[T], Array], collective: Collective
) -> Array:
    """``(d, d)``: the sum of symmetric matrices ``of(item)``, of which a triangle is added."""
    numbers = d * (d + 1) // 2
    return unpacked(total(items, numbers, lambda one: packed(of(one)[None])[0], collective), d)


def gram(A: Sequence[Rows], collective: Collective) -> Array:
    """``(d, d)``: sum_i A_i^T A_i."""
    return symmetric_total(A, A[0].shape[1], lambda a: a.T @ a, collective)


def root(A: Sequence[Rows], collective: Collective) -> Array:
    """``(d, d)``: an R with R^T R = sum_i A_i^T A_i, by two sums over the agents.

    The first sum gives coordinates in which the rows are well conditioned, but for directions shorter
    than 1e-7. The second is of the rows in these coordinates, where such directions are up to 1e7
    times as long. So R has as many digits as a triangular factor of the rows, although products are
    added (as in a shifted Cholesky QR). Of sparse rows d at a time are made dense.
    """
    d = A[0].shape[1]

    def products(change: Callable[[Array], Array]) -> Array:
        def of(a: Rows) -> Array:
            pieces = map(change, a.dense_pieces() if isinstance(a, SparseRows) else [a])
            return sum((rows.T @ rows for rows in pieces), start=np.zeros((d, d)))

        return symmetric_total(A, d, of, collective)

    found = products(np.asarray)
    squares = np.diagonal(found)
    lengths = np.sqrt(np.where(squares > 0.0, squares, 1.0))
    values, turns = np.linalg.eigh(found / lengths / lengths[:, None])
    if values[-1] <= 0.0:  # all rows are zero
        return found
    sizes = np.sqrt(np.maximum(values, 0.0) + _SHIFT * values[-1])
    coordinates = turns / sizes / lengths[:, None]
    values, axes = np.linalg.eigh(products(lambda rows: rows @ coordinates))
    return np.sqrt(np.maximum(values, 0.0))[:, None] * (axes.T * sizes) @ turns.T * lengths


def rows(A: Sequence[Rows], collective: Collective, units: Sequence[Units] = ()) -> int:
    """The number of rows of all agents; their ``units``, if any, have it already."""
    if units:
        return units[0].samples
    return int(total(A, 1, lambda a: np.shape(a)[0], collective)[0])


class Units(NamedTuple):
    """The common units of the columns of all agents' samples: ``((a - mean) - rest) / scale``."""

    mean: Array
    """``(d,)``: the means of all present cells."""
    rest: Array
    """``(d,)``: what the means lack of more than 16 digits, which matters where columns are far
    from 0."""
    scale: Array
    """``(d,)``: the standard deviations of all samples with their missing cells filled, or ones."""
    filled: tuple[int, ...]
    """The number of missing cells of each of all agents."""
    samples: int = 0
    """The number of all agents' samples, where it was counted."""

    def listed(self) -> list[object]:
        """The units as lists of numbers, for `side_by_side`."""
        return [self.mean.tolist(), self.rest.tolist(), self.scale.tolist(), sum(self.filled)]

    @staticmethod
    def side_by_side(every: Sequence[Sequence[object]]) -> Units:
        """The units of columns side by side, from those of each agent's."""
        *parts, filled = zip(*every, strict=True)
        mean, rest, scale = [np.concatenate([np.array(part) for part in one]) for one in parts]
        return Units(mean, rest, scale, (sum(filled),))

    @staticmethod
    def none(d: int) -> Units:
        """The units of d columns as they are."""
        return Units(np.zeros(d), np.zeros(d), np.ones(d), ())

    @property
    def constant(self) -> NDArray[np.bool_]:
        """``(d,)``: true for columns that are the same in all samples, but for rounding."""
        return self.scale <= _CONSTANT * np.abs(self.mean)

    def around(self, a: Any) -> Any:
        """The samples minus the means; 0 for a missing cell."""
        around = a - self.mean
        around -= self.rest
        if not isinstance(around, SparseRows):
            around[np.isnan(around)] = 0.0
        return around

    def seen(self, a: Array) -> Array:
        """The samples in these units, NaN in missing cells."""
        return ((a - self.mean) - self.rest) / self.scale

    def standard(self, a: Any) -> Any:
        """Return the samples in these units, in new arrays; missing cells become 0."""
        around = self.around(a)
        around /= self.scale
        return around

    def completed(self, a: Any) -> Any:
        """The samples in their own units, with the means in missing cells."""
        if isinstance(a, SparseRows):
            return a
        return np.where(np.isnan(a), self.mean, a)


def units(
    A: Sequence[Rows],
    collective: Collective,
    *,
    scale: bool = True,
    names: Sequence[str] = (),
    near: Array | None = None,
) -> Units:
    """The common units of the rows of all agents, by two sums over them: about 0, then about rough
    means, from which the squares lose no digits; by one with ``near`` and without ``scale``.

    Parameters
    ----------
    A
        ``(m_i, d)``: the rows, finite, or NaN in missing cells of arrays.
    scale
        Find the standard deviations, too: the roots of the mean squares, as
        ``sklearn.preprocessing.StandardScaler``.
    names
        The names of the columns, for errors.
    near
        ``(d,)``: about the means, where all agents know them.

    Raises
    ------
    ValueError
        On every rank: all cells of a column are missing, or it is so large or small that squares
        are lost.
    """

    def added(of: Callable[[Any], Array]) -> Array:
        return collective.column_sums(np.stack([of(a) for a in A]))

    d = A[0].shape[1]
    start = np.zeros(d) if near is None else near

    def counted(a: Any) -> Array:
        ones = np.ones(len(a))
        if isinstance(a, SparseRows):
            return np.concatenate(([len(a)], np.full(d, len(a)), ones @ (a - start)))
        away = a - start
        missing = np.isnan(a)
        away[missing] = 0.0
        return np.concatenate(([len(a)], len(a) - missing.sum(-2), ones @ away))

    # the bits of products depend on the number of BLAS threads; sizes are checked
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        found = added(counted)
        count = found[0]
        present = found[1 : d + 1]
        totals = found[d + 1 :]
        refuse_columns(present == 0.0, "is empty at every site", names)
        missing = missing_cells(A, collective)
        rough = Units(start, np.zeros(d), np.ones(d), missing, round(float(count)))
        rest = totals / present
        squares = None
        if near is None or scale:
            rough = rough._replace(mean=start + rest)
            rest, squares = np.split(added(lambda a: _powers(rough.around(a))), 2)
            rest = rest / present
        mean = rough.mean + rest
        refuse_columns(~(np.abs(mean) <= LARGEST), f"has cells above {LARGEST:g}", names, "divide")
        exact = rough._replace(mean=mean, rest=rest - (mean - rough.mean))
        if not scale or squares is None:
            return exact
        deviation = np.sqrt(np.maximum(squares - present * rest * rest, 0.0) / count)
        large = ~(deviation <= LARGEST)
        small = deviation < SMALLEST
        refuse_columns(large, f"has cells above {LARGEST:g}", names, "divide")
        if small.any(-1):  # constant, or of squares that vanish
            apart = added(lambda a: _lengths(exact.around(a))) / count
            small &= apart > _CONSTANT * np.abs(mean)
            refuse_columns(small, f"varies by less than {SMALLEST:g}", names, "multiply")
    return exact._replace(scale=deviation)


def _powers(around: Rows) -> Array:
    """The sums and the sums of squares of the columns, one behind the other."""
    return np.concatenate((np.ones(np.shape(around)[0]) @ around, column_squares(around)))


def _lengths(around: Rows) -> Array:
    """The sums of the absolute values of the columns; 0 for sparse rows, whose columns are not
    that small."""
    if isinstance(around, SparseRows):
        return np.zeros(around.shape[1])
    lengths: Array = np.ones(len(around)) @ np.abs(around)
    return lengths


def centred(a: Array) -> tuple[Array, Units]:
    """Return complete rows, all in this process, minus their mean, and these units."""
    near = a.mean(-2)
    around = a - near
    rest = around.mean(-2)
    around -= rest
    mean = near + rest
    return around, Units(mean, rest - (mean - near), np.ones(len(mean)), ())


def missing_cells(A: Sequence[Rows], collective: Collective) -> tuple[int, ...]:
    """The number of missing cells of each of all agents; sparse rows have none."""
    counts = [0 if isinstance(a, SparseRows) else int(np.isnan(a).sum((-2, -1))) for a in A]
    own = json.dumps(counts).encode()
    return tuple(count for part in collective.everyone(own) for count in json.loads(part))


def filled(A: Sequence[Array], samples: int, mean: Array, collective: Collective) -> list[Array]:
    """Return the rows with means in the missing cells.

    The means of the columns include ``samples`` earlier rows with the mean ``mean``.
    """
    found = [np.concatenate((~np.isnan(a), np.nan_to_num(a)), axis=1) for a in A]
    with one_thread():  # the bits of products depend on the number of BLAS threads
        sums = collective.column_sums(np.stack([np.ones(len(a)) @ a for a in found]))
    count, totals = np.split(sums, 2)
    refuse_columns(samples + count == 0.0, "is empty at every site", ())
    means = (samples * mean + totals) / (samples + count)
    return [np.where(np.isnan(a), means, a) for a in A]


class Wanted(NamedTuple):
    """The units in which samples are wanted: centred, scaled (which centres too), with their
    missing cells filled."""

    center: bool = False
    scale: bool = False
    missing: Missing = "refuse"

    @property
    def fill(self) -> bool:
        """True if missing cells get the mean of their column."""
        if self.missing not in get_args(Missing):
            raise ValueError(f"missing must be 'refuse' or 'mean', got {self.missing!r}")
        return self.missing == "mean"

    @property
    def any(self) -> bool:
        """True if samples are not wanted as they are."""
        return self.center or self.scale or self.fill


ASIS = Wanted()
"""The units of samples as they are."""
AS_GIVEN = {
    "columns": "as given: means not subtracted (center=True), not scaled (scale=True)",
}
"""The line about columns that are neither centred nor scaled, where a problem can do both."""


def in_units(
    A: Sequence[Rows],
    collective: Collective,
    wanted: Wanted,
    names: Sequence[str] = (),
    near: Array | None = None,
) -> tuple[list[Any], tuple[Units, ...]]:
    """Return the rows in the requested units, and the units, if any.

    Raises ValueError for columns without such units.
    """
    if not wanted.any:
        return list(A), ()
    found = units(A, collective, scale=wanted.scale, names=names, near=near)
    if wanted.scale:
        refuse_constant(found.constant, names)
    change = found.standard if wanted.center or wanted.scale else found.completed
    return [change(a) for a in A], (found,)


def refuse_constant(constant: NDArray[np.bool_], names: Sequence[str] = ()) -> None:
    """Raise ValueError if columns are constant."""
    refuse_columns(constant, "is constant over all samples of all agents", names)


def refuse_columns(
    wrong: NDArray[np.bool_], what: str, names: Sequence[str], change: str = ""
) -> None:
    """Raise the ValueError of the columns that are ``wrong``, ``(d,)``, if any are.

    ``change`` is what makes their squares numbers: divide or multiply by one.
    """
    columns = np.flatnonzero(wrong).tolist()
    if not columns:
        return
    if change:
        what = f"{what}, and fourth powers are computed"
    name = f"column {columns[0]} (counted from 0)"
    cure = "leave it out"
    if names:
        name = f"column {names[columns[0]]!r}"
        cure = f"leave it out, exclude={tuple(names[k] for k in columns[:20])!r}"
    if change:
        cure = f"{change} it by one number at every site, or {cure}"
    more = f", like {len(columns) - 1} more" * (len(columns) > 1)
    raise ValueError(f"{name} {what}{more}: {cure}")


def column_squares(a: Rows) -> Array:
    """``(d,)``: the sum of the squares of each column."""
    if isinstance(a, SparseRows):
        return a.column_squares()
    squares: Array = np.ones(len(a)) @ (a * a)
    return squares


def squares(A: Sequence[Rows], collective: Collective) -> float:
    """The sum of the squares of all entries."""

    def of(a: Any) -> Array:
        if isinstance(a, SparseRows):
            return sums(a.column_squares()[None])
        return sums(a[None] * a)

    return float(total(A, 1, of, collective)[0])


def normalized(A: Sequence[Any], collective: Collective) -> list[Any]:
    """The rows divided by the root mean square of all entries, unchanged where all entries are
    0."""
    scale = np.sqrt(squares(A, collective) / (A[0].shape[1] * rows(A, collective))) or 1.0
    return [a / scale for a in A]


def with_spectrum(
    A: Sequence[Array], decay: float, largest: float | None, collective: Collective
) -> list[Array]:
    """Replace the eigenvalues of sum_i A_i^T A_i by ``largest * decay^j``.

    A_i <- A_i V diag(sqrt(target_j / actual_j)) V^T with V the eigenvectors of the pooled Gram
    matrix. ``largest`` None keeps the data's own largest eigenvalue. The data are generated, so
    their sum takes no counted message.
    """
    d = A[0].shape[1]

    def add(found: Array) -> None:
        for a in A:
            found += (a.T @ a).reshape(-1)

    values, vectors = np.linalg.eigh(collective.fold(d * d, add).reshape(d, d))
    values = values[::-1]
    vectors = vectors[:, ::-1]
    target = (largest or values[0]) * decay ** np.arange(len(values))
    change = (vectors * np.sqrt(target / values)) @ vectors.T
    return [a @ change for a in A]


def mean_squares(A: Sequence[Array], collective: Collective) -> tuple[int, Array]:
    """The number of all rows, and ``(d,)``: the mean square of each column over them."""

    def own(a: Array) -> Array:
        return np.append(column_squares(a), len(a))

    *squares, count = total(A, A[0].shape[1] + 1, own, collective).tolist()
    return int(count), np.array(squares) / count


def whitening(A: Sequence[Array], components: int | None, collective: Collective) -> Array:
    """``(d, components)``: the T that gives the rows A_i T of all agents second moments ``(1/m)
    sum_i T^T A_i^T A_i T = I``."""
    d = A[0].shape[1]

    def own(a: Array) -> Array:
        return np.append(packed((a.T @ a)[None])[0], len(a))

    *triangle, count = total(A, d * (d + 1) // 2 + 1, own, collective)
    return root_inverse(unpacked(np.array(triangle), d) / count, components)


def root_inverse(covariance: Array, components: int | None) -> Array:
    """``(d, components)``: a matrix T with T^T C T = I for a covariance C of samples; a ValueError
    if C has too low a rank.

    T = U diag(s)^{-1/2} with the largest ``components`` eigenvalues s of C and their eigenvectors
    U; None takes all nonzero ones.
    """
    d = len(covariance)
    values, vectors = np.linalg.eigh(covariance)
    values = values[::-1]
    vectors = vectors[:, ::-1]
    found = sum(value > _SINGULAR * values[0] for value in values.tolist())
    components = max(found, 1) if components is None else components
    if found < components:
        raise ValueError(
            f"whitening to {components} components needs samples that vary in as many directions, "
            f"but those of all agents vary in only {found} of {d}: ask for at most {found}, or "
            "leave out constant and repeated columns"
        )
    return np.ascontiguousarray(vectors[:, :components] / np.sqrt(values[:components]))
