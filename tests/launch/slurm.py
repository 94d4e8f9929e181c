"""A Slurm of one node on the loopback interface: its daemons, its key and its files are one test
session's own."""

from __future__ import annotations

import contextlib
import secrets
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.mpi import HUNG, until

NEEDS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "scancel")
MUNGE = ("socket", "key-file", "pid-file", "seed-file")
_CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs=4
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Slurm:
    """The client commands of one that runs: the folder of its configuration, and the environment of
    jobs."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.environ = {**environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def ask(self, *words: str, cwd: Path | None = None) -> str:
        done = subprocess.run(
            words,
            cwd=cwd,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=HUNG,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}\n{self.logs()}"
        return done.stdout

    def submit(self, folder: Path, *words: str) -> str:
        """``sbatch`` in ``folder``; the job's number."""
        return self.ask("sbatch", "--parsable", *words, cwd=folder).strip()

    def job(self, number: str) -> dict[str, str]:
        shown = self.ask("scontrol", "--oneliner", "show", "job", number)
        return dict(word.split("=", 1) for word in shown.split() if "=" in word)

    def until(self, number: str, done: Callable[[dict[str, str]], bool]) -> dict[str, str]:
        """Wait for a job to be as ``done`` says, but not for ever; how it is then."""
        until(lambda: done(self.job(number)), lambda: f"{self.job(number)}\n{self.logs()}")
        return self.job(number)

    def logs(self) -> str:
        return "\n".join(
            f"{path.name}:\n{path.read_text()[-2000:]}"
            for path in sorted(self.folder.glob("*.log"))
        )


@contextlib.contextmanager
def slurm(folder: Path, environ: dict[str, str]) -> Iterator[Slurm]:
    """Start a Slurm whose files are in ``folder``, and end it."""
    for name in ("state", "spool"):
        (folder / name).mkdir()
    folder.chmod(0o755)
    key = folder / "munge.key-file"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    with contextlib.ExitStack() as stack:
        held = [stack.enter_context(socket.socket()) for _ in range(2)]
        for one in held:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in held]
    (folder / "slurm.conf").write_text(
        _CONFIGURATION.format(host=socket.gethostname(), ports=ports, folder=folder)
    )
    cluster = Slurm(folder, environ)
    started: list[subprocess.Popen[bytes]] = []
    daemons = (
        [
            "munged",
            "--foreground",
            "--force",
            *(f"--{what}={folder}/munge.{what}" for what in MUNGE),
        ],
        ["slurmctld", "-D", "-i", "-f", f"{folder}/slurm.conf"],
        ["slurmd", "-D", "-f", f"{folder}/slurm.conf"],
    )
    path = {"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "SLURM_CONF": cluster.environ["SLURM_CONF"]}
    try:
        for command in daemons:
            with (folder / f"{command[0]}.log").open("wb") as log:
                started.append(
                    subprocess.Popen(
                        command, env=path, stdin=subprocess.DEVNULL, stdout=log, stderr=log
                    )
                )
        until(
            lambda: (
                "idle" in _state(cluster) or any(process.poll() is not None for process in started)
            ),
            cluster.logs,
        )
        assert all(process.poll() is None for process in started), cluster.logs()
        yield cluster
        subprocess.run(
            ["scancel", "--full", "--state=RUNNING"], env=cluster.environ, timeout=HUNG, check=False
        )
    finally:
        for process in reversed(started):
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _state(cluster: Slurm) -> str:
    ask = ["sinfo", "--noheader", "--format=%t"]  # fails until the daemon answers
    return subprocess.run(
        ask, env=cluster.environ, capture_output=True, text=True, timeout=HUNG, check=False
    ).stdout
