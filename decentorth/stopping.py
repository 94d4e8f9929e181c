"""Stopping rules. A rule reads each recorded row, combines with others by ``|`` and ``&``, and
states if it means convergence.

Convergence also needs agents that agree, unless a tolerance of consensus is given (`Rule.agreed`).
All ranks have the same numbers and decide equally. Rank 0 decides on wall-clock time and informs
the others. With `LocalMaximum` the agents decide themselves, by max-consensus on local quantities
(see `local_stopping`). The other rules are those of an observer of the whole network.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar, overload

import numpy as np

from .protocols import Agreed, Collective, Quantity, Row, Stop, StoppingRule
from .settings import Count, Finite, Natural, Positive, Range, Seconds, Settings, check, missing

__all__ = ["Consensus", "Error", "Feasibility", "GradientNorm", "Iterations", "LocalMaximum"]
__all__ += ["ObjectiveBelow", "Rule", "Stationarity", "Time", "as_rule", "rules_of"]
R = TypeVar("R", bound="Rule")
AGREED = 1e-6
"""The consensus rms, over the norm of a point, up to which agents agree whatever the tolerance."""


class Rule(Settings):
    """The base class of all rules, which combines them.

    Examples
    --------
    >>> from decentorth.stopping import Consensus, GradientNorm, Rule, Time
    >>> rule = GradientNorm(1e-6) & Consensus(1e-6) | Time("10m")
    >>> isinstance(rule, Rule)
    True
    """

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        """The reason to stop at this row, or None to continue."""
        raise TypeError(f"{type(self).__name__} is not a complete rule: it must define __call__")

    def __or__(self, other: StoppingRule | Callable[[Row], object]) -> Rule:
        """The rule that stops when either rule stops."""
        return _Any(self, _rule(other))

    def __and__(self, other: StoppingRule | Callable[[Row], object]) -> Rule:
        """The rule that stops when both rules stop."""
        return _All(self, _rule(other))

    def __bool__(self) -> bool:
        """Raise a TypeError on ``and``, ``or`` and ``not``, which would keep one rule and drop the
        other."""
        raise TypeError(
            "a stopping rule is neither true nor false: write & for 'and' and | for 'or', as in "
            "one & two | three"
        )

    def missed(self, row: Row) -> list[str]:
        """The tolerances that the row does not meet, each with its value there."""
        return []

    def met_at_start(self, feasibility: float) -> bool:
        """True if a common start of all agents, with this feasibility, is converged for any
        objective."""
        return False

    def parts(self) -> tuple[Rule, ...]:
        """The rules that are combined, in order."""
        return (self,)

    def since(self, first: Row) -> Rule:
        """Return the rule for a run whose first row is ``first``.

        Relative tolerances are compared with this row.
        """
        return self

    def share(self, first: Row) -> float:
        """The tolerance as a share of its metric in the first row; infinity for a rule that does
        not judge the agents' mean."""
        return math.inf

    def agreed(self, first: Row, size: float) -> Rule:
        """Return the rule with convergence only where the agents agree.

        Unless the rule has a tolerance of consensus, ``consensus_rms`` must then be at most
        ``size``, the norm of a point, times the larger of `AGREED` and `share`.
        """
        share = self.share(first)
        if share == math.inf or rules_of(Consensus, self):
            return self
        return _Agreeing(self, max(AGREED, share) * size)

    def resumed(self, seconds: float) -> Rule:
        """Return the rule for a job that continues a run.

        The first ``seconds`` do not count for time limits.
        """
        return self


@dataclass(frozen=True)
class _Agreeing(Rule):
    """A rule that judges the agents' mean, and means convergence only up to a consensus rms."""

    rule: Rule
    bound: float

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        stop = self.rule(row, collective)
        if stop is not None and stop.converged and self._apart(row):
            return None
        return stop

    def parts(self) -> tuple[Rule, ...]:
        return self.rule.parts()

    def missed(self, row: Row) -> list[str]:
        return self.rule.missed(row) or self._apart(row)

    def _apart(self, row: Row) -> list[str]:
        """The words about agents that do not agree."""
        value = row.values.get("consensus_rms", 0.0)
        bound = self.bound
        if value <= bound:
            return []
        return [
            f"consensus rms {value:.3g} is {value / bound:.3g} times the {bound:.3g} of agreement"
        ]


class _Decided(_Agreeing):
    """A rule by which agents end the run together without having compared their points."""

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        stop = self.rule(row, collective)
        if stop is not None and (apart := self._apart(row)):
            return Stop("stopped", False, ", but ".join([stop.message, *apart]))
        return stop

    def missed(self, row: Row) -> list[str]:
        return self.rule.missed(row)


