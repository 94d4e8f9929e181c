"""Methods, one file each, written against stacked arrays and `Network.mix` alone; what is imported
here can be named on the command line and in files, by the name of its file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .asynchronous.asynchronous_drfgt import AsynchronousDRFGT as AsynchronousDRFGT
    from .centralized.conjugate_gradients import ConjugateGradients as ConjugateGradients
    from .centralized.generalized_landing import GeneralizedLanding as GeneralizedLanding
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
    from .decentralized.generalized_drfgt import GeneralizedDRFGT as GeneralizedDRFGT
    from .decentralized.gradient_tracking import GradientTracking as GradientTracking
    from .decentralized.local_tracking import LocalTracking as LocalTracking
    from .decentralized.push_pull import PushPull as PushPull
    from .decentralized.rextra import REXTRA as REXTRA
    from .decentralized.rfextra import RFEXTRA as RFEXTRA
    from .decentralized.rmtracking import RMTracking as RMTracking
    from .decentralized.safe import Safe as Safe
    from .decentralized.saga_drfgt import SagaDRFGT as SagaDRFGT
    from .decentralized.vr_drfgt import VRDRFGT as VRDRFGT
    from .features.lobpcg import LOBPCG as LOBPCG
    from .features.tracked_landing import TrackedLanding as TrackedLanding
    from .j_orthogonal.csdm import CSDM as CSDM
    from .j_orthogonal.gs_jobcd import GSJOBCD as GSJOBCD
    from .j_orthogonal.hyperbolic_jacobi import HyperbolicJacobi as HyperbolicJacobi
    from .j_orthogonal.j_jobcd import JJOBCD as JJOBCD
    from .j_orthogonal.jadmm import JADMM as JADMM
    from .j_orthogonal.umcm import UMCM as UMCM
    from .j_orthogonal.vr_j_jobcd import VRJJOBCD as VRJJOBCD
    from .nonsmooth.drproxgt import DRProxGT as DRProxGT
    from .nonsmooth.drsm import DRSM as DRSM
    from .nonsmooth.prextra import PREXTRA as PREXTRA
    from .nonsmooth.rsm import RSM as RSM
    from .nonsmooth.rssm import RSSM as RSSM

WRAPPERS = ("Safe",)
"""Names that are no methods by themselves."""

__getattr__, __dir__ = lazily(__name__)
