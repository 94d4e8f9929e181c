"""The page of each method, in one order, from the tables of methods.md and the documentation of its class and its module.

What it solves, when to take it, its equations, its options, what an iteration costs, an example with its figure, references, and
where it is in the code. The tables are read, so that nothing is written twice.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from decentorth.registry import algorithms
from decentorth.settings import settings

FOLDER = "figures"
PAGE = Path(__file__).with_name("methods.md")
PROBLEMS = {
    "x^T B x = I, B distributed": 'do.problems.CCASettings(data="digits", rank=2).problem(10, seed=0)',
    "x^T B x = I": "do.problems.GEVPSettings(dimension=20, rank=2).problem(1, seed=0)",
    "x^T J x = J": "do.problems.HEVPSettings(dimension=10).problem(1, seed=0)",
    "x^T x = I, a term": 'do.problems.SparsePCASettings(data="digits", rank=3).problem(10, seed=0)',
    "nonsmooth": "do.problems.RSRSettings(dimension=30).problem({n}, seed=0)",
    "features split": "do.problems.SplitPCA(np.array_split(samples, 6, axis=1), 3)",
    "": 'do.problems.PCASettings(data="synthetic", rank=3).problem({n}, seed=0)',
}
"""The problem of a method's example, by the words with which its row begins to speak of the set, or has for exactness."""
SAMPLES = "samples = np.random.default_rng(0).standard_normal((60, 24)) * np.geomspace(1, 0.1, 24)"
GIVEN = {
    "drproxgt": "step_size=0.08",
    "prextra": "step_size=0.06",
    "dgd": "penalty=2.0, step_size=1e-3",
    "gradient_tracking": "penalty=2.0, step_size=1e-2",
}
"""The options of examples of methods that their automatic steps do not keep near the manifold."""
HEADINGS = ("Sends", "Dependent exchanges", "Set", "Points on the manifold", "Exact", "Steps")
"""What the first table says of a method, behind its class."""


