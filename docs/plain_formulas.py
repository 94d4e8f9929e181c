"""Plain formulas of docstrings, ``x_i <- sum_j W_ij x_j - alpha y_i``, as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

GREEK = (
    *("alpha", "beta", "gamma", "delta", "eta", "theta", "lambda", "mu", "omega", "phi"),
    *("tau", "xi", "zeta", "varsigma", "Lambda", "Psi"),
)
OPERATORS = (
    *("skew", "sym", "tr", "qr", "msgn", "polar", "min", "max", "cay", "cosh", "sinh", "tanh"),
    *("argmin", "mean", "diag", "grad", "FastMix"),
)
NAMES = {name: rf"\{name}" for name in GREEK} | {
    name: rf"\operatorname{{{name}}}" for name in OPERATORS
}
SIGNS = {"<-": r"\leftarrow ", "<=": r"\le ", "||": r"\|", "{": r"\{", "}": r"\}"}
CODE = re.compile(r"`|\w\.\w|step_size|n_local|penalty|property")
"""What formulas never have: such lines give the names of symbols in the code."""
MOST_WORDS = 7
"""A row with more words in one piece is a sentence."""
TOKEN = re.compile(
    r"<-|<=|\|\||\\[lr]angle |\\sqrt\{\w+\}|\^(?:\{[^{}]*\}|\w)|_(?:\{[^{}]*\}|\w+)"
    r"|'s\b|[A-Za-z]+|\d+|\s+(?!<-|= )|."
)


def formulas(rows: Sequence[str]) -> str | None:
    """The rows as aligned LaTeX; None where they are no formulas."""
    if any(CODE.search(row) or not re.search(r"<-| = ", row) for row in rows):
        return None
    lines = r" \\ ".join([_line(row.strip()) for row in rows])
    if any(len(words.split()) > MOST_WORDS for words in re.findall(r"\\text\{([^}]*)\}", lines)):
        return None
    return rf"\begin{{aligned}} {lines} \end{{aligned}}"


def _line(row: str) -> str:
    """A row with the sign at which rows are aligned, and its number."""
    formula, number = re.fullmatch(r"(.*?)(?: {4,}(\(\w+\)(?:, \(\w+\))*))?", row).groups()  # type: ignore[union-attr]
    text = _latex(formula)
    left, sign, right = re.split(r"(\\leftarrow |=)", text, maxsplit=1)
    text = rf"{left}&{sign}{right}"
    if r"\text" in left:
        text = f"&{left}{sign}{right}"
    if number:
        text += rf" \qquad {number}"
    return text


def _latex(formula: str) -> str:
    """A formula, or a part of one."""
    formula = re.sub(r"<(?![-= ])([^<>]*)>", r"\\langle \1\\rangle ", formula)
    formula = re.sub(r"\bsqrt\((\w+)\)", r"\\sqrt{\1}", formula)
    formula = re.sub(r"\b(new|old) ([A-Za-z]+(?:_\w+)?)", r"\2^{\1}", formula)
    parts = re.split(r"(\[[^\[\]]*\])", "".join(_parts(TOKEN.findall(formula))))
    parts[1::2] = [part.replace(" ", r"\; ") for part in parts[1::2]]  # blocks side by side
    return "".join(parts)


def _parts(tokens: Sequence[str]) -> Iterator[str]:
    """The LaTeX of tokens; words that are no names of quantities stand together as text."""
    words: list[str] = []
    for place, token in enumerate(tokens):
        if _is_word(tokens, place):
            words.append(token)
        elif token.isspace() and words:
            words.append(" ")
        else:
            if words:
                yield rf"\;\text{{{''.join(words).strip()}}}\;"
                words = []
            yield _token(token)
    if words:
        yield rf"\;\text{{{''.join(words)}}}"


def _is_word(tokens: Sequence[str], place: int) -> bool:
    """Whether a token is a word of text; so is the article before one."""
    token = tokens[place]
    if token == "a" and place + 2 < len(tokens):
        return tokens[place + 1].isspace() and _is_word(tokens, place + 2)
    if token in ("sum", "mean"):
        return not (place + 1 < len(tokens) and tokens[place + 1].startswith("_"))
    if token == "'s":
        return True
    symbol = len(token) == 1 or token in NAMES or (len(token) == 2 and token.isupper())
    return token.isalpha() and not symbol


def _token(token: str) -> str:
    """The LaTeX of a token that is no text."""
    if token[0] in "_^" and len(token) > 1:
        return f"{token[0]}{{{_script(token[1:].strip('{}'))}}}"
    if token.isspace():
        return r"\quad " if len(token) > 1 else " "
    if token == "sum":
        return r"\sum"
    return SIGNS.get(token) or NAMES.get(token, token)


def _script(text: str) -> str:
    """A subscript or superscript: letters, a name, a word or a formula."""
    if text in ("new", "old", "HS", "DY", "cap"):
        return rf"\text{{{text}}}"
    if text == "T":
        return r"\top"
    if text.isalpha() and text not in NAMES:
        return text
    return re.sub(r"(\w) in (\w)", r"\1 \\in \2", text) if " in " in text else _latex(text)
