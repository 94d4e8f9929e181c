"""Cost of an iteration of 1,000 agents on bad networks against a good one: DRFGT on Procrustes 50 x
20 over a ring, one process.

    python benchmarks/channel.py

Processor time, the least of six turns of four iterations each; the channels take turns.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time

import topologies as tp
from decentorth import DRFGT, Channel
from decentorth.api import set_up
from decentorth.problems import ProcrustesSettings

AGENTS, TURNS, ITERATIONS = 1000, 6, 4
FAULTS = (
    "loss:p=0.1",
    "failures:p=0.1",
    "bursts:p=0.1",
    "sleep:p=0.1",
    "delay:rounds=2",
    "delay:rounds=3,random=true",
    "crash:p=0.001,length=10",
    "quantize:bits=8",
    "topk:share=0.1",
    "randomk:share=0.1",
)


def main() -> None:
    W = tp.uniform_weights(tp.ring(AGENTS), 0.8)
    problem = ProcrustesSettings().problem(AGENTS, 0)
    method = DRFGT(step_size=1e-6, penalty=10.0, order="combine-then-adapt")
    channels = {"good network": None, **{written: Channel(written) for written in FAULTS}}
    runs = {
        name: set_up(problem, method, W, channel=channel, comm="serial").states()
        for name, channel in channels.items()
    }
    least = dict.fromkeys(runs, float("inf"))
    for turn in range(TURNS + 1):
        for name, states in runs.items():
            begun = time.process_time()
            for _ in range(ITERATIONS):
                next(states)
            if turn > 0:
                least[name] = min(least[name], (time.process_time() - begun) / ITERATIONS)
    for name, seconds in least.items():
        print(f"{name:28s} {seconds * 1e3:7.2f} ms  {seconds / least['good network']:.2f}")


if __name__ == "__main__":
    main()
