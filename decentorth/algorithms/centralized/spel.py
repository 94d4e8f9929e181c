"""SPEL: steepest descent in the spectral norm on the Stiefel manifold, for one agent.

Yang, Lai, "Manifold constrained steepest descent", ICML 2026 (arXiv 2601.21487), whose update was
at hand and whose text was not:

    M <- (1 - theta) M + theta grad f(new x)                                           (1)
    x <- P_M(x - eta_k msgn(P_x(M)))                                                   (2)

    x     state.x                   eta    step_size, from base
    M     state.field               P_x, P_M   constraint.tangent, project
    msgn  spectral_steps            theta  weight

The means are of Euclidean gradients there, of Riemannian ones here: the same for theta = 1. Steps
do not shrink with the gradient, so eta must. Beyond the paper: ``length="nuclear"``, exact with a
constant step, and automatic steps, both as in `demuon`, which is this method over a network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from ..decentralized.demuon import DeMuon


@dataclass(frozen=True, kw_only=True)
class SPEL(DeMuon):
    """Steepest descent in the spectral norm, for a single agent (Yang, Lai 2026).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(1, seed=0)
    >>> method = do.SPEL()
    >>> result = do.solve(problem, method, iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-1 * norm[0])
    True
    """

    network: ClassVar[Literal["decentralized", "single-agent"]] = "single-agent"
