"""The libraries of automatic differentiation: each evaluates f, or its gradient, for all local agents in one call.

The bits of an agent's result must not depend on how many agents are evaluated with it. JAX: compiled code for a batch differs with
its size, so that ``vmap`` does not keep bits; ``lax.map``, one compiled loop over the agents, does, at the same speed. PyTorch:
``vmap`` keeps bits for most functions; this is tested for each function when its problem is made, and otherwise ``vmap`` is called
with one agent at a time. autograd lacks batches: a loop over the agents, which other libraries have where a batch fails.
"""

from __future__ import annotations

import importlib.util
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from ...protocols import Array, Index

Backend = Literal["jax", "torch", "autograd"]
"""The libraries."""
Objective = Callable[[Any, Any], Any]
"""The objective ``f(own, x)`` of an agent with its number or its data ``own``."""


def arrays_of(own: Any) -> tuple[Any, ...]:
    """The arrays of an agent, or of all agents: one or several."""
    if isinstance(own, tuple):
        return own
    return (own,)


def each(function: Callable[[Any], Any], own: Any) -> Any:
    """The results for the arrays of an agent, or of all agents: a tuple where there are several, else one."""
    return like(own, map(function, arrays_of(own)))


def like(own: Any, found: Iterable[Any]) -> Any:
    """The results for arrays: a tuple where ``own`` is one, else the only result."""
    results = tuple(found)
    if isinstance(own, tuple):
        return results
    return results[0]


class WrongAnswer(TypeError):
    """A value of f that is not one real number, or a gradient that is not a real array like x."""


class DerivativeLibrary(ABC):
    """The objective f and its gradient by one library: of all agents in one call if ``batched``, else of one agent."""

    name: Backend
    batches: ClassVar[bool] = True
    """True if the library can evaluate all agents in one call."""

    def __init__(self, f: Objective, batched: bool) -> None:
        self.f, self.batched = f, batched
        self._made = cache(self._make)

    def __reduce__(self) -> Any:
        return type(self), (self.f, self.batched)

    def separate(self) -> None:  # noqa: B027  # most libraries need not
        """Evaluate one agent after the other within a call, where the library's batches change bits."""

    @abstractmethod
    def arrays(self, own: Any) -> Any:
        """The NumPy arrays of an agent, or of all agents, for the library, without a copy where it permits that."""

    @abstractmethod
    def _make(self, gradient: bool) -> Callable[..., Any]:
        """The function of ``(own, x)`` or ``(own, x, batch)`` for one agent, or with ``batched`` for all; f or its gradient."""

    @abstractmethod
    def _call(self, function: Callable[..., Any], *given: Any) -> Array:
        """The result of a function that `_make` made, as a NumPy array."""

    def evaluate(self, gradient: bool, own: Any, x: Array, *batch: Index) -> Array:
        """``(n_local,)`` or like ``x``: f, or its gradient, of every agent, from the samples ``(n_local, b)`` if given.

        Without the first axis where the library is not ``batched``.
        """
        return self._call(self._made(gradient), own, x, *batch)

    def _at(self, own: Any, x: Any, *batch: Any) -> Any:
        """The value f(own, x), from the samples whose numbers are in ``batch`` where it is given.

        Raises a `WrongAnswer` whose text is "got ..." where it is not one real number.
        """
        value = self.f(each(lambda a: a[batch[0]], own) if batch else own, x)
        if wrong := self._wrong(value):
            raise WrongAnswer(f"got {wrong}")
        return value

    def _wrong(self, value: Any) -> str:
        """The kind of a value of f and the advice, if it is not one real number of the library; else nothing."""
        if value is None:
            return "None: does the function end with `return`?"
        if isinstance(value, float):
            return ""
        if isinstance(value, int):
            return f"{value}, which does not depend on x: return {float(value)} if that is meant"
        if not hasattr(value, "dtype") or isinstance(value, np.ma.MaskedArray):
            return f"{type(value).__name__}: return the number itself"
        if "float" not in str(value.dtype):
            return f"dtype {value.dtype}: {_CURES.get(str(value.dtype).rpartition('.')[-1], 'it cannot be differentiated')}"
        shape = tuple(value.shape)
        return f"an array of shape {shape}: return its sum, its mean or one entry" if shape else ""


