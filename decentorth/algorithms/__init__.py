"""Methods, one file each, written against stacked arrays and `Network.mix` alone; what is imported
here can be named on the command line and in files, by the name of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..families.asynchronous.algorithms import *  # noqa: F403
    from ..families.features.algorithms import *  # noqa: F403
    from ..families.generalized.algorithms import *  # noqa: F403
    from ..families.j_orthogonal.algorithms import *  # noqa: F403
    from ..families.nonsmooth.algorithms import *  # noqa: F403
    from .auto import AutoMethod as AutoMethod
    from .centralized.block_krylov import BlockKrylov as BlockKrylov
    from .centralized.conjugate_gradients import ConjugateGradients as ConjugateGradients
    from .centralized.direct import Direct as Direct
    from .centralized.landing import Landing as Landing
    from .centralized.lbfgs import LBFGS as LBFGS
    from .centralized.pcal import PCAL as PCAL
    from .centralized.plam import PLAM as PLAM
    from .centralized.pogo import POGO as POGO
    from .centralized.rgd import RGD as RGD
    from .centralized.spel import SPEL as SPEL
    from .decentralized.cdadt import CDADT as CDADT
    from .decentralized.ddrs import DDRS as DDRS
    from .decentralized.deepca import DeEPCA as DeEPCA
    from .decentralized.demuon import DeMuon as DeMuon
    from .decentralized.destiny import DESTINY as DESTINY
    from .decentralized.dgd import DGD as DGD
    from .decentralized.dprgd import DPRGD as DPRGD
    from .decentralized.dprgt import DPRGT as DPRGT
    from .decentralized.dprsrm import DPRSRM as DPRSRM
    from .decentralized.drcgd import DRCGD as DRCGD
    from .decentralized.drfgt import DRFGT as DRFGT
    from .decentralized.drgta import DRGTA as DRGTA
    from .decentralized.drsgd import DRSGD as DRSGD
    from .decentralized.ef_landing import EFLanding as EFLanding
    from .decentralized.gradient_tracking import GradientTracking as GradientTracking
    from .decentralized.local_tracking import LocalTracking as LocalTracking
    from .decentralized.push_pull import PushPull as PushPull
    from .decentralized.rextra import REXTRA as REXTRA
    from .decentralized.rfextra import RFEXTRA as RFEXTRA
    from .decentralized.rmtracking import RMTracking as RMTracking
    from .decentralized.safe import Safe as Safe
    from .decentralized.saga_drfgt import SagaDRFGT as SagaDRFGT
    from .decentralized.vr_drfgt import VRDRFGT as VRDRFGT

WRAPPERS = ("Safe",)
"""Names that are no methods by themselves."""

__getattr__, __dir__ = lazily(__name__)
