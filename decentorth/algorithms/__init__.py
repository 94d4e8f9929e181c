"""Methods, one file each, written against stacked arrays and `Network.mix` alone."""

from .cdadt import CDADT
from .csdm import CSDM, CSDMState
from .deepca import DeEPCA, DeEPCAState
from .descent import DescentState
from .destiny import DESTINY
from .dgd import DGD
from .double_tracking import DoubleTrackingState
from .dprgd import DPRGD
from .dprgt import DPRGT
from .drfgt import DRFGT
from .drgta import DRGTA
from .drsgd import DRSGD
from .drsm import DRSM
from .generalized_drfgt import GeneralizedDRFGT
from .generalized_landing import GeneralizedLanding, GeneralizedLandingState
from .gradient_tracking import GradientTracking
from .gs_jobcd import GSJOBCD
from .hyperbolic_jacobi import HyperbolicJacobi, HyperbolicJacobiState
from .j_jobcd import JJOBCD
from .jadmm import JADMM, JADMMState
from .jobcd import JOBCDState
from .landing import Landing, LandingState
from .pcal import PCAL
from .plam import PLAM, PLAMState
from .rextra import REXTRA, REXTRAState
from .rfextra import RFEXTRA, RFEXTRAState
from .rgd import RGD, RGDState
from .rsm import RSM, RSMState
from .rssm import RSSM, RSSMState
from .safe import Safe, SafeState
from .tracking import PenalisedState, TrackingState
from .umcm import UMCM, UMCMState
from .vr_j_jobcd import VRJJOBCD, VRJJOBCDState

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
    "CSDMState",
    "DeEPCA",
    "DeEPCAState",
    "DescentState",
    "DoubleTrackingState",
    "GeneralizedDRFGT",
    "GeneralizedLanding",
    "GeneralizedLandingState",
    "GradientTracking",
    "HyperbolicJacobi",
    "HyperbolicJacobiState",
    "JADMMState",
    "JOBCDState",
    "Landing",
    "LandingState",
    "PLAMState",
    "PenalisedState",
    "REXTRAState",
    "RFEXTRAState",
    "RGDState",
    "RSMState",
    "RSSMState",
    "Safe",
    "SafeState",
    "TrackingState",
    "UMCMState",
    "VRJJOBCDState",
]
