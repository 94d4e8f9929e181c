"""Small networks with orthonormal layers, trained by neighbours and by an all-reduce: accuracy,
processor time, bytes and infeasibility.

    pip install torch geoopt scikit-learn
    python benchmarks/training.py --seeds 5

Processes are agents in one process: those of DRFGT as `decentorth.training.Agents`, with the bits
of processes; those of DistributedDataParallel (DDP) as batches whose gradients are averaged. Each
method takes the best of three steps on a seed of its own. Seconds are processor time of one
process in a step, without messages, over those of SGD. Bytes are what a process sends in a step; those of DDP are of
a ring all-reduce, computed.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import geoopt
import numpy as np
import sklearn.datasets
import torch
from torch import Tensor, nn
from torch.func import functional_call

import topologies as tp
from decentorth.training import DRFGT, Agents, Landing

torch.set_num_threads(1)
BATCH, TRAINING = 16, 1500
STEPS = (0.1, 0.3, 0.6)
TUNING_SEED = 1000


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
    """A network, a number of processes, whether the data are sorted by label, and epochs."""

    network: type[nn.Module]
    processes: int
    is_sorted: bool
    epochs: int


TASKS = {
    "digits, 4 processes": Task(Convolutions, 4, False, 15),
    "digits sorted by label, 8 processes": Task(Convolutions, 8, True, 15),
    "digits read in 16 steps, 4 processes": Task(Recurrent, 4, False, 15),
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


def all_reduced(
    task: Task, seed: int, make: Callable[[nn.Module], tuple[nn.Module, Any]]
) -> Outcome:
    """Train one model on averaged gradients, as DDP does."""
    parts, x, y = data(task, seed)
    torch.manual_seed(seed)
    model, optimizer = make(task.network())
    of_gradients = of_steps = 0.0
    steps = 0
    for now in batches(parts, seed, task.epochs):
        begun = time.process_time()
        optimizer.zero_grad()
        for inputs, labels in now:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            (loss / len(now)).backward()
        between = time.process_time()
        optimizer.step()
        of_gradients += between - begun
        of_steps += time.process_time() - between
        steps += 1
    weights = dict(model.named_parameters())
    if isinstance(model, Parametrized):
        weights = model.weights()
    n, names = task.processes, task.network.orthonormal
    size = sum(p.numel() for p in task.network().parameters())
    found = accuracy(model, x, y)
    return Outcome(
        found,
        found,
        max(infeasibility(weights[name]) for name in names),
        (of_gradients / n + of_steps) / steps,
        2 * (n - 1) / n * size * 4,
    )


def plain(lr: float) -> Callable[[nn.Module], Any]:
    return lambda network: (network, torch.optim.SGD(network.parameters(), lr))


def parametrized(lr: float) -> Callable[[nn.Module], Any]:
    def make(network: nn.Module) -> Any:
        model = Parametrized(network, ByTorch)
        return model, torch.optim.SGD(filter_trained(model), lr)

    return make


def by_geoopt(lr: float) -> Callable[[nn.Module], Any]:
    def make(network: nn.Module) -> Any:
        model = Parametrized(network, ByGeoopt)
        return model, geoopt.optim.RiemannianSGD(filter_trained(model), lr)

    return make


def landing(lr: float) -> Callable[[nn.Module], Any]:
    def make(network: Any) -> Any:
        named = network.named_parameters()
        return network, Landing(named, lr, orthonormal=network.orthonormal)

    return make


def filter_trained(model: nn.Module) -> list[Any]:
    return [p for p in model.parameters() if p.requires_grad]


def among_neighbours(task: Task, seed: int, lr: float, settings: Any) -> Outcome:
    """Train a model at each process by messages to the neighbours in a ring."""
    parts, x, y = data(task, seed)
    torch.manual_seed(seed)
    models = [task.network() for _ in parts]
    W = tp.metropolis_weights(tp.ring(len(parts)))
    if settings.get("order") == "combine-then-adapt":
        W = tp.lazy(W)
    optimizers = [
        DRFGT(
            model.named_parameters(),
            lr,
            orthonormal=task.network.orthonormal,
            graph=W,
            group=agent,
            **settings,
        )
        for model, agent in zip(models, Agents(len(parts)), strict=True)
    ]
    spent, steps = 0.0, 0
    for now in batches(parts, seed, task.epochs):
        begun = time.process_time()
        for model, optimizer, (inputs, labels) in zip(models, optimizers, now, strict=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
        for optimizer in optimizers:
            optimizer.step()
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


OVERLAPPING = {"order": "combine-then-adapt"}
METHODS: dict[str, Callable[[Task, int, float], Outcome]] = {
    "DDP, SGD without constraint": lambda task, seed, lr: all_reduced(task, seed, plain(lr)),
    "DDP, parametrizations.orthogonal": lambda task, seed, lr: all_reduced(
        task, seed, parametrized(lr)
    ),
    "DDP, geoopt RiemannianSGD": lambda task, seed, lr: all_reduced(task, seed, by_geoopt(lr)),
    "DDP, Landing": lambda task, seed, lr: all_reduced(task, seed, landing(lr)),
    "DRFGT": lambda task, seed, lr: among_neighbours(task, seed, lr, {}),
    "DRFGT, bfloat16 messages": lambda task, seed, lr: among_neighbours(
        task, seed, lr, {"messages": torch.bfloat16}
    ),
    "DRFGT, overlapping order": lambda task, seed, lr: among_neighbours(
        task, seed, lr, OVERLAPPING
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--tasks", nargs="*", type=int, default=list(range(len(TASKS))))
    parser.add_argument("--methods", nargs="*", type=int, default=list(range(len(METHODS))))
    asked = parser.parse_args()
    methods = [list(METHODS.items())[number] for number in asked.methods]
    for number in asked.tasks:
        name, task = list(TASKS.items())[number]
        print(f"\n{name}, {task.epochs} epochs, {asked.seeds} seeds\n")
        print("| method | step | accuracy | worst process | infeasibility | seconds | bytes |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        for method, run in methods:
            # beside each method, as the load of the machine changes
            unit = all_reduced(task._replace(epochs=3), TUNING_SEED, plain(0.1)).seconds
            tried = {lr: run(task, TUNING_SEED, lr).accuracy for lr in STEPS}
            lr = max(tried, key=lambda one: tried[one])
            found = [run(task, seed, lr) for seed in range(asked.seeds)]
            median = [float(np.median(column)) for column in zip(*found, strict=True)]
            reached = [one.accuracy for one in found]
            print(
                f"| {method} | {lr} | {median[0]:.3f} ({min(reached):.3f} to {max(reached):.3f}) "
                f"| {median[1]:.3f} | {median[2]:.0e} | {median[3] / unit:.2f} "
                f"| {median[4] / 1000:.0f} k |",
                flush=True,
            )


if __name__ == "__main__":
    main()
