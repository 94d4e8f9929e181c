"""Small networks with orthonormal layers, trained by neighbours and by an all-reduce: accuracy,
processor time, bytes and infeasibility, as tables of `docs/training.md`.

    pip install torch geoopt scikit-learn
    python benchmarks/training.py > docs/results/training.md

Processes are agents in one process: those of DRFGT as `decentorth.training.Agents`, with the bits
of processes; those of DistributedDataParallel (DDP) as one batch of all processes' samples. Each
method takes the best of three steps on two seeds of their own; two variants take DRFGT's step.
Seconds are processor time of one process in a step, without messages, over those of SGD. Bytes are
what a process sends in a step; those of DDP are of a ring all-reduce, computed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import geoopt
import numpy as np
import sklearn.datasets
import torch
from torch import Tensor, nn
from torch.func import functional_call

import topologies as tp
from decentorth.training import DRFGT, Agents, GradientTracking, Landing

torch.set_num_threads(1)
BATCH, TRAINING = 16, 1500
STEPS = (0.1, 0.3, 0.6)
TUNING_SEEDS = (1000, 1001)
TIMED = 50
"""The steps whose seconds are measured."""


class Convolutions(nn.Module):
    """Two convolutions and two layers; all weights but the last are orthonormal."""

    orthonormal = ("conv1.weight", "conv2.weight", "fc1.weight")

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(128, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x[:, None])), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class Recurrent(nn.Module):
    """A recurrent network that reads an image as 16 steps of 4 pixels; its square recurrent
    weight is orthonormal."""

    orthonormal = ("again.weight",)

    def __init__(self) -> None:
        super().__init__()
        self.read = nn.Linear(4, 48)
        self.again = nn.Linear(48, 48)
        self.out = nn.Linear(48, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), 48)
        for part in self.read(x.reshape(len(x), 16, 4)).unbind(1):
            h = torch.tanh(part + self.again(h))
        return self.out(h)


class Task(NamedTuple):
    """A network, its processes and their graph, and whether the data are sorted by label."""

    network: type[nn.Module]
    processes: int
    graph: str
    is_sorted: bool
    epochs: int = 15


TASKS = {
    "Digits, 4 processes in a ring": Task(Convolutions, 4, "ring", False),
    "Digits sorted by label, 8 processes of 4 neighbours each": Task(
        Convolutions, 8, "circulant", True
    ),
    "Digits read in 16 steps by a recurrent network, 4 processes in a ring": Task(
        Recurrent, 4, "ring", False
    ),
}


class Outcome(NamedTuple):
    """What a trained model reaches, and what a step took."""

    accuracy: float
    worst: float
    """The least accurate process, before the models are joined."""
    infeasibility: float
    seconds: float
    bytes: float


def data(task: Task, seed: int) -> tuple[list[Any], Tensor, Tensor]:
    """The samples of each process, and test images and labels."""
    images, labels = sklearn.datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(labels))
    x = torch.tensor(images[order].reshape(-1, 8, 8) / 16.0, dtype=torch.float32)
    y = torch.tensor(labels[order])
    own = torch.arange(TRAINING)
    if task.is_sorted:
        own = torch.argsort(y[:TRAINING], stable=True)
    parts = [(x[part], y[part]) for part in own.chunk(task.processes)]
    return parts, x[TRAINING:], y[TRAINING:]


def batches(parts: list[Any], seed: int, epochs: int) -> Iterator[list[Any]]:
    """The batches of all processes, step by step."""
    draws = torch.Generator().manual_seed(seed)
    steps = min(len(y) for _, y in parts) // BATCH
    for _ in range(epochs):
        orders = [torch.randperm(len(y), generator=draws) for _, y in parts]
        for k in range(steps):
            now = [order[k * BATCH : (k + 1) * BATCH] for order in orders]
            yield [(x[own], y[own]) for (x, y), own in zip(parts, now, strict=True)]


def accuracy(model: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> float:
    with torch.no_grad():
        return float((model(x).argmax(1) == y).float().mean())


def infeasibility(weight: Tensor) -> float:
    w = weight.detach().reshape(len(weight), -1).double()
    w = w if w.shape[0] >= w.shape[1] else w.T
    return float(torch.linalg.norm(w.T @ w - torch.eye(w.shape[1])))


class Parametrized(nn.Module):
    """A network whose orthonormal weights are made by other modules."""

    def __init__(self, network: Any, make: Callable[[Tensor], nn.Module]) -> None:
        super().__init__()
        given = dict(network.named_parameters())
        self.names = network.orthonormal
        self.shapes = [given[name].shape for name in self.names]
        self.makers = nn.ModuleList(make(given[name].detach()) for name in self.names)
        for name in self.names:
            given[name].requires_grad_(False)
        self.network = network

    def weights(self) -> dict[str, Tensor]:
        made = zip(self.names, self.makers, self.shapes, strict=True)
        return {name: maker().reshape(shape) for name, maker, shape in made}

    def forward(self, x: Tensor) -> Tensor:
        return functional_call(self.network, self.weights(), (x,))


class ByTorch(nn.Module):
    """``torch.nn.utils.parametrizations.orthogonal``."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        matrix = weight.reshape(len(weight), -1)
        self.inner = nn.Linear(matrix.shape[1], matrix.shape[0], bias=False)
        nn.utils.parametrizations.orthogonal(self.inner)

    def forward(self) -> Tensor:
        return self.inner.weight


