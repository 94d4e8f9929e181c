"""Print the size of each part of the code, in tokens. A part that grows says in its commit why.

    python -m tests.architecture.sizes

Tokens do not depend on the layout: comments, docstrings and line ends are left out.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

from tests.support.source import ROOT

LAYOUT = frozenset(
    (
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
        tokenize.ENCODING,
    )
)
PARTS = ("commands", "estimators", "lab", "training")
"""Folders of decentorth that are counted alone; all others but families are the core."""


def docstrings(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines of all strings that are statements."""
    found: set[int] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                found.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return found


def tokens(text: str) -> int:
    """Return the number of tokens of a source text without its docstrings."""
    left_out = docstrings(ast.parse(text))
    found = tokenize.generate_tokens(io.StringIO(text).readline)
    return sum(one.type not in LAYOUT and one.start[0] not in left_out for one in found)


def part(path: Path) -> str:
    """Return the part of a file: tests of each part are a part of their own."""
    top, *folders = path.relative_to(ROOT).parts[:-1]
    if top == "decentorth" and folders[:1] != ["families"]:
        return folders[0] if folders and folders[0] in PARTS else "core"
    if top == "topologies":
        return "topologies/line" if folders[:1] == ["line"] else top
    return "/".join([top, *folders][: 3 if "families" in folders else 2])


def main() -> None:
    sizes: Counter[str] = Counter()
    for top in ("decentorth", "topologies", "tests"):
        for path in sorted((ROOT / top).rglob("*.py")):
            sizes[part(path)] += tokens(path.read_text(encoding="utf-8"))
    for name, size in sorted(sizes.items()):
        print(f"{name:35}{size:10,}")
    print(f"{'all':35}{sizes.total():10,}")


if __name__ == "__main__":
    main()
