"""
Your own training loop: which lines of a DDP script change?
===========================================================

Four sites train a network with orthonormal layers on handwritten digits. Each
site has only two or three of the ten digits. They send arrays to their
neighbours in a ring: no step has an all-reduce, and no site is a server.

It needs ``pip install ".[plot,torch]"`` in a checkout. ::

    # four sites in one process
    python examples/notebooks/training_loop.py
    # four processes, with the same bits
    torchrun --nproc-per-node 4 examples/notebooks/training_loop.py

Explained in ``docs/training.md``.
"""

# %%
# The four lines
# --------------
#
# Below is the loop of a script with ``DistributedDataParallel`` (DDP). A line
# that goes begins with ``-``, a new one with ``+``. Everything else stays. ::
#
#      torch.distributed.init_process_group("gloo")
#     -net = DistributedDataParallel(model)
#     -optimizer = SGD(net.parameters(), lr=0.3)
#     +net = model
#     +optimizer = DRFGT(model.named_parameters(), lr=0.3, orthonormal=LAYERS)
#      for epoch in range(15):
#     -    for x, y in loader:
#     +    for x, y in optimizer.batches(loader):
#              optimizer.zero_grad()
#              cross_entropy(net(x), y).backward()
#              optimizer.step()
#     +optimizer.consolidate()
#
# The processes of ``torchrun`` are one agent each. ``Agents(4)`` are four
# agents in this process, to try on one machine what four will compute.

import hashlib
import os

import torch
import torch.distributed as dist

from decentorth.training import DRFGT, Agents

torch.set_num_threads(1)
groups = dict(enumerate(Agents(4)))
if "TORCHELASTIC_RUN_ID" in os.environ:
    dist.init_process_group("gloo")
    groups = {dist.get_rank(): None}

# %%
# The data of a site
# ------------------
#
# The training images are sorted by their digit and cut into four parts.

from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

images, labels = load_digits(return_X_y=True)
x = torch.tensor(images.reshape(-1, 1, 8, 8) / 16.0, dtype=torch.float32)
y = torch.tensor(labels)
parts = torch.argsort(y[:1500], stable=True).chunk(4)


def loader_of(rank):
    """Batches of a site, in an order of its own."""
    data = TensorDataset(x[parts[rank]], y[parts[rank]])
    draws = torch.Generator().manual_seed(rank)
    return DataLoader(
        data, batch_size=16, shuffle=True, drop_last=True, generator=draws
    )


for rank in groups:
    print(f"site {rank} has the digits {y[parts[rank]].unique().tolist()}")

# %%
# The model of a site
# -------------------
#
# Three of its weights are orthonormal: a convolution is the matrix of its
# output channels and all others.

from torch import nn

LAYERS = ["0.weight", "3.weight", "7.weight"]


def network():
    """A small network of two convolutions."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


models = {}
optimizers = {}
for rank, group in groups.items():
    torch.manual_seed(rank)
    models[rank] = network()
    optimizers[rank] = DRFGT(
        models[rank].named_parameters(),
        lr=0.3,
        orthonormal=LAYERS,
        graph="ring",
        group=group,
    )

# %%
# The loop
# --------
#
# With all agents in one process the loop is over the batches of all. A
# parameter changes when all optimizers have been called.

from torch.nn.functional import cross_entropy


def accuracy(model):
    """The share of test images whose digit the model finds."""
    with torch.no_grad():
        return float((model(x[1500:]).argmax(1) == y[1500:]).float().mean())


reached = {rank: [] for rank in groups}
loaders = [loader_of(rank) for rank in groups]
for _ in range(15):
    for batches in zip(*loaders, strict=True):
        for rank, (inputs, targets) in zip(groups, batches, strict=True):
            optimizers[rank].zero_grad()
            cross_entropy(models[rank](inputs), targets).backward()
            optimizers[rank].step()
    for rank, model in models.items():
        reached[rank].append(accuracy(model))

# %%
# What they learnt
# ----------------
#
# Each site recognises all ten digits, most of which it has never seen. The
# joined model is the mean of all, projected.

for rank, found in reached.items():
    print(f"site {rank}: accuracy {found[-1]:.3f}")
for optimizer in optimizers.values():
    optimizer.consolidate()
if 0 in groups:
    model = models[0]
    numbers = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print(f"joined model: accuracy {accuracy(model):.3f}")
    print(f"infeasibility {optimizers[0].feasibility():.0e}")
    print(f"digest {hashlib.sha256(numbers).hexdigest()[:16]}")

# %%
# The digest is the same under ``torchrun``.

if len(groups) == 4:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for rank, found in reached.items():
        axes.plot(range(1, 16), found, label=f"site {rank}")
    axes.set(xlabel="epoch", ylabel="accuracy on all digits")
    axes.legend()
    figure.savefig("training_loop.png", dpi=150)
else:
    dist.destroy_process_group()

# %%
# Exercises
# ---------
#
# 1. Give ``graph="path"``. Which sites learn more slowly, and why?
# 2. Give ``order="combine-then-adapt"``. What does the message say, and which
#    weights does it name?
# 3. Give ``messages=torch.bfloat16``, and compare ``bytes_sent``.
