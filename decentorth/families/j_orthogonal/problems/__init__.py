"""The problems of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .hevp import HEVP as HEVP
    from .hevp import HEVPSettings as HEVPSettings
    from .hspp import HSPP as HSPP
    from .hspp import HSPPSettings as HSPPSettings
    from .ultrahyperbolic import Ultrahyperbolic as Ultrahyperbolic

__getattr__, __dir__ = lazily(__name__)
