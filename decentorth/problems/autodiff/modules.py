"""PyTorch modules as decentralized problems: some parameters are orthonormal, the others free."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...protocols import Array
from ...sets import Euclidean, Flat, Stiefel
from .libraries import candidates
from .objective import AgentData, DifferentiatedProblem, arranged

Loss = Callable[[Any, Any], Any]
"""The loss of a module's output and targets."""


class ModuleProblem(DifferentiatedProblem[Flat]):
    """The loss of a PyTorch module on the agents' data; `from_module` makes it.

    A point ``(p, 1)`` has the entries of the orthonormal parameters, one after the other, then
    those of the free ones. A parameter of several dimensions is orthonormal as the matrix of its
    first dimension and all others; a wide matrix is stored transposed.

    Parameters
    ----------
    module, loss, orthogonal
        As in `from_module`, the module in float64.
    own
        All agents' data, as `DifferentiatedProblem` takes them.
    n_agents
        The number of agents.

    Examples
    --------
    >>> import decentorth as do
    >>> import torch
    >>> layer = torch.nn.Linear(6, 2, bias=False)
    >>> data = [(torch.randn(30, 6), torch.randn(30, 2)) for agent in range(4)]
    >>> loss = torch.nn.functional.mse_loss
    >>> problem = do.problems.from_module(layer, loss, data, orthogonal=["weight"])
    >>> problem.n_agents
    4
    """

    _function = "loss"
    _cure = "loss is called as loss(output, targets), with output = module(inputs)"

    def __init__(self, module: Any, loss: Loss, own: AgentData, orthogonal: Sequence[str]) -> None:
        from torch.func import functional_call

        self._module = module
        shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
        order = [*orthogonal, *(name for name in shapes if name not in orthogonal)]
        self._places: dict[str, tuple[slice, tuple[int, ...], bool]] = {}
        """The entries of a parameter, its shape, and true if it is wide and stored transposed."""
        sets: list[Stiefel | Euclidean] = []
        end = 0
        for name in order:
            start = end
            end = end + math.prod(shapes[name])
            n = math.prod(shapes[name][:1])
            p = math.prod(shapes[name][1:])
            wide = name in orthogonal and n < p
            self._places[name] = slice(start, end), shapes[name], wide
            if name in orthogonal:
                sets.append(Stiefel(max(n, p), min(n, p)))
        free = end - sum(one.shape[0] * one.shape[1] for one in sets)
        if free:
            sets.append(Euclidean(free, 1))

        def f(own: tuple[object, object], x: object) -> object:
            inputs, targets = own
            return loss(functional_call(module, self._parameters(x), (inputs,)), targets)

        super().__init__(f, Flat(*sets), own, candidates("torch"))

    def _parameters(self, x: Any) -> dict[str, Any]:
        """The module's parameters in points ``(..., p, 1)`` of NumPy or PyTorch, as views."""
        found = {}
        for name, (place, shape, wide) in self._places.items():
            part = x[..., place, 0]
            if wide:
                part = part.reshape(*part.shape[:-1], -1, shape[0]).swapaxes(-1, -2)
            found[name] = part.reshape((*x.shape[:-2], *shape))
        return found

    def start(self, seed: int) -> Array:
        """``(p, 1)``: the module's own parameters, the orthonormal ones moved to the nearest such
        point; the seed is not used."""
        point = np.empty((1, *self.shape))
        given = dict(self._module.named_parameters())
        for name, (place, shape, wide) in self._places.items():
            matrix = given[name].detach().numpy().reshape(*shape[:1], -1)
            if wide:
                matrix = matrix.T
            point[0, place, 0] = matrix.reshape(-1)
        return self.constraint.project(point)[0]

    def unpack(self, x: Array) -> Mapping[str, Array]:
        """The module's parameters in stacked points, by name, ``(n_local, ...)``."""
        return self._parameters(x)

    def module_at(self, x: Array) -> Any:
        """A copy of the module, in float64, with the parameters of one point ``(p, 1)``."""
        made = copy.deepcopy(self._module)
        found = self._parameters(x)
        for name, parameter in made.named_parameters():
            parameter.data = parameter.new_tensor(found[name])
        return made


def from_module(
    module: object, loss: Loss, data_of_each_agent: Sequence[object], orthogonal: Sequence[str] = ()
) -> ModuleProblem:
    """A problem whose point is a PyTorch module's parameters: f_i = loss(module(inputs_i),
    targets_i).

    All runs start from the module's own parameters; under ``mpirun`` every rank must make the same
    (``torch.manual_seed``). The module is copied, in float64, and not changed:
    ``problem.module_at(point)`` returns a trained one.

    Parameters
    ----------
    module
        A ``torch.nn.Module`` that is a function of its parameters and inputs alone.
    loss
        ``loss(output, targets) -> number``, a mean over the samples, e.g.
        ``torch.nn.functional.cross_entropy``.
    data_of_each_agent
        A list of ``(inputs, targets)`` with the samples first, or two stacked arrays with the
        agents first; arrays or tensors. A list may also hold PyTorch's data sets or loaders, whose
        samples are read once. Agents with equally many samples are evaluated in one call, where
        PyTorch can batch the module.
    orthogonal
        The names of parameters with orthonormal columns (rows where there are fewer rows), on
        Stiefel manifolds; others are free.

    Raises
    ------
    TypeError
        ``module`` is no module, or the loss cannot be differentiated.
    ValueError
        A name that is no parameter's, or one of a vector; a module with dropout or batch
        normalization, whose output is no function of the parameters and inputs alone; or data that
        do not fit.
    ModuleNotFoundError
        PyTorch is not installed.
    """
    candidates("torch")
    import torch

    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    for name, one in module.named_modules():
        layers = torch.nn.modules
        if isinstance(one, torch.nn.RNNBase | torch.nn.MultiheadAttention) and one.dropout > 0:
            raise ValueError(
                f"{type(one).__name__} ({name}) has random dropout={one.dropout}: set it to 0"
            )
        if isinstance(one, layers.dropout._DropoutNd | layers.batchnorm._NormBase):
            raise ValueError(
                f"{type(one).__name__} ({name}) depends on more than parameters and inputs: "
                "leave it out, or use LayerNorm"
            )
    shapes = {name: tuple(parameter.shape) for name, parameter in module.named_parameters()}
    if isinstance(orthogonal, (bool, str)):
        raise TypeError(
            "orthogonal must be a list of names of parameters, such as ['weight'], got "
            f"{orthogonal!r}"
        )
    for name in orthogonal:
        if name not in shapes:
            raise ValueError(f"the module has no parameter {name!r}; it has {', '.join(shapes)}")
        if len(shapes[name]) < 2:
            raise ValueError(
                f"the parameter {name!r} of shape {shapes[name]} is no matrix: only matrices can "
                "be orthogonal"
            )
    own = arranged(data_of_each_agent)
    for agent, item in enumerate(own.items):
        if own.bare or len(item) != 2:
            got = "an array" if own.bare else f"a tuple of {len(item)}"
            raise ValueError(
                f"the data of agent {agent} must be a tuple (inputs, targets), got {got}"
            )
    return ModuleProblem(copy.deepcopy(module).double(), loss, own, orthogonal)
