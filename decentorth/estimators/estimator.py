"""The base classes of the estimators: parameters, and the run of a method on data in one place or
held by agents."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import registry
from ..api import Result, solve
from ..api.certificate import certify
from ..api.rank_agreement import check_facts
from ..data.sites import naming, sites_of
from ..families.features.split import SplitPencil, same_samples
from ..network import connect, even_bounds
from ..network.collective import AgentCollective
from ..problems import Deferred
from ..problems.common.checks import is_matrix, matrices, same_columns, same_names
from ..problems.common.pooled_rows import Missing, Wanted
from ..problems.deferred import holders
from ..protocols import Array, Collective, Metric
from ..stopping import Consensus, GradientNorm, Rule

FLOATS = (np.float64, np.float32)
"""The types of samples that are kept; others become the first."""
ALONE = ("rgd", "landing", "generalized_landing")
"""The methods of a single agent whose automatic step size is Barzilai-Borwein here, instead of
their own."""


Directions = Array | None
"""The directions ``(r, d)`` of the last fit, from which a run starts; None for a random start."""
Build = Callable[[slice, Collective], Any]
"""The problem of a rank's agents, made once."""


class Entries(NamedTuple):
    """The samples, or the pair of arrays, of each agent of a fit."""

    given: list[Any]
    """The entry of each agent; None for those of other ranks."""
    own: slice
    """The agents whose entries are here: all, or those of this rank."""
    collective: AgentCollective
    sites: tuple[str, ...]
    """The names of the agents, if they have names."""

    @contextmanager
    def together(self) -> Iterator[None]:
        """Make an error inside that of all ranks, and name sites in place of agents."""
        with self.collective.together(), naming(self.sites) if self.sites else nullcontext():
            yield

    def part(self, number: int) -> Entries:
        """The first or the second array of each pair."""
        return self._replace(given=[None if one is None else one[number] for one in self.given])

    def joined(self, found: list[object]) -> list[Any]:
        """Numbers or texts found from the agents here, among those of the agents of other ranks."""
        if self.own.stop - self.own.start == len(self.given):
            return found
        parts = self.collective.everyone(json.dumps(found).encode())
        return [one for part in parts for one in json.loads(part)]


