"""Make the figures, tables and claims of the five papers: python
examples/reproduce.py 004 figure1 --fast.

The items and their commands are the tables of docs/papers/*.md. An item's
output is kept in OUT/PAPER/ITEM.txt beside its figures: the first line has the
version, the commit and the command, the last one the processor time. After
several items the sum of these is printed. A fast form says that it decides
nothing. Exit codes: 0 done, 1 a script failed, 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

import decentorth

ROOT = Path(__file__).resolve().parents[1]
PAPERS = ("004", "001", "003", "002", "000", "field")
_ROW = re.compile(
    r"^\| `(\d{3}|field) (\w+)` \| (.*?) \| `(.*?)` \| `(.*?)` \| (.*?) \|$",
    re.M,
)
_HEAD = "# decentorth "
_FEW = (
    "# fast form: few seeds, small sizes and short runs decide nothing where "
    "methods are close; the verdicts are of --full\n"
)


class Item(NamedTuple):
    """A row of the table of a paper's page."""

    paper: str
    name: str
    shows: str
    fast: str
    full: str
    takes: str
    """The processor times of the fast and of the full command."""


class Failure(Exception):
    """A script that failed, or output that cannot be kept."""


def read_items(paper: str) -> list[Item]:
    """Return the items of a paper's page."""
    page = ROOT / "docs" / "papers" / f"{paper}.md"
    return [
        Item(*row) for row in _ROW.findall(page.read_text(encoding="utf-8"))
    ]


def choose(paper: str, name: str | None) -> list[Item]:
    """Return one item of a paper, or all items of it or of all papers;
    ValueError for an unknown one.
    """
    papers = (paper,)
    if paper == "all":
        papers = PAPERS
    elif paper not in PAPERS:
        raise ValueError(unknown("paper", paper, PAPERS))
    items = [item for one in papers for item in read_items(one)]
    names = [item.name for item in items]
    if name is None:
        return items
    if paper == "all":
        raise ValueError(f"give the paper of {name!r}, as in: 004 figure1")
    if name not in names:
        raise ValueError(unknown(f"item of paper {paper}", name, names))
    return [item for item in items if item.name == name]


def unknown(kind: str, word: str, known: Iterable[str]) -> str:
    """Return the message for a word that is not known, with the nearest one or
    all of them.
    """
    near = difflib.get_close_matches(word, known, 1)
    return f"no {kind} is called {word!r}; " + (
        f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    )


def make(item: Item, command: str, out: Path) -> float:
    """Run the command of an item in the folder of its paper, print what it
    prints, and keep that if it ended well; its seconds.
    """
    folder = out / item.paper
    kept = folder / f"{item.name}.txt"
    folder.mkdir(parents=True, exist_ok=True)
    if kept.exists() and not kept.read_bytes().startswith(_HEAD.encode()):
        raise Failure(
            f"{kept} is no output of this script: choose another --out, or "
            f"remove it"
        )
    lines = [f"{_HEAD}{decentorth.__version__}{commit()}: {command}\n"]
    print(f"{item.paper} {item.name}: {item.shows}\n{command}", flush=True)
    before = children_seconds()
    with started(command, folder) as script:
        for line in script.stdout or ():
            lines.append(line)
            print(line, end="", flush=True)
    if script.returncode:
        raise Failure(
            f"{item.paper} {item.name} failed (exit code {script.returncode}); "
            f"nothing of it was kept"
        )
    if command != item.full:
        lines.append(_FEW)
        print(_FEW, end="")
    spent = children_seconds() - before
    lines.append(f"# {spent:.0f} s of the processor\n")
    fresh = kept.with_suffix(".new")
    fresh.write_text("".join(lines), encoding="utf-8")
    fresh.replace(kept)
    return spent


@contextlib.contextmanager
def started(command: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command in a folder until the end of the block; an exception in the
    block ends it at once.
    """
    words = [
        str(ROOT / word) if (ROOT / word).is_file() else word
        for word in command.split()[1:]
    ]
    path = os.pathsep.join(
        filter(None, (str(ROOT), os.environ.get("PYTHONPATH")))
    )
    with subprocess.Popen(
        [sys.executable, "-u", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as script:
        try:
            yield script
        except BaseException:
            kill(script)
            raise


def kill(script: subprocess.Popen[str]) -> None:
    """End a script and the processes that it has started."""
    if sys.platform != "win32":
        with contextlib.suppress(ProcessLookupError):
            os.killpg(script.pid, signal.SIGKILL)
    script.kill()


def commit() -> str:
    """Return the commit of the checkout for the first line, "-dirty" if files
    were changed; nothing outside a repository.
    """
    if not (ROOT / ".git").exists():
        return ""
    words = [
        "git",
        "-C",
        str(ROOT),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        return f", commit {done.stdout.strip()}"
    return ""


def children_seconds() -> float:
    """Return the processor time of all child processes that have ended."""
    spent = os.times()
    return spent.children_user + spent.children_system


def command_line() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="reproduce.py", description=__doc__, allow_abbrev=False
    )
    parser.add_argument(
        "paper",
        nargs="?",
        help=f"{', '.join(PAPERS)} or all; without one the items are listed",
    )
    parser.add_argument(
        "item", nargs="?", help="an item of the paper; without one all of them"
    )
    parser.add_argument(
        "--list",
        action="store_true",
        help="print the items with their commands and processor times",
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="folder of the outputs (default: reproduced-fast or "
        "reproduced-full)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--fast",
        action="store_true",
        help="fewer seeds, smaller problems, shorter runs",
    )
    form.add_argument(
        "--full",
        action="store_true",
        help="published sizes; ten seeds, or three where ten take hours",
    )
    return parser


def listing(items: Iterable[Item]) -> None:
    """Print items with their commands and processor times."""
    for item in items:
        print(
            f"{item.paper} {item.name}: {item.shows}\n  fast: "
            f"{item.fast}\n  full: {item.full}"
        )
        print(f"  processor time: {item.takes}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script with these arguments, by default those of this process,
    and return the exit code.
    """
    parser = command_line()
    asked = parser.parse_args(arguments)
    try:
        items = choose(asked.paper or "all", asked.item)
    except ValueError as error:
        parser.error(str(error))
    if asked.list or asked.paper is None:
        listing(items)
        return 0
    if not (asked.fast or asked.full):
        parser.error(
            "give --fast (short runs) or --full (published sizes, more seeds); "
            "--list prints how long each takes"
        )
    name = "full" if asked.full else "fast"
    out = asked.out or Path(f"reproduced-{name}")
    code = 0
    spent = []
    for item in items:
        try:
            spent.append(make(item, getattr(item, name), out))
        except (Failure, OSError) as error:
            print(f"reproduce.py: {error}", file=sys.stderr)
            code = 1
    if len(items) > 1:
        print(
            f"{len(spent)} of {len(items)} items: {sum(spent):.0f} s of the "
            f"processor together"
        )
    return code


def interrupted() -> NoReturn:
    """End after an interruption."""
    print(
        "reproduce.py: interrupted; items that are complete stay where they "
        "are",
        file=sys.stderr,
    )
    sys.exit(130)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        interrupted()
