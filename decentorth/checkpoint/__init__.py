"""Checkpoints: the state of a run as files, written while it goes on, and read to go on with it on any number of ranks."""

from .files import CheckpointError, newest_notes
from .keeper import Checkpoints, Identity, Keeper, Moment
from .resuming import Resumed, resume

__all__ = ["CheckpointError", "Checkpoints", "Identity", "Keeper", "Moment", "Resumed", "newest_notes", "resume"]
