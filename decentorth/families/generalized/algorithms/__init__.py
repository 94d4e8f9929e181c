"""The algorithms of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .generalized_drfgt import GeneralizedDRFGT as GeneralizedDRFGT
    from .generalized_landing import GeneralizedLanding as GeneralizedLanding

__getattr__, __dir__ = lazily(__name__)
