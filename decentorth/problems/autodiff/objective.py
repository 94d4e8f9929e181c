"""A user's own objective with its gradient by automatic differentiation."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from ...protocols import Array, Index
from ...settings import Count, check
from ..base import AgentProblem, C, Selection, selected
from ..functions import FunctionProblem, check_set
from .libraries import (
    LIBRARIES,
    Arrays,
    Backend,
    DerivativeLibrary,
    Objective,
    WrongAnswer,
    candidates,
)

_TRIED = 8
"""The number of agents whose results are compared, together and one at a time."""
_BATCH = 1024
"""The number of samples that are read together from a data set of PyTorch."""


class AgentData(NamedTuple):
    """The numbers or the arrays of all agents."""

    items: Sequence[Arrays]
    """The number or the arrays of each agent."""
    stacked: Arrays | None
    """The same stacked, agents first; None for arrays of different shapes."""
    bare: bool = True
    """True where f takes the only array of an agent, false for a tuple of arrays."""
    numbered: bool = False
    """True for the agents' numbers."""

    @staticmethod
    def numbers(n: int) -> AgentData:
        """The numbers of n agents."""
        return AgentData([(agent,) for agent in range(n)], (np.arange(n),), numbered=True)

    def take(self, local: Selection) -> AgentData:
        """The data of some agents, as views where the selection is a slice."""
        stacked = self.stacked
        if stacked is not None:
            stacked = tuple(a[local] for a in stacked)
        return self._replace(items=selected(self.items, local), stacked=stacked)

    def objective(self, f: Callable[..., object]) -> Objective:
        """The function of an agent's arrays and its point that calls ``f``."""
        return partial(_of_first, f) if self.bare else f

    def counts(self) -> Index:
        """``(n,)``: the number of rows of each agent's arrays."""
        counts = []
        for agent, item in enumerate(self.items):
            rows = {np.shape(a)[:1] for a in item}
            if len(rows) != 1 or rows <= {(), (0,)}:
                raise ValueError(
                    f"the arrays of agent {agent} must have equally many rows, at least one, got "
                    f"{sorted(rows)}"
                )
            counts.append(rows.pop()[0])
        return np.array(counts, dtype=np.int64)


def _of_first(f: Callable[..., object], own: Arrays, *given: object) -> object:
    return f(own[0], *given)


