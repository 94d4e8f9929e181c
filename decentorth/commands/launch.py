"""``decentorth launch``: a script that starts a run on a cluster, several hosts or this machine, on
standard output.

Exit codes: 0 the script is printed, 2 bad input.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from topologies.line.flags import InputError, unknown

from ..settings import Count, Seconds
from .line.shell import of_function

SCRIPTS = {"slurm": "slurm.sbatch", "hosts": "hosts.sh", "local": "local.sh"}
PLACES = Path(__file__).parents[1] / "launch", Path(__file__).parents[2] / "launch"
"""The folder of the scripts in an installed package and in a checkout."""


def main(tokens: Sequence[str] | None = None) -> int:
    """Print the script that the arguments name, by default those of this process, and return the
    exit code."""
    usage, missing = (
        "decentorth launch slurm|hosts|local",
        "name a script, as in: decentorth launch slurm > job.sbatch",
    )
    return of_function(tokens, launch, usage, missing=missing)


def launch(
    kind: Literal["slurm", "hosts", "local"],
    /,
    *,
    ntasks: Count | None = None,
    time: Seconds | None = None,
    job_name: str | None = None,
) -> str:
    """Print a script that starts runs, and starts them again from their checkpoints; its comments
    say how to call it.

    Parameters
    ----------
    kind
        slurm for sbatch, hosts for several hosts by ssh, local for this machine.
    ntasks
        Slurm: the number of ranks; by default 10.
    time
        Slurm: the time limit of the job (90, 30s, 10m, 4h); by default 4h.
    job_name
        Slurm: the name of the job and of its folder in runs/.

    Returns
    -------
    str
        The script.
    """
    if kind not in SCRIPTS:
        raise InputError(unknown(f"unexpected {kind!r:.80}", kind, SCRIPTS, ""))
    folder = next(place for place in PLACES if place.is_dir())
    text = (folder / SCRIPTS[kind]).read_text(encoding="utf-8").rstrip("\n")
    options = {"ntasks": ntasks, "time": _clock(time), "job-name": job_name}
    for name, value in options.items():
        if value is None:
            continue
        if kind != "slurm":
            raise InputError(f"--{name} belongs to decentorth launch slurm: leave it out")
        if re.search(r"\s", str(value)):
            raise InputError(f"--{name} must be one word, got {value!r:.80}")
        text = re.sub(
            rf"^#SBATCH --{name}=.*$", f"#SBATCH --{name}={value}", text, count=1, flags=re.M
        )
    return text


def _clock(seconds: float | None) -> str | None:
    """Slurm's form of a time limit, ``HH:MM:SS``."""
    if seconds is None:
        return None
    minutes, rest = divmod(max(1, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02}:{minutes:02}:{rest:02}"
