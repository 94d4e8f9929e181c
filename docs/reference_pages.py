"""What the page of each class and rule has beside its docstring, in one order, and nothing written
twice.

A method: when to take it, its equations, its options, what an iteration costs, its example with the
figure, references, and where it is in the code, from the tables of methods.md. A problem: its
objective and constraint, from the table of api/problems.md, the figure of its example, the methods
that solve it, its command. Rules for weights: spectra on three
graphs. Every page: the names nearest to it, from the lists of api/*.md.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import logging
import re
import sys
import textwrap
from collections.abc import Callable
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import plain_formulas

import topologies as tp
from decentorth import protocols
from decentorth.api.capabilities import check_capabilities
from decentorth.commands.listing import KINDS
from decentorth.problems import AgentProblem
from decentorth.registry import algorithms, problems
from decentorth.settings import settings

logging.getLogger("decentorth").setLevel(logging.WARNING)
DOCS = Path(__file__).parent
GRAPHS = ("ring:10", "star:10", "torus:4x4")
"""The graphs on which a rule for weights is shown."""
FAMILY = ("decentorth.problems", "decentorth.estimators")
"""The modules whose names tell what belongs together."""
FEW = 12
"""The most names of a list that are all near to each other."""
FOLDER = "figures"
HEADINGS = ("Sends", "Dependent exchanges", "Set", "Points on the manifold", "Exact", "Steps")
"""What the first table says of a method, behind its class."""


@cache
def tables() -> dict[str, list[list[str]]]:
    """The cells of each method's rows in the tables of methods.md, by its name."""
    found: dict[str, list[list[str]]] = {}
    for line in (DOCS / "methods.md").read_text(encoding="utf-8").splitlines():
        if row := re.match(r"\| \**`(\w+)`\** \|(.*)\|$", line):
            found.setdefault(row[1], []).append([cell.strip() for cell in row[2].split(" | ")])
    return {
        name: rows[:2]
        for name, rows in found.items()
        if len(rows) > 1 and name in algorithms.names()
    }


def plain(cell: str) -> str:
    """A cell of a table as reStructuredText."""
    parts = re.split(
        r"(\$[^$]*\$|\{cite\}`[^`]*`|\[[^]]*\]\([\w.]+\.md\)|x\^T \w x = \w|`[^`]*`)", cell
    )
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


def escaped(line: str) -> str:
    """A line of a docstring in which the signs of plain formulas are no markup, but in code."""
    parts = re.split(r"(``.*?``)", line)
    parts[::2] = [
        re.sub(r"\||(?<=\w)_(?!\w)|\*\*(?=\w)", lambda sign: "\\" + sign[0], part)
        for part in parts[::2]
    ]
    return "".join(parts)


def prose(text: str) -> list[str]:
    """The lines of a module's docstring: paragraphs as text, indented formulas as mathematics, and
    indented names of the symbols in the code as they are."""
    lines = []
    for paragraph in text.split("\n\n"):
        items = paragraph.startswith("- ")
        for formula, group in groupby(paragraph.splitlines(), lambda row: row.startswith(" ")):
            rows = list(group)
            if items:
                lines += map(escaped, rows)
            elif formula:
                if latex := plain_formulas.formulas(rows):
                    lines += ["", ".. math::", *indented([latex])]
                    continue
                narrow = [re.sub(r" {4,}(\(\d+\))$", r"    \1", row) for row in rows]
                code = textwrap.dedent("\n".join(narrow)).splitlines()
                lines += ["", ".. code-block:: text", *indented(code)]
            else:
                lines += map(escaped, rows)
        lines.append("")
    return lines


def linked(app: Any, page: str, source: list[str]) -> None:
    """In the groups of methods.md, put a link to its page in place of each method's class."""
    if page == "methods":
        head, line = "| name | class |", "|---|---|---|---|---|---|---|---|"
        text = source[0].replace(head, "| name |").replace(line, line[4:])
        to = r"| \1[`\2`](api/generated/decentorth."
        for cls, name in classes().items():
            text = re.sub(
                rf"^\| (\**)`({name})`\** \| [^|]*\|",
                rf"{to}{cls.__name__}.rst)\1 |",
                text,
                count=1,
                flags=re.M,
            )
        source[0] = text


def listed(*families: str) -> str:
    """The list of the methods in these families, in all without one, from which autosummary makes
    their pages."""
    found = [
        one.__name__
        for one in classes()
        if not families or one.__module__.split(".")[2] in families
    ]
    return "\n".join(
        [
            ".. autosummary::",
            "   :toctree: generated",
            "",
            *(f"   decentorth.{name}" for name in sorted(found)),
            "",
        ]
    )