@dataclass(frozen=True)
class _Function(Rule):
    """A user's function of a row, or of a row and the collective. The answer of rank 0 counts for
    all ranks."""

    function: Callable[..., object]

    def __post_init__(self) -> None:
        pass

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        arguments = (row, collective)[: 1 + _takes_two(self.function)]
        try:
            found = self.function(*arguments)
        except StopIteration:
            found = True
        match found:
            case bool() | np.bool_():
                message = f"the stopping rule ended the run at iteration {row.iteration}"
                found = Stop("stopped", False, message) if found else None
            case Stop() | None:
                pass
            case _:
                raise TypeError(
                    "a stopping rule must return True or False, decentorth.protocols.Stop(status, "
                    f"converged, message) or None, got {found!r}"
                )
        if collective.size == 1:
            return found
        of_root = json.loads(collective.everyone(json.dumps(found).encode())[0])
        return None if of_root is None else Stop(*of_root)


def _takes_two(function: Callable[..., object]) -> bool:
    """True if a function can be called with two arguments; a builtin without a signature can."""
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        pass
    return True


def _rule(other: object) -> Rule:
    """The rule that stands beside ``&`` or ``|``; a TypeError for what is none."""
    if isinstance(other, type) or not callable(other):
        raise TypeError(
            f"& and | combine rules such as do.stopping.GradientNorm(1e-6), got {other!r}"
        )
    return as_rule(other)


@dataclass(frozen=True)
class _Pair(Rule):
    first: Rule
    second: Rule

    def __post_init__(self) -> None:
        pass

    def parts(self) -> tuple[Rule, ...]:
        return (*self.first.parts(), *self.second.parts())

    def since(self, first: Row) -> Rule:
        return type(self)(self.first.since(first), self.second.since(first))

    def resumed(self, seconds: float) -> Rule:
        return type(self)(self.first.resumed(seconds), self.second.resumed(seconds))

    def missed(self, row: Row) -> list[str]:
        return [*self.first.missed(row), *self.second.missed(row)]


class _Any(_Pair):
    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        one = self.first(row, collective)
        two = self.second(row, collective)
        if one is None or (two is not None and not one.converged):
            return two
        return one

    def agreed(self, first: Row, size: float) -> Rule:
        return _Any(self.first.agreed(first, size), self.second.agreed(first, size))

    def met_at_start(self, feasibility: float) -> bool:
        return self.first.met_at_start(feasibility) or self.second.met_at_start(feasibility)


class _All(_Pair):
    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        one = self.first(row, collective)
        two = self.second(row, collective)
        if one is None or two is None:
            return None
        unconverged = [stop.status for stop in (one, two) if not stop.converged]
        status = ["converged", *unconverged][-1]
        return Stop(status, not unconverged, f"{one.message}, {two.message}")

    def share(self, first: Row) -> float:
        return min(self.first.share(first), self.second.share(first))

    def met_at_start(self, feasibility: float) -> bool:
        return self.first.met_at_start(feasibility) and self.second.met_at_start(feasibility)


def _over(what: str, value: float, tolerance: float) -> list[str]:
    """How many times the tolerance a value is, if it is above it."""
    if value <= tolerance:
        return []
    return [f"{what} {value:.3g} is {value / tolerance:.3g} times its tolerance of {tolerance:.3g}"]


@dataclass(frozen=True)
class _Below(Rule):
    """Convergence when a metric is at or below a tolerance."""

    tolerance: Positive
    _metric = _name = ""
    unmet: ClassVar[str] = "no row has this metric"

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        if self._metric not in row.values:
            raise ValueError(self.unmet)
        value = row.values[self._metric]
        if value <= self.tolerance:
            return Stop("converged", True, f"{self._name} {value:.2e} <= {self.tolerance:g}")
        return None

    def missed(self, row: Row) -> list[str]:
        return _over(self._name, row.values.get(self._metric, 0.0), self.tolerance)

    def share(self, first: Row) -> float:
        begun = first.values.get(self._metric, 0.0)
        return self.tolerance / begun if begun > 0.0 else math.inf


@dataclass(frozen=True)
class GradientNorm(_Below):
    """Convergence in ``gradient_norm`` (of the mean objective at the projected mean); for
    differentiable problems.

    Parameters
    ----------
    tolerance
        The bound of the gradient norm.
    relative
        The tolerance is a share of the gradient norm at the start of the run, so that it does not
        depend on the units of the data.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> rule = do.stopping.GradientNorm(1e-4, relative=True)
    >>> do.solve(problem, "drfgt", "ring", iterations=3000, stopping=rule).status
    'converged'
    """

    relative: bool = False
    _metric, _name = "gradient_norm", "gradient norm"
    unmet = (
        "a gradient tolerance needs a differentiable problem, as a subgradient's norm need not "
        "vanish: give a tolerance of error or objective, or leave it out"
    )

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        if self.relative:
            raise TypeError("a relative tolerance needs the first row of a run: see since")
        return super().__call__(row, collective)

    def since(self, first: Row) -> Rule:
        if not self.relative:
            return self
        if self._metric not in first.values:
            raise ValueError(self.unmet)
        return _Share(self.tolerance, first.values[self._metric])


