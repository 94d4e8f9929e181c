"""Independent component analysis over agents.

Samples a = M s mix independent sources s. Whitened, z = T^T (a - mean) with the T that makes the second moments of all agents'
samples the identity, they are an orthogonal mixture, and over O(n) = St(n, n)

    f_i(x) = (1/N_i) sum_samples sum_k log cosh([Z_i x]_sample,k),    G_i(x) = Z_i^T tanh(Z_i x) / N_i

is minimised by super-Gaussian sources (Hyvarinen, "Fast and robust fixed-point algorithms for independent component analysis",
IEEE Transactions on Neural Networks 1999, has log cosh as a contrast). As sech^2 <= 1, L_i = lambda_max(Z_i^T Z_i / N_i).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..protocols import Array, Collective
from ..sets import Stiefel
from .base import Deferred
from .checks import matrices, same_columns
from .division import check_alpha, divided
from .generated import stream
from .pooled import centered, whitening
from .rowwise import SeparableLosses


def log_cosh(t: Array) -> Array:
    """log(cosh(t)), entry by entry, without overflow: |t| + log(1 + exp(-2 |t|)) - log 2. Its derivative is tanh."""
    size = np.abs(t)
    value: Array = size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0)
    return value


def amari_distance(product: Array) -> float:
    """How far the ``(n, n)`` product of unmixing and mixing matrix is from a permutation with scales, from 0 to 1.

    The mean over all rows and columns of (sum_j |p_j| / max_j |p_j| - 1) / (n - 1): Amari, Cichocki, Yang, "A new learning
    algorithm for blind signal separation", NIPS 1995, divided by its largest value.
    """
    n = len(product)
    if n == 1:
        return 0.0
    size = np.abs(product)
    excess = [excess for lines in (size, size.T) for excess in (lines.sum(-1) / lines.max(-1) - 1.0).tolist()]
    return float(sum(excess) / (2 * n * (n - 1)))


class ICA(SeparableLosses):
    """f_i(x) = (1/N_i) sum_{jk} log cosh([Z_i x]_jk) over O(n).

    Parameters
    ----------
    Z
        List or stack of whitened samples ``(N_i, n)``, one matrix per agent. They are taken as they are.
    mixing
        ``(n, n)``: the matrix with z = mixing s for independent sources s, if it is known; then the error is ``amari_distance``.
    n_agents, first_agent
        When only some agents are given: how many there are, and the global number of the first one here.

    Raises
    ------
    ValueError
        When dimensions differ, or an entry is not finite; names the agent.
    """

    def __init__(
        self,
        Z: Sequence[Array] | Array,
        *,
        mixing: Array | None = None,
        n_agents: int | None = None,
        first_agent: int = 0,
    ):
        rows = matrices("Z", Z, first_agent)
        n = same_columns("Z", rows, first_agent)
        if mixing is not None and mixing.shape != (n, n):
            raise ValueError(f"mixing must have shape ({n}, {n}), as Z has {n} columns, got {mixing.shape}")
        super().__init__(rows, [1.0 / len(z) for z in rows], Stiefel(n, n), n_agents, first_agent)
        self.mixing = mixing
        self.error_name = "" if mixing is None else "amari_distance"

    @staticmethod
    def from_loader(loader: Callable[[int], Array], n_agents: int) -> Deferred:
        """A problem whose ranks each load their own agents: ``loader(agent) -> Z_i``."""

        def build(agents: slice, collective: Collective) -> ICA:
            with collective.together():
                loaded = [loader(agent) for agent in range(agents.start, agents.stop)]
                return ICA(loaded, n_agents=n_agents, first_agent=agents.start)

        return Deferred(n_agents, build)

    @staticmethod
    def losses(products: Array) -> Array:
        """log cosh of every entry."""
        return log_cosh(products)

    @staticmethod
    def differentiate(products: Array) -> None:
        """tanh of every entry."""
        np.tanh(products, out=products)

    @property
    def lipschitz(self) -> Array:
        """``(n_local,)``: L_i = lambda_max(Z_i^T Z_i) / N_i."""
        return self._weights * self.largest

    def error(self, xhat: Array) -> float:
        """Amari distance of x^T mixing from a permutation with signs.

        Raises
        ------
        ValueError
            When the mixing is not known.
        """
        if self.mixing is None:
            raise ValueError("the mixing is known for generated data only, or given as mixing")
        return amari_distance(xhat.T @ self.mixing)


@dataclass(frozen=True, kw_only=True)
class ICASettings:
    """Independent component analysis of mixed Laplace sources, or of a user's samples, whitened over all agents.

    Parameters
    ----------
    sources
        How many sources n; by default 10 (generated data), or as many as the data has columns.
    samples
        Samples of each agent (generated data).
    imbalance
        Most over fewest samples of an agent; agents have them in geometric progression around samples (generated data).
    mixing
        The mixing matrix: orthogonal, or general with standard Gaussian entries (generated data).
    data
        A file with one sample per row (.npy, .npz, .csv, svmlight, Matrix Market or idx), or the name of bundled data. With fewer
        sources than columns, the principal components.
    partition
        How the file's samples are divided: even, by-label (each agent sees few labels) or dirichlet (shares of each label drawn).
    labels
        File with one label per sample, for by-label and dirichlet; bundled data and svmlight files bring their own.
    dirichlet_alpha
        Concentration of dirichlet: small is heterogeneous, large is even.
    shuffle
        Shuffle the file's samples by the seed before an even division; otherwise consecutive rows.
    """

    sources: int | None = None
    samples: int = 1000
    imbalance: float = 1.0
    mixing: Literal["orthogonal", "general"] = "orthogonal"
    data: str | None = None
    partition: Literal["even", "by-label", "dirichlet"] = "even"
    labels: str | None = None
    dirichlet_alpha: float = 0.5
    shuffle: bool = True

    def __post_init__(self) -> None:
        if self.sources is not None and self.sources < 1:
            raise ValueError(f"sources must be at least 1, got {self.sources}")
        check_alpha(self.dirichlet_alpha)
        if self.data is None:
            if self.samples < 1:
                raise ValueError(f"samples must be at least 1, got {self.samples}")
            if not (self.imbalance >= 1.0 and math.isfinite(self.imbalance)):
                raise ValueError(f"imbalance must be finite and at least 1, got {self.imbalance}")

    def problem(self, n_agents: int, seed: int) -> Deferred:
        """The problem, to be built by each rank for its own agents."""

        def build(agents: slice, collective: Collective) -> ICA:
            mixing = self._mixing(seed) if self.data is None else None
            with collective.together():
                if mixing is None:
                    mine = divided(str(self.data), self, n_agents, agents, seed)
                else:
                    mine = [self._drawn(agent, n_agents, seed) @ mixing.T for agent in range(agents.start, agents.stop)]
            mine = centered(mine, collective)
            whiten = whitening(mine, self.sources or mine[0].shape[1], collective)
            return ICA(
                [a @ whiten for a in mine],
                mixing=None if mixing is None else whiten.T @ mixing,
                n_agents=n_agents,
                first_agent=agents.start,
            )

        return Deferred(n_agents, build)

    def _mixing(self, seed: int) -> Array:
        """``(n, n)``: M, the same on every rank."""
        n = self.sources or 10
        mixing: Array = stream(seed).standard_normal((n, n))
        return mixing if self.mixing == "general" else np.linalg.qr(mixing)[0]

    def _drawn(self, agent: int, n_agents: int, seed: int) -> Array:
        """``(N_i, n)``: an agent's Laplace sources of unit variance, from its own stream."""
        along = agent / (n_agents - 1) if n_agents > 1 else 0.5
        count = max(1, round(self.samples * self.imbalance ** (0.5 - along)))
        return stream(seed, agent).laplace(0.0, math.sqrt(0.5), (count, self.sources or 10))
