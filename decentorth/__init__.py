"""decentorth: decentralized optimization under orthogonality constraints.

    import decentorth as do, topologies as tp

    W = tp.uniform_weights(tp.ring(10), self_weight=0.8)
    problem = do.problems.Procrustes(A, B)
    result = do.solve(problem, do.DRFGT(step_size=1e-2, penalty=10.0), W, iterations=3000)

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily
from decentorth._version import __version__ as __version__
from decentorth.process.environment import expected_ranks, prepare

if expected_ranks()[0] > 1:
    from decentorth.process.abort import end_job_on_error
    from decentorth.process.process_ends import mark_end

    prepare()
    end_job_on_error()
    mark_end()

if TYPE_CHECKING:
    from . import algorithms as algorithms
    from . import data as data
    from . import problems as problems
    from . import recorders as recorders
    from . import sets as sets
    from . import stopping as stopping
    from .algorithms import *  # noqa: F403
    from .api import Result as Result
    from .api import iterate as iterate
    from .api import solve as solve
    from .api.certificate import Certificate as Certificate
    from .api.certificate import certify as certify
    from .api.finished_run import FinishedRun as FinishedRun
    from .api.finished_run import load as load
    from .api.losses import Loss as Loss
    from .api.losses import LostError as LostError
    from .network import Channel as Channel
    from .network import connect as connect
    from .registry import register as register
    from .running.checkpoint import Checkpoints as Checkpoints
    from .running.checkpoint.checkpoint_files import CheckpointError as CheckpointError

__getattr__, __dir__ = lazily(__name__)
