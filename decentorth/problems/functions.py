"""A user's own problem from two functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..protocols import Array, Index
from ..settings import Count, check
from .base import AgentProblem, C, Selection, SeparateColumns


class FunctionProblem(AgentProblem[C]):
    """Objectives given as functions of one agent's number and point.

    Parameters
    ----------
    value
        ``value(agent, x) -> float`` with x of shape ``constraint.shape``, which can be read but not written into.
    gradient
        ``gradient(agent, x) -> array`` of the same shape: the Euclidean gradient.
    constraint
        The feasible set, e.g. ``Stiefel(d, r)``.
    n_agents
        The number of agents.
    stacked
        If true, the functions take all local agents at once: ``value(agents, x)`` with ``agents`` an index array and x
        ``(len(agents), *shape)`` returns ``(len(agents),)``, and ``gradient`` an array like x. Faster; to get the same bits for
        any number of ranks, treat each agent alone (batched ``@``, elementwise functions, sums over trailing axes). On a device
        all are PyTorch's tensors.
    gradient_on
        ``gradient_on(agent, x, batch) -> array``: an unbiased gradient from the samples whose numbers are in the index array
        ``batch``, repeats allowed; with ``stacked``, ``(agents, x, batch)`` with ``batch`` ``(len(agents), b)``. Methods with a
        ``batch_size`` need it.
    n_samples
        The number of samples of each agent: one number for all, or one each. Required by ``gradient_on``.

    Raises
    ------
    TypeError
        When ``value``, ``gradient`` or ``gradient_on`` cannot be called, ``constraint`` is no set, or ``n_agents`` no whole number.
        During a run, when a function returns complex or non-numeric values; names the agent.
    ValueError
        For ``gradient_on`` without ``n_samples`` or the reverse, and for numbers of samples below 1. During a run, when a function
        returns the wrong shape, unequal parts or masked entries, or writes into x; names the agent.

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
        for name, function in (("value", value), ("gradient", gradient), ("gradient_on", gradient_on)):
            if not callable(function) and not (function is None and name == "gradient_on"):
                raise TypeError(f"{name} must be a function, got {type(function).__name__}")
        n_agents = check("n_agents", Count, n_agents)
        if isinstance(constraint, type) or not hasattr(constraint, "shape"):
            raise TypeError(f"constraint must be a set such as do.sets.Stiefel(8, 2), got {constraint!r:.80}")
        super().__init__(n_agents, slice(0, n_agents), constraint)
        self._numbers: Index = np.arange(n_agents, dtype=np.int64)
        self._value, self._gradient, self._gradient_on, self._stacked = value, gradient, gradient_on, stacked
        self._put: Callable[[Any], Any] | None = None
        if (gradient_on is None) != (n_samples is None):
            raise ValueError("gradient_on and n_samples go together: give both to allow mini-batches, or neither")
        if n_samples is not None:
            self.n_samples = _counts(n_samples, n_agents)

    def _take(self, local: Selection) -> None:
        """Keep the original numbers of the local agents, which the functions take."""
        self._numbers = self._numbers[local]
        if self._gradient_on is not None:
            self.n_samples = self.n_samples[local]

    def on(self, put: Callable[[Any], Any]) -> Self:
        """The same problem, whose functions take and return tensors of the device; points of the host go there and back."""
        if not self._stacked:
            raise ValueError("functions of one agent do not run on a device: give functions of all agents, and stacked=True")
        placed = self._in_one_block()
        placed._put, placed._numbers = put, put(self._numbers)
        return placed

    def value(self, x: Array) -> Array:
        return self._answers("value", self._value, x, ())

    def gradient(self, x: Array) -> Array:
        """``(n_local, *shape)``: the gradients G_i(x_i)."""
        return self._answers("gradient", self._gradient, x, self.shape)

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, *shape)``: an unbiased gradient from the samples ``batch``, ``(n_local, b)``."""
        if self._gradient_on is None:
            raise TypeError("gradients on a few samples need the function gradient_on, which this problem was made without")
        return self._answers("gradient_on", self._gradient_on, x, self.shape, batch)

    def _answers(
        self, name: str, function: Callable[..., object], x: Array, shape: tuple[int, ...], batch: Index | None = None
    ) -> Array:
        """``(n_local, *shape)``: the values of a user's function at the points ``x``, which are read-only for it."""
        if self._put is not None:
            return self._on_device(name, function, x, shape, batch)
        points = x.view()
        points.flags.writeable = False
        given = [points] if batch is None else [points, batch]
        if self._stacked:
            return _answer(name, function, (self._numbers, *given), (len(x), *shape))
        out = np.empty((len(x), *shape))
        for i, (agent, *own) in enumerate(zip(self._numbers.tolist(), *given, strict=True)):
            out[i] = _answer(f"{name} of agent {agent}", function, (agent, *own), shape)
        return out

    def _on_device(self, name: str, function: Callable[..., object], x: Any, shape: tuple[int, ...], batch: Index | None) -> Any:
        """The values on a device; on the host again for points of the host."""
        put: Any = self._put
        away = isinstance(x, np.ndarray)
        points: Any = put(x) if away else x
        more = () if batch is None else (put(batch).tensor,)
        found: Any = function(self._numbers.tensor, points.tensor, *more)  # type: ignore[attr-defined]  # an array of the device
        is_tensor = hasattr(found, "detach")
        if not is_tensor or tuple(found.shape) != (len(x), *shape) or found.is_complex() or found.is_sparse:
            got = f"{found.dtype}, {found.layout}, of shape {tuple(found.shape)}" if is_tensor else f"a {type(found).__name__}"
            raise ValueError(f"{name} on a device must be a tensor of shape {(len(x), *shape)}, dense and real, got {got}")
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
        ``partial_subgradient(agent, x, columns) -> array`` of shape ``(d, c)``: the columns of the subgradient whose numbers are in
        the index array ``columns``, ``(c,)``; with ``stacked``, ``(agents, x, columns)``, and ``(len(agents), d, c)``. Methods that
        move blocks of columns then do not compute the other columns.

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
        for name, function in (("subgradient", subgradient), ("partial_subgradient", partial_subgradient)):
            if not callable(function) and not (function is None and name == "partial_subgradient"):
                raise TypeError(f"{name} must be a function, got {type(function).__name__}")
        super().__init__(value, subgradient, constraint, n_agents, stacked=stacked, gradient_on=gradient_on, n_samples=n_samples)
        self._partial = partial_subgradient

    def partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        """``(n_local, d, c)``: the columns ``(c,)`` of the subgradient, from all columns without a ``partial_subgradient``."""
        if self._partial is None:
            return self.gradient(x).take(columns, -1)
        some = self._partial
        return self._answers(
            "partial_subgradient", lambda agents, point: some(agents, point, columns), x, (self.shape[0], len(columns))
        )


