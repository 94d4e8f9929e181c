"""The problems of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .knowledge import Completions as Completions
    from .knowledge import KnowledgeGraph as KnowledgeGraph
    from .ranking import filtered_ranks as filtered_ranks
    from .ranking import rank_measures as rank_measures
    from .ultrae import UltraE as UltraE
    from .ultrae_settings import UltraESettings as UltraESettings

__getattr__, __dir__ = lazily(__name__)
