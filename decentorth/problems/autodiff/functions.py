"""A user's own objective with its gradient by automatic differentiation."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np

from ...protocols import Array, Index
from ...settings import Count, check
from ..base import AgentProblem, C, Selection, selected
from ..functions import FunctionProblem
from .libraries import LIBRARIES, Backend, DerivativeLibrary, Objective, WrongAnswer, arrays_of, candidates, each, like

_TRIED = 8
"""The number of agents whose results are compared, together and one at a time."""
_BATCH = 1024
"""The number of samples that are read together from a data set of PyTorch."""


class DifferentiatedProblem(AgentProblem[C]):
    """Objectives f(own, x) with gradients by automatic differentiation; `from_function` makes them.

    ``own`` are the numbers or data of all agents: an array, or a tuple of arrays, with the agents first; or a list of an item for
    each. The libraries of ``backends`` are tried in their order; a TypeError if none can differentiate f.
    """

    n_samples: Index
    """``(n_local,)``: the numbers of samples; set only where the agents have data."""
    _function: ClassVar[str] = "f"
    """The function that messages name."""
    _cure: ClassVar[str] = "write it with one library, or give gradient="
    """The advice where no library can differentiate it."""

    def __init__(self, f: Objective, constraint: C, own: Any, n_agents: int, backends: Sequence[str]) -> None:
        super().__init__(n_agents, slice(0, n_agents), constraint)
        self._own = own
        points = np.repeat(self.start(0)[None], min(n_agents, _TRIED), axis=0)
        items = _items(own, len(points))
        self._library = self._differentiating(f, backends, items[0], points[0])
        if self._library.batches and not isinstance(own, list):  # which data of several shapes are
            self._library = self._together(type(self._library)(f, batched=True), items, points) or self._library
        tried = self.restrict(slice(0, len(points)))._evaluate(False, points)
        if tried.dtype != np.float64:
            warnings.warn(
                f"f is computed in {tried.dtype}, not float64: gradients are accurate to about "
                f"{np.spacing(tried.dtype.type(1)):.0e}; give float64 data",
                stacklevel=3,
            )

    def _differentiating(self, f: Objective, backends: Sequence[str], item: Any, point: Array) -> DerivativeLibrary:
        """The first library that can differentiate f of the first agent."""
        reasons, cure = [], ""
        for name in backends:
            alone = LIBRARIES[name](f, batched=False)
            try:
                self._of_agent(alone, True, 0, alone.arrays(item), point)
            except WrongAnswer as error:
                reasons.append(f"{name}: {error}")
            except Exception as error:  # whatever a user's function raises with another library's arrays
                reasons.append(f"{name}: {_in_short(error)}")
                cure = f": {self._cure}"
            else:
                return alone
        raise TypeError(f"{self._function} cannot be differentiated ({'; '.join(reasons)}){cure}")

    def _together(self, library: DerivativeLibrary, items: list[Any], points: Array) -> DerivativeLibrary | None:
        """The library that takes all agents in one call; None, with a warning for functions of data, where f does not permit that.

        PyTorch's calls have one agent each if the bits of a call with several differ from theirs.
        """
        own = _stacked(items)
        try:
            library.evaluate(False, library.arrays(own), points)
            all_at_once = library.evaluate(True, library.arrays(own), points)
            each_alone = [slice(i, i + 1) for i in range(len(points))]
            single = [library.evaluate(True, library.arrays(_taken(own, one)), points[one]) for one in each_alone]
        except Exception as error:  # whatever a user's function raises
            if not isinstance(items[0], int):
                self._warn_of(error, library)
            return None
        if all_at_once.tobytes() != np.concatenate(single).tobytes():
            library.separate()
        return library

    def _warn_of(self, error: Exception, library: DerivativeLibrary) -> None:
        warnings.warn(
            f"{self._function} is evaluated one agent at a time, since {library.name} cannot batch it ({_in_short(error)})",
            stacklevel=2,
        )

    def _take(self, local: Selection) -> None:
        self._own = _taken(self._own, local)
        if "n_samples" in vars(self):
            self.n_samples = self.n_samples[local]

    @cached_property
    def _arrays(self) -> Any:
        """The local agents' numbers or data, for the library: stacked, or a list of an item for each."""
        if self._library.batched:
            return self._library.arrays(self._own)
        return [self._library.arrays(one) for one in _items(self._own, self.n_local)]

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_arrays", "_blocks")} | {"_blocks": None}

    def _evaluate(self, gradient: bool, x: Array, *batch: Index) -> Array:
        """``(n_local,)`` or like x: f, or its gradient, in one call, or of one agent after the other where that fails."""
        if not self._library.batched:
            return self._one_by_one(self._library, self._arrays, gradient, x, *batch)
        try:
            return self._library.evaluate(gradient, self._arrays, x, *batch)
        except Exception as error:  # whatever a user's function raises
            failure = error
        alone = type(self._library)(self._library.f, batched=False)
        items = [alone.arrays(one) for one in _items(self._own, self.n_local)]
        found = self._one_by_one(alone, items, gradient, x, *batch)
        self._warn_of(failure, alone)
        return found

    def _one_by_one(self, library: DerivativeLibrary, items: list[Any], gradient: bool, *given: Array | Index) -> Array:
        """``(n_local,)`` or like the points: f, or its gradient, by a library of one agent; an error names the agent."""
        agents = range(self.agents.start, self.agents.stop)
        return np.stack([self._of_agent(library, gradient, *one) for one in zip(agents, items, *given, strict=True)])

    def _of_agent(self, library: DerivativeLibrary, gradient: bool, agent: int, own: Any, x: Array, *batch: Index) -> Array:
        """The value of f of one agent, or its gradient like x; an error names the agent."""
        what = f"{self._function} of agent {agent}"
        try:
            found = library.evaluate(gradient, own, x, *batch)
        except WrongAnswer as error:
            raise WrongAnswer(f"{what} must be one real number, {error}") from None
        except Exception as error:  # whatever a user's function raises
            error.add_note(f"raised by {what}")
            raise
        if gradient and (found.shape != x.shape or found.dtype.kind != "f"):
            got = f"{found.dtype} of shape {found.shape}"
            raise WrongAnswer(f"the gradient of {what} must be real and have shape {x.shape}, got {got}")
        return found

    def value(self, x: Array) -> Array:
        return np.array(self._evaluate(False, x), dtype=np.float64)

    def gradient(self, x: Array) -> Array:
        """``(n_local, *shape)``: the gradients G_i(x_i)."""
        return np.array(self._evaluate(True, x), dtype=np.float64, order="C")

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, *shape)``: an unbiased gradient from the samples ``batch``, ``(n_local, b)``; a TypeError without data."""
        if "n_samples" not in vars(self):
            raise TypeError("gradients on a few samples need the agents' data: from_function(f, set, data=...)")
        return np.array(self._evaluate(True, x, batch), dtype=np.float64, order="C")


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
        stacked arrays), which is not copied. A list may also hold PyTorch's data sets or loaders, whose samples are read once.
        Where f is a mean over the rows, mini-batches (``batch_size``) are unbiased. Agents with unequal numbers of rows are
        evaluated one after the other.

    Raises
    ------
    TypeError
        ``f`` is no function, or no library can differentiate it: gives their reasons. During a run, when ``f`` returns something
        else than one real number; names the agent.
    ValueError
        An unknown backend, no number of agents or two that differ, or rows of an agent's arrays that do not match.
    ModuleNotFoundError
        The library is not installed; names the command that installs it.
    """
    if not callable(f):
        raise TypeError(f"f must be a function f(agent, x), got {type(f).__name__}")
    if n_agents is not None:
        n_agents = check("n_agents", Count, n_agents)
    own, count = (None, n_agents) if data is None else _arranged(data)
    if count is None or n_agents not in (None, count):
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
    return own[:n].tolist() if own.ndim == 1 else list(own[:n])


