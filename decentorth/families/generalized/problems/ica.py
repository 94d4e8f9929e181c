"""Independent component analysis over agents.

Samples a = M s mix independent sources s. Whitened, z = T^T (a - mean) with the T that makes the
second moments of all agents' samples the identity, they are an orthogonal mixture. Over O(n) =
St(n, n)

    f_i(x) = (1/N_i) sum_samples sum_k log cosh([Z_i x]_sample,k),    G_i(x) = Z_i^T tanh(Z_i x) / N_i

is minimised by super-Gaussian sources (Hyvarinen, "Fast and robust fixed-point algorithms for
independent component analysis", IEEE Transactions on Neural Networks 1999, has log cosh as a
contrast). As sech^2 <= 1, L_i = lambda_max(Z_i^T Z_i / N_i).

Sub-Gaussian sources maximise log cosh. With signs from the data each column k has a sign c_k, and
f_i sums c_k log cosh, as in extended Infomax (Lee, Girolami, Sejnowski, "Independent component
analysis using an extended infomax algorithm", Neural Computation 1999): c_k is the sign of the
switching moment E[sech^2 y] E[y^2] - E[y tanh y], which is 0 for a Gaussian y. With these signs a
separated point is a local minimum. They are computed over all agents' samples at the eigenvectors
of E[|z|^2 z z^T] (Cardoso, "Source separation using higher order moments", ICASSP 1989), which
separate sources of different kurtosis, so that no column there mixes sources of both kinds.

Samples A that are not whitened have the same minimisers, up to T, over {x : x^T B x = I}, B = A^T
A / N: `GeneralizedICA`, Section 4 of paper 003 (Vary, Ablin, Gao, Absil, ICML 2024), where
objective and constraint are both means over samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike

from decentorth.numerics.threads import one_thread
from decentorth.problems.base import C, stream
from decentorth.problems.common.checks import AgentArrays, agent_weights, matrices, samples
from decentorth.problems.common.division import AgentSamples, DividedSettings, Generated, samples_of
from decentorth.problems.common.pooled_rows import Wanted, total, whitening
from decentorth.problems.common.rows import SeparableLosses
from decentorth.problems.deferred import Deferred, Outline
from decentorth.problems.loadable import Loadable
from decentorth.protocols import Array, Collective, Index
from decentorth.sets import Stiefel
from decentorth.settings import Count, Range

from ..sets.generalized import GeneralizedStiefel
from ..sets.operators import SampleCovariance

Signs = Literal["super", "data"]


def log_cosh(t: Array) -> Array:
    """log(cosh(t)), entry by entry, without overflow: |t| + log(1 + exp(-2 |t|)) - log 2. The
    derivative is tanh."""
    size = np.abs(t)
    return size + np.log1p(np.exp(-2.0 * size)) - math.log(2.0)


def amari_distance(product: Array) -> float:
    """The distance of the ``(n, n)`` product of unmixing and mixing matrix from a scaled
    permutation, from 0 to 1.

    The mean over all rows and columns of (sum_j |p_j| / max_j |p_j| - 1) / (n - 1): Amari,
    Cichocki, Yang, "A new learning algorithm for blind signal separation", NIPS 1995, divided by
    its largest value.
    """
    n = len(product)
    if n == 1:
        return 0.0
    size = np.abs(product)
    excess = [lines.sum(-1) / lines.max(-1) - 1.0 for lines in (size, size.T)]
    return float(sum(np.concatenate(excess).tolist()) / (2 * n * (n - 1)))


def moments(y: Array) -> Array:
    """``(3, n)``: the means of sech^2 y, y^2 and y tanh y over the rows of ``y``, ``(N, n)``."""
    bent = np.tanh(y)
    ones = np.full(len(y), 1.0 / len(y))
    return np.stack((1.0 - ones @ (bent * bent), ones @ (y * y), ones @ (y * bent)))


def switching(moments: Array) -> Array:
    """``(n,)``: E[sech^2 y] E[y^2] - E[y tanh y]: positive for heavy tails, 0 for a Gaussian, from
    the `moments`."""
    bend, square, product = moments
    return bend * square - product


def kinds(values: Array) -> Array:
    """``(n,)``: 1 for super-Gaussian components, -1 for sub-Gaussian ones."""
    return np.where(values < 0.0, -1.0, 1.0)


class LogCosh(SeparableLosses[C]):
    """f_i(x) = (w_i/N_i) sum_{jk} log cosh([Z_i x]_jk) over any constraint set, with ``mixing`` as
    in `ICA`."""

    def __init__(
        self,
        Z: Sequence[Array],
        weights: Array,
        constraint: C,
        n_agents: int | None,
        first_agent: int,
        mixing: Array | None,
    ) -> None:
        n = constraint.shape[0]
        if mixing is not None and mixing.shape != (n, n):
            raise ValueError(f"mixing must have shape ({n}, {n}), got {mixing.shape}")
        counts = np.array([len(z) for z in Z])
        super().__init__(Z, weights / counts, constraint, n_agents, first_agent)
        self.mixing = mixing
        self.error_name = "" if mixing is None else "amari_distance"

    @staticmethod
    def losses(products: Array) -> Array:
        """The log cosh of every entry."""
        return log_cosh(products)

    @staticmethod
    def differentiate(products: Array) -> None:
        """Replace every entry by its tanh."""
        np.tanh(products, out=products)

    @property
    def lipschitz(self) -> Array:
        """``(n_local,)``: L_i = w_i lambda_max(Z_i^T Z_i) / N_i."""
        return self._weights * self.largest

    def error(self, xhat: Array) -> float:
        """The Amari distance of x^T mixing from a signed permutation, where the mixing matrix is
        known."""
        if self.mixing is None:
            raise ValueError("the mixing is known for generated data only, or given as mixing")
        return amari_distance(xhat.T @ self.mixing)


class ICA(LogCosh[Stiefel], Loadable):
    """Independent components of whitened samples at agents.

        f_i(x) = (w_i/N_i) sum_jk c_k log cosh([Z_i x]_jk) over x^T x = I

    Parameters
    ----------
    Z
        List or stack of whitened samples ``(N_i, n)``, one matrix per agent, used unchanged.
    mixing
        ``(n, n)``: the matrix with z = mixing s for independent sources s, if it is known; then the
        error is ``amari_distance``.
    weights
        ``(n_local,)``: w_i, by default 1. With N_i over the mean of all N_i every sample, not every
        agent, has the same weight.
    signs
        The signs c_k: ``"super"``, by default, 1 for all columns, for sources with heavy tails;
        ``"data"``, chosen by `prepare` from the samples of all agents; or ``(n,)``, each 1
        (super-Gaussian) or -1 (sub-Gaussian).

    Attributes
    ----------
    signs
        ``(n,)``, or None before `prepare` has chosen them.
    basis
        ``(n, n)``: the eigenvectors at which `prepare` has chosen them.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> sources = np.random.default_rng(0).laplace(size=(600, 3))
    >>> factor = np.linalg.cholesky(sources.T @ sources / 600)
    >>> white = sources @ np.linalg.inv(factor).T
    >>> problem = do.problems.ICA(np.array_split(white, 4))
    >>> result = do.solve(problem, do.DRFGT(), "ring", iterations=500)
    >>> bool(result.history["gradient_norm"][-1] < 1e-2)
    True
    """

    signs: Array | None
    basis: Array | None = None

    def __init__(
        self,
        Z: AgentArrays,
        *,
        mixing: Array | None = None,
        weights: Sequence[float] | Array | None = None,
        n_agents: int | None = None,
        first_agent: int = 0,
        signs: Signs | ArrayLike = "super",
    ):
        rows, n = samples("Z", Z, first_agent)
        shares = agent_weights(weights, len(rows))
        super().__init__(rows, shares, Stiefel(n, n), n_agents, first_agent, mixing)
        given = np.asarray(signs)
        named = given.tolist() if given.ndim == 0 else ""
        self._choose = named == "data"
        self._plain = named == "super"
        if self._choose:
            self.signs = None
            return
        if self._plain:
            given = np.ones(n)
        if given.shape != (n,) or not {*given.tolist()} <= {-1, 1}:
            raise ValueError(
                f"signs must be 'super', 'data' or {n} numbers, 1 or -1, got {signs!r}"
            )
        self.signs = given.astype(np.float64)

    def prepare(self, collective: Collective) -> None:
        """Choose the signs, if the data have them, from sums over the samples of all agents."""
        if not self._choose:
            return
        n = self.shape[0]

        def fourth(item: tuple[float, Array]) -> Array:
            weight, z = item
            return (weight * (z * (z * z).sum(axis=1)[:, None]).T @ z).reshape(-1)

        moments = total(self._weighted(), n * n, fourth, collective)
        _, vectors = np.linalg.eigh(moments.reshape(n, n))
        self.basis = np.ascontiguousarray(vectors[:, ::-1])
        self.signs = kinds(switching(self.moments(self.basis, collective)))

    def moments(self, x: Array, collective: Collective) -> Array:
        """``(3, n)``: the `moments` of the columns of ``x``, ``(n, n)``, over the samples of all
        agents."""

        def weighted(item: tuple[float, Array]) -> Array:
            weight, z = item
            return weight * len(z) * np.append(moments(z @ x), 1.0)

        found = total(self._weighted(), 3 * len(x) + 1, weighted, collective)
        return (found[:-1] / found[-1]).reshape(3, -1)

    def _weighted(self) -> Iterator[tuple[float, Array]]:
        """The weight and the samples of each agent."""
        for local, (stack,) in self._rows:
            yield from zip(self._weights[local].tolist(), stack, strict=True)

    def _chosen(self) -> Array:
        """The signs; a ValueError before `prepare`."""
        if self.signs is None:
            raise ValueError("the signs are not known yet: prepare() chooses them")
        return self.signs

    # These depend on the signs.
    def losses(self, products: Array) -> Array:  # type: ignore[override]
        """The signed log cosh of every entry."""
        return self._signed(log_cosh(products))

    def gradient(self, x: Array) -> Array:
        return self._signed(super().gradient(x))

    def gradient_on(self, x: Array, batch: Index) -> Array:
        return self._signed(super().gradient_on(x, batch))

    def partial_gradient(self, x: Array, columns: Index, cache: Array) -> Array:
        return self._signed(super().gradient(x.take(columns, -1)), columns)

    def _signed(self, plain: Array, columns: Index | slice = slice(None)) -> Array:
        """The losses or the gradient of the signed contrast, from the columns of the plain one."""
        if not self._plain:
            plain *= self._chosen()[columns]
        return plain


class GeneralizedICA(LogCosh[GeneralizedStiefel]):
    """Independent components of one agent's samples, which are not whitened.

        f(x) = (1/N) sum_jk log cosh([A x]_jk) over x^T B x = I, B = A^T A / N

    B is formed, as it has the size of a point; batches of samples estimate it without forming it
    (`SampledProducts`).

    Parameters
    ----------
    A
        ``(N, n)``: samples, used unchanged; samples of independent components have mean zero.
    mixing
        ``(n, n)``: the matrix with a = mixing s for independent sources s, if it is known; then the
        error is ``amari_distance``.

    Attributes
    ----------
    samples
        A.

    Raises
    ------
    ValueError
        When an entry is not finite, or the samples do not span all directions.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> mixing = rng.standard_normal((3, 3))
    >>> samples = rng.laplace(size=(400, 3)) @ mixing.T
    >>> problem = do.problems.GeneralizedICA(samples, mixing=mixing)
    >>> result = do.solve(problem, do.GeneralizedLanding(), iterations=300)
    >>> bool(result.history["error"][-1] < 0.2)
    True
    """

    def __init__(self, A: Array, *, mixing: Array | None = None):
        rows = matrices("A", [A])
        with one_thread():  # the bits of A^T A depend on the number of BLAS threads
            constraint = GeneralizedStiefel(rows[0].T @ rows[0] / len(rows[0]), rows[0].shape[1])
        super().__init__(rows, np.ones(1), constraint, 1, 0, mixing)
        ((_, (stack,)),) = self._rows
        self.samples: Array = stack[0]
        self._covariance = SampleCovariance(self.samples)

    def product_on(self, x: Array, batch: Index) -> Array:
        """``(1, n, n)``, fresh: B x, with B from the samples ``batch``, ``(1, b)``."""
        return self._covariance.product_on(x, batch)

    def matrices_on(self, batch: Index) -> Array:
        """``(1, n, n)``, fresh: B from the samples ``batch``, ``(1, b)``."""
        return self._covariance.matrix_on(batch)


@dataclass(frozen=True, kw_only=True)
class ICASettings(DividedSettings):
    """Independent component analysis of mixed Laplace sources, or of a user's samples.

    Parameters
    ----------
    sources
        How many sources n; by default 10 (generated data), or as many as the data has columns.
    whiten
        Whiten the samples over all agents, for O(n); otherwise they are only centred, for x^T B x =
        I with B their covariance, where there must be one agent, and as many sources as columns.
    imbalance
        Most over fewest samples of an agent; agents have them in geometric progression around
        samples (generated data).
    mixing
        The mixing matrix: orthogonal, or general with standard Gaussian entries (generated data).
    signs
        super for sources with heavy tails; data to choose from the samples, for each component,
        whether its tails are heavier or lighter than Gaussian ones (whitened samples).
    data
        A file with one sample per row (.npy, .npz, .csv, svmlight, Matrix Market or idx), or the
        name of bundled data. With fewer sources than columns, the principal components.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.ICASettings(sources=3, samples=300).problem(4, seed=0)
    >>> result = do.solve(problem, do.DRFGT(), "ring", iterations=300)
    >>> bool(result.history["gradient_norm"][-1] < 1e-2)
    True
    """

    sources: Count | None = None
    samples: AgentSamples = 1000
    whiten: bool = True
    imbalance: Annotated[float, Range(least=1)] = 1.0
    mixing: Literal["orthogonal", "general"] = "orthogonal"
    signs: Signs = "super"
    data: str | None = None

    @property
    def wanted(self) -> Wanted:
        return super().wanted._replace(center=True)

    _for_generated = "samples", "imbalance", "mixing"

    def idle(self) -> dict[str, str]:
        found = {} if self.whiten else {"signs": "it is for whitened samples (whiten)"}
        return super().idle() | found

    def problem(self, n_agents: int, seed: int) -> Deferred:
        if not self.whiten and n_agents > 1:
            raise ValueError(
                "without whitening the covariance of all samples makes the constraint, which none "
                f"of {n_agents} agents knows: whiten the samples (whiten), or take n_agents 1"
            )
        source = samples_of(self, n_agents, seed, self._drawn)

        def made(rows: list[Array], agents: slice, mixing: Array | None) -> ICA:
            return ICA(
                rows, mixing=mixing, signs=self.signs, n_agents=n_agents, first_agent=agents.start
            )

        def build(agents: slice, collective: Collective) -> ICA | GeneralizedICA:
            (mine,) = source.read(agents, collective)
            mixing = None if self.data else self._mixing(seed)
            if not self.whiten:
                with collective.together():
                    return self._generalized(mine[0], mixing)
            whiten = whitening(mine, self.sources or mine[0].shape[1], collective)
            if mixing is not None:
                mixing = whiten.T @ mixing
            return made([a @ whiten for a in mine], agents, mixing)

        def stand_in(rows: list[Array], agents: slice, _: Collective) -> ICA:
            return made(rows, agents, None if self.data else np.eye(rows[0].shape[1]))

        def outline() -> Outline:
            n = self.sources or source.width
            sizes = Outline(width=n, copies=2.0, point=n * n)
            return sizes._replace(made=stand_in) if self.whiten and n <= source.width else sizes

        return source.deferred(build, outline)

    def _drawn(self, n_agents: int, seed: int) -> Generated:
        """Mixed Laplace sources of unit variance, each agent's drawn from its own stream."""
        n = self.sources or 10
        counts = [self._count(agent, n_agents) for agent in range(n_agents)]

        def draw(agent: int) -> tuple[Array]:
            size = counts[agent], n
            sources = stream(seed, agent).laplace(0.0, math.sqrt(0.5), size)
            return (sources @ self._mixing(seed).T,)

        return Generated(counts, n, draw, self.wanted)

    def _generalized(self, A: Array, mixing: Array | None) -> GeneralizedICA:
        if self.sources not in (None, A.shape[1]):
            raise ValueError(
                f"without whitening there are as many sources as columns, {A.shape[1]}, "
                f"but sources is {self.sources}: leave it out, or whiten the samples (whiten)"
            )
        return GeneralizedICA(A, mixing=mixing)

    def _mixing(self, seed: int) -> Array:
        """``(n, n)``: the mixing matrix M of the generated sources, the same on every rank."""
        n = self.sources or 10
        mixing: Array = stream(seed).standard_normal((n, n))
        return mixing if self.mixing == "general" else np.linalg.qr(mixing)[0]

    def _count(self, agent: int, n_agents: int) -> int:
        """The number of an agent's generated samples."""
        along = agent / (n_agents - 1) if n_agents > 1 else 0.5
        return max(1, round(float(self.samples * self.imbalance ** (0.5 - along))))
