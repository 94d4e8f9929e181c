"""The libraries of automatic differentiation: each evaluates f, or its gradient, for all local
agents in one call.

The bits of an agent's result must not depend on how many agents are evaluated with it. JAX:
compiled code for a batch differs with its size, so that ``vmap`` does not keep bits; ``lax.map``,
one compiled loop over the agents, does, at the same speed. PyTorch: ``vmap`` keeps bits for most
functions; this is tested for each function when its problem is made, and otherwise ``vmap`` is
called with one agent at a time. autograd lacks batches: a loop over the agents, which other
libraries have where a batch fails.
"""

from __future__ import annotations

import importlib.util
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np

from ...protocols import Array, Index

Backend = Literal["jax", "torch", "autograd"]
"""The libraries."""
Arrays = tuple[Any, ...]
"""The number of an agent, or its arrays; or those of all agents."""
Objective = Callable[..., Any]
"""The objective ``f(own, x)`` of an agent with these arrays."""
Function = Callable[..., Any]
"""A function of ``(own, x)`` or ``(own, x, batch)`` of a library."""


class WrongAnswer(TypeError):
    """A value of f that is not one real number, or a gradient that is not a real array like x."""


def _imported(name: Backend) -> Any:
    """The library."""
    match name:
        case "jax":
            import jax

            return jax
        case "torch":
            import torch

            return torch
        case "autograd":
            import autograd

            return autograd


class DerivativeLibrary(ABC):
    """The objective f and its gradient by one library: of all agents in one call if ``batched``,
    else of one agent.

    ``numbered`` is true where f takes the agents' numbers.
    """

    name: Backend
    batches: ClassVar[bool] = True
    """True if the library can evaluate all agents in one call."""

    def __init__(self, f: Objective, numbered: bool, batched: bool) -> None:
        self.f = f
        self.numbered = numbered
        self.batched = batched
        self._made = cache(self._make)
        self._library = _imported(self.name)

    def __reduce__(self) -> Any:
        return type(self), (self.f, self.numbered, self.batched)

    def changed(self, batched: bool) -> Self:
        """The library for all agents in one call, or for one agent."""
        if batched == self.batched:
            return self
        return type(self)(self.f, self.numbered, batched)

    def separate(self) -> None:  # noqa: B027  # most libraries need not
        """Evaluate one agent after the other within a call, where the library's batches change
        bits."""

    def arrays(self, own: Arrays) -> Arrays:
        """The NumPy arrays of an agent, or of all agents, for the library, without a copy where it
        permits that."""
        if self.numbered and not self.batched:
            return own
        return tuple(map(self._array, own))

    @abstractmethod
    def _array(self, a: Array) -> object:
        """The array for the library."""

    @abstractmethod
    def _make(self, gradient: bool) -> Function:
        """The function for one agent, or with ``batched`` for all; f or its gradient."""

    @abstractmethod
    def _call(self, function: Function, *given: object) -> Array:
        """The result of a function that `_make` made, as a NumPy array."""

    def evaluate(self, gradient: bool, own: Arrays, x: Array, *batch: Index) -> Array:
        """Return f, ``(n_local,)``, or its gradient, shaped like ``x``, for every agent.

        If samples ``(n_local, b)`` are given, only these are used. If the library is not
        ``batched``, the first axis is missing.
        """
        return self._call(self._made(gradient), own, x, *batch)

    def _at(self, own: Arrays, x: object, *batch: object) -> object:
        """The value f(own, x), from the samples whose numbers are in ``batch`` where it is given.

        Raises a `WrongAnswer` whose text is "got ..." where it is not one real number.
        """
        for rows in batch:
            own = tuple(a[rows] for a in own)
        value = self.f(own, x)
        if wrong := self._wrong(value):
            raise WrongAnswer(f"got {wrong}")
        return value

    def _wrong(self, value: Any) -> str:
        """The kind of a value of f and the advice, if it is not one real number of the library;
        else nothing."""
        match value:
            case None:
                return "None: does the function end with `return`?"
            case float():
                return ""
            case int():
                return (
                    f"{value}, which does not depend on x: return {float(value)} if that is meant"
                )
        dtype = str(getattr(value, "dtype", ""))
        if not dtype or np.ma.isMaskedArray(value):
            return f"{type(value).__name__}: return the number itself"
        if "complex" in dtype:
            return f"dtype {dtype}: return its real part if that is meant"
        if dtype == "object":
            return "dtype object: compute it with the library's functions, not NumPy's"
        if "float" not in dtype:
            return f"dtype {dtype}: it cannot be differentiated"
        shape = tuple(value.shape)
        return f"an array of shape {shape}: return its sum, its mean or one entry" if shape else ""


