"""DGD: decentralized gradient descent in Euclidean space, a baseline without a constraint, or with
a soft one.

Nedic & Ozdaglar, "Distributed subgradient methods for multi-agent optimization", IEEE Trans. Autom.
Control 2009; Yuan, Ling, Yin, "On the convergence of decentralized gradient descent", SIAM J.
Optim. 2016. From a common start, every agent repeats

    x_i <- sum_j W_ij x_j - a_k F_i(x_i)                                               (1)

with F_i(x) = G_i(x) + lambda x (x^T x - I), the Euclidean gradient of f_i + lambda/4 ||x^T x -
I||_F^2; lambda = 0 leaves the gradient of f_i.

    W_ij    network.mix             a_k     step_size  (n_local,), a_0 base
    x_i     state.x                 lambda  penalty
    F_i     constraint.penalised(x, gradient, penalty)

Nothing brings the points to the constraint set: the metrics project the agents' mean, and report
the feasibility of the points as it is. Without a penalty the points go towards a minimiser of the
unconstrained problem (PCA has none: they grow until the run is stopped as diverged); with one,
towards a minimiser of the penalised problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...protocols import Array, Network, Oracle, Problem, Streams
from ..common import Soft, StepSize, advanced, agreed, blockwise, soft
from .descent import DescentState as State
from .descent import begun, descent_limit

P = Problem[object]


@dataclass(frozen=True, kw_only=True)
class DGD(Soft):
    """Decentralized gradient descent in Euclidean space, the control without a constraint.

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DGD(penalty=2.0, step_size=1e-3)
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> objective = result.history["objective"]
    >>> bool(objective[-1] < objective[0])
    True
    """

    on_devices: ClassVar[bool] = True
    agrees: ClassVar[bool] = False

    step_size: StepSize = "diminishing"

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        def automatic() -> tuple[Array, int]:
            # where ||x|| = s, the penalty's curvature is below 3 lambda s^2, and lambda s^3 <=
            # ||G|| <= Lhat at a minimiser of the penalised problem: 3 lambda^(1/3) Lhat^(2/3) <=
            # lambda + 2 Lhat
            share = 0.5 if self.penalty == 0.0 else 0.5 / 3.0
            added = 2.0 / 3.0 * self.penalty
            return agreed(
                problem, network, streams, x0, share * descent_limit(network), 1.6, added=added
            )

        return begun(self.step_size, x0, automatic)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        (mixed,) = network.mix(state.x)

        def move(f: Oracle[object], x: Array, mixed: Array, a: Array) -> Array:
            return mixed - a[:, None, None] * soft(f, x, self.penalty)  # (1)

        x = blockwise(move, self.oracle(problem, streams, state.k), state.x, mixed, state.step_size)
        return advanced(self.step_size, state, x=x)
