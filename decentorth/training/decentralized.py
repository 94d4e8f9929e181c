"""Gradient tracking over neighbours in a graph: DRFGT, and without orthonormal weights.

With the field F_i of agent i at its parameters x_i (the landing field of an orthonormal weight, the
gradient of any other) and trackers y_i, a step of ``adapt-then-combine`` is

    y_i <- sum_j W_ij (y_j + F_j(new x_j) - F_j(old x_j)),  y_i = F_i in the first step
    x_i <- sum_j W_ij (x_j - lr y_j)

and one of ``combine-then-adapt`` (paper 004 (10))

    y_i <- sum_j W_ij y_j + F_i(new x_i) - F_i(old x_i)
    x_i <- sum_j W_ij x_j - lr y_i

whose message (x_j, y_j) is under way while the next gradient is computed.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed import ProcessGroup
from torch.nn import Parameter

import topologies

from ..algorithms.common.automatic_steps import Order, penalty_share, tracking_limit
from .agents import Agent
from .links import Links, Request, Rounds
from .optimizers import TOLERANCE, Optimizer, Orthonormal
from .processes import Processes

ORDERS = ("adapt-then-combine", "combine-then-adapt")
_ROUNDING = 1e-12
"""The rounding error of an eigenvalue of W."""


class DRFGT(Optimizer):
    """Decentralized retraction-free gradient tracking, one agent for each process.

    Every process has its own model and data. All start from the parameters of process 0. The
    gradients of a parameter that has none, or overflowed with GradScaler, count as unchanged.

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
        The penalty of the landing field; by default 0.1 / lr, smaller where W has eigenvalues near
        -1.
    tolerance
        The infeasibility ||x^T x - I||_F above which an agent projects a weight after a step.
    graph
        The name of a graph or a networkx graph, with Metropolis weights, or a matrix W.
    order
        ``adapt-then-combine``, two messages to each neighbour in a step, or
        ``combine-then-adapt``, one of both arrays, under way during the next gradient. The second
        one needs weights without negative eigenvalues.
    messages
        The type of the numbers in messages: that of the parameters, or ``torch.bfloat16``.
    group
        A process group, by default that of all processes, or one of `Agents`.

    Raises
    ------
    ValueError
        There is no process group, processes have different models or graphs, or the order is not
        stable with these weights.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        orthonormal: Orthonormal,
        penalty: float | None = None,
        tolerance: float = TOLERANCE,
        graph: Any = "ring",
        order: Order = "adapt-then-combine",
        messages: torch.dtype | None = None,
        group: ProcessGroup | Agent | None = None,
    ) -> None:
        super().__init__(params, lr, orthonormal, penalty, tolerance)
        if order not in ORDERS:
            raise ValueError(f"order must be {' or '.join(map(repr, ORDERS))}, got {order!r}")
        first = self._parameters()[0]
        if messages not in (None, first.dtype, torch.bfloat16):
            raise ValueError(
                f"messages must be torch.bfloat16 or, by default, {first.dtype}, got {messages}"
            )
        self._order = order
        if isinstance(group, Agent):
            group.take(self._parameters())
            self._links: Links = group
        else:
            self._links = Processes(group, first.device)
        W = mixing(graph, self._links.size)
        limit = check_order(W, order)
        self._set_penalty(penalty_share(limit))
        row = dict(enumerate(W.toarray()[self._links.rank].tolist()))
        size = sum(p.numel() for p in self._parameters())
        arrays = 2 if order == "combine-then-adapt" else 1
        self._links.connect(row, messages or first.dtype, arrays * size)
        facts = zlib.crc32(repr((W.toarray().tolist(), order, str(messages))).encode())
        shapes = zlib.crc32(repr([tuple(p.shape) for p in self._parameters()]).encode())
        with torch.no_grad():
            self._links.run(f"{type(self).__name__}(...)", self._start([facts, shapes]))

    @property
    def bytes_sent(self) -> int:
        """The bytes that this agent has sent to its neighbours."""
        return self._links.sent

    def batches(self, loader: Any) -> Iterator[Any]:
        """The batches of a loader, as many as the shortest loader of all processes has.

        Called by every process at the start of an epoch.
        """
        if not hasattr(loader, "__len__"):
            raise TypeError(
                "a loader without a length cannot be compared: take "
                "itertools.islice(loader, steps) with the same number of steps on every process"
            )
        steps = self._links.shortest(len(loader))
        if steps == len(loader):  # to its end, where a sampler may draw once more
            return iter(loader)
        return itertools.islice(loader, steps)

    @torch.no_grad()
    def consolidate(self, buffers: Iterable[Tensor] = ()) -> None:
        """Give every process the same model, the mean of all; this ends the training.

        Orthonormal weights are projected. Called by every process.

        Parameters
        ----------
        buffers
            Tensors that are averaged too, as ``model.buffers()`` with the statistics of BatchNorm;
            integers are left.
        """
        self._links.end()
        floating = [one for one in buffers if one.is_floating_point()]
        self._links.run("consolidate()", self._meeting(floating))

    def feasibility(self) -> float:
        """The largest infeasibility ||x^T x - I||_F of the orthonormal weights on this process."""
        self._links.check_ready()
        return super().feasibility()

    def state_dict(self) -> dict[str, Any]:
        """The state of this agent, with its number."""
        self._links.check_ready()
        return super().state_dict() | {"agent": self._links.rank}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the state that this process saved; every process loads that of the same step."""
        saved, own = state_dict.get("agent"), self._links.rank
        if saved != own:
            raise ValueError(
                f"this is the state of agent {saved}, not of agent {own}: every process loads what "
                "it has saved itself"
            )
        self._links.forget()
        super().load_state_dict(state_dict)

    def _start(self, facts: list[int]) -> Rounds:
        """Take agent 0's parameters, projected, on every agent."""
        x = self._flat(self._parameters())
        every = yield Request.ALL, torch.tensor(facts, device=x.device)
        different = (every != every[0]).any(dim=1).nonzero().flatten().tolist()
        if different:
            raise ValueError(
                "the shapes of the parameters, the graph, the order and the type of messages must "
                "be the same on every process; they differ from process 0's on process "
                f"{', '.join(map(str, different))}"
            )
        x = yield Request.FIRST, x
        self._place(x)
        self._project()

    def _meeting(self, buffers: list[Tensor]) -> Rounds:
        """Take the mean of all agents' parameters and buffers."""
        x = yield Request.MEAN, self._flat(self._parameters())
        self._place(x)
        self._project()
        for buffer in buffers:
            mean = yield Request.MEAN, buffer
            buffer.copy_(mean)

    def _move(self) -> None:
        self._links.run("step()", self._rounds())

    def _rounds(self) -> Rounds:
        """A step; it reads gradients and step sizes before it first waits."""
        first = not self.state
        lr = torch.cat([p.new_full((p.numel(),), group["lr"]) for group, p, _ in self._gradients()])
        change = self._flat([self._change(*one) for one in self._gradients()])
        x = self._flat(self._parameters())
        y = self._flat([self.state[p]["tracker"] for p in self._parameters()])
        if self._order == "combine-then-adapt":
            mixed = yield Request.MIX, torch.cat((x, y))
            x, y = mixed.chunk(2)
            # y_i <- sum_j W_ij y_j + F_i(new x_i) - F_i(old x_i)
            y = y + change
            # x_i <- sum_j W_ij x_j - lr y_i
            x = x - lr * y
        else:
            # y_i <- sum_j W_ij (y_j + F_j(new x_j) - F_j(old x_j))
            y = y + change
            if not first:
                y = yield Request.MIX, y
            # x_i <- sum_j W_ij (x_j - lr y_j)
            x = yield Request.MIX, x - lr * y
        self._place(x)
        for p, tracker in zip(self._parameters(), self._parts(y), strict=True):
            self.state[p]["tracker"] = tracker.clone()
        self._keep_near()
        if self._order == "combine-then-adapt":
            self._links.ahead(torch.cat((self._flat(self._parameters()), y)))

    def _change(self, group: dict[str, Any], p: Parameter, g: Tensor | None) -> Tensor:
        """The new field of a parameter less the old one; the field stays without a gradient."""
        state = self.state[p]
        if not state:
            state["field"] = torch.zeros_like(p)
            state["tracker"] = torch.zeros_like(p)
        old = state["field"]
        if g is not None:
            state["field"] = self._field(group, p, g).clone()
        return state["field"] - old

    def _flat(self, tensors: Iterable[Tensor]) -> Tensor:
        return torch.cat([one.reshape(-1) for one in tensors])

    def _parts(self, x: Tensor) -> Iterator[Tensor]:
        """The parts of a flat array, in the shapes of the parameters."""
        parameters = self._parameters()
        for p, part in zip(parameters, x.split([p.numel() for p in parameters]), strict=True):
            yield part.view_as(p)

    def _place(self, x: Tensor) -> None:
        for p, part in zip(self._parameters(), self._parts(x), strict=True):
            p.copy_(part)


