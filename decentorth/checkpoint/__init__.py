"""Checkpoints: files with the state of a run, written during it, and read to continue it on any number of ranks."""

from .files import FOLDER, CheckpointError, kept, limited
from .keeper import LOOK_SECONDS, Checkpoints, Identity, Keeper, Moment, interval, look_ahead
from .resuming import Begun, Losses, Resumed, newest_notes, resume
from .signals import ENDINGS, PendingSignals

__all__ = [
    "ENDINGS",
    "FOLDER",
    "LOOK_SECONDS",
    "Begun",
    "CheckpointError",
    "Checkpoints",
    "Identity",
    "Keeper",
    "Losses",
    "Moment",
    "PendingSignals",
    "Resumed",
    "interval",
    "kept",
    "limited",
    "look_ahead",
    "newest_notes",
    "resume",
]
