"""Words that people write: names, the nearest known name, counts and times.

Every function raises ValueError, with one line that says what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from difflib import get_close_matches

_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def whole(text: str) -> int:
    """The whole number in ``text``, as ``10000`` or ``1e4``."""
    if not re.fullmatch(r"[+-]?[0-9]+(\.[0-9]+(?=e))?(e\+?[0-9]{1,2})?", text.strip(), re.I):
        raise ValueError(f"must be a whole number, got {text!r}")
    number = Decimal(text.strip())
    if number != int(number):
        raise ValueError(f"must be a whole number, got {text!r}")
    return int(number)


def seconds(text: str) -> float:
    """The seconds in ``text``, as ``90``, ``30s``, ``10m`` or ``2h``."""
    match = re.fullmatch(r"([+-]?[0-9.]+(?:e[+-]?[0-9]+)?)([smh]?)", text.strip(), re.IGNORECASE)
    if match is not None:
        with suppress(ValueError):
            return float(match[1]) * _SECONDS[match[2].lower()]
    raise ValueError(
        f"must be a number of seconds, or a time such as 30s, 10m or 2h, got {text!r:.80}"
    )


def normal_name(word: str) -> str:
    """``word`` as names are compared: lower case, with underscores."""
    return word.strip().lower().replace("-", "_")


def suggestion(word: str, known: Iterable[str]) -> str:
    """A hint at the known name nearest to ``word``, as in "; did you mean 'ring'?"; nothing if none
    is near."""
    near = nearest(word, known)
    if near is None:
        return ""
    return f"; did you mean {near!r}?"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name nearest to ``word``; None if none is near.

    A name with the same letters in another order is preferred to all others.
    """
    names = {form: name for name in known for form in (normal_name(name), name)}
    asked = normal_name(word)
    near = get_close_matches(asked, names, n=len(names) or 1)
    same = [form for form in near if sorted(normal_name(form)) == sorted(asked)]
    return next((names[form] for form in (*same, *near)), None)


def either(words: Sequence[str]) -> str:
    """The words as alternatives: "a, b or c"."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def shortened(value: object) -> str:
    """Return ``repr(value)`` for messages; above 80 characters it is cut to 80, plus ``...``."""
    return re.sub(r"(?s)^(.{80}).+", r"\1...", repr(value))


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers in words: ``0 to 3, 7``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join(" to ".join(map(str, run)) for run in runs)


def is_number(text: str) -> bool:
    """True if ``text`` is a decimal number (NaN and infinity included), without underscores or
    other scripts' digits."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and "_" not in text


def partners(labels: Sequence[object], names: Sequence[str]) -> list[int]:
    """The places in ``labels`` of the nodes that are called as the agents are, in the agents'
    order.

    Places stay as they are if the agents have no names, or the labels are numbers of which none is
    an agent's name. Raises ValueError for a name without a partner, with the nearest one.
    """
    place = {str(label): number for number, label in enumerate(labels)}
    named = any(isinstance(label, str) for label in labels)
    if not names or (not named and place.keys().isdisjoint(names)):
        return list(range(len(labels)))
    lonely = [name for name in names if name not in place]
    spare = [name for name in place if name not in names]
    if lonely:
        raise ValueError(
            f"agents are joined to nodes by name, and no node is called {lonely[0]!r}"
            f"{suggestion(lonely[0], spare) or ':'} give both the same names, or number the nodes"
        )
    if spare:
        raise ValueError(
            f"agents are joined to nodes by name, and no agent is called {spare[0]!r}: give a "
            "graph of the agents alone, or number the nodes"
        )
    return [place[name] for name in names]
