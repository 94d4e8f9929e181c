"""A page in one HTML file, which a browser shows without a network."""

from __future__ import annotations

import html
from collections.abc import Iterable
from pathlib import Path

from topologies.line.flags import InputError
from topologies.line.matrix_files import refuse_other

from ...records.run_files import replacing
from .player import HASH, SCRIPT
from .player import STYLE as PLAYER_STYLE

_MARK = "<title>decentorth report</title>"
_POLICY = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src '{HASH}'"
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; } img { max-width: 100%; }
table { border-collapse: collapse; font-size: .9rem; display: block; overflow-x: auto; }
th, td { text-align: left; padding: .15rem .9rem .15rem 0; border-bottom: 1px solid #ddd; }
tr.differs { background: #fff6d6; }
"""


def check_page(path: str) -> None:
    """Raise InputError if the path is no .html file, or ValueError if it is another's file."""
    if Path(path).suffix.lower() not in (".html", ".htm"):
        raise InputError(f"{path}: a report must end in .html")
    refuse_other(Path(path), _MARK.encode(), "report of decentorth")


def write_page(path: str, title: str, body: Iterable[str]) -> None:
    """Write a page with a title and the HTML of its body.

    No script but that of `player` can run in it.

    Raises
    ------
    InputError
        The path is not a .html file that can be written.
    """
    check_page(path)
    parts = [
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{_MARK}',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<style>{_STYLE}{PLAYER_STYLE}</style></head><body>",
        f"<h1>{html.escape(title)}</h1>",
        *body,
        f"<script>{SCRIPT}</script></body></html>\n",
    ]
    try:
        with replacing(Path(path)) as file:
            file.write("\n".join(parts).encode())
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
