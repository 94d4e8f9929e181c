"""A user's own objective with its gradient by automatic differentiation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ...protocols import Array, Index
from ..base import AgentProblem, C, Selection, selected
from ..functions import FunctionProblem
from .libraries import LIBRARIES, Backend, Library, Objective, Torch, candidates, each

_TRIED = 8
"""The number of agents whose results are compared, together and one at a time."""


class DifferentiatedProblem(AgentProblem[C]):
    """Objectives f(own, x) with gradients by automatic differentiation; `from_function` makes them.

    ``own`` are the numbers or data of all agents: an array, or a tuple of arrays, with the agents first; or a list of an item for
    each. The libraries of ``backends`` are tried in their order; a TypeError if none can differentiate f.
    """

    n_samples: Index
    """``(n_local,)``: the numbers of samples; set only where the agents have data."""

    def __init__(self, f: Objective, constraint: C, own: Any, n_agents: int, backends: Sequence[str]) -> None:
        super().__init__(n_agents, slice(0, n_agents), constraint)
        self._own = own
        point = self.start(0)
        points = np.repeat(point[None], min(n_agents, _TRIED), axis=0)
        self._library = _differentiating(f, backends, _items(own, len(points)), points)
        tried = self._library.evaluate(False, self._few(len(points)), points)
        if tried.dtype != np.float64:
            warnings.warn(
                f"f is computed in {tried.dtype}, not float64: gradients are accurate to about "
                f"{np.finfo(tried.dtype).eps if tried.dtype.kind == 'f' else 1.0:.0e}; give float64 data",
                stacklevel=3,
            )

    def _few(self, n: int) -> Any:
        """The first ``n`` agents' numbers or data, for the library."""
        few = _taken(self._own, slice(0, n))
        return self._library.arrays(few) if self._library.batched else [self._library.arrays(one) for one in _items(few, n)]

    def _take(self, local: Selection) -> None:
        self._own = _taken(self._own, local)
        if hasattr(self, "n_samples"):
            self.n_samples = self.n_samples[local]

    @cached_property
    def _arrays(self) -> Any:
        """The local agents' numbers or data, for the library."""
        return self._few(self.n_local)

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_arrays", "_blocks")} | {"_blocks": None}

    def value(self, x: Array) -> Array:
        return np.array(self._library.evaluate(False, self._arrays, x), dtype=np.float64)

    def gradient(self, x: Array) -> Array:
        """``(n_local, *shape)``: the gradients G_i(x_i)."""
        return np.array(self._library.evaluate(True, self._arrays, x), dtype=np.float64, order="C")

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, *shape)``: an unbiased gradient from the samples ``batch``, ``(n_local, b)``; a TypeError without data."""
        if not hasattr(self, "n_samples"):
            raise TypeError("gradients on a few samples need the agents' data: from_function(f, set, data=...)")
        return np.array(self._library.evaluate(True, self._arrays, x, batch), dtype=np.float64, order="C")


def from_function(
    f: Callable[[Any, Any], Any],
    set: C,
    n_agents: int | None = None,
    gradient: Callable[..., Array] | None = None,
    backend: Backend | Literal["auto"] = "auto",
    *,
    data: Any = None,
) -> AgentProblem[C]:
    """A problem with your own objective, differentiated automatically.

    All agents of a process are evaluated in one call where ``f`` permits it, with the same bits on any number of ranks (of the
    same machine type and library version).

    Parameters
    ----------
    f
        ``f(agent, x) -> number``, written with JAX, PyTorch or autograd; x has the shape ``set.shape``, and ``agent`` is its
        number. With ``data`` it is ``f(own, x)``, ``own`` the agent's array, or its tuple of arrays.
    set
        The feasible set, e.g. ``do.sets.Stiefel(d, r)``.
    n_agents
        The number of agents; that of ``data`` where it is given.
    gradient
        ``gradient(agent, x)``, or ``gradient(own, x)``: your own gradient, in place of automatic differentiation.
    backend
        The library: ``"jax"``, ``"torch"`` or ``"autograd"``; auto is the first one your program imported that can differentiate f.
    data
        For every agent an array, or a tuple of arrays, whose rows are its samples: a list of them, or one stacked array (a tuple of
        stacked arrays), which is not copied. Where f is a mean over the rows, mini-batches (``batch_size``) are unbiased. Agents
        with unequal numbers of rows are evaluated one after the other.

    Raises
    ------
    TypeError
        ``f`` is no function, or no library can differentiate it: gives their reasons.
    ValueError
        An unknown backend, no number of agents or two that differ, or rows of an agent's arrays that do not match.
    ModuleNotFoundError
        The library is not installed; names the command that installs it.
    """
    if not callable(f):
        raise TypeError(f"f must be a function f(agent, x), got {type(f).__name__}")
    own, count = (None, n_agents) if data is None else _arranged(data)
    if count is None or count < 1 or n_agents not in (None, count):
        wanted = "give n_agents, at least 1" if data is None else f"the data are those of {count} agents"
        raise ValueError(f"n_agents is {n_agents}: {wanted}")
    if gradient is not None:
        items: Any = range(count) if own is None else _items(own, count)
        derivative = gradient
        return FunctionProblem(lambda i, x: f(items[i], x), lambda i, x: derivative(items[i], x), set, count)
    rows = None if own is None else _rows(own, count)
    problem = DifferentiatedProblem(f, set, np.arange(count) if own is None else own, count, candidates(backend))
    if rows is not None:
        problem.n_samples = rows
    return problem


def _items(own: Any, n: int) -> list[Any]:
    """The numbers or data of the first ``n`` agents one by one."""
    if isinstance(own, list):
        return own[:n]
    if isinstance(own, tuple):
        return [tuple(a[i] for a in own) for i in range(n)]
    return [int(one) for one in own[:n]] if own.ndim == 1 else list(own[:n])


def _taken(own: Any, local: Selection) -> Any:
    """The numbers or data of some agents, as views where the selection is a slice."""
    return selected(own, local) if isinstance(own, list) else each(lambda a: a[local], own)


def _array(a: Any) -> Any:
    """The data as an array, float64 where they are not whole numbers; the data themselves where they are so already."""
    found = np.asarray(a)
    if found.dtype.kind not in "fiub" or found.ndim == 0:
        raise ValueError(
            f"the data must be arrays of real numbers whose rows are samples, got {found.dtype} of shape {found.shape}"
        )
    return found.astype(np.float64, copy=False) if found.dtype.kind == "f" else found


def _arranged(data: Any) -> tuple[Any, int]:
    """All agents' data, stacked where their shapes permit it, and the number of agents."""
    if isinstance(data, list) and data:
        items = [each(_array, one) for one in data]
        shapes = {each(np.shape, one) if isinstance(one, tuple) else (np.shape(one),) for one in items}
        if len(shapes) > 1:
            return items, len(items)
        own = tuple(map(np.stack, zip(*items, strict=True))) if isinstance(items[0], tuple) else np.stack(items)
        return own, len(items)
    own = each(_array, data)
    counts = {len(a) for a in own} if isinstance(own, tuple) else {len(own)}
    if len(counts) != 1:
        raise ValueError(f"the stacked arrays of data must have the agents first, got those of {sorted(counts)} agents")
    return own, counts.pop()


