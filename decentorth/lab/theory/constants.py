"""The constants, guaranteed steps and bounds of paper 004, each from earlier constants and with its
equation.

Where a printed statement fails, a repaired form is given beside it:

- Proposition III.3 bounds the smoothness of the merit function by Lhat + (2 + 3 eps) gamma. The
  source it cites has the smoothness of f + h in place of Lhat, which can be larger: for f(x) = -c
  x^2/2 on R the second derivative at the region's outer border is c (4 + 6 eps) + (2 + 3 eps)
  gamma, and Lhat = c sqrt(1 + eps). `merit_smoothness_quadratic` is a proved bound.
- Lemma IV.3 bounds ||(W - I) x|| by sigma_W ||x - xbar||; the norm of W - I off the mean is 1 -
  lambda_min (1 for uniform averaging over a complete graph, where sigma_W = 0).
  `contraction_matrix` takes it as ``disagreement``.
- Lemma VI.7 uses that the gradient of the merit function on St is the landing field. It is the
  tangent part of the Euclidean gradient, whose normal-space component is twice as long:
  `gradient_ratio` is the printed constant.
- Lemma IV.6 and Theorem IV.7 print L where their proof needs the Lipschitz constant of the landing
  field (L' in (26)).
- Corollary IV.5 uses Lemma IV.3: with ``disagreement`` the step must be at most 1/sqrt(2) of
  `contraction_limit`.
- (27) bounds ||x^T x - I|| by (1 + eps) times the distance to St; the factor is 1 + sqrt(1 + eps).
  Nothing depends on it.
- Theorem IV.7 needs alpha <= rho / (8 L') too, which only the appendix's restatement (Theorem VI.8)
  says.
- Proposition IV.1 asks for xbar within eps/2 of orthonormality and ||x - xbar||_F <= eps/2, and its
  proof uses that then every
  ||x_i^T x_i - I||_F <= eps, which does not follow.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from ...algorithms.decentralized.safe import Eps
from ...protocols import Array, Nonsmooth, OrthonormalLanding, Problem
from ...settings import check
from .region import suprema


def merit_weight(
    lipschitz: float, symmetric: float, largest: float, penalty: float, eps: float
) -> float:
    """The least weight gamma of p (9): max(lam, 2/(3 - 4 eps) (L (1 - eps) + 3 s + Lhat^2 (1 +
    eps)/lam))."""
    bound = lipschitz * (1.0 - eps) + 3.0 * symmetric + largest**2 * (1.0 + eps) / penalty
    return max(penalty, 2.0 / (3.0 - 4.0 * eps) * bound)


def merit_smoothness(largest: float, gamma: float, eps: float) -> float:
    """The constant L' as printed: Lhat + (2 + 3 eps) gamma (Proposition III.3, 1)."""
    return largest + (2.0 + 3.0 * eps) * gamma


def merit_smoothness_quadratic(
    lipschitz: float, gradient: float, symmetric: float, gamma: float, eps: float
) -> float:
    """A proved bound on the merit function's smoothness for quadratic f: (3 + 3 eps) L + 2 sqrt(1 +
    eps) sup||G|| + s + (2 + 3 eps) gamma.

    Along a unit direction v, with N = x^T x - I, the second derivative of f is at most L and that
    of h is -<v^T H v, N> - <sym(v^T G) + sym(x^T H v), v^T x + x^T v> - <sym(x^T G), v^T v>, at
    most eps L + 2 sqrt(1 + eps) (sup||G|| + sqrt(1 + eps) L)
    + s.
    """
    own = (3.0 + 3.0 * eps) * lipschitz + 2.0 * math.sqrt(1.0 + eps) * gradient
    return own + symmetric + (2.0 + 3.0 * eps) * gamma


def landing_lipschitz(lipschitz: float, gradient: float, penalty: float, eps: float) -> float:
    """A proved bound on L_Lambda, the Lipschitz constant of the landing field on the region.

    It is (1 + eps) L + 2 sqrt(1 + eps) sup||G|| + (2 + 3 eps) lam. The paper only states
    L_Lambda <= L'.
    """
    own = (1.0 + eps) * lipschitz + 2.0 * math.sqrt(1.0 + eps) * gradient
    return own + (2.0 + 3.0 * eps) * penalty


def descent_ratio(gamma: float, penalty: float, eps: float) -> float:
    """The ratio rho = min(1/2, nu / (4 lam^2 (1 + eps))), nu = lam gamma: <Lambda, grad L> >= rho
    ||Lambda||^2 (Prop. III.3, 2)."""
    return min(0.5, gamma / (4.0 * penalty * (1.0 + eps)))


def gradient_ratio(smoothness: float, penalty: float, eps: float) -> float:
    """The ratio C = 2 L' / (lam (1 - eps)) + 1: ||grad L(x)|| <= C ||Lambda(x)|| (Lemma VI.7)."""
    return 2.0 * smoothness / (penalty * (1.0 - eps)) + 1.0


