"""``python -m decentorth.reproduce PAPER [ITEM] --fast|--full``: the scripts behind the claims of the five papers.

Exit codes: 0 done, 1 a script failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import _version
from ..cli.flags import HELP, InputError, Parser, refuse, take, unknown
from ..cli.outputs import refuse_file, replacing
from ..cli.shell import FAULT, alone, say
from ..settings import Settings, settings
from .items import ITEMS, PAPERS, Item

SUMMARY = (
    "Make the figures and tables of a paper (004, 001, 003, 002, 000 or all), or one of them: their scripts print and draw into a "
    "folder, and the output is kept there beside the figures with the version, the commit and the command."
)


@dataclass(frozen=True)
class ReproduceSettings(Settings):
    """The settings of the command.

    Parameters
    ----------
    fast : bool
        The short form of each script: fewer seeds, smaller problems, shorter runs.
    full : bool
        The long form: published sizes, and ten seeds where a script takes seeds, or three where ten take hours.
    out : str
        Folder for OUT/PAPER/ITEM.txt and the figures beside it; by default reproduced-fast or reproduced-full.
    list : bool
        Print the items with their commands and processor times, and run nothing.
    """

    fast: bool = False
    full: bool = False
    out: str | None = None
    list: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit code."""
    left = "; items that are complete stay where they are"
    return alone(arguments, _reproduce, name="decentorth.reproduce", failed=(OSError,), left=left)


def _reproduce(words: Sequence[str]) -> int:
    if not words or HELP & set(words):
        return say(Parser({"Settings": settings(ReproduceSettings)}, "decentorth reproduce PAPER [ITEM]", SUMMARY).format_help())
    asked, named = take(ReproduceSettings, words)
    refuse([word for word in named if word.startswith("-")], [*settings(ReproduceSettings)])
    items = chosen(named or ["all"] if asked.list else named)
    if asked.list:
        return say("\n".join(map(described, items)))
    if asked.fast == asked.full:
        raise InputError("give --fast (short runs) or --full (published sizes, more seeds); --list tells how long each takes")
    root = checkout((Path(_version.__file__).parents[1], Path.cwd()))
    form = "full" if asked.full else "fast"
    folder = Path(asked.out or f"reproduced-{form}")
    return FAULT if [item for item in items if not make(item, form, root, folder)] else 0


def chosen(named: Sequence[str]) -> list[Item]:
    """The items of the words ``PAPER [ITEM]``; InputError where there are none."""
    if not named:
        raise InputError(f"say which paper: {', '.join(PAPERS)} or all; --list shows what there is")
    paper, *names = named
    if paper not in (*PAPERS, "all"):
        raise unknown(f"no paper is called {paper!r} (there are {', '.join(PAPERS)}, and all)", paper, PAPERS, "")
    found = [item for item in ITEMS if paper in (item.paper, "all")]
    if not names:
        return found
    if len(names) > 1 or paper == "all":
        raise InputError(f"unexpected {names[-1]!r}: give one paper and one of its items, as 004 figure1")
    there = [item.name for item in found]
    if names[0] not in there:
        raise unknown(f"paper {paper} has no {names[0]!r} (there are {', '.join(there)})", names[0], there, "")
    return [item for item in found if item.name == names[0]]


def described(item: Item) -> str:
    """Four lines on an item."""
    return (
        f"{item.paper} {item.name}: {item.shows}\n  fast: {item.command('fast')}\n  full: {item.command('full')}\n"
        f"  processor time: {item.takes}\n"
    )


def checkout(places: Sequence[Path]) -> Path:
    """The first of these folders that is one of the repository; InputError without one or without the packages for figures."""
    found = next((place for place in places if all((place / name).is_dir() for name in ("examples", "benchmarks"))), None)
    if found is None:
        raise InputError(
            "the scripts are in the folders examples and benchmarks of the repository and of the source distribution, not in an "
            "installed package: clone the repository or unpack the source distribution, and start this command in its folder"
        )
    if missing := [name for name in ("matplotlib", "sklearn") if importlib.util.find_spec(name) is None]:
        raise InputError(f'the scripts need {" and ".join(missing)}: pip install "decentorth[plot,data,fast,workers]"')
    return found


def make(item: Item, form: str, root: Path, out: Path) -> bool:
    """Run an item in the folder of its paper, and keep what it prints; True if it ended well.

    The file's first line has the version, the commit and the command, its last the processor time of all its processes.
    """
    command, folder = item.command(form), out / item.paper
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot use {folder}: {error.strerror}; choose another --out") from None
    kept = folder / f"{item.name}.txt"
    refuse_file(kept, b"# decentorth ", "output of this command")
    lines = [f"# decentorth {_version.__version__}{commit(root)}: {command}\n"]
    sys.stdout.write(f"{item.paper} {item.name}: {item.shows}\n{command}\n")
    sys.stdout.flush()
    before = children()
    _, *words = command.split()
    package = os.pathsep.join(filter(None, (str(Path(_version.__file__).parents[1]), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        [sys.executable, "-u", *(str(root / word) if (root / word).is_file() else word for word in words)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": package},
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as script:
        try:
            for line in script.stdout or ():
                lines.append(line)
                sys.stdout.write(line)
                sys.stdout.flush()
        except BaseException:
            if sys.platform != "win32":
                os.killpg(script.pid, signal.SIGKILL)  # the script's own processes too
            script.kill()
            raise
        code = script.wait()
    if code:
        sys.stderr.write(f"decentorth.reproduce: {item.paper} {item.name} failed (exit code {code}); nothing of it was kept\n")
        return False
    lines.append(f"# {children() - before:.0f} s of the processor\n")
    with replacing(kept) as file:
        file.write("".join(lines).encode())
    return True


def commit(root: Path) -> str:
    """The commit of a repository as words to add, with "dirty" where files were changed; nothing where there is none."""
    if not (root / ".git").exists():
        return ""
    try:
        words = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
        found = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return f", commit {found}"


def children() -> float:
    """The processor time of all child processes that have ended, in seconds."""
    spent = os.times()
    return spent.children_user + spent.children_system
