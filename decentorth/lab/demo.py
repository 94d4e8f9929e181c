"""``decentorth demo``: a small run, and a page that plays it.

Exit codes: 0 the page is written, 2 bad input, and those of ``decentorth run``.
"""

from __future__ import annotations

import os
import platform
import webbrowser
from collections.abc import Sequence
from html import escape
from pathlib import Path

from topologies.line.flags import HELP, InputError

from ..commands.line.config import Command
from ..commands.line.form import config_bytes
from ..commands.line.shell import alone
from ..commands.run.command import main as run
from ..process.printing import say
from ..records.run_files import CONFIG
from ..records.saved_runs import read_history
from .plot.command import read_configuration
from .plot.page import check_page, write_page
from .plot.player import player, sentences
from .plot.saved_graph import run_graph

USAGE = """Usage: decentorth demo [FOLDER]

Run DRFGT for ten agents on a ring, and open a page that plays it: their points on the sphere, their
messages and the curves. FOLDER, by default decentorth-demo, gets the run and the page, demo.html.
It takes a few seconds and no network."""
FLAGS = (
    "--problem pca --data synthetic --dimension 3 --rank 1 --gap 0.3 --heterogeneity 2 "
    "--agents 10 --topology ring --algorithm drfgt "
    "--seed 13 --iterations 1000 --history-rows 400 --record-agents"
)
"""The run: a point on the sphere for each agent, whose data have a principal direction of their
own."""

TITLE = "Ten agents on a ring"
ABOUT = """<p>Ten agents compute the principal direction of data that are divided among them. All start at the same
point of the sphere. Each follows its own data and sends its point and its gradient estimate to two
neighbours. Drag the sphere to turn it.</p>"""


def main(tokens: Sequence[str] | None = None) -> int:
    """Run the demo and write its page, as ``tokens`` specify; return the exit code.

    ``tokens`` are by default the arguments of this process.
    """
    return alone(tokens, _demo, name="decentorth demo")


def _demo(words: list[str]) -> int:
    if HELP & set(words):
        return say(USAGE)
    if len(words) > 1 or "".join(words).startswith("-"):
        raise InputError(f"give one folder or nothing, got {' '.join(words)!r:.80}")
    folder = (words or ["decentorth-demo"])[0]
    place = Path(folder, "demo.html").resolve()
    _check_folder(folder)
    check_page(str(place))
    say(f"decentorth run {FLAGS} --out {folder}\n")
    code = run([*FLAGS.split(), "--quiet", "--overwrite", "--out", folder])
    if code:
        return code
    history, (graph, _) = read_history(folder), run_graph(folder, read_configuration(folder))
    said = sentences(history, len(graph))
    paragraphs = [f"<p>{escape(one)}</p>" for one in said]
    write_page(str(place), TITLE, [ABOUT, player(history, graph), *paragraphs])
    say("\n".join(said))
    if _has_browser() and webbrowser.open(place.as_uri()):
        say(f"\nOpened {place}")
    else:
        say(f"\nOpen in a browser: {place}")
    return say(
        f"Your own runs: add --record-agents to a run, then decentorth plot {folder} --html "
        f"{folder}/report.html"
    )


def _check_folder(folder: str) -> None:
    """Raise InputError if the folder holds a run that is not the demo's."""
    path = Path(folder, CONFIG)
    own = Command(FLAGS.split()).resolve().yaml()
    if path.exists() and config_bytes(str(path)) != own.encode():
        raise InputError(f"{folder} holds another run ({CONFIG}): give the demo another folder")


def _has_browser() -> bool:
    """True where there is a screen; otherwise a browser of the terminal would take it over."""
    if platform.system() in ("Windows", "Darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
