"""Jobs of processes that ``torchrun`` starts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch

from tests.support.mpi import ROOT, SETTINGS, Job, run_ranks

PACKAGES = Path(torch.__file__).parents[1]
"""Where PyTorch lies, which need not be among the packages of the environment."""


def start_torch(processes: int, *words: str, **settings: Any) -> Job:
    """``torchrun --nproc-per-node processes words...``, as `run_ranks`."""
    torchrun = ["torch.distributed.run", "--nproc-per-node", str(processes)]
    free = ["--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0"]
    environment = {
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(PACKAGES)]),
        "PYTHONWARNINGS": SETTINGS["PYTHONWARNINGS"].replace("error,", "default,"),
        **settings.pop("settings", {}),
    }
    return run_ranks(0, ["-m", *torchrun, *free, *words], settings=environment, **settings)


def run_torch(processes: int, *words: str, **settings: Any) -> Job:
    """As `start_torch`, for a job that must end well."""
    job = start_torch(processes, *words, **settings)
    assert job.returncode == 0, job.report()
    return job
