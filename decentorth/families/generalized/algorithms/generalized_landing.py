"""Landing on the (random) generalized Stiefel manifold {x : x^T B x = I}.

Vary, Ablin, Gao, Absil, "Optimization without retraction on the random generalized Stiefel
manifold", ICML 2024 (paper 003):

    x <- x - eta Lambda(x),    Lambda(x) = Psi(x) + omega grad N(x)                                 (8), (13)
    grad N(x) = 2 B x (x^T B x - I)

with one of the directions of `GeneralizedStiefel` for Psi: 2 skew(G x^T B) B x (11), 2 skew(B^{-1}
G x^T) B x (12), or the Riemannian gradient (7); or, beyond the paper, with the field natural, (12)
plus 2 omega x (x^T B x - I). Where the objective and B are means over samples, three independent
batches xi, zeta, zeta' make an unbiased field (2)-(3),

    Lambda(x) = 2 skew(G_xi x^T B_zeta) B_zeta' x + 2 omega B_zeta x (x^T B_zeta' x - I)

    eta    step_size       G      problem.gradient, gradient_on      B x, B_zeta x   constraint.product, problem.product_on
    omega  penalty         Psi    direction                          Lambda          constraint.landing, landing_from_products

``batches="one"`` is the paper's online form of Figures 3 and 4: one batch xi = zeta = zeta' an
iteration, in passes over all samples. The field is biased then.

Theorem 2.7 has constant steps for exact fields, Theorem 2.8 eta_0 / sqrt(1 + k), ``diminishing``,
for sampled ones. ``safe=True`` takes min(eta, eta(x)) with the largest eta(x) that keeps ||x^T
B x - I||_F <= eps, in place of Lemma 2.4's bound on it (`sets.safe_steps`). It needs B Lambda, from
which B x follows as in `RGD`: an iteration has as many products with B. ``covariance="rolling"`` is
the paper's averaged variant: B is the mean of the samples seen, all of them from the second pass
on; its field is biased, since gradient and mean share samples, and needs B to be formed.

Beyond the paper: automatic steps, c / (2 beta_1 Lhat) for psi-b, c / (2 Lhat') for psi-br and
natural, c / (Lhat + beta_1 Lhat') for riemannian, where c = 0.7 and Lhat measures the curvature of
objective and multiplier (`curvature.curvature`), Lhat' that in the metric tr(u^T B v); automatic
penalties, 0.05 / (beta_1 step_size), without beta_1 for natural, so that a step takes off at most a
fifth of the infeasibility; Barzilai-Borwein steps, for natural in the metric tr(u^T B v). The 2 is
for rotations x -> x Q, along which psi-br is twice the Riemannian gradient of that metric, and
psi-b is too where B = I: CCA, whose views can be rotated against each other, has a curvature of up
to 2 Lhat' there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, Literal, NamedTuple, cast

import numpy as np

from decentorth.algorithms.centralized.rgd import REFRESHED
from decentorth.algorithms.centralized.samples import (
    Field,
    OnMatrices,
    draws,
    nothing_seen,
    passing,
)
from decentorth.algorithms.common import (
    Auto,
    landing_share,
    measured,
    measured_in_metric,
    schedule,
    with_penalties,
)
from decentorth.algorithms.common.curvature import curvature, embedded_curvature
from decentorth.protocols import (
    Array,
    Direction,
    Network,
    Problem,
    ProductLanding,
    SampledProducts,
    Streams,
)
from decentorth.settings import Positive, Range

_STEPS: dict[Direction, tuple[Callable[..., tuple[Array, int]], float]] = {
    "psi-b": (curvature, 4.0),
    "psi-br": (partial(curvature, metric="natural"), 4.0),
    "natural": (partial(curvature, metric="natural"), 4.0),
    "riemannian": (embedded_curvature, 2.0),
}
"""The curvature measure of automatic steps, and the largest ratio of the field to half a Riemannian
gradient (for psi-b: where beta_1 = 1), for each direction."""


class GeneralizedLandingState(NamedTuple):
    """The changing arrays x, field (Lambda at x) and product (B x, or its first estimate), each
    ``(1, n, p)``, image (B Lambda) the same or ``(1, 0, 0)`` where it is not used, matrices (the
    running mean of B, or nothing) ``(1, n, w)`` and step_size ``(1,)``; the constant base (the
    first step) and penalty."""

    x: Array
    field: Array
    product: Array
    image: Array
    matrices: Array
    step_size: Array
    base: Array
    penalty: Array
    k: int
    gradients: int


P = Problem[ProductLanding]
State = GeneralizedLandingState


@dataclass(frozen=True, kw_only=True)
class GeneralizedLanding(OnMatrices):
    """Landing on the generalized Stiefel manifold for a single agent (Vary, Ablin, Gao, Absil
    2024).

    Parameters
    ----------
    penalty
        omega > 0, or auto: 0.05 / (beta_1 step_size), for natural 0.05 / step_size.
    direction
        psi-b needs products with B alone; psi-br solves with B; riemannian is the Riemannian
        gradient; natural solves with B, and comes to the set as fast for any condition of B.
    safe
        Shorten steps where needed to stay within eps of the manifold; needs the exact B, and auto
        does it with that.
    eps
        The safety region ||x^T B x - I||_F <= eps of safe.
    covariance
        Where B comes from: exact (the set's own), sampled (two further batches, psi-b only),
        rolling (mean of the samples seen).
    batches
        Batches of an iteration with covariance sampled: three independent ones, drawn with
        replacement, for an unbiased field; or one for the gradient and B, in passes over all
        samples.

    Examples
    --------
    >>> import decentorth as do
    >>> problem = do.problems.GEVPSettings(dimension=20, rank=2).problem(1, seed=0)
    >>> method = do.GeneralizedLanding()
    >>> result = do.solve(problem, method, iterations=3000)
    >>> error = result.history["error"]
    >>> bool(error[-1] < error[0])
    True
    """

    on_devices: ClassVar[bool] = True
    set_needs: ClassVar[tuple[type, ...]] = (ProductLanding,)

    penalty: Positive | Auto = "auto"
    direction: Direction = "psi-b"
    safe: bool | Auto = "auto"
    eps: Annotated[float, Range(above=0, below=1)] = 0.9
    batches: Literal["three", "one"] = "three"

    def __post_init__(self) -> None:
        super().__post_init__()
        source = f"got covariance {self.covariance!r}"
        if self.batches == "one" and self.covariance != "sampled":
            raise ValueError(f"batches 'one' goes with covariance 'sampled', {source}")
        if self.covariance == "sampled" and self.direction != "psi-b":
            raise ValueError(
                "only direction 'psi-b' has an unbiased form for covariance 'sampled', got "
                f"{self.direction!r}"
            )
        if self.covariance != "exact" and self.safe is True:
            raise ValueError(f"safe steps need the exact B, {source}")

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        measure, length = _STEPS[self.direction]
        scale = 2.0 if self.direction == "natural" else problem.constraint.landing_scale()
        if self.direction == "psi-b":
            length *= 0.5 * scale

        def automatic() -> tuple[Array, int]:
            mean, spent = measure(problem, network, streams, x0)
            return 2.0 * landing_share(problem, 0.7) / (length * mean), spent

        base, penalty, spent = with_penalties(self, len(x0), automatic, 2.0, scale)
        step = base * schedule(self.step_size).scale(0)
        nothing = nothing_seen(len(x0))
        field = self._field(problem, streams, 0, x0, nothing, penalty, nothing)
        return State(x0.copy(), *field, step, base, penalty, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        k = state.k + 1
        eta = state.step_size
        if self._safe:
            safe = problem.constraint.safe_step(
                *state[:2], state.penalty, self.eps, state.product, state.image
            )
            eta = np.minimum(eta, safe)
        x = state.x - eta[:, None, None] * state.field  # (8)
        follows = state.image.size and self.covariance == "exact" and k % REFRESHED
        bx = state.product - eta[:, None, None] * state.image if follows else nothing_seen(len(x))
        field = self._field(problem, streams, k, x, bx, state.penalty, state.matrices)
        if self.direction == "natural":
            step_size = measured_in_metric(self.step_size, state, x, field)
        else:
            step_size = measured(self.step_size, state, x, field.field)
        return State(x, *field, step_size, state.base, state.penalty, k, state.gradients + 1)

    @property
    def _safe(self) -> bool:
        return self.safe is True or (self.safe == "auto" and self.covariance == "exact")

    def _field(
        self,
        problem: P,
        streams: Streams,
        k: int,
        x: Array,
        bx: Array,
        penalty: Array,
        matrices: Array,
    ) -> Field:
        """The field at x, and B x unless it is given as ``bx``."""
        nothing = nothing_seen(len(x))
        if self.covariance == "sampled":
            constraint = problem.constraint
            products = cast(SampledProducts, problem)
            size = cast(int, self.batch_size)
            if self.batches == "one":
                xi = passing(streams, k, size, int(products.n_samples[0]))
                bx = bx2 = products.product_on(x, xi)
            else:
                xi, zeta, zeta2 = draws(products, streams, k, size, 3)
                bx = products.product_on(x, zeta)
                bx2 = products.product_on(x, zeta2)
            g = products.gradient_on(x, xi)
            value = constraint.landing_from_products(x, g, bx, bx2, penalty)  # (2), (3)
            return Field(value, bx, nothing, matrices)
        constraint, g, matrices = self.drawn(problem, streams, k, x, matrices)
        bx = bx if bx.size else constraint.product(x)
        if self.direction == "natural":
            value, image = constraint.natural_landing(x, g, penalty, bx)
            return Field(value, bx, image, matrices)
        value = constraint.landing(x, g, penalty, self.direction, bx)  # (13)
        return Field(value, bx, constraint.product(value) if self._safe else nothing, matrices)
