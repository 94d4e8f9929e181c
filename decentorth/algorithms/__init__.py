"""Methods, one file each, written against stacked arrays and `Network.mix` alone; what is imported here can be named on the command
line and in files."""

from .cdadt import CDADT as CDADT
from .csdm import CSDM as CSDM
from .deepca import DeEPCA as DeEPCA
from .destiny import DESTINY as DESTINY
from .dgd import DGD as DGD
from .dprgd import DPRGD as DPRGD
from .dprgt import DPRGT as DPRGT
from .drfgt import DRFGT as DRFGT
from .drgta import DRGTA as DRGTA
from .drsgd import DRSGD as DRSGD
from .drsm import DRSM as DRSM
from .generalized_drfgt import GeneralizedDRFGT as GeneralizedDRFGT
from .generalized_landing import GeneralizedLanding as GeneralizedLanding
from .gradient_tracking import GradientTracking as GradientTracking
from .gs_jobcd import GSJOBCD as GSJOBCD
from .hyperbolic_jacobi import HyperbolicJacobi as HyperbolicJacobi
from .j_jobcd import JJOBCD as JJOBCD
from .jadmm import JADMM as JADMM
from .landing import Landing as Landing
from .pcal import PCAL as PCAL
from .plam import PLAM as PLAM
from .rextra import REXTRA as REXTRA
from .rfextra import RFEXTRA as RFEXTRA
from .rgd import RGD as RGD
from .rsm import RSM as RSM
from .rssm import RSSM as RSSM
from .safe import Safe as Safe
from .umcm import UMCM as UMCM
from .vr_j_jobcd import VRJJOBCD as VRJJOBCD
