"""Methods, one file each, written against stacked arrays and `Network.mix` alone."""

from .cdadt import CDADT
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
from .landing import Landing, LandingState
from .pcal import PCAL
from .plam import PLAM, PLAMState
from .rextra import REXTRA, REXTRAState
from .rfextra import RFEXTRA, RFEXTRAState
from .rgd import RGD, RGDState
from .rsm import RSM, RSMState
from .rssm import RSSM, RSSMState
from .safe import SafeState
from .tracking import PenalisedState, TrackingState

__all__ = [
    "CDADT",
    "DESTINY",
    "DGD",
    "DPRGD",
    "DPRGT",
    "DRFGT",
    "DRGTA",
    "DRSGD",
    "DRSM",
    "PCAL",
    "PLAM",
    "REXTRA",
    "RFEXTRA",
    "RGD",
    "RSM",
    "RSSM",
    "DeEPCA",
    "DeEPCAState",
    "DescentState",
    "DoubleTrackingState",
    "GeneralizedDRFGT",
    "GeneralizedLanding",
    "GeneralizedLandingState",
    "GradientTracking",
    "Landing",
    "LandingState",
    "PLAMState",
    "PenalisedState",
    "REXTRAState",
    "RFEXTRAState",
    "RGDState",
    "RSMState",
    "RSSMState",
    "SafeState",
    "TrackingState",
]