def methods(app: Any, page: str, source: list[str]) -> None:
    """In api/algorithms.md, put the list of methods in place of each line ``methods: FAMILY
    ...``."""
    if page == "api/algorithms":
        source[0] = re.sub(
            r"^methods: (.*)$", lambda found: listed(*found[1].split()), source[0], flags=re.M
        )


def indented(lines: list[str]) -> list[str]:
    """The lines of a directive's content."""
    return ["", *(f"   {line}" for line in lines), ""]


def example(obj: object) -> list[str]:
    """The lines of the example in a docstring."""
    return inspect.cleandoc(obj.__doc__ or "").partition("Examples\n--------\n")[2].splitlines()


@cache
def run(name: str, obj: object) -> dict[str, Any]:
    """The names after an example has run."""
    names: dict[str, Any] = {}
    for one in doctest.DocTestParser().get_examples("\n".join(example(obj))):
        exec(compile(one.source, name, "exec"), names)
    return names


def drawn(name: str, figure: Callable[[], Any], folder: Path) -> list[str]:
    """The lines that show a figure, which is made once."""
    place = folder / FOLDER / f"{name}.svg"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        figure().savefig(place, metadata={"Date": None})
    return [f".. image:: {FOLDER}/{place.name}", f"   :alt: {name}", ""]


def method(name: str, cls: type, folder: Path) -> list[str]:
    """The page of a method behind its first sentence."""
    first, second = tables()[name]
    module = sys.modules[cls.__module__]
    equation, paper, verified, take, avoid = second
    code = [".. code-block:: pycon", *indented(example(cls))]
    parts = {
        "": [f"**Take it for** {plain(take)}.", "", f"**Not for** {plain(avoid)}."],
        "Equations": [
            plain(equation),
            "",
            *prose(inspect.cleandoc(module.__doc__ or "")),
        ],
        "Options": options(cls),
        "An iteration": [
            f"- {heading}: {plain(cell)}"
            for heading, cell in zip(HEADINGS, first[1:], strict=False)
        ],
        "Example": code + drawn(name, lambda: run(name, cls)["result"].plot(width="page"), folder),
        "References": [f"{plain(paper)}. Verified: {plain(verified)} (:doc:`/methods`)."],
        "Where it is": [where(cls), f"On the command line: ``--algorithm {name}``."],
    }
    return sections(parts)


def where(obj: Any) -> str:
    """The sentence on the file of a class or function."""
    return f"``{obj.__module__.replace('.', '/')}.py``."


def sections(parts: dict[str, list[str]]) -> list[str]:
    """The lines of parts, each below its heading."""
    lines = []
    for heading, text in parts.items():
        lines += ["", *[f".. rubric:: {heading}", ""] * bool(heading), *text, ""]
    return lines


def problem(name: str, cls: type, folder: Path) -> list[str]:
    """What stands on the page of a problem below its example."""
    if not any(line.startswith(">>> result = ") for line in example(cls)):
        return []
    names = run(name, cls)
    solvable = names["result"].problem
    fit = [
        link(f"decentorth.{type(one).__name__}")
        for one in algorithms.defaults().values()
        if fits(solvable, one)
    ]
    parts = {
        "": drawn(cls.__name__, lambda: names["result"].plot(width="page"), folder),
        "Methods that solve it": [f"{', '.join(fit)}."],
        "Where it is": [where(cls)],
    }
    command = [one for one, entry in problems.entries().items() if entry is cls]
    if command:
        parts["Where it is"] += [f"On the command line: ``decentorth run --problem {command[0]}``."]
    return sections(parts)


@cache
def formulas() -> dict[str, tuple[str, str]]:
    """The objective and the constraint of each problem, by the names of its class and settings."""
    found = {}
    page = (DOCS / "api/problems.md").read_text(encoding="utf-8")
    for one, named, *both in re.findall(
        r"^\| `(\w+)`(?:, `(\w+)`)? \| \$(.*)\$ over \$(.*)\$ \|$", page, re.M
    ):
        found[one] = tuple(both)
        if named:
            found[problems.get(named).__name__] = tuple(both)
    return found


def with_formula(name: str, obj: Any, lines: list[str]) -> None:
    """Put the display formula of a problem behind the first sentence of its docstring, in place of
    the formula in plain letters, and a link to ``from_sites``."""
    both = formulas().get(name.rpartition(".")[2])
    if both is None or "" not in lines:
        return
    start = end = lines.index("") + 1
    while lines[end].startswith(" "):
        end += 1
    both_lines = rf"\begin{{gathered}} {both[0]} \\ {both[1]} \end{{gathered}}"
    sites = []
    if hasattr(obj, "from_sites"):
        sites = [f"For data that stay at sites take :py:meth:`from_sites <{name}.from_sites>`.", ""]
    lines[start:end] = [".. math::", *indented([both_lines]), *sites]


