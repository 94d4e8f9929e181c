"""The base classes of the estimators: parameters, and the run of a method on data in one place or held by agents."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, check_scalar, get_tags
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .. import registry
from ..api import Result, solve
from ..api.certificate import Certificate, certify
from ..data.sites import naming, sites_of
from ..network import connect, even_bounds
from ..network.collective import AgentCollective
from ..problems import Deferred
from ..problems.common.checks import is_matrix, matrices, same_columns, same_names
from ..problems.common.pooled import Missing, Units, Wanted, in_units
from ..problems.features.split import SplitPencil
from ..protocols import Array, Collective, Metric
from ..stopping import Consensus, GradientNorm, Rule

FLOATS = (np.float64, np.float32)
"""The types of samples that are kept; others become the first."""
ALONE = ("rgd", "landing", "generalized_landing")
"""The methods of a single agent whose automatic step size is Barzilai-Borwein here, instead of their own."""


class RunningCovariance(NamedTuple):
    """The number of the samples seen in batches, with their mean ``(d,)`` and covariance ``(d, d)``."""

    samples: int
    mean: Array
    covariance: Array

    @staticmethod
    def empty(d: int) -> RunningCovariance:
        """The state before any sample."""
        return RunningCovariance(0, np.zeros(d), np.zeros((d, d)))

    def joined(self, rows: Array) -> RunningCovariance:
        """The state after further samples, ``(b, d)``."""
        count = self.samples + len(rows)
        share, gap = len(rows) / count, rows.mean(axis=0) - self.mean
        around = rows - (self.mean + gap)
        covariance = (1.0 - share) * (self.covariance + share * np.outer(gap, gap)) + around.T @ around / count
        return RunningCovariance(count, self.mean + share * gap, covariance)


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

    def joined(self, found: list[Any]) -> list[Any]:
        """Numbers or texts found from the agents here, and after them those of the agents of other ranks."""
        if self.own.stop - self.own.start == len(self.given):
            return found
        return [one for part in self.collective.everyone(json.dumps(found).encode()) for one in json.loads(part)]


@dataclass(eq=False, repr=False, kw_only=True)
class AgentEstimator(BaseEstimator):  # type: ignore[misc]  # scikit-learn ships no types
    """The parameters of all estimators, and the run of the method.

    The class variables ``_alone`` and ``_together`` name the default methods for data in one place and for agents.
    """

    _alone: ClassVar[str] = "rgd"
    _together: ClassVar[str] = "drfgt"
    _slope: ClassVar[str] = "gradient_norm"
    """The metric to which ``tol`` applies."""
    _metrics: ClassVar[tuple[Metric, ...]] = ()
    """The metrics beside the standard ones."""
    _wanted: ClassVar[Any] = Wanted()
    """The units in which a method has the samples."""

    algorithm: Any = "auto"
    step_size: Any = "auto"
    tol: float = 1e-8
    max_iter: int = 10_000
    random_state: Any = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self._wanted.fill
        return tags

    @property
    def _finite(self) -> str | bool:
        """The entries of samples that are accepted, for scikit-learn's ``ensure_all_finite``."""
        return "allow-nan" if self._wanted.fill else True

    @property
    def _n_features_out(self) -> int:
        return int(self.n_components_)

    def _method(self, n_agents: int, features: bool = False) -> Any:
        """The algorithm that the parameters name or hold."""
        method = self.algorithm
        if method == "auto":
            method = "lobpcg" if features else self._alone if n_agents == 1 else self._together
        if isinstance(method, str):
            entry, own = registry.algorithms.get(method), {"step_size": self.step_size}
            if self.step_size == "auto":
                own = {"step_size": "bb"} if n_agents == 1 and method in ALONE else {}
            elif "step_size" not in {field.name for field in dataclasses.fields(entry)}:
                raise ValueError(f"{entry.__name__} has no steps, but step_size is {self.step_size!r}: leave it at 'auto'")
            return entry(**own)
        if self.step_size != "auto":
            raise ValueError(
                f"step_size belongs to the algorithm where that is an object, got {self.step_size!r} beside {method!r}"
            )
        return method

    def _rule(self) -> Rule:
        """The stopping rule of a single agent; a ValueError or TypeError for a tolerance that is not positive."""
        check_scalar(self.tol, "tol", Real, min_val=0.0, max_val=math.inf, include_boundaries="neither")
        return GradientNorm(self.tol)

    def _advice(self, problem: Any) -> str:
        """The remedy for a run that stopped too early, to precede those for all estimators."""
        return ""

    def _solve(
        self,
        n_agents: int,
        build: Callable[[slice, Collective], Any],
        W: Any,
        features: bool = False,
        start: Array | None = None,
        method: Any = None,
    ) -> tuple[Array, Result]:
        """Run the method until the metric and the consensus error are at most ``tol``; warn if that fails; sets ``n_iter_``.

        ``build`` gives the problem of a rank's agents, once; ``method`` replaces the algorithm. Returns the feasible point nearest
        to the agents' mean, the same on every rank, and the result. Sets ``history_`` and ``communication_`` too.
        """
        check_scalar(self.max_iter, "max_iter", Integral, min_val=1)
        alone = W is None
        stopping = self._rule()
        result = solve(
            Deferred(n_agents, build),
            method or self._method(n_agents, features),
            W,
            x0=start,
            iterations=self.max_iter,
            stopping=stopping if alone else stopping & Consensus(self.tol),
            record_every=5 if alone else None,  # measuring costs as much as a few iterations
            seed=int(check_random_state(self.random_state).randint(1 << 31)),
            comm="serial" if alone else None,
            metrics=self._metrics,
            progress=bool(self.verbose),
        )
        if result.status == "interrupted":
            raise KeyboardInterrupt(result.message)  # an estimator of half the iterations is not fitted
        if result.status == "diverged":
            raise ArithmeticError(f"{result.message}: give a smaller step_size than {self.step_size!r}")
        if not result.converged:
            warnings.warn(
                f"{type(self).__name__} stopped after {result.row.iteration} iterations at a {self._slope.replace('_', ' ')} of "
                f"{result.row.values[self._slope]:.1e}, above tol = {self.tol:g}: "
                f"{self._advice(result.problem)}raise max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        (total,) = result.collective.sum(result.x)
        point: Array = result.problem.constraint.project(total[None] / n_agents)[0]
        self.n_iter_: Any = max(result.row.iteration, 1)
        self.history_ = result.history
        self.communication_ = {"rounds": result.row.rounds, "messages": result.row.messages, "bytes": result.row.bytes}
        return point, result

    def _solve_features(self, problem: SplitPencil, W: Any) -> tuple[Array, Certificate]:
        """``(d, r)``: the rows of all agents that hold features, and the certificate; sets ``certificate_`` too."""
        _, result = self._solve(problem.n_agents, lambda own, collective: problem.restrict(own), W, features=True)
        result, self.certificate_ = certify(result)
        split: Any = result.problem
        return split.joined(result.x, result.collective), self.certificate_

    def _entries(self, agents: Any, pairs: bool = False) -> Entries:
        """The entry of each agent, which may be None for the agents of other ranks; sets ``sites_``.

        A single entry, an array or with ``pairs`` a tuple of two, is that of this rank, where each of several ranks has one agent.
        """
        communicator, first = connect(), agents
        if pairs and type(agents) is tuple:
            first = agents[0]
        if communicator.size > 1 and is_matrix(first):
            agents = [agents if rank == communicator.rank else None for rank in range(communicator.size)]
        named, self.sites_ = sites_of(agents)
        given = [entry for _, entry in named]
        collective = AgentCollective(communicator, even_bounds(len(given), communicator.size))
        own, partial = slice(0, len(given)), b"1" if any(entry is None for entry in given) else b"0"
        if b"1" in collective.everyone(partial):
            own = collective.own
        entries = Entries(given, own, collective, self.sites_)
        with entries.together():
            for agent, entry in enumerate(given[own], own.start):
                if entry is None:
                    raise ValueError(f"the entry of agent {agent} is None on rank {collective.rank}, which holds it: give it there")
                if pairs and len(entry) != 2:
                    raise ValueError(f"an agent holds a pair (X_i, y_i), got {len(entry)} arrays of agent {agent}")
        return entries

    def _agents(self, name: str, entries: Entries) -> list[Any]:
        """Check all agents' samples together; sets ``n_features_in_`` and, from data frames, ``feature_names_in_``.

        Where a rank gives None for the agents of others, all are checked by their ranks, and None stays in the list. Also sets
        ``_counts``, the number of samples of each agent.
        """
        own = entries.own
        mine = entries.given[own]
        checked: list[Any] = [None] * len(entries.given)
        with entries.together():
            for agent, one in enumerate(mine, own.start):
                if issparse(one):
                    raise TypeError(f"{name} of agent {agent} is sparse: give X.toarray()")
            checked[own] = matrices(name, mine, own.start, missing=self._wanted.fill)
            same_columns(name, checked[own], own.start)
            same_names(name, mine, own.start)
            validate_data(self, mine[0], skip_check_array=True)
        names = [*map(str, getattr(self, "feature_names_in_", ()))]
        entries.collective.same(f"the columns of {name}", repr((self.n_features_in_, names)).encode())
        self._counts: list[int] = entries.joined([len(one) for one in checked[own]])
        return checked

    def _coordinates(self, X: Any) -> Array:
        """``(m, n_components)``: the coordinates given to an inverse transform, checked."""
        check_is_fitted(self)
        checked: Array = check_array(X, dtype=FLOATS)
        if checked.shape[1] != self.n_components_:
            raise ValueError(
                f"X must have a column for each of the {self.n_components_} components, got {checked.shape[1]} columns"
            )
        return checked


class ComponentEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, AgentEstimator, ABC):  # type: ignore[misc]  # no types
    """An estimator of directions, ``components_``, along which samples have coordinates.

    The class variable ``_least_features`` is the least number of features.
    """

    _least_features: ClassVar[int] = 1
    _lengths: Any = 1.0
    """The units of the coordinates, one or ``(n_components,)``."""
    _units: Units | None = None
    """The common units of the columns, if samples are brought to some."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of the samples X, ``(m, d)``; y is ignored."""
        least = {"ensure_min_samples": 2, "ensure_min_features": self._least_features}
        samples = validate_data(self, X, dtype=np.float64, ensure_all_finite=self._finite, **least)
        self._counts = [len(samples)]
        return self._fit([samples], None)

    def fit_agents(self, agents: Iterable[Any], W: Any) -> Self:
        """Find the components of all agents' samples together, by exchanges between neighbours; every sample has the same weight
        (`PCA`: unless its ``weights`` says otherwise).

        Under ``mpirun`` every rank calls it, and gets the same components.

        Parameters
        ----------
        agents
            X_i, ``(m_i, d)``, of each agent: a list, or a dictionary from the names of sites (then ``sites_``). Under ``mpirun``
            None may stand for the agents of other ranks; where each rank has one agent, its own X_i alone is enough.
        W
            ``(n, n)``: mixing matrix, symmetric and doubly stochastic, a networkx graph, or the name of one: as for `solve`.

        Raises
        ------
        ValueError
            When dimensions differ, an entry is not finite, or W does not fit; names the agent.
        """
        return self._fit(self._agents("X", self._entries(agents)), W)

    @abstractmethod
    def _fit(self, agents: list[Array], W: Any) -> Self:
        """Fit to the samples of each agent, which must not be written to; W is None for data in one place."""

    @property
    def _origin(self) -> Any:
        """``(d,)``: the point whose coordinates are 0."""
        return self.mean_

    @property
    def _axes(self) -> Any:
        """``(n_components, d)``: the matrix that maps coordinates to centred samples."""
        return self.components_

    def transform(self, X: Any) -> Array:
        """``(m, n_components)``: the samples' coordinates, float32 for float32 samples."""
        check_is_fitted(self)
        sparse = get_tags(self).input_tags.sparse
        X = validate_data(self, X, dtype=FLOATS, accept_sparse=sparse, ensure_all_finite=self._finite, reset=False)
        across = self.components_.T
        sparse = issparse(X)
        coordinates = X @ across - self._origin @ across if sparse else self._centred(X) @ across
        return (coordinates / self._lengths).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Array:
        """``(m, d)``: the points with these coordinates, float32 for float32 coordinates."""
        coordinates = self._coordinates(X)
        return self._moved((coordinates * self._lengths) @ self._axes).astype(coordinates.dtype, copy=False)

    def _centred(self, X: Array) -> Array:
        """``(m, d)``: samples seen from the origin."""
        return X - self._origin

    def _moved(self, centred: Array) -> Array:
        """``(m, d)``: the samples that `_centred` maps to these."""
        return centred + self._origin

    def _set_components(self, components: NDArray[np.floating[Any]]) -> None:
        """Set ``components_``, the largest entry of each positive, and their number."""
        self.components_ = np.ascontiguousarray(components * signs(components)[:, None])
        self.n_components_ = len(components)


