"""A single agent whose samples are spread over the ranks: the mean of a problem of n agents, for a
single-agent method.

    f(x) = (1/n) sum_i f_i(x),   G(x) = (1/n) sum_i G_i(x)

The n agents of the problem become n blocks of the samples of one agent. Every rank evaluates its
own blocks at the same point, and the collective adds the results strictly in block order. The
method runs equally on every rank, with the same bits for any number of ranks.

Beside values and gradients the mean offers the methods that the blocks have
(`SpreadProblem._methods`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np

from ..protocols import (
    Answered,
    Array,
    Collective,
    ColumnOracle,
    Eigenproblem,
    Index,
    Problem,
    Quadratic,
    Smooth,
    TraceForm,
    WeaklyConvex,
)
from .base import AgentProblem, Selection, SeparateColumns
from .common.moments import packed, unpacked
from .deferred import Deferred, Outline

LARGEST_HESSIAN = 1000
"""The order up to which a Hessian is summed for a Lipschitz constant."""
FEW = 20
"""The points of which a matrix, or moments, may have the size to be sent in their place."""
KEPT = 2
"""The last points whose value and gradient are kept: that of the iteration and that of a row."""
AT_POINTS = ("hessian_product", "product", "local_product", "local_diagonal")
"""The blocks' methods whose mean at the same points is the method of the mean."""
FROM_SAMPLES = ("gradient_on", "product_on")
"""The blocks' methods of a point and some samples."""


@dataclass(frozen=True)
class Spread:
    """The mean of a problem's objectives as the objective of one agent, for `solve` with a
    single-agent method.

    Parameters
    ----------
    problem
        A problem of n agents, the blocks of samples, n at least the number of ranks: whole (each
        rank keeps its own blocks), or a `Deferred` that each rank builds for its own blocks.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(do.problems.Spread(problem), do.LBFGS(), iterations=200)
    >>> bool(result.history["gradient_norm"][-1] < 1e-3)
    True
    """

    problem: Problem[object] | Deferred
    n_agents = 1

    @property
    def _deferred(self) -> Deferred:
        if isinstance(self.problem, Deferred):
            return self.problem
        given = self.problem
        return Deferred(given.n_agents, lambda blocks, _: given.restrict(blocks))

    def stand_in(self, more: int = 0) -> Spread:
        """The agent with a few random samples in each block, see `Deferred.stand_in`."""
        return Spread(self._deferred.stand_in(more))

    @property
    def sizes(self) -> Outline | None:
        """The sizes of the samples that stand for others, see `Deferred.sizes`."""
        return self._deferred.sizes

    @property
    def n_blocks(self) -> int:
        """The number of agents of the problem."""
        return int(self.problem.n_agents)

    def build(self, blocks: slice, collective: Collective) -> SpreadProblem:
        """The problem of the one agent, with the blocks of this rank; every rank calls it with the
        collective of the blocks."""
        return mean_of(self._deferred.build(blocks, collective), collective)


class Evaluation(NamedTuple):
    """A point ``(1, *shape)``, the value ``(1,)`` and the gradient there."""

    x: Array
    value: Array
    gradient: Array


