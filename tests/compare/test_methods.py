"""Names of methods with parameters, and what is said of those that are none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from decentorth import DRFGT, Landing, registry
from decentorth.algorithms.common.schedules import BarzilaiBorwein, Diminishing
from decentorth.commands.line.flags import InputError
from decentorth.compare.methods import called, has_step, methods, with_step
from topologies.text import specifications

NAMED: list[tuple[Any, dict[str, Any]]] = [
    ("drfgt", {"drfgt": DRFGT()}),
    ("DRFGT,landing", {"drfgt": DRFGT(), "landing": Landing()}),
    (
        "drfgt:order=adapt-then-combine,penalty=10,landing:safe=true,eps=0.25",
        {"drfgt:order=adapt-then-combine,penalty=10": DRFGT(order="adapt-then-combine", penalty=10.0)}
        | {"landing:safe=true,eps=0.25": Landing(safe=True, eps=0.25)},
    ),
    ("landing:step_size=bb:cap=3", {"landing:step_size=bb:cap=3": Landing(step_size=BarzilaiBorwein(cap=3.0))}),
    ([DRFGT(penalty=2.0), "landing"], {"drfgt:penalty=2.0": DRFGT(penalty=2.0), "landing": Landing()}),
    ({"ours": "drfgt:penalty=2", "theirs": Landing()}, {"ours": DRFGT(penalty=2.0), "theirs": Landing()}),
]


@pytest.mark.parametrize(("named", "expected"), NAMED)
def test_methods_by_name(named: Any, expected: dict[str, Any]) -> None:
    assert methods(named) == expected
    if isinstance(named, str):
        assert methods(named.split(",")) == methods(named)


def test_a_label_names_its_own_method() -> None:
    for algorithm in (DRFGT(), DRFGT(step_size=0.5, order="adapt-then-combine"), DRFGT(step_size="diminishing:power=0.75")):
        assert methods(called(algorithm)) == {called(algorithm): algorithm}


@pytest.mark.parametrize(
    ("named", "words"),
    [
        ((), "algorithms must name at least one method, as drfgt,drgta"),
        ("drfg", "algorithms: unknown algorithm 'drfg'; did you mean 'drfgt'?"),
        ("drfgt:ordr=auto", "algorithms: 'drfgt:ordr=auto': drfgt has no parameter 'ordr'; did you mean 'order'? its parameters: "),
        ("drfgt:penalty=-1", "algorithms: 'drfgt:penalty=-1': penalty must be positive"),
        ("drfgt,asynchronous_drfgt:delay=1", "asynchronous_drfgt:delay=1 has activations of single agents, not iterations: use"),
        ("lobpcg", "lobpcg is for features split over agents: use decentorth run --split features"),
        ("drfgt,landing,drfgt", "algorithms: drfgt is named twice: give it other parameters"),
    ],
)
def test_what_is_no_method(named: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        methods(named)
    assert words in str(caught.value)


@dataclass(frozen=True)
class Demanding:
    """Has a setting without a default, and no step.

    Parameters
    ----------
    width
        Of something.
    """

    width: int
    names: tuple[str, ...] | list[str] = ()


def test_methods_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    own = registry.Registry("algorithm")
    own.add("demanding", Demanding)
    monkeypatch.setattr(registry, "algorithms", own)
    with pytest.raises(InputError, match="algorithms: 'demanding': width must be given, as demanding:width="):
        methods("demanding")
    assert methods("demanding:width=3") == {"demanding:width=3": Demanding(3)}
    assert methods("demanding:3,names=x") == {"demanding:3,names=x": Demanding(3, ("x",))}
    assert not has_step(Demanding(3))


def test_another_step_leaves_everything_else() -> None:
    assert with_step(DRFGT(penalty=2.0), 0.5) == DRFGT(penalty=2.0, step_size=0.5)
    policy = DRFGT(step_size=Diminishing(power=0.75))
    assert with_step(policy, 0.5) == DRFGT(step_size=Diminishing(initial=0.5, power=0.75))


def test_names_with_parameters_survive_a_cut_at_every_comma() -> None:
    names = ["a", "b:x=1", "c:y=2,z=w:u=3,v=4", "d"]
    assert specifications(",".join(names).split(",")) == names
    assert specifications(["latency=1,bandwidth=2", "lan", "p=1"]) == ["latency=1,bandwidth=2", "lan:p=1"]
