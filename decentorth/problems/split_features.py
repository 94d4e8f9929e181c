"""The makers of problems whose agents hold features, each from the settings of a problem."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from ..families.features.split_pca import *  # noqa: F403

__getattr__, __dir__ = lazily(__name__)
