"""Docstrings open with a noun phrase or a verb, not with a pronoun or a question word.

Pages, docstrings and messages avoid turns of phrase that readers must read twice. The library's
messages name no flags.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest

from tests.support.source import ROOT, Module, module, modules

OPENINGS = ("What", "Whether", "Who", "Those", "That")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and the text of the docstrings of the module, its classes and functions, and of
    strings after an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for place, statement in enumerate(node.body):
                documents = place == 0 or isinstance(
                    node.body[place - 1], ast.Assign | ast.AnnAssign
                )
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))) if documents:
                        yield statement.lineno, text


def riddles(source: Module) -> list[str]:
    """File, line and first words of each docstring that opens with one of `OPENINGS`."""
    opened = [(line, text.split()[:6]) for line, text in docstrings(source.tree)]
    return [
        f"{source.path}:{line}: {' '.join(words)}"
        for line, words in opened
        if {*words[:1]} & {*OPENINGS}
    ]


def test_no_docstring_opens_with_a_pronoun() -> None:
    assert [place for source in modules() for place in riddles(source)] == []


@pytest.mark.parametrize(
    ("text", "caught"),
    [
        ('def f():\n    """Whether x holds."""', True),
        ('class A:\n    """A point."""\n    x: int\n    """Those of x."""', True),
        ('X = 1\n"""\nThat of x."""', True),
        ('class A:\n    async def f(self):\n        r"""Who sends."""', True),
        ('"""Whatever the state of x; that is what it is."""', False),
        ('X = "What"', False),
    ],
)
def test_the_checker_sees_openings(text: str, caught: bool) -> None:
    assert bool(riddles(module("decentorth.new", text))) is caught


TURNS = {
    r"alike": "equally, with equal weight",
    r"elsewhere": "otherwise",
    r"one another": "each other",
    r"so many": "N, the noun",
    r"of this number": "the noun",
    r"those (that|which|who)": "the noun",
    r"bears?": "tolerates",
    r"knows? of": "can see",
    r"(is|are|be|was|were) told": "warns, reports",
    r"tells?": "prints, reports, returns",
    r"look(s|ed|ing)? at": "checks, reads",
    r"go(es)? on|going on": "continues",
    r"anew": "again",
    r"falls? apart": "is not connected",
    r"mend(s|ed)?": "fix",
    r"who hears": "every agent that learns of it",
    r"(some|no|every)body": "the noun",
    r"what \w+( \w+)? costs?": "the term of the field",
    r"has no": "lacks, without",
    r"what is no": "the noun",
    r"there (is|are) not(?! enough)": "the noun",
    r"is to": "must",
}
"""Turns of phrase that make a sentence hard to read, as regular expressions of whole words, with
the plain form."""
ALLOWED = {
    "has no attribute": "Python's own words for an unknown name of a module",
    "has no parameter": "the same for an unknown argument, followed by its name",
    "has no effect": "the usual words for an option that changes nothing",
    "tell\n": "the name of a parameter in a docstring",
}
"""Strings of the code may hold these, for the reason given."""


def turns(text: str) -> list[str]:
    return [
        f"{found[0]!r}: {plain}"
        for turn, plain in TURNS.items()
        for found in re.finditer(rf"\b({turn})\b", text, re.I)
    ]


def prose(page: str) -> str:
    return re.sub(
        r"^```.*?^```$|<!--.*?-->|^ {4}.*?$|`[^`]*`|\$[^$]*\$", "", page, flags=re.S | re.M
    )


def test_pages_are_plain() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    pages = [page for page in pages if not {"generated", "gallery", "results"} & {*page.parts}]
    assert [
        f"{page.relative_to(ROOT)}: {turn}"
        for page in pages
        for turn in turns(prose(page.read_text(encoding="utf-8")))
    ] == []
    assert len(pages) > 50


def strings(source: Module) -> Iterator[tuple[str, int, str]]:
    """File and line, the line alone, and the text of each string of a module."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Constant(value=str(text)):
                yield f"{source.path}:{node.lineno}", node.lineno, text


def turns_of_code(text: str) -> list[str]:
    """The turns of phrase in a string of the code, without those in `ALLOWED`."""
    allowed = "|".join(ALLOWED).replace(" ", r"\s+")
    return turns(re.sub(allowed, "", text))


def test_strings_of_the_code_are_plain() -> None:
    found = [
        f"{place}: {turn}"
        for source in modules()
        for place, _, text in strings(source)
        for turn in turns_of_code(text)
    ]
    assert found == []
    assert turns_of_code("--plot has no effect") == []
    assert turns_of_code("a set that has no projection") != []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("A set that has no projection, as agents look at it.", 2),
        ("Nobody is told what waiting costs, and it goes on.", 4),
        ("The agents continue; there is not enough memory in total.", 0),
    ],
)
def test_turns_are_found(text: str, number: int) -> None:
    assert len(turns(text)) == number
    assert turns(prose(f"`{text}`\n\n```\n{text}\n```")) == []


COMMANDS = (
    *(
        f"decentorth.{name}."
        for name in "commands lab records run __main__ network.transport.ulfm registry families.asynchronous.replay".split()
    ),
    *("topologies.command.", "topologies.line.flags."),
)
"""Modules of the package that may write flags: commands, a line for a launcher, and a message that
has both forms."""


def flags(source: Module) -> list[str]:
    """The place of each string with a flag of ours, but for docstrings; srun has flags only."""
    documented = {line for line, _ in docstrings(source.tree)}
    flag = re.compile(r"(?<!srun )(?<![\w-])--[a-z]")
    return [
        f"{place}: {text}"
        for place, line, text in strings(source)
        if line not in documented and flag.search(text)
    ]


def test_messages_of_the_library_name_arguments_of_python() -> None:
    """The command line adds flags where their names differ."""
    library = [source for source in modules() if not f"{source.name}.".startswith(COMMANDS)]
    assert [place for source in library for place in flags(source)] == []
    assert flags(module("decentorth.new", 'raise ValueError("leave x0 out (--start)")'))


def fragments(tree: ast.AST) -> list[int]:
    """The lines of texts that are kept in a variable for the message of the next statement."""
    found = []
    bodies = [getattr(node, name, []) for node in ast.walk(tree) for name in ("body", "orelse")]
    for body in bodies:
        if not isinstance(body, list):  # that of a lambda or a conditional expression
            continue
        for first, second in pairwise(body):
            match first:
                case ast.Assign(
                    targets=[ast.Name(id=name)], value=ast.JoinedStr() | ast.Constant(value=str())
                ) if isinstance(second, ast.Raise) and any(
                    isinstance(node, ast.FormattedValue) and ast.unparse(node.value) == name
                    for node in ast.walk(second)
                ):
                    found.append(first.lineno)
    return found


def test_messages_are_whole() -> None:
    assert [(one.path, line) for one in modules() for line in fragments(one.tree)] == []


@pytest.mark.parametrize(
    ("lines", "number"),
    [
        ('why = "it is late"\nraise ValueError(f"no: {why}")', 1),
        ('why = f"it is {time}"\nif late:\n    raise ValueError(f"no: {why}")', 0),
        ('raise ValueError(f"no: it is {time}")', 0),
    ],
)
def test_fragments_are_found(lines: str, number: int) -> None:
    assert len(fragments(ast.parse(lines))) == number
