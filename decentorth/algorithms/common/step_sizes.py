"""A method's ``step_size``: a number, ``"auto"``, a schedule, or a schedule as text; and the steps
that follow from it.

Python, files and flags share one spelling. A number, or ``"auto"``, is the constant schedule. The
others are written by name, with parameters where they differ from the defaults: ``"diminishing"``,
``"diminishing:initial=0.5,power=1"``, ``"horizon:iterations=3000"``, ``"bb:cap=2"``,
``"geometric:initial=1e-3,ratio=0.96"``, ``"growing"``; in Python the objects of `schedules` say the
same.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Protocol, TypeVar, cast, get_args

from topologies.line import text

from ...numerics.ordered_sums import sums
from ...protocols import Array
from ...settings import Form, Positive, check
from .schedules import Auto, BarzilaiBorwein, Constant, Growing, InAdvance, Schedule

SCHEDULES: dict[str, type[Schedule]] = {schedule.name: schedule for schedule in get_args(Schedule)}
IN_ADVANCE: tuple[type[Schedule], ...] = get_args(InAdvance)


class Stepped(Protocol):
    """A state with the steps of this iteration and those at the start, ``(n_local,)``."""

    @property
    def step_size(self) -> Array: ...
    @property
    def base(self) -> Array: ...
    @property
    def k(self) -> int: ...
    @property
    def gradients(self) -> int: ...


class Moving(Stepped, Protocol):
    """A state with the field along which the point moves."""

    @property
    def x(self) -> Array: ...
    @property
    def field(self) -> Array: ...


class WithImages(Protocol):
    """A field, and the products of B with the point and with the field."""

    @property
    def field(self) -> Array: ...
    @property
    def product(self) -> Array: ...
    @property
    def image(self) -> Array: ...


class MovingImages(Moving, WithImages, Protocol):
    """A state that also has products with B."""


Written = float | str | Schedule
_WHY = (
    "Barzilai-Borwein steps are for methods of a single agent, growing ones for exact methods on "
    "networks"
)


def checked(
    step_size: Written, allowed: tuple[type[Schedule], ...] = IN_ADVANCE, why: str = _WHY
) -> Written:
    """A method's ``step_size`` in its one form: a number and ``"auto"`` as they are, everything
    else as an object of `schedules`.

    ``allowed`` are the classes that the method can follow, and ``why`` says why no others; these
    are a ValueError or TypeError.
    """
    found = schedule(step_size)
    if type(found) not in allowed:
        others = [repr(one.name) for one in allowed if one is not Constant]
        *most, last = ["a positive number", "'auto'", *others]
        raise ValueError(
            f"step_size must be {', '.join(most)} or {last} for this method, got {str(found)!r}: "
            f"{why}"
        )
    if type(found) is not Constant:
        return found
    if found.initial == "auto" and step_size != "auto" and Growing in allowed:
        return found  # where automatic steps grow, "constant" is the automatic step that does not
    return found.initial


_MEASURED = (*IN_ADVANCE, BarzilaiBorwein)
StepSize = Annotated[
    Written,
    Form(checked),
    "A number > 0; auto: from the agents' Lipschitz constants, the spectrum of W and a given "
    "penalty; or a schedule (diminishing, horizon), which a method without trackers needs to "
    "approach a minimiser.",
]
"""A step size that is constant or follows a schedule."""
ConstantStepSize = Annotated[
    Written,
    Form(partial(checked, allowed=(Constant,))),
    "A number > 0; auto: from the agents' Lipschitz constants and the spectrum of W.",
]
GrowingStepSize = Annotated[
    Written,
    Form(partial(checked, allowed=(*IN_ADVANCE, Growing))),
    "A number > 0; constant: from the agents' Lipschitz constants, the spectrum of W and a given "
    "penalty; growing: start there and increase the step while the agents' moves allow; auto: "
    "growing where that is possible, otherwise constant; or a schedule (diminishing, horizon).",
]
"""Methods that are exact with a constant step can have it judged as they go."""
MeasuredStepSize = Annotated[Written, Form(partial(checked, allowed=_MEASURED))]
"""A single agent can also measure its steps."""


def schedule(step_size: StepSize) -> Schedule:
    """The schedule, or the Barzilai-Borwein rule, that a ``step_size`` stands for."""
    match step_size:
        case Constant():
            return step_size
        case str() if step_size != "auto":
            name, written = text.divided(
                "step_size", step_size, SCHEDULES, "'auto'", "a positive number"
            )
            return text.read(f"step_size {step_size!r}", name, SCHEDULES[name], written)
    return Constant(check("step_size", Positive | Auto, step_size))


def following(step_size: StepSize, state: Stepped) -> Array:
    """``(n_local,)``: the steps of the next iteration, of a checked ``step_size`` that is chosen in
    advance."""
    if isinstance(step_size, Constant):
        return state.base * step_size.scale(state.k + 1)
    return state.step_size


S = TypeVar("S", bound=Stepped)
T = TypeVar("T")


def changed(state: T, **changes: object) -> T:
    """The state, a NamedTuple, with other entries."""
    return cast(Any, state)._replace(**changes)


def advanced(step_size: StepSize, state: S, spent: int = 1, **changes: Any) -> S:
    """The state after an iteration with ``spent`` gradients: the ``changes``, the counters, and the
    steps that follow."""
    step = following(step_size, state)
    gradients = state.gradients + spent
    return changed(state, step_size=step, k=state.k + 1, gradients=gradients, **changes)


def measured(step_size: StepSize, state: Moving, x: Array, field: Array) -> Array:
    """``(1,)``: the step after an iteration that led from ``state`` to ``x`` and ``field``, of any
    checked ``step_size``."""
    if not isinstance(step_size, BarzilaiBorwein):
        return following(step_size, state)
    s = x - state.x
    z = field - state.field
    return step_size.following(
        state.k + 1, state.base, state.step_size, sums(s * s), sums(s * z), sums(z * z)
    )


def measured_in_metric(
    step_size: StepSize, state: MovingImages, x: Array, found: WithImages
) -> Array:
    """The step of `measured`, a Barzilai-Borwein step by the inner products tr(u^T B v), if
    ``found.image``, B times the field, is there; ``found.product`` is B x."""
    if not (isinstance(step_size, BarzilaiBorwein) and found.image.size):
        return measured(step_size, state, x, found.field)
    s = x - state.x
    z = found.field - state.field
    change = found.image - state.image
    return step_size.following(
        state.k + 1,
        state.base,
        state.step_size,
        sums(s * (found.product - state.product)),
        sums(s * change),
        sums(z * change),
    )