class GradientTracking(DRFGT):
    """Decentralized gradient tracking; `DRFGT` without orthonormal weights.

    Parameters
    ----------
    params, lr, graph, order, messages, group
        As of `DRFGT`.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float,
        *,
        graph: Any = "ring",
        order: Order = "adapt-then-combine",
        messages: torch.dtype | None = None,
        group: ProcessGroup | Agent | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            orthonormal=False,
            graph=graph,
            order=order,
            messages=messages,
            group=group,
        )


def mixing(graph: Any, n: int) -> Any:
    """The mixing matrix W of ``n`` agents on a graph, or the matrix itself, checked."""
    if n == 1:
        return topologies.check_weights(np.ones((1, 1)))
    if isinstance(graph, str):
        graph = topologies.graph_from_name(graph, n)
    if hasattr(graph, "nodes"):
        graph = topologies.metropolis_weights(graph)
    W = topologies.check_weights(graph)
    if W.shape[0] != n:
        raise ValueError(f"the graph has {W.shape[0]} agents, but there are {n}")
    return W


def check_order(W: Any, order: Order) -> float:
    """The largest stable product of lr and curvature; ValueError unless W suits the order."""
    spectrum: Any = topologies.spectrum(W)
    limit = tracking_limit(spectrum, order)
    if order == "combine-then-adapt" and spectrum.lambda_min < -_ROUNDING:
        raise ValueError(
            f"order='combine-then-adapt' is unstable for lr * curvature above {limit:.2f} = "
            f"(1 + lambda_min)^2 / 2, with lambda_min = {spectrum.lambda_min:.2f} the smallest "
            "eigenvalue of W; it needs lambda_min >= 0 (a limit of 0.5 or more): give "
            "graph=topologies.lazy(topologies.metropolis_weights(graph)), or the order "
            "'adapt-then-combine'"
        )
    return limit