class ByGeoopt(nn.Module):
    """A parameter of geoopt on the Stiefel manifold."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        matrix = weight.reshape(len(weight), -1)
        self.is_wide = matrix.shape[0] < matrix.shape[1]
        tall = matrix.T.contiguous() if self.is_wide else matrix
        manifold = geoopt.EuclideanStiefel()
        self.w = geoopt.ManifoldParameter(manifold.projx(tall.clone()), manifold=manifold)

    def forward(self) -> Tensor:
        return self.w.T if self.is_wide else self.w


Make = Callable[[nn.Module], tuple[nn.Module, Any]]


def all_reduced(make: Callable[[float], Make], task: Task, seed: int, lr: float) -> Outcome:
    """Train one model on the batches of all processes, as DDP does."""
    parts, x, y = data(task, seed)
    torch.manual_seed(seed)
    model, optimizer = make(lr)(task.network())
    for now in batches(parts, seed, task.epochs):
        inputs, labels = (torch.cat(part) for part in zip(*now, strict=True))
        take(model, optimizer, inputs, labels)
    weights = dict(model.named_parameters())
    if isinstance(model, Parametrized):
        weights = model.weights()
    n, names = task.processes, task.network.orthonormal
    size = sum(p.numel() for p in task.network().parameters())
    found = accuracy(model, x, y)
    distance = max(infeasibility(weights[name]) for name in names)
    return Outcome(found, found, distance, seconds(make(lr), task), 2 * (n - 1) / n * size * 4)


def take(model: nn.Module, optimizer: Any, inputs: Tensor, labels: Tensor) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()


def seconds(make: Make, task: Task) -> float:
    """The processor time of a step of one process."""
    (x, y), *_ = data(task, 0)[0]
    model, optimizer = make(task.network())
    take(model, optimizer, x[:BATCH], y[:BATCH])
    begun = time.process_time()
    for _ in range(TIMED):
        take(model, optimizer, x[:BATCH], y[:BATCH])
    return (time.process_time() - begun) / TIMED


def plain(lr: float) -> Make:
    return lambda network: (network, torch.optim.SGD(network.parameters(), lr))


def parametrized(lr: float) -> Make:
    def make(network: nn.Module) -> Any:
        model = Parametrized(network, ByTorch)
        return model, torch.optim.SGD(trained(model), lr)

    return make


def by_geoopt(lr: float) -> Make:
    def make(network: nn.Module) -> Any:
        model = Parametrized(network, ByGeoopt)
        return model, geoopt.optim.RiemannianSGD(trained(model), lr)

    return make


def landing(lr: float) -> Make:
    def make(network: Any) -> Any:
        named = network.named_parameters()
        return network, Landing(named, lr, orthonormal=network.orthonormal)

    return make


def trained(model: nn.Module) -> list[Any]:
    return [p for p in model.parameters() if p.requires_grad]


def drfgt(network: Any, lr: float, **settings: Any) -> DRFGT:
    named = network.named_parameters()
    return DRFGT(named, lr, orthonormal=network.orthonormal, **settings)


def gradient_tracking(network: Any, lr: float, **settings: Any) -> GradientTracking:
    return GradientTracking(network.parameters(), lr, **settings)


def overlapping(network: Any, lr: float, graph: Any, **settings: Any) -> DRFGT:
    return drfgt(network, lr, graph=tp.lazy(graph), order="combine-then-adapt", **settings)


def rounded(network: Any, lr: float, **settings: Any) -> DRFGT:
    return drfgt(network, lr, messages=torch.bfloat16, **settings)


def on_ring(network: Any, lr: float, graph: Any, **settings: Any) -> DRFGT:
    return drfgt(network, lr, graph="ring", **settings)


def among_neighbours(make: Callable[..., Any], task: Task, seed: int, lr: float) -> Outcome:
    """Train a model at each process by messages to its neighbours."""
    parts, x, y = data(task, seed)
    torch.manual_seed(seed)
    models = [task.network() for _ in parts]
    W = tp.metropolis_weights(tp.graph_from_name(task.graph, len(parts)))
    optimizers = [
        make(model, lr, graph=W, group=agent)
        for model, agent in zip(models, Agents(len(parts)), strict=True)
    ]
    spent, steps = 0.0, 0
    for now in batches(parts, seed, task.epochs):
        begun = time.process_time()
        for model, optimizer, (inputs, labels) in zip(models, optimizers, now, strict=True):
            take(model, optimizer, inputs, labels)
        spent += time.process_time() - begun
        steps += 1
    worst = min(accuracy(model, x, y) for model in models)
    distance = max(
        infeasibility(dict(model.named_parameters())[name])
        for model in models
        for name in task.network.orthonormal
    )
    sent = optimizers[0].bytes_sent / steps
    for optimizer in optimizers:
        optimizer.consolidate()
    return Outcome(accuracy(models[0], x, y), worst, distance, spent / steps / len(models), sent)


Run = Callable[[Task, int, float], Outcome]
METHODS: dict[str, Run] = {
    "DDP, SGD without constraint": partial(all_reduced, plain),
    "GradientTracking without constraint": partial(among_neighbours, gradient_tracking),
    "DDP, parametrizations.orthogonal": partial(all_reduced, parametrized),
    "DDP, geoopt RiemannianSGD": partial(all_reduced, by_geoopt),
    "DDP, Landing": partial(all_reduced, landing),
    "DRFGT": partial(among_neighbours, drfgt),
}
VARIANTS: dict[str, Run] = {
    "DRFGT, bfloat16 messages": partial(among_neighbours, rounded),
    "DRFGT, overlapping order": partial(among_neighbours, overlapping),
}
"""They take the step of DRFGT."""
ON_RING = {"DRFGT in a ring": partial(among_neighbours, on_ring)}
"""Where the graph is another one."""


def best(run: Run, task: Task) -> float:
    """The step with the highest accuracy on the seeds for tuning."""
    reached = {lr: sum(run(task, seed, lr).accuracy for seed in TUNING_SEEDS) for lr in STEPS}
    return max(reached, key=lambda lr: reached[lr])


def row(name: str, run: Run, task: Task, lr: float, seeds: int) -> str:
    # beside each method, as the load of the machine changes
    unit = seconds(plain(lr), task)
    found = [run(task, seed, lr) for seed in range(seeds)]
    middle = Outcome(*(float(np.median(column)) for column in zip(*found, strict=True)))
    reached = [one.accuracy for one in found]
    return (
        f"| {name} | {lr} | {middle.accuracy:.3f} ({min(reached):.3f} to {max(reached):.3f}) "
        f"| {middle.worst:.3f} | {middle.infeasibility:.0e} | {middle.seconds / unit:.1f} "
        f"| {middle.bytes / 1000:.0f} k |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", nargs="*", type=int, default=list(range(len(TASKS))))
    asked = parser.parse_args()
    for number in asked.tasks:
        name, task = list(TASKS.items())[number]
        print(f"**{name}**\n")
        print("| method | step | accuracy | worst | infeasible | seconds | bytes |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        tuned = METHODS
        if task.graph != "ring":
            tuned = METHODS | ON_RING
        steps = {}
        for method, run in tuned.items():
            steps[method] = best(run, task)
            print(row(method, run, task, steps[method], asked.seeds), flush=True)
        for method, run in VARIANTS.items():
            print(row(method, run, task, steps["DRFGT"], asked.seeds), flush=True)
        print(flush=True)


if __name__ == "__main__":
    main()