def _stacked(items: list[Any]) -> Any:
    """The numbers or data of several agents, stacked."""
    return like(items[0], map(np.stack, zip(*map(arrays_of, items), strict=True)))


def _taken(own: Any, local: Selection) -> Any:
    """The numbers or data of some agents, as views where the selection is a slice."""
    if isinstance(own, list):
        return selected(own, local)
    return each(lambda a: a[local], own)


def _named(data: Any) -> str:
    """The type of data, and the shapes of arrays."""
    if isinstance(data, np.ndarray) and data.dtype != object:
        return f"{data.dtype} of shape {data.shape}"
    if isinstance(data, tuple):
        return f"a tuple of {len(data)}"
    return f"a {type(data).__name__}"


def _array(a: Any, whose: str = "") -> Any:
    """The data as an array, float64 where they are not whole numbers; the data themselves where they are so already."""
    try:
        found = np.asarray(a)
    except Exception as error:  # rows of unequal lengths, tensors on a GPU
        raise ValueError(f"the data{whose} cannot be made an array ({_in_short(error)})") from error
    if found.dtype.kind not in "fiub" or found.ndim == 0 or np.ma.is_masked(a):
        got = "masked entries" if np.ma.is_masked(a) else _named(found if found.ndim else a)
        raise ValueError(f"the data{whose} must be an array of real numbers whose rows are samples, or a tuple of them, got {got}")
    return found.astype(np.float64, copy=False) if found.dtype.kind == "f" else found


