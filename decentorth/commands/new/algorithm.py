"""Template: decentralized landing without tracking. Replace the mathematics by yours.

First name the method, with its citation, and give its update equations with the source's numbers:

    x_i <- sum_j W_ij x_j - alpha Lambda_i(x_i)                                        (1)

the landing counterpart of decentralized gradient descent (Nedic & Ozdaglar 2009). With a constant
alpha it stops near, not at, a minimiser: the agents pull apart. Then list every symbol with its
name in the code, and the differences from the source:

    W_ij    network.mix             alpha   step_size  (n_local,)
    x_i     state.x                 lambda  penalty    (n_local,)
    Lambda  constraint.landing(x, gradient, penalty)

A method that is exact with a constant step also declares ``limits``, and its automatic steps grow
(docs/own_method.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from decentorth.authoring import (
    Array,
    Auto,
    ConstantStepSize,
    Landing,
    Method,
    Network,
    Positive,
    Problem,
    Streams,
    blockwise,
    landing,
    resolve,
    tracking_aim,
)


class TemplateState(NamedTuple):
    """Arrays with the agent axis first, and integer counters; x, k and gradients are required."""

    x: Array
    step_size: Array
    penalty: Array
    k: int
    gradients: int


@dataclass(frozen=True, kw_only=True)
class Template(Method):
    """One line that describes the method; the fields below become flags of the command line, with
    this text as help.

    Parameters
    ----------
    step_size
        alpha > 0, or auto.
    penalty
        lambda > 0 of the landing field, or auto: 0.1 / step_size, smaller where W has eigenvalues
        near -1.
    """

    step_size: ConstantStepSize = "auto"
    penalty: Positive | Auto = "auto"

    @property
    def requires(self) -> tuple[type, ...]:
        """The capabilities that its problem must have, such as Smooth."""
        return ()

    @property
    def requires_set(self) -> tuple[type, ...]:
        """The capabilities that the problem's constraint set must have."""
        return (Landing,)

    def init(
        self, problem: Problem[Landing], network: Network, streams: Streams, x0: Array
    ) -> TemplateState:
        aim = partial(tracking_aim, network, "combine-then-adapt", self.step_size)
        step, penalty, spent = resolve(self, problem, network, streams, x0, aim)
        return TemplateState(x0.copy(), step, penalty, 0, spent)

    def step(
        self, problem: Problem[Landing], network: Network, streams: Streams, state: TemplateState
    ) -> TemplateState:
        (x,) = network.mix(state.x)
        # (1)
        x -= state.step_size[:, None, None] * blockwise(landing, problem, state.x, state.penalty)
        return state._replace(x=x, k=state.k + 1, gradients=state.gradients + 1)