def safe_step(
    n_agents: int, sigma: float, smoothness: float, field: float, penalty: float, eps: float
) -> float:
    """The step alpha_safe up to which the iterates stay in the safety region (Proposition IV.1,
    (17)).

    ``smoothness`` is L', and ``field`` is G, a bound on ||grad f_i(x)||_F = ||skew(G_i x^T) x||_F
    on the region.
    """
    push = field + penalty * eps * (1.0 + eps)
    contraction = (1.0 - sigma) ** 2
    inward = penalty**2 * (1.0 + eps / 2.0) * eps**2
    return min(
        penalty * eps * (1.0 - eps / 4.0) * contraction / (16.0 * smoothness * push),
        contraction * eps / (4.0 * math.sqrt(n_agents) * push),
        2.0 * penalty * eps * (2.0 - eps) / (16.0 * field**2 + inward),
        math.sqrt(n_agents) / smoothness,
        math.sqrt(eps / (8.0 * field**2)),
        1.0 / (2.0 * penalty),
    )


def contraction_matrix(
    step: float, sigma: float, smoothness: float, disagreement: float | None = None
) -> Array:
    """Return the ``(2, 2)`` matrix of Theorem IV.4.

    It bounds (||y - ybar||^2 / L', L' ||x - xbar||^2) by the same pair one iteration earlier.
    ``disagreement`` is the norm of W - I off the mean. By default it is sigma, as printed in
    Lemma IV.3; with 1 - lambda_min the bound is true.
    """
    shrink = 0.5 * (1.0 + sigma**2)
    spread = (1.0 + sigma**2) / (1.0 - sigma**2)
    product = (step * smoothness) ** 2
    if disagreement is None:
        disagreement = sigma
    first = [shrink + 4.0 * product * spread, 2.0 * disagreement**2 * spread]
    return np.array([first, [spread * product, shrink]])


def stable_step(sigma: float, smoothness: float) -> float:
    """The step (1 - sigma^2)^2 / ((1 + sigma^2) 4 L') below which the contraction matrix is stable
    (Theorem IV.4; sufficient)."""
    return (1.0 - sigma**2) ** 2 / ((1.0 + sigma**2) * 4.0 * smoothness)


def contraction_limit(sigma: float, smoothness: float, disagreement: float | None = None) -> float:
    """The step below which the contraction matrix is stable, and at which its spectral radius is 1.

    From det(I - matrix) = 0: (a L')^2 = (1 - s)^2 / (4 b (2 (1 - s) + 2 w^2 b)), s = sigma^2, b =
    (1 + s)/(1 - s), w the ``disagreement`` (sigma as printed, where the limit is 1.41 to 1.75 times
    `stable_step`).
    """
    s = sigma**2
    spread = (1.0 + s) / (1.0 - s)
    if disagreement is None:
        disagreement = sigma
    square = (1.0 - s) ** 2 / (4.0 * spread * (2.0 * (1.0 - s) + 2.0 * disagreement**2 * spread))
    return math.sqrt(square) / smoothness


def ergodic_step(sigma: float, smoothness: float, rho: float, ratio: float) -> float:
    """Return the step (rho (1 - sigma^2)^4 / ((1 + sigma^2)^2 C^2))^(1/3) / (4 L').

    It is that of Theorem IV.7; the appendix also requires at most rho / (8 L').
    """
    s = sigma**2
    return math.cbrt(rho * (1.0 - s) ** 4 / ((1.0 + s) ** 2 * ratio**2)) / (4.0 * smoothness)


class Constants(NamedTuple):
    """All constants for one problem, graph, penalty and safety factor, see `meanings`; steps are
    the largest guaranteed ones.

    Examples
    --------
    >>> import decentorth as do
    >>> import numpy as np
    >>> import topologies as tp
    >>> from decentorth import theory
    >>> rng = np.random.default_rng(0)
    >>> samples = rng.standard_normal((120, 5)) * np.arange(1, 6)
    >>> problem = do.problems.PCA(np.array_split(samples, 4), 2)
    >>> found = tp.spectrum(tp.metropolis_weights(tp.ring(4)))
    >>> ends = found.sigma, found.lambda_min
    >>> constants = theory.constants(problem, *ends, penalty=10.0)
    >>> constants.kind, bool(0 < constants.safe < constants.stable)
    ('exact', True)
    """

    n_agents: int
    sigma: float
    lambda_min: float
    """The smallest eigenvalue of W."""
    penalty: float
    eps: float
    kind: Literal["exact", "bound", "sampled"]
    """The kind of L, sup ||G|| and s, see `Suprema`."""
    lipschitz: float
    gradient: float
    symmetric: float
    largest: float
    field: float
    gamma: float
    nu: float
    smoothness: float
    smoothness_quadratic: float
    field_lipschitz: float
    rho: float
    ratio: float
    safe: float
    stable: float
    limit: float
    repaired: float
    ergodic: float
    appendix: float

    @property
    def guaranteed(self) -> float:
        """The largest step with all guarantees of the paper: safety, stability and the ergodic
        rate."""
        return min(self.safe, self.stable, self.ergodic, self.appendix)


