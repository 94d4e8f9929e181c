"""Runs that lose agents on the way: in one process, as they are told, and on ranks of Open MPI that
are killed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from decentorth.api import Run
from decentorth.api.losses import Loss
from decentorth.api.rank_loss import restarted
from tests.support.mpi import HUNG, KERNELS, ROOT, SETTINGS, Job, inherited, until

_JOB = "DECENTORTH_TEST_LOSSES"


def replayed(run: Run, losses: Sequence[Loss], iterations: int) -> Any:
    """The last state of a run in one process from which agents leave, as a run on ranks has it
    after these losses."""
    state = next(islice(run.states(), losses[0].iteration, None))
    ends = [*(loss.iteration for loss in losses[1:]), iterations]
    lost: list[int] = []
    for loss, end in zip(losses, ends, strict=True):
        here = np.setdiff1d(np.arange(run.network.n_agents), lost)
        lost += loss.agents
        left = run.without(np.array(lost))
        x = state.x[~np.isin(here, lost)]
        parts = (left.problem, left.network, left.streams)
        state = restarted(left, x, state.k, state.gradients)
        for _ in range(end - loss.iteration):
            state = left.method.step(*parts, state)
    return state


def sha256(x: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()


def started(
    programs: Path, ranks: int, arguments: Sequence[str], token: str = "", tolerant: bool = True
) -> subprocess.Popen[str]:
    """``mpirun --with-ft ulfm python -m decentorth.run``, on more ranks than cores, as root."""
    environment = {
        **inherited(*KERNELS, "HOME"),
        **SETTINGS,
        "PYTHONWARNINGS": "default",
        "PATH": f"{programs}:/usr/bin:/bin",
        _JOB: token,
    }
    fault_tolerance = ["--with-ft", "ulfm"] if tolerant else []
    command = [
        str(programs / "mpirun"),
        *fault_tolerance,
        "-n",
        str(ranks),
        str(programs / "python"),
        "-m",
        "decentorth.run",
    ]
    return subprocess.Popen(
        [*command, *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def killed(
    programs: Path,
    ranks: int,
    arguments: Sequence[str],
    out: Path,
    victims: Sequence[int],
    pauses: Sequence[float],
    response: str = "shrink",
    ready: Callable[[], bool] | None = None,
) -> Job:
    """A run in the folder ``out`` some of whose ranks get SIGKILL.

    ``programs`` is where ``mpirun`` and ``python`` are. The pauses are seconds from the first rows
    of the history, or from where ``ready`` answers true, or from the victim before. ``response`` is
    that of ``--on-rank-loss``.
    """
    token = uuid.uuid4().hex
    process = started(
        programs, ranks, [*arguments, "--on-rank-loss", response, "--out", str(out)], token
    )
    try:
        history = out / "history.csv"
        begun = ready or (lambda: history.is_file() and history.read_text().count("\n") > 2)
        until(begun, process=process)
        for victim, pause in zip(victims, pauses, strict=True):
            time.sleep(pause)
            os.kill(_ranks(token)[victim], signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=HUNG)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=HUNG)
        raise AssertionError(
            f"hung: {process.args!r}\n{Job(-1, stdout, stderr).report()}"
        ) from None
    finally:
        for pid in _ranks(token).values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.kill()
    return Job(process.returncode, stdout, stderr)


def _ranks(token: str) -> dict[int, int]:
    found = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (entry / "environ").read_bytes().split(b"\0")
            environ = dict(word.split(b"=", 1) for word in words if b"=" in word)
            if environ.get(_JOB.encode()) == token.encode() and b"OMPI_COMM_WORLD_RANK" in environ:
                found[int(environ[b"OMPI_COMM_WORLD_RANK"])] = int(entry.name)
    return found
