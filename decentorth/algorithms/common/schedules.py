"""Schedules: the steps of all iterations as multiples of the first. `step_sizes` has their form as
text.

With ``initial="auto"`` the first step is the method's own automatic one.

Subgradient methods have their theory in paper 002 (Cheung, Wang, Yue, So): constant steps Delta /
sqrt(T + 1) are `Horizon` (Theorem 4.9 (a)), Delta / sqrt(k + 1) `Diminishing` (4.9 (b)), Delta /
(sqrt(k + 2) log(k + 2)) `SquareSummable` (4.11); those of its experiments are `Annealed`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np

from topologies.line import text

from ...protocols import Array
from ...settings import Count, Positive, Range, Settings, Share

Auto = Literal["auto"]
LandingPenalty = Annotated[Positive | Auto, "lambda of the landing field; auto: 0.1 / step_size."]
TrackingPenalty = Annotated[
    Positive | Auto,
    "lambda of the landing field; auto: min(0.1, u / 4) / step_size, u = (1 + lambda_min)^2 / 2 with "
    "the least eigenvalue of W.",
]
Ratio = Annotated[float, Range(above=0, below=1)]
"""A ratio of successive steps."""


@dataclass(frozen=True)
class Constant(Settings):
    """The same step in every iteration.

    Parameters
    ----------
    initial
        The step size, or auto.

    Examples
    --------
    >>> from decentorth.algorithms.common.schedules import Constant
    >>> Constant(initial=0.1)
    Constant(initial=0.1)
    """

    name: ClassVar[str] = "constant"

    initial: Positive | Auto = "auto"

    def __str__(self) -> str:
        """As it is written in files and flags."""
        return text.shown(self.name, self)

    @property
    def most(self) -> float:
        """The largest step there can be as a multiple of the start."""
        return 1.0

    def scale(self, k: int) -> float:
        """The step of iteration ``k`` (from 0) as a multiple of the start."""
        return 1.0


@dataclass(frozen=True)
class Diminishing(Constant):
    """``initial / (k + 1)^power``: power 1/2 and 1 are the classical 1/sqrt(k) and 1/k.

    Parameters
    ----------
    power
        How fast the steps shrink, above 0 and at most 1.

    Examples
    --------
    >>> from decentorth.algorithms.common.schedules import Diminishing
    >>> schedule = Diminishing(power=1.0)
    >>> [schedule.scale(k) for k in (0, 1, 3)]
    [1.0, 0.5, 0.25]
    """

    name: ClassVar[str] = "diminishing"

    power: Share = 0.5

    def scale(self, k: int) -> float:
        return float((k + 1.0) ** -self.power)


@dataclass(frozen=True)
class Horizon(Constant):
    """``initial / sqrt(iterations)`` throughout: the constant step of stochastic theory for a run
    of known length.

    Parameters
    ----------
    iterations
        K, the number of iterations that will be made.

    Examples
    --------
    >>> from decentorth.algorithms.common.schedules import Horizon
    >>> schedule = Horizon(iterations=400)
    >>> [schedule.scale(k) for k in (0, 399)]
    [0.05, 0.05]
    """

    name: ClassVar[str] = "horizon"

    iterations: Count = 1000

    def scale(self, k: int) -> float:
        return 1.0 / math.sqrt(self.iterations)


@dataclass(frozen=True)
class SquareSummable(Constant):
    """``initial / (sqrt(k + 2) log(k + 2))``: the steps' squares have a finite sum, the steps do
    not.

    Examples
    --------
    >>> from decentorth.algorithms.common.schedules import SquareSummable
    >>> schedule = SquareSummable()
    >>> [round(schedule.scale(k), 3) for k in (0, 10, 100)]
    [1.02, 0.116, 0.021]
    """

    name: ClassVar[str] = "square-summable"

    @property
    def most(self) -> float:
        return self.scale(0)

    def scale(self, k: int) -> float:
        return 1.0 / (math.sqrt(k + 2.0) * math.log(k + 2.0))


@dataclass(frozen=True)
class Annealed(SquareSummable):
    """``initial min(cap, pairs^(power ratio^k - 1)) / (sqrt(k + 2) log(k + 2))``: the experiments
    of paper 002, Section 5.

    Larger steps at first, which fall in time to ``1 / pairs`` of the square summable ones; with one
    pair they are those throughout.

    Parameters
    ----------
    pairs
        How many pairs of blocks of columns there are: l (l - 1) / 2 for l blocks.
    power
        The first step is pairs^(power - 1) times that of one pair.
    ratio
        How fast the power falls, between 0 and 1.
    cap
        The largest value of the power of pairs.

    Examples
    --------
    >>> from decentorth.algorithms.common.schedules import Annealed
    >>> schedule = Annealed(pairs=3)
    >>> [round(schedule.scale(k), 3) for k in (0, 100, 1000)]
    [3.06, 0.017, 0.002]
    """

    name: ClassVar[str] = "annealed"

    pairs: Count = 1
    power: Positive = 2.0
    ratio: Ratio = 0.991
    cap: Annotated[float, Range(above=0, most=math.inf)] = math.inf

    def scale(self, k: int) -> float:
        larger = math.pow(self.pairs, self.power * self.ratio**k - 1.0)
        return min(self.cap, larger) * super().scale(k)


@dataclass(frozen=True)
class Geometric(Constant):
    """``initial ratio^k``: linear convergence where the minimum is sharp, if the steps do not
    shrink too fast for it.

    Parameters
    ----------
    ratio
        Of successive steps, between 0 and 1.

    Examples
    --------
    >>> from decentorth.algorithms.common.schedules import Geometric
    >>> schedule = Geometric(ratio=0.5)
    >>> [schedule.scale(k) for k in (0, 1, 2)]
    [1.0, 0.5, 0.25]
    """

    name: ClassVar[str] = "geometric"

    ratio: Ratio = 0.99

    def scale(self, k: int) -> float:
        return float(self.ratio**k)


Knots = tuple[tuple[int, float], ...]


def _written(knots: Knots) -> str:
    """The knots as text."""
    return "/".join(f"{k}:{multiple!r}" for k, multiple in knots)


@dataclass(frozen=True)
class Piecewise(Constant):
    """Straight lines in log(step) over k between knots; the first is (0, 1), and the last multiple
    stays.

    Parameters
    ----------
    knots
        Iterations and multiples of the first step there: ((1000, 1.0), (1500, 0.02)), or as text
        1000:1/1500:0.02.

    Examples
    --------
    >>> from decentorth.algorithms.common.schedules import Piecewise
    >>> schedule = Piecewise(knots=((100, 0.01),))
    >>> [round(schedule.scale(k), 3) for k in (0, 50, 100, 500)]
    [1.0, 0.1, 0.01, 0.01]
    """

    name: ClassVar[str] = "piecewise"

    knots: Knots | str = field(default=((1000, 0.01),), metadata={"text": _written})

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "knots", _read_knots(self.knots))

    @property
    def most(self) -> float:
        return max((1.0, *(multiple for _, multiple in cast(Knots, self.knots))))

    def scale(self, k: int) -> float:
        before, low = 0, 1.0
        for after, high in cast(Knots, self.knots):
            if k < after:
                share = (k - before) / (after - before)
                return float(low ** (1.0 - share) * high**share)
            before = after
            low = high
        return low


def _read_knots(given: Knots | str) -> Knots:
    """Knots in their one form; a ValueError or TypeError unless iterations ascend and multiples are
    positive."""
    pairs: Any = [part.split(":") for part in given.split("/")] if isinstance(given, str) else given
    try:
        knots = tuple((int(k), float(multiple)) for k, multiple in pairs)
    except (ValueError, TypeError):
        raise ValueError(
            "knots must be pairs of an iteration and a multiple, as 1000:1/1500:0.02, got "
            f"{given!r}"
        ) from None
    places = [k for k, _ in knots]
    if not knots or places[0] < 1 or any(a >= b for a, b in pairwise(places)):
        raise ValueError(f"knots must be at ascending iterations from 1 on, got {given!r}")
    if wrong := [multiple for _, multiple in knots if multiple not in Range(above=0)]:
        raise ValueError(f"a knot's multiple must be {Range(above=0)}, got {wrong[0]}")
    return knots


@dataclass(frozen=True)
class BarzilaiBorwein(Constant):
    """Each agent's step from its own last movement s and change of field z, at most ``cap`` times
    the start.

    Barzilai & Borwein, "Two-point step size gradient methods", IMA J. Numer. Anal. 1988: the long
    step <s, s> / |<s, z>|, the short one |<s, z>| / <z, z>, or one after the other. It is for
    methods of a single agent; ``cap=inf`` leaves the steps free, between 1e-10 and 1e10 times the
    first.

    Parameters
    ----------
    cap
        The largest step, as a multiple of the first; at least 1, or inf.
    formula
        alternating, long or short.

    Examples
    --------
    >>> import decentorth as do
    >>> from decentorth.algorithms.common.schedules import BarzilaiBorwein
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.RGD(step_size=BarzilaiBorwein())
    >>> do.solve(problem, method, iterations=500, stopping=1e-6).status
    'converged'
    """

    name: ClassVar[str] = "bb"
    least: ClassVar[float] = 1e-3
    """The smallest step, as a multiple of the first, unless the cap is inf."""
    free: ClassVar[tuple[float, float]] = (1e-10, 1e10)
    """The smallest and the largest step, as multiples of the first, where the cap is inf."""

    cap: Annotated[float, Range(least=1, most=math.inf)] = math.inf
    formula: Literal["alternating", "long", "short"] = "alternating"

    def following(self, k: int, base: Array, step: Array, *products: Array) -> Array:
        """``(1,)``: the step of iteration ``k`` from the first one and the last, with <s, s>, <s,
        z> and <z, z>."""
        moved, along, changed = products
        long = self.formula == "long" or (self.formula == "alternating" and k % 2 == 1)
        above, below = (moved, np.abs(along)) if long else (np.abs(along), changed)
        known = (above > 0.0) & (below > 0.0)
        with np.errstate(over="ignore"):  # infinite where the field hardly changes: that is the cap
            found = np.where(known, above / np.where(known, below, 1.0), step)
        low, high = self.free if math.isinf(self.cap) else (self.least, self.cap)
        return np.clip(found, low * base, high * base)


@dataclass(frozen=True)
class Growing(Constant):
    """The step at the start, which grows while the agents' moves show no sign that it is too large:
    see `growing_steps`.

    Examples
    --------
    >>> import decentorth as do
    >>> from decentorth.algorithms.common.schedules import Growing
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> method = do.DRFGT(step_size=Growing(initial=1e-2))
    >>> do.solve(problem, method, "ring", iterations=1000, stopping=1e-3).status
    'converged'
    """

    name: ClassVar[str] = "growing"


InAdvance = Constant | Diminishing | Horizon | SquareSummable | Annealed | Geometric | Piecewise
"""Steps that are chosen in advance."""
Schedule = InAdvance | BarzilaiBorwein | Growing
