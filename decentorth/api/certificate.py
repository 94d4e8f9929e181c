"""The certificate of a run whose agents hold features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..families.features.exact_end import *  # noqa: F403

__getattr__, __dir__ = lazily(__name__)
