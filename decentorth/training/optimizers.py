"""The base of the optimizers: orthonormal weights, their fields, and the landing algorithm.

A parameter of several dimensions is orthonormal as the matrix of its first dimension and all
others, for a convolution (out, rest); a wide matrix has orthonormal rows. The fields are those of
`decentorth.sets.Stiefel`, computed on PyTorch's arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import Parameter

from ..algorithms.common.automatic_steps import penalty_share
from ..numerics.torch_arrays import DeviceArray
from ..sets import Stiefel

Orthonormal: TypeAlias = "bool | Sequence[Parameter | str]"
Group: TypeAlias = dict[str, Any]
"""A parameter group of PyTorch: its parameters, ``lr``, ``penalty`` and ``tolerance``."""
TOLERANCE = 0.1
"""The default infeasibility above which a weight is projected: singular values from 0.95 to
1.05."""


class Weight:
    """A parameter as the tall matrix ``(1, d, r)`` whose columns are orthonormal."""

    def __init__(self, parameter: Parameter) -> None:
        self.parameter = parameter
        rows = len(parameter)
        columns = parameter[0].numel()
        self._matrix = rows, columns
        self._wide = rows < columns
        self.set: Any = Stiefel(max(rows, columns), min(rows, columns))

    def tall(self, x: Tensor) -> DeviceArray:
        """An array of the parameter's shape as the tall matrix."""
        x = x.reshape(self._matrix)
        return DeviceArray((x.T if self._wide else x)[None])

    def back(self, x: DeviceArray) -> Tensor:
        """The tall matrix as an array of the parameter's shape."""
        matrix = x.tensor[0]
        return (matrix.T if self._wide else matrix).reshape(self.parameter.shape)

    def landing(self, g: Tensor, penalty: float) -> Tensor:
        """The landing field of the set at the parameter."""
        share = DeviceArray(self.parameter.new_tensor([penalty]))
        return self.back(self.set.landing(self.tall(self.parameter), self.tall(g), share))

    def projected(self) -> Tensor:
        """The nearest orthonormal weight; of a near one by products alone, as a series."""
        return self.back(self.set.project(self.tall(self.parameter), "polar"))

    def feasibility(self) -> Tensor:
        """The infeasibility ||x^T x - I||_F."""
        return self.set.feasibility(self.tall(self.parameter)).tensor[0]


