"""A user's own objectives with gradients by automatic differentiation: functions in JAX, PyTorch or
autograd, and PyTorch modules.

The libraries are imported when a problem is made, not with this package.
"""

from .modules import ModuleProblem as ModuleProblem
from .modules import from_module as from_module
from .objective import DifferentiatedProblem as DifferentiatedProblem
from .objective import from_function as from_function