class Jax(DerivativeLibrary):
    """JAX, with float64 whatever its own setting is."""

    name = "jax"

    def _array(self, a: Array) -> object:
        with self._library.enable_x64(True):
            return self._library.numpy.asarray(a)

    def _make(self, gradient: bool) -> Function:
        jax = self._library
        one = self._at
        if gradient:
            one = jax.grad(self._at, argnums=1)
        if self.batched:
            return jax.jit(lambda *given: jax.lax.map(lambda agent: one(*agent), given))
        return jax.jit(one, static_argnums=0 if self.numbered else None)

    def _call(self, function: Function, *given: object) -> Array:
        with self._library.enable_x64(True):
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

    def _array(self, a: Array) -> object:
        """The array as a tensor; shared where it can be written into, since PyTorch lacks read-only
        tensors."""
        return self._library.from_numpy(np.require(a, requirements=["C", "W"]))

    def _make(self, gradient: bool) -> Function:
        func = self._library.func
        one = self._at
        if gradient:
            one = func.grad(self._at, argnums=1)
        if self.batched:
            return func.vmap(one, chunk_size=self.chunk)
        return one

    def _wrong(self, value: object) -> str:
        if value is not None and not isinstance(value, self._library.Tensor):
            return (
                f"{type(value).__name__}: return a tensor, without item(), float() or NumPy, "
                "which cut it off from x"
            )
        return super()._wrong(value)

    def _call(self, function: Function, *given: Any) -> Array:
        own, *rest = given
        return function(own, *map(self._array, rest)).detach().numpy()


class Autograd(DerivativeLibrary):
    """autograd, whose functions are those of ``autograd.numpy``."""

    name = "autograd"
    batches = False

    def _array(self, a: Array) -> Array:
        return a

    def _make(self, gradient: bool) -> Function:
        return self._library.grad(self._at, 1) if gradient else self._at

    def _wrong(self, value: object) -> str:
        return super()._wrong(getattr(value, "_value", value))  # autograd follows a value in a box

    def _call(self, function: Function, *given: object) -> Array:
        return np.asarray(function(*given))


LIBRARIES: dict[str, type[DerivativeLibrary]] = {"jax": Jax, "torch": Torch, "autograd": Autograd}


def candidates(backend: str) -> tuple[Backend, ...]:
    """The libraries to try: the named one; for auto the imported libraries, or else the installed
    ones.

    A ValueError for an unknown name; a ModuleNotFoundError names the command that installs the
    library.
    """
    names: tuple[Backend, ...] = get_args(Backend)
    if backend == "auto":
        imported = tuple(name for name in names if name in sys.modules)
        found = imported or tuple(name for name in names if importlib.util.find_spec(name))
        if not found:
            raise ModuleNotFoundError(
                "a gradient needs JAX, PyTorch or autograd: pip install autograd, or give gradient="
            )
        return found
    if backend not in names:
        raise ValueError(f"backend must be 'auto', {', '.join(map(repr, names))}, got {backend!r}")
    if importlib.util.find_spec(backend) is None:
        raise ModuleNotFoundError(
            f"backend={backend!r} needs {backend}: pip install {backend}", name=backend
        )
    return tuple(name for name in names if name == backend)