class Optimizer(torch.optim.Optimizer, ABC):
    """The base of the optimizers; a step is ``_move``."""

    _step_supports_amp_scaling = True  # an agent with an overflow must still send

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        orthonormal: Orthonormal,
        penalty: float | None,
        tolerance: float,
    ) -> None:
        for name, value in {"lr": lr, "penalty": penalty, "tolerance": tolerance}.items():
            if value is not None and not value > 0.0:
                raise ValueError(f"{name} must be positive, got {value}")
        self._complete = False
        super().__init__(params, {"lr": lr, "penalty": penalty, "tolerance": tolerance})
        self._complete = True
        self._check_types()
        self._weights = {p: Weight(p) for p in self._chosen(orthonormal)}

    def add_param_group(self, param_group: Group) -> None:
        """Refused after the start, when all agents have agreed on the parameters."""
        if self._complete:
            raise ValueError("all parameters must be given when the optimizer is made")
        super().add_param_group(param_group)

    def _set_penalty(self, share: float) -> None:
        """Set automatic penalties, of which ``share`` is the product with the step."""
        for group in self.param_groups:
            if group["penalty"] is None:
                group["penalty"] = share / group["lr"]

    def _parameters(self) -> list[Parameter]:
        return [p for group in self.param_groups for p in group["params"]]

    def _check_types(self) -> None:
        kinds = {(p.dtype, p.device) for p in self._parameters()}
        if len(kinds) > 1 or kinds.pop()[0] not in (torch.float32, torch.float64):
            found = sorted({f"{p.dtype} on {p.device}" for p in self._parameters()})
            raise ValueError(
                f"parameters must be all float32 or all float64, on one device, got "
                f"{', '.join(found)}: for lower precision use torch.autocast"
            )

    def _chosen(self, orthonormal: Orthonormal) -> list[Parameter]:
        """The parameters that are orthonormal."""
        if isinstance(orthonormal, bool):
            return [p for p in self._parameters() if orthonormal and p.ndim > 1]
        if isinstance(orthonormal, str):
            raise TypeError(
                f"orthonormal must be a list of names, got {orthonormal!r}: write [{orthonormal!r}]"
            )
        names = {
            name: p
            for group in self.param_groups
            for name, p in zip(group.get("param_names", ()), group["params"], strict=False)
        }
        known = {id(p) for p in self._parameters()}
        chosen = []
        for one in orthonormal:
            if isinstance(one, str) and one not in names:
                raise ValueError(
                    f"there is no parameter named {one!r}: give model.named_parameters() as "
                    f"parameters, whose names are {', '.join(names) or 'not given'}"
                )
            p = names[one] if isinstance(one, str) else one
            if id(p) not in known:
                raise ValueError(
                    "orthonormal must list parameters of this optimizer, such as "
                    "[model.fc1.weight], their names, or be True for all matrices"
                )
            if p.ndim < 2:
                raise ValueError(
                    f"a parameter of shape {tuple(p.shape)} is no matrix: only matrices can be "
                    "orthonormal"
                )
            chosen.append(p)
        return chosen

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Take a step with the gradients of ``backward``; the loss of the closure, if there is
        one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._move()
        return loss

    @abstractmethod
    def _move(self) -> None:
        """Change the parameters by their gradients."""

    def _gradients(self) -> Iterator[tuple[Group, Parameter, Tensor | None]]:
        """Each parameter with its gradient, None without a gradient or after an overflow."""
        # GradScaler sets both for the time of a step
        scale, overflow = (getattr(self, name, None) for name in ("grad_scale", "found_inf"))
        lost = overflow is not None and bool(overflow)
        for group in self.param_groups:
            for p in group["params"]:
                g = None if lost else p.grad
                if g is not None and scale is not None:
                    g = g / scale
                yield group, p, g

    def _field(self, group: Group, p: Parameter, g: Tensor) -> Tensor:
        """The landing field of an orthonormal parameter, the gradient of any other."""
        if p in self._weights:
            return self._weights[p].landing(g, group["penalty"])
        return g

    def _keep_near(self) -> None:
        """Project the orthonormal weights that are farther away than their tolerance."""
        near = [
            self._weights[p].feasibility() <= group["tolerance"]
            for group in self.param_groups
            for p in group["params"]
            if p in self._weights
        ]
        if not near or bool(torch.stack(near).all()):
            return
        chosen = [p for p in self._parameters() if p in self._weights]
        for p, is_near in zip(chosen, near, strict=True):
            if not is_near:
                p.copy_(self._weights[p].projected())

    def _project(self) -> None:
        for p, weight in self._weights.items():
            p.copy_(weight.projected())

    @torch.no_grad()
    def feasibility(self) -> float:
        """The largest infeasibility ||x^T x - I||_F of the orthonormal weights on this process."""
        return max((float(weight.feasibility()) for weight in self._weights.values()), default=0.0)


class Landing(Optimizer):
    """The landing algorithm, for one process or for a model in DistributedDataParallel.

    x <- x - lr Lambda(x), with the landing field Lambda(x) = skew(g x^T) x + penalty x (x^T x - I)
    of orthonormal weights and the gradient g of any other parameter. It is `DRFGT` of one agent.

    Parameters
    ----------
    params
        ``model.parameters()``, ``model.named_parameters()`` or parameter groups; float32 or
        float64.
    lr
        The step size.
    orthonormal
        The parameters that are orthonormal or, with named parameters, their names; True for all of
        two or more dimensions.
    penalty
        The penalty of the landing field; by default 0.1 / lr.
    tolerance
        The infeasibility ||x^T x - I||_F above which a weight is projected after a step.

    Examples
    --------
    >>> import torch
    >>> from decentorth.training import Landing
    >>> model = torch.nn.Linear(6, 2)
    >>> optimizer = Landing(model.parameters(), lr=0.1, orthonormal=[model.weight])
    >>> model(torch.randn(5, 6)).square().mean().backward()
    >>> optimizer.step()
    >>> optimizer.feasibility() < 0.1
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        orthonormal: Orthonormal,
        penalty: float | None = None,
        tolerance: float = TOLERANCE,
    ) -> None:
        super().__init__(params, lr, orthonormal, penalty, tolerance)
        self._set_penalty(penalty_share(2.0))
        with torch.no_grad():
            self._project()

    def _move(self) -> None:
        for group, p, g in self._gradients():
            if g is not None:
                p.sub_(self._field(group, p, g), alpha=group["lr"])
        self._keep_near()

    @torch.no_grad()
    def consolidate(self) -> None:
        """Project the orthonormal weights, which ends the training."""
        self._project()
