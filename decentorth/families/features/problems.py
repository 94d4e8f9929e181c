"""The problems of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .split import SplitCCA as SplitCCA
    from .split import SplitGEVP as SplitGEVP
    from .split import SplitPCA as SplitPCA
    from .split import SplitPencil as SplitPencil

__getattr__, __dir__ = lazily(__name__)
