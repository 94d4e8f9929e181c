"""The theory of paper 004 (Sun, Chen, Garcia, Shahrampour, "Global convergence of decentralized retraction-free optimization on
the Stiefel manifold") as functions: its constants and guaranteed steps, its merit function, and, beyond it, the exact linear rate
near a solution. ``python -m decentorth.theory`` prints every constant for a problem and a graph.
"""

from .constants import (
    Constants,
    constants,
    contraction_limit,
    contraction_matrix,
    descent_ratio,
    ergodic_bounds,
    ergodic_step,
    gradient_ratio,
    landing_lipschitz,
    merit_smoothness,
    merit_smoothness_quadratic,
    merit_weight,
    safe_step,
    stable_step,
)
from .local import LocalRate, landing_jacobian, local_rate, solution
from .merit import Merit, merit, merit_gradient
from .region import Suprema, region_points, suprema

__all__ = [
    "Constants",
    "LocalRate",
    "Merit",
    "Suprema",
    "constants",
    "contraction_limit",
    "contraction_matrix",
    "descent_ratio",
    "ergodic_bounds",
    "ergodic_step",
    "gradient_ratio",
    "landing_jacobian",
    "landing_lipschitz",
    "local_rate",
    "merit",
    "merit_gradient",
    "merit_smoothness",
    "merit_smoothness_quadratic",
    "merit_weight",
    "region_points",
    "safe_step",
    "solution",
    "stable_step",
    "suprema",
]
