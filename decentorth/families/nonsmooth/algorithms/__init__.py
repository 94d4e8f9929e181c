"""The algorithms of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .drproxgt import DRProxGT as DRProxGT
    from .drsm import DRSM as DRSM
    from .prextra import PREXTRA as PREXTRA
    from .rsm import RSM as RSM
    from .rssm import RSSM as RSSM

__getattr__, __dir__ = lazily(__name__)
