"""Shell completion of ``decentorth``, which the shell asks at every TAB."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

from topologies.line.flags import InputError, Parser, function_settings, spelled
from topologies.line.typed import hint

from .. import registry
from ..process.printing import say
from ..settings import Setting, settings
from .line.config import PUBLISHED, Command
from .line.form import CommandForm
from .line.shell import alone
from .listing import KINDS

Words = Sequence[str]
Names = Mapping[str, Callable[[], Iterable[str]]]

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
    "run": "decentorth.commands.line.config:Command",
    "compare": "decentorth.lab.compare.command:CompareForm",
    "theory": "decentorth.lab.theory.command:TheoryForm",
    "plot": "decentorth.lab.plot.command:draw",
    "graph": "topologies.command:main",
    "doctor": "decentorth.lab.doctor.command:DoctorSettings",
    "study": "decentorth.lab.study.command:StudySettings",
    "launch": "decentorth.commands.launch:launch",
}
"""The form, the function or the settings that have a command's flags."""
ARGUMENTS: Names = {
    "list": lambda: KINDS,
    "study": lambda: resolve_name("decentorth.lab.study.command:STUDIES"),
    "new": lambda: ("algorithm", "problem"),
    "graph": KINDS["graphs"],
    "launch": lambda: resolve_name("decentorth.commands.launch:SCRIPTS"),
}
"""The first words of commands that take other words than flags."""
VALUES: Names = {
    "problem": registry.problems.names,
    "algorithm": registry.algorithms.names,
    "algorithms": registry.algorithms.names,
    "topology": KINDS["graphs"],
    "weights": KINDS["weights"],
    "channel": KINDS["faults"],
    "network": lambda: resolve_name("decentorth.lab.compare.model:NETWORKS"),
    "step_size": lambda: ("auto", "constant", "growing", *resolve_name(_SCHEDULES)),
    "config": lambda: (PUBLISHED,),
}
"""The names that flags take, beside those of their types."""
_SCHEDULES = "decentorth.algorithms.common.step_sizes:SCHEDULES"
LISTS = ("algorithms", "network")
"""The flags that take several names with commas between them."""


def install(words: Words) -> int:
    """Write the completion script of the shell in ``words``, by default that of $SHELL.

    Returns the exit code: 0, or 2 after printing the reason.
    """
    return alone(words, lambda words: say(_installed(words)), name="decentorth")


def _installed(words: Words) -> str:
    shell, *more = words or [Path(os.environ.get("SHELL", "")).name]
    if more or shell not in SCRIPTS:
        raise InputError(
            f"--install-completion takes one of {', '.join(SCRIPTS)}, or nothing for the shell "
            "in $SHELL"
        )
    if os.environ.get("HOME") == "":
        raise InputError(
            "--install-completion writes into your home folder, and HOME does not name one"
        )
    place, text = SCRIPTS[shell]
    path = Path(place).expanduser()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    return str(path)


def answer(commands: Iterable[str]) -> int:
    """Print the completions of the last word of $COMP_LINE, up to $COMP_POINT, one per line."""
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
    found = [word for word in candidates(words, last, commands) if word.startswith(last)]
    sys.stdout.write("".join(f"{word}\n" for word in sorted(found)))
    return 0


def candidates(before: Words, last: str, commands: Iterable[str]) -> Iterable[str]:
    """The words that may follow ``before``; flags only where ``last`` begins one."""
    if not before:
        return (*commands, "--help", "--version", "--install-completion")
    command, *given = before
    known = flags(command, given)
    flag = "".join(given[-1:])
    name = flag.removeprefix("--").replace("-", "_")
    if flag.startswith("--") and name in known:
        one = hint(known[name].hint)
        if name in VALUES:
            earlier = last[: last.rfind(",") + 1] * (name in LISTS)
            return (f"{earlier}{one}" for one in VALUES[name]())
        if bool not in one.types:
            items = get_args(one.sequence)[:1]
            return map(str, one.choices + hint(*items or [bool]).choices)
    if command in ARGUMENTS and not given and not last.startswith("-"):
        return ARGUMENTS[command]()
    return ["--help", *(f"--{spelled(name)}" for name in known)]


def flags(command: str, given: Words) -> Mapping[str, Setting]:
    """The flags of a command, with those of the problem and the method that are given."""
    if command == "replay":
        return {"plugin": Command.own["plugin"]}
    if command not in PLACES:
        return {}
    found = resolve_name(PLACES[command])
    if not isinstance(found, type):
        return function_settings(found)
    if not issubclass(found, CommandForm):
        return settings(found)
    own = {kind: Command.own[kind] for kind in found.entries}
    try:
        named, _ = Parser({"": own}).divided([*given, ""])
    except InputError:
        named = {}
    entries = [(kind, name) for kind, name in named.items() if name in found.entries[kind].names()]
    form = found([f"--{kind}={name}" for kind, name in entries])
    known: dict[str, Setting] = {}
    for group in form.groups.values():
        known |= group
    return known
