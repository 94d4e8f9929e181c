"""Checkpoints: the state of a run as files, written while it goes on, and read to go on with it on any number of ranks."""

from .files import FOLDER, CheckpointError, kept, limited
from .keeper import Checkpoints, Identity, Keeper, Moment, interval
from .resuming import Begun, Losses, Resumed, newest_notes, resume

__all__ = [
    "FOLDER",
    "Begun",
    "CheckpointError",
    "Checkpoints",
    "Identity",
    "Keeper",
    "Losses",
    "Moment",
    "Resumed",
    "interval",
    "kept",
    "limited",
    "newest_notes",
    "resume",
]