def check_problem(problem: Problem[Any]) -> None:
    """Raise ValueError for a problem to which the paper does not apply: it is about smooth
    objectives on the Stiefel manifold."""
    name = type(problem).__name__
    constraint = problem.constraint
    if isinstance(problem, Nonsmooth) and problem.nonsmooth:
        fault = f"{name} is not smooth"
    elif not isinstance(constraint, OrthonormalLanding):
        fault = f"{name} is on {constraint!r}"
    else:
        return
    raise ValueError(
        f"paper 004 guarantees steps for smooth objectives on the Stiefel manifold, and {fault}: "
        "take the problem procrustes, pca, ica, matrix_completion, or one of your own of this kind"
    )


def constants(
    problem: Problem[object],
    sigma: float,
    lambda_min: float,
    penalty: float,
    eps: float = 0.5,
    *,
    seed: int = 0,
) -> Constants:
    """All constants for a problem whose agents are all in this process; L and the suprema are the
    largest over them.

    ``sigma`` and ``lambda_min`` are the second largest singular value and the smallest eigenvalue
    of W; ``seed`` is that of sampled suprema, see `suprema`. Raises ValueError unless 0 <= sigma <
    1, lam > 0 and 0 < eps < 3/4, and as `check_problem`.
    """
    check_problem(problem)
    eps = check("eps", Eps, eps)
    if not penalty > 0.0:
        raise ValueError(f"the penalty must be positive, got {penalty}")
    if not 0.0 <= sigma < 1.0:
        raise ValueError(f"sigma must lie in [0, 1), got {sigma}: W must average")
    top = suprema(problem, eps, seed=seed)
    largest = max(top.lipschitz, top.gradient)
    gamma = merit_weight(top.lipschitz, top.symmetric, largest, penalty, eps)
    smoothness = merit_smoothness(largest, gamma, eps)
    proved = merit_smoothness_quadratic(top.lipschitz, top.gradient, top.symmetric, gamma, eps)
    field = (1.0 + eps) * top.gradient
    own = landing_lipschitz(top.lipschitz, top.gradient, penalty, eps)
    rho = descent_ratio(gamma, penalty, eps)
    ratio = gradient_ratio(smoothness, penalty, eps)
    return Constants(
        n_agents=problem.n_agents,
        sigma=sigma,
        lambda_min=lambda_min,
        penalty=penalty,
        eps=eps,
        **top._asdict(),
        largest=largest,
        field=field,
        gamma=gamma,
        nu=penalty * gamma,
        smoothness=smoothness,
        smoothness_quadratic=proved,
        field_lipschitz=own,
        rho=rho,
        ratio=ratio,
        safe=safe_step(problem.n_agents, sigma, smoothness, field, penalty, eps),
        stable=stable_step(sigma, smoothness),
        limit=contraction_limit(sigma, smoothness),
        repaired=contraction_limit(sigma, own, 1.0 - lambda_min),
        ergodic=ergodic_step(sigma, smoothness, rho, ratio),
        appendix=rho / (8.0 * smoothness),
    )


def ergodic_bounds(
    constants: Constants,
    step: float,
    iterations: int,
    descent: float,
    spread: float,
    *,
    printed: bool = True,
) -> tuple[float, float]:
    """The two bounds of Theorem IV.7: on the means over k of ||Lambda(xbar_k)||_F^2 and of ||x_k -
    xbar_k||_F^2.

    ``descent`` is L(xbar_0) - L(xbar_K) of the merit function, or an upper bound; ``spread`` is
    ||y_0 - ybar_0||_F^2 over agents. ``printed`` takes the L of the printed theorem instead of the
    L_Lambda that its proof needs.
    """
    c = constants
    s = constants.sigma**2
    own = {True: c.lipschitz, False: c.field_lipschitz}[printed]
    start = (1.0 + s) / (1.0 - s) ** 3 * spread
    field = 4.0 / (step * c.rho) * descent
    field += 32.0 * (step * c.ratio * own) ** 2 / (c.rho**2 * c.n_agents) * start
    consensus = 16.0 * step**2 * (1.0 + 1.0 / (c.rho * c.n_agents)) * start
    cube = step**3
    consensus += (1.0 + s) ** 2 / (1.0 - s) ** 4 * 512.0 * cube * c.smoothness**2 / c.rho * descent
    return field / iterations, consensus / iterations