_REAL = "return its real part if that is meant"
_CURES = {"complex64": _REAL, "complex128": _REAL, "object": "compute it with the library's functions, not NumPy's"}
"""The advice for a value of a type that is not real, by its name."""


class Jax(DerivativeLibrary):
    """JAX, with float64 whatever its own setting is."""

    name = "jax"

    def arrays(self, own: Any) -> Any:
        import jax

        with jax.enable_x64(True):
            return own if isinstance(own, int) else each(jax.numpy.asarray, own)

    def _make(self, gradient: bool) -> Callable[..., Any]:
        import jax

        one = self._at
        if gradient:
            one = jax.grad(self._at, argnums=1)
        if self.batched:
            return jax.jit(lambda *given: jax.lax.map(lambda agent: one(*agent), given))
        by_number, by_data = jax.jit(one, static_argnums=0), jax.jit(one)
        return lambda own, *given: (by_number if isinstance(own, int) else by_data)(own, *given)

    def _call(self, function: Callable[..., Any], *given: Any) -> Array:
        import jax

        with jax.enable_x64(True):
            return np.asarray(function(*given))


class Torch(DerivativeLibrary):
    """PyTorch, on the processor."""

    name = "torch"
    chunk: int | None = None
    """The number of agents in a call of ``vmap``; None: all."""

    def __reduce__(self) -> Any:
        return *super().__reduce__(), {"chunk": self.chunk}

    def separate(self) -> None:
        self.chunk = 1
        self._made.cache_clear()

    def arrays(self, own: Any) -> Any:
        return own if isinstance(own, int) else each(_tensor, own)

    def _make(self, gradient: bool) -> Callable[..., Any]:
        import torch

        one = self._at
        if gradient:
            one = torch.func.grad(self._at, argnums=1)
        if self.batched:
            return torch.func.vmap(one, chunk_size=self.chunk)
        return one

    def _wrong(self, value: Any) -> str:
        import torch

        if value is not None and not isinstance(value, torch.Tensor):
            return f"{type(value).__name__}: return a tensor, without item(), float() or NumPy, which cut it off from x"
        return super()._wrong(value)

    def _call(self, function: Callable[..., Any], *given: Any) -> Array:
        own, *rest = given
        return function(own, *map(_tensor, rest)).detach().numpy()


def _tensor(a: Array) -> Any:
    """The array as a tensor; shared where it can be written into, since PyTorch lacks read-only tensors."""
    import torch

    return torch.from_numpy(np.require(a, requirements=["C", "W"]))


class Autograd(DerivativeLibrary):
    """autograd, whose functions are those of ``autograd.numpy``."""

    name = "autograd"
    batches = False

    def arrays(self, own: Any) -> Any:
        return own

    def _make(self, gradient: bool) -> Callable[..., Any]:
        import autograd

        if gradient:
            return autograd.grad(self._at, 1)
        return self._at

    def _wrong(self, value: Any) -> str:
        return super()._wrong(getattr(value, "_value", value))  # autograd follows a value in a box

    def _call(self, function: Callable[..., Any], *given: Any) -> Array:
        return np.asarray(function(*given))


LIBRARIES: dict[str, type[DerivativeLibrary]] = {"jax": Jax, "torch": Torch, "autograd": Autograd}


def candidates(backend: str) -> tuple[str, ...]:
    """The libraries to try: the named one; for auto the imported libraries, or else the installed ones.

    A ValueError for an unknown name; a ModuleNotFoundError names the command that installs the library.
    """
    names = get_args(Backend)
    if backend == "auto":
        imported = tuple(name for name in names if name in sys.modules)
        found = imported or tuple(name for name in names if importlib.util.find_spec(name))
        if not found:
            raise ModuleNotFoundError(
                'a gradient needs JAX, PyTorch or autograd: pip install "decentorth[autograd]", or give gradient='
            )
        return found
    if backend not in names:
        raise ValueError(f"backend must be 'auto', {', '.join(map(repr, names))}, got {backend!r}")
    if importlib.util.find_spec(backend) is None:
        raise ModuleNotFoundError(f'backend={backend!r} needs {backend}: pip install "decentorth[{backend}]"', name=backend)
    return (backend,)
