"""The data of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .knowledge import hold_out as hold_out
    from .knowledge import most_frequent as most_frequent
    from .planted_graph import planted_triples as planted_triples
    from .triples import Triples as Triples
    from .triples import load_triples as load_triples

__getattr__, __dir__ = lazily(__name__)
