"""The end of a run whose agents hold features: one exact orthonormalisation, and a certificate of
the answer.

Every agent adds its part of x^T B x to an exact sum, makes the same Cholesky factor of it, and
multiplies its rows by the inverse; the same for the eigenvectors of x^T M x. Then LOBPCG continues
for a few iterations with one random column more, to see if a column of the answer is missing, and
how large the next eigenvalue is. All messages are counted by the network.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple, Protocol

import numpy as np

from decentorth.api.result import Result
from decentorth.network import Network
from decentorth.numerics.definite import is_definite
from decentorth.numerics.ordered_sums import add_agents
from decentorth.numerics.random_streams import CounterStreams
from decentorth.numerics.threads import one_thread
from decentorth.protocols import Array, SplitFeatures

from .lobpcg import LOBPCG

_PROBES = 5
"""LOBPCG iterations with one column more."""


class Certificate(NamedTuple):
    """The quality of an answer whose rows are held by different agents, the same on every rank.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> samples = np.random.default_rng(0).standard_normal((60, 12))
    >>> parts = np.array_split(samples, 4, axis=1)
    >>> problem = do.problems.SplitPCA(parts, 2)
    >>> result = do.solve(problem, "lobpcg", "ring", stopping=1e-9)
    >>> values, certificate = do.certify(result)
    >>> certificate.orthonormality < 1e-12
    True
    """

    values: Array
    """``(r,)``: the diagonal of x^T M x, the eigenvalues, largest first."""
    orthonormality: float
    """||x^T B x - I||_F after the Cholesky step, from recomputed sums."""
    residual: float
    """||M x - B x diag(values)||_F: within ||its column||_2 / sqrt(least ridge) of every value there is an eigenvalue."""
    next_value: float
    """The largest value found beyond these: a lower bound of the next eigenvalue, which the probe
    may not have reached."""
    missed: float
    """The most by which the probe could raise a value; far above 0 where an eigenvector is missing
    from x."""

    def plain(self) -> dict[str, object]:
        """The entries as a file holds them."""
        return {**self._asdict(), "values": self.values.tolist()}

    def __str__(self) -> str:
        return (
            f"|x^T B x - I| {self.orthonormality:.1e}, residual {self.residual:.1e}, smallest "
            f"value {self.values[-1]:.6g}, next {self.next_value:.6g}, values missed by at most "
            f"{self.missed:.1e}"
        )


class _Sums(Protocol):
    """A network that adds exactly."""

    def total(self, *xs: Array) -> tuple[Array, ...]: ...


class _Flooding:
    """Exact sums where there is no tree: all agents' values flood through the network, and each
    agent adds them in order."""

    def __init__(self, network: Network) -> None:
        self._network = network

    def total(self, *xs: Array) -> tuple[Array, ...]:
        """The sum over all agents of each array."""
        network = self._network
        found = []
        own = np.arange(network.n_agents)[network.agents]
        for x in xs:
            known = np.full((len(x), network.n_agents, x[0].size), -np.inf)
            known[np.arange(len(x)), own] = x.reshape(len(x), -1)
            with network.reliable():
                known = network.max(known, network.flooding_rounds)
            total = np.zeros(x.shape)
            for agent, values in enumerate(known):
                add_agents(values, total[agent].reshape(-1))
            found.append(total)
        return tuple(found)


class _Answer(NamedTuple):
    """A point of features: its own rows, and what all agents know, ``(n_local, ...)``."""

    x: Array
    image: Array
    """T = sum_i D_i x_i, ``(n_local, k, r)``."""
    ridge: Array
    """x^T diag(ridge) x, ``(n_local, r, r)``."""


def certify(result: Result) -> tuple[Result, Certificate]:
    """Return the result with orthonormal eigenvectors as columns of x, and its certificate.

    Every rank calls it.

    With B = D^T E D + diag(ridge) and M = D^T J D of `protocols.SplitFeatures`:

    (a) x <- x L^-T, with L L^T = x^T B x the Cholesky factor, so that x^T B x = I.
    (b) x <- x Q, with Q the eigenvectors of x^T M x, largest first, and signs by the largest entry
        of each column of T.
    (c) Measure ||x^T B x - I||, the values diag(x^T M x), and the residual ||M x - B x
        diag(values)||.
    (d) Continue with LOBPCG from x and one random column, for what is missing from x.

    Parameters
    ----------
    result
        A run that has not diverged and whose agents hold features (`problems.SplitPCA`,
        `SplitGEVP`, `SplitCCA`).

    Raises
    ------
    TypeError
        The agents of the run hold points.
    ValueError
        The columns of x are linearly dependent, or no number of rounds reaches all agents of a
        network that changes or loses messages.
    """
    problem: object = result.problem
    if not isinstance(problem, SplitFeatures):
        raise TypeError(
            f"certify is for agents that hold features, and those of {type(problem).__name__} "
            "hold points"
        )
    network: Network = result.network
    adding: _Sums = network if network.sums_exactly else _Flooding(network)
    with one_thread(), np.errstate(all="ignore"):
        turn = _orthonormal(problem, _summed(problem, adding, result.x))
        answer = _eigenvectors(problem, adding, result.x, turn)
        values, orthonormality, residual = _measured(problem, adding, answer)
        found = _probed(problem, adding, result, answer.x)
    r = len(values)
    missed = float(np.abs(found[:r] - values).max())
    certificate = Certificate(values, orthonormality, residual, float(found[r]), missed)
    return dataclasses.replace(result, x=np.ascontiguousarray(answer.x)), certificate


def _across(x: Array, y: Array) -> Array:
    product: Array = x.transpose(0, 2, 1) @ y
    return product


def _summed(problem: Any, adding: _Sums, x: Array) -> _Answer:
    """The answer at x, from recomputed sums over all agents."""
    return _Answer(x, *adding.total(problem.products(x), _across(x, problem.ridge * x)))


def _orthonormal(problem: Any, at: _Answer) -> tuple[Array, Array]:
    """(a) The matrix L^-T, and the image of x L^-T."""
    gram = _across(at.image, problem.constraint_rows(at.image)) + at.ridge
    if not all(map(is_definite, gram)):
        raise ValueError(
            "the columns of x depend on each other: make more iterations, or smaller steps"
        )
    inverse = np.linalg.inv(np.linalg.cholesky(gram))
    turn = inverse.transpose(0, 2, 1)
    return turn, at.image @ turn


def _eigenvectors(problem: Any, adding: _Sums, x: Array, begun: tuple[Array, Array]) -> _Answer:
    """(b) The answer of eigenvectors, with recomputed sums, from the matrix of (a) and its
    image."""
    turn, image = begun
    vectors = np.linalg.eigh(_across(image, problem.objective_rows(image)))[1]
    answer = _summed(problem, adding, x @ (turn @ vectors[:, :, ::-1]))
    largest = np.take_along_axis(answer.image, np.abs(answer.image).argmax(axis=1)[:, None], axis=1)
    sign = np.where(largest < 0.0, -1.0, 1.0)
    ridge = answer.ridge * sign * sign.transpose(0, 2, 1)
    return _Answer(answer.x * sign, answer.image * sign, ridge)


def _measured(problem: Any, adding: _Sums, answer: _Answer) -> tuple[Array, float, float]:
    """(c) The values, the distance from x^T B x = I, and the residual."""
    x, image, ridge = answer
    excess = _across(image, problem.constraint_rows(image)) + ridge - np.eye(x.shape[2])
    values = np.diagonal(_across(image, problem.objective_rows(image)), axis1=1, axis2=2)
    scaled = values[:, None]
    rows = problem.objective_rows(image) - problem.constraint_rows(image * scaled)
    rest = problem.adjoint(rows) - problem.ridge * x * scaled
    (squares,) = adding.total((rest * rest).sum(axis=(1, 2))[:, None])
    return values[0].copy(), float(np.linalg.norm(excess[0])), float(np.sqrt(squares[0, 0]))


def _probed(problem: Any, adding: Any, result: Result, x: Array) -> Array:
    """(d) The Ritz values, ``(r + 1,)``, after LOBPCG iterations from x and one random column."""
    streams = CounterStreams(1, result.network.agents)
    drawn = streams.integers("start", 1, x.shape[1], 1 << 31).reshape(len(x), -1, 1)
    wider = np.concatenate((x, (drawn * 2.0**-30 - 1.0) * problem.present), axis=2)
    method = LOBPCG()
    state = method.begun(problem, adding, wider)
    for _ in range(_PROBES):
        state = method.step(problem, adding, streams, state)
    values: Array = state.values[0]
    return values
