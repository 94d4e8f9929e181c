"""Orthogonal dictionary learning, from samples a_j = D s_j with an orthogonal dictionary D and
sparse coefficients s_j.

Over O(n) = St(n, n)

    f_i(x) = ||A_i x||_1,    G_i(x) = A_i^T sign(A_i x)

has the columns of D, in any order and with any signs, as minimisers where there are enough samples.
The experiment of paper 002 (Cheung, Wang, Yue, So, "Randomized submanifold subgradient method for
optimization over Stiefel manifolds", Section 5.2): n = 60, 4648 samples, Bernoulli(0.3)-Gaussian
coefficients, D and the start uniformly distributed. The samples are the columns of its Y.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from decentorth.problems.base import stream
from decentorth.problems.common.checks import SparseOrArrays, samples
from decentorth.problems.common.division import (
    DIVIDED,
    DividedSettings,
    Generated,
    Part,
    SampleFile,
    even_counts,
    of_one_view,
    samples_of,
)
from decentorth.problems.common.once import ComputedOnce
from decentorth.problems.common.pooled_rows import normalized
from decentorth.problems.common.rows import AbsoluteLosses
from decentorth.problems.deferred import Deferred, Outline
from decentorth.problems.loadable import Loadable
from decentorth.protocols import Array, Collective, SubgradientSettings
from decentorth.sets import Stiefel
from decentorth.settings import Count, Share


def dictionary_error(x: Array, dictionary: Array) -> float:
    """sum_i |max_j |x_i^T d_j| - 1| over the columns x_i of x and d_j of the dictionary (paper 002,
    Section 5.2)."""
    largest = np.abs(x.T @ dictionary).max(-1)
    return float(np.abs(largest - 1.0).sum(-1))


class OrthogonalDictionaryLearning(AbsoluteLosses, Loadable):
    """Orthogonal dictionary learning: a square dictionary in which samples are sparse.

        f_i(x) = ||A_i x||_1 over x^T x = I

    Parameters
    ----------
    A
        List or stack of samples ``(m_i, n)``, one matrix per agent, used unchanged. Sparse matrices
        of SciPy stay sparse.
    dictionary
        ``(n, n)``: the orthogonal dictionary, if it is known; then the error is
        ``dictionary_error``.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> codes = rng.standard_normal((200, 5)) * (rng.random((200, 5)) < 0.3)
    >>> parts = np.array_split(codes, 4)
    >>> problem = do.problems.OrthogonalDictionaryLearning(parts)
    >>> result = do.solve(problem, do.DRSM(), "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    _keeps_sparse = True

    def __init__(
        self,
        A: SparseOrArrays,
        *,
        dictionary: Array | None = None,
        n_agents: int | None = None,
        first_agent: int = 0,
    ):
        rows, n = samples("A", A, first_agent, sparse=True)
        if dictionary is not None and dictionary.shape != (n, n):
            raise ValueError(f"dictionary must have shape ({n}, {n}), got {dictionary.shape}")
        super().__init__(rows, [1.0] * len(rows), Stiefel(n, n), n_agents, first_agent)
        self._samples_each = sum(len(a) for a in rows) / len(rows)
        self.dictionary = dictionary
        self.error_name = "" if dictionary is None else "dictionary_error"

    @property
    def weak_convexity(self) -> Array:
        """``(n_local,)``: 0, since f_i is convex."""
        return np.zeros(self.n_local)

    def prepare(self, collective: Collective) -> None:
        """Compute the mean number of samples of an agent, for a common step."""
        (total,) = collective.sum(self.n_samples.astype(np.float64))
        self._samples_each = float(total) / self.n_agents

    def subgradient_settings(self, blocks: int) -> SubgradientSettings:
        """The settings of paper 002 for up to five blocks, divided by an agent's number of samples,
        with entries of the order of 1.

        With five fixed blocks they miss the dictionary on two seeds of ten, with redrawn blocks on
        none. With ten they always miss it, and geometric steps with redrawn blocks never do. An
        iteration rotates a pair of columns only where both move, which is the share (2 / l)^2 of
        the pairs: the steps decrease more slowly by this factor.
        """
        initial = 1e-3 * (4648.0 / self._samples_each)
        if blocks == 1:
            return SubgradientSettings(f"square-summable:initial={initial}")
        if blocks <= 5:
            pairs = blocks * (blocks - 1) // 2
            steps = f"annealed:initial={initial},pairs={pairs},power=4.0,ratio=0.995"
            return SubgradientSettings(steps, "fixed" if blocks <= 3 else "redraw")
        ratio = 1.0 - 0.5 / blocks**2
        steps = f"geometric:initial={4.0 * initial},ratio={ratio:.6g}"
        return SubgradientSettings(steps, "redraw")

    def error(self, xhat: Array) -> float:
        """The distance of the columns of the orthogonal ``(n, n)`` matrix from those of the
        dictionary, where that is known."""
        if self.dictionary is None:
            raise ValueError("the dictionary is known for generated data, or given as dictionary")
        return dictionary_error(xhat, self.dictionary)


@dataclass(frozen=True, kw_only=True)
class ODLSettings(DividedSettings):
    """Orthogonal dictionary learning: generated as in paper 002, Section 5.2, or from a user's
    samples.

    Parameters
    ----------
    dimension
        n (generated data).
    samples
        Samples of all agents together, divided evenly (generated data).
    density
        Probability that a coefficient is not 0; those are standard Gaussian (generated data).
    normalize
        Divide the file's samples by the root mean square of all their entries, so that steps are of
        the usual size.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.ODLSettings(dimension=10, samples=200)
    >>> problem = settings.problem(4, seed=0)
    >>> result = do.solve(problem, do.DRSM(), "ring", iterations=200)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    keeps_sparse = True

    dimension: Count = 60
    samples: Count = 4648
    density: Share = 0.3
    data: SampleFile | None = None
    normalize: bool = True

    _for_generated = "dimension", "samples", "density"
    _for_files = (*DIVIDED, "normalize")

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem; the seed divides the samples, or generates them."""
        if self.data is None and self.samples < n_agents:
            raise ValueError(
                f"{n_agents} agents need at least as many samples, got {self.samples}: use fewer "
                "agents"
            )
        normalizes = self.data is not None and self.normalize

        def prepare(rows: list[Array], collective: Collective) -> list[Array]:
            return normalized(rows, collective) if normalizes else rows

        def make(part: Part) -> OrthogonalDictionaryLearning:
            known = None if self.data else self._dictionary(seed)
            return OrthogonalDictionaryLearning(part.rows, dictionary=known, **part.place)

        def outline(d: int) -> Outline:
            return Outline(copies=1.0 + normalizes, point=d * d)

        source = samples_of(self, n_agents, seed, self._drawn)
        return of_one_view(source, make, outline, prepare)

    def _dictionary(self, seed: int) -> Array:
        """``(n, n)``: the dictionary of generated samples, the same on every rank."""
        return Stiefel(self.dimension, self.dimension).random(stream(seed))

    def _drawn(self, n_agents: int, seed: int) -> Generated:
        """Samples with each agent's coefficients from its own stream."""
        counts = even_counts(self.samples, n_agents)
        dictionary = ComputedOnce(lambda: self._dictionary(seed))

        def draw(agent: int) -> tuple[Array]:
            rng = stream(seed, agent)
            size = (counts[agent], self.dimension)
            return (rng.standard_normal(size) * (rng.random(size) < self.density) @ dictionary().T,)

        return Generated(counts, self.dimension, draw)
