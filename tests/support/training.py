"""A training loop as users write it, with what they use: for one process of ``torchrun``, or for
agents in one process."""

from __future__ import annotations

import hashlib
import io
import json
import sys
from typing import Any

import torch
from torch import nn

import topologies as tp
from decentorth.training import DRFGT, Agents

N, STEPS, RESUMED = 4, 100, 60
WEIGHTS = tp.lazy(tp.metropolis_weights(tp.ring(N)))
CASES: dict[str, dict[str, Any]] = {
    "adapt-then-combine": {"graph": "ring"},
    "combine-then-adapt": {"graph": WEIGHTS, "order": "combine-then-adapt"},
    "bfloat16": {"graph": "path", "messages": torch.bfloat16},
}


class Training:
    """The model, optimizer, schedule and scaler of one agent."""

    def __init__(self, group: Any, rank: int, settings: Any) -> None:
        self.rank = rank
        torch.manual_seed(rank)
        self.model = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(24, 3)
        )
        named = [
            {"params": [self.model[0].weight, self.model[0].bias], "lr": 0.02},
            {"params": self.model[4].parameters()},
        ]
        chosen = [self.model[0].weight, self.model[4].weight]
        self.optimizer = DRFGT(named, lr=0.05, orthonormal=chosen, group=group, **settings)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 40, 0.5)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=20)

    @property
    def parts(self) -> list[Any]:
        return [self.model, self.optimizer, self.schedule, self.scaler]

    def backward(self, k: int) -> None:
        """The gradient of a batch in bfloat16; that of agent 1 overflows once."""
        torch.manual_seed(1000 * self.rank + k)
        x, y = torch.randn(5, 1, 4, 4), torch.randint(0, 3, (5,))
        if (self.rank, k) == (1, 30):
            x *= torch.inf
        self.optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(self.model(x).float(), y)
        self.scaler.scale(loss).backward()

    def step(self) -> None:
        self.scaler.unscale_(self.optimizer)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.schedule.step()

    def saved(self) -> bytes:
        file = io.BytesIO()
        torch.save([part.state_dict() for part in self.parts], file)
        return file.getvalue()

    def load(self, saved: bytes) -> None:
        states = torch.load(io.BytesIO(saved), weights_only=True)
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)

    def digest(self) -> str:
        hashed = hashlib.sha256()
        for p in self.model.parameters():
            hashed.update(p.detach().numpy().tobytes())
        return hashed.hexdigest()[:16]


def digests(groups: list[tuple[int, Any]], settings: Any) -> list[list[str]]:
    """For each agent the digests after the steps, after a resume, and after `consolidate`."""
    agents = [Training(group, rank, settings) for rank, group in groups]
    saved = []
    for k in range(STEPS):
        if k == RESUMED:
            saved = [agent.saved() for agent in agents]
        take(agents, k)
    found = [[agent.digest()] for agent in agents]
    for agent, state in zip(agents, saved, strict=True):
        agent.load(state)
    for k in range(RESUMED, STEPS):
        take(agents, k)
    for agent, own in zip(agents, found, strict=True):
        own.append(agent.digest())
    for agent in agents:
        agent.optimizer.consolidate()
    for agent, own in zip(agents, found, strict=True):
        own.append(agent.digest())
    return found


def take(agents: list[Training], k: int) -> None:
    for agent in agents:
        agent.backward(k)
    for agent in agents:
        agent.step()


def simulated(settings: Any) -> list[list[str]]:
    """The digests of all agents in one process."""
    torch.set_num_threads(1)
    return digests(list(enumerate(Agents(N))), settings)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    rank = torch.distributed.get_rank()
    for name, settings in CASES.items():
        (own,) = digests([(rank, None)], settings)
        sys.stdout.write(json.dumps([name, rank, own]) + "\n")
        sys.stdout.flush()
    torch.distributed.destroy_process_group()
