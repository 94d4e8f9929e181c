"""EF-Landing: landing along tracked gradients whose messages are compressed with error feedback.

After the abstract of Song, Li, Gao, Yuan, "Distributed retraction-free and communication-efficient
optimization on the Stiefel manifold", ICML 2025 (arXiv 2506.02879): landing, compression, error
feedback, momentum of the gradients, for a server and its nodes. The text was not at hand.
Compression is the network's (``--channel topk:share=0.1``). With feedback, agent j sends the coded
difference C(a_j - m_j) of what it mixes to the sum m_j of all it sent before, and its neighbours
add it to m_j. From a common start with v_i(0) = y_i(0) = G_i(x_0) every agent repeats

    x_i <- x_i + gamma sum_j W_ij (m_j - m_i) - alpha Lambda(x_i; y_i)                  (1)
    v_i <- v_i + theta (G_i(new x_i) - v_i)                                             (2)
    y_i <- y_i + gamma sum_j W_ij (n_j - n_i) + new v_i - old v_i                       (3)
    Lambda(x; y) = skew(y x^T) x + lambda x (x^T x - I)

between neighbours, where m_i and n_i are its public copies of x_i and y_i. The form is derived
here, with the consensus step gamma of Koloskova, Stich, Jaggi 2019 (CHOCO): the fewer entries are
sent, the smaller it must be. The mean of the y_i stays that of the v_i, so a constant step is
exact. `drfgt` tracks Lambda_i in the place of G_i.

``server=True`` has the paper's setting: all agents have the same x, and y is the mean of what was
coded of the v_i. It is added up along a spanning tree of the graph. On a star graph the hub is the
server: each leaf sends it a coded difference, and gets the mean back whole.

    W_ij    network.mix, or total   alpha   step_size  (n_local,)    lambda  penalty
    x_i     state.x                 gamma   consensus_step           theta   weight
    y_i     state.tracker           v_i     state.field              Lambda  constraint.landing(x, y, penalty)

Automatic steps are the constant ones of `drfgt` for whole messages, and those of `landing` for the
server.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Self

from ...protocols import Array, Landing, Network, Problem, Spectrum, Streams
from ...settings import Share
from ..common import Decentralized, TrackingPenalty, Weight, advanced, blockwise, gradient, schedule
from ..common.automatic_steps import Aim, Order, resolve, tracking_limit, tracking_step
from .tracking import PenalisedState as State

P = Problem[Landing]


@dataclass(frozen=True, kw_only=True)
class EFLanding(Decentralized):
    """Landing along tracked gradients, for compressed messages (after the abstract of Song, Li,
    Gao, Yuan 2025).

    Examples
    --------
    >>> import decentorth as do
    >>> settings = do.problems.PCASettings(data="synthetic", rank=3)
    >>> problem = settings.problem(10, seed=0)
    >>> method = do.EFLanding()
    >>> result = do.solve(problem, method, "ring", iterations=300)
    >>> norm = result.history["gradient_norm"]
    >>> bool(norm[-1] < 1e-2 * norm[0])
    True
    """

    requires_set: ClassVar[tuple[type, ...]] = (Landing,)

    penalty: TrackingPenalty = "auto"
    consensus_step: Annotated[Share, "gamma: the share of the way to the neighbours' mean."] = 1.0
    weight: Weight = 1.0
    server: Annotated[bool, "Add up over all agents, in place of mixing with neighbours."] = False

    @property
    def mixes(self) -> bool:
        return not self.server

    def for_network(self, network: Network) -> Self:
        """This method; a ValueError for the server form where `total` cannot be used."""
        if self.server and not network.sums:
            raise ValueError(
                "the server form adds up over all agents, and this network changes over time, "
                "loses or delays messages, or corrects trackers: leave server out, or take topk, "
                "randomk and quantize alone"
            )
        return self

    def init(self, problem: P, network: Network, streams: Streams, x0: Array) -> State:
        def aim() -> Aim:
            if self.server or network.n_agents == 1:
                return Aim()
            gap, last = (self.consensus_step * (1.0 - w) for w in network.spectrum)
            spectrum = Spectrum(1.0 - gap, 1.0 - last)
            order: Order = "combine-then-adapt"
            return Aim(tracking_limit(spectrum, order), tracking_step(spectrum, order))

        base, penalty, spent = resolve(self, problem, network, streams, x0, aim, self.batch_size)
        v = blockwise(gradient, self.oracle(problem, streams, 0), x0)
        y = v.copy()
        if self.server:
            sums = network.total(base, penalty, v)
            base, penalty, y = [one / network.n_agents for one in sums]  # equal on all agents
        step = base * schedule(self.step_size).scale(0)
        return State(x0.copy(), y, v, step, base, penalty, 0, spent + 1)

    def step(self, problem: P, network: Network, streams: Streams, state: State) -> State:
        x = state.x
        y = state.tracker
        gamma = self.consensus_step
        move = state.step_size[:, None, None] * problem.constraint.landing(x, y, state.penalty)
        if not self.server:
            mixed, shared = network.mix(x, y)
            x = x + gamma * (mixed - x)
            y = y + gamma * (shared - y)
        x = x - move  # (1)
        new = blockwise(gradient, self.oracle(problem, streams, state.k + 1), x)
        v = state.field + self.weight * (new - state.field)  # (2)
        y = y + v - state.field  # (3)
        if self.server:
            y = network.total(v)[0] / network.n_agents
        return advanced(self.step_size, state, x=x, tracker=y, field=v)