@dataclass(frozen=True)
class _Share(Rule):
    """Convergence when ``gradient_norm`` is at or below a share of that at the start."""

    relative: float
    start: float

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        value = row.values["gradient_norm"]
        if value > self.relative * self.start:
            return None
        return Stop(
            "converged",
            True,
            (
                f"gradient norm {value:.2e} <= {self.relative:g} times {self.start:.3g}, its value "
                "at the start"
            ),
        )

    def missed(self, row: Row) -> list[str]:
        found = _over("gradient norm", row.values["gradient_norm"], self.relative * self.start)
        return [f"{words}, {self.relative:g} of its value at the start" for words in found]

    def share(self, first: Row) -> float:
        return self.relative


class Stationarity(_Below):
    """Convergence when ``stationarity``, the generalized gradient of a composite problem, is at or
    below a tolerance.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.SparsePCASettings(data="digits", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> rule = do.stopping.Stationarity(1e-3)
    >>> method = do.DRProxGT(step_size=0.08)
    >>> result = do.solve(problem, method, "ring", stopping=rule)
    >>> result.status
    'converged'
    """

    _metric = _name = "stationarity"
    unmet = (
        "a tolerance of stationarity needs a smooth objective plus a term with a proximal map, "
        "as sparse_pca has: give a gradient tolerance"
    )


class Consensus(_Below):
    """Convergence when the consensus error ``consensus_rms`` is at or below a tolerance.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 5)) * np.arange(1, 6)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> rule = do.stopping.GradientNorm(1e-6) & do.stopping.Consensus(1e-6)
    >>> do.solve(problem, "drfgt", "ring", stopping=rule).status
    'converged'
    """

    _metric, _name = "consensus_rms", "consensus rms"

    def met_at_start(self, feasibility: float) -> bool:
        return True


class Feasibility(_Below):
    """Convergence when ``feasibility`` (of the worst agent) is at or below a tolerance.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 5)) * np.arange(1, 6)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> rule = do.stopping.GradientNorm(1e-6) & do.stopping.Feasibility(1e-6)
    >>> do.solve(problem, "drfgt", "ring", stopping=rule).status
    'converged'
    """

    _metric, _name = "feasibility", "feasibility"

    def met_at_start(self, feasibility: float) -> bool:
        return feasibility <= self.tolerance


class Error(_Below):
    """Convergence when ``error`` (the distance from a known answer) is at or below a tolerance.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> do.solve(problem, "deepca", "ring", stopping=do.stopping.Error(1e-6)).status
    'converged'
    """

    _metric = _name = "error"
    unmet = "an error tolerance needs a problem whose answer is known; this one's is not"


@dataclass(frozen=True)
class LocalMaximum(Rule):
    """Convergence when the agents find by max-consensus that quantities of every agent are at or
    below a tolerance.

    Parameters
    ----------
    tolerance
        The tolerance of each quantity.
    quantities
        gradient: the norm of the agent's estimate of the mean Riemannian gradient (methods with a
        tracker, or one agent). movement: the distance its point moved in the last iteration,
        divided by the step. disagreement: the distance of its point from the average with its
        neighbours. feasibility. By default gradient (without a tracker movement), disagreement and
        feasibility.
    every
        Iterations between two attempts; by default ten for each round that an attempt takes.
    rounds
        Rounds of an attempt, an upper bound on the diameter of the graph; by default the diameter.
        n - 1 is always enough for n agents on a fixed graph.

    Raises
    ------
    ValueError
        For a tolerance, quantity or number out of range.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> rule = do.stopping.LocalMaximum(1e-3)
    >>> do.solve(problem, "drfgt", "ring", iterations=3000, stopping=rule).status
    'converged'
    """

    tolerance: Positive
    quantities: tuple[Quantity, ...] = ()
    every: Count | None = None
    rounds: Natural | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for quantity in self.quantities:
            check("a local quantity", Quantity, quantity)

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        agreed = row.agreed
        if agreed is None or not self.reached(agreed):
            return None
        found = ", ".join(f"{name} {value:.2e}" for name, value in self._judged(agreed).items())
        decided = "the agent decided alone"
        if agreed.rounds:
            decided = f"the agents agreed by {agreed.rounds} rounds of max-consensus"
        return Stop("converged", True, f"{decided}: local {found} <= {self.tolerance:g}")

    def reached(self, agreed: Agreed) -> bool:
        """True if the agents' maxima are at or below the tolerance, as each agent can check by
        itself."""
        return all(value <= self.tolerance for value in self._judged(agreed).values())

    def agreed(self, first: Row, size: float) -> Rule:
        begun = first.values.get("gradient_norm", 0.0)
        if not self.quantities or "disagreement" in self.quantities or not begun > 0.0:
            return self
        return _Decided(self, max(AGREED, self.tolerance / begun) * size)

    def met_at_start(self, feasibility: float) -> bool:
        near = {"disagreement"}
        if feasibility <= self.tolerance:
            near.add("feasibility")
        return bool(self.quantities) and {*self.quantities} <= near

    def missed(self, row: Row) -> list[str]:
        agreed = row.agreed
        if agreed is None:
            return []
        when = f" at iteration {agreed.iteration}" * (agreed.iteration != row.iteration)
        judged = self._judged(agreed).items()
        most = self.tolerance
        return [words + when for name, one in judged for words in _over(f"local {name}", one, most)]

    def _judged(self, agreed: Agreed) -> dict[str, float]:
        return {name: agreed.maxima[name] for name in self.quantities or agreed.usual}


