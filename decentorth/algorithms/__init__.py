"""Methods, one file each, written against stacked arrays and `Network.mix` alone."""

from .deepca import DeEPCA, DeEPCAState
from .descent import DescentState
from .dgd import DGD
from .dprgd import DPRGD
from .drfgt import DRFGT, DRFGTState
from .drsgd import DRSGD
from .landing import Landing, LandingState
from .rextra import REXTRA, REXTRAState
from .rfextra import RFEXTRA, RFEXTRAState
from .safe import SafeState

__all__ = [
    "DGD",
    "DPRGD",
    "DRFGT",
    "DRSGD",
    "REXTRA",
    "RFEXTRA",
    "DRFGTState",
    "DeEPCA",
    "DeEPCAState",
    "DescentState",
    "Landing",
    "LandingState",
    "REXTRAState",
    "RFEXTRAState",
    "SafeState",
]
