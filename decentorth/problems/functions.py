"""A user's own problem from two functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array, Index
from ..settings import Count, check
from .base import AgentProblem, C, Selection, SeparateColumns

Function = Callable[..., object]
"""A user's function."""


class FunctionProblem(AgentProblem[C]):
    """Objectives given as functions of one agent's number and point.

    Parameters
    ----------
    value
        ``value(agent, x) -> float`` with x of shape ``constraint.shape``, which can be read but not
        written into.
    gradient
        ``gradient(agent, x) -> array`` of the same shape: the Euclidean gradient.
    constraint
        The feasible set, e.g. ``Stiefel(d, r)``.
    n_agents
        The number of agents.
    stacked
        If true, the functions take all local agents at once: ``value(agents, x)`` with ``agents``
        an index array and x ``(len(agents), *shape)`` returns ``(len(agents),)``, and ``gradient``
        an array like x. Faster; to get the same bits for any number of ranks, treat each agent
        alone (batched ``@``, elementwise functions, sums over trailing axes). On a device all are
        PyTorch's tensors.
    gradient_on
        ``gradient_on(agent, x, batch) -> array``: an unbiased gradient from the samples whose
        numbers are in the index array ``batch``, repeats allowed; with ``stacked``, ``(agents, x,
        batch)`` with ``batch`` ``(len(agents), b)``. Methods with a ``batch_size`` need it.
    n_samples
        The number of samples of each agent: one number for all, or one each. Required by
        ``gradient_on``.

    Raises
    ------
    TypeError
        When ``value``, ``gradient`` or ``gradient_on`` cannot be called, ``constraint`` is no set,
        or ``n_agents`` no whole number. During a run, when a function returns complex or
        non-numeric values; names the agent.
    ValueError
        For ``gradient_on`` without ``n_samples`` or the reverse, and for numbers of samples
        below 1. During a run, when a function returns the wrong shape, unequal parts or masked
        entries, or writes into x; names the agent.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> a = np.random.default_rng(0).standard_normal((4, 30, 6))
    >>> def value(agent, x):
    ...     return -((a[agent] @ x) ** 4).mean() / 4
    >>> def gradient(agent, x):
    ...     return -a[agent].T @ (a[agent] @ x) ** 3 / (30 * 2)
    >>> manifold = do.sets.Stiefel(6, 2)
    >>> problem = do.problems.FunctionProblem(value, gradient, manifold, 4)
    >>> result = do.solve(problem, do.DRFGT(), "ring", iterations=300, check=True)
    >>> bool(result.history["gradient_norm"][-1] < 1e-2)
    True
    """

    n_samples: Index
    """``(n_local,)``: the numbers of samples; set only where they were given."""

    def __init__(
        self,
        value: Callable[..., float | Array],
        gradient: Callable[..., Array],
        constraint: C,
        n_agents: int,
        *,
        stacked: bool = False,
        gradient_on: Callable[..., Array] | None = None,
        n_samples: int | Sequence[int] | Index | None = None,
    ) -> None:
        _check_functions(value=value, gradient=gradient, gradient_on=gradient_on or value)
        n_agents = check("n_agents", Count, n_agents)
        check_set(constraint)
        super().__init__(n_agents, slice(0, n_agents), constraint)
        self._numbers: Index = np.arange(n_agents, dtype=np.int64)
        self._value = value
        self._gradient = gradient
        self._gradient_on = gradient_on
        self._stacked = stacked
        self._put: Callable[[object], Any] = _stay
        if (gradient_on is None) != (n_samples is None):
            raise ValueError("gradient_on and n_samples go together: give both, or neither")
        if n_samples is not None:
            self.n_samples = _counts(n_samples, n_agents)

    def _take(self, local: Selection) -> None:
        """Keep the original numbers of the local agents, which the functions take."""
        self._numbers = self._numbers[local]
        if self._gradient_on is not None:
            self.n_samples = self.n_samples[local]

    def on(self, put: Callable[[Any], Any]) -> Self:
        """The same problem, whose functions take and return tensors of the device; points of the
        host go there and back."""
        if not self._stacked:
            raise ValueError(
                "functions of one agent do not run on a device: give functions of all agents, "
                "and stacked=True"
            )
        placed = self._in_one_block()
        placed._put = put
        return placed

    def value(self, x: Array) -> Array:
        return self._answers("value", self._value, x, ())

    def gradient(self, x: Array) -> Array:
        """``(n_local, *shape)``: the gradients G_i(x_i)."""
        return self._answers("gradient", self._gradient, x, self.shape)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, *shape)``: an unbiased gradient from the samples ``batch``, ``(n_local,
        b)``."""
        if self._gradient_on is None:
            raise TypeError("gradients on a few samples need gradient_on: give it, and n_samples")
        return self._answers("gradient_on", self._gradient_on, x, self.shape, batch)

    def _answers(
        self, name: str, function: Function, x: Array, shape: tuple[int, ...], *batch: Index
    ) -> Array:
        """``(n_local, *shape)``: the values of a user's function at the points ``x``, which are
        read-only for it."""
        if self._put is not _stay:
            return self._on_device(name, function, x, (len(x), *shape), *batch)
        points = x.view()
        points.flags.writeable = False
        if self._stacked:
            given = self._numbers, points, *batch
            return _answer(name, function, given, (len(x), *shape))
        out = np.empty((len(x), *shape))
        for i, (agent, *own) in enumerate(zip(self._numbers.tolist(), points, *batch, strict=True)):
            out[i] = _answer(f"{name} of agent {agent}", function, (agent, *own), shape)
        return out

    def _on_device(
        self, name: str, function: Function, x: Any, shape: tuple[int, ...], *batch: Index
    ) -> Array:
        """The values on a device; on the host again for points of the host."""
        away = isinstance(x, np.ndarray)
        points = self._put(x) if away else x
        numbers = [self._put(given).tensor for given in (self._numbers, *batch)]
        found: Any = function(numbers[0], points.tensor, *numbers[1:])
        must = f"{name} on a device must be a tensor of shape {shape}, dense and real"
        if not isinstance(found, type(points.tensor)):
            raise ValueError(f"{must}, got a {type(found).__name__}")
        if tuple(found.shape) != shape or found.is_complex() or found.is_sparse:
            raise ValueError(
                f"{must}, got {found.dtype}, {found.layout}, of shape {tuple(found.shape)}"
            )
        answer = type(points)(found.detach().to(points.tensor)).copy()
        return answer.host() if away else answer


class NonsmoothFunctionProblem(FunctionProblem[C], SeparateColumns):
    """A user's own nonsmooth problem: `FunctionProblem` with subgradients in place of gradients.

    Parameters
    ----------
    value
        As in `FunctionProblem`.
    subgradient
        ``subgradient(agent, x) -> array`` like x: any one Euclidean subgradient.
    constraint, n_agents, stacked, gradient_on, n_samples
        As in `FunctionProblem`; ``gradient_on`` gives a subgradient.
    partial_subgradient
        ``partial_subgradient(agent, x, columns) -> array`` of shape ``(d, c)``: the columns of the
        subgradient whose numbers are in the index array ``columns``, ``(c,)``; with ``stacked``,
        ``(agents, x, columns)``, and ``(len(agents), d, c)``. Methods that move blocks of columns
        then do not compute the other columns.

    Raises
    ------
    TypeError, ValueError
        As in `FunctionProblem`.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> a = np.random.default_rng(0).standard_normal((4, 30, 6))
    >>> def value(agent, x):
    ...     return np.abs(a[agent] @ x).sum() / 30
    >>> def subgradient(agent, x):
    ...     return a[agent].T @ np.sign(a[agent] @ x) / 30
    >>> sphere = do.sets.Stiefel(6, 1)
    >>> problem = do.problems.NonsmoothFunctionProblem(
    ...     value, subgradient, sphere, n_agents=4
    ... )
    >>> result = do.solve(problem, do.DRSM(), "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    nonsmooth = True

    def __init__(
        self,
        value: Callable[..., float | Array],
        subgradient: Callable[..., Array],
        constraint: C,
        n_agents: int,
        *,
        partial_subgradient: Callable[..., Array] | None = None,
        stacked: bool = False,
        gradient_on: Callable[..., Array] | None = None,
        n_samples: int | Sequence[int] | Index | None = None,
    ) -> None:
        _check_functions(subgradient=subgradient, partial_subgradient=partial_subgradient or value)
        super().__init__(
            value,
            subgradient,
            constraint,
            n_agents,
            stacked=stacked,
            gradient_on=gradient_on,
            n_samples=n_samples,
        )
        self._partial = partial_subgradient

    def partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        """``(n_local, d, c)``: the columns ``(c,)`` of the subgradient, from all columns without a
        ``partial_subgradient``."""
        if self._partial is None:
            return self.gradient(x).take(columns, -1)
        some = self._partial
        shape = (self.shape[0], len(columns))

        def partial(agents: object, point: Array) -> object:
            return some(agents, point, columns)

        return self._answers("partial_subgradient", partial, x, shape)


def check_set(constraint: Any) -> None:
    """Raise TypeError unless ``constraint`` is a set."""
    try:
        len(constraint.shape)
    except (AttributeError, TypeError):
        raise TypeError(
            f"constraint must be a set such as do.sets.Stiefel(8, 2), got {constraint!r:.80}"
        ) from None


def _stay(given: object) -> object:
    """The array itself, for functions of NumPy's arrays."""
    return given


def _check_functions(**given: object) -> None:
    for name, function in given.items():
        if not callable(function):
            raise TypeError(f"{name} must be a function, got {type(function).__name__}")


def _answer(
    what: str, function: Function, arguments: tuple[object, ...], shape: tuple[int, ...]
) -> Array:
    """A fresh float64 copy of the value of the function; an error names the function and the
    agent."""
    try:
        found = function(*arguments)
    except Exception as error:
        if isinstance(error, ValueError) and "read-only" in str(error):
            raise ValueError(
                f"{what} must not write into x, the agent's point: let it work on x.copy()"
            ) from error
        error.add_note(f"raised by {what}")
        raise
    if np.ma.is_masked(found):
        raise ValueError(
            f"{what} has masked entries: return np.ma.filled(..., 0.0) if that is meant"
        )
    try:
        result = np.asarray(found)
    # rows of unequal lengths, a tensor that follows gradients or lies on a GPU
    except Exception as error:
        raise TypeError(
            f"{what} must be one array of NumPy, got a {type(found).__name__} "
            f"({str(error).partition(chr(10))[0]})"
        ) from error
    if not np.can_cast(result.dtype, np.float64, "same_kind"):
        raise TypeError(f"{what} must be of real numbers, got {_not_real(result)}")
    if result.shape != shape:
        must = f"have shape {shape}, got" if shape else "be one number, got an array of shape"
        raise ValueError(f"{what} must {must} {result.shape}")
    return np.array(result, dtype=np.float64, order="C")


def _not_real(result: NDArray[Any]) -> str:
    """The kind of a value that is not of real numbers, and the advice, in one line."""
    if result.dtype.kind == "c":
        return f"dtype {result.dtype}: return np.real(...) of it if that is meant"
    found = result.tolist()
    cure = "return one array of numbers"
    if found is None:
        cure = "does the function end with `return`?"
    return f"{' '.join(repr(found).split()):.80}: {cure}"


def _counts(n_samples: int | Sequence[int] | Index, n_agents: int) -> Index:
    counts = np.asarray(n_samples)
    if counts.dtype.kind not in "iu":
        raise TypeError(f"n_samples must be whole numbers, got dtype {counts.dtype}")
    if counts.shape not in ((), (n_agents,)):
        raise ValueError(
            f"n_samples must be one number or one for each of the {n_agents} agents, got shape "
            f"{counts.shape}"
        )
    everywhere = np.broadcast_to(counts, (n_agents,)).astype(np.int64)
    for agent in np.flatnonzero(everywhere < 1)[:1]:
        raise ValueError(f"n_samples must be at least 1, got {everywhere[agent]} for agent {agent}")
    return everywhere
