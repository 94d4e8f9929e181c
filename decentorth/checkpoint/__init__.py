"""Checkpoints: the state of a run as files, written while it goes on, and read to go on with it on any number of ranks."""

from .files import FOLDER, CheckpointError, kept, newest_notes
from .keeper import Checkpoints, Identity, Keeper, Moment, interval
from .resuming import Begun, Losses, Resumed, resume
from .signals import ENDINGS, PendingSignals

__all__ = [
    "ENDINGS",
    "FOLDER",
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
    "newest_notes",
    "resume",
]
