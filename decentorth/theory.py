"""The theory of paper 004 as functions; the code is in `decentorth.lab.theory`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .families.j_orthogonal.algorithms.block_stationarity import (
        block_stationarity as block_stationarity,
    )
    from .lab.theory import *  # noqa: F403

__getattr__, __dir__ = lazily(__name__)
