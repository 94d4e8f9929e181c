"""Step policies: as text and as objects, their closed forms, and the methods that follow them
against naive loops."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from decentorth import DESTINY, DPRGT, DRFGT, DRGTA, GradientTracking, Landing, solve
from decentorth.algorithms.common.automatic_steps import Order
from decentorth.algorithms.common.schedules import (
    Annealed,
    BarzilaiBorwein,
    Constant,
    Diminishing,
    Geometric,
    Horizon,
    Piecewise,
    Schedule,
    SquareSummable,
)
from decentorth.algorithms.common.step_sizes import SCHEDULES, checked, schedule
from tests.reference import rivals
from tests.support.problems import CASES, GRAPHS, point, relative, stack

ORDERS: tuple[Order, ...] = get_args(Order)
N = 5

positive = st.floats(min_value=0, exclude_min=True, allow_infinity=False, allow_subnormal=True)
initial = st.one_of(st.just("auto"), positive, st.integers(1, 10**9))


@given(initial)
def test_a_constant_is_its_number(number: float | str) -> None:
    constant = Constant(number)  # type: ignore[arg-type]
    for form in (number, constant, str(constant)):
        assert checked(form) == number
        assert schedule(checked(form)) == constant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("diminishing", Diminishing()),
        ("diminishing:initial=0.5,power=1", Diminishing(0.5, 1.0)),
        ("horizon:iterations=3000", Horizon(iterations=3000)),
        ("square-summable:initial=0.9", SquareSummable(0.9)),
        ("annealed:initial=0.9,pairs=45,cap=10", Annealed(0.9, 45, 2.0, 0.991, 10.0)),
        ("annealed:ratio=0.995,power=4,pairs=3,initial=1e-3", Annealed(1e-3, 3, 4.0, 0.995)),
        ("geometric:initial=1e-3,ratio=0.96", Geometric(1e-3, 0.96)),
        (
            "piecewise:initial=1e-4,knots=1000:1/1500:0.02",
            Piecewise(1e-4, ((1000, 1.0), (1500, 0.02))),
        ),
        ("bb", BarzilaiBorwein()),
        ("bb:cap=2", BarzilaiBorwein(cap=2.0)),
        ("diminishing:0.5", Diminishing(0.5)),
        ("Square_Summable: initial = 0.5", SquareSummable(0.5)),
        ("bb:formula=short,cap=1.5,initial=1e-3", BarzilaiBorwein(1e-3, 1.5, "short")),
    ],
)
def test_texts(text: str, expected: Schedule) -> None:
    """Each is one policy, whose own text stands for it again, and none of whose steps is larger
    than the most."""
    assert (
        schedule(text)
        == schedule(str(expected))
        == schedule(checked(expected, tuple(SCHEDULES.values())))
        == expected
    )
    assert hash(schedule(text)) == hash(expected)
    assert Landing(step_size=text) == Landing(step_size=expected)
    for k in (0, 1, 7, 999, 1400, 10**7):
        assert isinstance(expected, BarzilaiBorwein) or 0.0 <= expected.scale(
            k
        ) <= expected.most * (1 + 1e-12)


IN_ADVANCE_NAMES = [
    "diminishing",
    "horizon",
    "square-summable",
    "annealed",
    "geometric",
    "piecewise",
]


def test_methods_that_mean_the_same_are_equal() -> None:
    same = [
        Landing(step_size="bb"),
        Landing(step_size=BarzilaiBorwein()),
        Landing(step_size="bb:initial=auto,cap=inf"),
    ]
    assert len(set(same)) == 1
    assert same[0].step_size == BarzilaiBorwein()
    assert same[0] != Landing(step_size="bb:cap=2")
    numbers = [
        DRFGT(step_size=0.1),
        DRFGT(step_size=Constant(0.1)),
        DRFGT(step_size="constant:initial=0.1"),
    ]
    assert len(set(numbers)) == 1
    assert numbers[1].step_size == 0.1
    assert (
        Landing()
        == Landing(step_size=Constant())
        == Landing(step_size="constant")
        != Landing(step_size="diminishing")
    )
    assert DRFGT() != DRFGT(step_size=Constant()) == DRFGT(step_size="constant")


@pytest.mark.parametrize("method", [DRFGT, DRGTA, DPRGT, DESTINY, GradientTracking])
def test_measured_steps_are_for_a_single_agent(method: Any) -> None:
    with pytest.raises(
        ValueError, match="got 'bb': Barzilai-Borwein steps are for methods of a single agent"
    ):
        method(step_size="bb")


KNOWN = (
    f"known step_sizes: constant, {', '.join(IN_ADVANCE_NAMES)}, bb, growing, 'auto', a positive "
    "number"
)
REFUSED = [
    ("0.1", f"unknown step_size '0.1'; {KNOWN}"),
    (
        "bb:kap=2",
        "step_size 'bb:kap=2': bb has no parameter 'kap'; did you mean 'cap'? its parameters: "
        "initial, cap, formula",
    ),
    ("bb:cap=0.5", "step_size 'bb:cap=0.5': cap must be at least 1, got 0.5"),
    (
        "piecewise:knots=9",
        "step_size 'piecewise:knots=9': knots must be pairs of an iteration and a multiple, as "
        "1000:1/1500:0.02, got '9'",
    ),
    (
        "piecewise:knots=9:1/9:2",
        "step_size 'piecewise:knots=9:1/9:2': knots must be at ascending iterations from 1 on, "
        "got '9:1/9:2'",
    ),
    (
        "piecewise:knots=9:0",
        "step_size 'piecewise:knots=9:0': a knot's multiple must be positive and finite, got 0.0",
    ),
    (
        "horizon:iterations=2.5",
        "step_size 'horizon:iterations=2.5': iterations must be a whole number, got '2.5'",
    ),
    (10**400, f"step_size must be positive and finite, got {10**400}"),
]


@pytest.mark.parametrize("method", [DRFGT, Landing])
@pytest.mark.parametrize(
    ("step_size", "message"), REFUSED, ids=[str(text)[:30] for text, _ in REFUSED]
)
def test_what_is_no_policy_is_refused(method: Any, step_size: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the whole message is compared
        method(step_size=step_size)
    assert str(caught.value) == message


def test_schedules_of_subgradient_methods() -> None:
    """Paper 002, Theorems 4.9 and 4.11 and Section 5, in closed form."""
    root = math.log(2) * math.sqrt(2)
    assert schedule("square-summable").scale(0) == pytest.approx(1 / root, rel=1e-15)
    assert schedule("square-summable").scale(998) == pytest.approx(
        1 / (math.sqrt(1000) * math.log(1000)), rel=1e-15
    )
    printed = Annealed(pairs=math.comb(10, 2))
    assert 0.9 * printed.scale(0) == pytest.approx(0.9 * 45 / root, rel=1e-14)
    for k in (1, 77, 300, 4000):
        expected = 45 ** (2 * 0.991**k - 1) / (math.sqrt(k + 2) * math.log(k + 2))
        assert printed.scale(k) == pytest.approx(expected, rel=1e-13)
        assert Annealed(pairs=45, cap=10.0).scale(k) == pytest.approx(
            min(expected, 10 * SquareSummable().scale(k)), rel=1e-13
        )
        assert Annealed(pairs=1, power=4.0).scale(k) == SquareSummable().scale(k)
    assert 0.9 * Annealed(pairs=45, cap=10.0).scale(0) == pytest.approx(9 / root, rel=1e-14)
    assert printed.scale(10**5) == pytest.approx(SquareSummable().scale(10**5) / 45, rel=1e-12)
    assert Geometric(ratio=0.5).scale(3) == 0.125
    lines = Piecewise(knots=((1000, 1.0), (1500, 0.02), (1600, 2.0)))
    assert [lines.scale(k) for k in (0, 999, 1500, 1600, 10**6)] == pytest.approx(
        [1, 1, 0.02, 2, 2], rel=1e-15
    )
    assert lines.scale(1250) == pytest.approx(math.sqrt(0.02), rel=1e-14)
    assert lines.scale(1550) == pytest.approx(math.sqrt(0.04), rel=1e-14)


def test_a_method_can_refuse_policies() -> None:
    assert checked("diminishing", (Constant, Diminishing)) == Diminishing()
    assert checked(0.1, (Constant,)) == 0.1
    with pytest.raises(
        ValueError,
        match="step_size must be a positive number or 'auto' for this method, got 'horizon'",
    ):
        checked("horizon", (Constant,))
    with pytest.raises(
        ValueError, match=r"a positive number, 'auto' or 'diminishing' for .* got 'bb:cap=3\.0'"
    ):
        checked(BarzilaiBorwein(cap=3.0), (Constant, Diminishing))


@given(st.floats(0.01, 1), st.integers(0, 10**6))
def test_scales(power: float, k: int) -> None:
    assert Diminishing(power=power).scale(k) == pytest.approx(
        math.exp(-power * math.log1p(k)), rel=1e-12
    )
    assert Horizon(iterations=k + 1).scale(k) ** 2 == pytest.approx(1 / (k + 1), rel=1e-15)
    assert Constant().scale(k) == BarzilaiBorwein().scale(k) == 1.0


def test_barzilai_borwein_of_each_agent_by_hand() -> None:
    """Within bounds, above the cap, below the floor, against the movement, at rest, across it,
    hardly any change of the field."""
    base, step = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 1.0]), np.full(7, 0.9)
    products = [
        [1, 2, 4],
        [8, 1, 1],
        [1, 9e3, 1e9],
        [1, -2, 4],
        [0, 0, 0],
        [1, 0, 4],
        [1, 1e-310, 0],
    ]
    moved, along, changed = np.array(products, dtype=float).T
    bb = BarzilaiBorwein(cap=2.0)
    assert bb.following(1, base, step, moved, along, changed).tolist() == [
        0.5,
        2.0,
        1e-3,
        0.5,
        0.9,
        0.9,
        2.0,
    ]
    assert bb.following(2, base, step, moved, along, changed).tolist() == [
        0.5,
        1.0,
        1e-3,
        0.5,
        0.9,
        0.9,
        0.9,
    ]


@pytest.mark.parametrize("kind", ["diminishing", "horizon:iterations=9"])
@pytest.mark.parametrize("name", CASES)
def test_landing_follows_policies(name: str, kind: str) -> None:
    case = CASES[name](rows=(30,))
    x0, a = point(case.problem), 0.1 / case.lipschitz[0]
    steps = [a / 3 if kind.startswith("horizon") else a / np.sqrt(k + 1) for k in range(15)]
    field = rivals.canonical_landing_field(rivals.full(case.gradients), 0.1 / a)
    x = rivals.descent(field, np.ones((1, 1)), x0, steps, 15).x[-1]
    text = f"{kind}{',' if ':' in kind else ':'}initial={a!r}"
    result = solve(case.problem, Landing(step_size=text, penalty=0.1 / a), x0=x0, iterations=15)
    assert relative(result.x, x) < 1e-12
    assert relative(result.x, stack(x0, 1)) > 1e-2


@pytest.mark.parametrize("kind", ["diminishing:power=1", "horizon:iterations=1"])
def test_an_automatic_start_is_that_of_the_constant_step(kind: str) -> None:
    case, W = CASES["pca"](), GRAPHS["ring"](N)
    x0 = point(case.problem)

    def after(step_size: str, iterations: int) -> Any:
        return solve(
            case.problem,
            DRFGT(step_size=step_size, order=ORDERS[0]),
            W,
            x0=x0,
            iterations=iterations,
        ).state

    constant, state = after("auto", 1), after(kind, 4)
    np.testing.assert_array_equal(state.base, constant.step_size)
    np.testing.assert_array_equal(state.penalty, constant.penalty)
    np.testing.assert_array_equal(after(kind, 1).x, constant.x)
    np.testing.assert_allclose(
        state.step_size, constant.step_size * schedule(kind).scale(4), rtol=1e-15
    )
