"""Jobs of MPI ranks, started as a user starts them: an end to every hang, and nothing left
behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

ROOT = Path(__file__).resolve().parents[2]
T = TypeVar("T")
KERNELS = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_CBWR", "NPY_DISABLE_CPU_FEATURES")
"""The variables that choose the kernels of BLAS and NumPy: ranks have the bits of this process only
with the same ones."""
_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "USER", "VIRTUAL_ENV")
SETTINGS = {
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": str(ROOT),
    "PYTHONWARNINGS": "error,ignore:diverged:RuntimeWarning",  # some cases let a run diverge
}
_JOB = "DECENTORTH_TEST_JOB"
_SEGMENTS = ("mpich_shm_*", "sm_segment.*", "ucx_shm_*")
HUNG = 1200.0
"""Seconds after which whatever a test has started counts as hung: no machine, however busy, needs
so long. It is the only limit of the tests on the time that something takes."""
_LINGER = 60.0
"""Seconds in which the processes of a job must end after its launcher."""


class Job(NamedTuple):
    returncode: int
    stdout: str
    stderr: str
    seconds: float = 0.0
    left: int = 0
    """Processes that had to be killed after it."""

    def report(self) -> str:
        return (
            f"return code {self.returncode} after {self.seconds:.1f} "
            f"s\nstdout:\n{self.stdout}\nstderr:\n{self.stderr}"
        )


def launcher() -> str:
    """The ``mpirun`` beside the running Python, or else the one on PATH; without it, tests with
    ranks fail and are not skipped."""
    beside = Path(sys.executable).parent / "mpirun"
    found = str(beside) if beside.is_file() else shutil.which("mpirun")
    if found is None:
        raise RuntimeError(
            f"the tests with ranks need mpirun, in {beside.parent} or on PATH: pip install "
            "'mpich>=5'"
        )
    return found


class Running(NamedTuple):
    process: subprocess.Popen[str]
    """The process that was started: the launcher, or without one Python."""
    token: str

    def ranks(self) -> list[int]:
        """The job's Python processes that live."""
        found = []
        for pid in _carriers(self.token):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/exe").resolve() == Path(sys.executable).resolve():
                    found.append(pid)
        return found

    def segments(self) -> set[Path]:
        return _mapped(Path(f"/proc/{pid}") for pid in self.ranks())


def inherited(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def run_ranks(
    ranks: int,
    arguments: Sequence[str],
    *,
    settings: Mapping[str, str] | None = None,
    meanwhile: Callable[[Running], None] | None = None,
) -> Job:
    """``mpirun -n ranks python arguments...`` in the repository's root, or for 0 ranks a plain
    process without a launcher.

    ``settings`` are further environment variables; ``meanwhile`` is called once the job has been
    started, to do something to it. AssertionError shows what a job that hangs had written.
    """
    token = uuid.uuid4().hex
    command = [sys.executable, *arguments]
    if ranks > 0:
        command = [launcher(), "-n", str(ranks), *command]
    with tidied() as folder:
        environment = {
            **inherited(*_KEPT, *KERNELS),
            **SETTINGS,
            "TMPDIR": folder,
            _JOB: token,
            **(settings or {}),
        }
        begun = time.monotonic()
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        hung = False
        try:
            if meanwhile is not None:
                meanwhile(Running(process, token))
            stdout, stderr = process.communicate(timeout=HUNG)
        except subprocess.TimeoutExpired:
            hung = True
        finally:
            seconds = time.monotonic() - begun
            left = 0 if hung else _lingering(token)
            _kill(process, token)
            if hung:
                stdout, stderr = process.communicate()
    job = Job(process.returncode, stdout, stderr, seconds, left)
    if hung:
        raise AssertionError(f"hung: {' '.join(command)}\n{job.report()}")
    return job


def until(
    done: Callable[[], T],
    why: Callable[[], str] = str,
    process: subprocess.Popen[str] | None = None,
) -> T:
    """Wait, but not for ever, until ``done()`` is true, and return it; ``why`` says what there is
    instead.

    AssertionError shows what a ``process`` had written that ends before that.
    """
    deadline = time.monotonic() + HUNG
    while True:
        # asked first: what it did last counts
        ended = process is not None and process.poll() is not None
        if found := done():
            return found
        if process is not None and ended:
            written = "".join(filter(None, process.communicate()))
            raise AssertionError(f"it has ended too early, with {process.returncode}\n{written}")
        assert time.monotonic() < deadline, why()
        time.sleep(0.02)


@contextlib.contextmanager
def tidied() -> Iterator[str]:
    """A folder for the temporary files of jobs, which goes with the shared memory that they
    leave."""
    before = set(_segments())
    with tempfile.TemporaryDirectory(prefix="ranks-", ignore_cleanup_errors=True) as folder:
        try:
            yield folder
        finally:
            _remove(set(_segments()) - before)


def _lingering(token: str) -> int:
    deadline = time.monotonic() + _LINGER
    while (left := len(_carriers(token))) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _kill(process: subprocess.Popen[str], token: str) -> None:
    """End what is left of a job: the launcher puts its ranks into sessions of their own, so they
    are known by their environment."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    while left := _carriers(token):
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _carriers(token: str) -> list[int]:
    """The living processes whose environment carries the job's token."""
    wanted, found = f"{_JOB}={token}".encode(), []
    for entry in _processes():
        with contextlib.suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
    return found


def _processes() -> Iterator[Path]:
    return (entry for entry in Path("/proc").glob("[0-9]*") if entry.name != str(os.getpid()))


def _segments() -> Iterator[Path]:
    return (path for pattern in _SEGMENTS for path in Path("/dev/shm").glob(pattern))


def _remove(new: set[Path]) -> None:
    """Remove shared-memory files that appeared during the job, but not those that living processes
    of other jobs have open."""
    # a killed process closes its files a moment after it has lost its environment
    for _ in range(30):
        new = {segment for segment in new if segment.exists()}
        if not new:
            return
        for segment in new - _mapped(_processes()):
            segment.unlink(missing_ok=True)
        time.sleep(0.01)


def _mapped(processes: Iterable[Path]) -> set[Path]:
    """What processes have of ``/dev/shm``, mapped or open."""
    names: set[str] = set()
    for entry in processes:
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            names |= {
                line.split()[-1]
                for line in (entry / "maps").read_text().splitlines()
                if "/dev/shm/" in line
            }
            names |= {os.readlink(descriptor) for descriptor in (entry / "fd").iterdir()}
    return {Path(name) for name in names if name.startswith("/dev/shm/")}
