"""Settings that must hold before NumPy or an MPI library is loaded, and the launcher's variables
about ranks.

A user's own script is correct without these settings: BLAS threads are also limited while an
algorithm runs.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from collections.abc import Mapping, Sequence

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
"""The launchers' variables with the rank of a process."""
_TASKS = {
    "SLURM_STEP_NUM_TASKS": "SLURM_PROCID",
    "JSM_NAMESPACE_SIZE": "JSM_NAMESPACE_RANK",
    "MV2_COMM_WORLD_SIZE": "MV2_COMM_WORLD_RANK",
    "WORLD_SIZE": "RANK",
}
"""The variables of srun, jsrun, MVAPICH and torchrun with the number of tasks, and beside each the
one with the number of this task."""


def prepare() -> None:
    """Set the variables that the user has not set, for ranks and for the command line, before NumPy
    is imported.

    Closed standard streams are opened on the null device, so that no other file gets their
    descriptors, to which libraries write.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if vars(sys)[name] is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest free one, the stream's
            vars(sys)[name] = open(descriptor, mode, closefd=False)  # noqa: SIM115
    # two BLAS threads a rank cost a factor of 20 when ranks share cores
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    # Open MPI spins for 3 ms a message otherwise
    os.environ.setdefault("OMPI_MCA_mpi_yield_when_idle", "1")


def prepare_command() -> None:
    """Call `prepare` for a command, and escape letters that the output's encoding lacks.

    Garbage is not collected at the end of the process, which would take a fifth of the processor
    time of a short run.
    """
    prepare()
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def expected_ranks(environ: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """The number of ranks that the launcher started, and the variable with it (``(1, "")`` without
    a launcher)."""
    names = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]
    if "PMIX_RANK" in environ or "PMI_RANK" in environ:
        names += ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]
    return _number(environ, names, 1)


def check_alone(ranks: int = 1, environ: Mapping[str, str] = os.environ) -> None:
    """Raise RuntimeError if a launcher without MPI started more tasks than there are ranks, each of
    which would take its own data for all data."""
    if expected_ranks(environ)[1]:
        return
    started = [name for name, task in _TASKS.items() if task in environ]
    tasks, variable = _number(environ, started, 1)
    if tasks > ranks and variable == "WORLD_SIZE":
        raise RuntimeError(
            f"WORLD_SIZE says that {tasks} tasks were started, as by torchrun: give comm='torch', "
            "or call decentorth.connect('torch') first, and they run together by "
            "torch.distributed; for separate runs give comm='serial', or unset WORLD_SIZE"
        )
    if tasks > ranks:
        raise RuntimeError(
            f"{variable} says that {tasks} tasks were started, but by MPI each of them is alone: "
            f"start with {sys.prefix}/bin/mpirun -n {tasks}, or with srun --mpi=pmi2; for separate "
            f"runs give comm='serial', or unset {variable}"
        )


def torchrun(environ: Mapping[str, str] = os.environ) -> bool:
    """True if torchrun started this process and others, and no launcher of MPI."""
    several = "TORCHELASTIC_RUN_ID" in environ and _number(environ, ["WORLD_SIZE"], 1)[0] > 1
    return several and not expected_ranks(environ)[1]


def check_pmix(library: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise RuntimeError if the launcher speaks PMIx, which ``library``, the version text of an
    MPICH, cannot: its MPI_Init would abort."""
    if direct_pmix(environ) and "MPICH configure:" in library and "pmix" not in library:
        raise RuntimeError(
            "the launcher speaks PMIx (PMIX_RANK), but this MPICH does not: start with "
            f"{sys.prefix}/bin/mpirun, or with srun --mpi=pmi2"
        )


def direct_pmix(environ: Mapping[str, str] = os.environ) -> bool:
    """True if a launcher of PMIx started this rank, and no ``mpirun``."""
    return "PMIX_RANK" in environ and not {"PMI_SIZE", "OMPI_COMM_WORLD_SIZE"} & environ.keys()


def _number(environ: Mapping[str, str], names: Sequence[str], default: int) -> tuple[int, str]:
    """The first of these variables that is a number, and its name; else ``default`` and ""."""
    for name in names:
        if environ.get(name, "").isdigit():
            return int(environ[name]), name
    return default, ""


def local_ranks(environ: Mapping[str, str] = os.environ) -> int:
    """The number of ranks on this host; 1 if the launcher sets no variable with it."""
    return _number(environ, ("OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"), 1)[0]


def cores() -> list[int]:
    """The processors that this process may use; all processors on macOS and Windows, which do not
    report them."""
    if sys.platform == "linux":
        return sorted(os.sched_getaffinity(0))
    else:
        return list(range(os.cpu_count() or 1))


def fault_tolerant(environ: Mapping[str, str] = os.environ) -> bool:
    """True if Open MPI's launcher was started with fault tolerance (``--with-ft ulfm``)."""
    return environ.get("OMPI_MCA_mpi_ft_enable") == "1"


def started_by_launcher() -> bool:
    """True if this rank's parent is the launcher, and not a shell or another process of the same
    rank (on Linux)."""
    try:
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            variables = file.read().split(b"\0")
    except OSError:
        return False
    names = {variable.partition(b"=")[0].decode(errors="replace") for variable in variables}
    return names.isdisjoint(_RANKS)


def rank(environ: Mapping[str, str] = os.environ) -> int:
    """The rank of this process, before any MPI library is loaded (0 without a launcher)."""
    names: tuple[str, ...] = _RANKS
    if torchrun(environ):
        names = ("RANK",)
    return _number(environ, names, 0)[0]