def _rows(own: Any, n: int) -> Index:
    """``(n,)``: the number of rows of each agent's arrays."""
    counts = []
    for agent, item in enumerate(_items(own, n)):
        rows = {np.shape(a)[:1] for a in (item if isinstance(item, tuple) else (item,))}
        if len(rows) != 1 or rows == {()} or (0,) in rows:
            raise ValueError(f"the arrays of agent {agent} must have equally many rows, at least one, got {sorted(rows)}")
        counts.append(rows.pop()[0])
    return np.array(counts, dtype=np.int64)


def _differentiating(f: Objective, backends: Sequence[str], items: list[Any], points: Array) -> Library:
    """The first library that can differentiate f, for all agents in one call where that works.

    PyTorch's calls have one agent each if the bits of a call with several differ from theirs.
    """
    reasons = []
    for name in backends:
        alone = LIBRARIES[name](f, batched=False)
        try:
            first = alone.evaluate(True, [alone.arrays(items[0])], points[:1])
        except Exception as error:  # whatever a user's function raises with another library's arrays
            reasons.append(f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
            continue
        if first.shape != points[:1].shape or first.dtype.kind != "f":
            reasons.append(f"{name}: the gradient is {first.dtype} of shape {first.shape[1:]}")
            continue
        return alone if name == "autograd" else _together(LIBRARIES[name](f, batched=True), items, points) or alone
    raise TypeError(f"f cannot be differentiated ({'; '.join(reasons)}): write it with one library, or give gradient=")


def _together(library: Library, items: list[Any], points: Array) -> Library | None:
    """The library that takes all agents in one call, None where f does not permit that."""
    try:
        own = tuple(map(np.stack, zip(*items, strict=True))) if isinstance(items[0], tuple) else np.stack(items)
        all_at_once = library.evaluate(True, library.arrays(own), points)
        single = [
            library.evaluate(True, library.arrays(_taken(own, slice(i, i + 1))), points[i : i + 1]) for i in range(len(points))
        ]
    except Exception:
        return None
    if isinstance(library, Torch) and all_at_once.tobytes() != np.concatenate(single).tobytes():
        library.chunk = 1
        library._made.cache_clear()
    return library
