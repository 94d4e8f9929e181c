"""The sets of this family, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from decentorth._lazy import lazily

if TYPE_CHECKING:
    from .j_orthogonal import JOrthogonal as JOrthogonal
    from .j_orthogonal_stack import JOrthogonalStack as JOrthogonalStack

__getattr__, __dir__ = lazily(__name__)
