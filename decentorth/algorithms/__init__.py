"""Methods, one file each, written against stacked arrays and `Network.mix` alone."""

from .destiny import DESTINY, DESTINYState
from .dprgt import DPRGT
from .drfgt import DRFGT, DRFGTState
from .drgta import DRGTA
from .gradient_tracking import GradientTracking
from .landing import Landing, LandingState
from .tracking import TrackingState

__all__ = [
    "DESTINY",
    "DPRGT",
    "DRFGT",
    "DRGTA",
    "DESTINYState",
    "DRFGTState",
    "GradientTracking",
    "Landing",
    "LandingState",
    "TrackingState",
]