def _is_of_samples(data: Any) -> bool:
    """True for a data set or a loader of PyTorch."""
    torch_data: Any = sys.modules.get("torch.utils.data")
    return torch_data is not None and isinstance(data, torch_data.Dataset | torch_data.DataLoader)


def _samples(data: Any) -> Any:
    """The samples of a data set or a loader of PyTorch, read once: an array, or a tuple of arrays."""
    from torch.utils.data import DataLoader

    batches = list(data if isinstance(data, DataLoader) else DataLoader(data, batch_size=_BATCH))
    if not batches or not isinstance(batches[0], list | tuple):
        return np.concatenate(batches)
    columns = tuple(map(np.concatenate, zip(*batches, strict=True)))
    return columns if len(columns) > 1 else columns[0]


def _item(agent: int, data: Any) -> Any:
    """The data of an agent as an array, or a tuple of arrays."""
    whose = f" of agent {agent}"
    if _is_of_samples(data):
        try:
            data = _samples(data)
        except Exception as error:  # whatever a user's data set raises
            raise ValueError(f"the data{whose}, a {type(data).__name__}, cannot be read ({_in_short(error)})") from error
    return each(partial(_array, whose=whose), data)


def _arranged(data: Any) -> tuple[Any, int]:
    """All agents' data, stacked where their shapes permit it, and the number of agents."""
    if isinstance(data, list) and data:
        items = [_item(agent, one) for agent, one in enumerate(data)]
        shapes = {tuple(map(np.shape, arrays_of(one))) for one in items}
        return (items if len(shapes) > 1 else _stacked(items)), len(items)
    if _is_of_samples(data):
        raise ValueError(f"data must be a list with a data set or loader for each agent, got one {type(data).__name__}")
    own = each(_array, data)
    counts = {len(a) for a in arrays_of(own)}
    if len(counts) != 1:
        raise ValueError(f"the stacked arrays of data must have the agents first, got those of {sorted(counts)} agents")
    return own, counts.pop()


def _rows(own: Any, n: int) -> Index:
    """``(n,)``: the number of rows of each agent's arrays."""
    counts = []
    for agent, item in enumerate(_items(own, n)):
        rows = {np.shape(a)[:1] for a in arrays_of(item)}
        if len(rows) != 1 or rows == {()} or (0,) in rows:
            raise ValueError(f"the arrays of agent {agent} must have equally many rows, at least one, got {sorted(rows)}")
        counts.append(rows.pop()[0])
    return np.array(counts, dtype=np.int64)


def _in_short(error: Exception) -> str:
    """The type of an error and the first line of its text."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.160}"
