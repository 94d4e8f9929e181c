"""Fair comparisons of methods; the code is in `decentorth.lab.compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .lab.compare import *  # noqa: F403

__getattr__, __dir__ = lazily(__name__)