@dataclass(eq=False, repr=False, kw_only=True)
class AgentEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The parameters of all estimators, and the run of the method.

    Parameters
    ----------
    scale
        True to divide each column by its standard deviation over all samples, which are then in
        ``scale_``.
    missing
        ``"mean"`` for the mean of a column in place of its missing cells (NaN), whose number for
        each agent is then in ``filled_``; ``"refuse"`` to refuse them. In a batch the mean is that
        of the samples seen.
    """

    _default: ClassVar[str] = "auto"
    """The method that ``algorithm="auto"`` stands for."""
    _slope: ClassVar[str] = "gradient_norm"
    """The metric to which ``tol`` applies."""
    _metrics: ClassVar[tuple[Metric, ...]] = ()
    """The metrics beside the standard ones."""
    _centers: ClassVar[bool] = False
    """True where a method has centred samples."""

    scale: bool = False
    missing: Missing = "refuse"
    algorithm: object = "auto"
    step_size: object = "auto"
    tol: float = 1e-8
    max_iter: int = 10_000
    random_state: object = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._wanted.fill
        return tags

    @property
    def _wanted(self) -> Wanted:
        """The units in which a method has the samples."""
        return Wanted(self._centers, self.scale, self.missing)

    @property
    def _accepted(self) -> dict[str, object]:
        """The type and the entries of samples that scikit-learn accepts."""
        finite = "allow-nan" if self._wanted.fill else True
        return {"dtype": np.float64, "ensure_all_finite": finite}

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def _method(self, n_agents: int) -> Any:
        """The algorithm that the parameters name or hold."""
        method = self._default if self.algorithm == "auto" else self.algorithm
        if method == "auto" and self.step_size != "auto":
            raise ValueError(
                f"step_size is a setting of one method, got {self.step_size!r}: add "
                "algorithm='drfgt'"
            )
        if isinstance(method, str):
            entry = registry.algorithms.get(method)
            own = {"step_size": self.step_size}
            if self.step_size == "auto":
                own = {"step_size": "bb"} if n_agents == 1 and method in ALONE else {}
            elif "step_size" not in {field.name for field in dataclasses.fields(entry)}:
                raise ValueError(
                    f"{entry.__name__} takes no step_size, got {self.step_size!r}: leave it at "
                    "'auto'"
                )
            return entry(**own)
        if self.step_size != "auto":
            raise ValueError(
                "step_size belongs to the algorithm where that is an object, got "
                f"{self.step_size!r} beside {method!r}"
            )
        return method

    def _rule(self) -> Rule:
        """The stopping rule of a single agent; a ValueError or TypeError for a tolerance that is
        not positive."""
        limits = {"min_val": 0.0, "max_val": math.inf, "include_boundaries": "neither"}
        return GradientNorm(check_scalar(self.tol, "tol", Real, **limits))

    def _advice(self, problem: object) -> str:
        """The remedy for a run that stopped too early, to precede those for all estimators."""
        return ""

    def _solve(
        self,
        n_agents: int,
        build: Build,
        W: Any,
        last: Directions = None,
        method: Any = None,
        record_every: int | None = None,
    ) -> tuple[Array, Result]:
        """Run the method until the metric and the consensus error are at most ``tol``; warn if that
        fails; sets ``n_iter_``.

        ``build`` gives the problem of a rank's agents, once. The run starts at the feasible point
        nearest to that of ``last`` directions. ``method`` replaces the algorithm. Rows are
        ``record_every`` iterations apart, if it is given. Returns the
        feasible point nearest to the agents' mean, the same on every rank, and the result. Sets
        ``history_``, ``communication_`` and ``sent_`` too.
        """
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        alone = W is None
        stopping = self._rule()
        private = False
        sites: tuple[str, ...] = ()
        if not alone:
            sites = self.sites_
            private = self._private

        result = solve(
            Deferred(n_agents, self._started(build, last), sites=sites, private=private),
            method or self._method(n_agents),
            W,
            iterations=self.max_iter,
            stopping=stopping if alone else stopping & Consensus(self.tol),
            # in one place measuring costs as much as a few iterations
            record_every=5 if alone else record_every,
            seed=int(check_random_state(self.random_state).randint(1 << 31)),
            comm="serial" if alone else None,
            metrics=self._metrics,
            progress=bool(self.verbose),
        )
        self._check_converged(result)
        row = result.row
        (total,) = result.collective.sum(result.x)
        point: Array = result.problem.constraint.project(total[None] / n_agents)[0]
        self.n_iter_: Any = max(row.iteration, 1)
        self.history_ = result.history
        self.communication_ = {"rounds": row.rounds, "messages": row.messages, "bytes": row.bytes}
        self.sent_ = result.sent()
        return point, result

    def _check_converged(self, result: Result) -> None:
        """Warn of a run that has ended above ``tol``; raise for one that gives no answer."""
        if result.status == "interrupted":  # an estimator of half the iterations is not fitted
            raise KeyboardInterrupt(result.message)
        if result.status == "diverged":
            raise ArithmeticError(
                f"{result.message}: give a smaller step_size than {self.step_size!r}"
            )
        if not result.converged:
            row = result.row
            warnings.warn(
                (
                    f"{type(self).__name__} stopped after {row.iteration} iterations at a "
                    f"{self._slope.replace('_', ' ')} of {row.values[self._slope]:.1e}, above "
                    f"tol = {self.tol:g}: {self._advice(result.problem)}raise max_iter or tol"
                ),
                ConvergenceWarning,
                stacklevel=5,
            )

    def _started(self, build: Build, last: Directions) -> Build:
        """The function that builds the problem, with the start that `_solve` describes."""

        def built(own: slice, collective: Collective) -> object:
            problem = build(own, collective)
            if last is not None:
                point = np.ascontiguousarray(self._point(last, problem))
                if point.shape != problem.shape:
                    rank = self.n_components_
                    raise ValueError(
                        f"warm_start continues from {rank} components: set n_components={rank}"
                    )
                (first,) = problem.constraint.project(point[None])
                problem.start = lambda seed: first
            return problem

        return built

    def _point(self, last: Array, problem: object) -> Array:
        """The point of the directions of the last fit."""
        return last.T

    def _solve_features(self, problem: SplitPencil, W: Any) -> tuple[Array, Result]:
        """``(d, r)``: the rows of all agents that hold features, and the result; sets
        ``certificate_`` too."""
        method = registry.algorithms.get("lobpcg")() if self.algorithm == "auto" else None
        # a row each iteration: the end does not depend on whether a rank has its own sites alone
        _, result = self._solve(
            problem.n_agents,
            lambda own, _: problem.restrict(own),
            W,
            method=method,
            record_every=1,
        )
        result, self.certificate_ = certify(result)
        split: Any = result.problem
        return split.joined(result.x, result.collective), result

    def _entries(self, agents: object, pairs: bool = False, **arguments: object) -> Entries:
        """The entry of each agent, which may be None for the agents of other ranks; sets
        ``sites_``.

        All ranks must have equal parameters and ``arguments``. A single entry, an array or with ``pairs`` a tuple of two, is that of this rank, where each
        of several ranks has one agent.
        """
        communicator = connect()
        first = agents
        size = communicator.size
        if pairs and type(agents) is tuple:
            first = agents[0]
        if size > 1 and is_matrix(first):
            agents = [agents if rank == communicator.rank else None for rank in range(size)]
        named, self.sites_ = sites_of(agents)
        given = [entry for _, entry in named]
        settings = {**self.get_params(deep=False), **arguments}
        settings.pop("verbose")  # rank 0 alone prints
        about = {f"the argument {name}": value for name, value in settings.items()}
        about |= {"the number of agents": len(given), "the names of the sites": self.sites_}
        check_facts(communicator, about)
        partial = b"1" if any(entry is None for entry in given) else b"0"
        self._private = b"1" in communicator.allgather_bytes(partial)
        bounds = even_bounds(len(given), size)
        collective = AgentCollective(communicator, bounds)
        own = slice(0, len(given))
        if self._private:
            words = holders(len(given), self.sites_)
            collective = AgentCollective(communicator, bounds, holders=words)
            own = collective.own
        entries = Entries(given, own, collective, self.sites_)
        with entries.together():
            for agent, entry in enumerate(given[own], own.start):
                if entry is None:
                    raise ValueError(
                        f"the entry of agent {agent} is None on rank {collective.rank}, which "
                        "holds it: give it there"
                    )
                if pairs and len(entry) != 2:
                    raise ValueError(
                        f"an agent holds a pair (X_i, y_i), got {len(entry)} arrays of agent "
                        f"{agent}"
                    )
        return entries

    def _features(self, name: str, entries: Entries) -> list[Array]:
        """Check the features, ``(m, d_i)`` of the same m samples, of the agents here."""
        own = entries.own
        with entries.together():
            parts = same_samples(name, entries.given[own], own.start, missing=self._wanted.fill)
        entries.collective.same(f"the number of rows of {name}", str(len(parts[0])).encode())
        return parts

    def _sized(self, name: str, X: Array) -> Array:
        """Samples in one place, checked for entries whose squares are no numbers."""
        return matrices(name, [X], missing=self._wanted.fill)[0]

    def _agents(self, name: str, entries: Entries, *, sparse: bool = False) -> list[Any]:
        """Check all agents' samples together; sets ``n_features_in_`` and, from data frames,
        ``feature_names_in_``.

        They may be ``sparse``. Where a rank gives None for the agents of others, all are checked by
        their ranks, and None stays in the list. Also sets ``_counts``, the number of samples of
        each agent.
        """
        own = entries.own
        mine = same_names(name, entries.given[own], own.start, entries.collective)
        checked: list[Any] = [None] * len(entries.given)
        with entries.together():
            checked[own] = matrices(name, mine, own.start, missing=self._wanted.fill, sparse=sparse)
            same_columns(name, checked[own], own.start)
            validate_data(self, mine[0], skip_check_array=True)
        entries.collective.same(
            f"the columns of {name}", repr((self.n_features_in_, self._names)).encode()
        )
        self._counts: list[int] = entries.joined([len(one) for one in checked[own]])
        return checked

    @property
    def _names(self) -> list[str]:
        """The names of the columns, where the samples were in data frames."""
        return [*map(str, vars(self).get("feature_names_in_", ()))]

    def _last(self, warm_start: bool, name: str = "components_") -> Array | None:
        """The directions of the last fit, ``(r, d)`` or ``(d, r)``, to start from, or None;
        ValueError for other features."""
        if not warm_start:
            return None
        check_is_fitted(self)
        last: Array = vars(self)[name]
        d = last.shape[int(name == "components_")]
        if d != self.n_features_in_:
            given = self.n_features_in_
            raise ValueError(f"warm_start continues from {d} features, got {given}: leave it out")
        return last

    def _coordinates(self, X: object) -> Array:
        """``(m, n_components)``: the coordinates given to an inverse transform, checked."""
        check_is_fitted(self)
        checked: Array = check_array(X, dtype=FLOATS)
        if checked.shape[1] != self.n_components_:
            raise ValueError(
                f"X must have a column for each of the {self.n_components_} components, got "
                f"{checked.shape[1]} columns"
            )
        return checked


def check_components(n_components: Any, most: int, what: str) -> int:
    """The number of components, ``most`` for None; ``what`` is the reason of the upper bound."""
    if n_components is None:
        return most
    if type(n_components) is bool:  # which Python counts as a whole number
        raise TypeError(f"n_components must be a whole number or None, got {n_components}")
    if not 1 <= check_scalar(n_components, "n_components", Integral) <= most:
        raise ValueError(f"n_components must be between 1 and {most}, {what}, got {n_components}")
    return int(n_components)


def by_features(split: str, warm_start: bool) -> bool:
    """True for ``"features"``, False for ``"samples"``; ValueError for others, or a warm start of
    features."""
    if split not in ("samples", "features"):
        raise ValueError(f"split must be 'samples' or 'features', got {split!r}")
    if split == "features" and warm_start:
        raise ValueError("warm_start is for agents that hold samples, not features: leave it out")
    return split == "features"


def signs(vectors: NDArray[np.floating[Any]]) -> Array:
    """``(k,)``: 1 or -1 for each row, which makes its largest entry positive."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], 1)[:, 0]
    return np.where(largest < 0.0, -1.0, 1.0)
