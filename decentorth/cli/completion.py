"""Shell completion of ``decentorth``: a script with every command and its flags, written by cyclopts."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, Union

from cyclopts import App, Parameter

from topologies.command import main as graph
from topologies.typed import hint

from .. import registry
from ..compare.command import CompareForm
from ..doctor.__main__ import DoctorSettings
from ..plot import draw
from ..settings import Setting, settings
from ..study.__main__ import STUDIES, StudySettings
from ..theory.__main__ import TheoryForm, TheorySettings
from .config import Command
from .listing import KINDS

SHELLS = ("bash", "zsh", "fish", "powershell")


def install(words: Sequence[str]) -> int:
    """Write the script of the shell that ``words`` name, by default of the one that runs: 0, or 2 with the reason."""
    shell: Any = words[0] if words else None
    if len(words) > 1 or shell not in (None, *SHELLS):
        sys.stderr.write(f"decentorth: --install-completion takes one of {', '.join(SHELLS)}, or nothing for the shell that runs\n")
        return 2
    if os.environ.get("HOME") == "":
        sys.stderr.write("decentorth: --install-completion writes into your home folder, and HOME does not name one\n")
        return 2
    try:
        path = complete_app().install_completion(shell=shell)
    except Exception as error:  # cyclopts has no common class for a shell that it cannot tell and a file that it cannot write
        sys.stderr.write(f"decentorth: {' '.join(str(error).split())}; name the shell: --install-completion bash\n")
        return 2
    sys.stdout.write(f"{path}\n")
    return 0


def complete_app() -> App:
    """All commands with the flags of every problem and every method, for completion alone."""
    problems, methods = registry.problems, registry.algorithms
    of_problems = {key: one for name in problems.names() for key, one in settings(problems.get(name)).items()}
    of_methods = {key: one for name in methods.names() for key, one in settings(methods.get(name)).items()}
    named = {"problem": problems.names(), "algorithm": methods.names()}
    commands: dict[str, Any] = {
        "run": _function({**Command.own, **of_problems, **of_methods}, named),
        "compare": _function({**CompareForm.own, **of_problems}, named),
        "theory": _function({**TheoryForm.own, **settings(TheorySettings), **of_problems, **of_methods}, named),
        "doctor": _function(settings(DoctorSettings), {}),
        "plot": draw,
        "graph": graph,
    }
    app = App(name="decentorth")
    for name, function in commands.items():
        app.command(function, name=name)
    for name, choices, own in (("study", STUDIES, settings(StudySettings)), ("list", KINDS, {})):
        group = App(name=name)
        for choice in choices:
            group.command(_function(own, {}), name=choice)
        app.command(group)
    return app


def _function(fields: Mapping[str, Setting], named: Mapping[str, Sequence[str]]) -> Callable[..., None]:
    """A function with these settings as flags."""

    def command(**given: Any) -> None:
        """Do nothing."""

    kept = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_flag(setting, named.get(name, ())))
        for name, setting in fields.items()
    ]
    command.__signature__ = inspect.Signature(kept)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in kept}
    return command


def _flag(setting: Setting, names: Sequence[str]) -> Any:
    one = hint(setting.hint)
    choices = [Literal[one.choices]] if one.choices else []
    kind: Any = bool if bool in one.types else Literal[tuple(names)] if names else Union[(*choices, str)]
    return Annotated[kind, Parameter(help=setting.help.partition(". ")[0])]