class SpreadProblem(AgentProblem[Any]):
    """f(x) = (1/n) sum_i f_i(x) of a single agent, held by every rank.

    All ranks call its methods together. Start, variables, measures, optimum and least value are
    those of the blocks' problem, if known. Samples are numbered consecutively through all
    blocks.

    Parameters
    ----------
    base
        The problem of the local blocks f_i.
    collective
        The collective of the blocks.
    by_messages
        True if a sum takes messages between agents: value and gradient at a point are then added
        together and kept for the last two points, and a Hessian is added only if it is small.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(do.problems.Spread(problem), do.LBFGS(), iterations=20)
    >>> isinstance(result.problem, do.problems.SpreadProblem)
    True
    """

    def __init__(self, base: Any, collective: Collective, by_messages: bool = False) -> None:
        super().__init__(1, slice(0, 1), base.constraint)
        self.base = base
        self._collective = collective
        self.units = base.units
        self.about_columns = dict(base.about_columns)
        self.nonsmooth = base.nonsmooth
        self.evaluations = base.evaluations
        self.holds_out = base.holds_out
        self._by_messages = by_messages
        names = {*dir(base)}
        methods = self._methods()
        vars(self).update({name: methods[name] for name in methods.keys() & names})
        self.offered = frozenset(vars(self)) | ({"n_samples"} & names)
        self._size = math.prod(self.shape)
        self._known: tuple[Evaluation, ...] = ()
        self._learned: Evaluation | None = None
        self._operations: dict[int, float] = {}

    def _methods(self) -> dict[str, Callable[..., Any]]:
        """The methods that a mean may offer beside those of every problem: those of its blocks
        decide."""
        return {
            **{name: partial(self._mean_at, name) for name in AT_POINTS},
            **{name: partial(self._mean_from, name) for name in FROM_SAMPLES},
            "hessian": partial(self._mean_matrix, "hessian"),
            "trace_form": lambda: self._trace_form,
            "matrices_on": self._matrices_on,
            "cache": lambda x: np.empty((1, 0)),
            "refresh": lambda cache, x, columns: None,
            "partial_gradient": self._partial_gradient,
            "flops": self._flops,
            "subgradient_settings": lambda blocks: self.base.subgradient_settings(blocks),
        }

    def _take(self, local: Selection) -> None:
        """Keep the only agent."""

    @property
    def error_name(self) -> str:  # type: ignore[override]
        """The name of the blocks' error, where the answer is known."""
        return str(self.base.error_name)

    @property
    def optimal_value(self) -> float | None:  # type: ignore[override]
        """The least value, where it is known."""
        least: float | None = self.base.optimal_value
        return least

    @cached_property
    def _counts(self) -> Index:
        """``(n,)``: the numbers of samples of all blocks."""
        base = self.base
        blocks = np.arange(base.n_agents)
        each = zip(blocks[base.agents], base.n_samples, strict=True)
        terms = (np.where(blocks == block, float(count), 0.0) for block, count in each)
        return self._collective.each(base.n_agents, terms).astype(np.int64)

    @property
    def n_samples(self) -> Index:
        """``(1,)``: the number of all samples, where the blocks have samples."""
        return self._counts.sum(keepdims=True)

    def _total(self, per_block: Array) -> Array:
        """``(1, ...)``: the sum over all blocks, in block order."""
        (total,) = self._collective.sum(per_block)
        return total.reshape(1, *per_block.shape[1:])

    def _mean(self, per_block: Array) -> Array:
        """``(1, ...)``: the mean over all blocks."""
        return self._total(per_block) / self.base.n_agents

    def _per_block(self, evaluate: Callable[..., Array], *points: Array) -> Array:
        """The values of ``evaluate(blocks, *points)``, with a copy of the points for each block."""
        found = []
        for local, part in self.base.blocks():
            own = [np.repeat(point, local.stop - local.start, axis=0) for point in points]
            found.append(evaluate(part, *own))
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _mean_of(self, evaluate: Callable[..., Array], *points: Array) -> Array:
        """``(1, ...)``: the mean over all blocks of ``evaluate(blocks, *points)``."""
        return self._mean(self._per_block(evaluate, *points))

    def _mean_at(self, name: str, *points: Array) -> Array:
        """The mean of the blocks' method ``name`` at the same points."""
        return self._mean_of(lambda part, *own: methodcaller(name, *own)(part), *points)

    def _mean_from(self, name: str, x: Array, batch: Index) -> Array:
        """An unbiased estimate, like ``x``, of the mean of the blocks' method ``name`` from the
        samples ``batch``, ``(1, b)``."""

        def at(block: object, own: Index) -> Array:
            return methodcaller(name, x, own)(block)

        return self._mean_on(batch, x.shape[1:], at)

    def _mean_matrix(self, name: str) -> Array:
        """``(1, d, d)``: the mean of the matrices of the blocks' method ``name``, of which a rank
        holds one at a time."""
        d = self.shape[0]
        own = self.base.agents
        blocks = (self.base.restrict(slice(i, i + 1)) for i in range(own.start, own.stop))
        terms = (packed(methodcaller(name)(block))[0] for block in blocks)
        total = self._collective.each(d * (d + 1) // 2, terms)
        return unpacked(total / self.base.n_agents, d)[None]

    def _mean_on(
        self, batch: Index, shape: tuple[int, ...], evaluate: Callable[[Any, Index], Array]
    ) -> Array:
        """``(1, *shape)``: the mean over the blocks of ``evaluate`` of a block and its samples in
        ``batch``, ``(1, b)``.

        The samples of block i, m_i of all N, have weight N / (n m_i).
        """
        first = self.base.agents.start
        count = self._counts
        starts = np.cumsum(count, -1) - count
        total = int(self.n_samples[0])
        found = np.zeros((self.base.agents.stop - first, *shape))
        for local in range(len(found)):
            block = first + local
            within = batch[0] - starts[block]
            within = within[(within >= 0) & (within < count[block])]
            if len(within):
                own = self.base.restrict(slice(block, block + 1))
                found[local] = evaluate(own, within[None])[0]
                found[local] *= len(within) / batch.shape[1] * (total / count[block])
        return self._mean(found)

    @cached_property
    def _trace_form(self) -> Array:
        """``(1, d, d)``: summed once; methods that use only it then need no further
        communication."""
        return self._mean_matrix("trace_form")

    @cached_property
    def _matrix_shape(self) -> tuple[int, ...]:
        first = self.base.agents.start
        own = self.base.restrict(slice(first, first + 1))
        one: Array = own.matrices_on(np.zeros((1, 1), dtype=np.int64))
        return one.shape[1:]

    def _matrices_on(self, batch: Index) -> Array:
        """``(1, n, w)``: an unbiased estimate of B from the samples ``batch``, ``(1, b)``."""
        return self._mean_on(batch, self._matrix_shape, lambda block, own: block.matrices_on(own))

    def _partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        """``(1, d, c)``: the columns ``(c,)`` of the gradient; each block's cache, of the size of
        its samples, is recomputed."""
        return self._mean_of(lambda part, x: part.partial_gradient(x, columns, part.cache(x)), x)

    def _flops(self, columns: int) -> Array:
        """``(1,)``: the operations of all blocks, for all columns where a block of columns needs
        products with all of them."""
        separate = isinstance(self.base, SeparateColumns) or not isinstance(self.base, ColumnOracle)
        if not separate:
            columns = self.shape[1]
        if columns not in self._operations:
            self._operations[columns] = float(self._total(self.base.flops(columns))[0])
        return np.array([self._operations[columns]])

    def value(self, x: Array) -> Array:
        """Return f(x), ``(1,)``."""
        if self._by_messages:
            return self._evaluated(x).value.copy()
        return self._mean_at("value", x)

    def gradient(self, x: Array) -> Array:
        """``(1, *shape)``: the gradient G(x)."""
        if self._by_messages:
            return self._evaluated(x).gradient.copy()
        return self._mean_at("gradient", x)

    def _evaluated(self, x: Array) -> Evaluation:
        """f and G at x: known, or by one sum."""
        for known in (*self._known, self._learned):
            if known is not None and np.array_equal(known.x, x):
                return known
        values = self._per_block(lambda part, own: part.value(own), x)
        gradients = self._per_block(lambda part, own: part.gradient(own), x)
        value, gradient = self._collective.sum(values, gradients)
        n = self.base.n_agents
        found = Evaluation(x.copy(), value.reshape(1) / n, gradient[None] / n)
        self._known = (found, *self._known[: KEPT - 1])
        return found

    def learn(self, x: Array, gradient: Array) -> None:
        """Take a gradient that a method has found without a sum: for an `Eigenproblem`, whose value
        is <x, G(x)> / 2, and a `Quadratic`, whose values differ by <x - y, G(x) + G(y)> / 2, y the
        last point with a sum."""
        if isinstance(self.base, Eigenproblem):
            value = np.array([0.5 * float(np.vdot(x, gradient))])
        elif self._known and isinstance(self.base, Quadratic):
            y, there, slope = self._known[0]
            value = there + 0.5 * np.vdot(x - y, gradient + slope)
        else:
            return
        self._learned = Evaluation(x.copy(), value, gradient.copy())

    def remembered(self) -> dict[str, Array]:
        """The sums that are kept, ``(1, count, ...)`` each, for a checkpoint."""
        known = [np.concatenate([part.ravel() for part in one]) for one in self._known]
        width = 2 * self._size + 1
        operations = [*self._operations.items()]
        return {
            "evaluations": np.array(known).reshape(1, len(known), width),
            "operations": np.array(operations, dtype=np.float64).reshape(1, len(operations), 2),
        }

    def remember(self, sums: Mapping[str, Array]) -> None:
        """Continue with the sums of `remembered`; a ValueError for others."""
        size = self._size
        shape = (1, *self.shape)
        widths = {name: array.shape[2] for name, array in sums.items() if array.ndim == 3}
        if widths != {"evaluations": 2 * size + 1, "operations": 2}:
            raise ValueError(
                f"the sums of a checkpoint must be evaluations of {2 * size + 1} numbers and "
                f"operations of 2, got {widths}"
            )
        self._known = tuple(
            Evaluation(
                row[:size].reshape(shape), row[size : size + 1], row[size + 1 :].reshape(shape)
            )
            for row in sums["evaluations"][0, :KEPT]
        )
        self._operations = {int(row[0]): float(row[1]) for row in sums["operations"][0]}

    def prepare(self, collective: Collective) -> None:
        self.base.prepare(self._collective)

    def find_answer(self, collective: Collective) -> None:
        """Compute the answer of the blocks' problem, if it has one."""
        if isinstance(self.base, Answered):
            self.base.find_answer(self._collective)

    def start(self, seed: int) -> Array:
        return self.base.start(seed)

    def unpack(self, x: Array) -> Mapping[str, Array]:
        return self.base.unpack(x)

    def error(self, xhat: Array) -> float:
        return float(self.base.error(xhat))

    def held_out_errors(self, x: Array) -> Array:
        """``(1, 2)``: the sums over all blocks."""
        return self._total(self._per_block(lambda part, x: part.held_out_errors(x), x))

    def evaluate(self, xhat: Array) -> tuple[float, ...]:
        return self.base.evaluate(xhat)


class SmoothSpread(SpreadProblem):
    """A mean of objectives with Lipschitz constants."""

    @cached_property
    def lipschitz(self) -> Array:
        """``(1,)``: the Lipschitz constant of the mean, or a bound on it.

        It is exact with a Hessian of order 1000 at most or a trace form, where these are small
        enough to be sent; otherwise it is the mean of the blocks' constants.
        """
        d = self.shape[0]
        numbers = d * (d + 1) // 2
        if self._by_messages and numbers > FEW * self._size:
            return self._mean(self.base.lipschitz)
        if isinstance(self, TraceForm):
            hessian = self.trace_form()
        elif isinstance(self, Quadratic) and d <= LARGEST_HESSIAN:
            hessian = self.hessian()
        else:
            return self._mean(self.base.lipschitz)
        return np.abs(np.linalg.eigvalsh(hessian)).max(-1)


class WeaklyConvexSpread(SpreadProblem):
    """A mean of weakly convex objectives.

    Its constants are bounded by the means of the blocks' constants.
    """

    @cached_property
    def weak_convexity(self) -> Array:
        """``(1,)``: tau."""
        return self._mean(self.base.weak_convexity)

    @cached_property
    def lipschitz_value(self) -> Array:
        """``(1,)``: a Lipschitz constant of f."""
        return self._mean(self.base.lipschitz_value)


def mean_of(base: Any, collective: Collective, by_messages: bool = False) -> SpreadProblem:
    """The mean of the objectives of a problem's agents as that of one agent, see
    `SpreadProblem`."""
    if isinstance(base, Smooth):
        return SmoothSpread(base, collective, by_messages)
    if isinstance(base, WeaklyConvex):
        return WeaklyConvexSpread(base, collective, by_messages)
    return SpreadProblem(base, collective, by_messages)
