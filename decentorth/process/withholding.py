"""Errors about a site's samples, whose reason stays on the screen of the site."""

from __future__ import annotations

_NOTE = "The other ranks read only which site cannot continue."


class WithheldError(ValueError):
    """The failure of another rank's site, without its reason."""


def withhold(error: Exception) -> None:
    """Mark the error of this rank as one whose reason the other ranks do not have."""
    if not withheld(error):
        error.add_note(_NOTE)


def withheld(error: BaseException | None) -> bool:
    """True for an error, or the consequence of one, whose reason only this rank has."""
    while error is not None:
        if _NOTE in getattr(error, "__notes__", ()):
            return True
        error = error.__cause__
    return False
