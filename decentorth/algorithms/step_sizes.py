"""A method's ``step_size``: a number, ``"auto"``, a schedule, or a schedule as text.

It is written alike in Python, in files and as flags. A number, or ``"auto"``, is the constant schedule. The others are written by
name, with parameters where they differ from the defaults: ``"diminishing"``, ``"diminishing:initial=0.5,power=1"``,
``"horizon:iterations=3000"``, ``"bb:cap=2"``, ``"geometric:initial=1e-3,ratio=0.96"``; in Python the objects of `policies` say the
same.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Annotated, get_args

from topologies import text

from ..settings import Form, Positive, check
from .policies import (
    Annealed,
    Auto,
    BarzilaiBorwein,
    Constant,
    Diminishing,
    Geometric,
    Horizon,
    Piecewise,
    SquareSummable,
)

Schedule = Constant | Diminishing | Horizon | SquareSummable | Annealed | Geometric | Piecewise
"""Steps that are chosen in advance."""
StepPolicy = Schedule | BarzilaiBorwein
POLICIES: dict[str, type[StepPolicy]] = {policy.name: policy for policy in get_args(StepPolicy)}
SCHEDULES: tuple[type[StepPolicy], ...] = get_args(Schedule)


def checked(
    step_size: float | str | StepPolicy,
    allowed: tuple[type[StepPolicy], ...] = SCHEDULES,
    why: str = "Barzilai-Borwein steps are for methods of a single agent",
) -> float | str | StepPolicy:
    """A method's ``step_size`` in its one form: a number and ``"auto"`` as they are, everything else as an object of `policies`.

    Parameters
    ----------
    step_size
        A number, ``"auto"``, an object of `policies`, or one written as text.
    allowed
        The classes of `policies` that the method can follow.
    why
        Why it can follow no others.

    Raises
    ------
    ValueError, TypeError
        For what is none of these, or not allowed.
    """
    found = _read(step_size)
    if type(found) not in allowed:
        *most, last = ["a positive number", "'auto'", *(repr(one.name) for one in allowed if one is not Constant)]
        names = f"{', '.join(most)} or {last}"
        raise ValueError(f"step_size must be {names} for this method, got {str(found)!r}: {why}")
    return found.initial if type(found) is Constant else found


StepSize = Annotated[float | str | StepPolicy, Form(checked)]
"""A step size that is constant or follows a schedule."""
ConstantStepSize = Annotated[float | str | StepPolicy, Form(partial(checked, allowed=(Constant,)))]
MeasuredStepSize = Annotated[float | str | StepPolicy, Form(partial(checked, allowed=get_args(StepPolicy)))]
"""A single agent can also measure its steps."""


@lru_cache
def policy(step_size: StepSize) -> StepPolicy:
    """The schedule, or the Barzilai-Borwein rule, that a checked ``step_size`` stands for."""
    return _read(step_size)


def _read(step_size: StepSize) -> StepPolicy:
    if isinstance(step_size, Constant):
        return step_size
    if not isinstance(step_size, str) or step_size == "auto":
        return Constant(check("step_size", Positive | Auto, step_size))
    name, written = text.divided("step_size", step_size, POLICIES, "'auto'", "a positive number")
    return text.read(f"step_size {step_size!r}", name, POLICIES[name], written)
