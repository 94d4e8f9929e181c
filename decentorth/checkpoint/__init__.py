"""Checkpoints: the state of a run as files, written while it goes on, and read to go on with it on any number of ranks."""

from .files import FOLDER, CheckpointError, kept, newest_notes
from .keeper import Checkpoints, Identity, Keeper, Moment, interval
from .resuming import Resumed, resume

__all__ = [
    "FOLDER",
    "CheckpointError",
    "Checkpoints",
    "Identity",
    "Keeper",
    "Moment",
    "Resumed",
    "interval",
    "kept",
    "newest_notes",
    "resume",
]
