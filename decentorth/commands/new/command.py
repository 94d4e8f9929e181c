"""``decentorth new algorithm NAME`` (or ``problem NAME``): a file with a working example, and its
test.

Exit codes: 0 the files are written, 2 bad input, and nothing is written.
"""

from __future__ import annotations

import importlib.util
import keyword
from collections.abc import Sequence
from pathlib import Path

from topologies.line.flags import InputError

from ... import registry
from ..line.shell import of_function

_GIVE = "give a kind and a name, as in: decentorth new"
MISSING = f"{_GIVE} algorithm heavy_ball, or decentorth new problem trace_sum"
_MARK = "@dataclass(frozen=True, kw_only=True)\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files that the arguments name, by default those of this process, and return the
    exit code."""
    usage = "decentorth new algorithm|problem NAME"
    return of_function(arguments, new, usage, missing=MISSING)


def new(kind: str, name: str, /) -> str:
    """Write NAME.py, a method or a problem that works, and test_NAME.py, its tests, into this
    folder.

    Parameters
    ----------
    kind
        algorithm or problem; replace its mathematics by yours.
    name
        The name on the command line, as heavy_ball.

    Returns
    -------
    str
        What to do with the files.

    Raises
    ------
    InputError
        Another kind, or a name that is taken.
    """
    if kind not in ("algorithm", "problem"):
        raise InputError(MISSING)
    plain = name.isascii() and name.isidentifier() and name == name.lower() and name[0].isalpha()
    if not plain or keyword.iskeyword(name):
        raise InputError(f"NAME must be a Python name in lower case, as heavy_ball, got {name!r}")
    if name.startswith("test_"):
        raise InputError(
            f"pytest takes {name}.py for tests: choose a NAME that does not begin with test_"
        )
    places = Path(f"{name}.py"), Path(f"test_{name}.py")
    for place in places:
        if place.exists():
            raise InputError(
                f"{place} is there already, and nothing is overwritten: choose another name or "
                "folder"
            )
    known = (registry.algorithms if kind == "algorithm" else registry.problems).names()
    if name in known:
        raise InputError(f"the {kind} {name!r} exists already: choose another name")
    if importlib.util.find_spec(name) is not None:
        raise InputError(
            f"a Python module is called {name!r}, and {name}.py would hide it: choose another name"
        )
    for place, text in zip(places, _texts(kind, name), strict=True):
        with place.open("x", encoding="utf-8") as file:
            file.write(text)
    flags = f"--plugin {name}.py --{kind} {name}"
    lines = [
        f"wrote     {places[0]} and {places[1]}",
        f"run       decentorth run {flags}",
        f"settings  decentorth run {flags} --help",
        f"test      pip install pytest; python -m pytest {places[1]}",
    ]
    if kind == "algorithm":
        lines.append(f"compare   decentorth compare --plugin {name}.py --algorithms {name},drfgt")
    return "\n".join(lines)


def _texts(kind: str, name: str) -> tuple[str, str]:
    """The texts of the example and of its test, under another name."""
    folder = Path(__file__).parent
    title = "".join(part.capitalize() for part in name.split("_"))
    code = (folder / f"{kind}.py").read_text(encoding="utf-8")
    code = code.replace(_MARK, f'@register("{name}", kind="{kind}")\n{_MARK}')
    first = code.index("from decentorth.")
    code = f"{code[:first]}from decentorth import register\n{code[first:]}"
    test = (folder / f"test_{kind}.txt").read_text(encoding="utf-8")
    test = test.replace("from template import", f"from {name} import")
    return code.replace("Template", title), test.replace("Template", title)
