"""The kinds of runs of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .kind import AsynchronousRun as AsynchronousRun
    from .kind import Restarting as Restarting

__getattr__, __dir__ = lazily(__name__)
