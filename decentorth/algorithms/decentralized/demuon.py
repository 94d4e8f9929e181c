"""DeMuon: decentralized steps along the matrix sign of tracked gradients.

He, Ren, Mao, Larsson, "DeMuon: a decentralized Muon for matrix optimization over graphs", 2025
(arXiv 2510.01377), whose update is for the space of matrices; here for any set with tangents and a
projection, which in that space are the identity. From a common start, M_i(0) = g_i(x_0) and V(0) =
W M(0), every agent repeats

    X_i <- P_M(sum_j W_ij (X_j - eta_k msgn(P_{X_j}(V_j))))                            (1)
    M_i <- (1 - theta) M_i + theta g_i(new X_i),    g_i = P_{X_i}(G_i)                  (2)
    V_i <- sum_j W_ij (V_j + new M_j - old M_j)                                        (3)

The gradients are tracked first, and the sign is taken of the tracker: where it is zero, the mean
gradient is. SUDA-Muon (arXiv 2604.23980, its abstract) proves that the other order, tracking of
signs, rests at points that are not stationary; a test has such a point. With one agent on a Stiefel
manifold it is `spel`.

    W_ij    network.mix             eta    step_size  (n_local,)     P_M, P_X  constraint.project, tangent
    X_i     state.x                 theta  weight                    msgn      spectral_steps, times the nuclear norm
    V_i     state.tracker           M_i    state.field                         with ``length="nuclear"``

Beyond the paper: the projections, ``length="nuclear"``, exact with a constant step, and automatic
steps: those of `drgta` (for two exchanges) over the number of singular values; for unit lengths
that times the agents' mean nuclear norm at the start, as the first of diminishing steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...numerics.ordered_sums import sums
from ...protocols import Array, Network, Problem, Spectral, Streams
from ..common import Decentralized, StepSize, advanced, average, blockwise, riemannian, steepness
from ..common.automatic_steps import curved_step, start, tracking_step
from ..common.spectral_steps import Length, Weight, spectral_step
from .tracking import TrackingState as State

P = Problem[Spectral]


@dataclass(frozen=True, kw_only=True)
class DeMuon(Decentralized):
    """Decentralized Muon: steps along matrix signs of tracked gradients (He, Ren, Mao, Larsson
    2025).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.DeMuon()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Spectral,)

    step_size: StepSize = "diminishing"
    length: Length = "unit"
    weight: Weight = 1.0

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        field = blockwise(riemannian, self.oracle(problem, streams, 0), x0)

        def automatic() -> tuple[Array, int]:
            c, gap = 0.7, 1.0
            if network.n_agents > 1:
                c = tracking_step(network.spectrum, "adapt-then-combine")
                gap = 1.0 - network.spectrum.lambda_2
            steep, spent = steepness(problem, network, streams, x0)
            step = curved_step(steep, c, gap) / problem.constraint.singular_values
            if self.length == "unit":
                step = step * average(network, sums(problem.constraint.matrix_sign(field) * field))
            return step, spent

        step, base, spent = start(self.step_size, len(x0), automatic)
        (tracker,) = network.mix(field)
        return State(x0.copy(), tracker, field, step, base, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        constraint = problem.constraint
        move = spectral_step(constraint, state.x, state.tracker, state.step_size, self.length)
        (mixed,) = network.mix(state.x - move)
        x = constraint.project(mixed, "polar")  # (1)
        field = blockwise(riemannian, self.oracle(problem, streams, state.k + 1), x)
        if self.weight < 1.0:
            field = state.field + self.weight * (field - state.field)  # (2)
        (v,) = network.mix(state.tracker + field - state.field)  # (3)
        return advanced(self.step_size, state, x=x, tracker=v, field=field)
