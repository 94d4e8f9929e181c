"""Constraint sets with their capabilities, as pure functions of stacked arrays."""

from .euclidean import Euclidean
from .generalized import GeneralizedStiefel
from .j_orthogonal import JOrthogonal
from .j_orthogonal_stack import JOrthogonalStack
from .operators import SampleCovariance
from .product import Flat, Product
from .stiefel import Stiefel

__all__ = ["Euclidean", "Flat", "GeneralizedStiefel", "JOrthogonal", "JOrthogonalStack", "Product", "SampleCovariance", "Stiefel"]
