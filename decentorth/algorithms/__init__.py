"""Methods, one file each, written against stacked arrays and `Network.mix` alone."""

from .drfgt import DRFGT, DRFGTState
from .landing import Landing, LandingState
from .safe import SafeState

__all__ = ["DRFGT", "DRFGTState", "Landing", "LandingState", "SafeState"]
