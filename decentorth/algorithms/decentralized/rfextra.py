"""RF-EXTRA: EXTRA without retractions, along the landing field; only points are sent.

Li, Hu, "A retraction-free EXTRA method for decentralized optimization on the Stiefel manifold",
2026 (arXiv 2604.23754). From a common start and u_i = 0, every agent repeats

    x_i <- sum_j W_ij x_j + u_i - alpha F_i(x_i)                                       (1)
    u_i <- u_i + (sum_j W_ij x_j - x_i)/2                                              (2)

with the old points on the right: REXTRA without its projection (`extra`). The field F_i is

- ``direction="landing"``, the default and our own: the landing field Lambda_i of paper 004. Where
  the points agree and stand still, sum_i Lambda_i = 0: a critical point on the manifold, since the
  two parts of Lambda are orthogonal;
- ``direction="mapping"``: an approximate gradient mapping, as the paper's abstract has it. Which
  one is not known; here it is H_i of `destiny`, G_i (3I - x^T x)/2 - x sym(x^T G_i) + lambda x
  (x^T x - I), and lambda must be large enough.

    W_ij    network.mix             alpha   step_size  (n_local,), equal on all agents
    x_i     state.x                 lambda  penalty    (n_local,)
    u_i     state.dual              F_i     constraint.landing or dissolved (x, gradient, penalty)

The paper's text was not at hand; fixed points and exchanges are tested (``test_theorems.py``).
Automatic steps of the mapping are 0.8/7 of the limit over M, and lambda is then 2 M, as in
`destiny`. An iteration sends half the bytes of DRFGT, which sends its trackers too. With one agent
it is the landing algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple, cast

import numpy as np

from ...protocols import Array, Landing, Network, Problem, Streams
from ..common import LandingPenalty, blockwise, given_or, landing, landing_scale
from .destiny import Dissolvable
from .extra import Extra, extra_limit, step_along_gradients, step_along_landing

_MAPPED = 0.8 / 7.0
"""The share of EXTRA's limit for steps times M along the mapping, whose curvature is up to 7 M."""


class RFEXTRAState(NamedTuple):
    """The changing arrays x and dual (u), each ``(n_local, d, r)``, and the constant step_size and
    penalty, ``(n_local,)``."""

    x: Array
    dual: Array
    step_size: Array
    penalty: Array
    k: int
    gradients: int


P = Problem[Landing]
State = RFEXTRAState


@dataclass(frozen=True, kw_only=True)
class RFEXTRA(Extra):
    """Retraction-free EXTRA along the landing field: exact with a constant step, half the bytes of
    DRFGT.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.RFEXTRA()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-3 * norm[0])
    True
    """

    on_devices: ClassVar[bool] = True

    penalty: LandingPenalty = "auto"
    direction: Annotated[
        Literal["landing", "mapping"],
        "The landing field, or the paper's approximate gradient mapping.",
    ] = "landing"

    @property
    def requires_set(self) -> tuple[type, ...]:
        """The field that the set must have."""
        return (Landing,) if self.direction == "landing" else (Dissolvable,)

    @property
    def penalty_follows(self) -> bool:
        return self.penalty == "auto"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        given = problem, network, streams, x0
        if self.direction == "landing":
            step, spent = step_along_landing(self.step_size, self.penalty, *given)
            share = 0.1 / landing_scale(problem.constraint)
        else:
            share = 2.0 * _MAPPED * extra_limit(network)
            step, spent = step_along_gradients(self.step_size, *given, _MAPPED)
        penalty = given_or(self.penalty, share / step)
        return State(x0.copy(), np.zeros_like(x0), step, penalty, 0, spent)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        (mixed,) = network.mix(state.x)

        def moved(part: P, x: Array, mixed: Array, u: Array, alpha: Array, penalty: Array) -> Array:
            if self.direction == "landing":
                field = landing(part, x, penalty)
            else:
                dissolvable = cast(Dissolvable, part.constraint)
                field = dissolvable.dissolved(x, part.gradient(x), penalty)
            point = mixed - alpha[:, None, None] * field + u  # (1)
            u += 0.5 * (mixed - x)  # (2)
            return point

        x = blockwise(moved, problem, state.x, mixed, state.dual, state.step_size, state.penalty)
        k = state.k + 1
        gradients = state.gradients + 1
        return State(x, state.dual, state.step_size, state.penalty, k, gradients)
