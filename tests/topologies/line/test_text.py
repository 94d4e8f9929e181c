"""Names with parameters as text, read into dataclasses and shown."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from topologies.line.text import divided, parameters, read, shown
from topologies.line.typed import Range
from topologies.line.words import nearest, seconds, whole


@dataclass(frozen=True)
class Item:
    first: Annotated[float, Range(most=math.inf)] | Literal["auto"]
    T: int | None = None
    plain_word: str = "a"
    switch: bool = False
    kind: Literal["short", "long"] = "short"
    inner: tuple[int, ...] | str = field(
        default=(1,), metadata={"text": lambda numbers: "/".join(map(str, numbers))}
    )

    def __post_init__(self) -> None:
        numbers = self.inner.split("/") if isinstance(self.inner, str) else self.inner
        object.__setattr__(self, "inner", tuple(int(number) for number in numbers))


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("2", Item(2.0)),
        ("first=auto", Item("auto")),
        (" 1e-3 , t = 3, Plain-Word=b c", Item(1e-3, 3, "b c")),
        ("1,t=2e3", Item(1.0, 2000)),
        ("inf,T=none,switch=TRUE,kind=long,", Item(float("inf"), None, switch=True, kind="long")),
        ("auto,plain_word=x:a=1,b=2,inner=3/4", Item("auto", plain_word="x:a=1,b=2", inner=(3, 4))),
    ],
)
def test_a_dataclass_is_read_and_shown(text: str, item: Item) -> None:
    assert read("item", "item", Item, text) == item
    for defaults in (False, True):
        name, _, again = shown("item", item, defaults).partition(":")
        assert read("item", name, Item, again) == item


def test_defaults_are_shown_only_where_it_is_asked_for() -> None:
    assert shown("item", Item(1.0, inner=(1, 2))) == "item:first=1.0,inner=1/2"
    whole = "item:first=1.0,T=none,plain_word=a,switch=true,kind=short,inner=1"
    assert shown("item", Item(1.0, switch=True), defaults=True) == whole


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "first must be given, as item:first=..."),
        ("1,2", "only the first value may lack its name; write key=2"),
        ("1,first=2", "first is given twice; leave one"),
        ("wide", "first must be a number or 'auto', got 'wide'"),
        ("1,T=2.5e0", "T must be a whole number or None, got '2.5e0'"),
        ("1,switch=1", "switch must be true or false, got '1'"),
        ("1,kind=middle", "kind must be one of short or long, got 'middle'"),
        ("1,inner=x", "invalid literal for int() with base 10: 'x'"),
        (
            "1,swich=true",
            "item has no parameter 'swich'; did you mean 'switch'? its parameters: first, T, "
            "plain_word, switch, kind, inner",
        ),
    ],
)
def test_mistakes_are_explained_in_one_line(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the whole message is compared
        read(f"an item {text!r}", "item", Item, text)
    assert str(caught.value) == f"an item {text!r}: {message}"


def test_names() -> None:
    known: dict[str, Any] = {"lazy-ring": 1, "star": 2}
    assert divided("graph", "Lazy_Ring:a=1:b", known) == ("lazy-ring", "a=1:b")
    with pytest.raises(
        ValueError,
        match=r"^unknown graph 'lazyring'; did you mean 'lazy-ring'\? known graphs: lazy-ring, star, "
        r"mine$",
    ):
        divided("graph", "lazyring:3", known, "mine")
    with pytest.raises(ValueError, match=r"^here: star takes no parameters; write 'star'$"):
        parameters("here", "star", (), "3")


def test_whole_numbers_and_times() -> None:
    assert [whole(text) for text in ("17", "017", "1e4", "2.5E+3", "-3")] == [
        17,
        17,
        10_000,
        2500,
        -3,
    ]
    assert [seconds(text) for text in ("90", "1e1", "30s", "1.5m", ".5h", "2H")] == [
        90.0,
        10.0,
        30.0,
        90.0,
        1800.0,
        7200.0,
    ]
    for text in ("", "1.0", "1e-1", "2.55e1", "1_0", "1e", "e4", "1e999", "inf"):
        with pytest.raises(ValueError, match="must be a whole number"):
            whole(text)
    for text in ("", "m", "10d", "1 2", "10min", "1..2", "inf", "nan"):
        with pytest.raises(
            ValueError, match="must be a number of seconds, or a time such as 30s, 10m or 2h"
        ):
            seconds(text)


def test_swapped_letters_are_nearer_than_other_letters() -> None:
    assert nearest("drgft", ("drgta", "drfgt")) == "drfgt"
    assert nearest("DRGFT", ("DRGTA", "DRFGT")) == "DRFGT"
    assert nearest("drgt", ("drgta", "drfgt")) == "drgta"
    assert nearest("ring", ()) is None