@dataclass(eq=False, repr=False, kw_only=True)
class ScaledEstimator(ComponentEstimator):
    """An estimator of samples that are brought to common units first, if that is asked for.

    Parameters
    ----------
    scale
        True to divide each column by its standard deviation over all samples, which are then in ``scale_``.
    missing
        ``"mean"`` for the mean of a column in place of its missing cells (NaN), whose number for each agent is then in
        ``filled_``; ``"refuse"`` to refuse them.
    """

    scale: bool = False
    missing: Missing = "refuse"

    @property
    def _wanted(self) -> Wanted:
        return Wanted(scale=self.scale, missing=self.missing)

    def _in_units(self, agents: Sequence[Array], collective: Collective) -> list[Array]:
        """The samples of the agents here in the units that are wanted, which are kept."""
        names = [*map(str, vars(self).get("feature_names_in_", ()))]
        found, units = in_units(agents, collective, self._wanted, names)
        self._units = None
        for self._units in units:
            self.scale_, self.filled_ = self._units.scale, self._units.filled
        return found

    def _pooled(self, mean: Array) -> Array:
        """``(d,)``: the mean of all samples, from that in the units of the method."""
        if self.scale and self._units is not None:
            return self._units.mean
        return mean

    def _centred(self, X: Array) -> Array:
        if self._units is None:
            return super()._centred(X)
        if self.scale:
            return self._units.standard(X)
        return super()._centred(self._units.completed(X))

    def _moved(self, centred: Array) -> Array:
        if self._units is None:
            return super()._moved(centred)
        return super()._moved(centred * self._units.scale)

    def _no_batches(self) -> None:
        """Raise ValueError where samples, which batches do not keep, would have to change with each batch."""
        if self._wanted.any:
            raise ValueError("partial_fit keeps no samples, whose units change: leave scale and missing out, or fit to all")


