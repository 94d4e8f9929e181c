"""Three hosts on one machine: network namespaces on a bridge, each with its own name, shared memory
and ssh server."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.support.mpi import HUNG, until

NEEDS = ("ip", "unshare", "nsenter", "sshd", "ssh", "ssh-keygen")
NAMES = ("h1", "h2", "h3")
INTERFACE = "eth0"


class Hosts:
    """Hosts that run: the ssh server of each by its name, and settings by which launchers find the
    way between them."""

    def __init__(
        self, servers: Mapping[str, subprocess.Popen[bytes]], settings: Mapping[str, str]
    ) -> None:
        self.servers = servers
        self.settings = settings

    def start(
        self, host: str, *words: str, cwd: Path | None = None, **environ: str
    ) -> subprocess.Popen[str]:
        inside = [
            "nsenter",
            f"--target={self.servers[host].pid}",
            "--mount",
            "--uts",
            "--ipc",
            "--net",
            f"--wd={cwd or '/'}",
            "--",
        ]
        path = {"PATH": os.environ["PATH"], **self.settings, **environ}
        command = [*inside, "env", *(f"{name}={value}" for name, value in path.items()), *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            text=True,
            start_new_session=True,
        )

    def on(self, host: str, *words: str, cwd: Path | None = None, **environ: str) -> str:
        with self.start(host, *words, cwd=cwd, **environ) as running:
            stdout, stderr = running.communicate(timeout=HUNG)
        assert running.returncode == 0, f"{' '.join(words)} on {host}: {stdout}\n{stderr}"
        return stdout

    def wire(self, host: str, state: str) -> None:
        self.on(host, "ip", "link", "set", INTERFACE, state)

    def processes(self, host: str, word: str) -> list[int]:
        """Those on a host with that word in their command."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                same = os.readlink(entry / "ns" / "net") == os.readlink(
                    f"/proc/{self.servers[host].pid}/ns/net"
                )
                if same and word.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def sent(self, host: str) -> int:
        return int(self.on(host, "cat", "/proc/net/dev").partition(f"{INTERFACE}:")[2].split()[8])


@contextlib.contextmanager
def three_hosts(folder: Path, environ: Mapping[str, str]) -> Iterator[Hosts]:
    """Start them, with files in ``folder``, and end them; ``environ`` is that of what is started by
    ssh."""
    keys = {name: folder / name for name in ("login", "server")}
    for key in keys.values():
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    (folder / "hosts").write_text(
        "127.0.0.1 localhost\n"
        + "".join(f"10.77.0.{i} {name}\n" for i, name in enumerate(NAMES, 1))
    )
    (folder / "sshd_config").write_text(
        f"HostKey {keys['server']}\nAuthorizedKeysFile {keys['login']}.pub\nStrictModes "
        "no\nUsePAM no\nPermitRootLogin yes\nPidFile none\nSetEnv "
        f"{' '.join(f'{name}={value}' for name, value in environ.items())}\n"
    )
    (folder / "ssh_config").write_text(
        f"Host *\n IdentityFile {keys['login']}\n StrictHostKeyChecking no\n UserKnownHostsFile "
        "/dev/null\n LogLevel ERROR\n"
    )
    (folder / "ssh").write_text(f'#!/bin/sh\nexec ssh -F {folder}/ssh_config "$@"\n')
    (folder / "ssh").chmod(0o755)
    settings = {
        "HYDRA_LAUNCHER_EXEC": str(folder / "ssh"),
        "PRTE_MCA_plm_ssh_agent": str(folder / "ssh"),
    }
    tag = f"do{os.getpid()}"
    servers: dict[str, subprocess.Popen[bytes]] = {}
    with contextlib.ExitStack() as stack:

        def ip(*words: str) -> None:
            subprocess.run(["ip", *words], check=True)

        def space(name: str) -> str:
            ip("netns", "add", f"{tag}-{name}")
            stack.callback(ip, "netns", "delete", f"{tag}-{name}")
            return f"{tag}-{name}"

        switch = space("switch")
        ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", switch, "link", "set", "bridge", "up")
        for i, name in enumerate(NAMES, 1):
            host = space(name)
            ip(
                "-n",
                host,
                "link",
                "add",
                INTERFACE,
                "type",
                "veth",
                "peer",
                "name",
                name,
                "netns",
                switch,
            )
            ip("-n", switch, "link", "set", name, "master", "bridge", "up")
            ip("-n", host, "address", "add", f"10.77.0.{i}/24", "dev", INTERFACE)
            ip("-n", host, "link", "set", INTERFACE, "up")
            ip("-n", host, "link", "set", "lo", "up")
            start = (
                f"hostname {name} && mount --bind {folder}/hosts /etc/hosts && mount -t tmpfs "
                "tmpfs /dev/shm && mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec "
                f"/usr/sbin/sshd -D -e -f {folder}/sshd_config"
            )
            with (folder / f"{name}.log").open("wb") as log:
                servers[name] = subprocess.Popen(
                    [
                        "ip",
                        "netns",
                        "exec",
                        host,
                        "unshare",
                        "--uts",
                        "--ipc",
                        "--mount",
                        "sh",
                        "-c",
                        start,
                    ],
                    stdout=log,
                    stderr=log,
                )
            stack.callback(_end, servers[name])
        hosts = Hosts(servers, settings)
        for name in NAMES:
            log_of = folder / f"{name}.log"
            until(partial(_listens, log_of, servers[name]))
            assert servers[name].poll() is None, log_of.read_text()
        yield hosts


def _listens(log: Path, server: subprocess.Popen[bytes]) -> bool:
    return "listening" in log.read_text() or server.poll() is not None


def _end(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    server.wait(20)