def fits(solvable: Any, one: Any) -> bool:
    """Whether a method with its default options solves a problem; controls, which need nothing of a
    problem, do not count."""
    try:
        check_capabilities(solvable, one)
    except (TypeError, ValueError):
        return False
    return bool(one.requires or one.requires_set)


def rule(name: str, obj: Any, folder: Path) -> list[str]:
    """What stands on the page of a rule for weights."""
    rows, spectra = [], {}
    for graph in GRAPHS:
        try:
            W = tp.weights_from_name(tp.graph_from_name(graph), name)
        except ValueError:  # the rule is not for this graph
            continue
        found = tp.spectrum(W)
        spectra[graph] = tp.eigenvalues(W)
        rows.append(
            f'"``{graph}``", {found.sigma:.4f}, {found.gap:.4f}, '
            f"{round(found.lambda_min, 4) + 0.0:.4f}"
        )
    shown = [*spectra][-1]
    header = ["   :header: graph, sigma, spectral gap, smallest eigenvalue", ""]
    parts = {
        "On some graphs": [".. csv-table::", *header, *(f"   {row}" for row in rows)],
        f"Eigenvalues on {shown}": drawn(
            obj.__name__, lambda: tp.draw_spectrum(spectra[shown]).figure, folder
        ),
        "Where it is": [where(obj), f"On the command line: ``--weights {name}``."],
    }
    return sections(parts)


@cache
def lists() -> list[list[str]]:
    """The names of each list of api/*.md."""
    blocks = [
        re.findall(r"^   ([\w.]+)$", block, re.M)
        for page in sorted((DOCS / "api").glob("*.md"))
        for block in page.read_text().split("```")
    ]
    return [block for block in blocks if block]


def link(name: str) -> str:
    """A link to the page of a name."""
    return f":py:obj:`{name.rpartition('.')[2]} <{name}>`"


def near(name: str, obj: Any) -> list[str]:
    """The names nearest to one.

    Of problems and estimators those that contain its name, of methods those of the same set; then
    its list, of a long one a part.
    """
    own = name.rpartition(".")[2].removesuffix("Settings")
    every = [other for names in lists() for other in names]
    alike = [
        other for other in every if other.startswith(FAMILY) and own in other.rpartition(".")[2]
    ] * name.startswith(FAMILY)
    if obj in classes():
        of = {one: first[3] for one, (first, _) in tables().items()}
        alike = [
            f"decentorth.{cls.__name__}"
            for cls, one in classes().items()
            if of[one] == of[classes()[obj]]
        ]
    listed = next((names for names in lists() if name in names), [])
    if len(listed) > FEW:
        listed = [other for other in listed if close(other, obj)]
    return [other for other in dict.fromkeys([*alike, *listed]) if other != name]


def close(other: str, obj: Any) -> bool:
    """Whether a name stands for something of the same module, or of the same base classes."""
    module, _, short = other.rpartition(".")
    thing = getattr(importlib.import_module(module), short)
    if thing.__module__ == obj.__module__:
        return True
    return (
        inspect.isclass(thing)
        and inspect.isclass(obj)
        and thing.__bases__ == obj.__bases__ != (object,)
    )


def hidden(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave the methods that only a run calls out of the pages of problems.

    The page of the base class keeps them, for those who write a problem.
    """
    if not inspect.isfunction(obj) or not {"problems", "knowledge_graphs"} & {
        *obj.__module__.split(".")
    }:
        return None
    called = name in called_by_runs() and obj.__module__ != AgentProblem.__module__
    return True if called else None


@cache
def called_by_runs() -> set[str]:
    """The names of the protocols' members, and of the copy for some agents."""
    kinds = [one for one in vars(protocols).values() if inspect.isclass(one)]
    return {"on"}.union(*(vars(one) for one in kinds))


def expand(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Give the documentation of a class or function what its kind of page has."""
    if what not in ("class", "function", "exception"):
        return
    folder = Path(app.srcdir) / "api" / "generated"
    if obj in classes():
        end = lines.index("") if "" in lines else len(lines)
        lines[end:] = method(classes()[obj], obj, folder)
    elif what == "class" and name.startswith("decentorth.problems"):
        with_formula(name, obj, lines)
        lines += problem(name, obj, folder)
    elif obj in rules():
        lines += rule(rules()[obj], obj, folder)
    if others := near(name, obj):
        lines += ["", f"**See also** {', '.join(map(link, others))}.", ""]


@cache
def classes() -> dict[Any, str]:
    """The names of the methods by their classes."""
    return {algorithms.get(one): one for one in tables()}


@cache
def rules() -> dict[Any, str]:
    """The names of the rules for weights by their functions."""
    return {entry: name for name, entry in KINDS["weights"]().items()}
