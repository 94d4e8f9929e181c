"""decentorth: decentralized optimization under orthogonality constraints.

    import decentorth as do, topologies as tp

    W = tp.uniform_weights(tp.ring(10), self_weight=0.8)
    problem = do.problems.Procrustes(A, B)
    result = do.solve(problem, do.DRFGT(step_size=1e-2, penalty=10.0), W, iterations=3000)

Names are imported when first used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING

from ._version import __version__ as __version__
from .process.environment import expected_ranks, prepare

if expected_ranks()[0] > 1:
    from .process.abort import end_job_on_error
    from .process.leaving import mark_end

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
    from .api.rank_loss import Loss as Loss
    from .api.rank_loss import LostError as LostError
    from .api.result import FinishedRun as FinishedRun
    from .api.result import load as load
    from .network import Channel as Channel
    from .network import connect as connect
    from .registry import register as register
    from .running.checkpoint import CheckpointError as CheckpointError
    from .running.checkpoint import Checkpoints as Checkpoints

_PACKAGES = ("algorithms", "data", "problems", "recorders", "sets", "stopping")
_MODULES = {
    **dict.fromkeys(("Result", "iterate", "solve"), "api"),
    **dict.fromkeys(("Certificate", "certify"), "api.certificate"),
    **dict.fromkeys(("FinishedRun", "load"), "api.result"),
    **dict.fromkeys(("CheckpointError", "Checkpoints"), "running.checkpoint"),
    **dict.fromkeys(("Channel", "connect"), "network"),
    **dict.fromkeys(("Loss", "LostError"), "api.rank_loss"),
    "register": "registry",
}
"""The modules of names that are no methods."""


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return import_module(f".{name}", __name__)
    if name in _MODULES:
        return getattr(import_module(f".{_MODULES[name]}", __name__), name)
    if name in _methods():
        return getattr(import_module(".algorithms", __name__), name)
    from .settings import missing

    known: list[str] = []
    if not name.startswith("_"):
        known = __dir__()
    return missing(__name__, known)(name)


def __dir__() -> list[str]:
    return sorted(["__version__", *_PACKAGES, *_MODULES, *_methods()])


def _methods() -> Mapping[str, str]:
    from ._lazy import exports

    return exports(import_module(".algorithms", __name__).__name__)
