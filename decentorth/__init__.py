"""decentorth: decentralized optimization under orthogonality constraints.

    import decentorth as do, topologies as tp

    W = tp.uniform_weights(tp.ring(10), self_weight=0.8)
    problem = do.problems.Procrustes(A, B)
    result = do.solve(problem, do.DRFGT(step_size=1e-2, penalty=10.0), W, iterations=3000)

Names are imported when first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from ._mpienv import expected_ranks, prepare
from ._version import __version__

if expected_ranks()[0] > 1:
    from ._ending import end_job_on_error

    prepare()
    end_job_on_error()

if TYPE_CHECKING:
    from . import algorithms, data, problems, sets, stopping
    from .algorithms import (
        CDADT,
        CSDM,
        DESTINY,
        DGD,
        DPRGD,
        DPRGT,
        DRFGT,
        DRGTA,
        DRSGD,
        DRSM,
        GSJOBCD,
        JADMM,
        JJOBCD,
        PCAL,
        PLAM,
        REXTRA,
        RFEXTRA,
        RGD,
        RSM,
        RSSM,
        UMCM,
        VRJJOBCD,
        DeEPCA,
        GeneralizedDRFGT,
        GeneralizedLanding,
        GradientTracking,
        HyperbolicJacobi,
        Landing,
    )
    from .api import Result, iterate, solve
    from .checkpoint import CheckpointError, Checkpoints
    from .network import Channel, connect
    from .registry import register
    from .survival import Loss, LostError

_PLACES = {
    "Channel": "network",
    "CSDM": "algorithms",
    "CDADT": "algorithms",
    "CheckpointError": "checkpoint",
    "Checkpoints": "checkpoint",
    "DESTINY": "algorithms",
    "DGD": "algorithms",
    "DPRGD": "algorithms",
    "DPRGT": "algorithms",
    "DRFGT": "algorithms",
    "DRGTA": "algorithms",
    "DRSGD": "algorithms",
    "DRSM": "algorithms",
    "DeEPCA": "algorithms",
    "GSJOBCD": "algorithms",
    "GeneralizedDRFGT": "algorithms",
    "GeneralizedLanding": "algorithms",
    "GradientTracking": "algorithms",
    "HyperbolicJacobi": "algorithms",
    "JADMM": "algorithms",
    "JJOBCD": "algorithms",
    "Landing": "algorithms",
    "PCAL": "algorithms",
    "PLAM": "algorithms",
    "REXTRA": "algorithms",
    "RFEXTRA": "algorithms",
    "RGD": "algorithms",
    "RSM": "algorithms",
    "RSSM": "algorithms",
    "Loss": "survival",
    "LostError": "survival",
    "Result": "api",
    "UMCM": "algorithms",
    "VRJJOBCD": "algorithms",
    "connect": "network",
    "iterate": "api",
    "register": "registry",
    "solve": "api",
}
_ROOMS = ("algorithms", "data", "problems", "sets", "stopping")

__all__ = [
    "CDADT",
    "CSDM",
    "DESTINY",
    "DGD",
    "DPRGD",
    "DPRGT",
    "DRFGT",
    "DRGTA",
    "DRSGD",
    "DRSM",
    "GSJOBCD",
    "JADMM",
    "JJOBCD",
    "PCAL",
    "PLAM",
    "REXTRA",
    "RFEXTRA",
    "RGD",
    "RSM",
    "RSSM",
    "UMCM",
    "VRJJOBCD",
    "Channel",
    "CheckpointError",
    "Checkpoints",
    "DeEPCA",
    "GeneralizedDRFGT",
    "GeneralizedLanding",
    "GradientTracking",
    "HyperbolicJacobi",
    "Landing",
    "Loss",
    "LostError",
    "Result",
    "__version__",
    "algorithms",
    "connect",
    "data",
    "iterate",
    "problems",
    "register",
    "sets",
    "solve",
    "stopping",
]


def __getattr__(name: str) -> object:
    if name in _ROOMS:
        return import_module(f".{name}", __name__)
    if name in _PLACES:
        return getattr(import_module(f".{_PLACES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
