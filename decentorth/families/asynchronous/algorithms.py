"""The algorithms of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .asynchronous_drfgt import AsynchronousDRFGT as AsynchronousDRFGT

__getattr__, __dir__ = lazily(__name__)
