"""Constraint sets with their capabilities, as pure functions of stacked arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..families.generalized.sets import *  # noqa: F403
    from ..families.j_orthogonal.sets import *  # noqa: F403
    from .euclidean import Euclidean as Euclidean
    from .product import Flat as Flat
    from .product import Product as Product
    from .stiefel import Stiefel as Stiefel

__getattr__, __dir__ = lazily(__name__)