@cache
def tables() -> dict[str, list[list[str]]]:
    """The cells of each method's rows in the tables of methods.md, by its name."""
    found: dict[str, list[list[str]]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| `(\w+)` \|(.*)\|$", line):
            found.setdefault(row[1], []).append([cell.strip() for cell in row[2].split(" | ")])
    return {name: rows[:2] for name, rows in found.items() if len(rows) > 1 and name in algorithms.names()}


def plain(cell: str) -> str:
    """A cell of a table as reStructuredText."""
    parts = re.split(r"(\$[^$]*\$|\{cite\}`[^`]*`|\[[^]]*\]\([\w.]+\.md\)|x\^T \w x = \w|`[^`]*`)", cell)
    forms = {
        r"\$(.*)\$": r"\\ :math:`\1`\\ ",
        r"\{cite\}`(.*)`": r":cite:`\1`",
        r"\[(.*)\]\((.*)\.md\)": r":doc:`\1 </\2>`",
        r"x\^T (\w) x = (\w)": r"\\ :math:`x^\\top \1 x = \2`\\ ",
        r"`(.*)`": r"``\1``",
    }
    for place in range(1, len(parts), 2):
        form = next(form for form in forms if re.fullmatch(form, parts[place]))
        parts[place] = re.sub(form, forms[form], parts[place])
    return "".join(parts)


def options(cls: type) -> list[str]:
    """The options of a method with their defaults, as the command line describes them."""
    found = []
    for name, one in settings(cls).items():
        text = (one.help or "").replace("*", r"\*").replace("|", r"\|")
        found.append(f"- ``{name}`` (default ``{one.default}``): {text}")
    return found or ["None."]


def example(name: str, cls: type, cells: list[str]) -> list[str]:
    """A run of the method on a problem of its kind."""
    n, network = 10, ', "ring"'
    if cells[1].startswith("nothing"):
        n, network = 1, ""
    kind = next(one for one in PROBLEMS if cells[3].startswith(one) or cells[5].startswith(one or cells[5]))
    iterations = 50 if kind == "x^T J x = J" else 300
    lines = ["import decentorth as do"]
    if "samples" in PROBLEMS[kind]:
        lines += ["import numpy as np", "", SAMPLES]
    return [
        *lines,
        f"problem = {PROBLEMS[kind].format(n=n)}",
        f"method = do.{cls.__name__}({GIVEN.get(name, '')})",
        f"result = do.solve(problem, method{network}, iterations={iterations})",
        "print(result)",
    ]


def narrow(text: str) -> list[str]:
    """The lines of a documentation as wide as a page: paragraphs are filled again, formulas stay."""
    lines = []
    for paragraph in text.split("\n\n"):
        rows = paragraph.splitlines()
        if any(row.startswith(" ") for row in rows):
            lines += [re.sub(r" {4,}(\(\d+\))$", r"    \1", row) for row in rows]
        else:
            lines += textwrap.wrap(" ".join(rows), 84)
        lines.append("")
    return lines


def linked(app: Any, page: str, source: list[str]) -> None:
    """In methods.md, put a link to its page in place of each method's class."""
    if page == "methods":
        head, line = "| name | class |", "|---|---|---|---|---|---|---|---|"
        text = source[0].replace(head, "| name |", 1).replace(line, line[4:], 1)
        to = r"| [`\1`](api/generated/decentorth."
        for cls, name in classes().items():
            text = re.sub(rf"^\| `({name})` \| [^|]*\|", f"{to}{cls.__name__}.rst) |", text, count=1, flags=re.M)
        source[0] = text


def indented(lines: list[str]) -> list[str]:
    """The lines of a directive's content."""
    return ["", *(f"   {line}" for line in lines), ""]


@cache
def figure(name: str, code: str, folder: Path) -> str:
    """The file of the figure that an example draws."""
    place = folder / f"{name}.svg"
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()):
        exec(code, names)  # written above
    place.parent.mkdir(parents=True, exist_ok=True)
    names["result"].plot(width="page").savefig(place, metadata={"Date": None})
    return place.name


def page(name: str, cls: type, folder: Path) -> list[str]:
    """The page of a method behind its first sentence."""
    first, second = tables()[name]
    module = sys.modules[cls.__module__]
    equation, paper, verified, take, avoid = second
    cost = [f"- {heading}: {plain(cell)}" for heading, cell in zip(HEADINGS, first[1:], strict=False)]
    shown = [":doc:`/asynchronous` has its commands and figures."]
    if name != "asynchronous_drfgt":
        code = example(name, cls, first)
        alternative = f"   :alt: history of {name}"
        shown = [
            ".. code-block:: python",
            *indented(code),
            f".. image:: {FOLDER}/{figure(name, chr(10).join(code), folder)}",
            alternative,
        ]
    parts = {
        "": [f"**Take it for** {plain(take)}.", "", f"**Not for** {plain(avoid)}."],
        "Equations": [plain(equation), "", ".. code-block:: text", *indented(narrow(inspect.cleandoc(module.__doc__ or "")))],
        "Options": options(cls),
        "An iteration": cost,
        "Example": shown,
        "References": [f"{plain(paper)}. Verified: {plain(verified)} (:doc:`/methods`)."],
        "Where it is": [f"``{cls.__module__.replace('.', '/')}.py``; on the command line ``--algorithm {name}``."],
    }
    lines = []
    for heading, text in parts.items():
        lines += ["", *[f".. rubric:: {heading}", ""] * bool(heading), *text, ""]
    return lines


def expand(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Give the documentation of a method's class the order of a page."""
    if what != "class" or obj not in classes():
        return
    end = lines.index("") if "" in lines else len(lines)
    lines[end:] = page(classes()[obj], obj, Path(app.srcdir) / "api" / "generated" / FOLDER)


@cache
def classes() -> dict[type, str]:
    """The names of the methods by their classes."""
    return {algorithms.get(one): one for one in tables()}
