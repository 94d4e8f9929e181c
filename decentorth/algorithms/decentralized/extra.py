"""The common parts of EXTRA methods, which correct decentralized gradient descent without sending
gradients.

Shi, Ling, Wu, Yin, "EXTRA: an exact first-order algorithm for decentralized consensus
optimization", SIAM J. Optim. 2015. With V = (I + W)/2, a field F_i (a gradient, Riemannian gradient
or landing field) and s_i(0) = -alpha F_i(x_0),

    x_i <- sum_j W_ij x_j + s_i                                                                       (1)
    s_i <- sum_j (W - V)_ij x_j + s_i - alpha (F_i(new x_i) - F_i(old x_i))                           (2)

where both sums are over the old points. Summed over the iterations, (2) reads s_i = u_i - alpha
F_i(x_i) with u_i(0) = 0 and

    u_i <- u_i + sum_j (W - V)_ij x_j = u_i + (sum_j W_ij x_j - x_i)/2                                (2')

The methods compute (2'): one mixing serves both equations, one message with one array goes to each
neighbour, and no gradient has to be kept. W's columns sum to 1, so the u_i sum to zero and the s_i
to -alpha sum_i F_i: where the points agree and stand still, sum_i F_i = 0. Where messages are one
iteration late, an eigenvalue 1 - l of W gives z^3 - 2 z^2 + (1 + l) z - l/2 = 0: a root lies
outside the unit circle, whatever the step. The step alpha must be constant and equal on all agents,
since u_i converges to a value that cancels alpha F_i(x_i).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

import numpy as np

from ...protocols import Array, Limits, Network, Problem, Spectrum, Streams
from ...settings import Form
from ..common import Auto, Constant, Growing, Method, Schedule, Spent, StepSize, agreed, checked
from ..common.automatic_steps import landing_scale, landing_share, start

_WHY = (
    "each agent's correction comes to cancel the step size times its own gradient, which it "
    "cannot while that changes freely"
)
_Checked = Form(partial(checked, allowed=(Constant, Growing), why=_WHY))


@dataclass(frozen=True, kw_only=True)
class Extra(Method):
    """An EXTRA method.

    Parameters
    ----------
    step_size
        alpha > 0; constant: from the agents' gradients and Lipschitz constants, their weights in W
        and a given penalty; growing: start there and increase the step while the agents' moves
        allow; auto: growing where that is possible, otherwise constant.
    """

    on_time: ClassVar[bool] = True
    scaled: ClassVar[tuple[str, ...]] = ("dual",)
    """At rest u = alpha F."""

    step_size: Annotated[float | str | Schedule, _Checked] = "auto"

    def limits(self, spectrum: Spectrum) -> Limits:
        return Limits(1.0 - spectrum.lambda_2)


P = Problem[object]


def extra_limit(network: Network) -> float:
    """Return the largest stable product of step and curvature for equal agents.

    It is (5 + 3 w)/4, where w is the smallest eigenvalue of W, and 2 for a single agent.
    """
    if network.n_agents == 1:
        return 2.0
    return (5.0 + 3.0 * network.spectrum.lambda_min) / 4.0


def step_along_gradients(
    step_size: StepSize,
    problem: P,
    network: Network,
    streams: Streams,
    x0: Array,
    share: float = 0.5,
) -> Spent:
    """Return the steps along Riemannian gradients, ``(n_local,)``, and the gradients spent.

    The steps are given, or automatic: a share of the limit.
    """
    largest = share * extra_limit(network)
    step, _, spent = start(
        step_size, len(x0), lambda: agreed(problem, network, streams, x0, largest, 1.6)
    )
    return step, spent


def step_along_landing(
    step_size: StepSize,
    penalty: float | Auto,
    problem: P,
    network: Network,
    streams: Streams,
    x0: Array,
) -> Spent:
    """Return the steps along landing fields, ``(n_local,)``, and the gradients spent.

    The steps are given or automatic. In the complement of x the field is half the Riemannian
    gradient; in the span of x it equals the Riemannian gradient. Twice the step therefore moves
    equally far in the complement and twice as far in the span, which reduces the stable range.
    Off the manifold no W makes 0.5 / Lhat safe.

    The curvature of a given penalty is twice the penalty. With a given penalty, the automatic
    step is at most half of the stability limit. If the set's landing field is longer, by
    `landing_scale`, the steps are divided by that factor.
    """
    scale = landing_scale(problem.constraint)

    def automatic() -> Spent:
        share = landing_share(problem, 0.35 * min(extra_limit(network), 1.0))
        step, spent = agreed(problem, network, streams, x0, share, 1.0)
        step *= 2.0 / scale
        if penalty != "auto":
            step = np.minimum(step, 0.25 * extra_limit(network) / (scale * penalty))
        return step, spent

    step, _, spent = start(step_size, len(x0), automatic)
    return step, spent
