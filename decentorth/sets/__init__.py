"""Constraint sets with their capabilities, as pure functions of stacked arrays."""

from typing import TYPE_CHECKING

from ..settings import missing
from .euclidean import Euclidean
from .generalized import GeneralizedStiefel
from .j_orthogonal import JOrthogonal
from .j_orthogonal_stack import JOrthogonalStack
from .operators import SampleCovariance
from .product import Product
from .stiefel import Stiefel

__all__ = ["Euclidean", "GeneralizedStiefel", "JOrthogonal", "JOrthogonalStack", "Product", "SampleCovariance", "Stiefel"]

if not TYPE_CHECKING:
    __getattr__ = missing(__name__, __all__)
