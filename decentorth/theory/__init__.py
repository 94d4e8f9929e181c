"""The theory of paper 004 (Sun, Chen, Garcia, Shahrampour, "Global convergence of decentralized retraction-free optimization on
the Stiefel manifold") as functions: its constants and guaranteed steps, its merit function, and, beyond it, the exact linear rate
near a solution. ``python -m decentorth theory`` prints every constant for a problem and a graph. `block_stationarity` is the
measure that paper 001's theorems bound.
"""

from .._lazy import lazily
from ..algorithms.j_orthogonal.block_stationarity import block_stationarity as block_stationarity
from .constants import Constants as Constants
from .constants import constants as constants
from .constants import contraction_limit as contraction_limit
from .constants import contraction_matrix as contraction_matrix
from .constants import descent_ratio as descent_ratio
from .constants import ergodic_bounds as ergodic_bounds
from .constants import ergodic_step as ergodic_step
from .constants import gradient_ratio as gradient_ratio
from .constants import landing_lipschitz as landing_lipschitz
from .constants import merit_smoothness as merit_smoothness
from .constants import merit_smoothness_quadratic as merit_smoothness_quadratic
from .constants import merit_weight as merit_weight
from .constants import safe_step as safe_step
from .constants import stable_step as stable_step
from .local import LocalRate as LocalRate
from .local import landing_jacobian as landing_jacobian
from .local import local_rate as local_rate
from .local import solution as solution
from .merit import Merit as Merit
from .merit import merit as merit
from .merit import merit_gradient as merit_gradient
from .region import Suprema as Suprema
from .region import region_points as region_points
from .region import suprema as suprema

__getattr__, __dir__ = lazily(__name__)
