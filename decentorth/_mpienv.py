"""Settings that must hold before NumPy or an MPI library is loaded, and what the launcher says about ranks.

A user's own script needs none of it to be correct: BLAS threads are also limited while an algorithm runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def prepare() -> None:
    """Set what the user has not: for ranks, and for the command line, before NumPy is imported.

    Standard streams that are closed lead nowhere, so that no other file gets their descriptors, to which libraries write.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest that is free, which is that of the stream
            setattr(sys, name, open(descriptor, mode, closefd=False))  # noqa: SIM115
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # two BLAS threads a rank cost a factor of 20 when ranks share cores
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")  # Open MPI spins for 3 ms a message otherwise


def expected_ranks(environ: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """How many ranks the launcher started, and the variable that says so (``(1, "")`` without a launcher)."""
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        if environ.get(name, "").isdigit():
            return int(environ[name]), name
    if any(name in environ for name in ("PMIX_RANK", "PMI_RANK")):
        for name in ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"):
            if environ.get(name, "").isdigit():
                return int(environ[name]), name
    return 1, ""


def local_ranks(environ: Mapping[str, str] = os.environ) -> int:
    """How many of the ranks run on this host (1 if the launcher does not say)."""
    for name in ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"):
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return 1


def fault_tolerant(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether Open MPI's launcher was told to let ranks outlive others (``--with-ft ulfm``)."""
    return environ.get("OMPI_MCA_mpi_ft_enable") == "1"


def rank(environ: Mapping[str, str] = os.environ) -> int:
    """This process's rank, before any MPI library is loaded (0 without a launcher)."""
    for name in ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"):
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return 0
