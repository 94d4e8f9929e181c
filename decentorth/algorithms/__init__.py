"""Methods, one file each, written against stacked arrays and `Network.mix` alone."""

from .drfgt import DRFGT, DRFGTState
from .generalized_landing import GeneralizedLanding, GeneralizedLandingState
from .landing import Landing, LandingState
from .pcal import PCAL
from .plam import PLAM, PLAMState
from .rgd import RGD, RGDState

__all__ = [
    "DRFGT",
    "PCAL",
    "PLAM",
    "RGD",
    "DRFGTState",
    "GeneralizedLanding",
    "GeneralizedLandingState",
    "Landing",
    "LandingState",
    "PLAMState",
    "RGDState",
]
