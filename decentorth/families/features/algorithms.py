"""The algorithms of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .lobpcg import LOBPCG as LOBPCG
    from .tracked_landing import TrackedLanding as TrackedLanding

__getattr__, __dir__ = lazily(__name__)
