"""Constraint sets with their capabilities, as pure functions of stacked arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .euclidean import Euclidean as Euclidean
    from .generalized import GeneralizedStiefel as GeneralizedStiefel
    from .j_orthogonal import JOrthogonal as JOrthogonal
    from .j_orthogonal_stack import JOrthogonalStack as JOrthogonalStack
    from .operators import SampleCovariance as SampleCovariance
    from .product import Flat as Flat
    from .product import Product as Product
    from .stiefel import Stiefel as Stiefel

__getattr__, __dir__ = lazily(__name__)
