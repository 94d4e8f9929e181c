"""The sets of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .generalized import GeneralizedStiefel as GeneralizedStiefel
    from .operators import SampleCovariance as SampleCovariance

__getattr__, __dir__ = lazily(__name__)