class DifferentiatedProblem(AgentProblem[C]):
    """Objectives f(own, x) with gradients by automatic differentiation; `from_function` makes them.

    The libraries of ``backends`` are tried in their order; a TypeError if none can differentiate f.
    """

    n_samples: Index
    """``(n_local,)``: the numbers of samples; set only where the agents have data."""
    _function: ClassVar[str] = "f"
    """The function that messages name."""
    _cure: ClassVar[str] = "write it with one library, or give gradient="
    """The advice where no library can differentiate it."""

    def __init__(
        self, f: Callable[..., object], constraint: C, own: AgentData, backends: Sequence[Backend]
    ) -> None:
        check_set(constraint)
        super().__init__(len(own.items), slice(0, len(own.items)), constraint)
        self._own = own
        if not own.numbered:
            self.n_samples = own.counts()
        points = np.repeat(self.start(0)[None], min(self.n_agents, _TRIED), axis=0)
        few = slice(0, len(points))
        self._library = self._differentiating(own.objective(f), backends, points[0])
        if self._library.batches:
            self._library = self._together(own.take(few), points) or self._library
        tried = self.restrict(few)._evaluate(False, points)
        if tried.dtype != np.float64:
            accuracy = np.spacing(tried.dtype.type(1))
            warnings.warn(
                f"f is computed in {tried.dtype}, not float64: gradients are accurate to about "
                f"{accuracy:.0e}; give float64 data",
                stacklevel=3,
            )

    def _differentiating(
        self, f: Objective, backends: Sequence[Backend], point: Array
    ) -> DerivativeLibrary:
        """The first library that can differentiate f of the first agent."""
        reasons = []
        cure = ""
        for name in backends:
            try:
                alone = LIBRARIES[name](f, self._own.numbered, batched=False)
                self._of_agent(alone, True, 0, alone.arrays(self._own.items[0]), point)
            except WrongAnswer as error:
                reasons.append(f"{name}: {error}")
            except Exception as error:  # whatever a user's function raises
                reasons.append(f"{name}: {_in_short(error)}")
                cure = f": {self._cure}"
            else:
                return alone
        raise TypeError(f"{self._function} cannot be differentiated ({'; '.join(reasons)}){cure}")

    def _together(self, tried: AgentData, points: Array) -> DerivativeLibrary | None:
        """The library that takes all agents in one call; None, with a warning for functions of
        data, where f does not permit that.

        Its results for agents together and one at a time are compared: where bits differ, agents
        are separated within a call.
        """
        if tried.stacked is None:
            return None
        library = self._library.changed(batched=True)
        try:
            library.evaluate(False, library.arrays(tried.stacked), points)
            all_at_once = library.evaluate(True, library.arrays(tried.stacked), points)
            single = []
            for i in range(len(points)):
                own = library.arrays(tuple(a[i : i + 1] for a in tried.stacked))
                single.append(library.evaluate(True, own, points[i : i + 1]))
        except Exception as error:  # whatever a user's function raises
            if not tried.numbered:
                self._warn_of(error, library)
            return None
        if all_at_once.tobytes() != np.concatenate(single).tobytes():
            library.separate()
        return library

    def _warn_of(self, error: Exception, library: DerivativeLibrary) -> None:
        warnings.warn(
            (
                f"{self._function} is evaluated one agent at a time, since {library.name} cannot "
                f"batch it ({_in_short(error)})"
            ),
            stacklevel=2,
        )

    def _take(self, local: Selection) -> None:
        self._own = self._own.take(local)
        if not self._own.numbered:
            self.n_samples = self.n_samples[local]

    @cached_property
    def _arrays(self) -> Arrays:
        """The numbers or arrays of all local agents, stacked, for a library that takes them
        together."""
        return self._library.arrays(self._own.stacked or ())

    @cached_property
    def _each(self) -> list[Arrays]:
        """The number or arrays of each local agent, for the library."""
        alone = self._library.changed(batched=False)
        return [alone.arrays(one) for one in self._own.items]

    def __getstate__(self) -> dict[str, object]:
        kept = {key: value for key, value in vars(self).items() if key not in ("_arrays", "_each")}
        return kept | {"_blocks": None}

    def _evaluate(self, gradient: bool, x: Array, *batch: Index) -> Array:
        """``(n_local,)`` or like x: f, or its gradient, in one call, or of one agent after the
        other where that fails."""
        if not self._library.batched:
            return self._one_by_one(self._library, gradient, x, *batch)
        try:
            return self._library.evaluate(gradient, self._arrays, x, *batch)
        except Exception as error:  # whatever a user's function raises
            failure = error
        alone = self._library.changed(batched=False)
        found = self._one_by_one(alone, gradient, x, *batch)
        self._warn_of(failure, alone)
        return found

    def _one_by_one(
        self, library: DerivativeLibrary, gradient: bool, *given: Array | Index
    ) -> Array:
        """``(n_local,)`` or like the points: f, or its gradient, by a library of one agent; an
        error names the agent."""
        agents = range(self.agents.start, self.agents.stop)
        each = zip(agents, self._each, *given, strict=True)
        return np.stack([self._of_agent(library, gradient, *one) for one in each])

    def _of_agent(
        self,
        library: DerivativeLibrary,
        gradient: bool,
        agent: int,
        own: Arrays,
        x: Array,
        *batch: Index,
    ) -> Array:
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
            raise WrongAnswer(
                f"the gradient of {what} must be real and have shape {x.shape}, got "
                f"{found.dtype} of shape {found.shape}"
            )
        return found

    def value(self, x: Array) -> Array:
        return np.array(self._evaluate(False, x), dtype=np.float64)

    def gradient(self, x: Array) -> Array:
        """``(n_local, *shape)``: the gradients G_i(x_i)."""
        return np.array(self._evaluate(True, x), dtype=np.float64, order="C")

    def gradient_on(self, x: Array, batch: Index) -> Array:
        """``(n_local, *shape)``: an unbiased gradient from the samples ``batch``, ``(n_local, b)``;
        a TypeError without data."""
        if self._own.numbered:
            raise TypeError("gradients on a few samples need data: from_function(f, set, data=...)")
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

    All agents of a process are evaluated in one call where ``f`` permits it, with the same bits on
    any number of ranks (of the same machine type and library version).

    Parameters
    ----------
    f
        ``f(agent, x) -> number``, written with JAX, PyTorch or autograd; x has the shape
        ``set.shape``, and ``agent`` is its number. With ``data`` it is ``f(own, x)``, ``own`` the
        agent's array, or its tuple of arrays.
    set
        The feasible set, e.g. ``do.sets.Stiefel(d, r)``.
    n_agents
        The number of agents; that of ``data`` where it is given.
    gradient
        ``gradient(agent, x)``, or ``gradient(own, x)``: your own gradient, in place of automatic
        differentiation.
    backend
        The library: ``"jax"``, ``"torch"`` or ``"autograd"``; auto is the first one your program
        imported that can differentiate f.
    data
        For every agent an array, or a tuple of arrays, whose rows are its samples: a list of them,
        or one stacked array (a tuple of stacked arrays), which is not copied. A list may also hold
        PyTorch's data sets or loaders, whose samples are read once. Where f is a mean over the
        rows, mini-batches (``batch_size``) are unbiased. Agents with unequal numbers of rows are
        evaluated one after the other.

    Raises
    ------
    TypeError
        ``f`` is no function, or no library can differentiate it: gives their reasons. During a run,
        when ``f`` returns something else than one real number; names the agent.
    ValueError
        An unknown backend, no number of agents or two that differ, or rows of an agent's arrays
        that do not match.
    ModuleNotFoundError
        The library is not installed; names the command that installs it.
    """
    if not callable(f):
        raise TypeError(f"f must be a function f(agent, x), got {type(f).__name__}")
    if n_agents is not None:
        n_agents = check("n_agents", Count, n_agents)
    if data is not None:
        own = arranged(data)
        for agent, arrays in enumerate(own.items):
            if len(arrays) != len(own.items[0]):
                raise ValueError(
                    f"agents {agent} and 0 must have equally many arrays, got {len(arrays)} and "
                    f"{len(own.items[0])}"
                )
        if n_agents not in (None, len(own.items)):
            raise ValueError(f"n_agents is {n_agents}, but the data have {len(own.items)} agents")
    elif n_agents is None:
        raise ValueError("n_agents is None: give n_agents, at least 1")
    else:
        own = AgentData.numbers(n_agents)
    if gradient is None:
        return DifferentiatedProblem(f, set, own, candidates(backend))
    value = own.objective(f)
    derivative = own.objective(gradient)

    def of_number(function: Callable[..., object]) -> Callable[[int, Array], Any]:
        return lambda agent, x: function(own.items[agent], x)

    return FunctionProblem(of_number(value), of_number(derivative), set, len(own.items))


def _array(a: object, whose: str) -> Array:
    """The data as an array, float64 where they are not whole numbers; the data themselves where
    they are so already."""
    try:
        found = np.asarray(a)
    except Exception as error:  # rows of unequal lengths, tensors on a GPU
        raise ValueError(f"the data{whose} cannot be made an array ({_in_short(error)})") from error
    if found.dtype.kind not in "fiub" or found.ndim == 0 or np.ma.is_masked(a):
        got = f"a {type(a).__name__} of {found.dtype}"
        if np.ma.is_masked(a):
            got = "masked entries"
        raise ValueError(
            f"the data{whose} must be an array of real numbers whose rows are samples, or a "
            f"tuple of them, got {got}"
        )
    return found.astype(np.float64, copy=False) if found.dtype.kind == "f" else found


def _is_of_samples(data: object) -> bool:
    """True for a data set or a loader of PyTorch."""
    torch_data: Any = sys.modules.get("torch.utils.data")
    return torch_data is not None and isinstance(data, torch_data.Dataset | torch_data.DataLoader)


def _samples(data: object) -> object:
    """The samples of a data set or a loader of PyTorch, read once: an array, or a tuple of
    arrays."""
    from torch.utils.data import DataLoader

    batches = list(data if isinstance(data, DataLoader) else DataLoader(data, batch_size=_BATCH))
    if not batches or not isinstance(batches[0], list | tuple):
        return np.concatenate(batches)
    columns = tuple(map(np.concatenate, zip(*batches, strict=True)))
    return columns if len(columns) > 1 else columns[0]


def _own(data: Any, whose: str = "") -> tuple[Arrays, bool]:
    """The arrays of an agent, or of all agents, and true for a single array that is in no tuple."""
    if _is_of_samples(data):
        try:
            data = _samples(data)
        except Exception as error:  # whatever a user's data set raises
            raise ValueError(
                f"the data{whose}, a {type(data).__name__}, cannot be read ({_in_short(error)})"
            ) from error
    bare = not isinstance(data, tuple)
    return tuple(_array(a, whose) for a in ([data] if bare else data)), bare


def arranged(data: object) -> AgentData:
    """All agents' data, stacked where their shapes permit it."""
    if isinstance(data, list) and data:
        given = [_own(one, f" of agent {agent}") for agent, one in enumerate(data)]
        items = [arrays for arrays, _ in given]
        bare = given[0][1]
        if len({tuple(map(np.shape, one)) for one in items}) > 1:
            return AgentData(items, None, bare)
        stacked = tuple(map(np.stack, zip(*items, strict=True)))
        return AgentData(list(zip(*stacked, strict=True)), stacked, bare)
    if _is_of_samples(data):
        raise ValueError(
            "data must be a list with a data set or loader for each agent, got one "
            f"{type(data).__name__}"
        )
    arrays, bare = _own(data)
    counts = {len(a) for a in arrays}
    if len(counts) != 1:
        raise ValueError(
            f"the stacked arrays of data must have the agents first, got those of {sorted(counts)} "
            "agents"
        )
    return AgentData(list(zip(*arrays, strict=True)), arrays, bare)


def _in_short(error: Exception) -> str:
    """The type of an error and the first line of its text."""
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]:.160}"
