"""Peers: each in an environment of its own, from the requirement file of its name in
``benchmarks/peers``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "peers"
INTERPRETERS = {
    "decent-bench": "python3.13",
    "disropt": "python3",
    "cdopt": "python3",
    "geoopt": "python3",
}
"""The peers with requirement files, and the interpreters that they need."""
Peers = Mapping[str, Path | str]
"""The interpreter of each peer's environment, or the reason why there is none."""
SECONDS = 600


def environment(name: str, folder: Path) -> Path | str:
    """The interpreter of a peer's environment, made in ``folder`` where it is missing; or the
    reason why there is none."""
    python = folder / name / "bin" / "python"
    if (folder / name / "installed").exists():
        return python
    wanted = INTERPRETERS[name]
    base = shutil.which(wanted)
    if base is None or subprocess.run([base, "-c", ""], capture_output=True).returncode:
        return f"there is no {wanted} here"
    for command in (
        [base, "-m", "venv", str(folder / name)],
        [str(python), "-m", "pip", "install", "--quiet", "-r", str(FOLDER / f"{name}.txt")],
    ):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return f"its installation took more than {SECONDS // 60} minutes"
        except OSError as error:
            return f"its environment cannot be made: {error}"
        if done.returncode:
            said = done.stderr.splitlines()
            return next(
                (line for line in said if line.startswith("ERROR")),
                said[-1] if said else "its installation failed",
            )
    (folder / name / "installed").touch()
    return python


def versions(name: str) -> dict[str, str]:
    """The version of a peer, and of torch where it needs that, as pinned."""
    pinned = dict(line.split("==") for line in (FOLDER / f"{name}.txt").read_text().splitlines())
    return {package: version for package, version in pinned.items() if package in (name, "torch")}
