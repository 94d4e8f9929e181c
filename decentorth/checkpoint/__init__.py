"""Checkpoints: the state of a run as files, written while it goes on, and read to go on with it on any number of ranks."""

from .files import FOLDER, CheckpointError, kept, limited
from .keeper import LOOK_SECONDS, Checkpoints, Identity, Keeper, Moment, interval, look_ahead
from .resuming import Begun, Losses, Resumed, newest_notes, resume

__all__ = [
    "FOLDER",
    "LOOK_SECONDS",
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
    "look_ahead",
    "newest_notes",
    "resume",
]
