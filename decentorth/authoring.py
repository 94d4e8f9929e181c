"""Names for methods and problems of one's own, which ``decentorth new`` writes.

Base classes, step sizes and fields of methods; base classes and checks of problems; types of
settings; random streams and arrays on devices; and all protocols, such as ``Problem`` and ``Network``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .algorithms.common.automatic_steps import resolve as resolve
    from .algorithms.common.automatic_steps import tracking_aim as tracking_aim
    from .algorithms.common.fields import blockwise as blockwise
    from .algorithms.common.fields import landing as landing
    from .algorithms.common.fields import refresh as refresh
    from .algorithms.common.fields import riemannian as riemannian
    from .algorithms.common.method import Decentralized as Decentralized
    from .algorithms.common.method import Method as Method
    from .algorithms.common.method import Retracting as Retracting
    from .algorithms.common.method import SingleAgentMethod as SingleAgentMethod
    from .algorithms.common.mixing import average as average
    from .algorithms.common.schedules import Auto as Auto
    from .algorithms.common.step_sizes import ConstantStepSize as ConstantStepSize
    from .algorithms.common.step_sizes import GrowingStepSize as GrowingStepSize
    from .algorithms.common.step_sizes import StepSize as StepSize
    from .algorithms.common.step_sizes import advanced as advanced
    from .algorithms.decentralized.tracking import ManifoldTracking as ManifoldTracking
    from .algorithms.decentralized.tracking import TrackingState as TrackingState
    from .numerics.devices import on_host as on_host
    from .numerics.devices import open_device as open_device
    from .numerics.random_streams import CounterStreams as CounterStreams
    from .problems.base import AgentProblem as AgentProblem
    from .problems.base import Selection as Selection
    from .problems.common.checks import matrices as matrices
    from .problems.deferred import Deferred as Deferred
    from .problems.deferred import on_each_rank as on_each_rank
    from .problems.loadable import Loadable as Loadable
    from .protocols import *  # noqa: F403
    from .settings import Count as Count
    from .settings import Natural as Natural
    from .settings import Positive as Positive
    from .settings import Settings as Settings

__getattr__, __dir__ = lazily(__name__)