def rules_of(kind: type[R], rule: Rule | None) -> tuple[R, ...]:
    """Return the rules of type ``kind`` within a combination, in order; empty for None."""
    return tuple(one for one in rule.parts() if isinstance(one, kind)) if rule is not None else ()


@overload
def as_rule(stopping: None) -> None: ...
@overload
def as_rule(stopping: Callable[..., object] | float) -> Rule: ...
def as_rule(stopping: object) -> Rule | None:
    """The rule that is given; a number is a tolerance of the gradient norm.

    Raises
    ------
    TypeError, ValueError
        It is neither, or the number is not positive.
    """
    match stopping:
        case Rule() | None:
            return stopping
        case bool():
            pass
        case Real():
            return GradientNorm(float(stopping))
        case _ if callable(stopping) and not isinstance(stopping, type):
            return _Function(stopping)
    raise TypeError(
        "stopping must be a rule such as do.stopping.GradientNorm(1e-6), or a tolerance of the "
        f"gradient norm such as 1e-6, got {stopping!r}"
    )


@dataclass(frozen=True)
class ObjectiveBelow(Rule):
    """A stop when ``objective`` is at or below a value, which does not mean convergence.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 5)) * np.arange(1, 6)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> rule = do.stopping.ObjectiveBelow(-15.0)
    >>> result = do.solve(problem, "drfgt", "ring", stopping=rule)
    >>> result.status
    'objective_floor'
    """

    floor: Finite

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        value = row.values["objective"]
        if value <= self.floor:
            return Stop("objective_floor", False, f"objective {value:.6g} <= {self.floor:g}")
        return None

    def missed(self, row: Row) -> list[str]:
        value = row.values.get("objective", self.floor)
        return [f"objective {value:.6g} is above {self.floor:g}"] * (value > self.floor)


@dataclass(frozen=True)
class Time(Rule):
    """A limit on the wall time of the iterations (without measuring), as 600 (seconds) or "10m"; a
    row is recorded at its end.

    A run that is resumed has the whole limit again: the seconds before are not counted.

    With several ranks, rank 0's clock is broadcast four times a second, or after each iteration
    where one takes longer.

    Examples
    --------
    >>> from decentorth.stopping import Time
    >>> Time("10m")
    Time(seconds=600.0)
    """

    seconds: Annotated[Seconds, Range(above=0)]

    @property
    def end(self) -> float:
        """The seconds of the run at which the limit is reached."""
        return self.seconds

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        if collective.decide(row.seconds >= self.end):
            return Stop("time_limit", False, f"stopped at the time limit of {self.seconds:g} s")
        return None

    def resumed(self, seconds: float) -> Rule:
        return _Resumed(self.seconds, seconds)


@dataclass(frozen=True)
class _Resumed(Time):
    """The limit of a job that continues a run after some seconds."""

    before: float

    @property
    def end(self) -> float:
        return self.before + self.seconds


@dataclass(frozen=True)
class Iterations(Rule):
    """A limit on the number of iterations.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=2)
    >>> problem = settings.problem(4, seed=0)
    >>> rule = do.stopping.GradientNorm(1e-9) | do.stopping.Iterations(50)
    >>> do.solve(problem, "drfgt", "ring", stopping=rule).row.iteration
    50
    """

    number: Natural

    def __call__(self, row: Row, collective: Collective) -> Stop | None:
        if row.iteration >= self.number:
            return Stop("iterations", False, f"stopped at the limit of {self.number} iterations")
        return None


if not TYPE_CHECKING:
    __getattr__ = missing(__name__, __all__)