def pencil_images(point: Array, result: Result) -> tuple[Array, Array]:
    """The products A x and B x of a run's point with the means over all agents of their A_i and B_i."""
    problem = result.problem
    points = np.repeat(point[None], problem.n_local, axis=0)
    minus, own = result.collective.sum(problem.gradient(points), problem.local_product(points))
    return -minus / problem.n_agents, own / problem.n_agents


def check_components(n_components: Any, most: int, what: str) -> int:
    """The number of components, ``most`` for None; ``what`` is the reason of the upper bound."""
    if n_components is None:
        return most
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer):
        raise TypeError(f"n_components must be a whole number or None, got {n_components!r}")
    if not 1 <= n_components <= most:
        raise ValueError(f"n_components must be between 1 and {most}, {what}, got {n_components}")
    return int(n_components)


def by_features(split: str) -> bool:
    """True for ``"features"``, False for ``"samples"``; ValueError for anything else."""
    if split not in ("samples", "features"):
        raise ValueError(f"split must be 'samples' or 'features', got {split!r}")
    return split == "features"


def signs(vectors: NDArray[np.floating[Any]]) -> Array:
    """``(k,)``: 1 or -1 for each row, which makes its largest entry positive."""
    largest = np.take_along_axis(vectors, np.abs(vectors).argmax(axis=1)[:, None], 1)[:, 0]
    return np.where(largest < 0.0, -1.0, 1.0)