def _called(what: str, function: Callable[..., object], arguments: tuple[object, ...]) -> NDArray[Any]:
    """The value of the function as an array; an error names the function and the agent."""
    try:
        result = function(*arguments)
    except Exception as error:
        if isinstance(error, ValueError) and "read-only" in str(error):
            raise ValueError(f"{what} must not write into x, the agent's own point ({error}): let it work on x.copy()") from error
        error.add_note(f"raised by {what}")
        raise
    return _array(what, result)


def _array(what: str, result: Any) -> NDArray[Any]:
    """The value of a function as an array."""
    if np.ma.is_masked(result):
        raise ValueError(f"{what} has masked entries, whose values are unknown: return np.ma.filled(..., 0.0) if that is meant")
    try:
        return np.asarray(result)
    except ValueError as error:
        raise ValueError(f"{what} must be one array of numbers, got a {type(result).__name__} of unequal parts") from error
    except Exception as error:  # a tensor that follows gradients, or lies on a GPU
        why = str(error).partition("\n")[0]
        raise TypeError(f"{what} must be an array of NumPy, got a {type(result).__name__} ({why})") from error


def _answer(what: str, function: Callable[..., object], arguments: tuple[object, ...], shape: tuple[int, ...]) -> Array:
    """A fresh float64 copy of the value of the function."""
    result = _called(what, function, arguments)
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
    if hasattr(found, "toarray"):
        return f"a {type(found).__name__}: return its toarray()"
    shown = " ".join(repr(found).split())
    cure = "return the numbers alone" if isinstance(found, dict | list) else "does the function end with `return`?"
    return f"{shown:.80}: {cure}"


def _counts(n_samples: int | Sequence[int] | Index, n_agents: int) -> Index:
    counts = np.asarray(n_samples)
    if counts.dtype.kind not in "iu":
        raise TypeError(f"n_samples must be whole numbers, got dtype {counts.dtype}")
    if counts.shape not in ((), (n_agents,)):
        raise ValueError(f"n_samples must be one number or one for each of the {n_agents} agents, got shape {counts.shape}")
    everywhere = np.broadcast_to(counts, (n_agents,)).astype(np.int64)
    low = np.flatnonzero(everywhere < 1)
    if len(low):
        raise ValueError(f"n_samples must be at least 1, got {everywhere[low[0]]} for agent {low[0]}")
    return everywhere
