"""Shell completion of ``decentorth``: what the word under the cursor may become, asked of the command itself at every TAB."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from topologies.flags import function_settings
from topologies.typed import hint

from .. import registry
from ..settings import Setting, settings
from .config import Command
from .flags import InputError, Parser, spelled
from .form import Form
from .listing import KINDS

Load = Callable[[str], Any]
"""A function that gives an object of the package by its place, "module:name"."""

_ASK = "decentorth --complete"
SCRIPTS = {
    "bash": (
        "~/.local/share/bash-completion/completions/decentorth",
        f'complete -o default -C "{_ASK}" decentorth\n',
    ),
    "zsh": (
        "~/.zfunc/_decentorth",
        f'#compdef decentorth\ncompadd -- $(COMP_LINE="${{(j: :)words[1,CURRENT]}}" {_ASK})\n',
    ),
    "fish": (
        "~/.config/fish/completions/decentorth.fish",
        f'complete -c decentorth -a "(COMP_LINE=(commandline -cp | string collect) {_ASK})"\n',
    ),
}
"""The file that a shell loads, and its content."""
PLACES = {
    "run": "decentorth.cli.config:Command",
    "compare": "decentorth.compare.command:CompareForm",
    "theory": "decentorth.theory.__main__:TheoryForm",
    "plot": "decentorth.plot:draw",
    "graph": "topologies.command:main",
    "doctor": "decentorth.doctor.__main__:DoctorSettings",
    "study": "decentorth.study.__main__:StudySettings",
}
"""The form, the function or the settings that have a command's flags."""
ARGUMENTS: Mapping[str, Callable[[Load], Iterable[str]]] = {
    "list": lambda load: KINDS,
    "study": lambda load: load("decentorth.study.__main__:STUDIES"),
    "new": lambda load: ("algorithm", "problem"),
    "graph": lambda load: KINDS["graphs"](),
}
"""The first words of commands that take other words than flags."""
VALUES: Mapping[str, Callable[[], Iterable[str]]] = {
    "problem": registry.problems.names,
    "algorithm": registry.algorithms.names,
    "algorithms": registry.algorithms.names,
    "topology": lambda: KINDS["graphs"](),
    "weights": lambda: KINDS["weights"](),
    "channel": lambda: KINDS["faults"](),
}
"""The names that flags take, beside those of their types."""


def install(words: Sequence[str]) -> int:
    """Write the script of the shell that ``words`` name, by default of $SHELL: 0, or 2 with the reason."""
    shell, *others = words or [Path(os.environ.get("SHELL", "")).name]
    if others or shell not in SCRIPTS:
        known = ", ".join(SCRIPTS)
        sys.stderr.write(f"decentorth: --install-completion takes one of {known}, or nothing for the shell in $SHELL\n")
        return 2
    if os.environ.get("HOME") == "":
        sys.stderr.write("decentorth: --install-completion writes into your home folder, and HOME does not name one\n")
        return 2
    place, text = SCRIPTS[shell]
    path = Path(place).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"decentorth: cannot write {path}: {error.strerror}\n")
        return 2
    sys.stdout.write(f"{path}\n")
    return 0


def answer(commands: Iterable[str], load: Load) -> int:
    """Print what the last word of $COMP_LINE may become, up to $COMP_POINT, one a line."""
    line = os.environ.get("COMP_LINE", "")
    point = os.environ.get("COMP_POINT", "")
    if point.isdecimal():
        line = line[: int(point)]
    try:
        words = shlex.split(line)[1:]
    except ValueError:  # an open quotation
        return 0
    last = ""
    if words and not line.endswith(" "):
        last = words.pop()
    found = [word for word in candidates(words, last, commands, load) if word.startswith(last)]
    sys.stdout.write("".join(f"{word}\n" for word in sorted(found)))
    return 0


def candidates(before: Sequence[str], last: str, commands: Iterable[str], load: Load) -> Iterable[str]:
    """The words that may follow ``before``; flags only where ``last`` begins one."""
    if not before:
        return (*commands, "--help", "--version", "--install-completion")
    command, *given = before
    known = flags(command, given, load)
    flag = before[-1]
    name = flag.removeprefix("--").replace("-", "_")
    if flag.startswith("--") and name in known:
        one = hint(known[name].hint)
        if bool not in one.types:
            names = VALUES.get(name, lambda: map(str, one.choices))
            return names()
    if command in ARGUMENTS and not given and not last.startswith("-"):
        return ARGUMENTS[command](load)
    return ["--help", *(f"--{spelled(name)}" for name in known)]


def flags(command: str, given: Sequence[str], load: Load) -> Mapping[str, Setting]:
    """The flags of a command, with those of the problem and the method that are given."""
    if command not in PLACES:
        return {}
    found = load(PLACES[command])
    if not isinstance(found, type):
        return function_settings(found)
    if not issubclass(found, Form):
        return settings(found)
    own = {kind: Command.own[kind] for kind in found.entries}
    try:
        named, _ = Parser({"": own}).divided([*given, ""])
    except InputError:
        named = {}
    names = [f"--{kind}={name}" for kind, name in named.items() if name in found.entries[kind].names()]
    return {name: one for group in found(names).groups.values() for name, one in group.items()}
