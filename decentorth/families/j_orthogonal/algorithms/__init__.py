"""The algorithms of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .csdm import CSDM as CSDM
    from .gs_jobcd import GSJOBCD as GSJOBCD
    from .hyperbolic_jacobi import HyperbolicJacobi as HyperbolicJacobi
    from .j_jobcd import JJOBCD as JJOBCD
    from .jadmm import JADMM as JADMM
    from .umcm import UMCM as UMCM
    from .vr_j_jobcd import VRJJOBCD as VRJJOBCD

__getattr__, __dir__ = lazily(__name__)
