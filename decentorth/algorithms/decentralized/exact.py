"""Methods that are exact with a constant step: what they declare so that their automatic steps can
grow.

A method of one's own inherits `Exact`, and its state is a NamedTuple with the fields x, step_size,
base, k, gradients and ``progress: Any = ()``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

from ...protocols import Array, Network, Problem, Spectrum
from ..common import Decentralized, GrowingStepSize, Method, changed
from ..common.schedules import Growing as GrowingStep
from .growing_steps import Growing, JudgedState

_CAP = 2.0**1.5
"""The longest step of tracking with one exchange, in units of sqrt(gap) / curvature, beyond which
the network is too slow for it. With 2, DRGTA takes 2.3 in place of 1.5 times the iterations of the
best constant step on Procrustes over a ring with self-weights of 0.8."""


class Judged(Method):
    """A method whose ``step_size`` can be judged by the agents' moves.

    Its state is a `JudgedState`.
    """

    step_size: Any

    @property
    def exact(self) -> bool:
        """True if its gradients are exact and its steps are as given."""
        return True

    @property
    def follows(self) -> bool:
        """True if the penalties are multiples of 1 / step."""
        return False

    def most(self, spectrum: Spectrum) -> float:
        """The largest m on a network with this spectrum."""
        return math.inf

    def gap(self, spectrum: Spectrum) -> float:
        """The share of the slowest disagreement that an iteration removes."""
        return 1.0 - spectrum.lambda_2

    def rescaled(self, state: JudgedState, step: Array, ratio: float) -> JudgedState:
        """Return the state with the steps ``step``, which are ``ratio`` times the earlier ones."""
        return changed(state, step_size=step, base=step)

    def penalised(
        self, problem: Problem[object], state: JudgedState, penalty: Array
    ) -> JudgedState:
        """The state with the penalties that follow the steps, if `follows`."""
        return changed(state, penalty=penalty)

    def resolved(self, network: Network) -> Self:
        """This method, with growing steps for automatic ones if several agents on a steady network
        can judge them."""
        grows = self.step_size == "auto" and self.exact and network.steady and network.n_agents > 1
        return replace(self, step_size=GrowingStep()) if grows else self

    def running(self) -> Any:
        """The method that is run: this one, or this one wrapped in `Growing`."""
        return Growing(self) if isinstance(self.step_size, GrowingStep) else self


@dataclass(frozen=True, kw_only=True)
class Exact(Judged, Decentralized):
    """A method that is exact with a constant step, so that its step can be judged by its moves.

    Parameters
    ----------
    step_size
        A number > 0; constant: from the agents' Lipschitz constants, the spectrum of W and a given
        penalty; growing: start there and increase the step while the agents' moves allow; auto:
        growing where that is possible, otherwise constant; or a schedule (diminishing, horizon).
    """

    step_size: GrowingStepSize = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.step_size, GrowingStep) and not self.exact:
            raise ValueError(
                "growing steps are judged by moves along exact gradients: leave out batch_size "
                "and safe, or take step_size auto"
            )

    @property
    def exact(self) -> bool:
        return self.batch_size is None


def most_tracking(gap: float, aim: float) -> float:
    """The largest m of tracking with one exchange, whose first step times curvature is ``aim``."""
    return round(6.0 * math.log2(_CAP * math.sqrt(gap) / aim))
